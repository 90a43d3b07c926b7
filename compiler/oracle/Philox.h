//===- Philox.h - counter-based random numbers ------------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_ORACLE_PHILOX_H
#define TFM_ORACLE_PHILOX_H

#include <array>
#include <cstdint>

namespace tfm::oracle {

/// Philox 4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2,
/// 3", 2011): four random words from a counter under a key.
std::array<uint32_t, 4> philox(std::array<uint32_t, 4> counter,
                               std::array<uint32_t, 2> key);

} // namespace tfm::oracle

#endif // TFM_ORACLE_PHILOX_H
