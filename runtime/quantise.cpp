//===- quantise.cpp - weights in 8 bits and in 4 --------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/quantise.h"

#include "runtime/float16.h"

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

/// The terms of one output, to `groupedBytes`, and scales and minima.
void quantiseGroups(std::span<const float> terms, uint8_t *quantised,
                    uint16_t *scales, uint16_t *minima) {
  constexpr float most = 15;
  constexpr float smallest = std::numeric_limits<float>::min();
  for (size_t at = 0; at < terms.size(); at += TFM_GROUP_TERMS) {
    std::span<const float> group =
        terms.subspan(at, std::min<size_t>(TFM_GROUP_TERMS, terms.size() - at));
    float low = group[0], high = group[0];
    for (float term : group) {
      low = std::min(low, term);
      high = std::max(high, term);
    }
    *minima = std::abs(low) < smallest ? uint16_t{0} : bf16Below(low);
    float minimum = fromBFloat16(*minima++);
    // The difference itself may be beyond the largest number.
    float scale = high / most - minimum / most;
    uint16_t stored = scale < smallest ? uint16_t{0} : bf16Above(scale);
    // Rounded up, that of the largest numbers gives infinity.
    if (!std::isfinite(weightOf(stored, minima[-1], 15)))
      --stored;
    *scales++ = stored;
    scale = fromBFloat16(stored);
    float inverse = scale == 0 ? 0 : 2 / scale;
    std::array<uint8_t, TFM_GROUP_TERMS> integers{};
    for (size_t i = 0; i < group.size(); ++i) {
      float steps = (0.5f * group[i] - 0.5f * minimum) * inverse;
      integers[i] =
          static_cast<uint8_t>(nearest(std::clamp(steps, 0.0f, most)));
    }
    for (size_t i = 0; i < TFM_GROUP_BYTES; ++i)
      *quantised++ = static_cast<uint8_t>(integers[i] |
                                          integers[i + TFM_GROUP_BYTES] << 4);
  }
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

void quantiseRow(std::span<const float> terms, int8_t *quantised,
                 float &scale) {
  float magnitude = 0;
  for (float term : terms)
    magnitude = std::max(magnitude, std::abs(term));
  scale = scaleOf(magnitude);
  float inverse = inverseOf(magnitude);
  for (size_t i = 0; i < terms.size(); ++i)
    quantised[i] = nearest(terms[i] * inverse);
}

} // namespace

float weightOf(uint16_t scale, uint16_t minimum, int integer) {
  return static_cast<float>(double{fromBFloat16(minimum)} +
                            double{fromBFloat16(scale)} * integer);
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

void quantise(std::span<const float> values, const OutputRows &rows,
              size_t first, size_t last, std::span<int8_t> quantised,
              std::span<float> scales) {
  size_t terms = rows.terms();
  for (size_t output = first; output < last;) {
    const float *from = values.data() + rows.begin(output);
    int8_t *to = quantised.data() + (output - first) * terms;
    if (rows.areContiguous()) {
      quantiseRow({from, terms}, to, scales[output - first]);
      ++output;
      continue;
    }
    // Those of the next matrix lie elsewhere.
    size_t inMatrix = rows.stride();
    size_t count =
        std::min({block, last - output, inMatrix - output % inMatrix});
    quantiseColumns(from, rows.stride(), terms, count, to,
                    &scales[output - first]);
    output += count;
  }
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

void Panels::store(std::span<const int8_t> integers, size_t first,
                   std::span<uint8_t> panels) const {
  constexpr size_t together = TFM_PANEL_TERMS;
  constexpr uint32_t signs = 0x80808080;
  size_t count = integers.size() / terms, whole = terms / together * together;
  for (size_t at = 0; at < count;) {
    // Those of one panel side by side, so that it is written from end to end.
    size_t inMatrix = (first + at) % outputs;
    size_t some =
        std::min({count - at, width - inMatrix % width, outputs - inMatrix});
    const int8_t *from = &integers[at * terms];
    uint8_t *to = &panels[begin(first + at)];
    for (size_t term = 0; term < whole; term += together)
      for (size_t i = 0; i < some; ++i) {
        uint32_t four = 0;
        std::memcpy(&four, from + i * terms + term, together);
        four ^= signs;
        std::memcpy(to + term * width + i * together, &four, together);
      }
    for (size_t term = whole; term < terms; ++term)
      for (size_t i = 0; i < some; ++i)
        to[whole * width + i * together + term % together] =
            static_cast<uint8_t>(from[i * terms + term] ^ 0x80);
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
              size_t first, size_t last, std::span<uint8_t> quantised,
              std::span<uint16_t> scales, std::span<uint16_t> minima) {
  size_t terms = rows.terms(), groups = groupsOf(terms);
  auto store = [&](std::span<const float> of, size_t output) {
    size_t place = output - first;
    quantiseGroups(of, quantised.data() + place * groupedBytes(terms),
                   scales.data() + place * groups,
                   minima.data() + place * groups);
  };
  std::vector<float> together(rows.areContiguous() ? 0 : block * terms);
  for (size_t output = first; output < last;) {
    const float *from = values.data() + rows.begin(output);
    if (rows.areContiguous()) {
      store({from, terms}, output++);
      continue;
    }
    // Those of the next matrix lie elsewhere.
    size_t inMatrix = rows.stride();
    size_t count =
        std::min({block, last - output, inMatrix - output % inMatrix});
    for (size_t k = 0; k < terms; ++k)
      for (size_t i = 0; i < count; ++i)
        together[i * terms + k] = from[k * inMatrix + i];
    for (size_t i = 0; i < count; ++i)
      store({&together[i * terms], terms}, output++);
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
