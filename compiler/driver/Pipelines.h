//===- Pipelines.h - the pipelines of a build -------------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_DRIVER_PIPELINES_H
#define TFM_DRIVER_PIPELINES_H

#include "compiler/target/KernelTarget.h"

#include "mlir/Pass/PassManager.h"

namespace tfm {

/// `tfm-prepare`: from what the frontend hands over to what can be scheduled:
/// gradients, the inference forms, the optimizer's update, simplification,
/// decomposition, and the form that suits the target's kernels.
void addPreparePasses(mlir::OpPassManager &passes, const KernelTarget &target);

/// `tfm-schedule`: from a prepared module to kernels over one planned arena
/// (the sched dialect), for the kernels of the target.
void addSchedulePasses(mlir::OpPassManager &passes, const KernelTarget &target);

/// `tfm-emit-kernels`: from a schedule to the code of its kernels in the llvm
/// dialect, in a module of its own beside the schedule.
void addKernelPasses(mlir::OpPassManager &passes, const KernelTarget &target);

/// Makes the targets known (`KernelTarget`) and their passes.
void registerTargets();

/// Makes the pipelines known to tfm-opt, each with the option `target`, and
/// those that begin with what the frontend gives: `tfm-to-sched`,
/// `tfm-to-kernels` (not yet lowered) and `tfm-to-llvm`.
void registerPipelines();

} // namespace tfm

#endif // TFM_DRIVER_PIPELINES_H
