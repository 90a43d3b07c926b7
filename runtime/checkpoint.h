//===- checkpoint.h - what a run leaves on disk -------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

// A run directory holds
//   model.safetensors      the parameters
//   optimizer.safetensors  the optimizer's state, `<parameter>.m` and `.v`
//   state.json             where the run stands, see RunState
//   tokenizer.json         the tokenizer, in Hugging Face form
//   log.jsonl              one line per step, validation and sample
//
// A checkpoint is the first three together. All of them are first written
// beside their places as `<name>.next` and synced; only then are they renamed,
// state.json last. The step stands in each of them, so whoever opens the folder
// after a kill between two renames finds the missing ones as whole `.next`
// files and finishes the job; before the first rename, the old checkpoint is
// untouched. So at any moment there is one whole checkpoint.
//
//===----------------------------------------------------------------------===//

#ifndef TFM_RUNTIME_CHECKPOINT_H
#define TFM_RUNTIME_CHECKPOINT_H

#include "runtime/model.h"

#include <optional>
#include <string>

namespace tfm {

/// Everything that a resumed run needs beside parameters and optimizer state.
struct RunState {
  /// Updates done; also the position in the data, which is a function of it.
  int64_t step = 0;
  /// Updates of the whole run: the schedule depends on it.
  int64_t steps = 0;
  uint64_t seed = 0;
  double lr = 0;
  int64_t tokens = 0;
  /// Length of log.jsonl at this step.
  uint64_t logBytes = 0;
  /// Early stopping.
  std::optional<double> bestValidation;
  int64_t worseValidations = 0;
};

/// Writes a checkpoint. Throws InputError (disk full); the one before stays.
void saveCheckpoint(const std::string &folder, const Model &model,
                    const RunState &state);

/// Loads a checkpoint with the optimizer's state; throws InputError that names
/// what is missing or does not fit.
RunState loadCheckpoint(const std::string &folder, Model &model);

/// The first parameter, or state of the optimizer, with a value that is not
/// finite: nobody could go on from such a checkpoint. Empty where all are.
std::string notFinite(const Model &model);

/// Whether a folder holds a checkpoint.
bool holdsCheckpoint(const std::string &folder);

/// Whether a folder holds weights, of a run or published ones.
bool holdsWeights(const std::string &folder);

/// Throws InputError if `path`, which is to be written, is a file of a run:
/// only training may replace those.
void requireNoRunFile(const std::string &path);

/// Removes a checkpoint and its log, to make way for another run.
void removeCheckpoint(const std::string &folder);

/// Loads parameters from a safetensors file, a run directory or a Hugging Face
/// folder, whose config.json must be of this model. Throws InputError.
void loadWeights(const std::string &path, Model &model);

/// Bytes that a checkpoint takes.
uint64_t checkpointBytes(const Model &model);

/// Throws InputError if the folder cannot hold a checkpoint beside the one that
/// it may have: better said before training than after.
void checkSpace(const std::string &folder, const Model &model);

} // namespace tfm

#endif // TFM_RUNTIME_CHECKPOINT_H
