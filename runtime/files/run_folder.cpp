//===- run_folder.cpp - the directory that a training leaves ------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/files/run_folder.h"

#include "runtime/formats/safetensors.h"
#include "runtime/support/atomic_file.h"
#include "runtime/support/error.h"
#include "runtime/support/progress.h"
#include "runtime/support/system_call.h"
#include "runtime/support/utf8.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <limits>
#include <unistd.h>

namespace fs = std::filesystem;

namespace tfm {

namespace {

constexpr const char *olderPrefix = "step-";
constexpr const char *pendingState = "state.json.next";

/// N of a name `step-N`; -1 of any other.
int64_t stepOfName(std::string_view name) {
  int64_t step = -1;
  if (!name.starts_with(olderPrefix))
    return -1;
  const char *first = name.data() + std::strlen(olderPrefix);
  const char *last = name.data() + name.size();
  auto [end, error] = std::from_chars(first, last, step);
  return error == std::errc() && end == last ? step : -1;
}

std::string nameOfOlder(int64_t step) {
  return olderPrefix + std::to_string(step);
}

/// The names of what is in a folder; none where there is no folder. Throws
/// InputError where the system cannot tell.
std::vector<std::string> namesIn(const std::string &folder) {
  std::vector<std::string> names;
  std::error_code error;
  do {
    names.clear();
    for (fs::directory_iterator next(folder, error), end; !error && next != end;
         next.increment(error))
      names.push_back(next->path().filename().string());
  } while (error == std::errc::interrupted);
  if (error && error != std::errc::no_such_file_or_directory &&
      error != std::errc::not_a_directory &&
      error != std::errc::permission_denied)
    throw InputError("cannot read the folder {}: {}", folder, error.message());
  std::ranges::sort(names);
  return names;
}

/// What a link leads to is not the run's.
bool isOwnFolder(const std::string &path) {
  return isFolder(path) && !isLink(path);
}

RunState readState(const std::string &path) {
  return parseState(readRegularFile(path, "the checkpoint's state"), path);
}

/// Whether a file of tensors is the one that `state` was written with.
bool belongsTo(const std::string &path, const std::string &checksum,
               const RunState &state) {
  if (!fileExists(path))
    return false;
  SafetensorsReader file(path);
  if (!checksum.empty())
    return file.headerChecksum() == checksum;
  auto step = file.header().metadata.find("step");
  return step != file.header().metadata.end() &&
         step->second == std::to_string(state.step);
}

} // namespace

RunFolder::RunFolder(std::string path, int64_t keep)
    : made(path), folder(std::move(path)), keep(keep) {
  try {
    lock.emplace(folder);
  } catch (const FolderInUse &) {
    made.keep(); // whoever was faster has written nothing yet
    throw;
  }
}

void RunFolder::makeAgain() {
  if (holdsWeights(folder))
    throw InputError(
        "{} was moved or removed while it was trained in, and what has its "
        "name now holds other weights: move that away",
        folder);
  makeFolder(folder);
  lock.emplace(folder);
}

void RunFolder::recover() {
  requireWholePending();
  finishPending();
}

void RunFolder::requireWholePending() const {
  std::string pending = file(pendingState);
  if (!fileExists(pending))
    return;
  RunState state;
  try {
    state = readState(pending);
  } catch (const InputError &error) {
    throw InputError(
        "{}; without that file training goes on from the checkpoint before it",
        error.what());
  }
  const std::string checksums[] = {state.weightsChecksum,
                                   state.optimizerChecksum};
  for (int i = 0; i < 2; ++i) {
    std::string path = file(checkpointFiles[i]);
    if (!belongsTo(path + nextSuffix, checksums[i], state) &&
        !belongsTo(path, checksums[i], state))
      throw InputError("{} does not belong to the checkpoint of step {}, which "
                       "{} is the state of: without that file training goes on "
                       "from the checkpoint before it",
                       path, state.step, pending);
  }
}

void RunFolder::finishPending() {
  if (fileExists(file(pendingState)))
    finishCheckpoint();
  removeUnfinished();
  removeOlder();
}

void RunFolder::beginCheckpoint(const RunState &state) {
  syncFolder(folder);
  AtomicFile pending(file(pendingState), nextSuffix);
  pending.write(stateText(state));
  pending.commit();
}

void RunFolder::discardUnfinished() noexcept {
  try {
    if (!fileExists(file(pendingState))) // else it counts
      removeUnfinished();
  } catch (const InputError &) {
    // Whoever opens the folder next tries again.
  }
}

void RunFolder::finishCheckpoint() {
  // Where the weights have been renamed already, so has the old checkpoint been
  // linked.
  if (keep > 1 && fileExists(file(checkpointFiles[0]) + nextSuffix) &&
      fileExists(file("state.json")))
    keepOlder();
  for (const char *name : checkpointFiles) {
    std::string path = file(name);
    // The state is the last, and only once the others surely are there.
    if (name == checkpointFiles[2])
      syncFolder(folder);
    if (fileExists(path + nextSuffix))
      renameFile(path + nextSuffix, path);
  }
  syncFolder(folder);
  removeOlder();
}

std::optional<RunState> RunFolder::newestState() const {
  std::string path = file("state.json");
  if (!fileExists(path))
    return std::nullopt;
  std::string text = readRegularFile(path, "the checkpoint's state");
  try {
    return parseState(text, path);
  } catch (const InputError &) {
    return std::nullopt;
  }
}

void RunFolder::keepOlder() const {
  std::optional<RunState> state = newestState();
  if (!state)
    return; // nobody could go on from it, and the new one is whole
  std::string name = nameOfOlder(state->step);
  std::string unfinished = name + nextSuffix;
  removeInner(unfinished);
  removeInner(name);
  makeFolder(file(unfinished));
  for (std::string each : checkpointFiles)
    linkInto(unfinished, each);
  for (std::string each : textFiles)
    if (fileExists(file(each)))
      linkInto(unfinished, each);
  // The log goes on, or is cut by whoever resumes: no file to be shared.
  if (state->logBytes > 0 && fileExists(file("log.jsonl"))) {
    AtomicFile log(file(unfinished + "/log.jsonl"), nextSuffix);
    log.write(readFile(file("log.jsonl"), "the run's log", state->logBytes));
    log.commit();
  }
  syncFolder(file(unfinished));
  renameFile(file(unfinished), file(name));
  syncFolder(folder);
}

void RunFolder::linkInto(const std::string &inner,
                         const std::string &name) const {
  std::string to = file(inner + "/" + name);
  // Where a link leads may be said from its own folder alone.
  if (uninterrupted([&] {
        return linkat(AT_FDCWD, file(name).c_str(), AT_FDCWD, to.c_str(),
                      AT_SYMLINK_FOLLOW);
      }) == 0)
    return;
  AtomicFile copy(to, nextSuffix);
  copy.write(readFile(file(name), "the run's"));
  copy.commit();
}

void RunFolder::removeOlder() const {
  std::vector<int64_t> older = olderSteps(folder);
  if (older.empty())
    return;
  std::optional<RunState> newest = newestState();
  if (!newest)
    return; // whoever loads it says so, and may need the older ones
  // Later ones are of a run that was set back by hand.
  std::erase_if(older, [&](int64_t step) { return step > newest->step; });
  std::ranges::reverse(older);
  int64_t kept = 0;
  for (int64_t step : older)
    if (step == newest->step || ++kept >= keep)
      removeIfAllowed(nameOfOlder(step));
}

/// Somebody may have protected a checkpoint: no reason to end the training.
void RunFolder::removeIfAllowed(const std::string &name) const {
  bool isAllowed = access(file(name).c_str(), W_OK) == 0 ||
                   (errno != EACCES && errno != EPERM && errno != EROFS);
  if (isAllowed)
    removeInner(name);
  else
    say("note: " + printable(file(name)) + " is kept: it cannot be removed (" +
        std::strerror(errno) + ")\n");
}

void RunFolder::removeInner(const std::string &name) const {
  std::string path = file(name);
  if (isLink(path))
    return removeFile(path); // not what it leads to
  if (!isFolder(path))
    return;
  // What is half removed must not look whole.
  std::string unfinished = path;
  if (!name.ends_with(nextSuffix)) {
    unfinished += nextSuffix;
    removeInner(name + nextSuffix);
    renameFile(path, unfinished);
  }
  auto remove = [&](const std::string &each) {
    removeFile(unfinished + "/" + each);
    removeFile(unfinished + "/" + each + nextSuffix);
  };
  for (const char *each : checkpointFiles)
    remove(each);
  for (const char *each : textFiles)
    remove(each);
  remove("log.jsonl");
  // Somebody's own files stay where they are.
  if (rmdir(unfinished.c_str()) != 0 && errno != ENOENT && errno != ENOTEMPTY &&
      errno != EEXIST)
    throw InputError("cannot remove {}: {}", unfinished, std::strerror(errno));
}

void RunFolder::removeUnfinished() const {
  for (std::string name : {"model.safetensors", "optimizer.safetensors",
                           "state.json.next", "log.jsonl"})
    removeFile(file(name) + nextSuffix);
  for (std::string name : textFiles)
    removeFile(file(name) + nextSuffix);
  if (isOwnFolder(file("best"))) {
    removeFile(file("best/model.safetensors") + nextSuffix);
    for (std::string name : textFiles)
      removeFile(file("best/" + name) + nextSuffix);
  }
  for (const std::string &name : namesIn(folder))
    if (name.ends_with(nextSuffix) &&
        stepOfName(name.substr(
            0, name.size() - std::string_view(nextSuffix).size())) >= 0)
      removeInner(name);
}

void RunFolder::clear(bool overwrite) {
  // It had none when it was chosen.
  if (!overwrite && holdsWeights(folder))
    throw InputError("{} holds a run by now: another training has written it "
                     "meanwhile. Choose another --out, or pass --overwrite",
                     folder);
  // Of a run that was killed before its first checkpoint, or somebody's own?
  std::string best = file("best/model.safetensors");
  if (!overwrite && fileExists(best) &&
      !SafetensorsReader(best).header().metadata.contains("validation_loss"))
    throw InputError("{} was not written by a training, and would be lost: "
                     "choose another --out, or pass --overwrite",
                     best);
  // The state first: without one the rest is no checkpoint.
  removeFile(file(pendingState));
  for (const char *name :
       {"state.json", "optimizer.safetensors", "model.safetensors"})
    removeFile(file(name));
  removeUnfinished();
  for (int64_t step : olderSteps(folder))
    removeInner(nameOfOlder(step));
  // Those of another run would end this one's texts at tokens of its own.
  if (overwrite || fileExists(file("log.jsonl")))
    for (std::string name : textFiles)
      if (name != "tokenizer.json") // which saveTokenizer replaces
        removeFile(file(name));
  removeFile(file("log.jsonl"));
  if (isOwnFolder(file("best"))) {
    removeFile(file("best/model.safetensors"));
    for (std::string name : textFiles)
      removeFile(file("best/" + name));
    rmdir(file("best").c_str()); // where it is empty
  }
  syncFolder(folder);
}

void RunFolder::makeBest() const {
  if (isLink(file("best")))
    removeFile(file("best"));
  makeFolder(file("best"));
}

bool holdsWeights(const std::string &folder) {
  return fileExists(folder + "/model.safetensors") ||
         fileExists(folder + "/model.safetensors.index.json") ||
         holdsCheckpoint(folder) || !olderSteps(folder).empty();
}

bool holdsCheckpoint(const std::string &folder) {
  std::string weights = folder + "/model.safetensors";
  return (fileExists(weights) && fileExists(folder + "/state.json")) ||
         fileExists(folder + "/" + pendingState);
}

void settle(const std::string &path) {
  if (!isBetweenCheckpoints(path))
    return;
  // Of a folder that cannot be written, as where the disk is full, what can be
  // read is read.
  if (access(path.c_str(), W_OK) != 0)
    return;
  std::optional<RunFolder> run;
  try {
    run.emplace(path, std::numeric_limits<int64_t>::max());
  } catch (const FolderInUse &) {
    return; // by who trains there, or finishes it as well
  }
  run->requireWholePending();
  try {
    run->finishPending();
  } catch (const InputError &) {
    // Whoever trains there next says so.
  }
}

bool isBetweenCheckpoints(const std::string &path) {
  return fileExists(path + "/" + pendingState);
}

std::vector<int64_t> olderSteps(const std::string &folder) {
  std::vector<int64_t> steps;
  for (const std::string &name : namesIn(folder))
    if (int64_t step = stepOfName(name);
        step >= 0 && !isLink(folder + "/" + name) &&
        fileExists(folder + "/" + name + "/state.json"))
      steps.push_back(step);
  std::ranges::sort(steps);
  return steps;
}

std::string runAround(const std::string &named) {
  const std::string path = withoutSlashes(named);
  std::error_code none;
  fs::path real = fs::weakly_canonical(path, none);
  std::string name = real.filename().string();
  if ((stepOfName(name) < 0 && name != "best") ||
      !holdsCheckpoint(real.parent_path().string()))
    return "";
  // In the user's words where these have the parent in them.
  fs::path own = fs::path(path).lexically_normal();
  bool isNamed = own.filename() == name;
  std::string parent =
      (isNamed ? own.parent_path() : real.parent_path()).string();
  return parent.empty() ? "." : parent;
}

std::string runOfOlder(const std::string &path) {
  return fileExists(path + "/state.json") ? runAround(path) : "";
}

/// Whether a run has a file of that name in its folder.
static bool isNameOfRun(const std::string &name) {
  bool isOfRun = name == "log.jsonl";
  for (std::string part : textFiles)
    isOfRun |= name == part;
  for (std::string part : checkpointFiles)
    isOfRun |= name == part || name == part + nextSuffix;
  return isOfRun;
}

bool isFreeForRun(const std::string &folder) {
  std::error_code none;
  if (!fs::exists(fs::symlink_status(folder, none)))
    return true;
  if (!isFolder(folder) || holdsWeights(folder))
    return false;
  for (fs::directory_iterator entry(folder, none), end; !none && entry != end;
       entry.increment(none)) {
    std::string name = entry->path().filename().string();
    // A kill leaves files of the run under temporary names,
    // `NAME.0123abcd.tmp`.
    if (size_t ending = name.rfind('.'); name.ends_with(".tmp"))
      name = name.substr(0, name.rfind('.', ending - 1));
    if (!isNameOfRun(name) && name != "best")
      return false;
  }
  return !none;
}

void requireNoFileOf(const std::string &folder, const std::string &path) {
  fs::path file(path);
  fs::path parent = file.has_parent_path() ? file.parent_path() : ".";
  if (isNameOfRun(file.filename().string()) &&
      fs::path(folder).lexically_normal() / "" ==
          parent.lexically_normal() / "")
    throw InputError("{} is a file that the run in {} is going to write: write "
                     "to another file",
                     path, folder);
}

std::string beganWith(const std::string &folder) {
  std::string run = runAround(folder);
  for (const std::string &place : {folder, run})
    if (std::string state = place + "/state.json";
        !place.empty() && fileExists(state))
      return parseState(readRegularFile(state, "the checkpoint's state"), state)
          .init;
  return "";
}

void requireNoRunFile(const std::string &path) {
  fs::path file(path);
  std::error_code none;
  if (fs::is_symlink(file, none))
    file = fs::weakly_canonical(file, none);
  std::string folder = file.parent_path().string();
  if (folder.empty())
    folder = ".";
  std::string name = file.filename().string();
  // `best/` has no state; its run does.
  if (isNameOfRun(name) &&
      (holdsCheckpoint(folder) || !runAround(folder).empty()))
    throw InputError("{} is a file of the run in {}, which would be lost: "
                     "write to another file",
                     path, folder);
}

} // namespace tfm
