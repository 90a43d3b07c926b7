//===- TensorMap.h - what copies of boxes are told of a tensor --*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_TESTS_EMULATOR_TENSORMAP_H
#define TFM_TESTS_EMULATOR_TENSORMAP_H

#include <array>
#include <cstdint>

namespace tfm::emulator {

/// A CUtensorMap as this machine writes it: of elements of 16 bits, swizzled by
/// 128 bytes, with zeros outside.
struct TensorMap {
  static constexpr uint32_t MaxRank = 5, ElementBytes = 2, RowBytes = 128;
  static constexpr uint32_t Magic = 0x70616d74;

  uint32_t magic = 0, rank = 0;
  uint64_t first = 0;
  std::array<uint32_t, MaxRank> sizes{};
  std::array<uint16_t, MaxRank> box{};
  /// Bytes, from the second axis on.
  std::array<uint64_t, MaxRank - 1> strides{};

  /// False where the driver refuses it, with the rules of
  /// `cuTensorMapEncodeTiled`.
  static bool make(TensorMap &map, const void *first, uint32_t rank,
                   const uint64_t *sizes, const uint64_t *strides,
                   const uint32_t *box) {
    constexpr uint64_t mostBytes = uint64_t{1} << 40;
    constexpr uint32_t mostInBox = 256, alignment = 16;
    map = {};
    map.first = reinterpret_cast<uint64_t>(first);
    map.rank = rank;
    if (rank < 1 || rank > MaxRank || map.first % alignment ||
        box[0] * ElementBytes > RowBytes || box[0] * ElementBytes % alignment)
      return false;
    for (uint32_t axis = 0; axis != rank; ++axis) {
      if (sizes[axis] < 1 || sizes[axis] > UINT32_MAX || box[axis] < 1 ||
          box[axis] > mostInBox)
        return false;
      map.sizes[axis] = static_cast<uint32_t>(sizes[axis]);
      map.box[axis] = static_cast<uint16_t>(box[axis]);
    }
    for (uint32_t axis = 0; axis + 1 != rank; ++axis) {
      if (strides[axis] % alignment || strides[axis] >= mostBytes)
        return false;
      map.strides[axis] = strides[axis];
    }
    map.magic = Magic;
    return true;
  }
};

} // namespace tfm::emulator

#endif // TFM_TESTS_EMULATOR_TENSORMAP_H
