//===- generator.cpp - text, token by token -----------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/generation/generator.h"

#include "runtime/data/texts.h"
#include "runtime/error.h"
#include "runtime/philox.h"
#include "runtime/progress.h"
#include "runtime/recipe.h"
#include "runtime/tokenizer/find_tokenizer.h"
#include "runtime/tokenizer/utf8.h"

#include <algorithm>
#include <fmt/format.h>
#include <stdexcept>

namespace tfm {

namespace {

/// The function `forward` of a model, and what it is given and gives.
class Forward {
public:
  explicit Forward(Model &model)
      : model(model), function(model.function(TFM_FORWARD)),
        input(Model::input(function, "tokens")),
        output(Model::output(function, "logits")) {}

  /// Tokens of a sequence that it takes.
  int64_t length() const { return input.shape[1]; }
  int64_t vocabulary() const { return output.shape[output.rank - 1]; }

  /// The logits after the last of some tokens, with `padding` in the positions
  /// right of it.
  std::span<const float> logits(std::span<const int32_t> text,
                                int32_t padding) {
    {
      PendingWrite<int32_t> write = model.write<int32_t>(input);
      std::span<int32_t> tokens = write.values();
      std::fill(std::copy(text.begin(), text.end(), tokens.begin()),
                tokens.end(), padding);
    }
    model.run(function);
    auto width = static_cast<size_t>(vocabulary());
    return model.read<float>(output, (text.size() - 1) * width, width).values();
  }

private:
  Model &model;
  const tfm_function &function;
  const tfm_buffer &input;
  const tfm_buffer &output;
};

class WholeSequence : public LogitsSource {
public:
  WholeSequence(Model &model, int64_t limit)
      : model(model), forward(model), newest(forward.length()) {
    if (limit > 0)
      newest = std::min(newest, limit);
    window.reserve(static_cast<size_t>(newest) + 1);
  }

  int64_t context() const override { return newest; }
  int64_t vocabulary() const override { return forward.vocabulary(); }

  std::span<const float> start(std::span<const int32_t> prompt) override {
    auto count = std::min(prompt.size(), static_cast<size_t>(newest));
    std::span<const int32_t> newestTokens = prompt.last(count);
    window.assign(newestTokens.begin(), newestTokens.end());
    requireOwnLogits(model, window);
    return evaluate();
  }

  std::span<const float> next(int32_t token) override {
    if (static_cast<int64_t>(window.size()) == newest)
      window.erase(window.begin());
    window.push_back(token);
    return evaluate();
  }

private:
  std::span<const float> evaluate() {
    return forward.logits(window, /*padding=*/0);
  }

  Model &model;
  Forward forward;
  int64_t newest;
  std::vector<int32_t> window;
};

class CachedSequence : public LogitsSource {
public:
  CachedSequence(Model &model, int64_t context)
      : model(model), prefill(model.function(TFM_PREFILL)),
        prefillLength(Model::input(prefill.function, "length")),
        decode(model.function(TFM_DECODE)), limit(context),
        chunk(prefill.tokens.shape[1]),
        width(decode.logits.shape[decode.logits.rank - 1]) {
    if (limit < 1)
      throw std::logic_error("a model with a cache must say its context");
    window.reserve(static_cast<size_t>(limit) + 1);
  }

  int64_t context() const override { return limit; }
  int64_t vocabulary() const override { return width; }

  std::span<const float> start(std::span<const int32_t> prompt) override {
    auto count = std::min(prompt.size(), static_cast<size_t>(limit));
    std::span<const int32_t> newestTokens = prompt.last(count);
    window.assign(newestTokens.begin(), newestTokens.end());
    return evaluateAll();
  }

  std::span<const float> next(int32_t token) override {
    if (static_cast<int64_t>(window.size()) == limit) {
      window.erase(window.begin());
      window.push_back(token);
      return evaluateAll();
    }
    auto position = static_cast<int32_t>(window.size());
    window.push_back(token);
    setFirst(decode.tokens, token);
    setFirst(decode.position, position);
    model.run(decode.function);
    return logitsOf(decode);
  }

private:
  /// A function that works on the cache.
  struct Cached {
    explicit Cached(const tfm_function &function)
        : function(function), tokens(Model::input(function, "tokens")),
          position(Model::input(function, "position")),
          logits(Model::output(function, "logits")) {}
    const tfm_function &function;
    const tfm_buffer &tokens;
    const tfm_buffer &position;
    const tfm_buffer &logits;
  };

  std::span<const float> evaluateAll() {
    for (int64_t at = 0; at < static_cast<int64_t>(window.size());
         at += chunk) {
      int64_t count = std::min(chunk, static_cast<int64_t>(window.size()) - at);
      {
        PendingWrite<int32_t> write = model.write<int32_t>(prefill.tokens);
        std::span<int32_t> tokens = write.values();
        std::fill(tokens.begin(), tokens.end(), 0);
        std::copy_n(window.begin() + at, count, tokens.begin());
      }
      setFirst(prefill.position, static_cast<int32_t>(at));
      setFirst(prefillLength, static_cast<int32_t>(count));
      model.run(prefill.function);
    }
    return logitsOf(prefill);
  }

  /// The number of the first row, the only one that matters.
  void setFirst(const tfm_buffer &buffer, int32_t value) {
    PendingWrite<int32_t> write = model.write<int32_t>(buffer);
    std::ranges::fill(write.values(), 0);
    write.values()[0] = value;
  }

  std::span<const float> logitsOf(const Cached &cached) {
    return model.read<float>(cached.logits, 0, static_cast<size_t>(width))
        .values();
  }

  Model &model;
  Cached prefill;
  const tfm_buffer &prefillLength;
  Cached decode;
  int64_t limit;
  int64_t chunk;
  int64_t width;
  std::vector<int32_t> window;
};

/// Text that may be printed: all of `text` that cannot become part of a stop
/// text any more, in whole characters.
size_t safeLength(const std::string &text, size_t longestStop) {
  if (longestStop <= 1)
    return text.size();
  size_t end = text.size() - std::min(text.size(), longestStop - 1);
  while (end > 0 && end < text.size() &&
         (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80)
    --end;
  return end;
}

} // namespace

void requireOwnLogits(Model &model, std::span<const int32_t> text) {
  if (model.find(TFM_DECODE)) // what can be evaluated with a cache is causal
    return;
  Forward forward(model);
  int64_t length = forward.length();
  if (static_cast<int64_t>(text.size()) >= length)
    return;
  std::span<const float> logits = forward.logits(text, 0);
  std::vector<float> first(logits.begin(), logits.end());
  logits = forward.logits(
      text, static_cast<int32_t>(vocabularyOf(model.descriptor())) - 1);
  if (std::ranges::equal(first, logits))
    return;
  const char *recipe = model.descriptor().recipe;
  std::string obstacle =
      parseRecipe(recipe ? recipe : "").generate.wholeSequence;
  throw InputError(fmt::format(
      "a text of {0} tokens has no logits of its own: this model looks at all "
      "{1} positions at once{2}; begin with at least {1} tokens, or build it "
      "for a shorter context",
      text.size(), length, obstacle.empty() ? "" : " (" + obstacle + ")"));
}

void requireRows(const Model &model) {
  const tfm_buffer &logits =
      Model::output(model.function(TFM_FORWARD), "logits");
  int64_t width = logits.shape[logits.rank - 1];
  int64_t rows = vocabularyOf(model.descriptor());
  if (width > rows)
    throw InputError(fmt::format(
        "{} gives logits for {} tokens, but a table in it has rows for {}: a "
        "text could not go on with the others. Give both as many in {} and "
        "build it again",
        model.descriptor().name, width, rows, model.descriptor().source));
}

std::unique_ptr<LogitsSource> wholeSequence(Model &model, int64_t context) {
  return std::make_unique<WholeSequence>(model, context);
}

std::unique_ptr<LogitsSource> cachedSequence(Model &model, int64_t context) {
  return std::make_unique<CachedSequence>(model, context);
}

std::unique_ptr<LogitsSource> openLogits(Model &model, int64_t context) {
  if (const tfm_function *forward = model.find(TFM_FORWARD)) {
    Model::requireFilled(*forward, {"tokens"});
    model.requireLogits();
    requireRows(model);
  }
  if (model.find(TFM_PREFILL) && model.find(TFM_DECODE)) {
    // The caches hold as many tokens as `forward` takes.
    if (model.find(TFM_FORWARD)) {
      int64_t capacity = Forward(model).length();
      context = context > 0 ? std::min(context, capacity) : capacity;
    }
    if (context > 0)
      return cachedSequence(model, context);
  }
  return wholeSequence(model, context);
}

Generated generate(LogitsSource &source, const Tokenizer &tokenizer,
                   std::span<const int32_t> prompt,
                   const GenerateOptions &options,
                   const std::function<void(std::string_view)> &print) {
  double began = now();
  Generated result;
  Sampler sampler(options.sampler, source.vocabulary());
  Utf8Stream characters;
  std::vector<int32_t> history(prompt.begin(), prompt.end());
  size_t longestStop = 0;
  for (const std::string &stop : options.stop)
    longestStop = std::max(longestStop, stop.size());

  size_t printed = 0;
  std::string bytes;
  /// Where in the text each token begins.
  std::vector<size_t> begins;
  bool stopped = false;
  std::span<const float> logits = source.start(prompt);
  auto limit = static_cast<size_t>(std::max<int64_t>(options.tokens, 0));
  while (result.ids.size() < limit && !stopped) {
    PhiloxBlock random =
        philox(options.seed, Stream::Sample,
               static_cast<uint32_t>(result.ids.size()), 0, options.sequence);
    int32_t token = sampler.sample(logits, history, unit(low64(random)));
    if (std::find(options.endTokens.begin(), options.endTokens.end(), token) !=
        options.endTokens.end())
      break;
    bytes.clear();
    tokenizer.decode(token, history.empty() ? -1 : history.back(), bytes);
    history.push_back(token);
    result.ids.push_back(token);
    size_t before = result.text.size();
    begins.push_back(before);
    result.text += characters.push(bytes);
    // A stop text may have begun before this token.
    size_t from = before - std::min(before, longestStop);
    size_t cut = std::string::npos;
    for (const std::string &stop : options.stop)
      if (!stop.empty())
        cut = std::min(cut, result.text.find(stop, from));
    if (cut != std::string::npos) {
      result.text.resize(cut);
      stopped = true;
    }
    size_t end =
        stopped ? result.text.size() : safeLength(result.text, longestStop);
    if (end > printed) {
      print(std::string_view(result.text).substr(printed, end - printed));
      printed = end;
    }
    bool full = static_cast<int64_t>(history.size()) >= source.context();
    if (stopped || (full && options.stopWhenFull) ||
        result.ids.size() == limit ||
        (options.interrupt && options.interrupt->load()))
      break;
    logits = source.next(token);
  }
  result.drawn = result.ids.size();
  if (stopped)
    while (!begins.empty() && begins.back() >= result.text.size()) {
      begins.pop_back();
      result.ids.pop_back();
    }
  else
    result.text += characters.finish();
  if (result.text.size() > printed)
    print(std::string_view(result.text).substr(printed));
  result.seconds = now() - began;
  return result;
}

std::vector<int32_t> promptTokens(const Tokenizer &tokenizer,
                                  std::string_view prompt, bool withBegin,
                                  const std::string &origin) {
  try {
    std::vector<int32_t> ids = tokenizer.ids(prompt);
    std::vector<int32_t> begin;
    if (withBegin)
      begin = tokenizer.begin();
    // Who writes `<s>` out wants it once.
    if (ids.size() < begin.size() ||
        !std::equal(begin.begin(), begin.end(), ids.begin()))
      ids.insert(ids.begin(), begin.begin(), begin.end());
    if (!ids.empty())
      return ids;
  } catch (const NoToken &error) {
    throw InputError(origin + ": " + error.what() +
                     ": only what the text had that the model was built with "
                     "can be used");
  } catch (const InputError &error) {
    throw InputError(origin + ": " + error.what());
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
