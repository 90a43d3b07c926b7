//===- Lifetimes.h - when the buffers of a program are in use ---*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_SCHEDULE_LIFETIMES_H
#define TFM_SCHEDULE_LIFETIMES_H

#include "compiler/schedule/SchedDialect.h"

#include "llvm/ADT/MapVector.h"

namespace tfm {

/// The first and the last step that something is in use at.
struct Lifetime {
  int64_t begin = INT64_MAX, end = -1;
};

/// When each activation that is used at all is in use, in the order of the
/// program. Steps are launches, copies and fills, those of a loop counted once;
/// what a loop uses and does not hold itself is in use all through the loop.
/// Inputs are written before step 0, outputs read after the last step.
llvm::MapVector<mlir::Operation *, Lifetime>
lifetimesOf(sched::ProgramOp program);

} // namespace tfm

#endif // TFM_SCHEDULE_LIFETIMES_H
