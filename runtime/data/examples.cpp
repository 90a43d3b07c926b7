//===- examples.cpp - a list of examples, each padded to one window -----===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/data/dataset.h"
#include "runtime/data/texts.h"
#include "runtime/support/error.h"

#include <algorithm>
#include <fmt/ranges.h>

namespace tfm {

namespace {

class Examples : public TextDataset {
public:
  explicit Examples(const DataRequest &request)
      : spec(withDefaults(request.spec)), tokenizer(request.tokenizer),
        sequence(request.sequence), sourceLength(request.source),
        ignore(request.ignore) {
    if (sourceLength > 0) // what the model itself reads is all answer
      spec.answersOnly = false;
    examples = readExamples(spec, request.chat);
    if (spec.validationFiles.empty()) {
      if (spec.splitSeed)
        shuffleForSplit(examples, *spec.splitSeed);
      trainCount =
          trainingShare(static_cast<int64_t>(examples.size()), spec.validation);
    } else {
      trainCount = static_cast<int64_t>(examples.size());
      for (Example &example : readExamples(validationOf(spec), request.chat)) {
        example.file += static_cast<uint32_t>(spec.files.size());
        examples.push_back(std::move(example));
      }
    }
    requireTrainingPart(spec, trainCount, std::ssize(examples), origin());
    auto named = [&](const std::string &text,
                     const char *what) -> std::optional<int32_t> {
      if (text.empty())
        return std::nullopt;
      std::optional<int32_t> id = tokenizer.findText(text);
      if (!id)
        throw InputError(
            "the data's {} \"{}\" is not one token of the tokenizer", what,
            text);
      return id;
    };
    begin = named(spec.begin, "begin");
    pad = named(spec.pad, "pad");
    end = named(spec.end, "end");
    if (sourceLength > 0)
      encodeSources();
    encodeAll();
  }

  int64_t starts(Part part) const override { return windows(part); }
  int64_t windows(Part part) const override {
    auto all = static_cast<int64_t>(examples.size());
    return part == Part::Train ? trainCount : all - trainCount;
  }
  int64_t windowStart(Part, int64_t window) const override { return window; }

  int64_t read(Part part, int64_t start, std::span<int32_t> tokens,
               std::span<int32_t> targets) const override {
    size_t index = indexOf(part, start);
    const int32_t *from = ids.data() + begins[index];
    auto length = static_cast<int64_t>(begins[index + 1] - begins[index]);
    int32_t noTarget = ignore.value_or(padding());
    for (int64_t i = 0; i < sequence; ++i) {
      tokens[i] = i < length ? from[i] : padding();
      targets[i] = i + 1 < length && !spec.answersOnly ? from[i + 1] : noTarget;
    }
    if (spec.answersOnly)
      for (size_t i = answersFrom[index]; i < answersFrom[index + 1]; ++i)
        std::copy(from + answers[i].begin, from + answers[i].end,
                  targets.begin() + (answers[i].begin - 1));
    // Without an ignored target the padding is data like any other.
    return ignore || !pad ? std::clamp<int64_t>(length - 1, 0, sequence)
                          : sequence;
  }

  std::span<const int32_t> source(Part part, int64_t start) const override {
    return sourceOf(indexOf(part, start));
  }
  int32_t padding() const override { return pad.value_or(0); }

  bool isStream() const override { return false; }

  std::vector<std::string> notes() const override {
    std::vector<std::string> notes;
    if (cut > 0)
      notes.push_back(fmt::format(
          "{} of the {} examples of {} have more than sequence + 1 = {} "
          "tokens, up to {}; the rest of each is left out: build with a larger "
          "-D train.sequence to use it",
          cut, examples.size(), origin(), sequence + 1, longest));
    if (cutSources > 0)
      notes.push_back(fmt::format(
          "{} of the {} prompts of {} have more than the {} tokens of "
          "`source`, up to {}; the rest of each is left out: build with a "
          "larger -D train.S to use it",
          cutSources, examples.size(), origin(), sourceLength, longestSource));
    if (unanswered > 0)
      notes.push_back(fmt::format(
          "{} of the {} examples of {} have no answer within their window, the "
          "first {}: with data.answers_only they count for nothing",
          unanswered, examples.size(), origin(),
          examples[firstUnanswered].place(spec)));
    return notes;
  }

  std::optional<Question> question(Part part, int64_t window) const override {
    size_t index = indexOf(part, window);
    const Example &example = examples[index];
    if (example.prompt == std::string::npos)
      return std::nullopt;
    std::string_view text = example.text;
    Question question;
    if (sourceLength > 0) {
      std::span<const int32_t> read = sourceOf(index);
      question.source.assign(read.begin(), read.end());
      question.prompt = {*begin};
    } else {
      encode(example, text.substr(0, example.prompt), question.prompt);
    }
    encodeText(example, text.substr(example.prompt), question.answer);
    // Nothing to go on from, or nothing to say.
    if (question.prompt.empty() || question.answer.empty())
      return std::nullopt;
    return question;
  }

private:
  size_t indexOf(Part part, int64_t i) const {
    return static_cast<size_t>(part == Part::Train ? i : trainCount + i);
  }

  /// Appends the tokens of an example, or of how it begins. What begins it is
  /// none of its text: words behind it are cut as those of a text are. Who has
  /// written it out has it once.
  void encode(const Example &example, std::string_view text,
              std::vector<int32_t> &to) const {
    size_t at = to.size();
    encodeText(example, text, to);
    if (begin && (to.size() == at || to[at] != *begin))
      to.insert(to.begin() + static_cast<ptrdiff_t>(at), *begin);
  }

  /// Appends the tokens of a part of an example's text. What ends the example
  /// is a token of its own, where words are parted by white space, too.
  void encodeText(const Example &example, std::string_view text,
                  std::vector<int32_t> &to) const {
    bool hasEnd = end && text.data() + text.size() ==
                             example.text.data() + example.text.size();
    if (hasEnd)
      text.remove_suffix(spec.end.size());
    auto encodePart = [&](std::string_view part) {
      encodeData(tokenizer, part, to, [&] { return example.place(spec); });
    };
    // The two of a pair were apart, as by the tab between them.
    auto from = static_cast<size_t>(text.data() - example.text.data());
    if (spec.kind == "pairs" && tokenizer.partsAtSpace() &&
        from < example.prompt && example.prompt - from < text.size()) {
      encodePart(text.substr(0, example.prompt - from));
      text.remove_prefix(example.prompt - from);
    }
    encodePart(text);
    if (hasEnd)
      to.push_back(*end);
  }

  /// What an encoder reads of an example.
  std::span<const int32_t> sourceOf(size_t index) const {
    return std::span(sources).subspan(
        sourceBegins[index], sourceBegins[index + 1] - sourceBegins[index]);
  }

  /// The prompts, each with the end token behind it, as where answers have it.
  void encodeSources() {
    if (!begin)
      throw InputError("the model reads prompts with its encoder, and answers "
                       "need a token to begin with: name one in `data` and "
                       "build it again, e.g. `begin = \"<s>\"`");
    sourceBegins.push_back(0);
    for (Example &example : examples) {
      if (example.prompt == std::string::npos)
        throw InputError(
            "{}: the model reads prompts with its encoder, and this example "
            "has no answer behind one{}",
            example.place(spec),
            spec.answerAfter.empty()
                ? ""
                : " (data.answer_after is \"" + spec.answerAfter + "\")");
      encodeText(example,
                 std::string_view(example.text).substr(0, example.prompt),
                 sources);
      if (end)
        sources.push_back(*end);
      size_t length = sources.size() - sourceBegins.back();
      if (length == 0)
        throw InputError(
            "{}: the prompt is empty: the encoder has nothing to read",
            example.place(spec));
      auto limit = static_cast<size_t>(sourceLength);
      if (length > limit) {
        sources.resize(sourceBegins.back() + limit);
        ++cutSources;
        longestSource = std::max(longestSource, length);
      }
      sourceBegins.push_back(sources.size());
    }
  }

  void encodeAll() {
    begins.push_back(0);
    size_t limit = static_cast<size_t>(sequence) + 1;
    size_t shortest = SIZE_MAX;
    bool areEqual = true;
    for (const Example &example : examples) {
      encode(example,
             std::string_view(example.text)
                 .substr(sourceLength > 0 ? example.prompt : 0),
             ids);
      size_t length = ids.size() - begins.back();
      if (length > limit && (spec.kind == "sums" || spec.kind == "products"))
        throw InputError(
            "the data {} has expressions of {} tokens, more than a window of "
            "sequence + 1 = {}: build with a larger -D train.sequence",
            spec.kind, length, limit);
      if (length > limit) {
        ids.resize(begins.back() + limit);
        ++cut;
        longest = std::max(longest, length);
      }
      areEqual &= shortest == SIZE_MAX || length == shortest;
      shortest = std::min(shortest, length);
      begins.push_back(ids.size());
    }
    if (spec.answersOnly)
      findAnswers();
    if (examples.empty() || shortest >= limit || pad || ignore)
      return;
    std::string advice =
        "name a pad token in `data` and let the loss ignore it, e.g. "
        "`pad = \"#\"` and `loss = cross_entropy(ignore = \"#\")`";
    if (!areEqual)
      throw InputError("the examples of {} have different lengths: {}",
                       origin(), advice);
    throw InputError(
        "the examples of {} have {} token{}, less than a window of sequence + "
        "1 = {}: {}{}",
        origin(), shortest, shortest == 1 ? "" : "s", limit,
        shortest > 1
            ? fmt::format("build with -D train.sequence={}, or ", shortest - 1)
            : "",
        advice);
  }

  /// Finds the tokens of all answers: one that has a part of the prompt, too,
  /// is the answer's.
  void findAnswers() {
    std::vector<int32_t> before;
    for (size_t i = 0; i < examples.size(); ++i) {
      const Example &example = examples[i];
      auto tokens =
          std::span(ids).subspan(begins[i], begins[i + 1] - begins[i]);
      /// How many of them the first bytes of the text have whole.
      auto tokensOf = [&](size_t bytes) -> int64_t {
        before.clear();
        encode(example, std::string_view(example.text).substr(0, bytes),
               before);
        return std::ranges::mismatch(before, tokens).in2 - tokens.begin();
      };
      std::vector<Example::Range> ranges = example.answers;
      if (ranges.empty() && example.prompt != std::string::npos)
        ranges = {{example.prompt, example.text.size()}};
      answersFrom.push_back(answers.size());
      for (Example::Range range : ranges) {
        // Nothing says what the first token is.
        TokenRange answer = {std::max<int64_t>(1, tokensOf(range.begin)),
                             tokensOf(range.end)};
        if (answer.begin < answer.end)
          answers.push_back(answer);
      }
      if (answers.size() == answersFrom.back() && unanswered++ == 0)
        firstUnanswered = i;
    }
    answersFrom.push_back(answers.size());
    if (unanswered == examples.size())
      throw InputError(
          "no example of {} has an answer within its window of sequence + 1 = "
          "{} tokens, and with data.answers_only nothing else counts: {}",
          origin(), sequence + 1,
          spec.answerAfter.empty()
              ? "give answers, or build with a larger -D train.sequence"
              : "an answer follows the first \"" + spec.answerAfter +
                    "\" (data.answer_after)");
  }

  std::string origin() const {
    if (spec.files.empty())
      return "data " + spec.kind;
    std::vector<std::string> files = spec.files;
    files.insert(files.end(), spec.validationFiles.begin(),
                 spec.validationFiles.end());
    return fmt::format("{}", fmt::join(files, ", "));
  }

  DataSpec spec;
  const Tokenizer &tokenizer;
  int64_t sequence;
  /// Tokens that an encoder reads; 0 without one.
  int64_t sourceLength;
  std::optional<int32_t> ignore;
  std::optional<int32_t> begin, pad, end;
  std::vector<Example> examples;
  int64_t trainCount = 0;
  /// All examples one after the other; example i is [begins[i], begins[i + 1]).
  std::vector<int32_t> ids;
  std::vector<size_t> begins;
  /// The same of what an encoder reads.
  std::vector<int32_t> sources;
  std::vector<size_t> sourceBegins;
  /// With `answersOnly`: the tokens of answers, counted within their example;
  /// those of example i are [answersFrom[i], answersFrom[i + 1]) of them.
  struct TokenRange {
    int64_t begin, end;
  };
  std::vector<TokenRange> answers;
  std::vector<size_t> answersFrom;
  /// Examples that are longer than a window, and the tokens of the longest.
  size_t cut = 0;
  size_t longest = 0;
  size_t cutSources = 0;
  size_t longestSource = 0;
  /// Those without a target, and the first of them.
  size_t unanswered = 0;
  size_t firstUnanswered = 0;
};

} // namespace

void requireTrainingPart(const DataSpec &data, int64_t trained, int64_t count,
                         const std::string &origin) {
  if (trained == 0 && (data.validation < 1 || count == 0))
    throw InputError(
        "{} has {} example{}, too few for a training part beside "
        "data.validation = {}: add examples, or build with a smaller "
        "-D data.validation",
        origin, count, count == 1 ? "" : "s", data.validation);
}

std::unique_ptr<TextDataset> openExamples(const DataRequest &request) {
  return std::make_unique<Examples>(request);
}

std::vector<int32_t> beginOfData(const Recipe &recipe,
                                 const Tokenizer &tokenizer) {
  // Where an encoder reads prompts it stands before the answers.
  if (!recipe.hasEncoder && !isStream(recipe.data))
    if (std::optional<int32_t> id = tokenizer.findText(recipe.data.begin))
      return {*id};
  return {};
}

} // namespace tfm
