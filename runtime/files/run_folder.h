//===- run_folder.h - the directory that a training leaves --------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

// A run directory holds
//   model.safetensors      the parameters                        )
//   optimizer.safetensors  the optimizer's state, `.m` and `.v`  ) a checkpoint
//   state.json             where the run stands, see RunState    )
//   tokenizer.json         the tokenizer, in Hugging Face form
//   generation_config.json, tokenizer_config.json, special_tokens_map.json,
//   chat_template.jinja    what the folder, or gguf file, that training began
//                          with says of texts: where they end, how messages
//                          are written
//   log.jsonl              one line per step, validation, sample, checkpoint
//   step-N/                older checkpoints, as many as the recipe keeps
//   best/                  the weights of the lowest validation loss
//
// How a checkpoint is written, so that there is a whole one whenever the
// process, or the system, ends:
//
//   1. model.safetensors.next and optimizer.safetensors.next are written and
//      synced, and the log is;
//   2. state.json.next appears by a rename, whole: this is the moment from
//      which the new checkpoint counts. It has the checksums of what belongs to
//      it;
//   3. the old checkpoint is linked into step-N/, with its part of the log, if
//      it is to be kept;
//   4. the three files are renamed, state.json last;
//   5. checkpoints that are one too many are removed.
//
// Whoever finds a state.json.next does 3 to 5 again, which is no harm where it
// was done; whoever finds none removes what else ends in .next. Either needs
// the lock of the folder: the files may be in the hands of who writes them.
//
//===----------------------------------------------------------------------===//

#ifndef TFM_RUNTIME_FILES_RUN_FOLDER_H
#define TFM_RUNTIME_FILES_RUN_FOLDER_H

#include "runtime/files/run_state.h"
#include "runtime/support/atomic_file.h"
#include "runtime/support/folder_lock.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tfm {

/// The files of a checkpoint in the order in which they are renamed.
constexpr const char *checkpointFiles[] = {
    "model.safetensors", "optimizer.safetensors", "state.json"};
/// What a run knows of its texts. Its older checkpoints and `best/` have the
/// same.
constexpr const char *textFiles[] = {
    "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json",
    "chat_template.jinja", "generation_config.json"};
/// What the names of files end in that are about to take another's place.
constexpr const char *nextSuffix = ".next";

/// A run directory that this process alone writes to, for as long as it lives.
class RunFolder {
public:
  /// Makes the folder where there is none, which goes again where nothing is
  /// written into it; throws FolderInUse where another process is training in
  /// it. Besides the newest checkpoint `keep - 1` older ones stay.
  explicit RunFolder(std::string path, int64_t keep = 1);

  const std::string &path() const { return folder; }
  std::string file(const std::string &name) const {
    return folder + "/" + name;
  }

  /// Whether it still is where it was, and nobody has moved or removed it.
  bool isThere() const { return lock && lock->isOf(folder); }
  /// Makes it anew, empty. Throws InputError where others have taken its place.
  void makeAgain();

  /// Finishes a checkpoint that counts, or removes what there is of one that
  /// does not. Throws InputError where it is damaged.
  void recover();
  /// The two parts of that: nothing is changed yet; and that is done.
  void requireWholePending() const;
  void finishPending();
  /// Steps 2, and 3 to 5, of the file comment.
  void beginCheckpoint(const RunState &state);
  void finishCheckpoint();
  /// Removes the files of a checkpoint that does not count; it throws nothing,
  /// as it is called where something else has gone wrong.
  void discardUnfinished() noexcept;
  /// Removes all that a run leaves, to make way for another. Throws InputError
  /// where `best/` was not written by a run, unless `overwrite`.
  void clear(bool overwrite);
  /// Makes `best/`, a folder of this one and no link to another.
  void makeBest() const;
  /// Puts the file `name` also into a folder within this one, without a copy
  /// where the file system has links. Throws InputError.
  void linkInto(const std::string &inner, const std::string &name) const;

private:
  /// The state of the newest checkpoint; none where its state is missing or
  /// damaged. Throws InputError where it cannot be read.
  std::optional<RunState> newestState() const;
  void keepOlder() const;
  void removeOlder() const;
  void removeInner(const std::string &name) const;
  void removeIfAllowed(const std::string &name) const;
  void removeUnfinished() const;

  FolderForFiles made; ///< goes where training never began
  std::string folder;
  int64_t keep;
  std::optional<FolderLock> lock; ///< none where it could not be made again
};

/// Whether a folder holds a checkpoint, also one whose renames are to be
/// finished.
bool holdsCheckpoint(const std::string &folder);

/// Whether a folder holds weights, of a run or published ones.
bool holdsWeights(const std::string &folder);

/// Whether a run may take a folder that nobody named: there is none, or nothing
/// in it but what a run leaves that ends before its first checkpoint.
bool isFreeForRun(const std::string &folder);

/// Finishes a checkpoint that was cut short in `path`, if that is a run's
/// folder in which nobody is training; for commands that only read. How many
/// of the older ones are kept is for training to decide: all of them are.
void settle(const std::string &path);

/// Whether a checkpoint in `path` is being put into its place, or was when its
/// process ended.
bool isBetweenCheckpoints(const std::string &path);

/// The steps of the older checkpoints that a run directory holds, in order.
std::vector<int64_t> olderSteps(const std::string &folder);

/// The run directory in which `path` is, or would be, `step-N` or `best`; empty
/// where it is in none.
std::string runAround(const std::string &path);

/// The run directory of which `path` is an older checkpoint; empty where it is
/// none.
std::string runOfOlder(const std::string &path);

/// The folder that a run began with (`--init`), as its checkpoint in `folder`
/// says, or of `best/` that of the run around it; empty where none does.
std::string beganWith(const std::string &folder);

/// Throws InputError where a run in `folder` would write over `path`.
void requireNoFileOf(const std::string &folder, const std::string &path);

/// Throws InputError if `path`, which is to be written, is a file of a run:
/// only training may replace those.
void requireNoRunFile(const std::string &path);

} // namespace tfm

#endif // TFM_RUNTIME_FILES_RUN_FOLDER_H
