//===- hf_config.h - a model beside a config.json -----------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

// Names and shapes of tensors do not say how many heads share them, which
// epsilon is under a root or how fast positions rotate: the config.json of a
// Hugging Face folder does. The table of the model's family, where its file
// names one, says what each key means (family.h); beside it, and without one,
// keys are compared with the facts that the compiler reads from the graph
// (docs/design.md, "Facts"). The rules are the same for loading and for `tfmc
// report --against`.
//
//===----------------------------------------------------------------------===//

#ifndef TFM_RUNTIME_FILES_HF_CONFIG_H
#define TFM_RUNTIME_FILES_HF_CONFIG_H

#include "runtime/tfm_model.h"

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace tfm {

/// What a model says of itself.
struct ModelDescription {
  std::string facts;           ///< JSON: `facts` of the recipe; may be empty
  std::string hyperparameters; ///< JSON: an array of {"name", "value"}
  std::string source;          ///< the file that it was built from
  /// JSON: `family` of the recipe; empty where the file names none.
  std::string family = {};
  /// JSON: for a model without a family, the table of the one that a
  /// config.json is of, by its `model_type`. Without it, or where it returns
  /// nothing, keys that facts do not show are passed over.
  std::function<std::string(const std::string &modelType)> tableFor = nullptr;
};

/// A key of a config.json beside what the model computes.
struct ConfigKey {
  enum class State {
    Agrees,
    Differs,
    /// Which of the two is the case cannot be known for certain.
    NotCompared,
    /// It changes nothing in any model of its family.
    Harmless,
  };
  std::string key;    ///< `n_head`, `rope_parameters.rope_theta`
  std::string stored; ///< its value, as JSON
  std::string model;  ///< what the model has; empty where that is not known
  State state = State::NotCompared;
  /// Where they differ: what makes them agree, `build it with -D heads=8`.
  std::string fix;
  /// Why it is harmless.
  std::string reason = {};
};

struct ConfigComparison {
  std::string path; ///< of the config.json
  std::vector<ConfigKey> keys;
  bool agrees() const;
};

/// Compares the config.json of a folder, with a family every key of it, without
/// one as far as its keys are known here; nothing where `path` is no folder or
/// has none. Throws InputError where it is no JSON object.
std::optional<ConfigComparison> compareConfig(const std::string &path,
                                              const ModelDescription &model);

/// The config.json that says what a model of a family is, complete, in the
/// words of its table; empty where the model's file names no family. Throws
/// InputError where there are none.
std::string writeConfig(const tfm_model &model);

/// That of a folder for a model which may have a shorter context, and weights
/// that are not quantised; else as it is, and of a larger model what concerns
/// this one. Throws InputError where it is of another model.
std::string adaptConfig(const std::string &folder, const tfm_model &model);

/// Whether that of a folder is of a larger model, one that reads pictures, too,
/// in which that of `model` is a part.
bool isOfLargerModel(const std::string &folder, const tfm_model &model);

/// Throws InputError that lists what differs between a model and the
/// config.json beside its weights, which are a file or a folder. Returns a line
/// with the keys that change what is computed and that nobody can compare;
/// empty where there are none.
std::string requireConfig(const std::string &weights, const tfm_model &model);

} // namespace tfm

#endif // TFM_RUNTIME_FILES_HF_CONFIG_H
