//===- Reading.h - what the runtime reads, for the compiler -----*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_FRONTEND_RECIPE_READING_H
#define TFM_FRONTEND_RECIPE_READING_H

#include "runtime/support/error.h"
#include "llvm/Support/Error.h"

namespace tfm {

/// What `read`, which calls the runtime, returns; an error where it throws one
/// of the user's.
template <typename Read>
auto reading(Read read) -> llvm::Expected<decltype(read())> {
  try {
    return read();
  } catch (const InputError &error) {
    return llvm::createStringError(error.what());
  }
}

} // namespace tfm

#endif // TFM_FRONTEND_RECIPE_READING_H
