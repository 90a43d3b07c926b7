//===- Pieces.h - loads of 16 bytes -----------------------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_TARGET_CUDA_PIECES_H
#define TFM_TARGET_CUDA_PIECES_H

#include "compiler/target/emit/KernelBuilder.h"

namespace tfm::cuda {

/// The most that a thread loads at once.
inline constexpr int64_t pieceBytes = 16;

/// The 16 bytes at a multiple of 16, as they lie.
mlir::Value loadPiece(KernelBuilder &k, mlir::Value ptr);
/// The elements of a piece (f32, bf16, or i8) as f32.
llvm::SmallVector<mlir::Value> floatsOf(KernelBuilder &k, mlir::Value piece,
                                        mlir::Type element);
/// The numbers from 0 to 15 in the halves of its bytes: the low halves of all,
/// then the high ones.
llvm::SmallVector<mlir::Value> halvesOf(KernelBuilder &k, mlir::Value piece);

} // namespace tfm::cuda

#endif // TFM_TARGET_CUDA_PIECES_H
