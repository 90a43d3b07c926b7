//===- Philox.h - what vectors are compared with ----------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_TESTS_UNIT_KERNELS_PHILOX_H
#define TFM_TESTS_UNIT_KERNELS_PHILOX_H

#include <array>
#include <cmath>
#include <cstdint>

namespace tfm::test {

/// Philox 4x32-10, written from Salmon et al. 2011, section 3.3.
inline std::array<uint32_t, 4> philox(std::array<uint32_t, 4> c, uint32_t k0,
                                      uint32_t k1) {
  for (int round = 0; round < 10; ++round) {
    uint64_t p0 = uint64_t(0xD2511F53) * c[0], p1 = uint64_t(0xCD9E8D57) * c[2];
    c = {uint32_t(p1 >> 32) ^ c[1] ^ k0, uint32_t(p1),
         uint32_t(p0 >> 32) ^ c[3] ^ k1, uint32_t(p0)};
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  return c;
}

/// The rule of docs/design.md, "Random numbers"; `rng` is seed low, seed high,
/// update index, micro-step.
inline bool dropoutKeeps(std::array<int32_t, 4> rng, int64_t accumulate,
                         int64_t site, int64_t layer, int64_t row,
                         int64_t column, double rate) {
  auto words = philox({uint32_t(column / 64 * 16 + column % 16), uint32_t(row),
                       uint32_t(site * 65536 + layer),
                       uint32_t(rng[2] * accumulate + rng[3])},
                      rng[0], rng[1]);
  return words[column % 64 / 16] >= std::floor(rate * 4294967296.0);
}

} // namespace tfm::test

#endif // TFM_TESTS_UNIT_KERNELS_PHILOX_H
