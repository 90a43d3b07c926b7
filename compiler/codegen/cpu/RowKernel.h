//===- RowKernel.h - kernels over rows --------------------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_CODEGEN_CPU_ROWKERNEL_H
#define TFM_CODEGEN_CPU_ROWKERNEL_H

#include "compiler/codegen/cpu/KernelBuilder.h"
#include "compiler/codegen/schedule/Schedule.h"

namespace tfm {

/// The type under which a view is passed to a kernel: a flat range that covers
/// it.
mlir::MemRefType bufferType(const View &view);

/// Emits the kernel of a row launch, a copy, a fill or a fold: threads share
/// the rows; each row is walked once per pass, in vectors.
Kernel emitRowKernel(mlir::OpBuilder &builder, mlir::ModuleOp module,
                     llvm::StringRef name, const Launch &launch,
                     const OpSet &materialised, int64_t lanes);

/// Emits `base[ids[i]] += updates[i]`, in place: threads share the columns, so
/// that every row is added in order.
Kernel emitScatterAddKernel(mlir::OpBuilder &builder, mlir::ModuleOp module,
                            llvm::StringRef name, const Launch &launch,
                            const OpSet &materialised, int64_t lanes);

} // namespace tfm

#endif // TFM_CODEGEN_CPU_ROWKERNEL_H
