//===- dataset.h - what a model is trained and tested on ----------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_RUNTIME_DATA_DATASET_H
#define TFM_RUNTIME_DATA_DATASET_H

#include "runtime/data/array_input.h"
#include "runtime/data/rows.h"
#include "runtime/data/texts.h"
#include "runtime/philox.h"
#include "runtime/recipe.h"
#include "runtime/support/error.h"
#include "runtime/tokenizer/tokenizer.h"

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace tfm {

enum class Part { Train, Validation };

/// A prompt and the tokens that must follow it, up to and with the end token.
/// Where an encoder reads the prompt, as `source`, what must follow the token
/// that begins answers.
struct Question {
  std::vector<int32_t> source;
  std::vector<int32_t> prompt;
  std::vector<int32_t> answer;
};

/// What progress is counted in, and how much of it a row is.
struct DataUnit {
  const char *name;
  int64_t perRow;
};

/// What a model learns from, row by row: a text's windows, or examples.
/// What a training step calls allocates nothing: `starts`, `windows`,
/// `windowStart` and `fill`.
class Dataset {
public:
  virtual ~Dataset() = default;

  /// Places where a window may start: 0 .. starts - 1.
  virtual int64_t starts(Part part) const = 0;
  /// Windows that together show everything once; of a text they do not overlap.
  virtual int64_t windows(Part part) const = 0;
  virtual int64_t windowStart(Part part, int64_t window) const = 0;
  /// Throws InputError that names an input of a function which it cannot fill.
  virtual void requireFills(const tfm_function &function) const = 0;
  /// Fills a row of all of them. Returns how many of the row's first losses are
  /// of data; behind them it is filled up.
  virtual int64_t fill(Part part, int64_t start, Rows &rows,
                       int64_t row) const = 0;
  /// Whether rows are drawn anywhere (a text) or are examples of their own.
  virtual bool isStream() const = 0;
  /// Of rows of so many tokens, where they have any.
  virtual DataUnit unit(int64_t sequence) const = 0;
  /// Prompt and answer of a window, where it has them.
  virtual std::optional<Question> question(Part, int64_t) const {
    return std::nullopt;
  }
  /// What fills up the prompt of a question for an encoder.
  virtual int32_t padding() const { return 0; }
  /// Of all that windows of so many tokens, and perhaps sources, may show of
  /// these parts: whether others have the same data. Of a part with more than
  /// so many pieces of 2^16 tokens or numbers its length and as much as they
  /// hold, spread evenly over it; of a text its ends, too. Half a gigabyte
  /// takes a few tenths of a second.
  virtual std::string checksum(std::initializer_list<Part> parts,
                               int64_t sequence, bool withSources = false,
                               int64_t mostPieces = 1 << 11) const = 0;
  /// What whoever uses the data should know: that some of it is left out.
  virtual std::vector<std::string> notes() const { return {}; }
};

/// Windows of `sequence` tokens with the tokens that follow each as targets.
class TextDataset : public Dataset {
public:
  /// Fills one row, [sequence] each; of a text as many tokens as there is room
  /// for. Returns how many leading targets are data; after them stand the
  /// filler (tokens) and the ignored target.
  virtual int64_t read(Part part, int64_t start, std::span<int32_t> tokens,
                       std::span<int32_t> targets) const = 0;
  /// What an encoder reads beside that row.
  virtual std::span<const int32_t> source(Part part, int64_t start) const;

  void requireFills(const tfm_function &function) const override;
  int64_t fill(Part part, int64_t start, Rows &rows,
               int64_t row) const override;
  DataUnit unit(int64_t sequence) const override {
    return {"tokens", sequence};
  }
  std::string checksum(std::initializer_list<Part> parts, int64_t sequence,
                       bool withSources = false,
                       int64_t mostPieces = 1 << 11) const override;
};

/// What opening a data source needs.
struct DataRequest {
  const DataSpec &spec;
  const Tokenizer &tokenizer;
  int64_t sequence;
  /// The target that the loss ignores.
  std::optional<int32_t> ignore;
  /// For data with messages.
  FindChat chat = {};
  /// How many tokens of the prompt an encoder reads, and the model goes on from
  /// the data's `begin`; 0 for a model that reads the prompt itself.
  int64_t source = 0;
  /// For data that is arrays: those that fill the function.
  std::vector<ArrayInput> arrays = {};
};

/// Reads everything into memory, but arrays and token ids in files, which are
/// read when they are wanted. Throws InputError naming the file for data
/// that is missing, empty, too short for one window, or not of the tokenizer's
/// characters (NoToken, which does not say what to do).
std::unique_ptr<Dataset> openDataset(const DataRequest &request);

/// The same of texts alone.
std::unique_ptr<TextDataset> openTexts(const DataRequest &request);

/// The parts of it, each in its own source file.
std::unique_ptr<TextDataset> openStream(const DataRequest &request);
std::unique_ptr<TextDataset> openExamples(const DataRequest &request);
std::unique_ptr<Dataset> openArrays(const DataSpec &data,
                                    std::vector<ArrayInput> inputs);

/// Throws InputError where no example of `count` is left to train on, of data
/// that messages call `origin`. All of it may be for validation; there may not
/// be none of it.
void requireTrainingPart(const DataSpec &data, int64_t trained, int64_t count,
                         const std::string &origin);

/// Fisher and Yates with the seed of `data.split_seed`, one Philox block an
/// exchange: which examples are for validation.
template <typename Example>
void shuffleForSplit(std::vector<Example> &examples, uint64_t seed) {
  for (size_t i = examples.size(); i > 1; --i) {
    uint64_t bits =
        low64(philox(seed, Stream::Split, static_cast<uint32_t>(i), 0, 0));
    std::swap(examples[i - 1], examples[below(bits, i)]);
  }
}

/// Appends the tokens of a part of the data. Where that cannot be done, throws
/// InputError (NoToken where it is for want of a token) that begins with
/// `place()`.
template <typename Place>
void encodeData(const Tokenizer &tokenizer, std::string_view text,
                std::vector<int32_t> &ids, Place place) {
  try {
    tokenizer.encode(text, ids);
  } catch (const NoToken &error) {
    throw NoToken("{}: {}", place(), error.what());
  } catch (const InputError &error) {
    throw InputError("{}: {}", place(), error.what());
  }
}

/// The data's `begin` of prompts, where it has one.
std::vector<int32_t> beginOfData(const Recipe &recipe,
                                 const Tokenizer &tokenizer);

/// How many of `count` items are for training: floor(count * (1 - share)).
int64_t trainingShare(int64_t count, double validation);

} // namespace tfm

#endif // TFM_RUNTIME_DATA_DATASET_H
