//===- SafetensorsMutator.h - containers that are nearly right ----------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_TESTS_FUZZ_RUNTIME_SAFETENSORSMUTATOR_H
#define TFM_TESTS_FUZZ_RUNTIME_SAFETENSORSMUTATOR_H

#include "tests/fuzz/support/Dice.h"

#include <span>

namespace tfm::fuzz {

/// A safetensors file with other tensors, shapes, types, metadata or data. It
/// is laid out as the format asks; then, every other time, something in its
/// length, header or data is broken. `names` are those of tensors that its
/// reader may look for.
std::string mutateSafetensors(std::string_view bytes, Dice &dice,
                              std::span<const char *const> names);

} // namespace tfm::fuzz

#endif // TFM_TESTS_FUZZ_RUNTIME_SAFETENSORSMUTATOR_H
