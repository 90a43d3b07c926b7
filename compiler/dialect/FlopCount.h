//===- FlopCount.h - how many floating-point operations ---------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_DIALECT_FLOPCOUNT_H
#define TFM_DIALECT_FLOPCOUNT_H

namespace tfm {

/// Floating-point operations: of the largest models more than 64 bits hold.
using FlopCount = __int128;

} // namespace tfm

#endif // TFM_DIALECT_FLOPCOUNT_H
