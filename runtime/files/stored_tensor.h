//===- stored_tensor.h - a tensor as weight files have it -------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_RUNTIME_FILES_STORED_TENSOR_H
#define TFM_RUNTIME_FILES_STORED_TENSOR_H

#include "runtime/files/weights.h"

#include <optional>

namespace tfm {

/// A tensor under the name that the files have, together with the tables of its
/// scales and minima where it is quantised (quantise.h).
struct StoredTensor {
  StoredTensor(const WeightFiles &weights, const std::string &name);
  /// Whether a tensor of the files is such a table of another one.
  static bool isTable(const WeightFiles &weights, const std::string &name);

  std::string name;
  WeightFiles::Tensor tensor;
  /// Of one of 8 bits or 4, and of one of 4.
  std::optional<WeightFiles::Tensor> scale = {}, minimum = {};

  bool isInt8() const;
  bool isInt4() const;
  /// One of 8 bits with an exponent, which have a scale for all of it, for each
  /// output, or for each block of 128 x 128, or none.
  bool isFloat8() const;
  bool isQuantised() const { return isInt8() || isInt4() || isFloat8(); }
  /// What is wrong with the tables of one that is quantised.
  std::vector<std::string> tableProblems() const;

  /// The axis of its outputs where it is quantised, as its file says.
  int64_t outputAxis() const;
  /// Whether the file says of how many terms an output of one of 4 bits is.
  bool saysTerms() const;
  /// As other types have it: of 8 bits and of 4 the terms of an output are
  /// together.
  std::vector<int64_t> shapeFor(int64_t axis) const;
  /// In the order in which a parameter with its outputs along `axis` has them.
  /// Throws InputError where a scale or minimum is none.
  std::vector<float> values(int64_t axis) const;

  /// Of one of 8 bits; throws InputError where one is no scale.
  std::vector<float> scales() const;
  /// Of one of 4 bits, as they are stored.
  struct Groups {
    std::vector<uint16_t> scales, minima;
    bool operator==(const Groups &) const = default;
  };
  /// Throws InputError where one is no scale or no minimum, or stands for a
  /// weight that is not finite.
  Groups groups() const;
  /// Whether what its integers, of 8 bits or of 4, stand for becomes the same
  /// ones again.
  bool staysQuantised() const;

private:
  std::string scaleName() const;
  /// Where the scales of one of F8 are, along outputs and along terms.
  struct Blocks {
    int64_t outputs, terms;
  };
  /// Nothing where its scales have no such shape.
  std::optional<Blocks> blocks() const;
  std::vector<float> float8() const;
  std::string minimumName() const;
  /// What the file says of it under `key`; nothing where that is no number.
  std::optional<int64_t> said(const std::string &key) const;
  /// Of an output of one of 4 bits.
  int64_t terms() const;
  template <typename T> std::vector<T> bytes() const;
};

} // namespace tfm

#endif // TFM_RUNTIME_FILES_STORED_TENSOR_H
