//===- variant.cpp - which code of a model this machine runs ------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/device/variant.h"

#include "runtime/device/cpu_features.h"
#include "runtime/error.h"

#include <stdexcept>

namespace tfm {

static bool machineHas([[maybe_unused]] std::string_view feature) {
#ifdef __x86_64__
#define TFM_ASK_FOR(name)                                                      \
  if (feature == name)                                                         \
    return __builtin_cpu_supports(name);
  TFM_X86_FEATURES(TFM_ASK_FOR)
#undef TFM_ASK_FOR
#endif
  return false;
}

std::string missingFeatures(std::string_view features) {
  std::string missing;
  while (!features.empty()) {
    size_t end = std::min(features.find(','), features.size());
    std::string_view feature = features.substr(0, end);
    features.remove_prefix(std::min(end + 1, features.size()));
    if (!feature.empty() && !machineHas(feature))
      missing += (missing.empty() ? "" : ",") + std::string(feature);
  }
  return missing;
}

const tfm_variant *findVariant(const tfm_model &model) {
  for (int64_t i = 0; i < model.variant_count; ++i)
    if (missingFeatures(model.variants[i].features).empty())
      return &model.variants[i];
  return nullptr;
}

const tfm_variant &chooseVariant(const tfm_model &model) {
  if (model.abi != TFM_ABI_VERSION)
    throw std::logic_error("the model was compiled for another runtime");
  if (const tfm_variant *found = findVariant(model))
    return *found;
  std::string lacks;
  for (int64_t i = 0; i < model.variant_count; ++i) {
    const tfm_variant &variant = model.variants[i];
    lacks += (lacks.empty() ? "" : "; ") + std::string(variant.machine) + ": " +
             missingFeatures(variant.features);
  }
  throw InputError("this processor lacks instructions that the program was "
                   "compiled for (" +
                   lacks +
                   "); build it on this machine, or for others of its kind "
                   "with `tfmc build --cpu portable`");
}

} // namespace tfm
