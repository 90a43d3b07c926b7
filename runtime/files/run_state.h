//===- run_state.h - where a run stands ---------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_RUNTIME_FILES_RUN_STATE_H
#define TFM_RUNTIME_FILES_RUN_STATE_H

#include "runtime/recipe_table.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace tfm {

/// Everything that a resumed run needs beside parameters and optimizer state:
/// `state.json` of a checkpoint.
struct RunState {
  /// The name of the model that is trained.
  std::string model;
  /// Updates done; also the position in the data, which is a function of it.
  int64_t step = 0;
  /// Updates of the whole run: the schedule depends on it.
  int64_t steps = 0;
  uint64_t seed = 0;
  double lr = 0;
  /// `train.precision` of the build that wrote it. Of the numbers beside it
  /// nothing depends on that: they are f32. Before there was a choice states
  /// did not say it, and meant this.
  std::string precision{recipe::text("train.precision")};
  /// `train.optimizer.kind` of the build that wrote it, which the optimizer's
  /// state is of. Empty where an earlier version wrote it: not known.
  std::string optimizer;
  /// That training has seen: of arrays examples.
  int64_t tokens = 0;
  /// The folder that training began from (`--init`); empty where there was
  /// none.
  std::string init;
  /// What the user named instead of the recipe's data (`--data`); empty where
  /// that was nothing.
  std::string data;
  /// What else the build has by which updates are computed (`runSettings`); a
  /// checksum of the data (`Dataset::checksum`), and of each of its files
  /// (`fileChecksums`). Empty where an earlier version wrote it.
  std::map<std::string, std::string> settings;
  std::string dataChecksum;
  std::map<std::string, std::string> fileChecksums;
  /// Length of log.jsonl at this step.
  uint64_t logBytes = 0;
  /// Early stopping.
  std::optional<double> bestValidation;
  int64_t worseValidations = 0;
  /// Checksums of what belongs to this state: the headers of both files of
  /// tensors (which have those of each tensor), and the log's `logBytes`. Empty
  /// in a state that an earlier version wrote.
  std::string weightsChecksum, optimizerChecksum, logChecksum;
};

/// As JSON, which ends with a checksum of all before it.
std::string stateText(const RunState &state);

/// Reads what `stateText` wrote, or an earlier version. Throws InputError that
/// names `path`: damaged bytes, an unknown format, a value that no run has.
RunState parseState(const std::string &text, const std::string &path);

} // namespace tfm

#endif // TFM_RUNTIME_FILES_RUN_STATE_H
