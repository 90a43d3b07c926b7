//===- MemoryPlan.h - what a build of a model takes in memory -------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_DRIVER_MEMORYPLAN_H
#define TFM_DRIVER_MEMORYPLAN_H

#include "compiler/driver/SharePlan.h"
#include "compiler/report/ModelReport.h"
#include "compiler/target/KernelTarget.h"

#include "mlir/IR/BuiltinOps.h"

namespace tfm {

/// Brings a module as the frontend hands it over (or after `differentiate`) to
/// what a build for the target schedules. What products multiply is decided
/// then: those of `flops`, where it is given, are counted again. A failure is a
/// bug of the compiler.
void prepareForPlan(mlir::ModuleOp module, const KernelTarget &target,
                    FlopsReport *flops);

/// Does that, fuses, schedules and plans as a build for the target would, and
/// stops before any machine code. Changes the module. A failure is a bug of the
/// compiler.
MemoryReport planModelMemory(mlir::ModuleOp module, const KernelTarget &target,
                             FlopsReport *flops = nullptr,
                             const ShareRequest &shares = {});

} // namespace tfm

#endif // TFM_DRIVER_MEMORYPLAN_H
