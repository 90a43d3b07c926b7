//===- generate.cpp - the command generate --------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/comm/separate_work.h"
#include "runtime/comm/witness.h"
#include "runtime/commands/commands.h"
#include "runtime/commands/read_prompts.h"
#include "runtime/commands/show_texts.h"
#include "runtime/device/choose_device.h"
#include "runtime/model/memory_needed.h"
#include "runtime/support/error.h"
#include "runtime/support/progress.h"
#include "runtime/support/read_json.h"
#include "runtime/support/signals.h"
#include "runtime/support/utf8.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <set>
#include <type_traits>
#include <unistd.h>

namespace tfm {

namespace {

/// Set by Ctrl-C while texts are written.
std::atomic<bool> stopText{false};
extern "C" void onStopText(int) { stopText.store(true); }

/// The second Ctrl-C ends the program at once.
extern "C" void onStopAllTexts(int signal) {
  if (noteSignal(signal) == Came::Before)
    endBySignal(signal);
  stopText.store(true);
}

/// `TOKEN=BIAS`; the token is an id, or a text that is one token: in double
/// quotes whatever it is.
std::pair<int32_t, double> parseBias(const std::string &text,
                                     const Tokenizer &tokenizer) {
  size_t equals = text.rfind('=');
  std::string token = text.substr(0, equals);
  double bias = std::strtod(text.c_str() + equals + 1, nullptr);
  bool isQuoted =
      token.size() > 1 && token.starts_with('"') && token.ends_with('"');
  if (isQuoted)
    token = unescape(std::string_view(token).substr(1, token.size() - 2));
  bool isId = !isQuoted && !token.empty() && token.size() < 10 &&
              token.find_first_not_of("0123456789") == std::string::npos;
  if (isId) {
    int32_t id = std::stoi(token);
    if (id >= tokenizer.size())
      throw InputError(
          "--logit-bias {}: there is no token {}, they run from 0 to {}", text,
          id, tokenizer.size() - 1);
    return {id, bias};
  }
  std::optional<int32_t> id = tokenizer.findText(token);
  if (!id)
    throw InputError("--logit-bias {}: \"{}\" is not one token of this "
                     "vocabulary; give a token or its id",
                     text, token);
  return {*id, bias};
}

/// A stop text that has characters of which no token is made ends no text.
void noteUnlessSpelled(const std::string &stop, const Tokenizer &tokenizer) {
  try {
    tokenizer.ids(stop);
  } catch (const NoToken &error) {
    say(fmt::format("note: --stop {} ends no text: {}\n", quoted(stop),
                    printable(error.what())));
  } catch (const InputError &) {
    // Texts that are ids have more than their numbers.
  }
}

/// Nothing is drawn where the most probable token is taken.
void noteWithoutEffect(const GenerateCommand &command,
                       const SamplerOptions &sampler) {
  if (sampler.draws())
    return;
  std::vector<std::string> names;
  for (const auto &[name, isGiven] :
       {std::pair("--temperature", command.temperature.value_or(0) > 0),
        std::pair("--top-k", command.topK.has_value()),
        std::pair("--top-p", command.topP.has_value()),
        std::pair("--min-p", command.minP.has_value()),
        std::pair("--typical-p", command.typicalP.has_value()),
        std::pair("--seed", command.seed.has_value())})
    if (isGiven)
      names.emplace_back(name);
  const char *why = command.greedy        ? "--greedy"
                    : command.temperature ? "--temperature 0"
                    : sampler.greedy      ? "generate.greedy of the recipe"
                                          : "a temperature of 0 in the recipe";
  if (!names.empty())
    say(fmt::format(
        "note: {} {} no effect: with {} the most probable token is taken{}\n",
        fmt::join(names, ", "), names.size() == 1 ? "has" : "have", why,
        command.greedy || command.temperature
            ? ""
            : " (--temperature 1 draws at random)"));
}

GenerateOptions optionsOf(const GenerateCommand &command, const Recipe &recipe,
                          const Tokenizer &tokenizer) {
  GenerateOptions options = defaultOptions(recipe, tokenizer);
  SamplerOptions &sampler = options.sampler;
  options.tokens = command.tokens.value_or(options.tokens);
  sampler.temperature = command.temperature.value_or(sampler.temperature);
  sampler.topK = command.topK.value_or(sampler.topK);
  sampler.topP = command.topP.value_or(sampler.topP);
  sampler.minP = command.minP.value_or(sampler.minP);
  sampler.typicalP = command.typicalP.value_or(sampler.typicalP);
  sampler.repeatPenalty = command.repeatPenalty.value_or(sampler.repeatPenalty);
  // A temperature given by the user means that they want to draw.
  sampler.greedy = command.greedy || (sampler.greedy && !command.temperature);
  for (const std::string &bias : command.logitBias)
    sampler.bias.push_back(parseBias(bias, tokenizer));
  // An empty one takes back those of the recipe.
  if (std::ranges::find(command.stop, "") != command.stop.end())
    options.stop.clear();
  std::ranges::copy_if(command.stop, std::back_inserter(options.stop),
                       [](const std::string &text) { return !text.empty(); });
  if (command.speaks()) {
    for (const std::string &text : command.stop)
      noteUnlessSpelled(text, tokenizer);
    noteWithoutEffect(command, sampler);
  }
  options.endTokens.clear();
  if (!command.ignoreEos)
    options.endTokens = endTokensFor(command, recipe, tokenizer);
  options.logprobs = command.logprobs.value_or(-1);
  options.lookahead = command.lookahead;
  if (!command.overflow.empty())
    options.stopWhenFull = command.overflow == "stop";
  options.isNamedSeed = command.seed.has_value();
  options.seed = command.seed ? *command.seed : std::random_device()();
  return options;
}

/// A value, or a list of values behind their number.
template <typename T> void pack(std::string &to, const T &part) {
  if constexpr (requires { part.size(); }) {
    pack(to, part.size());
    to.append(reinterpret_cast<const char *>(part.data()),
              part.size() * sizeof *part.data());
  } else {
    static_assert(std::is_trivially_copyable_v<T>);
    to.append(reinterpret_cast<const char *>(&part), sizeof part);
  }
}
template <typename T> void unpack(std::string_view &from, T &part) {
  if constexpr (requires { part.size(); }) {
    size_t size = 0;
    unpack(from, size);
    part.resize(size);
    // Not by memcpy: where there are none they may have no address.
    size_t bytes = size * sizeof *part.data();
    from.copy(reinterpret_cast<char *>(part.data()), bytes);
    from.remove_prefix(bytes);
  } else {
    std::memcpy(&part, from.data(), sizeof part);
    from.remove_prefix(sizeof part);
  }
}

/// Keeps the texts of a process for the first one, which tells how it gets on
/// with its own.
class KeptTexts : public TextAudience {
public:
  /// Tells how so many texts get on, of those that `what` says.
  KeptTexts(Processes &processes, size_t count, const std::string &what)
      : progress(count, what), work(processes) {}

  void show(size_t text, std::string_view part) override {
    texts[text].shown += part;
  }
  void end(size_t text, Generated generated) override {
    texts[text].ended = std::move(generated);
    progress.end();
  }
  void drew(size_t tokens) override {
    progress.drew(tokens);
    if (work.goOn(stopText.load()))
      stopText.store(true);
  }
  /// Waits for the texts of the others.
  void awaitOthers() { stopText.store(work.end(stopText.load())); }

  /// Has the first process show those of all, in their order.
  void showAll(Processes &processes, TextAudience *show) {
    progress.clear();
    std::string own;
    for (const auto &[number, text] : texts) {
      pack(own, number);
      forEachPart(text, [&](const auto &part) { pack(own, part); });
    }
    for (const std::string &packed : processes.collect(own))
      for (std::string_view rest = packed; !rest.empty();) {
        size_t number = 0;
        unpack(rest, number);
        KeptText &text = texts[number];
        text.ended.emplace();
        forEachPart(text, [&](auto &part) { unpack(rest, part); });
      }
    if (!show)
      return;
    for (auto &[number, text] : texts) {
      show->show(number, text.shown);
      show->end(number, *std::move(text.ended));
    }
  }

private:
  /// All that a text has, one part after the other.
  template <typename AnyText, typename Visit>
  static void forEachPart(AnyText &text, Visit visit) {
    auto &generated = *text.ended;
    visit(text.shown);
    visit(generated.text);
    visit(generated.ids);
    visit(generated.drawn);
    visit(generated.ended);
    visit(generated.endedBy);
    visit(generated.firstSeconds);
    visit(generated.seconds);
    visit(generated.chances);
  }

  std::map<size_t, KeptText> texts;
  TextProgress progress;
  SeparateWork work;
};

/// Prompts from standard input, one a line; an empty line goes on with the text
/// before it. Ctrl-C ends a text; Ctrl-D, or Ctrl-C between texts, the session.
/// With a chat template the lines are messages, and the texts their answers.
class Session {
public:
  Session(LogitsSource &logits, const Tokenizer &tokenizer,
          const PromptReader &reader, GenerateOptions options)
      : logits(logits), tokenizer(tokenizer), reader(reader),
        chat(reader.chatTemplate()), options(std::move(options)) {
    this->options.interrupt = &stopText;
  }

  /// Until standard input ends.
  void run();

private:
  /// Prints the text that follows a line, or why there is none.
  void take(std::string_view typed);
  /// Prints what follows `sequence`.
  void write(const std::string &origin);
  /// Makes the prompt of a line, or of a message and all before it.
  void readPrompt(std::string_view typed, const std::string &origin);
  void readMessage(std::string_view typed, const std::string &origin);

  LogitsSource &logits;
  const Tokenizer &tokenizer;
  const PromptReader &reader;
  const ChatTemplate *chat; ///< null where lines are no messages
  GenerateOptions options;
  const bool hasEncoder = logits.sourceLength() > 0; ///< texts go on with none
  const bool isTerminal = isatty(STDIN_FILENO) == 1;
  size_t lines = 0, bad = 0;
  /// The tokens that the next text follows.
  std::vector<int32_t> sequence;
  nlohmann::ordered_json messages = nlohmann::ordered_json::array();
};

void Session::run() {
  handleSignal(SIGINT, onStopText, /*flags=*/0); // reading a line ends, too
  if (isTerminal)
    say(chat ? "A message a line (\\n for a new line in it); Ctrl-C ends an "
               "answer, Ctrl-D the session\n"
             : "A prompt a line (\\n for a new line in it); an empty line goes "
               "on; Ctrl-C ends a text, Ctrl-D the session\n");
  char *line = nullptr;
  size_t capacity = 0;
  int fault = 0;
  while (true) {
    if (isTerminal)
      say("> ");
    stopText.store(false);
    ssize_t length = getline(&line, &capacity, stdin);
    if (length < 0) {
      fault = std::ferror(stdin) ? errno : 0;
      break;
    }
    ++lines;
    std::string_view typed(line, static_cast<size_t>(length));
    if (lines == 1)
      typed = withoutByteOrderMark(typed);
    for (char end : {'\n', '\r'})
      if (typed.ends_with(end))
        typed.remove_suffix(1);
    if (!chat || !typed.empty())
      take(typed);
  }
  std::free(line);
  if (stopText.load())
    throw Interrupted("");
  if (fault != 0)
    throw InputError("cannot read standard input: {}", std::strerror(fault));
  if (bad > 0 && !isTerminal)
    throw InputError("{} of {} lines could not be continued, see "
                     "above",
                     bad, lines);
}

void Session::take(std::string_view typed) {
  const size_t said = messages.size();
  const std::string origin =
      isTerminal ? "" : "standard input:" + std::to_string(lines);
  const bool goesOn = typed.empty() && !sequence.empty();
  options.alone = {reader.areAnswers() || (typed.empty() && !goesOn)};
  try {
    if (chat)
      readMessage(typed, origin);
    else if (!goesOn)
      readPrompt(typed, origin);
    write(origin);
  } catch (const InputError &error) {
    // The next prompt may be better.
    ++bad;
    say("error: " + printable(error.what()) + "\n");
    while (messages.size() > said)
      messages.erase(messages.size() - 1);
  }
  ++options.sequence;
}

void Session::write(const std::string &origin) {
  Generated text;
  try {
    text = generate(logits, tokenizer, sequence, options, printText);
  } catch (const InputError &error) {
    printText("\n");
    throw InputError("{}{}", startOfErrors(origin), error.what());
  }
  if (!hasEncoder)
    sequence.insert(sequence.end(), text.ids.begin(), text.ids.end());
  if (chat && text.ended == Ending::Interrupted && text.drawn == 0)
    messages.erase(messages.size() - 1); // it has not been read
  else if (chat)
    messages.push_back({{"role", "assistant"}, {"content", text.text}});
  printText("\n");
  saySummary(text, options, logits.context());
}

void Session::readMessage(std::string_view typed, const std::string &origin) {
  messages.push_back(
      {{"role", "user"}, {"content", replaceInvalidUtf8(unescape(typed))}});
  std::vector<int32_t> next = reader.tokens(
      chat->render({messages, nullptr, origin}, std::time(nullptr)),
      isTerminal ? "the prompt" : origin);
  checkLength(next, origin, logits, options);
  sequence = std::move(next);
}

void Session::readPrompt(std::string_view typed, const std::string &origin) {
  std::string prompt = unescape(typed);
  std::vector<int32_t> next =
      reader.tokens(prompt, isTerminal ? "the prompt" : origin);
  checkLength(next, origin, logits, options);
  sequence = std::move(next);
  if (!hasEncoder)
    printText(replaceInvalidUtf8(prompt));
}

/// Says what of `--lookahead` this build cannot do, or does otherwise.
void noteLookahead(const Model &model, GenerateOptions &options, bool speaks) {
  if (options.lookahead == 0)
    return;
  auto note = [&](const std::string &text) {
    if (speaks)
      say("note: --lookahead " + text + "\n");
  };
  const tfm_function *verify = model.find(TFM_VERIFY);
  if (!verify) {
    note("has no effect: this model cannot verify several tokens at once");
    options.lookahead = 0;
    return;
  }
  int64_t most = Model::input(*verify, TFM_IN_TOKENS).shape[1] - 1;
  if (options.lookahead > most)
    note(fmt::format("{}: no more than {} tokens are proposed at a time",
                     options.lookahead, most));
  const tfm_function *decode = model.find(TFM_DECODE);
  if (int64_t places = Model::input(*decode, TFM_IN_TOKENS).shape[0];
      places > 1)
    note(fmt::format("generates one text after the other, and not {} together "
                     "(generate.batch)",
                     places));
}

/// Who continues some of the texts draws as the others do.
void requireSameOptions(Processes &processes, const GenerateOptions &options,
                        const GenerateCommand &command) {
  const SamplerOptions &sampler = options.sampler;
  uint64_t seed = options.isNamedSeed ? options.seed : 0;
  std::string told = fmt::format(
      "{} {} {} {} {} {} {} {} {} {} {} {} {} {} {}", command.count,
      command.ignoreEos, command.chat, options.tokens, options.stopWhenFull,
      options.logprobs, options.lookahead, seed, sampler.repeatPenalty,
      sampler.temperature, sampler.topK, sampler.topP, sampler.minP,
      sampler.typicalP, sampler.greedy);
  pack(told, options.stop.size());
  for (const std::string &stop : options.stop)
    pack(told, stop);
  for (auto [token, bias] : sampler.bias) {
    pack(told, token);
    pack(told, bias);
  }
  processes.requireSame("other options", told,
                        "give all of them the same ones");
  std::string ends;
  pack(ends, options.endTokens);
  processes.requireSame("other tokens that end a text", ends,
                        "give all of them the same files beside the weights");
}

/// Who continues some of the prompts has read the others, too.
void requireSamePrompts(Processes &processes, const PromptList &prompts,
                        const PromptReader &reader) {
  std::string told;
  for (const std::vector<int32_t> &one : prompts.tokens())
    pack(told, one);
  processes.requireSame(reader.chatTemplate()
                            ? "another tokenizer or chat template"
                            : "another tokenizer",
                        told, "give all of them the same files");
}

/// Has Ctrl-C end all texts: what is written until then is shown, and counted.
void endTextsAtSignals(const Processes *processes) {
  handleSignal(SIGINT, onStopAllTexts);
  if (processes) // so launchers tell them
    handleSignal(SIGTERM, onStopAllTexts);
}

/// Null in processes that do not speak.
std::unique_ptr<TextShow> showFor(const GenerateCommand &command,
                                  const Texts &texts) {
  if (!command.speaks())
    return nullptr;
  if (command.json)
    return std::make_unique<JsonTexts>(texts);
  return std::make_unique<PlainTexts>(texts);
}

/// Continues the prompts of which there are tokens. Returns how many of them
/// have a text that failed.
int64_t continueThose(LogitsSource &logits, const Texts &texts,
                      const std::vector<std::vector<int32_t>> &tokens,
                      TextAudience &audience) {
  std::set<size_t> failed;
  for (size_t text : generateAll(logits, texts.tokenizer, tokens, texts.copies,
                                 texts.options, audience))
    failed.insert(texts.placeOf(text));
  return static_cast<int64_t>(failed.size());
}

/// The same of all prompts; shows texts as they come.
int64_t continueAlone(LogitsSource &logits, const Texts &texts,
                      TextShow &show) {
  try {
    return continueThose(logits, texts, texts.tokens, show);
  } catch (...) {
    show.breakOff();
    throw;
  }
}

/// The same where each process has every so many-th prompt: the first shows all
/// texts at the end.
int64_t continueTogether(LogitsSource &logits, const Texts &texts,
                         Processes &processes, TextShow *show) {
  auto count = static_cast<size_t>(processes.count()),
       rank = static_cast<size_t>(processes.rank());
  std::vector<std::vector<int32_t>> own = texts.tokens;
  size_t told = 0;
  for (size_t i = 0; i < own.size(); ++i)
    if (i % count != rank)
      own[i].clear();
    else if (show && !own[i].empty())
      told += static_cast<size_t>(texts.copies);
  KeptTexts kept(processes, told,
                 fmt::format(" of the first of {} processes", count));
  int64_t failed = continueThose(logits, texts, own, kept);
  kept.awaitOthers();
  failed = processes.sum(failed);
  kept.showAll(processes, show);
  return failed;
}

} // namespace

void generate(const tfm_model &descriptor, const GenerateCommand &command) {
  Recipe recipe = recipeOf(descriptor);
  Processes *processes = command.processes;
  requireGenerationMemory(descriptor, recipe);
  requireMemoryOfMachine(command, descriptor, recipe, /*trains=*/false);
  TokenizerPtr tokenizer = tokenizerFor(descriptor, command, recipe);
  GenerateOptions options = optionsOf(command, recipe, *tokenizer);
  std::time_t now = std::time(nullptr);
  if (processes)
    now = processes->ofFirst(now);
  const PromptReader reader(descriptor, command, recipe, *tokenizer);
  if (reader.chatTemplate() && !command.ignoreEos)
    if (auto end = tokenizer->find(reader.chatTemplate()->endToken()))
      options.endTokens.push_back(*end);

  PromptList prompts(command);
  for (const Prompt &prompt : prompts.prompts())
    options.alone.push_back(reader.areAnswers() || prompt.text.empty());
  prompts.read(reader, now);

  std::unique_ptr<Device> device =
      makeDevice(descriptor, command.device, threadCount(command, descriptor),
                 command.processes);
  Model model(descriptor, *device);
  loadWeights(command, model);
  // Only now, as who lacks the weights lacks the files beside them, too.
  if (processes) {
    requireSameOptions(*processes, options, command);
    requireSamePrompts(*processes, prompts, reader);
    options.seed = processes->ofFirst(options.seed); // that nobody has named
  }
  std::optional<AnswerMarks> marks;
  if (sourceLength(descriptor, TFM_FORWARD) > 0)
    marks = answerMarksFor(command, recipe, *tokenizer);
  std::unique_ptr<LogitsSource> logits =
      openLogits(model, recipe.generate.context, marks);
  noteLookahead(model, options, command.speaks());
  if (command.interactive) {
    Session(*logits, *tokenizer, reader, options).run();
    return;
  }

  prompts.check(model, *logits, options);
  options.interrupt = &stopText;
  Texts texts{*tokenizer,        options,          logits->context(),
              prompts.prompts(), prompts.tokens(), command.count};
  std::unique_ptr<TextShow> show = showFor(command, texts);
  endTextsAtSignals(processes);
  int64_t failed =
      processes ? continueTogether(*logits, texts, *processes, show.get())
                : continueAlone(*logits, texts, *show);
  if (show)
    show->finish();
  if (show && !show->isWhole())
    throw Interrupted("");
  if (show && !show->whyOnlyFailed().empty())
    throw AgreedError(show->whyOnlyFailed());
  if (int64_t count = prompts.numBad() + failed; count > 0)
    throw AgreedError("{} of {} prompts could not be continued, "
                      "see above",
                      count, prompts.prompts().size());
}

} // namespace tfm
