//===- checked_ranges.h - what of a file is looked at first -----*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_RUNTIME_DATA_CHECKED_RANGES_H
#define TFM_RUNTIME_DATA_CHECKED_RANGES_H

#include <cstdint>

namespace tfm {

/// Calls `check(from, to)` for the elements that are checked when a file of
/// `count` of them, of `bytes` bytes each, is opened: all, or of a very large
/// one both ends, which takes a tenth of a second. Others are looked at when
/// they are wanted.
template <typename Check>
void forCheckedRanges(uint64_t count, uint64_t bytes, Check check) {
  constexpr uint64_t most = uint64_t{1} << 28;
  const uint64_t half = most / 2 / bytes;
  if (count <= 2 * half)
    return check(0, count);
  check(0, half);
  check(count - half, count);
}

} // namespace tfm

#endif // TFM_RUNTIME_DATA_CHECKED_RANGES_H
