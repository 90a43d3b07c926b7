//===- variant.h - which code of a model this machine runs --------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_RUNTIME_DEVICE_VARIANT_H
#define TFM_RUNTIME_DEVICE_VARIANT_H

#include "runtime/tfm_model.h"

#include <string>
#include <string_view>

namespace tfm {

/// What a machine can run: its processor's features (cpu_features.h), but tiles
/// only where the system gives them to this process, too.
struct Machine {
  bool (*processorHas)(std::string_view feature);
  bool (*givesTiles)();
};
extern const Machine thisMachine;

/// Those of `features` (`tfm_variant.features`) that a machine has not, or
/// that nobody here knows, separated by commas; empty where it has all.
std::string missingFeatures(std::string_view features,
                            const Machine &machine = thisMachine);

/// The first variant of a model that a machine's processors can run, or its
/// only one where that is a GPU's; null where there is none.
const tfm_variant *findVariant(const tfm_model &model,
                               const Machine &machine = thisMachine);

/// The same. Throws InputError, which tells what the machine lacks, or that the
/// system keeps tiles to itself, where there is none, and logic_error for a
/// model that was compiled for another runtime.
const tfm_variant &chooseVariant(const tfm_model &model,
                                 const Machine &machine = thisMachine);

/// A model that computes nothing: where this machine runs none of its variants
/// it has the last one alone, which says of its memory what the others do, and
/// asks for no features.
tfm_model withoutCode(const tfm_model &model);

} // namespace tfm

#endif // TFM_RUNTIME_DEVICE_VARIANT_H
