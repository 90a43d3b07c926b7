//===- weights.cpp - parameters from a checkpoint -----------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/files/weights.h"

#include "runtime/files/family.h"
#include "runtime/files/matching.h"
#include "runtime/files/parts.h"
#include "runtime/files/stored_tensor.h"
#include "runtime/formats/gguf.h"
#include "runtime/model/model.h"
#include "runtime/recipe.h"
#include "runtime/support/atomic_file.h"
#include "runtime/support/error.h"
#include "runtime/support/read_json.h"
#include "runtime/support/shell_word.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fmt/format.h>
#include <iterator>
#include <nlohmann/json.hpp>

using nlohmann::json;

namespace tfm {

//===----------------------------------------------------------------------===//
// Files
//===----------------------------------------------------------------------===//

std::string adapterIn(const std::string &folder) {
  return fileExists(folder + "/adapter_config.json")
             ? "; adapter_config.json is of an adapter, which is read by PEFT "
               "alone: add it to its model there (`merge_and_unload`), and "
               "name the folder that this saves"
             : "";
}

WeightFiles::WeightFiles(const std::string &path, const std::string &family)
    : named(path) {
  if (isGguf(path) && !isFolder(path)) {
    auto file = std::make_unique<GgufReader>(path);
    file->rename(ggufOf(family, path));
    addFile(std::move(file));
    return;
  }
  if (path.ends_with(".safetensors.index.json")) {
    addShards(std::filesystem::path(path).parent_path(), path);
    return;
  }
  if (!isFolder(path)) {
    addFile(std::make_unique<SafetensorsReader>(path));
    return;
  }
  std::string single = path + "/model.safetensors";
  std::string index = path + "/model.safetensors.index.json";
  if (folderHas(single))
    addFile(std::make_unique<SafetensorsReader>(single));
  else if (folderHas(index))
    addShards(path, index);
  else
    throw InputError(
        "there are no weights in {}: the folder has neither model.safetensors "
        "nor model.safetensors.index.json{}",
        path,
        fileExists(path + "/pytorch_model.bin")
            ? "; pytorch_model.bin must be saved as safetensors first, e.g. "
              "by `save_pretrained` of transformers"
            : adapterIn(path));
}

void WeightFiles::requireNoneIs(const std::string &path) const {
  for (const auto &file : files)
    if (file->isRead(path))
      throw InputError("{} is what the weights come from, and would be "
                       "overwritten: write to another file",
                       path);
}

void WeightFiles::addFile(std::unique_ptr<TensorFile> file) {
  for (const auto &[name, entry] : file->header().tensors)
    all.try_emplace(name, Tensor{file.get(), &entry});
  files.push_back(std::move(file));
}

void WeightFiles::addShards(const std::filesystem::path &folder,
                            const std::string &index) {
  json root = jsonOf(readRegularFile(index, "the index of the weights"));
  if (!root.is_object() || !root.contains("weight_map") ||
      !root["weight_map"].is_object())
    throw InputError("{}: there is no \"weight_map\" of tensors to files. Copy "
                     "or download it again",
                     index);
  std::map<std::string, const TensorFile *> shards;
  for (const auto &[name, value] : root["weight_map"].items()) {
    // Shards lie beside their index; a path could reach anywhere.
    std::string shard = value.is_string() ? value.get<std::string>() : "";
    if (shard.empty() || shard.find('/') != std::string::npos)
      throw InputError("{}: \"weight_map\" names no file for {}", index, name);
    const TensorFile *&file = shards[shard];
    if (!file) {
      std::string path = folder / shard;
      if (!folderHas(path))
        throw InputError(
            "{} is missing: {} says that some of the weights are in it", path,
            index);
      file =
          files.emplace_back(std::make_unique<SafetensorsReader>(path)).get();
    }
    const TensorEntry *entry = file->find(name);
    if (!entry)
      throw InputError(
          "{} does not hold {}, but {} says so. Copy or download both again",
          file->path(), name, index);
    all.emplace(name, Tensor{file, entry});
  }
}

//===----------------------------------------------------------------------===//
// Loading
//===----------------------------------------------------------------------===//

namespace {

/// Those of the files but for the tables that belong to others.
std::vector<StoredTensor> storedTensors(const WeightFiles &weights) {
  std::vector<StoredTensor> stored;
  for (const auto &[name, tensor] : weights.tensors())
    if (!StoredTensor::isTable(weights, name))
      stored.emplace_back(weights, name);
  return stored;
}

std::vector<StoredShape> shapesOf(const std::vector<StoredTensor> &stored) {
  std::vector<StoredShape> shapes;
  for (const StoredTensor &tensor : stored)
    shapes.push_back({tensor.name, tensor.shapeFor(-1)});
  return shapes;
}

/// Of a model, or of a part of it.
std::vector<const tfm_parameter *> parametersOf(const Model &model,
                                                const std::string &part) {
  std::vector<const tfm_parameter *> parameters;
  for (const tfm_parameter &parameter : model.parameters())
    if (!namesInPart(parameter, part).empty())
      parameters.push_back(&parameter);
  return parameters;
}

std::vector<ModelTensor>
tensorsOf(const std::vector<const tfm_parameter *> &parameters,
          const std::string &part) {
  std::vector<ModelTensor> tensors;
  for (const tfm_parameter *parameter : parameters)
    tensors.push_back({namesInPart(*parameter, part), shapeOf(*parameter)});
  return tensors;
}

/// Where each parameter comes from, in the order of the model's parameters:
/// under its name and its aliases, as many of them as the files hold.
class Sources {
public:
  Sources(const Model &model, const std::string &part,
          const WeightFiles &weights, Unmatched *unmatched)
      : parameters(parametersOf(model, part)), model(model), part(part),
        weights(weights), unmatched(unmatched), stored(storedTensors(weights)),
        matching(matchTensors(tensorsOf(parameters, part), shapesOf(stored),
                              familyOf(model.descriptor()))) {
    for (size_t i = 0; i < parameters.size(); ++i)
      match(*parameters[i], matching.sources[i]);
    for (const TensorMatching::Other &other : matching.others)
      explain(other);
    if (unmatched && std::ranges::all_of(sources, &Found::empty))
      problems.emplace_back("they have no tensor in common");
    // Without `unmatched` what belongs to the other one is a problem already.
    if (unmatched && !matching.otherPrefix.empty())
      problems.push_back(fmt::format(
          fmt::runtime(matching.prefix.inModel
                           ? "they may be those of {} or of {}"
                           : "they have both {} and {}, which fit alike"),
          partOf(matching.prefix.text), partOf(matching.otherPrefix)));
    report();
    for (size_t i = 0; i < sources.size(); ++i)
      requireEqual(sources[i], parameters[i]->output_axis);
    for (const TensorMatching::Other &other : matching.others)
      if (other.kind == TensorMatching::Kind::OutputLayer)
        requireTied(stored[other.stored], other.own);
  }

  const std::vector<const tfm_parameter *> parameters;
  using Found = std::vector<StoredTensor>;
  /// Empty for a parameter that starts fresh alone.
  std::vector<Found> sources;

private:
  void match(const tfm_parameter &parameter, std::span<const size_t> places) {
    Found found;
    for (size_t place : places)
      found.push_back(stored[place]);
    if (found.empty() && unmatched && !parameter.trainable &&
        beginsAtRandom(parameter))
      problems.push_back(std::string(parameter.name) +
                         " is missing, and as it is not trained it would stay "
                         "random");
    else if (found.empty() && unmatched)
      unmatched->fresh.emplace_back(parameter.name);
    else if (found.empty())
      problems.push_back(missing.emplace_back(parameter.name) + " is missing");
    for (const StoredTensor &source : found) {
      if (source.isQuantised())
        requireTables(source, parameter);
      if (std::vector<int64_t> shape = source.shapeFor(parameter.output_axis);
          damages.empty() && shape != shapeOf(parameter))
        problems.push_back(source.name + " is " + shapeText(shape) +
                           (source.isInt4() && !source.saysTerms()
                                ? " (the file does not say how many terms an "
                                  "output has: whole groups)"
                                : "") +
                           ", the model's is " + shapeText(shapeOf(parameter)));
    }
    sources.push_back(std::move(found));
  }

  void requireTables(const StoredTensor &source,
                     const tfm_parameter &parameter) {
    if (parameter.output_axis < 0 && !source.isFloat8())
      problems.push_back(source.name + " is of " +
                         (source.isInt8() ? "8" : "4") +
                         " bits, but the model does more "
                         "with it than multiply by it");
    else
      // What a file says once is wrong of all of its tensors.
      for (const std::string &damage : source.tableProblems())
        if (std::ranges::find(damages, damage) == damages.end())
          damages.push_back(damage);
  }

  /// A tensor that is none of the model's parameters.
  void explain(const TensorMatching::Other &other) {
    const StoredTensor &tensor = stored[other.stored];
    switch (other.kind) {
    case TensorMatching::Kind::Buffer:
      return;
    case TensorMatching::Kind::OutputLayer:
      if (tensor.isQuantised())
        requireTables(tensor, *parameters[other.own[0]]);
      return;
    case TensorMatching::Kind::Repeated:
      problems.push_back(stored[other.first].name + " and " + tensor.name +
                         " are both the parameter " +
                         parameters[other.own[0]]->name);
      return;
    case TensorMatching::Kind::Unexpected:
      if (unmatched) {
        unmatched->leftOut.push_back(tensor.name);
        return;
      }
      ++unexpected;
      problems.push_back(tensor.name + " is not a parameter of " +
                         (part.empty() ? "this model" : part));
    }
  }

  void report() const {
    if (!damages.empty()) {
      // Which may be why other tensors do not match.
      std::vector<std::string> all = damages;
      std::ranges::copy(problems, std::back_inserter(all));
      throw InputError(
          "{}\nExport them again from the original weights, with `export "
          "--dtype int8` or `int4`",
          withList(weights.path() +
                       " does not hold quantised weights as they are read:",
                   all));
    }
    if (!problems.empty())
      throw InputError("{}\n{}",
                       withList(weights.path() +
                                    " holds the weights of another model (" +
                                    (part.empty() ? "" : part + " of ") +
                                    model.descriptor().name + " was expected):",
                                problems),
                       advice());
  }

  /// The member of the model, or else of the files, that has a prefix.
  std::string partOf(const std::string &prefix) const {
    const std::string name = prefix.substr(0, prefix.rfind('.'));
    return part.empty() || !matching.prefix.inModel ? name : part + "." + name;
  }

  /// What to do about problems.
  std::string advice() const {
    // Files of the whole model, or of a member that has the part within it.
    std::string alone = part.substr(part.rfind('.') + 1);
    auto isWithin = [&](const StoredTensor &tensor) {
      return tensor.name.starts_with(alone + ".");
    };
    const std::string &other = matching.otherPrefix;
    if (part.empty() || unexpected == 0 ||
        std::ranges::none_of(stored, isWithin)) {
      alone.clear();
      if (!other.empty() && matching.prefix.inModel)
        return fmt::format(
            "`train --init {0}={2} --init {1}={2}` begins both with them",
            partOf(matching.prefix.text), partOf(other),
            shellWord(weights.path()));
      if (!other.empty())
        alone = partOf(matching.prefix.text);
    }
    if (!alone.empty())
      return "`export --part " + alone +
             "` of the program that trained them writes it alone";
    std::string advice = "Use the binary that was built for these weights, or "
                         "name other weights";
    if (missing.size() == problems.size() && missing.size() < sources.size())
      advice += ". If what is missing is new, such as corrections, `train "
                "--init` with --partial begins it fresh";
    if (unexpected == problems.size())
      advice += ". If what is no parameter may be left out, such as buffers, "
                "--partial does so";
    return advice;
  }

  static std::string withList(std::string message,
                              const std::vector<std::string> &lines) {
    for (size_t i = 0; i < lines.size() && i < 5; ++i)
      message += "\n  " + lines[i];
    if (lines.size() > 5)
      message += "\n  and " + std::to_string(lines.size() - 5) + " more";
    return message;
  }

  /// Several names of one parameter must agree before any of them is taken.
  void requireEqual(const std::vector<StoredTensor> &names,
                    int64_t axis) const {
    if (names.size() < 2)
      return;
    std::vector<float> first = names[0].values(axis);
    for (size_t i = 1; i < names.size(); ++i)
      if (!sameBits(first, names[i].values(axis)))
        throw InputError(
            "{}: {} and {} are one parameter of this model, but differ",
            weights.path(), names[0].name, names[i].name);
  }

  void requireTied(const StoredTensor &output,
                   const std::vector<size_t> &candidates) const {
    for (size_t i : candidates) {
      int64_t axis = parameters[i]->output_axis;
      if (sources[i].empty())
        continue;
      if (sameBits(output.values(axis), sources[i][0].values(axis)))
        return;
    }
    if (unmatched) {
      unmatched->leftOut.push_back(output.name);
      return;
    }
    throw InputError("{}: {} differs from {}, which this model ties it to: "
                     "build a model whose output layer has weights of its own",
                     weights.path(), output.name,
                     sources[candidates[0]][0].name);
  }

  const Model &model;
  const std::string &part;
  const WeightFiles &weights;
  Unmatched *unmatched;
  const std::vector<StoredTensor> stored;
  const TensorMatching matching;
  /// Why these are the weights of another model, and why they are none.
  std::vector<std::string> problems, damages;
  size_t unexpected = 0; ///< problems: tensors that are no parameters
  /// Which parameters no file has.
  std::vector<std::string> missing;
};

} // namespace

bool sameBits(const std::vector<float> &a, const std::vector<float> &b) {
  return a.size() == b.size() &&
         std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

size_t firstNotFinite(std::span<const float> values) {
  constexpr uint32_t exponent = 0x7f800000;
  constexpr size_t block = 4096;
  for (size_t at = 0; at < values.size(); at += block) {
    std::span<const float> part =
        values.subspan(at, std::min(block, values.size() - at));
    uint32_t bad = 0;
    for (float value : part)
      bad |= (std::bit_cast<uint32_t>(value) & exponent) == exponent;
    if (!bad)
      continue;
    for (size_t i = 0; i < part.size(); ++i)
      if (!std::isfinite(part[i]))
        return at + i;
  }
  return values.size();
}

namespace {

/// Throws InputError where values from element `first` on are not finite.
void requireFinite(std::span<const float> values, size_t first,
                   const StoredTensor &source) {
  size_t bad = firstNotFinite(values);
  if (bad == values.size())
    return;
  const auto &[file, entry] = source.tensor;
  throw InputError(
      "{}: the tensor {} has the value {}{} (element {}): the file is damaged, "
      "or its training diverged. Use other weights, e.g. an earlier checkpoint",
      file->path(), source.name, values[bad],
      entry->dtype == "F64" ? " as an f32" : "", first + bad);
}

/// What a build keeps a parameter in.
StoredType keptAs(const tfm_parameter &parameter) {
  switch (parameter.dtype) {
  case TFM_BF16:
    return StoredType::BF16;
  case TFM_I4:
    return StoredType::INT4;
  case TFM_I8:
    return StoredType::INT8;
  default:
    return StoredType::F32;
  }
}

/// The same of values that are beyond what the build keeps the parameter in.
void requireWithin(std::span<const float> values, size_t first,
                   const StoredTensor &source, const Reach &kept) {
  size_t beyond = firstBeyond(values, kept.largest);
  if (beyond == values.size())
    return;
  throw InputError(
      "{}: the tensor {} has the value {} (element {}), and {} reaches to {}: "
      "build with generate.weights = f32",
      source.tensor.file->path(), source.name, values[beyond], first + beyond,
      kept.type, kept.largest);
}

/// And of the scales of a file's own integers.
void requireWithin(const std::vector<float> &scales, const StoredTensor &source,
                   const Reach &kept) {
  size_t beyond = firstBeyond(scales, kept.largest / 127);
  if (beyond == scales.size())
    return;
  throw InputError(
      "{}: the tensor {} has the scale {} (output {}), a weight of {}, and {} "
      "reaches to {}: build with generate.weights = f32",
      source.tensor.file->path(), source.name, scales[beyond], beyond,
      127 * scales[beyond], kept.type, kept.largest);
}

/// And of the groups of 4 bits.
void requireWithin(const StoredTensor::Groups &groups,
                   const StoredTensor &source, const Reach &kept) {
  if (boundOfWeights(groups.scales, groups.minima) <= kept.largest)
    return;
  for (size_t i = 0; i < groups.scales.size(); ++i)
    for (int integer : {0, 15})
      if (float weight = weightOf(groups.scales[i], groups.minima[i], integer);
          std::abs(weight) > kept.largest)
        throw InputError(
            "{}: the tensor {} has a weight of {} (group {}), and {} reaches "
            "to {}: build with generate.weights = f32",
            source.tensor.file->path(), source.name, weight, i, kept.type,
            kept.largest);
}

/// Whether a file has a parameter in the type that it is kept in, or that is
/// f32.
bool isKept(const StoredTensor &source, const tfm_parameter &parameter) {
  switch (keptAs(parameter)) {
  case StoredType::BF16:
    return source.tensor.entry->dtype == "BF16";
  case StoredType::INT4:
    return source.isInt4();
  case StoredType::INT8:
    return source.isInt8();
  default:
    return true;
  }
}

void load(Model &model, const tfm_parameter &parameter,
          const StoredTensor &source) {
  const auto &[file, entry] = source.tensor;
  const Reach kept = reachOf(
      keptAs(parameter), {parameter.shape, static_cast<size_t>(parameter.rank)},
      parameter.output_axis);
  auto bytes = [&](size_t first, std::span<char> room) {
    file->readBytes(*entry, first, room);
  };
  if (source.isInt8() && parameter.dtype == TFM_I8) {
    file->requireUnchanged(source.name, *entry);
    std::vector<float> scales = source.scales();
    requireWithin(scales, source, kept);
    model.setQuantised(parameter, bytes, scales);
    return;
  }
  if (source.isInt4() && parameter.dtype == TFM_I4) {
    file->requireUnchanged(source.name, *entry);
    StoredTensor::Groups groups = source.groups();
    requireWithin(groups, source, kept);
    model.setQuantised(parameter, bytes, groups.scales, groups.minima);
    return;
  }
  if (source.isQuantised()) {
    std::vector<float> values = source.values(parameter.output_axis);
    model.setValue(parameter, [&](size_t first, std::span<float> room) {
      std::ranges::copy(std::span(values).subspan(first, room.size()),
                        room.begin());
      requireFinite(room, first, source);
      requireWithin(room, first, source, kept);
    });
    return;
  }
  try {
    model.setValue(parameter, [&](size_t first, std::span<float> room) {
      file->readFloats(source.name, *entry, first, room);
      requireFinite(room, first, source);
      requireWithin(room, first, source, kept);
    });
  } catch (const InputError &) {
    // What is no number may be so because the file is damaged.
    file->requireUnchanged(source.name, *entry);
    throw;
  }
  if (parameter.dtype != TFM_F32 || entry->dtype != "F32") {
    file->requireUnchanged(source.name, *entry);
    return;
  }
  PendingRead<float> read = model.readValue(parameter);
  file->requireUnchanged(source.name,
                         {reinterpret_cast<const char *>(read.values().data()),
                          read.values().size_bytes()});
}

} // namespace

Checksum checksumOf(const Model &model) {
  Checksum checksum;
  for (const tfm_parameter &parameter : model.parameters()) {
    PendingRead<float> read = model.readValue(parameter);
    std::span<const float> values = read.values();
    checksum.add(values.data(), values.size_bytes());
  }
  return checksum;
}

std::string listed(const std::vector<std::string> &names) {
  // By the order of the first.
  std::vector<std::pair<std::string, std::vector<std::string>>> groups;
  for (const std::string &name : names) {
    std::string pattern;
    for (size_t at = 0; at <= name.size();) {
      const size_t end = std::min(name.find('.', at), name.size());
      const std::string part = name.substr(at, end - at);
      const bool isNumber =
          !part.empty() && part.find_first_not_of("0123456789") == part.npos;
      pattern += (at == 0 ? "" : ".") + (isNumber ? "*" : part);
      at = end + 1;
    }
    auto group = std::ranges::find(groups, pattern,
                                   &decltype(groups)::value_type::first);
    if (group == groups.end())
      group = groups.insert(group, {pattern, {}});
    group->second.push_back(name);
  }
  std::string text;
  for (const auto &[pattern, members] : groups) {
    text += text.empty() ? "" : ", ";
    text += members.size() == 1
                ? members[0]
                : fmt::format("{} ({} layers)", pattern, members.size());
  }
  return text;
}

std::vector<std::vector<std::string>>
storedNames(const std::vector<FloatTensor> &tensors,
            const WeightFiles &weights) {
  std::vector<ModelTensor> own;
  for (const FloatTensor &tensor : tensors) {
    own.push_back({{tensor.name}, tensor.shape});
    own.back().names.insert(own.back().names.end(), tensor.aliases.begin(),
                            tensor.aliases.end());
  }
  const std::vector<StoredShape> stored = shapesOf(storedTensors(weights));
  const TensorMatching matching = matchTensors(own, stored, /*family=*/"");
  std::vector<std::vector<std::string>> all;
  for (size_t i = 0; i < tensors.size(); ++i) {
    std::vector<std::string> &names = all.emplace_back();
    for (size_t place : matching.sources[i])
      names.push_back(stored[place].name);
    if (names.empty())
      names.push_back(matching.prefix.storedName(tensors[i].name));
  }
  return all;
}

std::string requantisedNote(const WeightFiles &weights,
                            const std::string &build, const std::string &type) {
  if (!type.starts_with("int"))
    return "";
  // In f32 the least weight of a group of 4 bits may be above its minimum, and
  // the group of its numbers another one.
  auto stays = [&](const StoredTensor &stored) {
    return type == (stored.isInt8() ? "int8" : "int4") &&
           (build == type || (build == "f32" && stored.staysQuantised()));
  };
  auto note = [&](const char *why) {
    return "the weights of " + weights.path() + " are requantised: " + why +
           type;
  };
  for (const auto &[name, tensor] : weights.tensors()) {
    StoredTensor stored(weights, name);
    if (isBlockType(tensor.entry->dtype))
      return note("its blocks are not those of ");
    // What is none of the model's may be damaged.
    if ((stored.isInt8() || stored.isInt4()) &&
        stored.tableProblems().empty() && !stays(stored))
      return note("its integers are not kept as those of ");
  }
  return "";
}

bool loadParameters(Model &model, const WeightFiles &weights,
                    Unmatched *unmatched, const std::string &part) {
  const Sources found(model, part, weights, unmatched);
  try {
    bool areKept = true;
    for (size_t i = 0; i < found.sources.size(); ++i) {
      const tfm_parameter &parameter = *found.parameters[i];
      const Sources::Found &sources = found.sources[i];
      if (!sources.empty())
        load(model, parameter, sources[0]);
      areKept &= sources.empty() ? parameter.dtype == TFM_F32
                                 : isKept(sources[0], parameter);
    }
    return areKept;
  } catch (...) {
    for (const tfm_parameter &parameter : model.parameters())
      model.setValue(parameter, [](size_t, std::span<float> values) {
        std::ranges::fill(values, 0.0f);
      });
    throw;
  }
}

std::vector<FloatTensor> parameterTensors(const Model &model) {
  std::vector<FloatTensor> tensors;
  for (const tfm_parameter &parameter : model.parameters()) {
    FloatTensor &tensor = tensors.emplace_back();
    tensor.name = parameter.name;
    tensor.aliases.assign(parameter.aliases,
                          parameter.aliases + parameter.alias_count);
    tensor.shape = shapeOf(parameter);
    tensor.outputAxis = parameter.output_axis;
    tensor.read = [&] { return model.readValue(parameter); };
    if (parameter.dtype == TFM_I8)
      tensor.readInt8 = [&] { return model.readInt8(parameter); };
    if (parameter.dtype == TFM_I4)
      tensor.readInt4 = [&] { return model.readInt4(parameter); };
  }
  return tensors;
}

} // namespace tfm
