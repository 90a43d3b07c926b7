//===- recipe.h - what the model file says beside the architecture ------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

// The JSON of `tfm_model.recipe` as plain structs. Its schema stands in
// docs/design.md, "Recipe schema", and what each key means in recipe_table.h,
// which has the defaults, too. What may be null in the JSON is here 0, empty or
// no value, as each comment says.
//
//===----------------------------------------------------------------------===//

#ifndef TFM_RUNTIME_RECIPE_H
#define TFM_RUNTIME_RECIPE_H

#include "runtime/recipe_table.h"
#include "runtime/tfm_model.h"

#include <array>
#include <cstdint>
#include <map>
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
  std::string kind{recipe::text("train.schedule.kind")};
  int64_t warmup = recipe::integer("train.schedule.warmup");
  double final = recipe::number("train.schedule.final"); ///< rate at the end
  /// Cosine: the step at which `final` is reached, 0 for the last step.
  /// Wsd: the number of steps of the decay.
  int64_t decay = recipe::integer("train.schedule.decay");
  /// Shape of the decay of wsd.
  std::string shape{recipe::text("train.schedule.shape")};
  /// Whether the first step of the warm-up has a rate of 0 (transformers) or
  /// already a share of it (nanoGPT). Absent: as the kind's origin has it.
  std::optional<bool> warmupFromZero = std::nullopt;
};

struct OptimizerSpec {
  std::string kind{recipe::text("train.optimizer.kind")};
  double lr = recipe::number("train.optimizer.lr");
  double beta1 = recipe::betas("train.optimizer.betas")[0];
  double beta2 = recipe::betas("train.optimizer.betas")[1];
  double eps = recipe::number("train.optimizer.eps");
};

struct SampleSpec {
  Interval interval;
  std::string prompt{recipe::text("train.sample.prompt")};
  int64_t tokens = recipe::integer("train.sample.tokens");
};

/// Early stopping: end when the validation loss has not improved `patience`
/// times in a row.
struct StopSpec {
  int64_t patience = 0; ///< 0: never
  double minDelta = recipe::number("train.stop.min_delta");
};

struct TrainSpec {
  int64_t batch = recipe::integer("train.batch");
  /// In a model without training one token: what `data` shows of a text.
  int64_t sequence = 1;
  int64_t accumulate = recipe::integer("train.accumulate");
  /// "sequential" or "tree".
  std::string sum{recipe::text("train.sum")};
  std::optional<int64_t> steps;
  std::optional<int64_t> epochs;
  uint64_t seed = recipe::integer("train.seed");
  std::string loss{recipe::text("train.loss.kind")};
  double labelSmoothing = recipe::number("train.loss.label_smoothing");
  /// The target that does not count: a token's id or the token itself.
  std::optional<int64_t> ignoreId;
  std::optional<std::string> ignoreToken;
  OptimizerSpec optimizer;
  ScheduleSpec schedule;
  double clip = 0.0; ///< 0: none
  /// Patterns of what is trained; none: everything is.
  std::vector<std::string> only;
  bool shuffle = recipe::flag("train.shuffle");
  /// "f32" or "bf16".
  std::string precision{recipe::text("train.precision")};
  Interval validate;
  int64_t validateBatches = recipe::integer("train.validate.batches");
  Interval checkpoint;
  int64_t keep = recipe::integer("train.checkpoint.keep");
  SampleSpec sample;
  StopSpec stop;
};

struct DataSpec {
  std::string kind; ///< empty: the model has no data
  std::vector<std::string> files;
  std::string directory;
  std::string field;
  std::string prompt{recipe::text("data.prompt")};
  std::string answer{recipe::text("data.answer")};
  int64_t count = 0; ///< of data that is not generated 0, and so `max`
  int64_t max = 0;
  uint64_t seed = recipe::integer("data.seed");
  double validation = recipe::number("data.validation");
  std::vector<std::string> validationFiles;
  /// Draw the validation part with this seed; absent: the last part is it.
  std::optional<uint64_t> splitSeed;
  /// Empty: nothing.
  std::string begin;
  /// Empty: as the kind has it, see `withDefaults` in data/texts.h.
  std::string answerAfter, end, pad;
  /// Whether targets before an example's answer are the ignored one.
  bool answersOnly = recipe::flag("data.answers_only");
};

struct TokenizerSpec {
  std::string kind; ///< empty: none
  std::vector<std::string> files;
  std::string directory;
  int64_t size = recipe::integer("tokenizer.size");
  std::string json; ///< in Hugging Face form, where it was resolved at build
};

struct GenerateSpec {
  double temperature = recipe::number("generate.temperature");
  int64_t topK = recipe::integer("generate.top_k");       ///< 0: off
  double topP = recipe::number("generate.top_p");         ///< 1: off
  double minP = recipe::number("generate.min_p");         ///< 0: off
  double typicalP = recipe::number("generate.typical_p"); ///< 1: off
  double repeatPenalty = recipe::number("generate.repeat_penalty");
  int64_t tokens = recipe::integer("generate.tokens");
  bool greedy = recipe::flag("generate.greedy");
  std::string overflow{recipe::text("generate.overflow")};
  std::vector<std::string> stop;
  std::string weights{recipe::text("generate.weights")};
  std::string cache{recipe::text("generate.cache")};
  int64_t batch = recipe::integer("generate.batch");
  int64_t context = recipe::integer("generate.context");
  /// What prevents generation with a cache: "gpt.tfm:27: ..."; empty: nothing.
  std::string wholeSequence;
};

/// What arrays fill: its axes as the model's text calls them.
struct InputFact {
  std::vector<std::string> dims;
  /// Of ids that choose rows the first and the last one that has a row.
  std::optional<std::array<int64_t, 2>> ids;
  /// Beside these the target that losses leave out.
  std::optional<int64_t> ignored;
};

struct Recipe {
  bool hasTrain = false;
  TrainSpec train;
  DataSpec data;
  TokenizerSpec tokenizer;
  GenerateSpec generate;
  /// What the compiler read from the graph, as JSON; see graph_judge.h.
  std::string facts;
  /// The table of the model's family, as JSON; empty where its file names none.
  std::string family;
  /// Of the facts: how many token ids the model has rows for in every table; 0
  /// where it has none.
  int64_t tokens = 0;
  /// The same: how many times attention is computed.
  int64_t attentions = 0;
  /// The same: whether an encoder reads the prompts.
  bool hasEncoder = false;
  /// The same, where the data is arrays: the inputs that they fill, by name.
  std::map<std::string, InputFact> inputs;
  /// The same of each result of `forward`: its axes as the model's text calls
  /// them.
  std::vector<std::vector<std::string>> results;

  /// What the build computes products in: `f32` or `bf16`.
  const std::string &precision() const {
    return generate.weights == "bf16" ? generate.weights : train.precision;
  }
  /// What keys and values of earlier tokens are kept in.
  const std::string &cache() const {
    return generate.cache == "f32" ? precision() : generate.cache;
  }
};

/// Reads all of it; an empty text is that of a model without any of the blocks.
/// Throws std::logic_error that names the key where one is missing, of another
/// type, or out of its range: the compiler wrote it.
Recipe parseRecipe(std::string_view text);
/// That of a model; of one without any, as of an empty text.
Recipe recipeOf(const tfm_model &model);
/// JSON: what config.json means to a model; empty where its file names no
/// family.
std::string familyOf(const tfm_model &model);

} // namespace tfm

#endif // TFM_RUNTIME_RECIPE_H
