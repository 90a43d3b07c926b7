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

/// Those of `features` (`tfm_variant.features`) that this machine has not, or
/// that nobody here knows, separated by commas; empty where it has all.
std::string missingFeatures(std::string_view features);

/// The first variant of a model that this machine's processors can run, or its
/// only one where that is a GPU's; null where there is none.
const tfm_variant *findVariant(const tfm_model &model);

/// The same. Throws InputError,
/// which tells what the machine lacks, where there is none, and logic_error for
/// a model that was compiled for another runtime.
const tfm_variant &chooseVariant(const tfm_model &model);

} // namespace tfm

#endif // TFM_RUNTIME_DEVICE_VARIANT_H
