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
#include "llvm/Support/MathExtras.h"
#include <memory>

namespace tfm {

/// The logarithm of e to base 2.
constexpr double log2e = 1.44269504088896340736;
/// Stands for the largest score of a query that sees no key: finite, so that
/// differences to it are not NaN.
constexpr double noScore = -1e30;

/// What is added to scores times `unit` so that those of `largest` have weights
/// 2 ** 0. Where an f32 has no room for that, `takeOff` is called with what is
/// to be taken off the scores instead, 0 for the others.
llvm::SmallVector<mlir::Value>
shiftsOf(KernelBuilder &kb, llvm::ArrayRef<mlir::Value> largest, double unit,
         llvm::function_ref<void(llvm::ArrayRef<mlir::Value> taken)> takeOff);

/// Rows of f32 somewhere: a head of q, or a copy of it in scratch.
struct RowsView {
  mlir::Value ptr = nullptr;
  /// From one row to the next, in elements.
  mlir::Value stride = nullptr;
  /// Null for f32.
  mlir::Type element = nullptr;
};

class AttentionProducts;
class AttentionPanels;

/// What attention and its derivative share: shapes, the cut into blocks, and
/// the products and masks of a block of queries and a block of keys. Scores are
/// kept transposed, [keys, queries], a row for each key of the block.
class AttentionBlock {
public:
  /// `scoreBytes`: what the scores of a block should take at most, were they
  /// all kept.
  AttentionBlock(mlir::OpBuilder &builder, mlir::ModuleOp module,
                 const AttentionSpec &spec, const CpuMachine &target,
                 int64_t vectorsPerBlock, int64_t scoreBytes);
  ~AttentionBlock();

  const AttentionSpec &spec;
  mlir::ModuleOp module;
  KernelBuilder kb;
  /// Sizes as in `tfm.attention`.
  int64_t batches, heads, kvHeads, queries, keys, d, e;
  /// Vectors of a register tile, columns of it in elements, and rows.
  int64_t tileVectors, width, tileRows;
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

  /// The kernel, whose buffers are then known, and its scratch.
  mlir::func::FuncOp begin(llvm::StringRef name,
                           llvm::ArrayRef<AttentionBuffer> buffers);

  /// Rows of head `head` of batch `batch` of a [B, heads, rows, width] buffer.
  RowsView head(mlir::Value ptr, mlir::MemRefType type, mlir::Value batch,
                mlir::Value head);
  /// Row `row` of a view, and vectors from a column of a row on.
  mlir::Value rowOf(RowsView view, mlir::Value row);
  mlir::Value load(RowsView view, mlir::Value row, int64_t column,
                   mlir::Value mask = {});
  void store(mlir::Value vector, RowsView view, mlir::Value row, int64_t column,
             mlir::Value mask);
  /// Whether q, k, v and what comes of them are of bf16.
  const bool narrow;
  /// Whether factors of products are pairs of bf16, and whether those meet on
  /// tiles.
  const bool inPairs, onTiles;
  std::unique_ptr<AttentionProducts> products;
  /// Those, where they are of pairs.
  AttentionPanels *panels = nullptr;
  /// Whether blocks of keys, and in the derivative of queries, are copied to
  /// scratch: those of bf16 and i8, of rings, and of long texts. There they lie
  /// densely, in few pages and in all sets of the caches.
  bool copies;
  /// Queries that a copy of a block of keys serves: it takes about a fortieth
  /// of their time, on tiles of four times as many.
  int64_t sharingQueries() const { return onTiles ? 1024 : 256; }

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
  /// Rows of scores in scratch: dropout goes through keys in groups of 64.
  int64_t scoreRows() const {
    return inPanels() ? 2 * keyRows
                      : llvm::alignTo(keyBlock, spec.dropout ? 64 : 1);
  }
  /// Row of scratch of key `s`.
  mlir::Value scoreRow(int64_t offset, mlir::Value s) {
    return kb.at(at(offset), kb.mul(kb.sub(s, k0), block));
  }

  /// The first key of a panel, from `k0` on.
  mlir::Value panelStart(mlir::Value panel);
  /// Of a panel whose first key is `k0 + start`, the first of the block's
  /// queries that sees a key, from `t0` on.
  mlir::Value firstQuery(mlir::Value start);

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

  /// 2 ** x in each lane, relatively within 1.5e-7; 0 of minus infinity.
  mlir::Value powerOfTwo(mlir::Value x);
  /// The number of each query of vector `v` of the block, vector of i32.
  mlir::Value queryNumbers(int64_t v);
  /// Which queries of vector `v` see key `s`, by `causal` and `window`.
  mlir::Value visible(mlir::Value s, int64_t v);
  /// The same, and whether the block sees the key at all.
  mlir::Value seen(mlir::Value s, int64_t v);
  /// Runs `body(check)`, with `check` unless all keys of a panel are there, and
  /// visible to all queries of the block.
  void overPanel(mlir::Value panel, llvm::function_ref<void(bool)> body);
  /// Vector `v` of row `row` of the scores of a panel.
  mlir::Value elementAt(mlir::Value scores, mlir::Value row, int64_t v) {
    return kb.at(kb.at(scores, kb.mul(row, block)), v * kb.lanes);
  }
  /// Whether softmax goes panel by panel: of pairs, but for dropout, which goes
  /// through keys in an order of its own.
  bool inPanels() const { return panels && !spec.dropout; }
  /// Of the scores of two panels, each other one's.
  mlir::Value ofPanel(int64_t offset, mlir::Value panel) {
    return kb.at(at(offset), kb.mul(kb.rem(panel, kb.i64(2)), keyRows * block));
  }
  /// scale * raw, capped.
  mlir::Value capped(mlir::Value raw);
  /// The score the softmax sees: biases added, minus infinity where invisible.
  mlir::Value masked(mlir::Value score, mlir::Value s, int64_t v,
                     bool checkVisible);
  int64_t blockVectors() const { return block / kb.lanes; }
  /// Vectors of queries that a loop over keys makes weights of side by side: a
  /// power of two has eleven constants, and each vector about five values.
  int64_t vectorsTogether;
  /// Runs `body(from, to)` for the vectors of the block, so many at a time.
  void overVectors(llvm::function_ref<void(int64_t, int64_t)> body) const;
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

  /// Lanes of the vector at `column` that lie within `columns`; null: all.
  mlir::Value columnMask(int64_t column, int64_t columns);
};

} // namespace tfm

#endif // TFM_TARGET_CPU_ATTENTIONBLOCK_H
