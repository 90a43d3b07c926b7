//===- Product.h - matrix products on blocks of threads ---------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_TARGET_CUDA_PRODUCT_H
#define TFM_TARGET_CUDA_PRODUCT_H

#include "compiler/schedule/SchedDialect.h"

#include "mlir/IR/BuiltinOps.h"

namespace tfm::cuda {

/// Emits the product of a matmul launch, with what follows it. Fails, after an
/// error at the launch, where its sums are not of f32.
mlir::LogicalResult emitProductKernel(mlir::ModuleOp module,
                                      llvm::StringRef name,
                                      sched::LaunchOp launch);

} // namespace tfm::cuda

#endif // TFM_TARGET_CUDA_PRODUCT_H
