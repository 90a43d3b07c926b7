//===- matching.h - which tensor of a checkpoint is which of a model's --===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What is published as a model's weights is rarely exactly its parameters: its
// names may begin with the name of a class around the model (`transformer.`),
// and it may hold masks beside the weights or the tied output layer a second
// time. These rules are the same for loading, for exports under the names of a
// checkpoint, and for `tfmc report --against`.
//
//===----------------------------------------------------------------------===//

#ifndef TFM_RUNTIME_FILES_MATCHING_H
#define TFM_RUNTIME_FILES_MATCHING_H

#include <cstddef>
#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <vector>

namespace tfm {

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

/// The name of a layer's tensor where no `LoRA` corrects it.
std::string uncorrectedName(const std::string &name);

struct ModelTensor {
  std::vector<std::string> names; ///< its own, then its aliases
  std::vector<int64_t> shape;
};

struct StoredShape {
  std::string name;
  std::vector<int64_t> shape;
};

/// What a model and a checkpoint have in common. Tensors are numbers, in the
/// order in which they were given.
struct TensorMatching {
  enum class Kind {
    /// No weight: GPT-2's `attn.bias` [1, 1, context, context], rotary
    /// frequencies, or what the model's family says it does without.
    Buffer,
    /// Named as an output layer, of the shape of tensors of the model, one of
    /// which it must be equal to.
    OutputLayer,
    /// Of a name that stands for the same as that of a tensor before it.
    Repeated,
    Unexpected,
  };
  /// One of the checkpoint that is none of the model's.
  struct Other {
    size_t stored;
    Kind kind;
    /// Of the model, which an OutputLayer may be, or a Repeated one is.
    std::vector<size_t> own = {};
    /// Which tensor a Repeated one repeats.
    size_t first = 0;
  };

  NamePrefix prefix;
  /// Another one that as many names agree with, or empty.
  std::string otherPrefix;
  /// Of each of the model's tensors those of the checkpoint, in the order of
  /// the model's names.
  std::vector<std::vector<size_t>> sources;
  std::vector<Other> others;
};

/// Matches by name. The prefix is the one, of those that a common first part,
/// or the first two of the files, suggest, with which most names agree;
/// `family` is that of the model's description, or empty.
TensorMatching matchTensors(std::span<const ModelTensor> own,
                            std::span<const StoredShape> stored,
                            const std::string &family);

} // namespace tfm

#endif // TFM_RUNTIME_FILES_MATCHING_H
