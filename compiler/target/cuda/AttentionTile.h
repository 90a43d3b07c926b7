//===- AttentionTile.h - tiles of queries and keys --------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_TARGET_CUDA_ATTENTIONTILE_H
#define TFM_TARGET_CUDA_ATTENTIONTILE_H

#include "compiler/schedule/View.h"
#include "compiler/target/cuda/BlockBuilder.h"
#include "compiler/target/emit/AttentionRule.h"

namespace tfm::cuda {

/// An operand or result: where its first element is, and how it lies.
struct Rows {
  mlir::Value pointer;
  View view;
  /// Of what the first element's address is known to be a multiple.
  int64_t alignment = 1;

  bool exists() const { return static_cast<bool>(pointer); }
};

/// Attention over tiles of `size` queries by `size` keys, each of which a block
/// of `size` groups of threads has in shared memory. A group of `group`
/// neighbouring threads has a row of the tile, and a thread of it every
/// `group`th column of whatever is in that row.
class AttentionTile {
public:
  /// `width` is the longer of the rows that `tiles` tiles are made of.
  static int64_t sizeFor(int64_t width, int64_t tiles);
  static constexpr int64_t threads = 256;

  AttentionTile(BlockBuilder &block, const AttentionRule &rule, int64_t size);

  AttentionRule rule;
  Rows q, k, v, mask, start, keyScale, valueScale, distanceBias;
  const int64_t size, group;
  /// This thread's row of a tile, and its number in that row's group.
  mlir::Value row, own;

  int64_t batches() const { return q.view.shape[0]; }
  int64_t heads() const { return q.view.shape[1]; }
  int64_t keyHeads() const { return k.view.shape[1]; }
  int64_t headsPerKey() const { return heads() / keyHeads(); }
  int64_t queries() const { return q.view.shape[2]; }
  int64_t keys() const { return k.view.shape[2]; }
  int64_t width() const { return q.view.shape[3]; }
  int64_t valueWidth() const { return v.view.shape[3]; }
  int64_t queryTiles() const { return tilesOf(queries()); }
  int64_t keyTiles() const { return tilesOf(keys()); }

  /// The query and key head that a pair is of.
  struct Head {
    mlir::Value batch, query, key;
  };

  /// The first element of a head.
  mlir::Value headOf(const Rows &rows, mlir::Value batch, mlir::Value head);

  /// Memory for a tile of rows of that width, and for one of scores.
  mlir::Value allocate(int64_t width);
  mlir::Value allocateScores() { return allocate(size); }

  /// Copies `size` rows from row `first` of a head on to `to`, as f32; rows
  /// from `count` on are not looked at. `ring`: a row lies at its number modulo
  /// that. All threads share the work.
  void load(mlir::Value to, const Rows &rows, mlir::Value head,
            mlir::Value first, mlir::Value count, int64_t ring = 0);

  /// The element of a tile at `row` and `column`.
  mlir::Value at(mlir::Value tile, mlir::Value row, mlir::Value column,
                 int64_t width);

  /// The scores of a row that a thread has: of `scoreColumns` others, `scoreAt`
  /// each. Where a group has more threads than that the last ones have what the
  /// first ones have, too, and do not store it (`storesScores`; null: all do).
  int64_t scoreColumns() const { return std::max<int64_t>(size / group, 1); }
  mlir::Value scoreAt(int64_t number);
  mlir::Value storesScores();
  /// Threads that have all scores of a row together.
  int64_t scoreThreads() const { return std::min(size, group); }

  /// Dot products of row `row` of a tile with those rows of another.
  llvm::SmallVector<mlir::Value> dots(mlir::Value tile, mlir::Value others,
                                      int64_t width);

  /// Adds `weights[row, i]` times row i of `tile` to this thread's columns of a
  /// row, for all i in order.
  llvm::SmallVector<mlir::Value> addRows(mlir::ValueRange sums,
                                         mlir::Value weights, mlir::Value tile,
                                         int64_t width);
  /// Columns of a row of that width that a thread has, the last perhaps beyond
  /// its end.
  int64_t columnsOf(int64_t width) const;
  mlir::Value columnOf(int64_t number) {
    return block.k.add(own, number * group);
  }

  /// What softmax sees of a query and a key.
  struct Score {
    /// Only where the query sees the key.
    mlir::Value value, visible;
    /// The derivative of the soft cap; null without one.
    mlir::Value slope;
  };
  /// Of `product`, their dot product. `query` is the number of the query,
  /// `position` where it is among the keys, `key` the key's position; keys from
  /// `end` on (null: none) are not there. `allVisible`: the query is known to
  /// see the key, so that nothing is asked about it.
  Score score(mlir::Value product, const Head &head, mlir::Value query,
              mlir::Value position, mlir::Value key, mlir::Value end,
              bool allVisible = false);
  /// Whether the mask, where there is one, is of booleans: what a query sees,
  /// not what is added to scores.
  bool hidesByMask() const {
    return mask.exists() && !llvm::isa<mlir::FloatType>(mask.view.element);
  }

  /// What a query and a key contribute to derivatives.
  struct Derivative {
    /// The weight after dropout, and the cotangents of the score that the
    /// softmax sees and of the scaled product.
    mlir::Value weight, dscore, dproduct;
  };
  /// Of a weight before dropout and its cotangent behind it; `inner` is the
  /// query's dout . out, and `kept` null without dropout.
  Derivative derive(const Score &score, mlir::Value weight, mlir::Value dweight,
                    mlir::Value inner, mlir::Value kept);

  /// 1 / (1 - rate) where dropout keeps the weight, and 0 elsewhere; null
  /// without dropout.
  mlir::Value kept(const Head &head, mlir::Value query, mlir::Value key);

  /// An f32 of [B, heads, T] at a query.
  mlir::Value perQuery(const Rows &rows, const Head &head, mlir::Value query);
  /// The logarithm of a query's sum. That of one that sees no key, minus
  /// infinity, is finite here: its scores are all less.
  mlir::Value finiteLog(mlir::Value log);

  /// Stores this thread's columns of a row of `rows`, times `factor`, where
  /// `exists` holds (null: always).
  void storeRow(const Rows &rows, mlir::Value head, mlir::Value number,
                mlir::ValueRange values, mlir::Value factor,
                mlir::Value exists);

  mlir::Value exp(mlir::Value x);

private:
  int64_t tilesOf(int64_t rows) const { return (rows + size - 1) / size; }
  static int64_t strideOf(int64_t width) { return width | 1; }

  BlockBuilder &block;
  KernelBuilder &kb;
};

} // namespace tfm::cuda

#endif // TFM_TARGET_CUDA_ATTENTIONTILE_H
