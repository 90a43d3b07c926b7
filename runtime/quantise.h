//===- quantise.h - weights in 8 bits -------------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

// Symmetric quantisation with a scale for each output of a product (Dettmers et
// al. 2022, "LLM.int8()", section 2.1, of weights alone): the largest magnitude
// among an output's weights becomes 127. Every weight is within half a scale of
// what it was.
//
//===----------------------------------------------------------------------===//

#ifndef TFM_RUNTIME_QUANTISE_H
#define TFM_RUNTIME_QUANTISE_H

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace tfm {

/// In files: the type of a tensor of weights in 8 bits, and what the name of
/// its scales ends with.
inline constexpr std::string_view quantisedType = "I8";
inline constexpr std::string_view scaleSuffix = ".scale";

/// A tensor of weights [..., X, Y] as products see it: `outputs` rows of
/// `terms`, wherever they lie. The axes before the last two count as outputs.
class OutputRows {
public:
  /// `axis` is that of the outputs, one of the last two of `shape`.
  OutputRows(std::span<const int64_t> shape, int64_t axis);

  size_t outputs() const { return rows; }
  size_t terms() const { return columns; }
  /// Whether the terms of an output lie beside each other.
  bool areContiguous() const { return step == 1; }
  /// Where in the tensor an output's terms begin, and how far apart they are.
  size_t begin(size_t output) const {
    return output / inMatrix * (inMatrix * columns) +
           output % inMatrix * (step == 1 ? columns : 1);
  }
  size_t stride() const { return step; }

private:
  size_t rows, columns, inMatrix, step;
};

/// The terms of one output to as many integers and its scale.
void quantise(std::span<const float> terms, int8_t *quantised, float &scale);

/// The outputs from `first` to `last` of a tensor: `terms` integers each to
/// `quantised`, [outputs, terms], and `scales`, [outputs]. Values must be
/// finite. An output of zeros has the scale 0, and so has one whose scale would
/// be denormal.
void quantise(std::span<const float> values, const OutputRows &rows,
              size_t first, size_t last, std::span<int8_t> quantised,
              std::span<float> scales);

/// What these stand for, as the tensor lies.
void dequantise(std::span<const int8_t> quantised,
                std::span<const float> scales, const OutputRows &rows,
                std::span<float> values);

} // namespace tfm

#endif // TFM_RUNTIME_QUANTISE_H
