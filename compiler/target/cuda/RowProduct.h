//===- RowProduct.h - products of few rows of A -----------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_TARGET_CUDA_ROWPRODUCT_H
#define TFM_TARGET_CUDA_ROWPRODUCT_H

#include "compiler/target/cuda/ProductKernel.h"

namespace tfm::cuda {

/// Most rows that are few: with more, tensor cores read B as often.
inline constexpr int64_t mostRows = 8;

/// Whether `emitRowProduct` can: few rows, and B lies in pieces of 16 bytes.
bool isRowProduct(ProductLaunch product);

/// Products of few rows, as in decoding, where there is little to do but to
/// read B: once, 16 bytes a load, several loads under way. Where terms lie side
/// by side a warp has a few columns of C, and its lanes have pieces of their
/// terms; else lanes have pieces of columns, and the terms are shared among the
/// lanes and warps of a block. Lanes and then warps are added up, always as the
/// same tree. With `firstApart` all threads first load some of B, and come to a
/// `gatherLoads` before they read any of A.
void emitRowProduct(mlir::ModuleOp module, llvm::StringRef name,
                    ProductLaunch product, bool firstApart = false);

} // namespace tfm::cuda

#endif // TFM_TARGET_CUDA_ROWPRODUCT_H
