//===- checkpoint.cpp - what a run leaves on disk -----------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/checkpoint.h"

#include "runtime/atomic_file.h"
#include "runtime/error.h"
#include "runtime/folder_lock.h"
#include "runtime/hf_config.h"
#include "runtime/memory.h"
#include "runtime/read_json.h"
#include "runtime/weights.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <ranges>
#include <sys/statvfs.h>

using nlohmann::json;

namespace tfm {

namespace {

constexpr const char *checkpointFiles[] = {
    "model.safetensors", "optimizer.safetensors", "state.json"};
constexpr const char *next = ".next";

/// The optimizer's state as tensors. m is the mean of gradients (of sgd: the
/// momentum), v the mean of their squares.
std::vector<FloatTensor> stateTensors(const Model &model) {
  std::vector<FloatTensor> tensors;
  for (const tfm_parameter &parameter : model.parameters())
    for (int i = 0; i < 2; ++i)
      if (parameter.state[i] != TFM_NONE)
        tensors.push_back({std::string(parameter.name) + (i ? ".v" : ".m"),
                           shapeOf(parameter),
                           model.at<float>(parameter.state[i])});
  return tensors;
}

std::span<const float> valuesOf(const FloatTensor &tensor) {
  return {tensor.data,
          Model::elements(static_cast<int32_t>(tensor.shape.size()),
                          tensor.shape.data())};
}

std::string stepOf(const SafetensorsReader &file) {
  auto found = file.header().metadata.find("step");
  return found == file.header().metadata.end() ? "" : found->second;
}

std::string stateText(const Model &model, const RunState &state) {
  nlohmann::ordered_json object = {
      {"format", 1},
      {"model", model.descriptor().name},
      {"step", state.step},
      {"steps", state.steps},
      {"seed", state.seed},
      {"data_position", state.step},
      {"lr", state.lr},
      {"tokens", state.tokens},
      {"log_bytes", state.logBytes},
      {"best_validation", nullptr},
      {"worse_validations", state.worseValidations}};
  if (state.bestValidation)
    object["best_validation"] = *state.bestValidation;
  return object.dump(2) + "\n";
}

RunState parseState(const std::string &path) {
  json object = jsonOf(readFile(path, "the checkpoint's state"));
  RunState state;
  try {
    state.step = object.at("step").get<int64_t>();
    state.steps = object.at("steps").get<int64_t>();
    state.seed = object.at("seed").get<uint64_t>();
    state.lr = object.at("lr").get<double>();
    state.tokens = object.at("tokens").get<int64_t>();
    state.logBytes = object.at("log_bytes").get<uint64_t>();
    state.worseValidations = object.at("worse_validations").get<int64_t>();
    if (!object.at("best_validation").is_null())
      state.bestValidation = object["best_validation"].get<double>();
    if (state.step < 0 || state.steps < 1)
      throw json::other_error::create(501, "no such step", &object);
  } catch (const json::exception &) {
    throw InputError(path + " is damaged: start anew, with --init " +
                     path.substr(0, path.rfind('/')) +
                     "/model.safetensors to keep the weights");
  }
  return state;
}

/// Finishes a checkpoint whose renames were cut short; see the file comment.
void finishRenames(const std::string &folder) {
  std::string weights = folder + "/model.safetensors";
  std::string pending = folder + "/state.json" + next;
  if (!fileExists(weights) || !fileExists(pending))
    return;
  RunState waiting;
  try {
    waiting = parseState(pending);
  } catch (const InputError &) {
    return; // cut short while it was written: nothing has been renamed yet
  }
  if (stepOf(SafetensorsReader(weights)) != std::to_string(waiting.step))
    return;
  for (const char *name : checkpointFiles) {
    std::string path = folder + "/" + name;
    if (fileExists(path + next))
      renameSynced(path + next, path);
  }
}

void requireCheckpoint(const std::string &folder) {
  if (!isFolder(folder))
    throw InputError("there is no run directory " + folder);
  std::string missing;
  int count = 0;
  for (std::string name : checkpointFiles) {
    std::string path = folder + "/" + name;
    // The others may still have the name that they were written under.
    bool isThere = fileExists(path) ||
                   (name != checkpointFiles[0] && fileExists(path + next));
    if (!isThere)
      missing += (count++ ? ", " : "") + name;
  }
  if (count == 0)
    return;
  bool hasWeights = fileExists(folder + "/" + checkpointFiles[0]);
  throw InputError(
      folder + " holds no checkpoint (" + missing +
      (count > 1 ? " are missing)" : " is missing)") +
      (hasWeights ? ": begin another run with --init " + folder : ""));
}

} // namespace

void saveCheckpoint(const std::string &folder, const Model &model,
                    const RunState &state) {
  std::string step = std::to_string(state.step);
  makeFolder(folder);
  {
    // All three are on the disk before any is kept: if one cannot be written,
    // the temporary files of all are removed.
    AtomicFile weights(folder + "/model.safetensors", next);
    AtomicFile optimizer(folder + "/optimizer.safetensors", next);
    AtomicFile position(folder + "/state.json", next);
    writeSafetensors(
        weights, parameterTensors(model),
        {{"format", "pt"}, {"model", model.descriptor().name}, {"step", step}});
    writeSafetensors(optimizer, stateTensors(model), {{"step", step}});
    position.write(stateText(model, state));
    for (AtomicFile *file : {&weights, &optimizer, &position})
      file->sync();
    weights.keep();
    optimizer.keep();
    position.keep();
  }
  for (const char *name : checkpointFiles) {
    std::string path = folder + "/" + name;
    renameSynced(path + next, path);
  }
}

RunState loadCheckpoint(const std::string &folder, Model &model) {
  requireCheckpoint(folder);
  if (!isLocked(folder)) // else they are in the hands of who trains there
    finishRenames(folder);
  RunState state = parseState(folder + "/state.json");
  std::string step = std::to_string(state.step);
  SafetensorsReader weights(folder + "/model.safetensors");
  SafetensorsReader optimizer(folder + "/optimizer.safetensors");
  for (const SafetensorsReader *file : {&weights, &optimizer})
    if (stepOf(*file) != step)
      throw InputError(
          file->path() +
          (stepOf(*file).empty() ? " names no step"
                                 : " is of step " + stepOf(*file)) +
          ", but state.json step " + step +
          ": it was not written by this run; begin another one with --init " +
          weights.path());
  std::vector<FloatTensor> tensors = stateTensors(model);
  for (const FloatTensor &tensor : tensors) {
    const TensorEntry *entry = optimizer.find(tensor.name);
    if (!entry || entry->shape != tensor.shape)
      throw InputError(optimizer.path() +
                       " does not fit this model: " + tensor.name +
                       (entry ? " has another shape" : " is missing"));
  }
  loadParameters(model, WeightFiles(weights.path()));
  for (const FloatTensor &tensor : tensors) {
    optimizer.readFloats(tensor.name, *optimizer.find(tensor.name),
                         const_cast<float *>(tensor.data));
    if (firstNotFinite(valuesOf(tensor)) < valuesOf(tensor).size())
      throw InputError(optimizer.path() + " is damaged: " + tensor.name +
                       " has values that are not finite; begin another run "
                       "with --init " +
                       weights.path());
  }
  return state;
}

std::string notFinite(const Model &model) {
  for (const auto &tensors : {parameterTensors(model), stateTensors(model)})
    for (const FloatTensor &tensor : tensors)
      if (firstNotFinite(valuesOf(tensor)) < valuesOf(tensor).size())
        return tensor.name;
  return "";
}

bool holdsWeights(const std::string &folder) {
  return fileExists(folder + "/model.safetensors") ||
         fileExists(folder + "/model.safetensors.index.json");
}

bool holdsCheckpoint(const std::string &folder) {
  return fileExists(folder + "/model.safetensors") &&
         (fileExists(folder + "/state.json") ||
          fileExists(folder + "/state.json" + next));
}

void requireNoRunFile(const std::string &path) {
  std::filesystem::path file(path);
  std::error_code none;
  if (std::filesystem::is_symlink(file, none))
    file = std::filesystem::weakly_canonical(file, none);
  std::string folder = file.parent_path().string();
  if (folder.empty())
    folder = ".";
  std::string name = file.filename().string();
  bool isOfRun = name == "log.jsonl" || name == "tokenizer.json";
  for (std::string part : checkpointFiles)
    isOfRun |= name == part || name == part + next;
  if (isOfRun && holdsCheckpoint(folder))
    throw InputError(path + " is a file of the run in " + folder +
                     ", which would be lost: write to another file");
}

void removeCheckpoint(const std::string &folder) {
  // The state first: without one the rest is no checkpoint.
  std::vector<std::string> names;
  for (std::string name : std::views::reverse(checkpointFiles)) {
    names.push_back(name);
    names.push_back(name + next);
  }
  names.emplace_back("log.jsonl");
  for (const std::string &name : names) {
    std::string path = folder + "/" + name;
    if (std::remove(path.c_str()) != 0 && errno != ENOENT)
      throw InputError("cannot remove " + path + ": " + std::strerror(errno));
  }
}

void loadWeights(const std::string &path, Model &model) {
  loadParameters(model, WeightFiles(path));
  requireConfig(path, model.descriptor());
}

uint64_t checkpointBytes(const Model &model) {
  uint64_t bytes = 1 << 16;
  for (const auto &tensors : {parameterTensors(model), stateTensors(model)})
    for (const FloatTensor &tensor : tensors)
      bytes += valuesOf(tensor).size_bytes() + 256 + tensor.name.size();
  return bytes;
}

void checkSpace(const std::string &folder, const Model &model) {
  struct statvfs status;
  if (statvfs(folder.c_str(), &status) != 0)
    return; // not known: writing will tell
  uint64_t available = uint64_t{status.f_bavail} * status.f_frsize;
  uint64_t needed = checkpointBytes(model);
  if (available < needed)
    throw InputError("the disk of " + folder + " has " + byteText(available) +
                     " left, a checkpoint takes " + byteText(needed) +
                     ": free some space or choose another --out");
}

} // namespace tfm
