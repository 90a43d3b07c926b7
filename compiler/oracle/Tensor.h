//===- Tensor.h - a dense array of doubles ----------------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_ORACLE_TENSOR_H
#define TFM_ORACLE_TENSOR_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLFunctionalExtras.h"

#include <cstdint>
#include <vector>

namespace tfm::oracle {

/// Row-major doubles under a shape; no dimension means one element. Integers
/// and booleans (0 or 1) are held as doubles too.
struct Tensor {
  std::vector<int64_t> shape;
  std::vector<double> data = {0.0};

  Tensor() = default;
  /// Every element is `value`.
  explicit Tensor(llvm::ArrayRef<int64_t> shape, double value = 0.0);
  Tensor(llvm::ArrayRef<int64_t> shape, std::vector<double> data);

  int64_t rank() const { return static_cast<int64_t>(shape.size()); }
  int64_t size() const { return static_cast<int64_t>(data.size()); }
  double &at(llvm::ArrayRef<int64_t> index) { return data[offset(index)]; }
  double at(llvm::ArrayRef<int64_t> index) const { return data[offset(index)]; }
  int64_t offset(llvm::ArrayRef<int64_t> index) const;

  /// The size of the last axis, 1 for a scalar.
  int64_t rowSize() const { return shape.empty() ? 1 : shape.back(); }
  llvm::ArrayRef<double> row(int64_t number) const {
    return llvm::ArrayRef(data).slice(number * rowSize(), rowSize());
  }
  llvm::MutableArrayRef<double> row(int64_t number) {
    return llvm::MutableArrayRef(data).slice(number * rowSize(), rowSize());
  }
  int64_t rows() const { return size() / rowSize(); }
};

/// The product of `shape`.
int64_t numElements(llvm::ArrayRef<int64_t> shape);

/// Calls `visit` for every index of `shape` in row-major order.
void forEachIndex(llvm::ArrayRef<int64_t> shape,
                  llvm::function_ref<void(llvm::ArrayRef<int64_t>)> visit);

} // namespace tfm::oracle

#endif // TFM_ORACLE_TENSOR_H
