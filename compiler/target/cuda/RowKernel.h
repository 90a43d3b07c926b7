//===- RowKernel.h - kernels over rows, on blocks of threads ----*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_TARGET_CUDA_ROWKERNEL_H
#define TFM_TARGET_CUDA_ROWKERNEL_H

#include "compiler/schedule/SchedDialect.h"

#include "mlir/IR/BuiltinOps.h"

namespace tfm::cuda {

/// Emits the kernel of a row launch. Without sums a thread computes a point.
/// With sums over rows a warp or a block has a row, walks it once per pass, and
/// keeps its values in registers from one pass to the next where it is short.
/// With sums over columns a block has one of their chunks of rows, and a thread
/// its columns.
void emitRowKernel(mlir::ModuleOp module, llvm::StringRef name,
                   sched::LaunchOp launch);

/// Whether that computes points of which none knows of another.
bool isOfPoints(sched::LaunchOp launch);

/// The same of a kernel that a block of `rowBlock` threads runs alone: they
/// load all that they read, and come to a `gatherLoads`.
void emitRowKernelForBlock(mlir::ModuleOp module, llvm::StringRef name,
                           sched::LaunchOp launch);
inline constexpr int64_t rowBlock = 256;
/// Whether it can: a row, or several that do not know of each other, of as many
/// points as are kept in registers.
bool isForBlock(sched::LaunchOp launch);

/// Emits what adds up the chunks of a sum over columns, a column a thread.
void emitFoldKernel(mlir::ModuleOp module, llvm::StringRef name,
                    sched::LaunchOp launch);

/// Emit what moves elements, and what sets them, an element a thread.
void emitCopyKernel(mlir::ModuleOp module, llvm::StringRef name,
                    sched::CopyOp copy);
void emitFillKernel(mlir::ModuleOp module, llvm::StringRef name,
                    sched::FillOp fill);

} // namespace tfm::cuda

#endif // TFM_TARGET_CUDA_ROWKERNEL_H
