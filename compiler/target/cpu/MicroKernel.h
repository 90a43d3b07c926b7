//===- MicroKernel.h - a tile of a product in registers ---------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_TARGET_CPU_MICROKERNEL_H
#define TFM_TARGET_CPU_MICROKERNEL_H

#include "compiler/target/cpu/Terms.h"

namespace tfm {

/// How the micro-kernel reads its rows of A.
enum class ALayout {
  /// a[k * stride + row]: a packed panel, or a transposed A where it lies.
  Columns,
  /// a[row * stride + k]: a row-major A where it lies.
  Rows
};

/// What a micro-kernel is like.
struct MicroKernel {
  int64_t rows, vectors;
  ALayout layout;
  Terms terms = Terms::F32;
  /// It also writes the rows of B that it reads to a panel, as f32, for the
  /// tiles that follow.
  bool copiesB = false;
  /// It also prefetches the tile's rows in so many matrices that are read or
  /// written once it is finished, C or those of an epilogue, the tile's lines
  /// of each of `rowsAhead` rows at a time; and then what is to be packed next:
  /// so many cache lines at a time, none where that is 0.
  int64_t matricesAhead = 0, rowsAhead = 1;
  /// Where the first of those is A: so many lines of its rows instead.
  int64_t linesOfA = 0;
  int64_t linesAhead = 0;
  /// Whether what is in C is added to the tile's sums at the end, when it has
  /// been prefetched, instead of their beginning with it.
  bool addsLast = false;
};

/// Every how many slots a micro-kernel prefetches.
inline constexpr int64_t prefetchedEvery = 8;
inline constexpr int64_t cacheLine = 64;

/// The function that computes a tile of `rows` x `vectors * lanes`:
///
///   (a, a stride, b, b stride, c, c stride, k, accumulate[, panel]
///    [, first row, bytes to the next row, for each of the matrices ahead]
///    [, first line, bytes to the next of those at a time, and to the next
///    time])
///   c[row * c stride + column] = (accumulate ? c[...] : 0)
///       + sum over k of a[k, row] * b[k * b stride + column]
///
/// with k counted in slots. The accumulators stay in registers over the whole
/// of k, and the terms are added in the order of k whatever the tile's size (to
/// zero where `addsLast`), so that how a product is cut into tiles does not
/// change its bits.
mlir::func::FuncOp microKernel(KernelBuilder &kb, const MicroKernel &kernel);
mlir::func::FuncOp microKernel(KernelBuilder &kb, int64_t rows, int64_t vectors,
                               ALayout layout);

} // namespace tfm

#endif // TFM_TARGET_CPU_MICROKERNEL_H
