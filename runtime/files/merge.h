//===- merge.h - corrections become part of the weights -----------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_RUNTIME_FILES_MERGE_H
#define TFM_RUNTIME_FILES_MERGE_H

#include "runtime/formats/safetensors.h"

#include <nlohmann/json_fwd.hpp>
#include <vector>

namespace tfm {

class Model;

/// The fact `corrections`. Throws InputError where a model has none.
nlohmann::json correctionsOf(const tfm_model &model);

/// Adds the low-rank corrections of a model to the weights, which are f32, and
/// returns its tensors without them, under the names of the model without them.
/// The model itself then computes nothing of use. `kept` are the weights that
/// have theirs on, as something else reads them, too. Throws InputError where
/// it has none.
std::vector<FloatTensor> mergeCorrections(Model &model,
                                          std::vector<std::string> &kept);

} // namespace tfm

#endif // TFM_RUNTIME_FILES_MERGE_H
