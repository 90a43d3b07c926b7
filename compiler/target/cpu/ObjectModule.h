//===- ObjectModule.h - functions and the descriptor ------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_TARGET_CPU_OBJECTMODULE_H
#define TFM_TARGET_CPU_OBJECTMODULE_H

#include "compiler/schedule/SchedDialect.h"

#include "mlir/IR/BuiltinOps.h"

namespace llvm {
class Module;
} // namespace llvm

namespace tfm {

/// What the descriptor says beside the schedule.
struct ModelText {
  std::string name, source, target, hyperparameters, recipe;
};

/// Adds to a module that holds the kernels of `schedule` the function of every
/// program, which launches them in order, piece by piece as threads claim them,
/// and the descriptor `tfm_model_descriptor` (runtime/tfm_model.h). `kernels`
/// names the kernel of every step; `scratchBytes` is what each thread gets.
void addProgramsAndDescriptor(
    llvm::Module &module, mlir::ModuleOp schedule,
    const llvm::DenseMap<mlir::Operation *, std::string> &kernels,
    int64_t scratchBytes, const ModelText &text);

} // namespace tfm

#endif // TFM_TARGET_CPU_OBJECTMODULE_H
