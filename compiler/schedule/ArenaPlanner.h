//===- ArenaPlanner.h - intervals of time into few bytes --------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_SCHEDULE_ARENAPLANNER_H
#define TFM_SCHEDULE_ARENAPLANNER_H

#include "llvm/ADT/ArrayRef.h"
#include <cstdint>

namespace tfm {

/// So many bytes, a multiple of the alignment, from one time to another.
struct LiveInterval {
  int64_t bytes = 0;
  int64_t begin = 0, end = 0;
  /// Set by planning.
  int64_t offset = -1;
};

/// The largest sum of sizes at one time: no plan can do with less.
int64_t mostLive(llvm::ArrayRef<LiveInterval> intervals);

/// Gives every interval an offset, so that none overlap in time and in bytes.
/// Returns the bytes needed: of several greedy orders the best, each with
/// rounds in which the interval that sticks out at the top chooses first the
/// next time ("squeaky wheel" optimization, Joslin and Clements 1999).
int64_t planIntervals(llvm::MutableArrayRef<LiveInterval> intervals);

} // namespace tfm

#endif // TFM_SCHEDULE_ARENAPLANNER_H
