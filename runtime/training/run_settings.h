//===- run_settings.h - by what a build computes updates ----------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_RUNTIME_TRAINING_RUN_SETTINGS_H
#define TFM_RUNTIME_TRAINING_RUN_SETTINGS_H

#include "runtime/tfm_model.h"

#include <map>
#include <string>

namespace tfm {

/// What a model's hyperparameters and its recipe say of how updates are
/// computed, by the names that `-D` has for it: {"drop": "0.1", "train.clip":
/// "1.0"}, each value as JSON. Without what a run keeps from its beginning
/// (steps, seed and learning rate), what `RunState` has a place of its own for,
/// and what weights do not depend on.
std::map<std::string, std::string> runSettings(const tfm_model &model);

/// `drop = 0.0 (here 0.1), train.clip = 1.0 (here 0.5)`: those that differ.
/// Empty where none does, or nothing is known of `before`.
std::string changesOfSettings(const std::map<std::string, std::string> &before,
                              const std::map<std::string, std::string> &here);

/// What has become of data that are not those of `before`, by the checksums of
/// their files: `: a.txt has changed, b.txt is new`, or that nobody knows.
std::string changesOfFiles(const std::map<std::string, std::string> &before,
                           const std::map<std::string, std::string> &here);

} // namespace tfm

#endif // TFM_RUNTIME_TRAINING_RUN_SETTINGS_H
