//===- AttentionTiles.h - products of attention on AMX tiles ----*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_TARGET_CPU_ATTENTIONTILES_H
#define TFM_TARGET_CPU_ATTENTIONTILES_H

#include "compiler/target/cpu/AttentionProducts.h"
#include "compiler/target/cpu/TileKernel.h"
#include <algorithm>

namespace tfm {

/// Sums are those of 2 x 2 tiles, so a panel has 32 rows or columns; where they
/// are columns of a head, the last may have 16. Whatever is summed over is
/// filled up with zeros to whole steps of 32.
class AttentionTiles final : public AttentionProducts {
public:
  static constexpr int64_t panelSide = 2 * tileSide;

  explicit AttentionTiles(AttentionBlock &cut)
      : AttentionProducts(cut),
        keySteps(llvm::divideCeil(cut.keyBlock, tileDepth)),
        querySteps(llvm::divideCeil(cut.block, tileDepth)) {}

  int64_t queriesLength(int64_t columns) const override {
    return cut.block * stepsOf(columns) * tileSide;
  }
  void takeQueries(RowsView view, int64_t columns, mlir::Value to) override;

  int64_t keysLength(int64_t columns, Use use) const override {
    return (use & asFactor ? factorLength(columns) : 0) +
           (use & asTerms ? keySteps * tilesOf(columns) * tileSlots : 0);
  }
  Keys takeKeys(RowsView view, mlir::Value rows, int64_t columns, Use use,
                int64_t offset, RowsView scales) override;

  void scoresOfPanel(mlir::Value panel, RowsView keys, int64_t columns,
                     mlir::Value queries, mlir::Value to) override;

  /// The scores of a panel of keys and 32 queries, in two parts: in between
  /// they are in tiles, where they need no memory, and no other product may be
  /// computed.
  void beginScores(mlir::Value panel, RowsView keys, int64_t columns,
                   mlir::Value queries);
  void endScores(mlir::Value to);

  int64_t weightsLength() const override {
    return keySteps * tileSide * cut.block;
  }
  mlir::Value takeWeights(mlir::Value weights, int64_t offset) override;
  void sumOverKeys(mlir::Value weights, RowsView terms, int64_t columns,
                   mlir::Value sums, bool accumulate) override;
  /// The same over the keys of panels [from, to) alone.
  void sumOverPanels(mlir::Value weights, RowsView terms, int64_t columns,
                     mlir::Value sums, bool accumulate, mlir::Value from,
                     mlir::Value to);
  /// Writes two rows of vector `v` of weights, of keys `s` (even) and `s + 1`
  /// from `k0` on, as `takeWeights` has them at `to`.
  void storeWeights(mlir::Value x, mlir::Value y, mlir::Value to, mlir::Value s,
                    int64_t v);
  void scaleSums(mlir::Value sums, int64_t columns,
                 mlir::Value factors) override;
  int64_t rowsLength(int64_t columns) const override {
    return sumsLength(columns);
  }
  RowsView rowsOfSums(mlir::Value sums, int64_t columns,
                      int64_t offset) override;

  int64_t weightsOverQueriesLength() const override {
    return cut.keyPanels * panelSide * querySteps * tileSide;
  }
  mlir::Value takeWeightsOverQueries(mlir::Value weights,
                                     int64_t offset) override;
  int64_t queryTermsLength(int64_t columns) const override {
    return querySteps * tilesOf(columns) * tileSlots;
  }
  RowsView takeQueryTerms(RowsView view, int64_t columns,
                          int64_t offset) override;
  /// Of one panel, whose weights begin at `weights`.
  void sumPanelOverQueries(mlir::Value panel, mlir::Value weights,
                           RowsView terms, int64_t columns, RowsView to);
  /// Writes 32 weights of row `row` of a panel, from query 32 `step` on, as
  /// `takeWeightsOverQueries` has them from `to` on.
  void storeWeightsOverQueries(mlir::Value x, mlir::Value y, mlir::Value to,
                               mlir::Value row, int64_t step);
  void sumOverQueries(mlir::Value weights, RowsView terms, int64_t columns,
                      RowsView to) override;

private:
  /// Slots of a tile.
  static constexpr int64_t tileSlots = tileSide * tileSide;
  const int64_t keySteps, querySteps;

  static int64_t stepsOf(int64_t depth) {
    return llvm::divideCeil(depth, tileDepth);
  }
  static int64_t tilesOf(int64_t columns) {
    return llvm::divideCeil(columns, tileSide);
  }
  int64_t factorLength(int64_t columns) const {
    return cut.keyPanels * stepsOf(columns) * 2 * tileSlots;
  }
  /// How many tiles the panel of columns has that tile `tile` begins.
  static int64_t tilesOfPanel(int64_t tile, int64_t columns) {
    return std::min<int64_t>(2, tilesOf(columns) - tile);
  }

  /// Sums of tiles, as `tileKernel` has them.
  void multiply(int64_t rowTiles, int64_t columnTiles, mlir::Value a,
                mlir::Value b, mlir::Value sums, mlir::Value stride,
                mlir::Value steps, bool accumulate);
  /// Two vectors of f32 as one of bf16, `x` in its lower half.
  mlir::Value round(mlir::Value x, mlir::Value y);
};

} // namespace tfm

#endif // TFM_TARGET_CPU_ATTENTIONTILES_H
