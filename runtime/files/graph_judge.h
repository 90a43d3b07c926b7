//===- graph_judge.h - a config.json beside what a graph shows ------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_RUNTIME_FILES_GRAPH_JUDGE_H
#define TFM_RUNTIME_FILES_GRAPH_JUDGE_H

#include "runtime/files/hf_config.h"

#include <nlohmann/json_fwd.hpp>

namespace tfm {

/// Judges keys of a config.json by the facts of a model, where `hubTable` says
/// what they mean.
std::vector<ConfigKey> judgeByGraph(const nlohmann::json &config,
                                    const ModelDescription &model);

/// The keys of a config.json whose value bounds a fact of the model that may be
/// less: the context.
std::vector<std::string> boundsOf(const std::string &fact);

/// The value of a key, `rope_parameters.rope_theta` being a member of a member;
/// null where it is absent.
const nlohmann::json *findKey(const nlohmann::json &config,
                              std::string_view key);

/// A value of a fact, for messages.
std::string textOf(const nlohmann::json &value);

} // namespace tfm

#endif // TFM_RUNTIME_FILES_GRAPH_JUDGE_H
