//===- export.cpp - the weights for other programs ------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/commands/commands.h"

#include "runtime/device/cpu_device.h"
#include "runtime/files/adapter.h"
#include "runtime/files/export_folder.h"
#include "runtime/files/find_tokenizer.h"
#include "runtime/files/merge.h"
#include "runtime/files/parts.h"
#include "runtime/files/run_folder.h"
#include "runtime/files/weights.h"
#include "runtime/files/written_by.h"
#include "runtime/model/quantise.h"
#include "runtime/support/atomic_file.h"
#include "runtime/support/error.h"
#include "runtime/support/utf8.h"
#include "runtime/training/initialise.h"

#include <algorithm>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

using nlohmann::json;

namespace tfm {

namespace {

/// The weights with their corrections in them.
std::vector<FloatTensor> mergedTensors(Model &model,
                                       const ExportCommand &command) {
  std::vector<std::string> kept;
  std::vector<FloatTensor> tensors = mergeCorrections(model, kept);
  if (kept.empty())
    return tensors;
  const std::string message =
      listed(kept) + (kept.size() == 1
                          ? " keeps its correction, as something "
                            "else reads it, too (it is tied)"
                          : " keep their corrections, as something "
                            "else reads them, too (they are tied)");
  if (isExportFolder(command.out))
    throw InputError("{}, and no published model has such: export to a "
                     ".safetensors file, or train without them",
                     message);
  if (command.speaks())
    say("note: " + message + ": what is written is for this model alone\n");
  return tensors;
}

/// Of `tensors` those of a part of the model, by their names within it.
std::vector<FloatTensor> ofPart(std::vector<FloatTensor> tensors,
                                const std::string &part) {
  std::vector<FloatTensor> own;
  for (FloatTensor &tensor : tensors) {
    std::vector<std::string> names = namesInPart(tensor, part);
    if (names.empty())
      continue;
    tensor.name = names.front();
    tensor.aliases.assign(names.begin() + 1, names.end());
    own.push_back(std::move(tensor));
  }
  return own;
}

/// Tells where prompts begin otherwise for who reads an export.
void noteOtherBegin(const tfm_model &descriptor, const ExportCommand &command) {
  // The tokenizer of a published folder goes with its weights.
  if (!isFolder(command.weights) ||
      fileExists(command.weights + "/config.json"))
    return;
  try {
    Recipe recipe = recipeOf(descriptor);
    auto tokenizerOf = [&](const std::string &named) {
      return findTokenizer(
          descriptor, recipe,
          {named, command.weights, /*ids=*/false, /*idsWithout=*/true});
    };
    TokenizerPtr own = tokenizerOf(""), exported = tokenizerOf(command.out);
    std::vector<int32_t> ours = beginOf(recipe, *own),
                         theirs = exported->begin();
    auto name = [&](const std::vector<int32_t> &begin) {
      return begin.empty() ? "nothing" : exported->text(begin);
    };
    if (ours != theirs)
      say(printable(fmt::format("note: prompts begin with {} for {}, as its "
                                "data did, and with {} for {}, as its "
                                "tokenizer says",
                                name(ours), command.weights, name(theirs),
                                command.out)) +
          "\n");
  } catch (const InputError &) {
    // There is no tokenizer, or none that is read.
  }
}

/// What `type` does not reach to: the first such value of all tensors, where it
/// stands, and what it is beyond.
std::optional<std::string> beyond(const std::vector<FloatTensor> &tensors,
                                  StoredType type) {
  for (const FloatTensor &tensor : tensors) {
    PendingRead<float> read = tensor.read();
    std::span<const float> values = read.values();
    Reach reach = reachOf(type, tensor.shape, tensor.outputAxis);
    if (size_t at = firstBeyond(values, reach.largest); at < values.size())
      return fmt::format("the parameter {} has the value {} (element {}), and "
                         "{} reaches to {}",
                         tensor.name, values[at], at, reach.type,
                         reach.largest);
  }
  return std::nullopt;
}

/// Throws InputError where a value, of weights from `source`, is beyond what
/// `type` reaches to.
void requireWithin(const std::vector<FloatTensor> &tensors, StoredType type,
                   const std::string &source) {
  std::optional<std::string> found = beyond(tensors, type);
  if (!found)
    return;
  // Another value may be beyond the next type.
  const char *wider = beyond(tensors, StoredType::BF16) ? "f32" : "bf16";
  throw InputError("{}{}: export it with --dtype {}", source, *found, wider);
}

/// What readers of a file of INT8 or INT4 have to know of its tensors: which
/// lie otherwise, the terms of an output together, and of 4 bits how many
/// terms there are, and in what groups.
void describeQuantised(const std::vector<FloatTensor> &tensors, StoredType type,
                       std::map<std::string, std::string> &metadata) {
  std::vector<std::string> transposed;
  for (const FloatTensor &tensor : tensors) {
    if (tensor.outputAxis < 0)
      continue;
    OutputRows rows(tensor.shape, tensor.outputAxis);
    if (rows.areLast())
      transposed.push_back(tensor.name);
    if (type == StoredType::INT4)
      metadata[termsKey + tensor.name] = std::to_string(rows.terms());
  }
  metadata[transposedKey] = json(transposed).dump();
  if (type == StoredType::INT4)
    metadata[groupKey] = std::to_string(TFM_GROUP_TERMS);
}

} // namespace

void exportWeights(const tfm_model &descriptor, const ExportCommand &command) {
  CpuDevice device(1);
  Model model(descriptor, device);
  const std::string out = exportedWeights(command.out),
                    folder = withoutSlashes(command.out);
  requireNoRunFile(out);
  for (const std::string &path :
       command.adapter ? adapterFiles(folder) : exportedFiles(command.out))
    requireNoneOfModel(path, descriptor);
  requireNoOtherKind(out);
  if (command.adapter && out == command.out && out.ends_with(".safetensors"))
    throw InputError(
        "{}: an adapter is a folder of two files: name it without .safetensors",
        out);
  if (!command.part.empty()) {
    requirePart(descriptor, command.part);
    if (isExportFolder(command.out))
      throw InputError(
          "{}: a part of a model is written to a .safetensors file, which the "
          "program of that part alone exports to a folder",
          command.out);
  }
  if (!command.adapter && !isExportFolder(command.out)) {
    requireNotRead(out, command, descriptor);
    if (!command.overwrite)
      requireWrittenBy(out, "export",
                       "export to another file, or pass --overwrite");
  }
  const std::string kept = recipeOf(descriptor).generate.weights;
  const std::string &written = command.dtypeName;
  std::string source; // that messages begin with
  bool areKept = false;
  if (command.seed) {
    initialise(model, *command.seed);
  } else {
    WeightFiles weights(command.weights, familyOf(descriptor));
    weights.requireNoneIs(out);
    source = weights.path() + ": ";
    Unmatched unmatched;
    areKept =
        loadParameters(model, weights, command.partial ? &unmatched : nullptr);
    requireAll(command, unmatched);
    const std::string &last = written.starts_with("int") ? written : kept;
    if (std::string note = requantisedNote(weights, kept, last); !note.empty())
      say("note: " + printable(note) + "\n");
  }
  // Written as it is kept it is what another build would write.
  if (kept != "f32" && kept != written && !areKept)
    say("note: this build has made " + kept +
        " of the weights, and exports what they are now; a build with "
        "generate.weights = f32 exports them as they were\n");
  if ((command.merge || command.adapter) && kept != "f32")
    throw InputError(
        "this build keeps weights as {}, which corrections would be rounded "
        "to: export them with a build of generate.weights = f32",
        kept);
  if (command.adapter) {
    exportAdapter(model, command.weights, folder, command.dtype,
                  command.overwrite);
    return;
  }
  std::vector<FloatTensor> tensors =
      command.merge ? mergedTensors(model, command) : parameterTensors(model);
  tensors = ofPart(std::move(tensors), command.part);
  if (tensors.empty() && !command.part.empty())
    throw InputError("--merge leaves nothing of {}, whose tensors it writes "
                     "under other names: name the layer that is corrected",
                     command.part);
  if (command.dtype != StoredType::F32)
    requireWithin(tensors, command.dtype, source);
  if (isExportFolder(command.out)) {
    exportFolder(model, std::move(tensors), command.weights, folder,
                 command.dtype, command.overwrite);
    if (command.speaks())
      noteOtherBegin(descriptor, command);
    return;
  }
  std::map<std::string, std::string> metadata = exportedMetadata();
  metadata["model"] = descriptor.name;
  if (command.dtype == StoredType::INT8 || command.dtype == StoredType::INT4)
    describeQuantised(tensors, command.dtype, metadata);
  AtomicFile file(out);
  writeSafetensors(file, tensors, metadata, command.dtype);
  file.commit();
}

} // namespace tfm
