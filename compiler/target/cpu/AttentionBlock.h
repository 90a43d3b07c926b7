//===- AttentionBlock.h - a block of queries against its keys ---*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_TARGET_CPU_ATTENTIONBLOCK_H
#define TFM_TARGET_CPU_ATTENTIONBLOCK_H

#include "compiler/target/cpu/Attention.h"
#include "compiler/target/cpu/VectorHelpers.h"
#include "mlir/IR/BuiltinOps.h"

namespace tfm {

/// Rows of f32 somewhere: a head of q, or a copy of it in scratch.
struct RowsView {
  mlir::Value ptr;
  /// From one row to the next, in elements.
  mlir::Value stride;
  /// Null for f32.
  mlir::Type element = nullptr;
};

/// What attention and its derivative share: shapes, the cut into blocks, and
/// the products and masks of one block. Scores are kept transposed, [keys,
/// block].
class AttentionBlock {
protected:
  AttentionBlock(mlir::OpBuilder &builder, mlir::ModuleOp module,
                 const AttentionSpec &spec, const CpuMachine &target,
                 int64_t vectorsPerBlock);

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
  /// Keys are cut into panels of `keyRows` rows or one less.
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
  /// `rows` rows of `columns` elements of `view`, in scratch at `offset` if
  /// they are of bf16, or if a vector would run past a row's end (see
  /// `copyWidth`), else `view`.
  RowsView readable(RowsView view, mlir::Value rows, int64_t columns,
                    int64_t offset);
  /// The same of the block's rows: row `t0` of what is returned is that of
  /// `view`.
  RowsView readableBlock(RowsView view, int64_t columns, int64_t offset);
  /// Elements of a row in scratch; 0 where rows are read where they lie.
  int64_t copyWidth(int64_t columns) const;
  /// The same for what is read in any steps: only bf16 is copied.
  int64_t widenedWidth(int64_t columns) const {
    return narrow ? copyWidth(columns) : 0;
  }
  /// Whether q, k, v and what comes of them are of bf16.
  const bool narrow;

  /// Sets up one block of queries: `t0` is its first.
  void enterBlock(mlir::Value t0);
  mlir::Value t0, blockQueries;
  /// The keys the block sees lie in [keyFrom, keyTo), in these panels.
  mlir::Value keyFrom, keyTo, panelFrom, panelTo;

  mlir::Value panelStart(mlir::Value panel);

  /// [columns, block] = the transpose of the block's rows of `view`.
  void transposeBlock(RowsView view, int64_t columns, mlir::Value to);
  /// to[key, query] = rows[key] . transposed[:, query], over the block's keys.
  void scores(RowsView rows, int64_t depth, mlir::Value transposed,
              mlir::Value to);
  /// to[key] += sum over queries of weights[key, query] rows[query].
  void accumulateKeys(mlir::Value weights, RowsView rows, int64_t columns,
                      RowsView to);
  /// to[query] = sum over keys in [from, from + count) of weights[key, query]
  /// rows[key].
  void sumOverKeys(mlir::Value weights, RowsView rows, int64_t columns,
                   mlir::Value from, mlir::Value count, RowsView to);

  /// Writes the block's mask, transposed, to scratch.
  void loadMask(mlir::Value batch, mlir::Value head);
  int64_t maskRows = 0, maskTransposed = 0;
  mlir::Value maskPtr;

  /// The number of each query of vector `v` of the block, vector of i32.
  mlir::Value queryNumbers(int64_t v);
  /// Which queries of vector `v` see key `s`, by `causal` and `window`.
  mlir::Value visible(mlir::Value s, int64_t v);
  /// scale * raw, capped.
  mlir::Value capped(mlir::Value raw);
  /// The score the softmax sees: mask added, minus infinity where invisible.
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
