//===- row_arithmetic.cpp - sums over rows ------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/training/row_arithmetic.h"

#include "runtime/tfm_model.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>

namespace tfm {

namespace {

/// Floats that are added up at a time: what stays in the first cache.
constexpr size_t blockFloats = 1024;

/// The sum of a block of `terms`: where it lies, which is `out` or a term.
const float *addBlock(std::span<const float *const> terms, size_t first,
                      size_t count, float *out, std::vector<float> &spare,
                      size_t depth) {
  if (terms.size() == 1)
    return terms.front() + first;
  size_t half = std::bit_ceil(terms.size()) / 2;
  // The left sum waits for the right one.
  auto place = [&](size_t side) {
    return spare.data() + (2 * depth + side) * blockFloats;
  };
  const float *left =
      addBlock(terms.first(half), first, count, place(0), spare, depth + 1);
  const float *right =
      addBlock(terms.subspan(half), first, count, place(1), spare, depth + 1);
  for (size_t i = 0; i < count; ++i)
    out[i] = left[i] + right[i];
  return out;
}

} // namespace

void addAsTree(std::span<const float *const> terms, std::span<float> sum,
               std::vector<float> &spare) {
  size_t depth = static_cast<size_t>(std::bit_width(terms.size()));
  spare.resize(std::max(spare.size(), 2 * (depth + 1) * blockFloats));
  for (size_t first = 0; first < sum.size(); first += blockFloats) {
    size_t count = std::min(blockFloats, sum.size() - first);
    float *out = sum.data() + first;
    const float *found = addBlock(terms, first, count, out, spare, 0);
    if (found != out)
      std::copy_n(found, count, out);
  }
}

void addSquares(std::span<const float> values, double &total) {
  constexpr size_t lanes = 16;
  for (size_t row = 0; row < values.size(); row += TFM_ROW) {
    std::array<float, lanes> sums{};
    for (size_t i = row; i < row + TFM_ROW; i += lanes)
      for (size_t lane = 0; lane < lanes; ++lane)
        sums[lane] += values[i + lane] * values[i + lane];
    for (float sum : sums)
      total += static_cast<double>(sum);
  }
}

} // namespace tfm
