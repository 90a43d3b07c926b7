//===- JsonInput.h - mutators of a fuzzer that reads JSON ---------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

// What libFuzzer calls to change an input and to cross two, for a program whose
// input is one text of JSON: its source includes this, and defines `inputKeys`.
//
//===----------------------------------------------------------------------===//

#ifndef TFM_TESTS_FUZZ_RUNTIME_JSONINPUT_H
#define TFM_TESTS_FUZZ_RUNTIME_JSONINPUT_H

#include "tests/fuzz/runtime/JsonMutator.h"

namespace tfm::fuzz {

/// Names that the reader knows.
Keys inputKeys();

} // namespace tfm::fuzz

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size,
                                          size_t limit, unsigned seed) {
  using namespace tfm::fuzz;
  Dice dice(seed);
  std::string_view text(reinterpret_cast<const char *>(data), size);
  return handOver(mutateJson(text, dice, inputKeys()), data, size, limit);
}

extern "C" size_t LLVMFuzzerCustomCrossOver(const uint8_t *data, size_t size,
                                            const uint8_t *other,
                                            size_t otherSize, uint8_t *out,
                                            size_t limit, unsigned seed) {
  using namespace tfm::fuzz;
  Dice dice(seed);
  std::string text =
      crossJson({reinterpret_cast<const char *>(data), size},
                {reinterpret_cast<const char *>(other), otherSize}, dice);
  return handOver(text, out, 0, limit);
}

#endif // TFM_TESTS_FUZZ_RUNTIME_JSONINPUT_H
