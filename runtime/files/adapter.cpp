//===- adapter.cpp - corrections alone, as PEFT loads them --------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/files/adapter.h"

#include "runtime/files/export_folder.h"
#include "runtime/files/hf_config.h"
#include "runtime/files/matching.h"
#include "runtime/files/merge.h"
#include "runtime/files/weights.h"
#include "runtime/model/model.h"
#include "runtime/recipe.h"
#include "runtime/support/atomic_file.h"
#include "runtime/support/error.h"
#include "runtime/support/temporaries.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

using nlohmann::json;
using nlohmann::ordered_json;

namespace tfm {

namespace {

/// A layer with a correction, as PEFT has it.
struct Corrected {
  std::string module; ///< its name in the published model
  FloatTensor a, b;   ///< [rank, inputs] and [outputs, rank]
  ordered_json alpha;
  bool isTransposed = false; ///< the weight, [outputs, inputs]

  int64_t rank() const { return a.shape[0]; }
};

std::string lastPart(const std::string &name) {
  return name.substr(name.rfind('.') + 1);
}

/// The alpha of a scale, which is an f32, in as few digits as give it: as
/// people write it.
ordered_json alphaOf(double scale, int64_t rank) {
  const auto divisor = static_cast<double>(rank);
  double alpha = scale * divisor;
  for (int digits = 1; digits < 17; ++digits) {
    double shorter = std::stod(fmt::format("{:.{}g}", alpha, digits));
    if (static_cast<float>(shorter / divisor) == static_cast<float>(scale)) {
      alpha = shorter;
      break;
    }
  }
  return alpha == std::floor(alpha) ? ordered_json(std::llround(alpha))
                                    : ordered_json(alpha);
}

/// Whether a tensor is what a published folder has by that name.
bool isThatOf(const WeightFiles &published, const std::string &name,
              const FloatTensor &tensor) {
  auto found = published.tensors().find(name);
  if (found == published.tensors().end() ||
      found->second.entry->elements() != tensor.elements())
    return false;
  // Those of 8 bits have scales beside them, and what they are is not compared.
  if (found->second.entry->dtype.starts_with("F8"))
    return true;
  std::vector<float> values(tensor.elements());
  found->second.file->readFloats(name, *found->second.entry, values.data());
  const PendingRead<float> own = tensor.read();
  return std::ranges::equal(values, own.values());
}

std::vector<Corrected> correctedLayers(const Model &model,
                                       const std::string &source) {
  const std::vector<FloatTensor> tensors = parameterTensors(model);
  std::vector<std::vector<std::string>> names;
  std::optional<WeightFiles> published;
  if (!source.empty() && isOfLargerModel(source, model.descriptor()))
    throw InputError(
        "{} is of a larger model than {}, and PEFT has other names for its "
        "tensors: export with --merge, or begin training with an export of {}",
        source, model.descriptor().name, source);
  if (!source.empty())
    names = storedNames(tensors, published.emplace(source));
  std::map<std::string, size_t> places;
  for (size_t i = 0; i < tensors.size(); ++i)
    places.emplace(tensors[i].name, i);
  std::vector<Corrected> layers;
  std::set<std::string> factors;
  for (const json &correction : correctionsOf(model.descriptor())) {
    const std::string own = correction.at("weight");
    std::string weight =
        source.empty() ? uncorrectedName(own) : names[places.at(own)].front();
    const json &terms = correction.at("terms"), &pair = terms[0].at("factors");
    const std::string part = ".weight";
    if (correction.contains("shared"))
      throw InputError(
          "something else reads {}, too, or what corrects it (it is tied), "
          "which PEFT does not know: train without this correction",
          own);
    if (terms.size() != 1)
      throw InputError("{} has {} corrections, and PEFT knows one "
                       "of a layer: export with --merge",
                       own, terms.size());
    if (pair.size() != 2 || !pair[0]["transposed"] || !pair[1]["transposed"] ||
        !weight.ends_with(part))
      throw InputError(
          "{} has another correction than one of two tensors, [rank, inputs] "
          "and [outputs, rank], as PEFT has them: export with --merge",
          own);
    weight.resize(weight.size() - part.size());
    Corrected &layer = layers.emplace_back();
    layer.module = std::move(weight);
    layer.a = tensors[places.at(pair[0].at("name"))];
    layer.b = tensors[places.at(pair[1].at("name"))];
    layer.alpha = alphaOf(terms[0].at("scale"), layer.rank());
    layer.isTransposed = correction.at("transposed");
    factors.insert({layer.a.name, layer.b.name});
  }
  std::vector<std::string> others, changed;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const tfm_parameter &parameter = model.parameters()[i];
    if (factors.contains(parameter.name))
      continue;
    if (parameter.trainable)
      others.emplace_back(parameter.name);
    else if (published && !isThatOf(*published, names[i].front(), tensors[i]))
      changed.emplace_back(parameter.name);
  }
  if (!recipeOf(model.descriptor()).hasTrain)
    throw InputError("what was trained is known to the program that trained: "
                     "export the adapter with that one");
  if (!others.empty())
    throw InputError("an adapter holds corrections alone, and this build "
                     "trains others, too: {}. Export with --merge, or train "
                     "the corrections alone (train.only)",
                     listed(others));
  if (!changed.empty())
    throw InputError("an adapter holds corrections alone, and these weights "
                     "have others than {}, too: {}. Export with --merge",
                     source, listed(changed));
  return layers;
}

/// The names by which PEFT finds the layers: their last parts, where all layers
/// of such a name in the published model are among them.
ordered_json targetsOf(const std::vector<Corrected> &layers,
                       const std::string &source) {
  std::map<std::string, size_t> all, corrected;
  if (!source.empty()) {
    const WeightFiles published(source);
    for (const auto &[name, tensor] : published.tensors())
      if (name.ends_with(".weight"))
        ++all[lastPart(name.substr(0, name.rfind('.')))];
  }
  for (const Corrected &layer : layers)
    ++corrected[lastPart(layer.module)];
  ordered_json targets = ordered_json::array();
  std::set<std::string> seen;
  for (const Corrected &layer : layers) {
    const std::string part = lastPart(layer.module);
    const std::string name = all[part] == corrected[part] ? part : layer.module;
    if (seen.insert(name).second)
      targets.push_back(name);
  }
  return targets;
}

std::string configOf(const std::vector<Corrected> &layers,
                     const std::string &source, bool hasEncoder) {
  const Corrected &first = layers.front();
  ordered_json ranks = ordered_json::object(), alphas = ordered_json::object();
  for (const Corrected &layer : layers) {
    if (layer.rank() != first.rank())
      ranks[layer.module] = layer.rank();
    if (layer.alpha != first.alpha)
      alphas[layer.module] = layer.alpha;
  }
  return ordered_json({{"peft_type", "LORA"},
                       {"task_type", hasEncoder ? "SEQ_2_SEQ_LM" : "CAUSAL_LM"},
                       {"base_model_name_or_path",
                        source.empty() ? ordered_json() : ordered_json(source)},
                       {"inference_mode", true},
                       {"r", first.rank()},
                       {"lora_alpha", first.alpha},
                       {"lora_dropout", 0.0},
                       {"bias", "none"},
                       {"fan_in_fan_out", !first.isTransposed},
                       {"target_modules", targetsOf(layers, source)},
                       {"rank_pattern", ranks},
                       {"alpha_pattern", alphas}})
             .dump(2) +
         "\n";
}

} // namespace

std::vector<std::string> adapterFiles(const std::string &out) {
  return {out + "/adapter_model.safetensors", out + "/adapter_config.json"};
}

void exportAdapter(const Model &model, const std::string &weights,
                   const std::string &out, StoredType type, bool overwrite) {
  if (type == StoredType::INT8 || type == StoredType::INT4)
    throw InputError("PEFT has no adapters of 8 bits or 4: export it with "
                     "--dtype bf16");
  const std::string source = publishedFolderOf(weights);
  const std::vector<Corrected> layers = correctedLayers(model, source);
  const std::vector<std::string> paths = adapterFiles(out);
  for (const char *name : {"/config.json", "/model.safetensors"})
    if (fileExists(out + name))
      throw InputError("{} holds a model, which would be loaded with the "
                       "adapter: export to another folder",
                       out);
  if (!overwrite)
    requireExported(paths[0], paths[1]);
  std::vector<FloatTensor> tensors;
  for (const Corrected &layer : layers)
    for (auto [tensor, name] : {std::pair(&layer.a, ".lora_A.weight"),
                                std::pair(&layer.b, ".lora_B.weight")}) {
      tensors.push_back(*tensor);
      tensors.back().name = "base_model.model." + layer.module + name;
    }
  FolderForFiles made(out);
  AtomicFile file(paths[0]), config(paths[1]);
  writeSafetensors(file, tensors, exportedMetadata(), type);
  config.write(
      configOf(layers, source, recipeOf(model.descriptor()).hasEncoder));
  file.sync();
  config.sync();
  SignalsWait wait; // both or none
  file.commit();
  config.commit();
}

} // namespace tfm
