//===- checkpoint.h - what a run leaves on disk -------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

// See run_folder.h for the files, and for why a kill at any moment leaves a
// whole checkpoint.
//
//===----------------------------------------------------------------------===//

#ifndef TFM_RUNTIME_FILES_CHECKPOINT_H
#define TFM_RUNTIME_FILES_CHECKPOINT_H

#include "runtime/files/run_folder.h"
#include "runtime/files/run_state.h"
#include "runtime/files/weights.h"
#include "runtime/model/model.h"

#include <functional>
#include <optional>
#include <string>

namespace tfm {

/// Writes a checkpoint of `state`, whose checksums it fills in. `logged` is
/// called when the tensors are on the disk, right before the checkpoint counts,
/// so that the log may tell of it, and sets the state's mark of the log. Throws
/// InputError (disk full); the checkpoint before stays, or this one is whole.
void saveCheckpoint(RunFolder &run, const Model &model, RunState &state,
                    const std::function<void(RunState &)> &logged);

/// Loads a checkpoint with the optimizer's state. Throws InputError that names
/// what is missing, damaged or does not fit. `checksLog`: also where the log is
/// not what it was.
RunState loadCheckpoint(const std::string &folder, Model &model,
                        bool checksLog = true);

/// Writes the weights of the lowest validation loss to `best/`.
void saveBest(RunFolder &run, const Model &model, int64_t step, double loss);

/// The validation loss of the weights in `best/`, where there are some.
std::optional<double> bestLoss(const std::string &folder);

/// The text of the tokenizer that a run goes on with: the run's own. Throws
/// InputError where that is another one than `json`.
std::string tokenizerOfResumed(const std::string &resumed,
                               const std::string &json);

/// Makes `tokenizer.json` of a run directory; of an empty text there is none.
void saveTokenizer(const RunFolder &run, const std::string &json);

/// Throws InputError where a folder in which no training was begun has another
/// file of that name, which is somebody's own and would be lost.
void requireNoOther(const RunFolder &run, const std::string &name,
                    const std::string &text);

/// Throws InputError where `path` is the tokenizer.json of a run directory and
/// `content` is not what the training wrote there.
void requireTokenizerOfRun(const std::string &path, const std::string &content);

/// The first parameter, or state of the optimizer, with a value that is not
/// finite: nobody could go on from such a checkpoint. Empty where all are.
std::string notFinite(const Model &model);

/// Loads parameters from a safetensors file, a run directory or a Hugging Face
/// folder, whose config.json must be of this model. Throws InputError. With
/// `unmatched` and `part` as `loadParameters` has them; a part has no
/// configuration. Returns what the user should know.
std::vector<std::string> loadWeights(const std::string &path, Model &model,
                                     Unmatched *unmatched = nullptr,
                                     const std::string &part = "");

/// What a training writes.
struct SpaceNeeds {
  /// Checkpoints that lie there at the same time at most, the one that is being
  /// written included, and how many of them are there already.
  int64_t checkpoints = 1;
  int64_t present = 0;
  /// Whether the best weights are kept, and whether some are there already.
  bool savesBest = false;
  bool hasBest = false;
  uint64_t otherBytes = 0; ///< the tokenizer and the log
};

/// Bytes that training may still have to write, at most.
uint64_t bytesToCome(const Model &model, const SpaceNeeds &needs,
                     uint64_t block);

/// Throws InputError if the folder cannot hold what training will write there
/// beside what is there: better said before training than after.
void checkSpace(const RunFolder &run, const Model &model, const SpaceNeeds &);

} // namespace tfm

#endif // TFM_RUNTIME_FILES_CHECKPOINT_H
