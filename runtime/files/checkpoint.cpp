//===- checkpoint.cpp - what a run leaves on disk -----------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/files/checkpoint.h"

#include "runtime/files/hf_config.h"
#include "runtime/files/run_log.h"
#include "runtime/files/weights.h"
#include "runtime/recipe.h"
#include "runtime/support/atomic_file.h"
#include "runtime/support/checksum.h"
#include "runtime/support/error.h"
#include "runtime/support/folder_lock.h"
#include "runtime/support/memory.h"
#include "runtime/support/shell_word.h"
#include "runtime/tokenizer/tokenizer.h"

#include <chrono>
#include <filesystem>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <thread>

namespace tfm {

namespace {

/// In the metadata of a run's weights: the checksum of its tokenizer.json.
constexpr const char *tokenizerKey = "tfm.tokenizer";
constexpr const char *bestKey = "validation_loss";

/// m is the mean of gradients (of sgd: the momentum), v the mean of their
/// squares.
std::string stateName(const tfm_parameter &parameter, int number) {
  return std::string(parameter.name) + (number ? ".v" : ".m");
}

/// The optimizer's state as tensors.
std::vector<FloatTensor> stateTensors(const Model &model) {
  std::vector<FloatTensor> tensors;
  for (const tfm_parameter &parameter : model.parameters())
    for (int i = 0; i < 2; ++i)
      if (model.hasState(parameter, i))
        tensors.push_back({stateName(parameter, i), shapeOf(parameter),
                           [&model, &parameter, i] {
                             return model.readState(parameter, i);
                           }});
  return tensors;
}

/// Whether all of a tensor's values are finite.
bool isFinite(std::span<const float> values) {
  return firstNotFinite(values) == values.size();
}

std::string metadataOf(const SafetensorsReader &file, const char *key) {
  auto found = file.header().metadata.find(key);
  return found == file.header().metadata.end() ? "" : found->second;
}

std::map<std::string, std::string>
weightsMetadata(const RunFolder &run, const Model &model, int64_t step) {
  std::map<std::string, std::string> metadata = {
      {"format", "pt"},
      {"model", model.descriptor().name},
      {"step", std::to_string(step)}};
  if (std::string tokenizer = run.file("tokenizer.json"); fileExists(tokenizer))
    metadata[tokenizerKey] =
        checksumOf(readRegularFile(tokenizer, "the run's tokenizer"));
  return metadata;
}

/// Whether these are weights that have not been damaged since.
bool areWhole(const std::string &path) try {
  SafetensorsReader file(path);
  for (const auto &[name, entry] : file.header().tensors) {
    std::vector<float> values(entry.elements());
    file.readFloats(name, entry, values.data());
  }
  return true;
} catch (const InputError &) {
  return false;
}

/// What else there is to go on from, where a checkpoint is damaged.
std::string wayOut(const std::string &folder) {
  std::string run = runOfOlder(folder);
  if (run.empty())
    run = folder;
  std::vector<int64_t> older = olderSteps(run);
  while (!older.empty()) {
    std::string path = fmt::format("{}/step-{}", run, older.back());
    if (!isSameFile(path, folder) && areWhole(path + "/model.safetensors") &&
        areWhole(path + "/optimizer.safetensors"))
      return fmt::format("; go on from another checkpoint with --resume {} "
                         "--out NEW",
                         shellWord(path));
    older.pop_back();
  }
  for (const char *name : {"model.safetensors", "best/model.safetensors"})
    if (std::string path = folder + "/" + name; areWhole(path))
      return fmt::format("; begin another run with these weights: --init {}",
                         shellWord(path));
  return "; train anew";
}

void requireCheckpoint(const std::string &folder) {
  if (!isFolder(folder))
    throw InputError(fileExists(folder)
                         ? folder + " is a file: name the run directory in "
                                    "which it lies"
                         : "there is no run directory " + folder);
  std::string missing;
  int count = 0;
  for (std::string name : checkpointFiles)
    if (!folderHas(folder + "/" + name))
      missing += (count++ ? ", " : "") + name;
  if (count == 0)
    return;
  bool isRun = fileExists(folder + "/" + checkpointFiles[0]) ||
               !olderSteps(folder).empty();
  throw InputError("{} holds no checkpoint ({}{}{}", folder, missing,
                   count > 1 ? " are missing)" : " is missing)",
                   isRun ? wayOut(folder) : "");
}

/// Throws where a file of tensors is not the one of this state.
void requireOfState(const SafetensorsReader &file, const RunState &state,
                    const std::string &checksum) {
  std::string step = metadataOf(file, "step");
  if (step != std::to_string(state.step))
    throw InputError(
        "{}{}, but state.json of step {}: it was not written by this run",
        file.path(), step.empty() ? " names no step" : " is of step " + step,
        state.step);
  if (!checksum.empty() && file.headerChecksum() != checksum)
    throw InputError("{} is not the file that state.json was written with: one "
                     "of them was replaced",
                     file.path());
}

void requireLogOf(const std::string &folder, const RunState &state) {
  std::string path = folder + "/log.jsonl";
  bool hasChecksum = !state.logChecksum.empty();
  if (state.logBytes == 0 && (hasChecksum || !fileExists(path)))
    return;
  if (state.logBytes == 0)
    throw InputError("{}/state.json counts nothing of {}, which "
                     "would be lost: move it away, or name another "
                     "log with --log",
                     folder, path);
  if (!isRegularFile(path)) // a pipe would wait
    throw InputError("{} is missing, of which state.json counts {} "
                     "bytes: bring it back, or name another "
                     "log with --log",
                     path, state.logBytes);
  std::string log = readFile(path, "the run's log", state.logBytes);
  if (log.size() < state.logBytes)
    throw InputError("{} has {} bytes, of which state.json counts "
                     "{}: bring the others back, or name another "
                     "log with --log",
                     path, log.size(), state.logBytes);
  // An earlier version has no checksum, but ended with a line, too.
  if (!hasChecksum && !log.ends_with('\n'))
    throw InputError(
        "{}/state.json is damaged: the {} bytes of {} that it counts end "
        "within a line",
        folder, state.logBytes, path);
  if (hasChecksum && checksumOf(log) != state.logChecksum)
    throw InputError(
        "{} is damaged: its first {} bytes are not what was written there "
        "(their checksum is that of other bytes): bring them back, or name "
        "another log with --log",
        path, state.logBytes);
}

/// A checkpoint of another model or optimizer: no other one of the same run
/// would do.
struct OtherModel : InputError {
  using InputError::InputError;
};

/// Throws where another optimizer than this build's wrote its state. What adam
/// keeps adamw keeps, too.
void requireOptimizer(const std::string &folder, const RunState &state,
                      const tfm_model &model) {
  const std::string kind = recipeOf(model).train.optimizer.kind;
  auto isSgd = [](const std::string &name) { return name == "sgd"; };
  if (!state.optimizer.empty() && isSgd(state.optimizer) != isSgd(kind))
    throw OtherModel(
        "the run in {0} was trained by {1}, and this build trains by {2} "
        "(train.optimizer), which cannot go on from the state of another: "
        "begin anew from its weights with --init {0} --out NEW, or build with "
        "{1}",
        folder, state.optimizer, kind);
}

/// Throws where the run trained other parameters than this build does
/// (`train.only`): there are moments of those that it trained alone.
void requireSameTrained(const std::string &folder,
                        const SafetensorsReader &optimizer,
                        const SafetensorsReader &weights, const Model &model) {
  bool hasMoments = !optimizer.header().tensors.empty();
  for (const tfm_parameter &parameter : model.parameters()) {
    bool wasTrained = optimizer.find(stateName(parameter, 0)) != nullptr;
    bool isTrained = model.hasState(parameter, 0);
    if (wasTrained == isTrained || !hasMoments || !weights.find(parameter.name))
      continue;
    throw OtherModel(
        "the run in {0} {1} {2}, which this build {3} (train.only): begin anew "
        "from its weights with --init {0} --out NEW, or build with what it "
        "trained",
        folder, wasTrained ? "trained" : "did not train", parameter.name,
        isTrained ? "trains" : "does not train");
  }
}

RunState readCheckpoint(const std::string &folder, Model &model) {
  constexpr std::string_view remedy =
      "use the binary that the run was made with, or train anew with --out NEW";
  std::string path = folder + "/state.json";
  RunState state =
      parseState(readRegularFile(path, "the checkpoint's state"), path);
  if (state.model != model.descriptor().name)
    throw OtherModel("{} is of the model {}, this is {}: {}", path, state.model,
                     model.descriptor().name, remedy);
  requireOptimizer(folder, state, model.descriptor());
  SafetensorsReader weights(folder + "/model.safetensors");
  SafetensorsReader optimizer(folder + "/optimizer.safetensors");
  requireOfState(weights, state, state.weightsChecksum);
  requireOfState(optimizer, state, state.optimizerChecksum);
  requireSameTrained(folder, optimizer, weights, model);
  for (const FloatTensor &tensor : stateTensors(model)) {
    const TensorEntry *entry = optimizer.find(tensor.name);
    if (!entry || entry->shape != tensor.shape)
      throw OtherModel("{} does not fit this model: {} {}: {}",
                       optimizer.path(), tensor.name,
                       entry ? "has another shape" : "is missing", remedy);
  }
  loadParameters(model, WeightFiles(weights.path()));
  for (const tfm_parameter &parameter : model.parameters())
    for (int i = 0; i < 2; ++i) {
      if (!model.hasState(parameter, i))
        continue;
      std::string name = stateName(parameter, i);
      PendingWrite<float> state = model.writeState(parameter, i);
      optimizer.readFloats(name, *optimizer.find(name), state.values().data());
      if (!isFinite(state.values()))
        throw InputError("{} is damaged: {} has values that are not finite",
                         optimizer.path(), name);
    }
  return state;
}

} // namespace

void saveCheckpoint(RunFolder &run, const Model &model, RunState &state,
                    const std::function<void(RunState &)> &logged) {
  state.model = model.descriptor().name;
  try {
    AtomicFile weights(run.file("model.safetensors"), nextSuffix);
    AtomicFile optimizer(run.file("optimizer.safetensors"), nextSuffix);
    state.weightsChecksum =
        writeCheckedSafetensors(weights, parameterTensors(model),
                                weightsMetadata(run, model, state.step));
    state.optimizerChecksum = writeCheckedSafetensors(
        optimizer, stateTensors(model), {{"step", std::to_string(state.step)}});
    weights.keep();
    optimizer.keep();
    logged(state);
    run.beginCheckpoint(state);
  } catch (...) {
    run.discardUnfinished();
    throw;
  }
  run.finishCheckpoint();
}

RunState loadCheckpoint(const std::string &folder, Model &model,
                        bool checksLog) {
  requireCheckpoint(folder);
  RunState state;
  // A training that goes on there has files of two checkpoints for as long as a
  // disk takes to have the first of them.
  constexpr int mostTries = 100;
  auto writtenAt = [&] {
    std::error_code none;
    return std::filesystem::last_write_time(folder + "/state.json", none);
  };
  for (int tries = 1;; ++tries) {
    const auto before = writtenAt();
    try {
      state = readCheckpoint(folder, model);
      break;
    } catch (const OtherModel &) {
      throw;
    } catch (const InputError &error) {
      bool isReplaced = isLocked(folder) &&
                        (isBetweenCheckpoints(folder) || writtenAt() != before);
      if (!isReplaced || tries == mostTries)
        throw InputError("{}{}", error.what(), wayOut(folder));
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
  }
  if (checksLog)
    requireLogOf(folder, state);
  return state;
}

void saveBest(RunFolder &run, const Model &model, int64_t step, double loss) {
  run.makeBest();
  for (std::string name : textFiles)
    if (fileExists(run.file(name)) && !fileExists(run.file("best/" + name)))
      run.linkInto("best", name);
  auto metadata = weightsMetadata(run, model, step);
  metadata[bestKey] = fmt::format("{}", loss); // reads back as the same number
  AtomicFile file(run.file("best/model.safetensors"), nextSuffix);
  writeCheckedSafetensors(file, parameterTensors(model), std::move(metadata));
  file.commit();
}

std::optional<double> bestLoss(const std::string &folder) {
  std::string path = folder + "/best/model.safetensors";
  if (!fileExists(path))
    return std::nullopt;
  nlohmann::json loss = nlohmann::json::parse(
      metadataOf(SafetensorsReader(path), bestKey), nullptr,
      /*allow_exceptions=*/false);
  return loss.is_number() ? std::optional(loss.get<double>()) : std::nullopt;
}

void requireNoOther(const RunFolder &run, const std::string &name,
                    const std::string &text) {
  std::string path = run.file(name);
  if (fileExists(path) && !fileExists(run.file("log.jsonl")) &&
      readRegularFile(path, "the tokenizer there") != text)
    throw InputError("{} is not of a run, and would be lost: choose another "
                     "--out, or pass --overwrite",
                     path);
}

/// A tokenizer as this version writes it; empty where it cannot be read.
static std::string rewritten(const std::string &text, const std::string &path) {
  try {
    return parseTokenizerJson(text, path)->json();
  } catch (const InputError &) {
    return "";
  }
}

std::string tokenizerOfResumed(const std::string &resumed,
                               const std::string &json) {
  std::string path = resumed + "/tokenizer.json";
  bool isThere = fileExists(path);
  if (isThere) {
    std::string text = readRegularFile(path, "the run's tokenizer");
    // An earlier version may have written the same in other words.
    if (text == json || rewritten(text, path) == json)
      return text;
  }
  // One that was damaged may be given anew.
  std::string expected = metadataOf(
      SafetensorsReader(resumed + "/model.safetensors"), tokenizerKey);
  if (checksumOf(json) != expected && (isThere || !expected.empty()))
    throw InputError("the run in {} has a tokenizer of its own: train with "
                     "another one in a new run, --init {} --out NEW",
                     resumed, shellWord(resumed));
  return json;
}

void saveTokenizer(const RunFolder &run, const std::string &json) {
  std::string path = run.file("tokenizer.json");
  if (json.empty())
    return removeFile(path);
  if (fileExists(path) && readRegularFile(path, "the run's tokenizer") == json)
    return;
  AtomicFile file(path, nextSuffix);
  file.write(json);
  file.commit();
}

void requireTokenizerOfRun(const std::string &path,
                           const std::string &content) {
  std::string weights = folderOf(path) + "/model.safetensors";
  if (!path.ends_with("tokenizer.json") || !isRegularFile(weights))
    return;
  std::string expected;
  try {
    expected = metadataOf(SafetensorsReader(weights), tokenizerKey);
  } catch (const InputError &) {
    return; // whoever loads the weights says so
  }
  if (!expected.empty() && checksumOf(content) != expected)
    throw InputError(
        "{} is damaged: it is not what was written there (its checksum is that "
        "of other bytes). Name the tokenizer of these weights with --tokenizer",
        path);
}

std::string notFinite(const Model &model) {
  for (const auto &tensors : {parameterTensors(model), stateTensors(model)})
    for (const FloatTensor &tensor : tensors)
      if (!isFinite(tensor.read().values()))
        return tensor.name;
  return "";
}

std::vector<std::string> loadWeights(const std::string &path, Model &model,
                                     Unmatched *unmatched,
                                     const std::string &part) {
  std::vector<std::string> notes;
  const tfm_model &descriptor = model.descriptor();
  WeightFiles weights(path, familyOf(descriptor));
  loadParameters(model, weights, unmatched, part);
  const std::string kept = recipeOf(descriptor).generate.weights;
  if (std::string note = requantisedNote(weights, kept, kept); !note.empty())
    notes.push_back(std::move(note));
  if (part.empty()) {
    if (std::string note = requireConfig(path, descriptor); !note.empty())
      notes.push_back(std::move(note));
  } else if (isFolder(path) && fileExists(path + "/config.json")) {
    notes.push_back(path + "/config.json is not compared with a part of a "
                           "model: its numbers of heads, epsilons and the like "
                           "have to be the same");
  }
  return notes;
}

static uint64_t bytesOf(const std::vector<FloatTensor> &tensors) {
  uint64_t bytes = 0;
  for (const FloatTensor &tensor : tensors)
    bytes += tensor.elements() * sizeof(float);
  return bytes;
}

uint64_t bytesToCome(const Model &model, const SpaceNeeds &needs,
                     uint64_t block) {
  // Files take whole blocks; a header has some lines for each tensor.
  auto fileBytes = [&](const std::vector<FloatTensor> &tensors) {
    uint64_t bytes = 1024 + bytesOf(tensors);
    for (const FloatTensor &tensor : tensors)
      bytes += 256 + 2 * tensor.name.size();
    return (bytes + block - 1) / block * block;
  };
  uint64_t weights = fileBytes(parameterTensors(model));
  // The state, and the folder of an older one.
  uint64_t checkpoint = weights + fileBytes(stateTensors(model)) + 3 * block;
  auto more = static_cast<uint64_t>(
      std::max<int64_t>(1, needs.checkpoints - needs.present));
  // Others are there until the new ones are written.
  uint64_t best =
      needs.savesBest ? (needs.hasBest ? 1 : 2) * weights + block : 0;
  return more * checkpoint + best + needs.otherBytes + 4 * block;
}

void checkSpace(const RunFolder &run, const Model &model,
                const SpaceNeeds &needs) {
  rlimit limit;
  uint64_t largest =
      std::max(bytesOf(parameterTensors(model)), bytesOf(stateTensors(model)));
  if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < largest)
    throw InputError("this training writes more than {} into a file of {}, and "
                     "the size limit of this process is {} (ulimit -f)",
                     byteText(largest), run.path(), byteText(limit.rlim_cur));
  struct statvfs status;
  if (statvfs(run.path().c_str(), &status) != 0)
    return; // not known: writing will tell
  uint64_t block = std::max<uint64_t>(status.f_frsize, 1);
  uint64_t needed = bytesToCome(model, needs, block);
  uint64_t available = uint64_t{status.f_bavail} * block;
  if (available < needed)
    throw InputError(
        "the disk of {} has {} left, but this training may take {} there, for "
        "{} checkpoint{} at a time{} and {} of texts and logs: free some space "
        "or choose another --out",
        run.path(), byteText(available), byteText(needed), needs.checkpoints,
        needs.checkpoints == 1 ? "" : "s",
        needs.savesBest ? ", the best weights" : "",
        byteText(needs.otherBytes));
}

} // namespace tfm
