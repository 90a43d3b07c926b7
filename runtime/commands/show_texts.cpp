//===- show_texts.cpp - generated texts, as they are shown ----------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/commands/show_texts.h"

#include "runtime/commands/commands.h"
#include "runtime/support/progress.h"
#include "runtime/support/utf8.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unistd.h>
#include <utility>

using nlohmann::json;
using nlohmann::ordered_json;

namespace tfm {

namespace {

/// Tokens a second, with those of a stop text and an end token: they took their
/// time, too.
double speedOf(const Generated &text) {
  return text.drawn == 0 ? 0 : static_cast<double>(text.drawn) / text.seconds;
}

std::string speedText(double speed) {
  return fmt::format("{:.{}f} tokens/s", speed, speed < 1000 ? 1 : 0);
}

std::string secondsText(double seconds) {
  if (seconds >= 1)
    return fmt::format("{:.3g} s", seconds);
  return fmt::format("{:.{}f} ms", 1e3 * seconds, seconds < 0.01 ? 2 : 0);
}

/// A seed that decided about texts and that the user does not know.
std::string seedText(const GenerateOptions &options) {
  return options.isNamedSeed || !options.sampler.draws()
             ? ""
             : fmt::format("; seed {}", options.seed);
}

/// What ended a text, for people.
std::string endingOf(const Generated &text, const GenerateOptions &options,
                     int64_t context) {
  switch (text.ended) {
  case Ending::EndToken:
    return text.endedBy.empty()
               ? "ended by an end token"
               : "ended by the end token " + quoted(text.endedBy);
  case Ending::Tokens:
    return fmt::format("ended by --tokens {}", options.tokens);
  case Ending::Stop:
    return "ended before the stop text " + quoted(text.endedBy);
  case Ending::Context:
    return fmt::format("ended with its context of {} tokens full", context);
  case Ending::Failed:
    return text.endedBy;
  case Ending::Interrupted:
    break;
  }
  return "interrupted";
}

/// The same for programs.
const char *nameOf(Ending ending) {
  switch (ending) {
  case Ending::EndToken:
    return "end token";
  case Ending::Tokens:
    return "tokens";
  case Ending::Stop:
    return "stop";
  case Ending::Context:
    return "context";
  case Ending::Failed:
    return "failed";
  case Ending::Interrupted:
    break;
  }
  return "interrupted";
}

/// The probabilities of the tokens of a text: of each its own, and those of the
/// best in its place.
ordered_json chancesOf(const Generated &text, const Tokenizer &tokenizer,
                       int32_t before) {
  ordered_json all = ordered_json::array();
  size_t count = text.ids.size(),
         each = count == 0 ? 0 : text.chances.size() / count;
  for (size_t i = 0; i < count; ++i) {
    int32_t previous = i == 0 ? before : text.ids[i - 1];
    auto json = [&](const TokenChance &chance) -> ordered_json {
      std::string bytes;
      tokenizer.decode(chance.token, previous, bytes);
      return {{"id", chance.token},
              {"text", replaceInvalidUtf8(bytes)},
              {"logprob", chance.logprob}};
    };
    ordered_json token = json(text.chances[i * each]);
    ordered_json best = ordered_json::array();
    for (size_t k = 1; k < each; ++k)
      best.push_back(json(text.chances[i * each + k]));
    token["best"] = std::move(best);
    all.push_back(std::move(token));
  }
  return all;
}

} // namespace

std::string quoted(const std::string &text) {
  return json(text).dump(-1, ' ', /*ensure_ascii=*/false,
                         json::error_handler_t::replace);
}

void saySummary(const Generated &text, const GenerateOptions &options,
                int64_t context, const std::string &which) {
  size_t count = text.ids.size();
  std::string speed = count == 0 ? " after " + secondsText(text.seconds)
                                 : ", " + speedText(speedOf(text)) +
                                       ", the first after " +
                                       secondsText(text.firstSeconds);
  say(fmt::format("{}{} token{}{}; {}{}\n", which, count, count == 1 ? "" : "s",
                  speed, printable(endingOf(text, options, context)),
                  which.empty() ? seedText(options) : ""));
}

TextProgress::TextProgress(size_t count, std::string what)
    : count(count), what(std::move(what)), isLive(isatty(STDERR_FILENO) == 1),
      began(now()), lastDrawn(began) {}

void TextProgress::drew(size_t more) {
  tokens += more;
  if (count < 2 || now() - lastDrawn < (isLive ? 0.1 : 5.0))
    return;
  lastDrawn = now();
  double speed =
      static_cast<double>(tokens) / std::max(1e-9, lastDrawn - began);
  say(fmt::format("{}{}/{} texts{}  {} tokens  {}{}", isLive ? "\r" : "", ended,
                  count, what, tokens, speedText(speed),
                  isLive ? "\x1b[K" : "\n"));
  isDrawn = isLive;
}

void TextProgress::clear() {
  if (isDrawn)
    say("\r\x1b[K");
  isDrawn = false;
}

TextShow::TextShow(const Texts &texts) : texts(texts), began(now()) {
  for (const std::vector<int32_t> &one : texts.tokens)
    count += one.empty() ? 0 : static_cast<size_t>(texts.copies);
}

void TextShow::end(size_t text, Generated generated) {
  if (generated.ended == Ending::Failed && isOnly()) {
    whyFailed = generated.endedBy;
  } else if (generated.ended == Ending::Failed) {
    say(printable(fmt::format("error: {}text {} of {}: {}",
                              startOfErrors(texts.promptOf(text).origin),
                              text + 1, texts.size(), generated.endedBy)) +
        "\n");
  }
  ++ended;
  whole += generated.ended != Ending::Interrupted;
  tokens += generated.ids.size();
}

void TextShow::finish() {
  std::string all =
      isWhole()
          ? fmt::format("{} text{}", count, count == 1 ? "" : "s")
          : fmt::format("interrupted: {} of {} texts are whole", whole, count);
  if (texts.size() > 1)
    say(fmt::format("{}, {} tokens in {}, {}{}\n", all, tokens,
                    secondsText(now() - began),
                    speedText(static_cast<double>(tokens) / (now() - began)),
                    seedText(texts.options)));
}

PlainTexts::PlainTexts(const Texts &texts) : TextShow(texts) { awaitTurn(); }

void PlainTexts::awaitTurn() {
  while (turn < texts.size() && texts.tokensOf(turn).empty())
    ++turn;
  isBegun = false;
  if (turn < texts.size() && !texts.options.isInterrupted())
    beginTurn();
}

void PlainTexts::beginTurn() {
  if (std::exchange(isBegun, true))
    return;
  if (ended > 0)
    printText("---\n");
  printText(replaceInvalidUtf8(texts.promptOf(turn).text));
}

void PlainTexts::show(size_t text, std::string_view part) {
  if (text != turn) {
    ahead[text].shown += part;
    return;
  }
  beginTurn();
  printText(part);
}

void PlainTexts::end(size_t text, Generated generated) {
  ahead[text].ended = std::move(generated);
  for (auto next = ahead.find(turn); next != ahead.end();
       next = ahead.find(turn)) {
    beginTurn();
    printText(next->second.shown);
    std::optional<Generated> whole = std::move(next->second.ended);
    ahead.erase(next);
    if (!whole) // what is still to come of it is shown at once
      return;
    printText("\n");
    if (whole->ended != Ending::Failed)
      saySummary(*whole, texts.options, texts.context,
                 texts.size() > 1
                     ? fmt::format("text {} of {}: ", turn + 1, texts.size())
                     : "");
    TextShow::end(turn++, std::move(*whole));
    awaitTurn();
  }
}

void PlainTexts::finish() {
  // Of several processes that were interrupted each has begun some of its own.
  while (!ahead.empty() && ahead.begin()->second.ended) {
    turn = ahead.begin()->first;
    isBegun = false;
    end(turn, *std::move(ahead.begin()->second.ended));
  }
  TextShow::finish();
}

void PlainTexts::breakOff() {
  if (turn < texts.size())
    printText("\n");
}

JsonTexts::JsonTexts(const Texts &texts) : TextShow(texts), progress(count) {
  Generated nothing;
  nothing.ended = Ending::Failed;
  for (size_t text = 0; text < texts.size(); ++text)
    if (texts.tokensOf(text).empty()) {
      nothing.endedBy = texts.promptOf(text).problem;
      print(text, nothing);
    }
}

void JsonTexts::end(size_t text, Generated generated) {
  progress.clear();
  progress.end();
  print(text, generated);
  TextShow::end(text, std::move(generated));
}

void JsonTexts::print(size_t text, const Generated &generated) {
  const std::vector<int32_t> &prompt = texts.tokensOf(text);
  ordered_json answer = {
      {"index", text},
      {"seed", texts.options.sampler.draws() ? ordered_json(texts.options.seed)
                                             : ordered_json()},
      {"prompt", replaceInvalidUtf8(texts.promptOf(text).text)},
      {"text", generated.text},
      {"ids", generated.ids},
      {"tokens", generated.ids.size()},
      {"ended", nameOf(generated.ended)},
      {"ended_by", generated.endedBy.empty()
                       ? ordered_json()
                       : ordered_json(replaceInvalidUtf8(generated.endedBy))},
      {"first_token_seconds", generated.firstSeconds},
      {"seconds", generated.seconds},
      {"tokens_per_second", speedOf(generated)}};
  if (texts.options.logprobs >= 0)
    answer["logprobs"] = chancesOf(
        generated, texts.tokenizer,
        texts.standsAlone(text) || prompt.empty() ? -1 : prompt.back());
  printText(answer.dump() + "\n");
}

void JsonTexts::drew(size_t more) { progress.drew(more); }

void JsonTexts::finish() {
  progress.clear();
  TextShow::finish();
}

} // namespace tfm
