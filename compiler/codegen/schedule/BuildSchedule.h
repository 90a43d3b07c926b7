//===- BuildSchedule.h - from functions to schedules ------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_CODEGEN_SCHEDULE_BUILDSCHEDULE_H
#define TFM_CODEGEN_SCHEDULE_BUILDSCHEDULE_H

#include "compiler/codegen/schedule/Schedule.h"

namespace tfm {

struct ScheduleOptions {
  /// Tensors of at least this rank are weight-decayed.
  int64_t decayMinRank = 2;
  /// How many tensors of optimizer state each parameter has, 0 to 2.
  int stateCount = 0;
  /// Micro-steps in an update.
  int64_t accumulate = 1;
};

/// Schedules every function of `module` over one arena: fuses kernels, gives
/// every value that goes through memory a place, and orders the launches.
/// Offsets are set by `planMemory`. The module must be simplified and
/// decomposed.
Schedule buildSchedule(mlir::ModuleOp module, const ScheduleOptions &options);

/// The parameters in the order of the arena (decayed, other trained, frozen)
/// with their offsets; sets the region sizes of `schedule`.
void layOutParameters(mlir::ModuleOp module, const ScheduleOptions &options,
                      Schedule &schedule);

/// Assigns every buffer its offset in the arena and sets the sizes and the
/// lower bound of `schedule`.
void planMemory(Schedule &schedule);

} // namespace tfm

#endif // TFM_CODEGEN_SCHEDULE_BUILDSCHEDULE_H
