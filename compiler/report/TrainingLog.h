//===- TrainingLog.h - what a training run logged ---------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_REPORT_TRAININGLOG_H
#define TFM_REPORT_TRAININGLOG_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/raw_ostream.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tfm {

/// The lines of a `log.jsonl`, as `./m train` writes it.
struct TrainingLog {
  struct Step {
    int64_t step = 0;
    double loss = 0, lr = 0, gradientNorm = 0;
  };
  struct Validation {
    int64_t step = 0;
    double loss = 0;
    /// Of training, without validation and samples.
    double seconds = 0;
    /// Share of exact answers, where the data has answers: to prompts of the
    /// training part, and to others.
    std::optional<double> exactSeen, exactUnseen;
  };
  struct Sample {
    int64_t step = 0;
    std::string prompt, text;
  };
  /// The folder's name; of a file elsewhere its own.
  std::string name;
  std::string path;
  std::vector<Step> steps;
  std::vector<Validation> validations;
  std::vector<Sample> samples;
  /// What training has seen: tokens of texts, else examples.
  int64_t seen = 0;
  std::string unit = "tokens";
};

/// Reads a log, or `log.jsonl` of a run's folder. The last line may be cut off,
/// as that of a run that goes on.
llvm::Expected<TrainingLog> readTrainingLog(const std::string &path);

/// Adds the lines of a log's text to `log`, whose path errors name.
llvm::Error readLogLines(llvm::StringRef text, TrainingLog &log);

/// A page with the curves of all runs over each other.
void writePlot(llvm::ArrayRef<TrainingLog> logs, llvm::raw_ostream &os);

} // namespace tfm

#endif // TFM_REPORT_TRAININGLOG_H
