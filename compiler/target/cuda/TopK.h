//===- TopK.h - the largest of each row -------------------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_TARGET_CUDA_TOPK_H
#define TFM_TARGET_CUDA_TOPK_H

#include "compiler/schedule/SchedDialect.h"

#include "mlir/IR/BuiltinOps.h"

namespace tfm::cuda {

/// So many of a row its kernel chooses at most.
inline constexpr int64_t mostChosen = 512;

/// Emits `tfm.top_k` of rows of f32 that follow each other, a row a block. Bits
/// are compared, so that denormals differ from zero and each other; NaN is
/// larger than all numbers. Fails, after an error at the launch, where more
/// than `mostChosen` are wanted.
mlir::LogicalResult emitTopKKernel(mlir::ModuleOp module, llvm::StringRef name,
                                   sched::LaunchOp launch);

} // namespace tfm::cuda

#endif // TFM_TARGET_CUDA_TOPK_H
