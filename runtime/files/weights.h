//===- weights.h - parameters from a checkpoint -------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_RUNTIME_FILES_WEIGHTS_H
#define TFM_RUNTIME_FILES_WEIGHTS_H

#include "runtime/formats/safetensors.h"
#include "runtime/support/checksum.h"

#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
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

/// Whether these are the same values, to the bit.
bool sameBits(const std::vector<float> &a, const std::vector<float> &b);

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
/// keeps its value then. Of a `part` (parts.h) its parameters alone are loaded,
/// of files whose names are those within it. Returns whether the files have
/// each of them as it is kept, or it is kept in f32.
bool loadParameters(Model &model, const WeightFiles &weights,
                    Unmatched *unmatched = nullptr,
                    const std::string &part = "");

/// All parameters as tensors to be written, while the model is there.
std::vector<FloatTensor> parameterTensors(const Model &model);

} // namespace tfm

#endif // TFM_RUNTIME_FILES_WEIGHTS_H
