//===- FewRows.h - matrix products of few rows ------------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_TARGET_CPU_FEWROWS_H
#define TFM_TARGET_CPU_FEWROWS_H

#include "compiler/target/cpu/Matmul.h"
#include <optional>

namespace tfm {

/// How a product is computed whose few rows leave little to do but to read B,
/// as in decoding: once, where it lies, and of the fewest at the speed of
/// memory.
struct FewRowsPlan {
  /// Whether rows of B lie along k: each element of C is a dot product, in
  /// lanes that are added up at the end. Otherwise rows of B are multiplied by
  /// an element of A each and added up, in the order of k.
  bool alongK;
  /// What A and B are multiplied as (`StreamedTerms`), of A; and whether it is
  /// copied to scratch for that.
  mlir::Type termsOfA;
  bool packA;
  /// Not for `alongK`: rows of B that go by sums in registers, before those of
  /// the next columns; and vectors of columns whose sums stay in the
  /// first-level cache over all of k.
  int64_t depth, block;
  /// Strips of columns of one row whose sums stay in registers over all of k,
  /// where a thread has so many and that is faster; else 0.
  int64_t together;
  /// Too small to share: thread 0 does it.
  bool serial;
};

/// The plan for a product of no more rows than two register tiles have, of
/// integers one; nothing for others, and where its operands are of types or
/// strides that only products in tiles (`planMatmul`) take, or B is of 4 bits
/// (`planGrouped`).
std::optional<FewRowsPlan> planFewRows(const MatmulSpec &spec,
                                       const CpuMachine &target);

/// Emits the kernel of a product of few rows; as `emitMatmul`.
///
/// Threads share columns. The bits of an element depend on its row of A and its
/// column of B alone: not on the number of threads, nor on that of rows. Where
/// B is [K, N] they are those of a product in tiles.
Kernel emitFewRows(mlir::OpBuilder &builder, mlir::ModuleOp module,
                   llvm::StringRef name, const MatmulSpec &spec,
                   const CpuMachine &target, const FewRowsPlan &plan);

} // namespace tfm

#endif // TFM_TARGET_CPU_FEWROWS_H
