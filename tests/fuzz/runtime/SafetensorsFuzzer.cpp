//===- SafetensorsFuzzer.cpp - a weights file that is nearly right ------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

// Nothing but InputError may come out of any bytes.
//
//===----------------------------------------------------------------------===//

#include "runtime/formats/safetensors.h"
#include "runtime/support/error.h"
#include "tests/fuzz/runtime/SafetensorsMutator.h"
#include "tests/fuzz/support/TimeLimit.h"

#include <cstdlib>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

using namespace tfm::fuzz;

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size,
                                          size_t limit, unsigned seed) {
  static constexpr const char *names[] = {"a", "b", "h.0.weight"};
  Dice dice(seed);
  std::string_view bytes(reinterpret_cast<const char *>(data), size);
  return handOver(mutateSafetensors(bytes, dice, names), data, size, limit);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  TimeLimit limit(2);
  int file = memfd_create("fuzz", 0);
  if (file < 0 || write(file, data, size) != static_cast<ssize_t>(size))
    std::abort();
  try {
    tfm::SafetensorsReader reader("/proc/self/fd/" + std::to_string(file));
    for (const auto &[name, entry] : reader.header().tensors) {
      std::vector<float> values(entry.elements());
      reader.readFloats(name, entry, values.data());
    }
  } catch (const tfm::InputError &) {
    // What a user sees as a message.
  }
  close(file);
  return 0;
}
