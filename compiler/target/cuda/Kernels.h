//===- Kernels.h - the kernel of a step on a GPU ----------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_TARGET_CUDA_KERNELS_H
#define TFM_TARGET_CUDA_KERNELS_H

#include "compiler/schedule/SchedDialect.h"

#include "mlir/IR/BuiltinOps.h"

namespace tfm::cuda {

/// Emits the kernel of a launch, copy or fill into `kernels`: the one place
/// that chooses an emitter. Fails, after an error at the step, where no emitter
/// can do it.
mlir::LogicalResult emitKernel(mlir::Operation *step, llvm::StringRef name,
                               mlir::ModuleOp kernels);

/// Whether that kernel multiplies by `mma.sync`.
bool multipliesOnTensorCores(sched::LaunchOp launch);

} // namespace tfm::cuda

#endif // TFM_TARGET_CUDA_KERNELS_H
