//===- MoveRows.h - rows that are added to tables, or written to caches *- C++
//-*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_TARGET_CUDA_MOVEROWS_H
#define TFM_TARGET_CUDA_MOVEROWS_H

#include "compiler/schedule/SchedDialect.h"

#include "mlir/IR/BuiltinOps.h"

namespace tfm::cuda {

/// Emits `base[ids[i]] += updates[i]`, in place: a block has some rows of the
/// table, and adds up all updates of each in order.
void emitScatterAddKernel(mlir::ModuleOp module, llvm::StringRef name,
                          sched::LaunchOp launch);

/// Emits `tfm.cache_update` in place, an element a thread: its buffers are what
/// the launch reads, the updates [B, heads, T, d] and positions [B], and the
/// cache [B, heads, S, d].
void emitCacheUpdateKernel(mlir::ModuleOp module, llvm::StringRef name,
                           sched::LaunchOp launch);

} // namespace tfm::cuda

#endif // TFM_TARGET_CUDA_MOVEROWS_H
