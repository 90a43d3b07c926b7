//===- logits_source.cpp - what may follow a growing text -----------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/generation/logits_source.h"

#include "runtime/data/array_input.h"
#include "runtime/data/source_input.h"
#include "runtime/device/in_pieces.h"
#include "runtime/files/find_tokenizer.h"
#include "runtime/recipe.h"
#include "runtime/support/error.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <stdexcept>
#include <string_view>

namespace tfm {

void LogitsSource::startAll(std::span<const Start> starts, const Take &take) {
  for (const Start &text : starts) {
    Given given{text.place, start(text.place, text.prompt)};
    take({&given, 1});
  }
}

void LogitsSource::lookAt(size_t count,
                          const std::function<void(size_t, size_t)> &look) {
  for (size_t i = 0; i < count; ++i)
    look(i, 0);
}

LogitRows &LogitsSource::extend(int64_t, std::span<const int32_t>) {
  throw std::logic_error("these logits come one after the other");
}

void LogitsSource::takeBack(int64_t, int64_t) {
  throw std::logic_error("nothing has been extended");
}

Logits LogitsSource::next(int32_t token) {
  Logits result;
  Step step{0, token};
  next({&step, 1},
       [&](std::span<const Given> given) { result = given[0].logits; });
  return result;
}

namespace {

/// The function `forward` of a model, and what it is given and gives.
class Forward {
public:
  explicit Forward(Model &model)
      : model(model), function(model.function(TFM_FORWARD)),
        input(Model::input(function, TFM_IN_TOKENS)),
        output(Model::output(function, TFM_OUT_LOGITS)), source(function),
        sources(1, source.length()) {
    ask({}, /*padding=*/0);
  }

  /// What an encoder reads from now on, for as many tokens as it takes.
  void ask(std::span<const int32_t> prompt, int32_t padding) {
    sources.set(0, prompt, padding);
  }
  int64_t sourceLength() const { return source.length(); }

  /// Tokens of a sequence that it takes.
  int64_t length() const { return input.shape[1]; }
  int64_t vocabulary() const { return output.shape[output.rank - 1]; }

  /// The logits after the last of some tokens, with `right`, over and over, in
  /// the positions right of it.
  std::span<const float> logits(std::span<const int32_t> text,
                                std::span<const int32_t> right) {
    {
      PendingWrite<int32_t> write = model.write<int32_t>(input);
      std::span<int32_t> tokens = write.values().subspan(text.size());
      std::ranges::copy(text, write.values().begin());
      for (size_t i = 0; i < tokens.size(); ++i)
        tokens[i] = right[i % right.size()];
    }
    source.write(model, sources);
    model.run(function);
    auto width = static_cast<size_t>(vocabulary());
    newest = model.read<float>(output, (text.size() - 1) * width, width);
    return newest.values();
  }

private:
  Model &model;
  const tfm_function &function;
  const tfm_buffer &input;
  const tfm_buffer &output;
  SourceInput source;
  Sources sources;
  PendingRead<float> newest;
};

class WholeSequence : public LogitsSource {
public:
  WholeSequence(Model &model, int64_t limit, std::optional<AnswerMarks> answers)
      : model(model), forward(model), newest(forward.length()),
        answers(answers) {
    if (limit > 0)
      newest = std::min(newest, limit);
    window.reserve(static_cast<size_t>(newest) + 1);
  }

  int64_t context() const override { return newest; }
  int64_t vocabulary() const override { return forward.vocabulary(); }

  std::span<const int32_t>
  beginning(std::span<const int32_t> prompt) const override {
    return answers ? std::span(&answers->begin, 1) : prompt;
  }
  int64_t sourceLength() const override { return forward.sourceLength(); }

  Logits start(int64_t, std::span<const int32_t> prompt) override {
    if (answers)
      forward.ask(prompt, answers->padding);
    std::span<const int32_t> text = beginning(prompt);
    auto count = std::min(text.size(), static_cast<size_t>(newest));
    std::span<const int32_t> newestTokens = text.last(count);
    window.assign(newestTokens.begin(), newestTokens.end());
    requireOwnLogits(model, window);
    return evaluate();
  }

  void next(std::span<const Step> steps, const Take &take) override {
    for (auto [place, token] : steps) {
      if (static_cast<int64_t>(window.size()) == newest)
        window.erase(window.begin());
      window.push_back(token);
      Given given{place, evaluate()};
      take({&given, 1});
    }
  }

private:
  std::span<const float> evaluate() {
    const int32_t padding = 0;
    return forward.logits(window, {&padding, 1});
  }

  Model &model;
  Forward forward;
  int64_t newest;
  std::optional<AnswerMarks> answers;
  std::vector<int32_t> window;
};

/// The function `encode`, which leaves in caches what it makes of a prompt.
class Encoder {
public:
  Encoder(Model &model, const tfm_function &function)
      : model(model), function(function), source(function),
        sources(1, source.length()) {}

  int64_t length() const { return source.length(); }

  void read(std::span<const int32_t> prompt, int32_t padding) {
    sources.set(0, prompt, padding);
    source.write(model, sources);
    model.run(function);
  }

private:
  Model &model;
  const tfm_function &function;
  SourceInput source;
  Sources sources;
};

class CachedSequences : public LogitsSource {
public:
  CachedSequences(Model &model, int64_t context,
                  std::optional<AnswerMarks> answers)
      : model(model), decode(model, model.function(TFM_DECODE)), limit(context),
        width(decode.width), answers(answers) {
    if (const tfm_function *encode = model.find(TFM_ENCODE))
      encoder.emplace(model, *encode);
    for (const char *name : {TFM_PREFILL, TFM_PREFILL_SHORT, TFM_VERIFY})
      if (const tfm_function *function = model.find(name))
        chunks.emplace_back(model, *function);
    rowsToRead = multipliesTiles(chunks[0].function) ? 32 : 8;
    if (limit < 1)
      throw std::logic_error("a model with a cache must say its context");
    // Where `prefill` fills no row in particular, the first one is all that can
    // begin anew without the others.
    windows.resize(chunks[0].row ? static_cast<size_t>(decode.tokens.shape[0])
                                 : 1);
    for (std::vector<int32_t> &window : windows)
      window.reserve(static_cast<size_t>(limit) + 1);
    anew.reserve(windows.size());
    given.reserve(windows.size());
    for (Chunk &chunk : chunks)
      if (chunk.segments > 1) {
        segmented = &chunk;
        waiting.reserve(static_cast<size_t>(chunk.segments));
      }
  }

  int64_t context() const override { return limit; }
  int64_t vocabulary() const override { return width; }
  int64_t places() const override {
    return static_cast<int64_t>(windows.size());
  }

  std::span<const int32_t>
  beginning(std::span<const int32_t> prompt) const override {
    return answers ? std::span(&answers->begin, 1) : prompt;
  }
  int64_t sourceLength() const override {
    return encoder ? encoder->length() : 0;
  }

  Logits start(int64_t place, std::span<const int32_t> prompt) override {
    Logits logits;
    Start text{place, prompt};
    startAll({&text, 1},
             [&](std::span<const Given> given) { logits = given[0].logits; });
    return logits;
  }

  void startAll(std::span<const Start> starts, const Take &take) override {
    anew.clear();
    for (auto [place, prompt] : starts) {
      if (encoder) // of one text
        encoder->read(prompt, answers ? answers->padding : 0);
      std::span<const int32_t> text = beginning(prompt);
      auto count = std::min(text.size(), static_cast<size_t>(limit));
      std::span<const int32_t> newestTokens = text.last(count);
      windows[place].assign(newestTokens.begin(), newestTokens.end());
      anew.push_back(place);
    }
    readAnew(take);
  }

  void next(std::span<const Step> steps, const Take &take) override {
    auto isFull = [&](const Step &step) {
      return static_cast<int64_t>(windows[step.place].size()) == limit;
    };
    // Rows without a step get a token, too: behind their text, where it does
    // not count. Of a full one the last position is written over: it is read
    // anew before it goes on.
    if (!std::ranges::all_of(steps, isFull)) {
      {
        PendingWrite<int32_t> write = model.write<int32_t>(decode.tokens);
        std::ranges::fill(write.values(), 0);
        for (const Step &step : steps)
          write.values()[step.place] = step.token;
      }
      {
        PendingWrite<int32_t> write = model.write<int32_t>(decode.position);
        std::ranges::fill(write.values(), 0);
        for (size_t place = 0; place < windows.size(); ++place)
          write.values()[place] = static_cast<int32_t>(
              std::min(windows[place].size(), static_cast<size_t>(limit) - 1));
      }
      decode.run();
    }
    given.clear();
    for (const Step &step : steps)
      if (!isFull(step))
        given.push_back({step.place, {decode, step.place}});
    anew.clear();
    for (const Step &step : steps) {
      std::vector<int32_t> &window = windows[step.place];
      if (isFull(step)) {
        window.erase(window.begin());
        anew.push_back(step.place);
      }
      window.push_back(step.token);
    }
    if (!given.empty())
      take(given);
    readAnew(take);
  }

  void leave(int64_t place) override { windows[place].clear(); }

  int64_t readers() const override {
    return decode.canBeShared()
               ? std::min<int64_t>(places(), model.device().hostThreads())
               : 1;
  }

  void lookAt(size_t count,
              const std::function<void(size_t, size_t)> &look) override {
    if (count == 1 || readers() == 1)
      return LogitsSource::lookAt(count, look);
    auto most = static_cast<size_t>(readers());
    auto share = [&](size_t piece, size_t) {
      for (size_t i = piece; piece < most && i < count; i += most)
        look(i, piece);
    };
    inPieces(model.device(), std::ref(share)); // of which nothing is copied
  }

  int64_t extent(int64_t place) const override {
    const Chunk &few = chunks.back();
    // Only `verify` has the logits after all of its tokens.
    return few.length
               ? 0
               : std::min(few.size,
                          limit - static_cast<int64_t>(windows[place].size()));
  }

  LogitRows &extend(int64_t place, std::span<const int32_t> tokens) override {
    std::vector<int32_t> &window = windows[place];
    Chunk &few = chunks.back();
    Part part{place, window.size(), tokens};
    run(few, {&part, 1});
    window.insert(window.end(), tokens.begin(), tokens.end());
    return few;
  }

  void takeBack(int64_t place, int64_t tokens) override {
    windows[place].resize(windows[place].size() - static_cast<size_t>(tokens));
  }

private:
  /// A function that works on the cache, and what it gives.
  class Cached : public LogitRows {
  public:
    Cached(Model &model, const tfm_function &function)
        : function(function), tokens(Model::input(function, TFM_IN_TOKENS)),
          position(Model::input(function, TFM_IN_POSITION)),
          logits(Model::output(function, TFM_OUT_LOGITS)),
          width(logits.shape[logits.rank - 1]), model(model),
          best(Model::findOutput(function, TFM_OUT_CANDIDATES)),
          bestIds(Model::findOutput(function, TFM_OUT_CANDIDATE_IDS)) {}

    /// All inputs are written.
    void run() {
      hasRead = false;
      model.run(function);
    }

    std::span<const float> all(int64_t row) override {
      PendingRead<float> read = model.read<float>(
          logits, static_cast<size_t>(row * width), static_cast<size_t>(width));
      if (canBeShared())
        return read.values();
      newest = std::move(read);
      return newest.values();
    }

    /// Whether what it gives are views, which several threads may take at once.
    bool canBeShared() const { return model.device().isHostMemory() && !best; }

    /// The first who asks after a run brings those of all rows.
    Candidates candidates(int64_t row) override {
      if (!best)
        return {};
      if (!hasRead) {
        candidateLogits = model.read<float>(*best);
        candidateIds = model.read<int32_t>(*bestIds);
        hasRead = true;
      }
      auto count = static_cast<size_t>(best->shape[best->rank - 1]);
      size_t from = static_cast<size_t>(row) * count;
      return {candidateLogits.values().subspan(from, count),
              candidateIds.values().subspan(from, count)};
    }

    const tfm_function &function;
    const tfm_buffer &tokens;
    const tfm_buffer &position;
    const tfm_buffer &logits;
    const int64_t width;

  private:
    Model &model;
    /// Null where the build chooses none.
    const tfm_buffer *best;
    const tfm_buffer *bestIds;
    PendingRead<float> newest, candidateLogits;
    PendingRead<int32_t> candidateIds;
    /// Whether these are of the last run.
    bool hasRead = false;
  };

  /// A function that reads a part of a prompt.
  struct Chunk : Cached {
    Chunk(Model &model, const tfm_function &function)
        : Cached(model, function),
          length(Model::findInput(function, TFM_IN_LENGTH)),
          row(Model::findInput(function, TFM_IN_ROW)),
          segments(row ? tokens.shape[0] : 1), size(tokens.shape[1]) {}
    /// Null in `verify`, all of whose tokens count.
    const tfm_buffer *length;
    /// Null where the cache has one row.
    const tfm_buffer *row;
    /// How many parts of texts it takes.
    int64_t segments;
    /// Tokens that it takes of each.
    int64_t size;
  };

  /// A part of the text at a place, from position `at` on.
  struct Part {
    int64_t place;
    size_t at;
    std::span<const int32_t> tokens;
  };

  /// Whether products of integers are so fast that many rows wait for memory.
  static bool multipliesTiles(const tfm_function &function) {
    std::span<const tfm_launch> launches(
        function.launches, static_cast<size_t>(function.launch_count));
    return std::ranges::any_of(launches, [](const tfm_launch &launch) {
      return std::string_view(launch.products) == TFM_PRODUCTS_INT8_TILES;
    });
  }

  /// What so many tokens are begun to be read with: the longest chunk that they
  /// fill, else the one that takes parts of several texts, else the one that
  /// takes the least time for all of them. It depends on nothing else, so that
  /// neither do the bits.
  Chunk &chunkFor(int64_t tokens) {
    auto cost = [&](const Chunk &chunk) {
      return (tokens + chunk.size - 1) / chunk.size * (chunk.size + rowsToRead);
    };
    if (tokens >= chunks[0].size)
      return chunks[0];
    if (segmented)
      return *segmented;
    return *std::ranges::min_element(chunks, {}, cost);
  }

  /// Reads the texts at the places `anew` from their beginnings; parts that
  /// go into one chunk with others wait for them.
  void readAnew(const Take &take) {
    waiting.clear();
    for (int64_t place : anew) {
      std::span<const int32_t> window = windows[static_cast<size_t>(place)];
      for (size_t at = 0; at < window.size();) {
        Chunk &chunk = chunkFor(static_cast<int64_t>(window.size() - at));
        size_t count =
            std::min(static_cast<size_t>(chunk.size), window.size() - at);
        Part part{place, at, window.subspan(at, count)};
        at += count;
        if (chunk.segments == 1) {
          run(chunk, {&part, 1}, take);
          continue;
        }
        waiting.push_back(part);
        if (static_cast<int64_t>(waiting.size()) < chunk.segments)
          continue;
        run(chunk, waiting, take);
        waiting.clear();
      }
    }
    if (!waiting.empty())
      run(*segmented, waiting, take);
  }

  /// Runs a chunk, and tells the logits after texts that end in it.
  void run(Chunk &chunk, std::span<const Part> parts, const Take &take) {
    if (interrupt && interrupt->load())
      throw ReadingEnded();
    run(chunk, parts);
    given.clear();
    for (size_t i = 0; i < parts.size(); ++i) {
      auto [place, at, tokens] = parts[i];
      if (at + tokens.size() < windows[static_cast<size_t>(place)].size())
        continue; // who waits for these would wait for nothing
      // `verify` has those after all of its tokens.
      auto row = static_cast<int64_t>(chunk.length ? i : tokens.size() - 1);
      given.push_back({place, {chunk, row}});
    }
    if (!given.empty())
      take(given);
  }

  /// Runs a chunk for some parts of texts. Those that are missing repeat the
  /// first one, to the same effect.
  void run(Chunk &chunk, std::span<const Part> parts) {
    auto segments = static_cast<size_t>(chunk.segments);
    auto partAt = [&](size_t i) { return parts[i < parts.size() ? i : 0]; };
    {
      PendingWrite<int32_t> write = model.write<int32_t>(chunk.tokens);
      std::span<int32_t> values = write.values();
      std::ranges::fill(values, 0);
      for (size_t i = 0; i < segments; ++i)
        std::ranges::copy(
            partAt(i).tokens,
            values.subspan(i * static_cast<size_t>(chunk.size)).begin());
    }
    auto fill = [&](const tfm_buffer *buffer, auto number) {
      if (!buffer)
        return;
      PendingWrite<int32_t> write = model.write<int32_t>(*buffer);
      std::ranges::fill(write.values(), 0);
      for (size_t i = 0; i < segments; ++i)
        write.values()[i] = static_cast<int32_t>(number(partAt(i)));
    };
    fill(&chunk.position, [](const Part &part) { return part.at; });
    fill(chunk.length, [](const Part &part) { return part.tokens.size(); });
    fill(chunk.row, [](const Part &part) { return part.place; });
    chunk.run();
  }

  Model &model;
  Cached decode;
  /// What reads prompts, the longest first.
  std::vector<Chunk> chunks;
  /// Rows of a product in the time that reading the weights takes.
  int64_t rowsToRead;
  int64_t limit;
  int64_t width;
  std::optional<AnswerMarks> answers;
  std::optional<Encoder> encoder;
  /// What takes parts of several texts; null where nothing does.
  Chunk *segmented = nullptr;
  /// What is in the cache of each place.
  std::vector<std::vector<int32_t>> windows;
  /// The places whose texts are being read from their beginnings, and what
  /// waits for a chunk to be full.
  std::vector<int64_t> anew;
  std::vector<Part> waiting;
  /// What has been computed, as `take` gets it.
  std::vector<Given> given;
};

} // namespace

void requireTakesTexts(const tfm_model &model, const tfm_function &forward) {
  if (!holdsArrays(recipeOf(model).data))
    return Model::requireFilled(forward, {TFM_IN_TOKENS});
  for (int32_t i = 0; i < forward.input_count; ++i) {
    const tfm_buffer &input = forward.inputs[i];
    if (input.name != std::string_view(TFM_IN_TOKENS) ||
        input.dtype != TFM_I32 || input.rank != 2)
      throw InputError(
          "{} takes `{}`, which arrays fill, and no text: `predict` writes "
          "what it makes of the arrays of a file",
          model.name, input.name);
  }
}

bool staysTheSame(
    size_t length, int64_t vocabulary,
    const std::function<std::span<const float>(std::span<const int32_t> right)>
        &results) {
  std::vector<int32_t> right(length, 0);
  std::span<const float> given = results(right);
  const std::vector<float> first(given.begin(), given.end());
  // What is no number is no sign of it, and is said where it is used.
  auto isSame = [](float x, float y) {
    return x == y || (std::isnan(x) && std::isnan(y));
  };
  auto stays = [&] {
    return std::ranges::equal(first, results(right), isSame);
  };
  std::ranges::fill(right, static_cast<int32_t>(vocabulary) - 1);
  bool isSameAgain = stays();
  // Of these two tokens a choice among the positions may take none.
  std::minstd_rand draw;
  for (int tries = 0; isSameAgain && tries < 6; ++tries) {
    for (int32_t &token : right)
      token = static_cast<int32_t>(draw() % static_cast<uint32_t>(vocabulary));
    isSameAgain = stays();
  }
  return isSameAgain;
}

void requireOwnLogits(Model &model, std::span<const int32_t> text,
                      const std::string &where) {
  if (model.find(TFM_DECODE)) // what can be evaluated with a cache is causal
    return;
  Forward forward(model);
  int64_t length = forward.length();
  if (static_cast<int64_t>(text.size()) >= length)
    return;
  if (staysTheSame(static_cast<size_t>(length),
                   vocabularyOf(model.descriptor()),
                   [&](std::span<const int32_t> right) {
                     return forward.logits(text, right);
                   }))
    return;
  std::string obstacle = recipeOf(model.descriptor()).generate.wholeSequence;
  if (forward.sourceLength() > 0)
    throw InputError(
        "{}the next token of an answer has no logits of its own: this model "
        "looks at all {} positions of `tokens` at once{}; make its attention "
        "to them causal in {} and build it again",
        where, length, obstacle.empty() ? "" : " (" + obstacle + ")",
        model.descriptor().source);
  throw InputError(
      "{4}a text of {0} token{3} has no logits of its own: this model looks at "
      "all {1} positions at once{2}; begin with more tokens ({1} are enough), "
      "or build it for a shorter context",
      text.size(), length, obstacle.empty() ? "" : " (" + obstacle + ")",
      text.size() == 1 ? "" : "s", where);
}

void requireRows(const Model &model) {
  const tfm_buffer &logits =
      Model::output(model.function(TFM_FORWARD), TFM_OUT_LOGITS);
  int64_t width = logits.shape[logits.rank - 1];
  int64_t rows = vocabularyOf(model.descriptor());
  if (width > rows)
    throw InputError(
        "{} gives logits for {} tokens, but a table in it has rows for {}: a "
        "text could not go on with the others. Give both as many in {} and "
        "build it again",
        model.descriptor().name, width, rows, model.descriptor().source);
}

std::unique_ptr<LogitsSource>
wholeSequence(Model &model, int64_t context,
              std::optional<AnswerMarks> answers) {
  return std::make_unique<WholeSequence>(model, context, answers);
}

std::unique_ptr<LogitsSource>
cachedSequence(Model &model, int64_t context,
               std::optional<AnswerMarks> answers) {
  return std::make_unique<CachedSequences>(model, context, answers);
}

std::unique_ptr<LogitsSource> openLogits(Model &model, int64_t context,
                                         std::optional<AnswerMarks> answers) {
  if (const tfm_function *forward = model.find(TFM_FORWARD)) {
    requireTakesTexts(model.descriptor(), *forward);
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
      return cachedSequence(model, context, answers);
  }
  return wholeSequence(model, context, answers);
}

} // namespace tfm
