//===- SafetensorsFuzzer.cpp - any bytes as a weights file --------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

// Nothing but InputError may come out of any bytes.
//
//===----------------------------------------------------------------------===//

#include "runtime/error.h"
#include "runtime/safetensors.h"

#include <cstdlib>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
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
