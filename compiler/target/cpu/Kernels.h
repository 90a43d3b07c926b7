//===- Kernels.h - the kernel of a step -------------------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_TARGET_CPU_KERNELS_H
#define TFM_TARGET_CPU_KERNELS_H

#include "compiler/schedule/SchedDialect.h"
#include "compiler/target/cpu/CpuMachine.h"
#include "compiler/target/emit/KernelBuilder.h"

namespace tfm {

/// Emits the kernel of a launch, copy or fill into `module`: the one place that
/// chooses an emitter. The kernel has no function, after an error at the step,
/// where no emitter can do it.
Kernel emitKernel(mlir::Operation *step, llvm::StringRef name,
                  mlir::ModuleOp module, const CpuMachine &machine);

/// What the products of that kernel are made of: a TFM_PRODUCTS_... of
/// runtime/tfm_model.h.
llvm::StringRef productsOf(mlir::Operation *step, const CpuMachine &machine);

} // namespace tfm

#endif // TFM_TARGET_CPU_KERNELS_H
