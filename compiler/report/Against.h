//===- Against.h - a model beside a checkpoint ----------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_REPORT_AGAINST_H
#define TFM_REPORT_AGAINST_H

#include "compiler/report/ModelReport.h"
#include "runtime/files/hf_config.h"

#include "llvm/Support/raw_ostream.h"

#include <set>
#include <string>
#include <vector>

namespace tfm {

/// A tensor of a checkpoint, as its header tells.
struct CheckpointTensor {
  std::string name;
  /// As in the file: F32, BF16, ...
  std::string dtype;
  /// Of integers `[outputs, terms]`, whichever way round the model has them.
  std::vector<int64_t> shape;
  /// Whether it is quantised, and what is wrong with its scales and minima
  /// then, in words; empty: nothing.
  bool isQuantised = false;
  std::string problem = {};
  /// Of how many bits its integers are, 0 where it has none.
  int bits = 0;
};

/// What became of one name.
struct TensorComparison {
  enum class State {
    Matches,
    /// Same name, another shape.
    Shape,
    /// Same name and shape, but a type that a model cannot be read from, or
    /// without what its type needs beside it.
    Dtype,
    /// In the model only; in the checkpoint only.
    Missing,
    Unexpected,
    /// In the checkpoint only, and no weight: a causal mask, rotary
    /// frequencies.
    Buffer,
    /// In the checkpoint only: the output layer, as a copy of a tensor that the
    /// model ties it to.
    Tied,
    /// What `compareValues` finds: a copy with other values, and values that
    /// are not finite.
    Copy,
    NotFinite,
  };
  State state;
  /// In the model's words, or where it has none in the checkpoint's.
  std::string name;
  std::vector<int64_t> modelShape, checkpointShape;
  std::string checkpointDtype;
  /// Whether it is a tensor of the model.
  bool inModel = true;
  /// What the checkpoint calls it: several names where it holds copies.
  std::vector<std::string> storedNames = {};
  /// What is wrong with the values, or with what is stored beside them, in
  /// words.
  std::string problem = {};
};

/// A hyperparameter with another value than a checkpoint's shapes, or how many
/// layers it has, say.
struct SizeDifference {
  std::string hyperparameter;
  int64_t own, stored;
};

struct Comparison {
  /// What the checkpoint's names begin with and the model's do not, or (after a
  /// minus) the other way round: `transformer.`
  std::string prefix;
  /// In the model's order, then the checkpoint's own.
  std::vector<TensorComparison> tensors;
  /// Where shapes differ: the sizes that are behind it, as far as they are
  /// hyperparameters of the model.
  std::vector<SizeDifference> sizes = {};
  /// Hyperparameters that the shapes show to be right.
  std::set<std::string> rightSizes = {};
  /// The config.json beside the checkpoint, where there is one.
  std::optional<ConfigComparison> config = {};
  int64_t count(TensorComparison::State state) const;
  /// Whether the checkpoint can be read into the model.
  bool agrees() const;
};

/// The tensors of a `.safetensors` file, or of a folder with
/// `model.safetensors` or shards under `model.safetensors.index.json`, without
/// the scales and minima of those that are quantised.
/// Those of a gguf file by the names that `family` has, as in a recipe.
llvm::Expected<std::vector<CheckpointTensor>>
readCheckpoint(const std::string &path, const std::string &family = "");

/// Which of the report's parameters are in the checkpoint, by name and shape,
/// and what else is; no values are read. What the model's `family` does without
/// may be there.
Comparison compareWithCheckpoint(const ModelReport &report,
                                 llvm::ArrayRef<CheckpointTensor> checkpoint,
                                 const std::string &family = "");

/// Compares the config.json of a folder with the model: what tensors do not
/// show. `description` has what the report does not: facts of the graph
/// (modelFacts), and the family.
llvm::Error compareConfig(const std::string &path, const ModelReport &report,
                          ModelDescription description, Comparison &comparison);

/// Reads the values of what matches, by the rules of loading: copies of one
/// tensor must be equal, and all values finite.
llvm::Error compareValues(const std::string &path, Comparison &comparison,
                          const std::string &family = "");

/// What differs, then one line that sums up; with `all` every tensor.
void writeComparison(const Comparison &comparison, const std::string &path,
                     bool all, llvm::raw_ostream &os);
void writeComparisonJson(const Comparison &comparison, const std::string &path,
                         llvm::raw_ostream &os);

} // namespace tfm

#endif // TFM_REPORT_AGAINST_H
