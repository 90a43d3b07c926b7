//===- philox.h - counter-based random numbers --------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

// Philox 4x32-10 (Salmon, Moraes, Dror, Shaw: Parallel Random Numbers: As Easy
// as 1, 2, 3; SC 2011). A random number is a pure function of a key and a
// counter, so there is no state to keep: results depend neither on the number
// of threads nor on the order of work, and a run can be resumed anywhere.
//
// The key is the seed: key[0] its low 32 bits, key[1] its high 32 bits.
// A block yields four numbers. Who uses which counters:
//
//   what models draw (compiled kernels), for the element at row r (the
//   row-major index over all axes but the last) and column c of site s in layer
//   l:
//     counter = {(c / 64) * 16 + c % 16, r, s * 65536 + l,
//                update * accumulate + micro_step}           (modulo 2^32)
//     number  = word (c % 64) / 16 of the block
//     Dropout keeps the element when number >= floor(rate * 2^32), and
//     `random_uniform` is floor(number / 2^8) * 2^-24.
//   `update` and `micro_step` count from 0: they are `rng[2]` and `rng[3]` of
//   the `train` function; of `evaluate` they are 0 and the batch, under the
//   seed 0. Sites are below 2^15, layers below 2^16 (0 outside of a repeat).
//
//   everything that the runtime itself draws has the top bit of counter[2]
//   set; see Stream below.
//
//===----------------------------------------------------------------------===//

#ifndef TFM_RUNTIME_PHILOX_H
#define TFM_RUNTIME_PHILOX_H

#include <array>
#include <cstdint>

namespace tfm {

/// What the runtime draws random numbers for; the high word of counter[2].
enum class Stream : uint32_t {
  Initialise = 0x80000000u, ///< counter: block, parameter stream lo, ., hi
  Windows = 0x80000001u,    ///< counter: row of the whole batch, 0, ., update
  Shuffle = 0x80000002u,    ///< counter: index, 0, ., epoch
  Split = 0x80000003u,      ///< counter: index, 0, ., 0
  Sample = 0x80000004u,     ///< counter: token, 0, ., sequence number
};

using PhiloxBlock = std::array<uint32_t, 4>;

/// The four numbers of one counter.
constexpr PhiloxBlock philox(uint64_t seed, PhiloxBlock counter) {
  uint32_t key0 = static_cast<uint32_t>(seed);
  uint32_t key1 = static_cast<uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    uint64_t product0 = uint64_t{0xD2511F53u} * counter[0];
    uint64_t product1 = uint64_t{0xCD9E8D57u} * counter[2];
    counter = {static_cast<uint32_t>(product1 >> 32) ^ counter[1] ^ key0,
               static_cast<uint32_t>(product1),
               static_cast<uint32_t>(product0 >> 32) ^ counter[3] ^ key1,
               static_cast<uint32_t>(product0)};
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  return counter;
}

/// The numbers of one of the runtime's own streams.
constexpr PhiloxBlock philox(uint64_t seed, Stream stream, uint32_t index,
                             uint32_t high, uint32_t step) {
  return philox(seed, {index, high, static_cast<uint32_t>(stream), step});
}

/// The first two numbers of a block as one of 64 bits.
constexpr uint64_t low64(const PhiloxBlock &block) {
  return uint64_t{block[1]} << 32 | block[0];
}

/// A number below `bound` from 64 random bits (multiply and shift; the bias is
/// below bound / 2^64).
constexpr uint64_t below(uint64_t bits, uint64_t bound) {
  return static_cast<uint64_t>((static_cast<unsigned __int128>(bits) * bound) >>
                               64);
}

/// A double in [0, 1) with 53 random bits.
constexpr double unit(uint64_t bits) {
  return static_cast<double>(bits >> 11) * 0x1p-53;
}

} // namespace tfm

#endif // TFM_RUNTIME_PHILOX_H
