//===- quantise.cpp - weights in 8 bits and in 4 --------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/model/quantise.h"

#include "runtime/support/float16.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

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

/// What weights are multiplied by, so that none exceeds 127 by rounding.
float inverseOf(float magnitude) {
  return magnitude < smallest ? 0 : largest / magnitude;
}

/// The nearest bf16 that is not above a number, or not below it: what is
/// between two of them cannot be rounded out of a group's range.
uint16_t bf16Below(float value) {
  auto bits = std::bit_cast<uint32_t>(value);
  auto half = static_cast<uint16_t>(bits >> 16);
  constexpr uint16_t lowest = 0xff7f;
  return value < 0 && (bits & 0xffff) && half != lowest ? half + 1 : half;
}
uint16_t bf16Above(float value) {
  auto bits = std::bit_cast<uint32_t>(value);
  return static_cast<uint16_t>((bits >> 16) + ((bits & 0xffff) ? 1 : 0));
}

/// Outputs of which one group each is quantised side by side.
constexpr size_t lanes = 16;
using Group = std::array<std::array<float, lanes>, TFM_GROUP_TERMS>;

/// The first `terms` terms of each output of a group: TFM_GROUP_BYTES at places
/// that are `groups` groups apart, and its scale and minimum.
void quantiseGroup(Group &group, size_t terms, size_t outputs, size_t groups,
                   uint8_t *quantised, uint16_t *scales, uint16_t *minima) {
  constexpr float most = 15;
  constexpr float smallest = std::numeric_limits<float>::min();
  std::array<float, lanes> low = group[0], high = group[0];
  for (size_t k = 1; k < terms; ++k)
    for (size_t i = 0; i < lanes; ++i) {
      low[i] = std::min(low[i], group[k][i]);
      high[i] = std::max(high[i], group[k][i]);
    }
  std::array<float, lanes> halves = {}, inverses = {};
  for (size_t i = 0; i < outputs; ++i) {
    uint16_t minimum =
        std::abs(low[i]) < smallest ? uint16_t{0} : bf16Below(low[i]);
    halves[i] = 0.5f * fromBFloat16(minimum);
    // The difference itself may be beyond the largest number.
    float wanted = high[i] / most - fromBFloat16(minimum) / most;
    uint16_t scale = wanted < smallest ? uint16_t{0} : bf16Above(wanted);
    // Rounded up, that of the largest numbers gives infinity.
    if (!std::isfinite(weightOf(scale, minimum, 15)))
      --scale;
    inverses[i] = scale == 0 ? 0 : 2 / fromBFloat16(scale);
    scales[i * groups] = scale;
    minima[i * groups] = minimum;
  }
  // What a last group lacks becomes 0.
  for (size_t k = terms; k < TFM_GROUP_TERMS; ++k)
    for (size_t i = 0; i < lanes; ++i)
      group[k][i] = 2 * halves[i];
  auto integer = [&](size_t k, size_t i) {
    float steps = (0.5f * group[k][i] - halves[i]) * inverses[i];
    return static_cast<uint8_t>(nearest(std::min(std::max(steps, 0.0f), most)));
  };
  std::array<std::array<uint8_t, lanes>, TFM_GROUP_BYTES> bytes;
  for (size_t k = 0; k < TFM_GROUP_BYTES; ++k)
    for (size_t i = 0; i < lanes; ++i)
      bytes[k][i] = static_cast<uint8_t>(integer(k, i) |
                                         integer(k + TFM_GROUP_BYTES, i) << 4);
  for (size_t i = 0; i < outputs; ++i)
    for (size_t k = 0; k < TFM_GROUP_BYTES; ++k)
      quantised[i * groups * TFM_GROUP_BYTES + k] = bytes[k][i];
}

/// Outputs that are converted together where they lie beside each other, term
/// by term: cache lines of both sides are used whole.
constexpr size_t block = 64;

/// How many outputs from one on are in the same matrix, at most `block`.
size_t together(const OutputRows &rows, size_t output, size_t last) {
  size_t inMatrix = rows.outputsOfMatrix();
  return std::min({block, last - output, inMatrix - output % inMatrix});
}

} // namespace

float scaleOf(float magnitude) {
  if (magnitude < smallest)
    return 0;
  float scale = magnitude / largest;
  // Rounded up, that of the largest numbers gives infinity.
  return std::isfinite(scale * largest) ? scale : std::nextafter(scale, 0.0f);
}

float weightOf(uint16_t scale, uint16_t minimum, int integer) {
  return static_cast<float>(double{fromBFloat16(minimum)} +
                            double{fromBFloat16(scale)} * integer);
}

/// Of numbers of bf16, whose magnitudes are in the order of their bits.
static float largestMagnitude(std::span<const uint16_t> numbers) {
  uint16_t largest = 0;
  for (uint16_t number : numbers)
    largest = std::max<uint16_t>(largest, number & 0x7fff);
  return fromBFloat16(largest);
}

double boundOfWeights(std::span<const uint16_t> scales,
                      std::span<const uint16_t> minima) {
  return largestMagnitude(minima) + 15.0 * largestMagnitude(scales);
}

float largestWithIntegers(size_t terms) {
  return std::numeric_limits<float>::max() /
         (largest * static_cast<float>(terms));
}

OutputRows::OutputRows(std::span<const int64_t> shape, int64_t axis) {
  size_t rank = shape.size();
  auto inner = static_cast<size_t>(shape[rank - 1]);
  auto outer = static_cast<size_t>(shape[rank - 2]);
  isLast = axis == static_cast<int64_t>(rank) - 1;
  inMatrix = isLast ? inner : outer;
  columns = isLast ? outer : inner;
  step = isLast ? inner : 1;
  rows = inMatrix;
  for (int64_t extent : shape.first(rank - 2))
    rows *= static_cast<size_t>(extent);
}

void round(std::span<const float> values, std::span<uint16_t> rounded) {
  for (size_t i = 0; i < values.size(); ++i)
    rounded[i] = toBFloat16(values[i]);
}

void roundRowsToColumns(std::span<const float> values, size_t width,
                        size_t terms, std::span<uint16_t> rounded) {
  size_t rows = values.size() / width;
  for (size_t column = 0; column < width; ++column)
    for (size_t row = 0; row < rows; ++row)
      rounded[column * terms + row] = toBFloat16(values[row * width + column]);
}

void raiseToMagnitudes(std::span<const float> values, const OutputRows &rows,
                       std::span<float> magnitudes) {
  size_t outputs = rows.outputs(), terms = rows.terms();
  for (size_t output = 0; output < outputs;) {
    const float *from = values.data() + rows.begin(output);
    float *to = &magnitudes[output];
    if (rows.areContiguous()) {
      float magnitude = *to;
      for (size_t k = 0; k < terms; ++k)
        magnitude = std::max(magnitude, std::abs(from[k]));
      *to = magnitude;
      ++output;
      continue;
    }
    size_t count = together(rows, output, outputs);
    for (size_t k = 0; k < terms; ++k, from += rows.stride())
      for (size_t i = 0; i < count; ++i)
        to[i] = std::max(to[i], std::abs(from[i]));
    output += count;
  }
}

void quantiseBy(std::span<const float> magnitudes,
                std::span<const float> values, const OutputRows &rows,
                std::span<int8_t> quantised) {
  size_t outputs = rows.outputs(), terms = rows.terms();
  std::array<float, block> inverses{};
  for (size_t output = 0; output < outputs;) {
    const float *from = values.data() + rows.begin(output);
    int8_t *to = &quantised[output * terms];
    if (rows.areContiguous()) {
      float inverse = inverseOf(magnitudes[output++]);
      for (size_t k = 0; k < terms; ++k)
        to[k] = nearest(from[k] * inverse);
      continue;
    }
    size_t count = together(rows, output, outputs);
    std::ranges::transform(magnitudes.subspan(output, count), inverses.begin(),
                           inverseOf);
    for (size_t k = 0; k < terms; ++k, from += rows.stride())
      for (size_t i = 0; i < count; ++i)
        to[i * terms + k] = nearest(from[i] * inverses[i]);
    output += count;
  }
}

void quantise(std::span<const float> values, const OutputRows &rows,
              std::span<int8_t> quantised, std::span<float> scales) {
  std::vector<float> magnitudes(rows.outputs());
  raiseToMagnitudes(values, rows, magnitudes);
  quantiseBy(magnitudes, values, rows, quantised);
  std::ranges::transform(magnitudes, scales.begin(), scaleOf);
}

Panels::Panels(const OutputRows &rows, size_t outputsOfPanel)
    : width(outputsOfPanel), outputs(rows.outputsOfMatrix()),
      terms(rows.terms()), matrices(rows.outputs() / outputs) {
  size_t groups = (terms + TFM_PANEL_TERMS - 1) / TFM_PANEL_TERMS;
  size_t panels = (outputs + width - 1) / width;
  bytesOfMatrix = panels * groups * width * TFM_PANEL_TERMS;
}

size_t Panels::begin(size_t output) const {
  size_t groups = (terms + TFM_PANEL_TERMS - 1) / TFM_PANEL_TERMS;
  size_t inMatrix = output % outputs;
  return output / outputs * bytesOfMatrix +
         (inMatrix / width * groups * width + inMatrix % width) *
             TFM_PANEL_TERMS;
}

void Panels::store(std::span<const int8_t> integers, size_t output, size_t term,
                   size_t count, std::span<uint8_t> panels) const {
  constexpr size_t group = TFM_PANEL_TERMS;
  constexpr uint32_t signs = 0x80808080;
  size_t all = integers.size() / count, whole = count / group * group;
  for (size_t at = 0; at < all;) {
    // Those of one panel side by side, so that it is written from end to end.
    size_t inMatrix = (output + at) % outputs;
    size_t some =
        std::min({all - at, width - inMatrix % width, outputs - inMatrix});
    const int8_t *from = &integers[at * count];
    uint8_t *to = &panels[begin(output + at) + term * width];
    for (size_t k = 0; k < whole; k += group)
      for (size_t i = 0; i < some; ++i) {
        uint32_t four = 0;
        std::memcpy(&four, from + i * count + k, group);
        four ^= signs;
        std::memcpy(to + k * width + i * group, &four, group);
      }
    for (size_t k = whole; k < count; ++k)
      for (size_t i = 0; i < some; ++i)
        to[whole * width + i * group + k % group] =
            static_cast<uint8_t>(from[i * count + k] ^ 0x80);
    at += some;
  }
}

void Panels::load(std::span<const uint8_t> panels,
                  std::span<int8_t> integers) const {
  for (size_t output = 0; output < matrices * outputs; ++output)
    for (size_t term = 0, base = begin(output); term < terms; ++term)
      integers[output * terms + term] = static_cast<int8_t>(
          panels[base + term / TFM_PANEL_TERMS * TFM_PANEL_TERMS * width +
                 term % TFM_PANEL_TERMS] ^
          0x80);
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

void quantise(std::span<const float> values, const OutputRows &rows,
              std::span<uint8_t> quantised, std::span<uint16_t> scales,
              std::span<uint16_t> minima) {
  size_t outputs = rows.outputs(), terms = rows.terms();
  size_t groups = groupsOf(terms), inMatrix = rows.outputsOfMatrix();
  for (size_t output = 0; output < outputs;) {
    size_t count =
        std::min({lanes, outputs - output, inMatrix - output % inMatrix});
    const float *from = values.data() + rows.begin(output);
    for (size_t group = 0; group < groups; ++group) {
      size_t first = group * TFM_GROUP_TERMS;
      size_t some = std::min<size_t>(TFM_GROUP_TERMS, terms - first);
      Group beside = {};
      if (rows.areContiguous())
        for (size_t i = 0; i < count; ++i)
          for (size_t k = 0; k < some; ++k)
            beside[k][i] = from[i * terms + first + k];
      else
        for (size_t k = 0; k < some; ++k)
          std::copy_n(from + (first + k) * rows.stride(), count,
                      beside[k].begin());
      size_t at = output * groups + group;
      quantiseGroup(beside, some, count, groups,
                    &quantised[at * TFM_GROUP_BYTES], &scales[at], &minima[at]);
    }
    output += count;
  }
}

void dequantise(std::span<const uint8_t> quantised,
                std::span<const uint16_t> scales,
                std::span<const uint16_t> minima, const OutputRows &rows,
                std::span<float> values) {
  size_t terms = rows.terms(), groups = groupsOf(terms);
  for (size_t output = 0; output < rows.outputs(); ++output) {
    float *to = values.data() + rows.begin(output);
    const uint8_t *from = quantised.data() + output * groupedBytes(terms);
    for (size_t k = 0; k < terms; ++k) {
      size_t group = k / TFM_GROUP_TERMS, i = k % TFM_GROUP_TERMS;
      uint8_t both = from[group * TFM_GROUP_BYTES + i % TFM_GROUP_BYTES];
      int integer = i < TFM_GROUP_BYTES ? both & 15 : both >> 4;
      to[k * rows.stride()] =
          weightOf(scales[output * groups + group],
                   minima[output * groups + group], integer);
    }
  }
}

} // namespace tfm
