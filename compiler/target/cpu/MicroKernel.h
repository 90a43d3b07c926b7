//===- MicroKernel.h - tiles in registers, and packing ----------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_TARGET_CPU_MICROKERNEL_H
#define TFM_TARGET_CPU_MICROKERNEL_H

#include "compiler/target/cpu/KernelBuilder.h"

namespace tfm {

/// How the micro-kernel reads its rows of A.
enum class ALayout {
  /// a[k * stride + row]: a packed panel, or a transposed A where it lies.
  Columns,
  /// a[row * stride + k]: a row-major A where it lies.
  Rows
};

/// The function that computes a tile of `rows` x `vectors * lanes`:
///
///   (a, a stride, b, b stride, c, c stride, k, accumulate)
///   c[row * c stride + column] = (accumulate ? c[...] : 0)
///       + sum over k of a[k, row] * b[k * b stride + column]
///
/// The accumulators stay in registers over the whole of k, and the terms are
/// added in the order of k whatever the tile's size, so that how a product is
/// cut into tiles does not change its bits.
mlir::func::FuncOp microKernel(KernelBuilder &kb, int64_t rows, int64_t vectors,
                               ALayout layout);

/// The function that packs `k` rows into `panels` panels side by side, of
/// `columns` <= vectors * lanes contiguous elements each, and zeros up to
/// `vectors * lanes`:
///
///   (source, source stride, k, columns, panel, panel stride, panels,
///    panel length)
///   panel[p * panel length + i * panel stride + j]
///       = source[i * source stride + p * columns + j]
///
/// A row is read to its end before the next, so that the hardware's prefetcher
/// sees it. Whole vectors are written, in the order of k, so a panel may be
/// narrower than them and must be followed by `vectors * lanes` elements of
/// room.
mlir::func::FuncOp packRows(KernelBuilder &kb, int64_t vectors);

/// The function that packs the transpose of `rows` <= lanes rows of `k`
/// elements:
///
///   (source, source stride, k, rows, panel, panel stride)
///   panel[k * panel stride + row] = source[row * source stride + k]
///
/// Lanes past `rows` repeat the last row. It writes whole vectors in the order
/// of k, and a multiple of `lanes` of them: see `packedLength`.
mlir::func::FuncOp packTransposed(KernelBuilder &kb);

/// Elements to reserve for a panel of `k` times `stride` that a pack function
/// writes with `width` elements at a time.
int64_t packedLength(int64_t k, int64_t stride, int64_t width, int64_t lanes);

/// Transposes `lanes` vectors of `lanes` elements with shuffles.
llvm::SmallVector<mlir::Value> transpose(KernelBuilder &kb,
                                         llvm::ArrayRef<mlir::Value> rows);

} // namespace tfm

#endif // TFM_TARGET_CPU_MICROKERNEL_H
