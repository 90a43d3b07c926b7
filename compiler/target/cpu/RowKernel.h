//===- RowKernel.h - kernels over rows --------------------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_TARGET_CPU_ROWKERNEL_H
#define TFM_TARGET_CPU_ROWKERNEL_H

#include "compiler/schedule/SchedDialect.h"
#include "compiler/target/cpu/CpuMachine.h"
#include "compiler/target/emit/KernelBuilder.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tfm {

/// The type under which a kernel is passed what lies as `type` says: a flat
/// range that covers it.
mlir::MemRefType bufferType(mlir::MemRefType type);

/// Those of everything that a launch reads and writes, in order.
llvm::SmallVector<mlir::Type> bufferTypes(sched::LaunchOp launch);

/// A kernel whose body is about to be written: its builder, the first element
/// of each of its `buffers`, and the arguments after them.
struct BegunKernel {
  BegunKernel(mlir::OpBuilder &builder, mlir::ModuleOp module,
              llvm::StringRef name, llvm::ArrayRef<mlir::Type> buffers,
              int64_t lanes, int64_t scratchBytes = 0);

  mlir::func::FuncOp func;
  KernelBuilder k;
  KernelArguments arguments;
  llvm::SmallVector<mlir::Value> pointers;
};

/// Emits the kernel of a row launch or a fold: threads share the rows; each row
/// is walked once per pass, in vectors.
Kernel emitRowKernel(mlir::OpBuilder &builder, mlir::ModuleOp module,
                     llvm::StringRef name, sched::LaunchOp launch,
                     const CpuMachine &machine);

/// Emit what moves elements, and what sets them.
Kernel emitCopyKernel(mlir::OpBuilder &builder, mlir::ModuleOp module,
                      llvm::StringRef name, sched::CopyOp copy,
                      const CpuMachine &machine);
Kernel emitFillKernel(mlir::OpBuilder &builder, mlir::ModuleOp module,
                      llvm::StringRef name, sched::FillOp fill,
                      const CpuMachine &machine);

/// Emits `base[ids[i]] += updates[i]`, in place: threads share the columns, so
/// that every row is added in order.
Kernel emitScatterAddKernel(mlir::OpBuilder &builder, mlir::ModuleOp module,
                            llvm::StringRef name, sched::LaunchOp launch,
                            int64_t lanes);

} // namespace tfm

#endif // TFM_TARGET_CPU_ROWKERNEL_H
