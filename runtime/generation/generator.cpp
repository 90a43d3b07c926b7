//===- generator.cpp - texts, token by token ----------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/generation/generator.h"

#include "runtime/data/dataset.h"
#include "runtime/files/text_settings.h"
#include "runtime/generation/lookahead.h"
#include "runtime/philox.h"
#include "runtime/support/error.h"
#include "runtime/support/progress.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace tfm {

namespace {

/// Text that may be printed: all of `text` that cannot become part of a stop
/// text any more, in whole characters.
size_t safeLength(const std::string &text, size_t longestStop) {
  if (longestStop <= 1)
    return text.size();
  size_t end = text.size() - std::min(text.size(), longestStop - 1);
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80)
    --end;
  return end;
}

} // namespace

GrowingText::GrowingText(const Tokenizer &tokenizer,
                         std::span<const int32_t> prompt,
                         const GenerateOptions &options, uint32_t sequence,
                         bool standsAlone, int64_t context,
                         const TextSink &print)
    : tokenizer(tokenizer), options(options), print(print), sequence(sequence),
      standsAlone(standsAlone), context(context), began(now()),
      history(prompt.begin(), prompt.end()) {
  for (const std::string &stop : options.stop)
    longestStop = std::max(longestStop, stop.size());
}

bool GrowingText::isEnd(int32_t token) const {
  return std::ranges::find(options.endTokens, token) != options.endTokens.end();
}

bool GrowingText::end(Ending how, std::string what) {
  result.ended = how;
  result.endedBy = std::move(what);
  return false;
}

void GrowingText::draw(Sampler &sampler, Chances &chances,
                       const Logits &given) {
  // Chances are a matter of all of them.
  Logits logits = options.logprobs >= 0 ? Logits(given.all()) : given;
  PhiloxBlock random =
      philox(options.seed, Stream::Sample,
             static_cast<uint32_t>(result.ids.size()), 0, sequence);
  try {
    drawn = sampler.sample(logits, history, unit(low64(random)));
  } catch (const NothingToChoose &error) {
    failure = error.what(); // this text ends, and others go on
    return;
  }
  if (options.logprobs >= 0 && !isEnd(drawn))
    chances.append(logits.all(), drawn, options.logprobs, result.chances);
}

bool GrowingText::grow() {
  if (result.ids.empty())
    result.firstSeconds = now() - began;
  if (!failure.empty())
    return end(Ending::Failed, failure);
  bytes.clear();
  bool isFirst = result.ids.empty() && standsAlone;
  tokenizer.decode(drawn, isFirst ? -1 : history.back(), bytes);
  if (isEnd(drawn))
    return end(Ending::EndToken, bytes);
  history.push_back(drawn);
  result.ids.push_back(drawn);
  size_t before = result.text.size();
  // An unfinished character before this token, which stays so, is none of its.
  std::string unfinished = Utf8Stream(characters).finish();
  std::string more = characters.push(bytes);
  begins.push_back(before +
                   (more.starts_with(unfinished) ? unfinished.size() : 0));
  result.text += more;
  // A stop text may have begun before this token.
  size_t from = before - std::min(before, longestStop);
  size_t cut = std::string::npos;
  const std::string *found = nullptr;
  for (const std::string &stop : options.stop) {
    size_t at = stop.empty() ? std::string::npos : result.text.find(stop, from);
    if (at < cut) {
      cut = at;
      found = &stop;
    }
  }
  if (found)
    result.text.resize(cut);
  size_t safe =
      found ? result.text.size() : safeLength(result.text, longestStop);
  if (safe > printed) {
    print(std::string_view(result.text).substr(printed, safe - printed));
    printed = safe;
  }
  if (found)
    return end(Ending::Stop, *found);
  if (static_cast<int64_t>(result.ids.size()) >= options.tokens)
    return end(Ending::Tokens);
  if (options.stopWhenFull && static_cast<int64_t>(history.size()) >= context)
    return end(Ending::Context);
  if (options.isInterrupted())
    return end(Ending::Interrupted);
  return true;
}

Generated GrowingText::finish() {
  result.drawn = result.ids.size() + (result.ended == Ending::EndToken ? 1 : 0);
  if (result.ended == Ending::Stop) {
    while (!begins.empty() && begins.back() >= result.text.size())
      begins.pop_back();
    if (!result.ids.empty())
      result.chances.resize(result.chances.size() / result.ids.size() *
                            begins.size());
    result.ids.resize(begins.size());
  } else {
    result.text += characters.finish();
  }
  if (result.text.size() > printed)
    print(std::string_view(result.text).substr(printed));
  result.seconds = now() - began;
  return std::move(result);
}

namespace {

/// What draws the tokens of all texts.
struct Drawing {
  /// What a thread draws with.
  struct Reader {
    Sampler sampler;
    Chances chances;
  };

  Drawing(LogitsSource &source, const GenerateOptions &options,
          int64_t texts = 1)
      : source(source), options(options) {
    source.interrupt = options.interrupt;
    for (int64_t i = 0; i < std::min(texts, source.readers()); ++i)
      readers.push_back({Sampler(options.sampler, source.vocabulary()),
                         Chances(source.vocabulary())});
  }

  ~Drawing() { source.interrupt = nullptr; }
  Drawing(const Drawing &) = delete;
  Drawing &operator=(const Drawing &) = delete;

  /// Draws a text's next token, which is not added yet.
  void draw(GrowingText &text, const Logits &logits, size_t reader) {
    text.draw(readers[reader].sampler, readers[reader].chances, logits);
  }
  /// Draws and adds it; whether the text goes on.
  bool draw(GrowingText &text, const Logits &logits) {
    draw(text, logits, /*reader=*/0);
    return text.grow();
  }

  LogitsSource &source;
  const GenerateOptions &options;
  std::vector<Reader> readers;
};

/// Goes on with the text at place 0 by some tokens: the one that follows, and
/// those behind it that were proposed and are those that are drawn. A proposal
/// is right where the draw, with the numbers of its position, gives it: a text
/// is the same whatever is proposed. `tokens` is room for them. Returns whether
/// the text goes on.
bool goOn(Drawing &drawing, GrowingText &text, LookaheadAccount &account,
          std::vector<int32_t> &tokens) {
  LogitsSource &source = drawing.source;
  tokens.assign(1, text.last());
  int64_t most = std::min(drawing.options.lookahead, source.extent(0) - 1);
  if (most > 0 && account.wants())
    lookUp(text.tokens(), static_cast<size_t>(most), tokens);
  double began = now();
  if (tokens.size() == 1) {
    Logits logits = source.next(tokens[0]);
    bool goesOn = drawing.draw(text, logits);
    account.plain(now() - began);
    return goesOn;
  }
  LogitRows &rows = source.extend(0, tokens);
  for (size_t i = 0;; ++i) {
    bool goesOn = drawing.draw(text, {rows, static_cast<int64_t>(i)});
    size_t next = i + 1;
    if (goesOn && next < tokens.size() && tokens[next] == text.last())
      continue;
    account.ahead(now() - began, next);
    source.takeBack(0, static_cast<int64_t>(tokens.size() - next));
    return goesOn;
  }
}

/// A whole text behind a prompt, at place 0.
Generated growAlone(Drawing &drawing, GrowingText &text,
                    std::span<const int32_t> prompt,
                    const std::function<void(size_t)> &drew) {
  LookaheadAccount account;
  std::vector<int32_t> tokens;
  size_t before = text.tokens().size();
  try {
    bool goesOn = drawing.options.tokens > 0 &&
                  drawing.draw(text, drawing.source.start(0, prompt));
    while (goesOn) {
      goesOn = drawing.options.lookahead > 0
                   ? goOn(drawing, text, account, tokens)
                   : drawing.draw(text, drawing.source.next(text.last()));
      drew(text.tokens().size() - std::exchange(before, text.tokens().size()));
    }
  } catch (const ReadingEnded &) {
    text.end(Ending::Interrupted);
  }
  return text.finish();
}

} // namespace

Generated generate(LogitsSource &source, const Tokenizer &tokenizer,
                   std::span<const int32_t> prompt,
                   const GenerateOptions &options, const TextSink &print) {
  Drawing drawing(source, options);
  GrowingText text(tokenizer, source.beginning(prompt), options,
                   options.sequence, options.standsAlone(0), source.context(),
                   print);
  Generated whole = growAlone(drawing, text, prompt, [](size_t) {});
  if (whole.ended == Ending::Failed)
    throw NothingToChoose(whole.endedBy);
  return whole;
}

std::vector<size_t> generateAll(LogitsSource &source,
                                const Tokenizer &tokenizer,
                                std::span<const std::vector<int32_t>> prompts,
                                int64_t copies, const GenerateOptions &options,
                                TextAudience &audience) {
  /// Where a text grows.
  struct Place {
    size_t number = 0;
    std::span<const int32_t> prompt;
    TextSink print;
    std::optional<GrowingText> text;
  };
  std::vector<Place> places(
      options.lookahead > 0 ? 1 : static_cast<size_t>(source.places()));
  std::vector<LogitsSource::Step> steps;
  steps.reserve(places.size());
  std::vector<LogitsSource::Start> starts;
  starts.reserve(places.size());
  Drawing drawing(source, options, static_cast<int64_t>(places.size()));
  size_t count = prompts.size() * static_cast<size_t>(copies);
  std::vector<size_t> failed;
  auto tell = [&](size_t number, Generated generated) {
    if (generated.ended == Ending::Failed)
      failed.push_back(number);
    audience.end(number, std::move(generated));
  };
  auto end = [&](Place &place) {
    Generated generated = place.text->finish();
    place.text.reset();
    source.leave(&place - places.data());
    tell(place.number, std::move(generated));
  };
  size_t next = 0;
  /// Puts the next text at a place that has none; whether there is one.
  auto prepare = [&](Place &place) {
    while (next < count && !options.isInterrupted()) {
      place.number = next++;
      size_t prompt = place.number / static_cast<size_t>(copies);
      place.prompt = prompts[prompt];
      if (place.prompt.empty())
        continue;
      place.print = [&audience, number = place.number](std::string_view part) {
        audience.show(number, part);
      };
      place.text.emplace(tokenizer, source.beginning(place.prompt), options,
                         options.sequence + static_cast<uint32_t>(place.number),
                         options.standsAlone(prompt), source.context(),
                         place.print);
      return true;
    }
    return false;
  };
  if (options.lookahead > 0) {
    for (Place &place = places[0]; prepare(place);)
      tell(place.number,
           growAlone(drawing, *place.text, place.prompt,
                     [&](size_t tokens) { audience.drew(tokens); }));
    return failed;
  }
  auto at = [&](int64_t place) -> Place & {
    return places[static_cast<size_t>(place)];
  };
  const LogitsSource::Take draw = [&](std::span<const LogitsSource::Given> of) {
    auto look = [&](size_t i, size_t reader) {
      drawing.draw(*at(of[i].place).text, of[i].logits, reader);
    };
    source.lookAt(of.size(), std::ref(look)); // of which nothing is copied
    for (const LogitsSource::Given &given : of)
      if (Place &place = at(given.place); !place.text->grow())
        end(place);
  };
  try {
    while (true) {
      // Texts of one token make room for others.
      do {
        starts.clear();
        for (Place &place : places) {
          while (!place.text && prepare(place)) {
            if (options.tokens > 0)
              starts.push_back({&place - places.data(), place.prompt});
            else
              end(place);
          }
        }
        source.startAll(starts, draw);
        audience.drew(starts.size());
      } while (!starts.empty());
      steps.clear();
      for (size_t i = 0; i < places.size(); ++i)
        if (places[i].text)
          steps.push_back({static_cast<int64_t>(i), places[i].text->last()});
      if (steps.empty())
        return failed;
      source.next(steps, draw);
      audience.drew(steps.size());
    }
  } catch (const ReadingEnded &) {
    for (Place &place : places)
      if (place.text) {
        place.text->end(Ending::Interrupted);
        end(place);
      }
  }
  return failed;
}

std::vector<int32_t> beginOf(const Recipe &recipe, const Tokenizer &tokenizer) {
  std::vector<int32_t> begin = beginOfData(recipe, tokenizer);
  return begin.empty() ? tokenizer.begin() : begin;
}

AnswerMarks answerMarks(const Recipe &recipe, const Tokenizer &tokenizer,
                        const std::string &weights) {
  int32_t padding =
      tokenizer.findText(withDefaults(recipe.data).pad).value_or(0);
  if (std::optional<int32_t> begin = tokenizer.findText(recipe.data.begin))
    return {*begin, padding};
  if (std::optional<int32_t> begin = answerBeginOf(weights, tokenizer.size()))
    return {*begin, padding};
  if (std::vector<int32_t> begin = tokenizer.begin(); !begin.empty())
    return {begin[0], padding};
  throw InputError("the model reads prompts with its encoder, and nothing says "
                   "which token answers begin with: neither `begin` of its "
                   "`data`, nor a \"decoder_start_token_id\" in the "
                   "generation_config.json or config.json beside the weights{}",
                   weights.empty() ? "" : ": " + weights);
}

std::vector<int32_t> sourceTokens(const Tokenizer &tokenizer,
                                  std::string_view prompt,
                                  std::span<const int32_t> endTokens,
                                  const std::string &origin) {
  std::vector<int32_t> ids;
  if (!prompt.empty())
    ids = promptTokens(tokenizer, prompt, /*begin=*/{}, origin);
  if (!endTokens.empty() && (ids.empty() || ids.back() != endTokens[0]))
    ids.push_back(endTokens[0]);
  if (ids.empty())
    throw InputError("{} is empty: the encoder has nothing to read", origin);
  return ids;
}

std::vector<int32_t> promptTokens(const Tokenizer &tokenizer,
                                  std::string_view prompt,
                                  std::span<const int32_t> begin,
                                  const std::string &origin) {
  try {
    std::vector<int32_t> ids = tokenizer.ids(prompt);
    // Who writes `<s>` out wants it once.
    if (ids.size() < begin.size() ||
        !std::equal(begin.begin(), begin.end(), ids.begin()))
      ids.insert(ids.begin(), begin.begin(), begin.end());
    if (!ids.empty())
      return ids;
  } catch (const NoToken &error) {
    throw InputError("{}: {}: only what the text had that the model was built "
                     "with can be used",
                     origin, error.what());
  } catch (const InputError &error) {
    throw InputError("{}: {}", origin, error.what());
  }
  for (const char *start : {"<|endoftext|>", "\n", " "})
    if (std::optional<int32_t> id = tokenizer.findText(start))
      return {*id};
  return {0};
}

GenerateOptions defaultOptions(const Recipe &recipe,
                               const Tokenizer &tokenizer) {
  const GenerateSpec &spec = recipe.generate;
  GenerateOptions options;
  SamplerOptions &sampler = options.sampler;
  sampler.repeatPenalty = spec.repeatPenalty;
  sampler.temperature = spec.temperature;
  sampler.topK = spec.topK;
  sampler.topP = spec.topP;
  sampler.minP = spec.minP;
  sampler.typicalP = spec.typicalP;
  sampler.greedy = spec.greedy;
  options.tokens = spec.tokens;
  options.stopWhenFull = spec.overflow == "stop";
  options.stop = spec.stop;
  DataSpec data = withDefaults(recipe.data);
  if (!data.end.empty())
    if (std::optional<int32_t> id = tokenizer.findText(data.end))
      options.endTokens.push_back(*id);
  if (std::optional<int32_t> id = tokenizer.find("<|endoftext|>"))
    options.endTokens.push_back(*id);
  return options;
}

} // namespace tfm
