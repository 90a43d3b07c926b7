//===- numpy_random.h - NumPy's default_rng, for listings made with it ---===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

// PCG64 (O'Neill 2014: XSL-RR 128/64) seeded through SeedSequence, and the
// bounded integers that `numpy.random.default_rng(seed).integers(0, n)` draws,
// bit for bit: so that generated data is the same as that of published
// notebooks.
//
//===----------------------------------------------------------------------===//

#ifndef TFM_RUNTIME_DATA_NUMPY_RANDOM_H
#define TFM_RUNTIME_DATA_NUMPY_RANDOM_H

#include <cstddef>
#include <cstdint>

namespace tfm {

class NumpyRandom {
public:
  explicit NumpyRandom(uint64_t seed) {
    uint32_t words[8];
    seedSequence(seed, words);
    auto wide = [&](size_t i) {
      return uint64_t{words[2 * i + 1]} << 32 | words[2 * i];
    };
    auto initial = static_cast<Wide>(wide(0)) << 64 | wide(1);
    auto stream = static_cast<Wide>(wide(2)) << 64 | wide(3);
    increment = stream << 1 | 1;
    state = 0;
    step();
    state += initial;
    step();
  }

  /// A number in [0, bound), 0 < bound < 2^32 (Lemire 2019).
  uint32_t below(uint32_t bound) {
    uint64_t product = uint64_t{next32()} * bound;
    auto low = static_cast<uint32_t>(product);
    if (low < bound) {
      uint32_t threshold = (0u - bound) % bound;
      while (low < threshold) {
        product = uint64_t{next32()} * bound;
        low = static_cast<uint32_t>(product);
      }
    }
    return static_cast<uint32_t>(product >> 32);
  }

private:
  using Wide = unsigned __int128;

  void step() {
    constexpr Wide multiplier =
        static_cast<Wide>(2549297995355413924u) << 64 | 4865540595714422341u;
    state = state * multiplier + increment;
  }

  uint64_t next64() {
    step();
    auto value =
        static_cast<uint64_t>(state >> 64) ^ static_cast<uint64_t>(state);
    auto turn = static_cast<unsigned>(state >> 122);
    return value >> turn | value << (-turn & 63);
  }

  /// Halves of 64-bit numbers, the low one first.
  uint32_t next32() {
    if (hasHalf) {
      hasHalf = false;
      return half;
    }
    uint64_t value = next64();
    hasHalf = true;
    half = static_cast<uint32_t>(value >> 32);
    return static_cast<uint32_t>(value);
  }

  /// numpy.random.SeedSequence(seed).generate_state(8).
  static void seedSequence(uint64_t seed, uint32_t out[8]) {
    uint32_t entropy[4] = {static_cast<uint32_t>(seed),
                           static_cast<uint32_t>(seed >> 32), 0, 0};
    uint32_t hashConstant = 0x43b0d7e5u;
    auto hash = [&](uint32_t value) {
      value ^= hashConstant;
      hashConstant *= 0x931e8875u;
      value *= hashConstant;
      return value ^ value >> 16;
    };
    auto mix = [](uint32_t x, uint32_t y) {
      uint32_t value = 0xca01f9ddu * x - 0x4973f715u * y;
      return value ^ value >> 16;
    };
    uint32_t pool[4];
    for (int i = 0; i < 4; ++i)
      pool[i] = hash(entropy[i]);
    for (int source = 0; source < 4; ++source)
      for (int target = 0; target < 4; ++target)
        if (source != target)
          pool[target] = mix(pool[target], hash(pool[source]));
    uint32_t constant = 0x8b51f9ddu;
    for (int i = 0; i < 8; ++i) {
      uint32_t value = pool[i % 4] ^ constant;
      constant *= 0x58f38dedu;
      value *= constant;
      out[i] = value ^ value >> 16;
    }
  }

  Wide state;
  Wide increment;
  bool hasHalf = false;
  uint32_t half = 0;
};

} // namespace tfm

#endif // TFM_RUNTIME_DATA_NUMPY_RANDOM_H
