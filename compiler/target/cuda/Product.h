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

/// How a product is cut up among blocks and threads.
struct ProductTile {
  /// Rows and columns of C that a block computes, in steps of so many terms.
  int64_t rows, columns, depth;
  /// Rows and columns of these that a thread has in registers.
  int64_t threadRows, threadColumns;

  int64_t threads() const {
    return rows / threadRows * (columns / threadColumns);
  }
};

/// The largest tile of which there are enough for all multiprocessors.
ProductTile chooseTile(int64_t m, int64_t n, int64_t batches);

/// Emits the product of a matmul launch, with what follows it: A and B go
/// through shared memory, C through registers and then shared memory, from
/// where it is stored row by row. An element is the sum of its terms in the
/// order of k. Fails, after an error at the launch, where its sums are not of
/// f32.
mlir::LogicalResult emitProductKernel(mlir::ModuleOp module,
                                      llvm::StringRef name,
                                      sched::LaunchOp launch);

} // namespace tfm::cuda

#endif // TFM_TARGET_CUDA_PRODUCT_H
