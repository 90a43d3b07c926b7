//===- Pipelines.h - the passes of a build, in order ------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_DRIVER_PIPELINES_H
#define TFM_DRIVER_PIPELINES_H

#include "mlir/Pass/PassManager.h"

namespace tfm {

/// `tfm-prepare`: from what the frontend hands over to what can be scheduled:
/// gradients, the inference forms, the optimizer's update, simplification and
/// decomposition.
void addPreparePasses(mlir::OpPassManager &passes);

/// `tfm-schedule`: from a prepared module to kernels over one planned arena
/// (the sched dialect), for the kernels of `target`.
void addSchedulePasses(mlir::OpPassManager &passes,
                       const std::string &target = "cpu");

/// Makes the pipelines known to tfm-opt, and `tfm-to-sched`, which is one after
/// the other.
void registerPipelines();

} // namespace tfm

#endif // TFM_DRIVER_PIPELINES_H
