//===- evaluator.h - how good a model is --------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_RUNTIME_TRAINING_EVALUATOR_H
#define TFM_RUNTIME_TRAINING_EVALUATOR_H

#include "runtime/comm/processes.h"
#include "runtime/data/dataset.h"
#include "runtime/data/source_input.h"
#include "runtime/model/model.h"
#include "runtime/recipe.h"
#include "runtime/support/progress.h"

#include <optional>
#include <span>
#include <vector>

namespace tfm {

struct Evaluation {
  /// Mean over all targets that count, in nats.
  double loss = 0;
  int64_t targets = 0;
  /// Share of targets that are the most probable token, where asked for and
  /// all of them have logits.
  std::optional<double> accuracy;
  /// exp(mean of -log p(target)), where asked for: what the model gives a
  /// target, without the label smoothing that a loss may have.
  std::optional<double> perplexity;
};

/// What to measure besides the loss.
enum class Measure {
  Nothing,
  Accuracy,
  /// The perplexity, too, of a loss that is its logarithm.
  PerplexityOfLoss,
  /// The perplexity, too, from the logits.
  PerplexityOfLogits,
};

/// What can be said of a model that was trained so: of a loss that is no cross
/// entropy no perplexity.
Measure measureOf(const TrainSpec &train);

/// Measures the loss of a part of the data with the model's `evaluate`. Keeps
/// its buffers, so that evaluating allocates nothing. With `processes` each of
/// them has every so many-th batch; all of them get the same result, to the
/// bit, for any number of them.
class Evaluator {
public:
  Evaluator(Model &model, const Dataset &data, std::optional<int32_t> ignore,
            Processes *processes = nullptr);

  /// Over `batches` batches of windows spread evenly over the part, always the
  /// same ones; 0 for all windows. What is measured of logits comes from
  /// `evaluate`, where it gives `right`, else from `forward`; nothing is where
  /// the logits are not of the next token after each one.
  /// `progress`, if any, hears of each batch.
  Evaluation evaluate(Part part, int64_t batches,
                      Measure measure = Measure::Nothing,
                      Progress *progress = nullptr);
  /// How many batches these are.
  int64_t batchesOf(Part part, int64_t batches) const;

  /// Whether any target that `evaluate` would read counts.
  bool hasTargets(Part part, int64_t batches);

private:
  /// How many windows of the part are read for so many batches; 0 for all.
  int64_t windowsOf(Part part, int64_t batches) const;
  /// Reads window `index` of `wanted` into a row; how many targets count. Where
  /// windows run out, the first ones fill the batch up again: losses that hold
  /// the rows against each other then meet none but those of the data.
  int64_t readWindow(Part part, int64_t index, int64_t wanted, int64_t row);
  /// Sums over the targets that count.
  struct Sums {
    int64_t targets = 0; ///< how many these are
    double loss = 0;
    int64_t right = 0;      ///< the most probable token
    double surprisal = 0;   ///< -log p(target)
    bool haveLogits = true; ///< whether all of them do

    void add(const Sums &other);
  };
  /// Of the batch that begins with window `first` of `wanted`, spread evenly.
  Sums evaluateBatch(Part part, int64_t first, int64_t wanted, Measure measure);
  /// Of what `evaluate` gives for each target, over those that count.
  double sumOf(std::string_view output);
  void readLogits(bool withSurprisal, Sums &sums);
  void readRows(int64_t firstRow, int64_t count, const tfm_buffer &logits,
                bool withSurprisal, Sums &sums);

  Model &model;
  const Dataset &data;
  std::optional<int32_t> ignore;
  Processes *processes;
  const tfm_function &function;
  const tfm_buffer *random; ///< null where the loss draws no numbers
  Rows rows;
  std::vector<int64_t> valid; ///< leading losses that are of data, by row
};

/// How many questions of a kind were answered exactly.
struct Score {
  int64_t asked = 0;
  int64_t right = 0;
  double accuracy() const {
    return asked == 0 ? 0
                      : static_cast<double>(right) / static_cast<double>(asked);
  }
};

struct ExactMatch {
  /// Prompts that also occur in the training part, and those that do not.
  Score seen;
  Score unseen;
  Score all() const {
    return {seen.asked + unseen.asked, seen.right + unseen.right};
  }
};

/// One that is asked.
struct AskedQuestion {
  Question question;
  /// Whether its prompt also occurs in the training part.
  bool isSeen = false;
};

/// Those of the validation part: at most `limit`, spread evenly; 0 for all.
/// Goes through all of the data, and keeps no more than these.
std::vector<AskedQuestion> chooseQuestions(const Dataset &data,
                                           size_t limit = 0);

/// Answers questions greedily with `forward`, as many at a time as it has rows;
/// an answer counts when every token up to the end token is right. With
/// `processes` each of them has its share, and all get the same result. Throws
/// InputError for a model that cannot answer.
ExactMatch answerQuestions(Model &model, const Dataset &data,
                           std::span<const AskedQuestion> questions,
                           Processes *processes = nullptr);

} // namespace tfm

#endif // TFM_RUNTIME_TRAINING_EVALUATOR_H
