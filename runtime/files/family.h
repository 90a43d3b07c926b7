//===- family.h - what the keys of a config.json mean -------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

// The table of a family (docs/families.md, "A family of your own") says of each
// key of a config.json whether it sets a hyperparameter, changes nothing, or
// has to have a certain value. `tfmc import` reads a config.json by it, and
// loading judges by it whether weights are those of a model.
//
//===----------------------------------------------------------------------===//

#ifndef TFM_RUNTIME_FILES_FAMILY_H
#define TFM_RUNTIME_FILES_FAMILY_H

#include <functional>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tfm {

/// What a key of a config.json comes to.
struct FamilyKey {
  enum class Kind {
    /// `text` is the value of `hyperparameter`.
    Sets,
    /// It has the only value that the family computes with.
    Required,
    /// It changes nothing: `reason` says why.
    Harmless,
    /// The family does not compute with it: `reason` says what is wrong.
    Refused,
  };
  Kind kind = Kind::Refused;
  std::string key;            ///< `rope_parameters.rope_theta`
  std::string stored;         ///< its value as JSON; empty where it is absent
  std::string hyperparameter; ///< of `Sets`, and of what should set one
  std::string text;           ///< in the language: `32`, `none`, `gelu_tanh`
  /// Whether the model may have less: a shorter context.
  bool mayBeLess = false;
  std::string reason;
  /// Whether the table has it.
  bool isListed = true;
};

/// Reads a table of a family with all that it includes, and checks it: the
/// result stands alone. `load` returns the text of a table by its name without
/// ending, or throws InputError. So does this, where a table is no right one,
/// with what `nameOf` calls it.
nlohmann::json
readFamily(const std::string &name,
           const std::function<std::string(const std::string &)> &load,
           const std::function<std::string(const std::string &)> &nameOf);

/// What every key of a config.json is to a family: first those of the table in
/// its order, then all others that say something. `part` is the member of the
/// table to read by: `keys`, or `generation`. Unlisted keys among `ignored` are
/// harmless.
std::vector<FamilyKey> readByFamily(const nlohmann::json &family,
                                    const nlohmann::json &config,
                                    const std::vector<std::string> &ignored,
                                    const char *part = "keys");

/// Whether two values are one to the kernels, which have numbers in single
/// precision.
bool isEqual(const nlohmann::json &a, const nlohmann::json &b);

/// Whether a value is `wanted`, or of a list one of it.
bool isOneOf(const nlohmann::json &value, const nlohmann::json &wanted);

/// A config.json that `readByFamily` reads the same hyperparameters from.
/// `values` has those that are not none, and `valueOf` is what a text of the
/// table comes to in the model, or nothing where nobody knows. Throws
/// InputError for a value that no key can say.
nlohmann::json writeByFamily(
    const nlohmann::json &family,
    const std::map<std::string, nlohmann::json> &values,
    const std::function<std::optional<nlohmann::json>(const std::string &)>
        &valueOf);

/// Of the config.json of a larger model, one that reads pictures, too, what
/// concerns the model of this family in it: the object of its own keys, and
/// beside it what the family knows of the whole, which counts more. Nothing
/// where the config.json is not that of a model which this family is part of.
std::optional<nlohmann::json> ownPart(const nlohmann::json &family,
                                      const nlohmann::json &config);

/// The tensors that weights of a family may have beside those of its models.
/// `family` is that of a recipe, and may be empty.
std::vector<std::string> unusedTensors(const std::string &family);

/// Whether a tensor is one of those. `vision_tower.*` is all of a module.
bool isUnused(std::span<const std::string> unused, std::string_view tensor);

/// What a family says of gguf files. Throws InputError for `path`, one of them,
/// where it says nothing.
nlohmann::json ggufOf(const std::string &family, const std::string &path);

/// The texts of a family that are more than a number, a string or a truth
/// value: what they come to depends on the model.
std::vector<std::string> expressionsOf(const nlohmann::json &family);

} // namespace tfm

#endif // TFM_RUNTIME_FILES_FAMILY_H
