//===- CacheUpdate.h - new keys and values into a cache ---------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_TARGET_CPU_CACHEUPDATE_H
#define TFM_TARGET_CPU_CACHEUPDATE_H

#include "compiler/schedule/SchedDialect.h"
#include "compiler/target/emit/KernelBuilder.h"

namespace tfm {

/// Emits `tfm.cache_update` in place: its buffers are what the launch reads,
/// the updates [B, heads, T, d] (last axis contiguous) and positions [B], and
/// the cache [B, heads, S, d]. Threads share the heads of all sequences.
Kernel emitCacheUpdateKernel(mlir::OpBuilder &builder, mlir::ModuleOp module,
                             llvm::StringRef name, sched::LaunchOp launch,
                             int64_t lanes);

} // namespace tfm

#endif // TFM_TARGET_CPU_CACHEUPDATE_H
