//===- AttentionPanels.h - attention in panels of bf16 ----------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_TARGET_CPU_ATTENTIONPANELS_H
#define TFM_TARGET_CPU_ATTENTIONPANELS_H

#include "compiler/target/cpu/AttentionProducts.h"
#include "compiler/target/cpu/TileKernel.h"
#include <algorithm>

namespace tfm {

/// Products whose factors are pairs of bf16, weights and the cotangents of
/// scores among them: panels of 32 keys meet panels of 32 queries, so that
/// softmax can go from one panel to the next while its scores are at hand.
/// Where they are columns of a head, the last panel may have 16. Whatever is
/// summed over is filled up with zeros to whole steps of 32.
class AttentionPanels : public AttentionProducts {
public:
  static constexpr int64_t panelSide = 32;

  explicit AttentionPanels(AttentionBlock &cut)
      : AttentionProducts(cut),
        keySteps(llvm::divideCeil(cut.keyBlock, panelSide)),
        querySteps(llvm::divideCeil(cut.block, panelSide)) {}

  int64_t queriesLength(int64_t columns) const final {
    return cut.block * stepsOf(columns) * stepSlots;
  }
  /// [panel of queries][slot of columns][32]
  void takeQueries(RowsView view, int64_t columns, mlir::Value to) final;

  /// The scores of a panel of keys and 32 queries, in two parts: they are
  /// written by the second, and no other product may be computed in between.
  virtual void beginScores(mlir::Value panel, RowsView keys, int64_t columns,
                           mlir::Value queries) = 0;
  virtual void endScores(mlir::Value to) = 0;

  int64_t weightsLength() const final {
    return keySteps * stepSlots * cut.block;
  }
  /// [panel of queries][slot of keys][32]
  mlir::Value takeWeights(mlir::Value weights, int64_t offset) final;
  /// Writes two rows of vector `v` of weights, of keys `s` (even) and `s + 1`
  /// from `k0` on, as `takeWeights` has them at `to`.
  void storeWeights(mlir::Value x, mlir::Value y, mlir::Value to, mlir::Value s,
                    int64_t v);
  void sumOverKeys(mlir::Value weights, RowsView terms, int64_t columns,
                   mlir::Value sums, bool accumulate) final {
    sumOverPanels(weights, terms, columns, sums, accumulate, cut.panelFrom,
                  cut.panelTo);
  }
  /// The same over the keys of panels [from, to) alone.
  virtual void sumOverPanels(mlir::Value weights, RowsView terms,
                             int64_t columns, mlir::Value sums, bool accumulate,
                             mlir::Value from, mlir::Value to) = 0;

  int64_t weightsOverQueriesLength() const final {
    return cut.keyPanels * weightsOfPanel();
  }
  mlir::Value takeWeightsOverQueries(mlir::Value weights, int64_t offset) final;
  /// Writes 32 weights of row `row` of a panel, from query 32 `step` on, as
  /// `takeWeightsOverQueries` has them from `to` on.
  virtual void storeWeightsOverQueries(mlir::Value x, mlir::Value y,
                                       mlir::Value to, mlir::Value row,
                                       int64_t step) = 0;
  int64_t queryTermsLength(int64_t columns) const final {
    return pairsLength(querySteps, columns);
  }
  RowsView takeQueryTerms(RowsView view, int64_t columns, int64_t offset) final;
  void sumOverQueries(mlir::Value weights, RowsView terms, int64_t columns,
                      RowsView to) final;
  /// Of one panel, whose weights begin at `weights`.
  virtual void sumPanelOverQueries(mlir::Value panel, mlir::Value weights,
                                   RowsView terms, int64_t columns,
                                   RowsView to) = 0;

protected:
  /// Slots of a step of 32 terms, of one row or column.
  static constexpr int64_t stepSlots = panelSide / 2;
  const int64_t keySteps, querySteps;

  static int64_t stepsOf(int64_t depth) {
    return llvm::divideCeil(depth, panelSide);
  }
  /// A panel of columns has one or two vectors, or tiles; its first has this
  /// number.
  static int64_t vectorsOf(int64_t columns) {
    return llvm::divideCeil(columns, tileSide);
  }
  static int64_t vectorsOfPanel(int64_t first, int64_t columns) {
    return std::min<int64_t>(2, vectorsOf(columns) - first);
  }
  /// Weights of a panel of keys, for sums over queries.
  int64_t weightsOfPanel() const { return panelSide * querySteps * stepSlots; }

  static int64_t pairsLength(int64_t steps, int64_t columns) {
    return steps * stepSlots * vectorsOf(columns) * tileSide;
  }
  /// `rows` rows of a view, the first at `source`, as pairs of neighbours, in
  /// room for so many steps at `to`: [panel of columns][slot of rows][columns].
  void takePairs(mlir::Value source, RowsView view, mlir::Value rows,
                 int64_t columns, int64_t steps, mlir::Value to);
  /// Two vectors of f32 as one of bf16, `x` in its lower half.
  mlir::Value round(mlir::Value x, mlir::Value y);
};

/// By the micro-kernel of matrix products, for `CpuMachine::bf16Pairs`.
std::unique_ptr<AttentionPanels> productsInPairs(AttentionBlock &cut);

/// On tiles of AMX, for `CpuMachine::bf16Tiles`: sums are those of 2 x 2 tiles.
std::unique_ptr<AttentionPanels> productsOnTiles(AttentionBlock &cut);

} // namespace tfm

#endif // TFM_TARGET_CPU_ATTENTIONPANELS_H
