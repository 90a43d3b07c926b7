//===- Packing.h - operands in panels ---------------------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_TARGET_CPU_PACKING_H
#define TFM_TARGET_CPU_PACKING_H

#include "compiler/target/emit/KernelBuilder.h"

namespace tfm {

/// How elements become slots of a panel.
struct Packing {
  /// What they are in memory.
  enum class From { F32, BF16, I8 };
  From from = From::F32;
  /// They are rounded to bf16 on the way (to nearest even).
  bool rounds = false;
  /// A slot gets two neighbours along k, as bf16 (a last one beside a zero),
  /// else one, as f32.
  bool pairs = false;
  /// A slot gets four of i8 (the last ones beside zeros), those of B
  /// `offsetQuads`.
  bool quads = false;
  bool offset = false;

  /// From a memref's elements.
  static From fromType(mlir::Type element) {
    return element.isBF16()       ? From::BF16
           : element.isInteger(8) ? From::I8
                                  : From::F32;
  }
  /// In names of functions: `.bf16`, nothing for f32.
  const char *fromName() const {
    return from == From::BF16 ? ".bf16" : from == From::I8 ? ".i8" : "";
  }
  mlir::Type element(const KernelBuilder &kb) const {
    return from == From::BF16 ? kb.bf16Type
           : from == From::I8 ? kb.b.getI8Type()
                              : kb.f32Type;
  }
  /// Elements along k in a slot.
  int64_t perSlot() const { return quads ? 4 : pairs ? 2 : 1; }
};

/// The function that packs `k` rows into `panels` panels side by side, of
/// `columns` <= vectors * lanes contiguous elements each, and zeros up to
/// `vectors * lanes`:
///
///   (source, source stride, k, columns, panel, panel stride, panels,
///    panel length)
///   panel[p * panel length + i * panel stride + j]
///       = source[i * source stride + p * columns + j]
///
/// (with pairs, of rows 2 i and 2 i + 1). Strides and offsets in the source
/// count its elements, in panels slots. A row is read to its end before the
/// next, so that the hardware's prefetcher sees it. Whole vectors are written,
/// in the order of k, so a panel may be narrower than them and must be followed
/// by `vectors * lanes` slots of room.
mlir::func::FuncOp packRows(KernelBuilder &kb, int64_t vectors,
                            Packing packing = {});

/// The function that packs the transpose of `rows` <= lanes rows of `k`
/// elements:
///
///   (source, source stride, k, rows, panel, panel stride)
///   panel[k * panel stride + row] = source[row * source stride + k]
///
/// (with pairs, elements 2 k and 2 k + 1, with quads 4 k to 4 k + 3). Lanes
/// past `rows` repeat the last row. It writes whole vectors in the order of k,
/// and a multiple of `lanes` of them: see `packedLength`.
mlir::func::FuncOp packTransposed(KernelBuilder &kb, Packing packing = {});

/// Slots to reserve for a panel of `k` times `stride` of them that a pack
/// function writes with `width` slots at a time.
int64_t packedLength(int64_t k, int64_t stride, int64_t width, int64_t lanes);

} // namespace tfm

#endif // TFM_TARGET_CPU_PACKING_H
