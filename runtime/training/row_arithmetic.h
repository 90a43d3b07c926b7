//===- row_arithmetic.h - sums over rows --------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_RUNTIME_COMM_ROWARITHMETIC_H
#define TFM_RUNTIME_COMM_ROWARITHMETIC_H

#include <span>
#include <vector>

namespace tfm {

/// Adds up `terms`, each of `sum.size()` floats, as a balanced binary tree:
/// neighbours first, then their sums. `sum` may be one of the terms; `spare`
/// grows to what there is to be had.
void addAsTree(std::span<const float *const> terms, std::span<float> sum,
               std::vector<float> &spare);

/// Adds to the sum of squares of whole rows before these: in f32 within a row,
/// in 16 sums as vectors have them, and in f64 beyond.
void addSquares(std::span<const float> values, double &total);

} // namespace tfm

#endif // TFM_RUNTIME_COMM_ROWARITHMETIC_H
