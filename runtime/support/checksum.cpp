//===- checksum.cpp - whether bytes are those that were written ---------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/support/checksum.h"

#define XXH_INLINE_ALL // nothing of xxHash but what is used here
#include <fmt/format.h>
#include <xxhash.h>

namespace tfm {

struct Checksum::State {
  XXH3_state_t hash;
};

Checksum::Checksum() : state(std::make_unique<State>()) {
  XXH3_64bits_reset(&state->hash);
}

Checksum::~Checksum() = default;
Checksum::Checksum(Checksum &&other) noexcept = default;
Checksum &Checksum::operator=(Checksum &&other) noexcept = default;

void Checksum::add(const void *data, size_t size) {
  if (size > 0)
    XXH3_64bits_update(&state->hash, data, size);
}

std::string Checksum::text() const {
  return fmt::format("{:016x}", XXH3_64bits_digest(&state->hash));
}

std::string checksumOf(const void *data, size_t size) {
  return fmt::format("{:016x}", XXH3_64bits(data, size));
}

} // namespace tfm
