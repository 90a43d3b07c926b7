//===- sources.h - texts for an encoder -----------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_RUNTIME_DATA_SOURCES_H
#define TFM_RUNTIME_DATA_SOURCES_H

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

namespace tfm {

/// Texts for an encoder, [rows, length] one after the other.
struct Sources {
  Sources() = default;
  Sources(int64_t rows, int64_t length)
      : length(length), ids(static_cast<size_t>(rows * length)),
        counts(static_cast<size_t>(rows)) {}

  std::span<int32_t> row(int64_t row) {
    return std::span(ids).subspan(static_cast<size_t>(row * length),
                                  static_cast<size_t>(length));
  }

  /// Fills a row with a text, as far as there is room, and behind it with
  /// `padding`.
  void set(int64_t to, std::span<const int32_t> text, int32_t padding) {
    text = text.first(std::min(text.size(), static_cast<size_t>(length)));
    std::ranges::fill(std::ranges::copy(text, row(to).begin()).out,
                      row(to).end(), padding);
    counts[static_cast<size_t>(to)] = static_cast<int64_t>(text.size());
  }

  int64_t length = 0;
  std::vector<int32_t> ids;
  /// How many of a row's tokens are there; behind them it is padded.
  std::vector<int64_t> counts;
};

} // namespace tfm

#endif // TFM_RUNTIME_DATA_SOURCES_H
