//===- weights.h - parameters from a checkpoint -------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

// What is published as a model's weights is rarely exactly its parameters: it
// lies in one file or in shards with an index, its names may begin with the
// name of a class around the model (`transformer.`), and it may hold masks
// beside the weights or the tied output layer a second time. These rules are
// the same for loading and for `tfmc report --against`.
//
//===----------------------------------------------------------------------===//

#ifndef TFM_RUNTIME_FILES_WEIGHTS_H
#define TFM_RUNTIME_FILES_WEIGHTS_H

#include "runtime/files/checksum.h"
#include "runtime/files/safetensors.h"

#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tfm {

class Model;

/// Of a folder without weights that has an adapter of PEFT, what to do; else
/// nothing.
std::string adapterIn(const std::string &folder);

/// The tensors of a safetensors file, of a folder with `model.safetensors` or
/// with shards under `model.safetensors.index.json`, or of a gguf file.
class WeightFiles {
public:
  struct Tensor {
    const TensorFile *file;
    const TensorEntry *entry;
  };

  /// Opens all files and checks their headers; throws InputError. Tensors of a
  /// gguf file get the names that `family` has, that of a recipe.
  explicit WeightFiles(const std::string &path, const std::string &family = "");

  /// The file or folder as it was named.
  const std::string &path() const { return named; }
  /// Throws InputError if `path`, which is to be written, is one of them.
  void requireNoneIs(const std::string &path) const;
  /// By the names that the files have, but for those of a gguf file.
  const std::map<std::string, Tensor> &tensors() const { return all; }

private:
  void addFile(std::unique_ptr<TensorFile> file);
  void addShards(const std::filesystem::path &folder, const std::string &index);

  std::string named;
  std::vector<std::unique_ptr<TensorFile>> files;
  std::map<std::string, Tensor> all;
};

/// How the names of a checkpoint become those of a model.
struct NamePrefix {
  std::string text;     ///< `transformer.`, or empty
  bool inModel = false; ///< the model's names have it, the checkpoint's not

  /// The model's name of a tensor, where it has one. Old checkpoints call the
  /// weight of a norm `gamma` and its bias `beta`.
  std::string modelName(const std::string &stored,
                        const std::set<std::string> &modelNames) const;
  /// The name that the checkpoint would have for a model's tensor.
  std::string storedName(const std::string &own) const;

private:
  std::string withPrefix(const std::string &stored,
                         const std::set<std::string> &modelNames) const;
};

/// The prefix, of those that a common first part suggests, with which most
/// names agree.
NamePrefix findPrefix(const std::set<std::string> &modelNames,
                      const std::set<std::string> &stored);

/// Whether a tensor is a mask or table that published checkpoints hold beside
/// the weights: GPT-2's `attn.bias` [1, 1, context, context], ...
bool isBuffer(std::string_view name, const std::vector<int64_t> &shape);

/// Whether a tensor's name, with or without a prefix, is that of an output
/// layer, which many models tie to their embedding.
bool isOutputLayer(std::string_view name);

/// The position of the first value that is not finite; the size where there is
/// none.
size_t firstNotFinite(std::span<const float> values);

/// What a checkpoint and a model do not have in common.
struct Unmatched {
  std::vector<std::string> leftOut; ///< of the checkpoint
  std::vector<std::string> fresh;   ///< of the model
};

/// Names of tensors for a message: those that differ in the numbers of layers
/// alone are one, `h.*.attn.bias (12 layers)`.
std::string listed(const std::vector<std::string> &names);

/// Of all values of the parameters, as f32.
Checksum checksumOf(const Model &model);

/// Under which names a checkpoint has each of a model's tensors, in their
/// order; one that it lacks has the name that goes with those of the others.
std::vector<std::vector<std::string>>
storedNames(const std::vector<FloatTensor> &tensors,
            const WeightFiles &weights);

/// The name of a layer's tensor where no `LoRA` corrects it.
std::string uncorrectedName(const std::string &name);

/// A note that integers of the files become others, where they become those of
/// `type` in a build that keeps weights as `build`, as recipes call these;
/// empty where they stay what they are, or become no integers.
std::string requantisedNote(const WeightFiles &weights,
                            const std::string &build, const std::string &type);

/// Loads all parameters; every one must be there (under its name or one of its
/// aliases, with or without a common prefix) with its shape and finite values.
/// Beside them there may be buffers, and an output layer equal to the parameter
/// that the model computes it with. Throws InputError that lists what differs;
/// the parameters are then as they were, or (where the values are at fault) all
/// zero: never half of them. With `unmatched` what only one of them has is put
/// there, as long as they have anything in common; a parameter of the model
/// keeps its value then.
void loadParameters(Model &model, const WeightFiles &weights,
                    Unmatched *unmatched = nullptr);

} // namespace tfm

#endif // TFM_RUNTIME_FILES_WEIGHTS_H
