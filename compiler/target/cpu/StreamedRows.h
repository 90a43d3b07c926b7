//===- StreamedRows.h - rows of memory read once, in registers --*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Where few rows of A meet a matrix B, or few queries a cache of keys and
// values, there is nothing to do but to read B, once and as fast as memory
// gives it. These functions read rows of B that follow each other, and prefetch
// those behind them.
//
//===----------------------------------------------------------------------===//

#ifndef TFM_TARGET_CPU_STREAMEDROWS_H
#define TFM_TARGET_CPU_STREAMEDROWS_H

#include "compiler/target/cpu/Terms.h"

namespace tfm {

/// What the terms of sums along rows of B are made of: all that these functions
/// know of the types of elements.
struct StreamedTerms {
  /// Of A and of B in memory: A is f32, B f32, bf16 or i8; or both are bf16,
  /// which are multiplied in pairs (`Terms::Bf16Pairs`); or both are i8: then
  /// sums are i32, of `integers`.
  mlir::Type a, b;
  /// `integerTerms` of the machine.
  Terms integers = Terms::I8Quads;

  bool arePairs() const { return a.isBF16(); }
  bool areQuads() const { return a.isInteger(8); }
  /// Whether 128 times the sum of its row of A has to be taken off a sum.
  bool areOffset() const { return areQuads() && integers == Terms::I8Quads; }
  /// Neighbours along k in a slot of a vector, and terms that a vector takes.
  int64_t perSlot() const { return areQuads() ? 4 : arePairs() ? 2 : 1; }
  int64_t perVector(const KernelBuilder &kb) const {
    return perSlot() * kb.lanes;
  }
  /// Terms in a cache line of B.
  int64_t perLine() const;
  mlir::Value zero(KernelBuilder &kb) const { return kb.splat(0.0); }
  /// Vectors of A and of B; pairs and quads travel in vectors of f32.
  mlir::Value loadA(KernelBuilder &kb, mlir::Value ptr, mlir::Value mask) const;
  mlir::Value loadB(KernelBuilder &kb, mlir::Value ptr, mlir::Value mask) const;
  /// sum + a b in each lane.
  mlir::Value multiplyAdd(KernelBuilder &kb, mlir::Value a, mlir::Value b,
                          mlir::Value sum) const;
  /// What distinguishes the functions for them.
  std::string suffix() const;
};

/// How what lies some distance ahead is prefetched: into which cache, and how
/// often, first at so many times the distance.
struct Prefetching {
  int64_t level, times;

  /// Of rows that are read side by side: once into the cache of this level,
  /// unless that is not how the machine reads them fastest.
  static Prefetching sideBySide(const CpuMachine &target, int64_t level);
  static Prefetching none() { return {0, 0}; }
  /// Of the line at `ptr`, `ahead` elements further.
  void emit(KernelBuilder &kb, mlir::Value ptr, mlir::Value ahead,
            mlir::Type element) const;
};

/// Rows of A, and rows of B, whose dot products are in registers together; and
/// how those of B that follow are prefetched.
struct DotTile {
  int64_t rows, columns;
  Prefetching prefetching;
};

/// The tile for products of `rows` rows, which may be cut into several: as many
/// rows as registers hold, and a number of columns that divides the lanes. Of B
/// that `isDense` a row begins where the one before ends.
DotTile dotTile(const CpuMachine &target, int64_t rows, bool isDense,
                const StreamedTerms &terms);

/// The function that computes the dot products of `tile.rows` rows of A with
/// `tile.columns` rows of B, in lanes:
///
///   (a, a stride, b, b stride, k, ahead, sums)
///   sums[(row * lanes + column) * lanes + lane]
///       = sum of a[row * a stride + i] * b[column * b stride + i]
///         over i = lane, lane + lanes, ... below k
///
/// with the terms added in that order whatever the tile. What lies `ahead`
/// elements behind a line of B is prefetched with it.
mlir::func::FuncOp dotRows(KernelBuilder &kb, DotTile tile,
                           const StreamedTerms &terms);

/// The dot products of one row of A with `lanes` rows of B, from its part of
/// `sums`: the lanes of each are added up, in pairs of neighbours.
mlir::Value addLanes(KernelBuilder &kb, const StreamedTerms &terms,
                     mlir::Value sums);

/// Calls `dotRows` for `rows` rows of A and the first `count` rows of B, at
/// most `lanes` of them; `sums` has room for all lanes of all rows. Rows of B
/// that are `ahead` rows behind these are prefetched; null: rows that follow
/// each other are read one after the other.
void dotProducts(KernelBuilder &kb, const CpuMachine &target,
                 const StreamedTerms &terms, int64_t rows, mlir::Value a,
                 mlir::Value aStride, mlir::Value b, int64_t bStride,
                 mlir::Value count, int64_t k, mlir::Value sums,
                 mlir::Value ahead = {});

/// Rows and vectors of y whose sums are in registers together; and how rows of
/// B that follow are prefetched.
struct SumTile {
  int64_t rows, vectors;
  Prefetching prefetching;
};

/// The function that adds rows of B, each multiplied by an element of A, to
/// `tile.rows` rows of `tile.vectors` vectors:
///
///   (a, a stride, b, b stride, y, y stride, k, accumulate, ahead[, columns])
///   y[row * y stride + j] = (accumulate ? y[row * y stride + j] : 0)
///       + sum over i < k of a[row * a stride + i] * b[i * b stride + j]
///
/// The terms are added in the order of i, as in the micro-kernel; of pairs, A
/// has a zero behind an odd k. Where it is `masked`, B has only so many
/// `columns`, and y gets zeros beyond.
mlir::func::FuncOp addRows(KernelBuilder &kb, const SumTile &tile,
                           const StreamedTerms &terms, bool masked);

/// The tile for that many rows, which may be cut into several.
SumTile sumTile(const CpuMachine &target, int64_t rows,
                const StreamedTerms &terms);

/// Calls `addRows` for `rows` rows of A and all `columns` of y.
void addProducts(KernelBuilder &kb, const CpuMachine &target,
                 const StreamedTerms &terms, int64_t rows, mlir::Value a,
                 mlir::Value aStride, mlir::Value b, int64_t bStride,
                 mlir::Value y, int64_t yStride, int64_t columns, mlir::Value k,
                 mlir::Value accumulate, mlir::Value ahead);

} // namespace tfm

#endif // TFM_TARGET_CPU_STREAMEDROWS_H
