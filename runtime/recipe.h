//===- recipe.h - what the model file says beside the architecture ------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

// The JSON of `tfm_model.recipe` as plain structs. Its schema, and what each
// field means, stands in docs/design.md, "Recipe schema".
//
//===----------------------------------------------------------------------===//

#ifndef TFM_RUNTIME_RECIPE_H
#define TFM_RUNTIME_RECIPE_H

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tfm {

/// How often something happens; 0 is never.
struct Interval {
  int64_t every = 0;
  /// "steps" or "epochs".
  std::string unit = "steps";
};

struct ScheduleSpec {
  std::string kind = "constant"; ///< constant, linear, cosine, wsd
  int64_t warmup = 0;
  double final = 0.0; ///< the rate at the end
  /// Cosine: the step at which `final` is reached, 0 for the last step.
  /// Wsd: the number of steps of the decay.
  int64_t decay = 0;
  /// Shape of the decay of wsd: linear, cosine, 1-sqrt.
  std::string shape = "linear";
  /// Whether the first step of the warm-up has a rate of 0 (transformers) or
  /// already a share of it (nanoGPT). Absent: as the kind's origin has it.
  std::optional<bool> warmupFromZero = std::nullopt;
};

struct OptimizerSpec {
  std::string kind = "adamw"; ///< adamw, adam, sgd
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
};

struct SampleSpec {
  Interval interval;
  std::string prompt;
  int64_t tokens = 100;
};

/// Early stopping: end when the validation loss has not improved `patience`
/// times in a row.
struct StopSpec {
  int64_t patience = 0;
  double minDelta = 0.0;
};

struct TrainSpec {
  int64_t batch = 1;
  int64_t sequence = 1;
  int64_t accumulate = 1;
  std::optional<int64_t> steps;
  std::optional<int64_t> epochs;
  uint64_t seed = 1337;
  /// cross_entropy, mse, or own: a method of the model.
  std::string loss = "cross_entropy";
  double labelSmoothing = 0.0;
  /// The target that does not count: a token's id or the token itself.
  std::optional<int64_t> ignoreId;
  std::optional<std::string> ignoreToken;
  OptimizerSpec optimizer;
  ScheduleSpec schedule;
  double clip = 0.0; ///< 0: none
  bool shuffle = true;
  Interval validate;
  int64_t validateBatches = 20; ///< 0: all of it
  Interval checkpoint;
  int64_t keep = 1; ///< how many checkpoints stay, the newest included
  SampleSpec sample;
  StopSpec stop;
};

struct DataSpec {
  /// text, lines, json, pairs, tokens, sums, products; empty: the model has no
  /// data.
  std::string kind;
  std::vector<std::string> files;
  std::string directory; ///< where the files were when the model was built
  std::string field;     ///< json: the member that holds the text
  int64_t count = 0;     ///< sums, products
  int64_t max = 0;
  uint64_t seed = 1;
  double validation = 0.1;
  /// Draw the validation part with this seed; absent: the last part is it.
  std::optional<uint64_t> splitSeed;
  std::string answerAfter;
  std::string end;
  std::string pad;
};

struct TokenizerSpec {
  /// chars, bytes, words, bpe_words, huggingface, gpt2, sentencepiece; empty:
  /// none.
  std::string kind;
  std::vector<std::string> files;
  std::string directory; ///< where the files were when the model was built
  int64_t size = 0;
  std::string json; ///< in Hugging Face form, where it was resolved at build
};

struct GenerateSpec {
  double temperature = 1.0;
  int64_t topK = 0;      ///< 0: off
  double topP = 1.0;     ///< 1: off
  double minP = 0.0;     ///< 0: off
  double typicalP = 1.0; ///< 1: off
  double repeatPenalty = 1.0;
  int64_t tokens = 200;
  bool greedy = false;
  std::string overflow = "slide"; ///< slide, stop
  std::vector<std::string> stop;
  int64_t context = 0; ///< 0: as many as `forward` takes
  /// What prevents generation with a cache: "gpt.tfm:27: ..."; empty: nothing.
  std::string wholeSequence;
};

struct Recipe {
  bool hasTrain = false;
  TrainSpec train;
  DataSpec data;
  TokenizerSpec tokenizer;
  GenerateSpec generate;
  /// What the compiler read from the graph, as JSON; see hf_config.h.
  std::string facts;
  /// Of the facts: how many token ids the model has rows for in every table; 0
  /// where it has none.
  int64_t tokens = 0;
};

/// Throws std::logic_error where the text is not what the schema says: the
/// compiler wrote it.
Recipe parseRecipe(std::string_view text);

} // namespace tfm

#endif // TFM_RUNTIME_RECIPE_H
