//===- matching.cpp - which tensor of a checkpoint is which of a model's ===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/files/matching.h"

#include "runtime/files/family.h"
#include "runtime/files/hub.h"

#include <map>
#include <optional>
#include <string_view>

namespace tfm {

/// What `LoRA` calls the layer that it corrects.
constexpr std::string_view corrected = ".base";

std::string
NamePrefix::modelName(const std::string &stored,
                      const std::set<std::string> &modelNames) const {
  std::string own = withPrefix(stored, modelNames);
  if (modelNames.count(own))
    return own;
  for (const auto &[part, current] :
       {std::pair(".gamma", ".weight"), std::pair(".beta", ".bias")})
    if (stored.ends_with(part)) {
      std::string renamed =
          withPrefix(stored.substr(0, stored.rfind('.')) + current, modelNames);
      if (modelNames.count(renamed))
        return renamed;
    }
  // A layer that `LoRA` corrects is its `base`, once for each of them.
  if (size_t dot = own.rfind('.'); dot != std::string::npos) {
    const std::string layer = own.substr(0, dot), part = own.substr(dot);
    std::string inner = layer + std::string(corrected);
    for (auto next = modelNames.lower_bound(inner);
         next != modelNames.end() && next->starts_with(inner);
         next = modelNames.lower_bound(inner)) {
      if (modelNames.count(inner + part))
        return inner + part;
      inner += corrected;
    }
  }
  return own;
}

std::string uncorrectedName(const std::string &name) {
  size_t dot = name.rfind('.');
  std::string layer = name.substr(0, dot);
  if (dot == std::string::npos || !layer.ends_with(corrected))
    return name;
  while (layer.ends_with(corrected))
    layer.resize(layer.size() - corrected.size());
  return layer + name.substr(dot);
}

std::string NamePrefix::storedName(const std::string &own) const {
  if (!inModel)
    return text + own;
  return own.starts_with(text) ? own.substr(text.size()) : own;
}

std::string
NamePrefix::withPrefix(const std::string &stored,
                       const std::set<std::string> &modelNames) const {
  if (modelNames.count(stored))
    return stored;
  if (inModel)
    return text + stored;
  return stored.starts_with(text) ? stored.substr(text.size()) : stored;
}

/// The first part of a name, with its dot; empty where it has but one.
static std::string firstPart(const std::string &name) {
  return name.substr(0, name.find('.') + 1);
}

/// `other`: one that does as well, if any.
static NamePrefix findPrefix(const std::set<std::string> &modelNames,
                             std::span<const StoredShape> stored,
                             std::string &other) {
  auto matches = [&](const NamePrefix &prefix, const StoredShape &tensor) {
    return static_cast<ptrdiff_t>(
        modelNames.count(prefix.modelName(tensor.name, modelNames)));
  };
  // One of the checkpoint is of those tensors alone that have it.
  ptrdiff_t bestCount = 0;
  std::map<std::string, ptrdiff_t> gained;
  for (const StoredShape &tensor : stored) {
    ptrdiff_t plain = matches({}, tensor);
    bestCount += plain;
    // Of one part, `module.`, or of two, `module._orig_mod.`.
    size_t dot = tensor.name.find('.');
    for (int parts = 0; parts < 2 && dot != std::string::npos; ++parts) {
      const std::string prefix = tensor.name.substr(0, dot + 1);
      gained[prefix] += matches({prefix, false}, tensor) - plain;
      dot = tensor.name.find('.', dot + 1);
    }
  }
  // No prefix comes first and wins where nothing is better.
  const ptrdiff_t plainCount = bestCount;
  NamePrefix best;
  auto consider = [&](const NamePrefix &candidate, ptrdiff_t count) {
    if (count == bestCount && best.inModel == candidate.inModel)
      other = candidate.text;
    if (count <= bestCount)
      return;
    other.clear();
    best = candidate;
    bestCount = count;
  };
  for (const auto &[part, more] : gained)
    consider({part, false}, plainCount + more);
  std::set<std::string> modelParts;
  for (const std::string &name : modelNames)
    if (std::string part = firstPart(name); !part.empty())
      modelParts.insert(part);
  for (const std::string &part : modelParts) {
    ptrdiff_t count = 0;
    for (const StoredShape &tensor : stored)
      count += matches({part, true}, tensor);
    consider({part, true}, count);
  }
  if (best.text.empty())
    other.clear();
  return best;
}

/// Whether a tensor has one of these names, or in a module of any name.
static bool isAnyOf(std::string_view name, const char *list) {
  for (const std::string end : hubTable().at(list))
    if (name == end || name.ends_with("." + end))
      return true;
  return false;
}

TensorMatching matchTensors(std::span<const ModelTensor> own,
                            std::span<const StoredShape> stored,
                            const std::string &family) {
  using Kind = TensorMatching::Kind;
  std::set<std::string> modelNames;
  for (const ModelTensor &tensor : own)
    modelNames.insert(tensor.names.begin(), tensor.names.end());
  TensorMatching result;
  result.prefix = findPrefix(modelNames, stored, result.otherPrefix);

  std::map<std::string, size_t> byName;
  for (size_t i = 0; i < stored.size(); ++i) {
    std::string name = result.prefix.modelName(stored[i].name, modelNames);
    if (!modelNames.count(name))
      result.others.push_back({i, Kind::Unexpected});
    else if (auto [first, isNew] = byName.try_emplace(name, i); !isNew)
      result.others.push_back({i, Kind::Repeated, {}, first->second});
  }
  std::map<size_t, size_t> ownOf;
  for (size_t i = 0; i < own.size(); ++i) {
    std::vector<size_t> &sources = result.sources.emplace_back();
    for (const std::string &name : own[i].names)
      if (auto found = byName.find(name); found != byName.end()) {
        sources.push_back(found->second);
        ownOf[found->second] = i;
      }
  }

  std::optional<std::vector<std::string>> unused;
  for (TensorMatching::Other &other : result.others) {
    if (other.kind == Kind::Repeated) {
      other.own = {ownOf.at(other.first)};
      continue;
    }
    if (!unused)
      unused = unusedTensors(family);
    const auto &[name, shape] = stored[other.stored];
    // Four axes are a causal mask, not the bias of a layer.
    if (isAnyOf(name, "unused") || isUnused(*unused, name) ||
        (shape.size() == 4 && isAnyOf(name, "masks"))) {
      other.kind = Kind::Buffer;
      continue;
    }
    for (size_t i = 0; i < own.size(); ++i)
      if (own[i].shape == shape && isAnyOf(name, "output_layers")) {
        other.kind = Kind::OutputLayer;
        other.own.push_back(i);
      }
  }
  return result;
}

} // namespace tfm
