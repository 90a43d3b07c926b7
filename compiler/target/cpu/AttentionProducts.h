//===- AttentionProducts.h - products of queries and keys -------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_TARGET_CPU_ATTENTIONPRODUCTS_H
#define TFM_TARGET_CPU_ATTENTIONPRODUCTS_H

#include "compiler/target/cpu/AttentionBlock.h"
#include "llvm/Support/MathExtras.h"
#include <memory>

namespace tfm {

/// The products of a block of queries and a block of keys, and their operands
/// as the products read them: in scratch, or where they lie. Lengths are in
/// f32. Scores and weights are [keys, queries], the panels of the block alone.
///
/// In vectors of f32 an operand is rows. In panels of bf16 (AttentionPanels.h)
/// only who made it knows how it lies.
class AttentionProducts {
public:
  explicit AttentionProducts(AttentionBlock &cut) : cut(cut), kb(cut.kb) {}
  virtual ~AttentionProducts() = default;

  /// The block's rows of `view`, all rows of a head, as the right factor of
  /// scores.
  virtual int64_t queriesLength(int64_t columns) const = 0;
  virtual void takeQueries(RowsView view, int64_t columns, mlir::Value to) = 0;

  /// Keys as the left factor of scores, and as the terms of sums over keys.
  struct Keys {
    RowsView factor, terms;
  };
  enum Use { asFactor = 1, asTerms = 2, asBoth = asFactor | asTerms };
  virtual int64_t keysLength(int64_t columns, Use use) const = 0;
  /// `rows` rows of `view` from `k0` on, in scratch at `offset` where they are
  /// not read where they lie. Where there are `scales`, each times its own.
  virtual Keys takeKeys(RowsView view, mlir::Value rows, int64_t columns,
                        Use use, int64_t offset, RowsView scales = {}) = 0;

  /// to[key, query] = keys[key] . queries[query], of the keys of a panel. What
  /// none of them shows to any query of a register tile is left out.
  virtual void scoresOfPanel(mlir::Value panel, RowsView keys, int64_t columns,
                             mlir::Value queries, mlir::Value to) = 0;
  /// The same of all panels, from the first row of `to` on.
  void scores(RowsView keys, int64_t columns, mlir::Value queries,
              mlir::Value to) {
    kb.loop(cut.panelFrom, cut.panelTo, 1, [&](mlir::Value panel) {
      scoresOfPanel(panel, keys, columns, queries,
                    kb.at(to, kb.mul(cut.panelStart(panel), cut.block)));
    });
  }

  /// The weights of the keys that the block sees, for the sums over keys.
  virtual int64_t weightsLength() const = 0;
  virtual mlir::Value takeWeights(mlir::Value weights, int64_t offset) = 0;
  /// sums[query] = sum over the keys that the block sees of weights[key, query]
  /// terms[key], or the same added to what is there.
  virtual void sumOverKeys(mlir::Value weights, RowsView terms, int64_t columns,
                           mlir::Value sums, bool accumulate) = 0;
  int64_t sumsLength(int64_t columns) const {
    return cut.block * llvm::alignTo(columns, kb.lanes);
  }
  /// Multiplies the sums of each query by its factor, of f32.
  virtual void scaleSums(mlir::Value sums, int64_t columns,
                         mlir::Value factors);
  /// The sums as rows, whole vectors, in scratch at `offset` where they do not
  /// lie so.
  virtual int64_t rowsLength(int64_t) const { return 0; }
  virtual RowsView rowsOfSums(mlir::Value sums, int64_t columns, int64_t) {
    return {sums, kb.i64(llvm::alignTo(columns, kb.lanes))};
  }

  /// The weights of the panels, for the sums over queries.
  virtual int64_t weightsOverQueriesLength() const = 0;
  virtual mlir::Value takeWeightsOverQueries(mlir::Value weights,
                                             int64_t offset) = 0;
  /// The block's rows of `view` as the terms of sums over queries.
  virtual int64_t queryTermsLength(int64_t columns) const = 0;
  virtual RowsView takeQueryTerms(RowsView view, int64_t columns,
                                  int64_t offset) = 0;
  /// to[key] += sum over queries of weights[key, query] terms[query], over the
  /// panels; rows of `to` are counted from `k0`.
  virtual void sumOverQueries(mlir::Value weights, RowsView terms,
                              int64_t columns, RowsView to) = 0;

protected:
  AttentionBlock &cut;
  KernelBuilder &kb;

  /// Runs `run(rows, first)` for the cut of `count` rows into register tiles.
  void
  overTiles(int64_t count,
            llvm::function_ref<void(int64_t rows, int64_t first)> run) const;
};

/// In vectors of f32, by the micro-kernel of matrix products.
std::unique_ptr<AttentionProducts> productsInVectors(AttentionBlock &cut);

} // namespace tfm

#endif // TFM_TARGET_CPU_ATTENTIONPRODUCTS_H
