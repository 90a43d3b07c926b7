//===- Attributes.h - what planning leaves for targets ----------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_SCHEDULE_ATTRIBUTES_H
#define TFM_SCHEDULE_ATTRIBUTES_H

#include "llvm/ADT/StringRef.h"

namespace tfm {

/// Of a module, in bytes: the arena, its activations, the fewest that any plan
/// could do with, and what a thread's kernels want beside it.
inline constexpr llvm::StringLiteral arenaAttribute = "sched.arena",
                                     activationsAttribute = "sched.activations",
                                     lowerBoundAttribute = "sched.lower_bound",
                                     scratchAttribute = "sched.scratch";

/// Of a module, for the decayed and the plain region that an update walks: its
/// rows, and how many it takes at a time.
inline constexpr llvm::StringLiteral regionRowsAttribute = "sched.region_rows",
                                     regionBlocksAttribute =
                                         "sched.region_blocks";

/// Of a parameter: its byte in the buffer of parameters, and that its region is
/// the decayed one.
inline constexpr llvm::StringLiteral offsetAttribute = "sched.offset",
                                     decayedAttribute = "sched.decayed";

} // namespace tfm

#endif // TFM_SCHEDULE_ATTRIBUTES_H
