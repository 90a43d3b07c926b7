//===- MatmulPlan.h - blocks and packing of a matrix product ---*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_TARGET_CPU_MATMULPLAN_H
#define TFM_TARGET_CPU_MATMULPLAN_H

#include "compiler/target/cpu/ProductKernel.h"
#include "compiler/target/cpu/Terms.h"

namespace tfm {

/// Of the host's memory, in bytes.
inline constexpr int64_t pageBytes = 4096;
/// What a micro-kernel multiplies in one lane; see `elementsPerSlot`.
inline constexpr int64_t slotBytes = 4;

/// Whether the micro-kernel can read A where it lies.
bool canReadA(const MatmulSpec &spec, Terms terms, const Matrix &a);
/// Whether it can read B where it lies.
bool canReadB(const MatmulSpec &spec, Terms terms, const Matrix &b,
              int64_t lanes);
/// Whether a tile's sums are stored to C as they are, else they go through
/// scratch.
bool storesSums(const MatmulSpec &spec, Terms terms, int64_t lanes);

/// How a product is cut up; see `emitMatmul`.
struct MatmulPlan {
  /// The micro-kernel's.
  Terms terms = Terms::F32;
  /// Rows of C in `rowPanels` panels: as equal as possible, so the register
  /// tile has `tileRows` rows or one less.
  int64_t tileRows, rowPanels;
  /// Columns in panels of the register tile's width, of so many vectors.
  int64_t tileVectors, columnPanels;
  /// Whether the operands are copied to panels in scratch, or read where they
  /// lie (B as panels, where it lies in these).
  bool packA, packB;
  /// Terms of a dot product that are added up before C is touched.
  int64_t depth;
  /// Panels that are packed at a time.
  int64_t rowBlock, columnBlock;
  /// Panels of rows, those of some blocks, for which each block of B is packed
  /// once. Where `depth` is less than all terms their sums are kept meanwhile.
  int64_t rowsOfSums;
  /// On tiles: whether the rows of sums that wait for their epilogue are pages
  /// apart, where they take a few sets of the first-level cache from A.
  bool sumsInFewSets = false;
  /// Whether register tiles follow each other along a panel of rows, which is a
  /// block, else along one of columns.
  bool alongRows = false;
  /// Whether tiles fetch the next panel of B from where it is packed, and what
  /// they will store to.
  bool fetchesPacked = false;
  /// Whether they fetch the next panel of an A whose rows are not packed.
  bool fetchesA = false;
  /// Threads share the columns first (rows otherwise).
  bool splitColumns;
  /// Too small to share: thread 0 does it.
  bool serial;
};

/// The plan that `emitMatmul` follows for a product: from the target's
/// registers and caches, so that packing costs little and is done twice for
/// as little as possible.
MatmulPlan planMatmul(const MatmulSpec &spec, const CpuMachine &target);

} // namespace tfm

#endif // TFM_TARGET_CPU_MATMULPLAN_H
