//===- GroupKernel.h - launches that one kernel runs ------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_TARGET_CUDA_GROUPKERNEL_H
#define TFM_TARGET_CUDA_GROUPKERNEL_H

#include "compiler/schedule/SchedDialect.h"

#include "mlir/IR/BuiltinOps.h"

namespace tfm::cuda {

/// Whether a launch may be one of a group: products of few rows, updates of
/// caches, and few points, whose kernels take little longer than their launch.
bool canBeInGroup(sched::LaunchOp launch);

/// Whether blocks of `launch`, which may be in a group, had better compute what
/// they read of `rows` for themselves: a row as long as a block keeps near it,
/// which a product multiplies.
bool isForEachBlock(sched::LaunchOp rows, sched::LaunchOp launch);

/// Emits the kernel of a group. Its grid has as many rows of blocks as there
/// are launches that blocks share. Its arguments are those of all launches, one
/// after the other, without what lies in memory of blocks. What each block
/// computes for itself it does while its first loads of weights are under way.
void emitGroupKernel(mlir::ModuleOp module, llvm::StringRef name,
                     sched::GroupOp group);

} // namespace tfm::cuda

#endif // TFM_TARGET_CUDA_GROUPKERNEL_H
