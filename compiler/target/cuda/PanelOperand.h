//===- PanelOperand.h - an operand that the hardware brings -----*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_TARGET_CUDA_PANELOPERAND_H
#define TFM_TARGET_CUDA_PANELOPERAND_H

#include "compiler/target/cuda/ProductKernel.h"

namespace tfm::cuda {

/// `size` elements along M or N by 64 terms of an operand of bf16, which one
/// thread has the hardware bring to shared memory (TMA), stage after stage, in
/// panels: rows of 64 elements, 128 bytes, whose pieces of 16 bytes are
/// swizzled as `wgmma` takes them. Along the terms a panel has all of them, and
/// a row for each element along M or N; else panels of 64 elements along M or N
/// follow each other, with a row for each term.
class PanelOperand {
public:
  /// Elements of a row of a panel, and terms of a stage.
  static constexpr int64_t elements = 64;

  /// Of the value that argument `argument` of the kernel points to; `batch` are
  /// the sizes of the axes before its last two.
  PanelOperand(BlockBuilder &block, const ProductOperand &from,
               unsigned argument, llvm::ArrayRef<int64_t> batch, int64_t size);

  /// Whether the hardware can bring it: numbers of bf16 whose rows begin at
  /// multiples of 16 bytes, in not too many axes.
  static bool canBring(const ProductOperand &from,
                       llvm::ArrayRef<int64_t> batch);

  int64_t stageBytes() const { return size * elements * 2; }

  /// Begins to bring the elements from `outer` and the terms from `term` on, of
  /// the product at `indices` in its batch; what does not exist becomes zeros.
  /// `stageBytes` arrive at the barrier.
  void bring(mlir::Value stage, mlir::Value outer, mlir::Value term,
             llvm::ArrayRef<mlir::Value> indices, mlir::Value barrier);

  /// What tells `wgmma` where elements from `first` on along M or N, a multiple
  /// of 64, and 16 terms are, the `step`th of a stage; i64 (PTX ISA, "Matrix
  /// Descriptor Format").
  mlir::Value descriptor(mlir::Value stage, mlir::Value first, int64_t step);
  /// The same in less code, of the first elements of the `step`th 16 terms of
  /// several stages that follow each other, where the first of these, at
  /// `start` (i32), is not known to the compiler.
  mlir::Value startOf(mlir::Value stage);
  mlir::Value descriptorFrom(mlir::Value start, int64_t step);

  bool isAlongTerms() const { return from.isAlongTerms(); }

private:
  int64_t panels() const { return isAlongTerms() ? 1 : size / elements; }
  int64_t panelBytes() const { return stageBytes() / panels(); }
  int64_t stepBytes() const;
  mlir::Value addressOf(mlir::Value pointer);
  int64_t layoutBits() const;

  BlockBuilder &block;
  KernelBuilder &k;
  const ProductOperand from;
  const int64_t size;
  /// The axes of the batch along which it changes, the last one first.
  llvm::SmallVector<size_t> batchAxes;
  mlir::Value tensor;
};

} // namespace tfm::cuda

#endif // TFM_TARGET_CUDA_PANELOPERAND_H
