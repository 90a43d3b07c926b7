//===- quantise.h - weights in 8 bits and in 4 ----------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

// In 8 bits symmetric quantisation with a scale for each output of a product
// (Dettmers et al. 2022, "LLM.int8()", section 2.1, of weights alone): the
// largest magnitude among an output's weights becomes 127. In 4 bits the
// weights of an output are in groups, each with a scale and a minimum, bf16: a
// weight is the minimum plus an integer from 0 to 15 times the scale. Either
// way every weight is within half a scale of what it was.
//
//===----------------------------------------------------------------------===//

#ifndef TFM_RUNTIME_MODEL_QUANTISE_H
#define TFM_RUNTIME_MODEL_QUANTISE_H

#include "runtime/tfm_model.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace tfm {

/// In files: the type of a tensor of weights in 8 bits and of one in 4, and
/// what the names of its scales and minima end with.
inline constexpr std::string_view int8Type = "I8", int4Type = "U8";
/// That of the scales and minima of 4 bits.
inline constexpr std::string_view tableType = "BF16";
inline constexpr std::string_view scaleSuffix = ".scale",
                                  minimumSuffix = ".minimum";
/// In the metadata of such a file: the names of tensors that checkpoints have
/// with outputs along their last axis, the terms of a group, and before a name
/// how many terms an output of that tensor has.
inline constexpr const char *transposedKey = "tfm.transposed",
                            *groupKey = "tfm.group", *termsKey = "tfm.terms:";

/// How many groups so many terms are in, of which the last may be shorter.
constexpr size_t groupsOf(size_t terms) {
  return (terms + TFM_GROUP_TERMS - 1) / TFM_GROUP_TERMS;
}
/// Bytes of an output of so many terms in 4 bits.
constexpr size_t groupedBytes(size_t terms) {
  return groupsOf(terms) * TFM_GROUP_BYTES;
}

/// The weight that an integer from 0 to 15 stands for in a group with a scale
/// and a minimum of bf16.
float weightOf(uint16_t scale, uint16_t minimum, int integer);

/// No weight that integers stand for in any of these groups is larger.
double boundOfWeights(std::span<const uint16_t> scales,
                      std::span<const uint16_t> minima);

/// Below it sums of so many weights are numbers that products multiply by
/// integers to 127, whose scale comes behind them.
float largestWithIntegers(size_t terms);

/// A tensor of weights [..., X, Y] as products see it: `outputs` rows of
/// `terms`, wherever they lie. The axes before the last two count as outputs.
class OutputRows {
public:
  /// `axis` is that of the outputs, one of the last two of `shape`.
  OutputRows(std::span<const int64_t> shape, int64_t axis);

  size_t outputs() const { return rows; }
  /// Of each matrix, which the axes before the last two count.
  size_t outputsOfMatrix() const { return inMatrix; }
  size_t terms() const { return columns; }
  /// Whether the outputs are the last axis of the tensor; with one of them its
  /// terms lie beside each other all the same.
  bool areLast() const { return isLast; }
  /// Whether the terms of an output lie beside each other.
  bool areContiguous() const { return step == 1; }
  /// Where in the tensor an output's terms begin, and how far apart they are.
  size_t begin(size_t output) const {
    return output / inMatrix * (inMatrix * columns) +
           output % inMatrix * (step == 1 ? columns : 1);
  }
  size_t stride() const { return step; }

private:
  bool isLast;
  size_t rows, columns, inMatrix, step;
};

/// Integers of 8 bits in panels, as `tfm_place.panel_outputs` describes them.
class Panels {
public:
  Panels(const OutputRows &rows, size_t outputsOfPanel);

  /// What they take.
  size_t bytes() const { return matrices * bytesOfMatrix; }
  /// Stores `count` terms, from `term` on, a multiple of TFM_PANEL_TERMS, of
  /// each of some outputs from `output` on.
  void store(std::span<const int8_t> integers, size_t output, size_t term,
             size_t count, std::span<uint8_t> panels) const;
  /// All of them, as rows.
  void load(std::span<const uint8_t> panels, std::span<int8_t> integers) const;

private:
  /// Where the terms of an output begin; each next group of them lies
  /// `TFM_PANEL_TERMS * width` bytes further.
  size_t begin(size_t output) const;

  size_t width, outputs, terms, matrices, bytesOfMatrix;
};

/// Rounds to bf16.
void round(std::span<const float> values, std::span<uint16_t> rounded);
/// The same of some rows of `width` numbers, which become columns: number i of
/// each comes to row i of `rounded`, whose rows begin `terms` apart.
void roundRowsToColumns(std::span<const float> values, size_t width,
                        size_t terms, std::span<uint16_t> rounded);

/// A tensor of such integers as files have it: in 8 bits [outputs, terms] and a
/// scale for each output, in 4 `groupedBytes` for each output and for each of
/// its groups a scale and a minimum.
struct Int8Rows {
  std::vector<int8_t> integers;
  std::vector<float> scales;
};
struct Int4Groups {
  std::vector<uint8_t> integers;
  std::vector<uint16_t> scales, minima;
};

/// A tensor, to integers [outputs, terms] and scales [outputs]. Values must be
/// finite. An output of zeros has the scale 0, and so has one whose
/// scale would be denormal.
void quantise(std::span<const float> values, const OutputRows &rows,
              std::span<int8_t> quantised, std::span<float> scales);

/// The same in steps, for values that come in parts: the largest magnitude
/// among the terms of each output, if it is above what `magnitudes` has; the
/// scale that becomes of it; and the integers of all outputs.
void raiseToMagnitudes(std::span<const float> values, const OutputRows &rows,
                       std::span<float> magnitudes);
float scaleOf(float magnitude);
void quantiseBy(std::span<const float> magnitudes,
                std::span<const float> values, const OutputRows &rows,
                std::span<int8_t> quantised);

/// What these stand for, as the tensor lies.
void dequantise(std::span<const int8_t> quantised,
                std::span<const float> scales, const OutputRows &rows,
                std::span<float> values);

/// The same in 4 bits, as `tfm_parameter.dtype` describes them: `groupedBytes`
/// for each output, and for each of its groups a scale and a minimum. A scale
/// or minimum that would be denormal is 0.
void quantise(std::span<const float> values, const OutputRows &rows,
              std::span<uint8_t> quantised, std::span<uint16_t> scales,
              std::span<uint16_t> minima);
void dequantise(std::span<const uint8_t> quantised,
                std::span<const uint16_t> scales,
                std::span<const uint16_t> minima, const OutputRows &rows,
                std::span<float> values);

} // namespace tfm

#endif // TFM_RUNTIME_MODEL_QUANTISE_H
