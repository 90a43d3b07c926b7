//===- Matmul.h - matrix products with fused epilogues ----------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_TARGET_CPU_MATMUL_H
#define TFM_TARGET_CPU_MATMUL_H

#include "compiler/target/emit/KernelBuilder.h"
#include <functional>

namespace tfm {

struct CpuMachine;
struct MatmulPlan;

/// A finished vector of `lanes` neighbouring elements of a row of C, on its way
/// out. The epilogue stores it, or what it makes of it.
struct EpilogueTile {
  /// vector<lanes x f32>, or of what else sums are made in.
  mlir::Value value;
  /// Indices (of type index) along the batch axes, then of the element in
  /// lane 0.
  llvm::SmallVector<mlir::Value> batch;
  mlir::Value row, column;
  /// vector<lanes x i1>: the lanes that lie within C; null where all do.
  mlir::Value mask;
  /// The kernel's arguments: A, B, what else is read, C where there is one, and
  /// what else is written.
  mlir::ValueRange buffers;
  KernelArguments arguments;
};

using Epilogue =
    std::function<void(mlir::OpBuilder &, mlir::Location, EpilogueTile &)>;

/// C = A B over batches. Where an operand is bf16 the factors of all terms are:
/// an f32 one is rounded to nearest even on its way in. Sums are f32.
struct MatmulSpec {
  llvm::SmallVector<int64_t> batch;
  int64_t m = 0, n = 0, k = 0;
  /// Memrefs of f32, bf16 or i8 with static strides: A is [batch..., M, K], or
  /// [batch..., K, M] where `transposeA`; B is [batch..., K, N] or
  /// [batch..., N, K]. One of the last two axes of each has stride 1.
  mlir::MemRefType a, b;
  bool transposeA = false, transposeB = false;
  /// Of a B of 4 bits, which is the transposed result of `tfm.dequantise`: `b`
  /// is then [batch..., N, groups * 16] of i8, and each of these two
  /// [batch..., N, groups] of bf16. Null otherwise.
  mlir::MemRefType scale, minimum;
  /// Whether B is the transposed result of `tfm.unpack`: `b` is then the type
  /// of its panels, each of as many outputs as a register tile has columns.
  bool inPanels = false;
  /// [batch..., M, N] with contiguous rows, of f32 or bf16; null where the
  /// epilogue alone says where results go.
  mlir::MemRefType c;
  /// What terms are added up in: f32, or i32 of integers.
  mlir::Type accumulator;
  /// Types of what the epilogue reads and writes beside them.
  llvm::SmallVector<mlir::Type> reads, writes;
  /// Without one the product is stored to C.
  Epilogue epilogue;

  bool isBf16() const;
  bool isGrouped() const { return static_cast<bool>(scale); }
  /// Buffers of the kernel before what the epilogue reads.
  unsigned operands() const { return isGrouped() ? 4 : 2; }
  /// How many products there are.
  int64_t batches() const;
  /// Whether all of it takes no longer than to have other threads begin with
  /// it, some microseconds.
  bool isTooSmallToShare() const;
};

/// Emits the kernel `name` into `module`: that of a product of few rows where
/// it is one (FewRows.h), or of one with weights of 4 bits that reads them
/// where they lie (GroupedProduct.h) or multiplies them as integers
/// (GroupedPanels.h), else one in tiles by the plan, with A, B
/// (its scales and minima, where it is of 4 bits), what the epilogue reads, C
/// (where there is one) and what the epilogue writes as its first arguments
/// (docs/design.md, "Kernels").
///
/// Loops follow Goto and van de Geijn 2008 ("Anatomy of high-performance matrix
/// multiplication"): for a block of columns, for some blocks of rows, for a
/// block of depth, for a block of rows: pack, then register tiles; the
/// micro-kernel and the pack functions are shared by all kernels of the module.
/// Every element of C is the sum of its terms in the order of k, or of the sums
/// of each block of depth, whatever the number of threads.
///
/// Returns a kernel with a null `func`, after an error at the module, where an
/// operand's strides do not fit.
Kernel emitMatmul(mlir::OpBuilder &builder, mlir::ModuleOp module,
                  llvm::StringRef name, const MatmulSpec &spec,
                  const CpuMachine &target);
Kernel emitMatmul(mlir::OpBuilder &builder, mlir::ModuleOp module,
                  llvm::StringRef name, const MatmulSpec &spec,
                  const CpuMachine &target, const MatmulPlan &plan);

} // namespace tfm

#endif // TFM_TARGET_CPU_MATMUL_H
