//===- AttentionBlock.h - a block of queries against its keys ---*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_TARGET_CPU_ATTENTIONBLOCK_H
#define TFM_TARGET_CPU_ATTENTIONBLOCK_H

#include "compiler/target/cpu/Attention.h"
#include "compiler/target/emit/VectorHelpers.h"
#include "mlir/IR/BuiltinOps.h"

namespace tfm {

/// The logarithm of e to base 2.
constexpr double log2e = 1.44269504088896340736;
/// Stands for the largest score of a query that sees no key: finite, so that
/// differences to it are not NaN.
constexpr double noScore = -1e30;

/// Rows of f32 somewhere: a head of q, or a copy of it in scratch.
struct RowsView {
  mlir::Value ptr = nullptr;
  /// From one row to the next, in elements.
  mlir::Value stride = nullptr;
  /// Null for f32.
  mlir::Type element = nullptr;
};

/// What attention and its derivative share: shapes, the cut into blocks, and
/// the products and masks of a block of queries and a block of keys. Scores are
/// kept transposed, [keys, queries], a row for each key of the block.
class AttentionBlock {
protected:
  /// `scoreBytes`: what the scores of a block should take at most.
  AttentionBlock(mlir::OpBuilder &builder, mlir::ModuleOp module,
                 const AttentionSpec &spec, const CpuMachine &target,
                 int64_t vectorsPerBlock, int64_t scoreBytes);

  const AttentionSpec &spec;
  mlir::ModuleOp module;
  KernelBuilder kb;
  /// Sizes as in `tfm.attention`.
  int64_t batches, heads, kvHeads, queries, keys, d, e;
  /// Vectors of a register tile, and columns of it in elements.
  int64_t tileVectors, width;
  const int64_t tileRows;
  /// Queries of a block, and how many blocks there are.
  int64_t block, blocks;
  /// Keys of a block, and how many blocks there are: one where keys are read
  /// where they lie, several in a ring, where keys are numbered by position.
  int64_t keyBlock, keyBlocks;
  /// A block of keys is cut into panels of `keyRows` rows or one less.
  int64_t keyPanels, keyRows, tallPanels;
  bool valid = true;

  /// Elements of scratch handed out so far, f32 all of them.
  int64_t scratchUsed = 0;
  int64_t scratchBytes() const { return scratchUsed * int64_t{sizeof(float)}; }
  int64_t reserve(int64_t elements);
  /// Scratch at an offset from `reserve`.
  mlir::Value at(int64_t offset);
  mlir::Value scratch;

  /// The kernel, and the buffers of it by their place.
  mlir::func::FuncOp begin(llvm::StringRef name,
                           llvm::ArrayRef<mlir::Type> buffers);
  mlir::Operation *kernel = nullptr;
  mlir::Value buffer(unsigned index);

  /// Rows of head `head` of batch `batch` of a [B, heads, rows, width] buffer.
  RowsView head(mlir::Value ptr, mlir::MemRefType type, mlir::Value batch,
                mlir::Value head);
  /// Row `row` of a view, and vectors from a column of a row on.
  mlir::Value rowOf(RowsView view, mlir::Value row);
  mlir::Value load(RowsView view, mlir::Value row, int64_t column,
                   mlir::Value mask = {});
  void store(mlir::Value vector, RowsView view, mlir::Value row, int64_t column,
             mlir::Value mask);
  /// `rows` rows of `columns` elements of `view` from row `first` on, in
  /// scratch at `offset` where `copyWidth` says so, else where they lie. Where
  /// there are `scales`, each times its own.
  RowsView readable(RowsView view, mlir::Value first, mlir::Value rows,
                    int64_t columns, int64_t offset, RowsView scales = {});
  /// Elements of a row in scratch; 0 where rows are read where they lie, which
  /// asks for f32 and whole vectors.
  int64_t copyWidth(int64_t columns) const {
    return columns % kb.lanes == 0 && !copies
               ? 0
               : llvm::alignTo(columns, kb.lanes);
  }
  /// The same for what is read in any steps.
  int64_t scalarWidth(int64_t columns) const {
    return copies ? copyWidth(columns) : 0;
  }
  /// Whether q, k, v and what comes of them are of bf16.
  const bool narrow;
  /// Whether blocks of keys, and in the derivative of queries, are copied to
  /// scratch: those of bf16 and i8, of rings, and of long texts. There they lie
  /// densely, in few pages and in all sets of the caches.
  bool copies;
  /// Queries that a copy of a block of keys serves: it takes about a fortieth
  /// of their time.
  static constexpr int64_t sharingQueries = 256;

  /// Sets up a block of keys, `k0` the first.
  void enterKeys(mlir::Value k0);
  mlir::Value k0, blockKeys;
  /// Sets up a block of queries, `t0` the first, against those keys.
  void enterBlock(mlir::Value t0);
  mlir::Value t0, blockQueries;
  /// Where query `t` is among the keys, and the first, null for the first key.
  mlir::Value position(mlir::Value t) {
    return firstPosition ? kb.add(t, firstPosition) : t;
  }
  mlir::Value firstPosition;
  /// The keys of [k0, k0 + blockKeys) that the block sees lie in [keyFrom,
  /// keyTo), in these panels.
  mlir::Value keyFrom, keyTo, panelFrom, panelTo;
  /// The keys that queries [from, to) see, of all.
  std::pair<mlir::Value, mlir::Value> seenBy(mlir::Value from, mlir::Value to);
  /// Row of scratch of key `s`.
  mlir::Value scoreRow(int64_t offset, mlir::Value s) {
    return kb.at(at(offset), kb.mul(kb.sub(s, k0), block));
  }

  /// The first key of a panel, from `k0` on.
  mlir::Value panelStart(mlir::Value panel);
  /// Of a panel whose first key is `k0 + start`, the first of the block's
  /// queries that sees a key, from `t0` on.
  mlir::Value firstQuery(mlir::Value start);

  /// [columns, block] = the transpose of the block's rows of `view`, all rows
  /// of a head.
  void transposeBlock(RowsView view, int64_t columns, mlir::Value to);
  /// to[key, query] = rows[key] . transposed[:, query], over the panels. Rows
  /// are counted from `k0` in all of these. What no key of a panel shows to any
  /// query of a register tile is left out.
  void scores(RowsView rows, int64_t depth, mlir::Value transposed,
              mlir::Value to);
  /// to[key] += sum over queries of weights[key, query] rows[query], of the
  /// block's rows, over the panels.
  void accumulateKeys(mlir::Value weights, RowsView rows, int64_t columns,
                      RowsView to);
  /// to[query] = sum over the keys that the block sees of weights[key, query]
  /// rows[key], or the same added to what is there. Full register tiles are
  /// written: `to` has room for `block` rows of whole vectors.
  void sumOverKeys(mlir::Value weights, RowsView rows, int64_t columns,
                   RowsView to, bool accumulate);

  /// Writes the mask of the block and its keys, transposed, to scratch.
  void loadMask(mlir::Value batch, mlir::Value head);
  int64_t maskRows = 0, maskTransposed = 0;
  mlir::Value maskPtr;

  /// The biases of a head by distance, a row of them; and where of it the first
  /// query of vector `v` and key `s` stand, and one further on the next query.
  RowsView distancesOf(mlir::Value ptr, mlir::MemRefType type,
                       mlir::Value head);
  mlir::Value columnOf(mlir::Value s, int64_t v);
  /// Those of the current head.
  RowsView distances;

  /// The number of each query of vector `v` of the block, vector of i32.
  mlir::Value queryNumbers(int64_t v);
  /// Which queries of vector `v` see key `s`, by `causal` and `window`.
  mlir::Value visible(mlir::Value s, int64_t v);
  /// scale * raw, capped.
  mlir::Value capped(mlir::Value raw);
  /// The score the softmax sees: biases added, minus infinity where invisible.
  mlir::Value masked(mlir::Value score, mlir::Value s, int64_t v,
                     bool checkVisible);
  int64_t blockVectors() const { return block / kb.lanes; }
  /// Whether some pair of query and key is invisible.
  bool hides() const { return spec.causal || spec.window; }

  /// Runs `body(s, checkVisible)` for the keys in [from, to), in two loops
  /// where the first keys are visible to all queries.
  void overKeys(mlir::Value from, mlir::Value to, mlir::ValueRange init,
                llvm::function_ref<llvm::SmallVector<mlir::Value>(
                    mlir::Value, mlir::ValueRange, bool)>
                    body,
                llvm::SmallVector<mlir::Value> &results);

  DropoutKey dropout;
  /// Runs `body(s, keep masks of the block's vectors)` for the keys of the
  /// block, and for a few around them.
  void overKeysWithDropout(
      mlir::Value batch, mlir::Value head,
      llvm::function_ref<void(mlir::Value, llvm::ArrayRef<mlir::Value>)> body);

  /// Runs `run(rows, first)` for the cut of `count` rows into register tiles.
  void overTiles(int64_t count,
                 llvm::function_ref<void(int64_t rows, int64_t first)> run);
  /// Runs `run(vectors, first)` for the cut of `columns` into register tiles.
  void
  overColumns(int64_t columns,
              llvm::function_ref<void(int64_t vectors, int64_t first)> run);
  /// Lanes of the vector at `column` that lie within `columns`; null: all.
  mlir::Value columnMask(int64_t column, int64_t columns);
};

} // namespace tfm

#endif // TFM_TARGET_CPU_ATTENTIONBLOCK_H
