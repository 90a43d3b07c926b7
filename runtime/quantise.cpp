//===- quantise.cpp - weights in 8 bits -----------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/quantise.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace tfm {

namespace {

constexpr float largest = 127;

/// To the nearest integer, of two the even one, for magnitudes below 2^22: the
/// compiler makes vectors of it.
int8_t nearest(float value) {
  constexpr float magic = 0x1.8p23f;
  return static_cast<int8_t>((value + magic) - magic);
}

/// Below it a scale would be denormal, which kernels take for 0.
constexpr float smallest = largest * std::numeric_limits<float>::min();

float scaleOf(float magnitude) {
  if (magnitude < smallest)
    return 0;
  float scale = magnitude / largest;
  // Rounded up, that of the largest numbers gives infinity.
  return std::isfinite(scale * largest) ? scale : std::nextafter(scale, 0.0f);
}
/// What weights are multiplied by, so that none exceeds 127 by rounding.
float inverseOf(float magnitude) {
  return magnitude < smallest ? 0 : largest / magnitude;
}

/// A few outputs that lie beside each other, term by term: cache lines of both
/// sides are used whole.
constexpr size_t block = 64;

void quantiseColumns(const float *values, size_t stride, size_t terms,
                     size_t outputs, int8_t *quantised, float *scales) {
  std::array<float, block> magnitudes{}, inverses{};
  for (size_t k = 0; k < terms; ++k)
    for (size_t i = 0; i < outputs; ++i)
      magnitudes[i] = std::max(magnitudes[i], std::abs(values[k * stride + i]));
  for (size_t i = 0; i < outputs; ++i) {
    scales[i] = scaleOf(magnitudes[i]);
    inverses[i] = inverseOf(magnitudes[i]);
  }
  for (size_t k = 0; k < terms; ++k)
    for (size_t i = 0; i < outputs; ++i)
      quantised[i * terms + k] = nearest(values[k * stride + i] * inverses[i]);
}

} // namespace

void quantise(std::span<const float> terms, int8_t *quantised, float &scale) {
  float magnitude = 0;
  for (float term : terms)
    magnitude = std::max(magnitude, std::abs(term));
  scale = scaleOf(magnitude);
  float inverse = inverseOf(magnitude);
  for (size_t i = 0; i < terms.size(); ++i)
    quantised[i] = nearest(terms[i] * inverse);
}

OutputRows::OutputRows(std::span<const int64_t> shape, int64_t axis) {
  size_t rank = shape.size();
  auto inner = static_cast<size_t>(shape[rank - 1]);
  auto outer = static_cast<size_t>(shape[rank - 2]);
  bool isLast = axis == static_cast<int64_t>(rank) - 1;
  inMatrix = isLast ? inner : outer;
  columns = isLast ? outer : inner;
  step = isLast ? inner : 1;
  rows = inMatrix;
  for (int64_t extent : shape.first(rank - 2))
    rows *= static_cast<size_t>(extent);
}

void quantise(std::span<const float> values, const OutputRows &rows,
              size_t first, size_t last, std::span<int8_t> quantised,
              std::span<float> scales) {
  size_t terms = rows.terms();
  for (size_t output = first; output < last;) {
    const float *from = values.data() + rows.begin(output);
    int8_t *to = quantised.data() + output * terms;
    if (rows.areContiguous()) {
      quantise({from, terms}, to, scales[output]);
      ++output;
      continue;
    }
    // Those of the next matrix lie elsewhere.
    size_t inMatrix = rows.stride();
    size_t count =
        std::min({block, last - output, inMatrix - output % inMatrix});
    quantiseColumns(from, rows.stride(), terms, count, to, &scales[output]);
    output += count;
  }
}

void dequantise(std::span<const int8_t> quantised,
                std::span<const float> scales, const OutputRows &rows,
                std::span<float> values) {
  size_t terms = rows.terms();
  for (size_t output = 0; output < rows.outputs(); ++output) {
    float *to = values.data() + rows.begin(output);
    const int8_t *from = quantised.data() + output * terms;
    for (size_t k = 0; k < terms; ++k)
      to[k * rows.stride()] = static_cast<float>(from[k]) * scales[output];
  }
}

} // namespace tfm
