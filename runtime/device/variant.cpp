//===- variant.cpp - which code of a model this machine runs ------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/device/variant.h"

#include "runtime/device/cpu_features.h"
#include "runtime/support/error.h"

#include <algorithm>
#include <cstdio>
#include <stdexcept>
#include <utility>
#ifdef __linux__
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace tfm {

/// Whether the system lets this process use tiles: a kilobyte in each of eight
/// registers, which it has to save when it switches threads.
static bool systemGivesTiles() {
#if defined(__x86_64__) && defined(__linux__)
  constexpr int requestPermission = 0x1023, tileData = 18; // asm/prctl.h
  static const bool granted =
      syscall(SYS_arch_prctl, requestPermission, tileData) == 0;
  return granted;
#else
  return false;
#endif
}

static bool processorHas([[maybe_unused]] std::string_view feature) {
#ifdef __x86_64__
#define TFM_ASK_FOR(name)                                                      \
  if (feature == name)                                                         \
    return __builtin_cpu_supports(name);
  TFM_X86_FEATURES(TFM_ASK_FOR)
#undef TFM_ASK_FOR
#elif defined(__aarch64__) && defined(__linux__)
#define TFM_ASK_FOR(name, word, bit)                                           \
  if (feature == name)                                                         \
    return (getauxval(word) & (bit)) != 0;
  TFM_AARCH64_FEATURES(TFM_ASK_FOR)
#undef TFM_ASK_FOR
#endif
  return false;
}

const Machine thisMachine = {processorHas, systemGivesTiles};

constexpr std::string_view tiles = "amx-tile";

std::string missingFeatures(std::string_view features, const Machine &machine) {
  std::string missing;
  while (!features.empty()) {
    size_t end = std::min(features.find(','), features.size());
    std::string_view feature = features.substr(0, end);
    features.remove_prefix(std::min(end + 1, features.size()));
    bool has = feature.empty() || (machine.processorHas(feature) &&
                                   (feature != tiles || machine.givesTiles()));
    if (!has)
      missing += (missing.empty() ? "" : ",") + std::string(feature);
  }
  return missing;
}

const tfm_variant *findVariant(const tfm_model &model, const Machine &machine) {
  for (int64_t i = 0; i < model.variant_count; ++i)
    if (missingFeatures(model.variants[i].features, machine).empty())
      return &model.variants[i];
  // A GPU's is there alone where it has been chosen (choose_device.h).
  return model.variant_count == 1 && model.variants->image_count > 0
             ? model.variants
             : nullptr;
}

/// Whether it lacks nothing but tiles that the system keeps to itself.
static bool isRefusedTiles(const tfm_variant &variant, const Machine &machine) {
  return missingFeatures(variant.features, machine) == tiles &&
         machine.processorHas(tiles);
}

/// Whether there is any code that it runs (compiler/target/cpu/CpuMachine.h).
static bool suffices([[maybe_unused]] const Machine &machine) {
#ifdef __x86_64__
  return missingFeatures("avx2,fma", machine).empty();
#else
  return true;
#endif
}

const tfm_variant &chooseVariant(const tfm_model &model,
                                 const Machine &machine) {
  if (model.abi != TFM_ABI_VERSION)
    throw std::logic_error("the model was compiled for another runtime");
  if (const tfm_variant *found = findVariant(model, machine)) {
    static bool isNoted = false;
    if (found != model.variants && isRefusedTiles(*model.variants, machine) &&
        !std::exchange(isNoted, true))
      std::fputs("note: the system does not let this program use the "
                 "processor's tiles (AMX), so that it runs slower code "
                 "without them\n",
                 stderr);
    return *found;
  }
  // The one that lacks fewest, and what.
  std::string least, lacking;
  for (int64_t i = 0; i < model.variant_count; ++i) {
    const tfm_variant &variant = model.variants[i];
    std::string_view name = variant.machine;
    if (isRefusedTiles(variant, machine))
      throw InputError(
          "the system does not let this program use the processor's tiles "
          "(AMX), which its code for {} needs; build it with code without "
          "them, too: `tfmc build --cpu {}`",
          name, name.substr(0, name.rfind("+amx")));
    std::string lacks = missingFeatures(variant.features, machine);
    if (i == 0 ||
        std::ranges::count(lacks, ',') <= std::ranges::count(lacking, ',')) {
      least = name;
      lacking = std::move(lacks);
    }
  }
  throw InputError(
      "this processor lacks instructions that the program was compiled for "
      "({}: {}); {}",
      least, lacking,
      suffices(machine)
          ? "build it on this machine, or for others of its kind with `tfmc "
            "build --cpu portable`"
          : "no build runs on it: AVX2 and FMA are the least");
}

tfm_model withoutCode(const tfm_model &model) {
  if (findVariant(model))
    return model;
  static tfm_variant last; // lives as long as models do
  last = model.variants[model.variant_count - 1];
  last.features = "";
  tfm_model one = model;
  one.variant_count = 1;
  one.variants = &last;
  return one;
}

} // namespace tfm
