//===- Dice.h - the choices of a mutator --------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_TESTS_FUZZ_SUPPORT_DICE_H
#define TFM_TESTS_FUZZ_SUPPORT_DICE_H

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <vector>

/// libFuzzer's own mutation of bytes, in place; the new size.
extern "C" size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t limit);

namespace tfm::fuzz {

/// Random choices that depend on a seed alone, as libFuzzer asks of a mutator.
class Dice {
public:
  explicit Dice(unsigned seed) : engine(seed) {}

  /// Below `count`, which is at least 1.
  size_t below(size_t count) { return engine() % count; }
  bool oneIn(size_t count) { return below(count) == 0; }
  template <typename Range> auto &pick(Range &&range) {
    return *(std::begin(range) + static_cast<ptrdiff_t>(below(
                                     static_cast<size_t>(std::size(range)))));
  }

  /// The same bytes with some of libFuzzer's changes, at most `growth` more.
  std::string bytes(std::string_view text, size_t growth = 16) {
    std::vector<uint8_t> buffer(text.begin(), text.end());
    size_t limit = text.size() + growth;
    buffer.resize(limit);
    buffer.resize(LLVMFuzzerMutate(buffer.data(), text.size(), limit));
    return {buffer.begin(), buffer.end()};
  }

private:
  std::mt19937 engine;
};

/// Hands an input back to libFuzzer. Where it is longer than allowed the `size`
/// bytes that are there are mutated instead, if any.
inline size_t handOver(std::string_view text, uint8_t *data, size_t size,
                       size_t limit) {
  if (text.size() > limit)
    return size == 0 ? 0 : LLVMFuzzerMutate(data, size, limit);
  text.copy(reinterpret_cast<char *>(data), text.size());
  return text.size();
}

} // namespace tfm::fuzz

#endif // TFM_TESTS_FUZZ_SUPPORT_DICE_H
