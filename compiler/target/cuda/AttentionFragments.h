//===- AttentionFragments.h - attention on tensor cores ---------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_TARGET_CUDA_ATTENTIONFRAGMENTS_H
#define TFM_TARGET_CUDA_ATTENTIONFRAGMENTS_H

#include "compiler/target/cuda/AttentionTile.h"
#include "compiler/target/cuda/StagedOperand.h"

namespace tfm::cuda {

/// What both directions of attention on tensor cores share. A block has a tile
/// of `tileSize` rows, 16 of each of its warps, and walks over tiles of as many
/// columns, which come through shared memory; one of both are queries, the
/// other keys. Scores are in fragments of 16 by 8 (PTX ISA, "Matrix Fragments
/// for mma.m16n8k16"): of each a thread has the columns 2 (lane % 4) and the
/// one after it of the rows lane / 4 and lane / 4 + 8.
class AttentionFragments {
public:
  /// As many as dropout draws at once.
  static constexpr int64_t tileSize = 64;
  static constexpr int64_t tilesOf(int64_t rows) {
    return (rows + tileSize - 1) / tileSize;
  }
  /// Rows of all heads as an operand, whose terms are these rows or the
  /// elements of each.
  static ProductOperand operandOf(const Rows &rows, bool rowsAreTerms);

protected:
  static constexpr int64_t warpRows = 16, fragmentColumns = 8;
  static constexpr int64_t threads = tileSize / warpRows * warpSize;
  /// Of a fragment a thread has so many rows, and columns of each.
  static constexpr int64_t rowsOfThread = 2, ofRow = 2,
                           ofFragment = rowsOfThread * ofRow;
  /// The number of an element of this thread: fragment, row, and which of two.
  static size_t at(int64_t fragment, int64_t row, int64_t which) {
    return static_cast<size_t>((fragment * rowsOfThread + row) * ofRow + which);
  }
  /// Elements of a thread in rows of that width.
  static int64_t elementsOf(int64_t width) {
    return width / fragmentColumns * ofFragment;
  }

  AttentionFragments(mlir::ModuleOp module, llvm::StringRef name,
                     sched::LaunchOp launch, const AttentionRule &rule,
                     const Grid &grid);
  /// Where nothing is added to scaled products, scores are products, and a
  /// `power` has the scale. To be called when `tile` has all that is read.
  void leaveUnscaled();

  /// Rows of a head, `pointer`, on their way to a product, whose terms are
  /// these rows or the elements of each.
  /// From row `end` on (null: nowhere) they count as zeros.
  StagedOperand staged(const Rows &rows, mlir::Value pointer, bool rowsAreTerms,
                       mlir::Value end = {});
  static int64_t tileBytes(const Rows &rows) {
    return tileSize * rows.view.shape[3] * 2;
  }
  /// Begins to bring the tile from row `first` on, with zeros from row `end` on
  /// (null: nowhere).
  void loadTile(const Rows &rows, mlir::Value head, mlir::Value first,
                mlir::Value to, mlir::Value end = {});

  using Load = llvm::function_ref<void(mlir::Value stage, mlir::Value first)>;
  using Visit = llvm::function_ref<llvm::SmallVector<mlir::Value>(
      mlir::Value stage, mlir::Value first, mlir::ValueRange before)>;
  /// Visits the tiles of columns from `first`, a multiple of a tile, to `end`,
  /// each of which `load` brings to one of two stages while the one before it
  /// is visited.
  llvm::SmallVector<mlir::Value> walk(mlir::Value first, mlir::Value end,
                                      mlir::Value stages, int64_t stageBytes,
                                      mlir::ValueRange init, Load load,
                                      Visit visit);

  /// Adds the product of a fragment of 16 by 16 with another to two fragments
  /// of sums.
  void multiply(mlir::ValueRange x, mlir::ValueRange y,
                llvm::MutableArrayRef<mlir::Value> sums);
  /// Two fragments side by side, rounded to bf16, as a factor.
  llvm::SmallVector<mlir::Value> factorOf(mlir::ValueRange values);

  mlir::Value positionOf(mlir::Value query) {
    return start ? k.add(start, query) : query;
  }
  /// In a cache whatever lies behind the last query may be NaN, too: where keys
  /// and values count as zeros; null: nowhere.
  mlir::Value endOfCache();
  /// The keys that queries from `firstQuery` on, of a tile, may see: from a
  /// multiple of a tile on.
  std::pair<mlir::Value, mlir::Value> keysOf(mlir::Value firstQuery);
  /// Where keys have to be looked at for their number; null: nowhere.
  mlir::Value endOfKeys() {
    return tile.keys() % tileSize ? k.i64(tile.keys()) : mlir::Value();
  }
  using Pairs =
      llvm::function_ref<llvm::SmallVector<mlir::Value>(bool allVisible)>;
  /// What `visit` makes of a tile of queries and one of keys; where each of the
  /// former sees each of the latter, without asking about it.
  llvm::SmallVector<mlir::Value> visitPairs(mlir::Value firstQuery,
                                            mlir::Value firstKey, Pairs visit);

  mlir::Value inBytes(mlir::Value pointer, int64_t bytes) {
    return k.at(pointer, bytes, k.b.getI8Type());
  }
  /// Two fragments of values side by side.
  static llvm::MutableArrayRef<mlir::Value>
  pairOf(llvm::MutableArrayRef<mlir::Value> values, int64_t number) {
    return values.slice(static_cast<size_t>(number * 2 * ofFragment),
                        2 * ofFragment);
  }

  /// This thread's row of a tile, and its column of one.
  mlir::Value rowOf(int64_t row);
  mlir::Value columnOf(int64_t fragment, int64_t which);

  /// Bytes of what `drawKept` stores.
  static constexpr int64_t keptBytes = 2 * tileSize * 4;
  /// Draws which weights of a tile dropout keeps, by all threads together: of
  /// each query two words, of the keys whose numbers modulo 16 are below 8 and
  /// of the others. Four neighbouring bits are of keys that lie 16 apart.
  void drawKept(mlir::Value to, const AttentionTile::Head &head,
                mlir::Value firstQuery, mlir::Value firstKey);
  /// What was drawn for a query, from this thread's first bit on: where rows
  /// are queries of its columns from the `step`th 16 on, else of its rows.
  using Kept = std::array<mlir::Value, 2>;
  Kept keptOfRow(mlir::Value drawn, int64_t row, mlir::Value step);
  Kept keptOfColumn(mlir::Value drawn, mlir::Value column);
  /// Whether the weight of a key is kept.
  mlir::Value keepsColumn(const Kept &kept, int64_t fragment, int64_t which) {
    return keeps(kept[fragment % 2], 4 * which + fragment / 2);
  }
  mlir::Value keepsRow(const Kept &kept, int64_t row) {
    return keeps(kept[row], 0);
  }
  /// What dropout multiplies weights with that it keeps; 1 without.
  double keptFactor() const {
    return tile.rule.dropout ? 1.0 / (1.0 - *tile.rule.dropout) : 1.0;
  }

  /// x / ln 2 of a score or a logarithm of sums: what e has to that power 2 has
  /// to this.
  mlir::Value binary(mlir::Value x, double unit = 1.0);
  /// e ** (score - base), where `base` is in `binary` form, as the hardware has
  /// it (PTX ISA, ex2.approx): within 2 ** -22 and what rounds its argument,
  /// relative, and 0 of -infinity.
  mlir::Value power(mlir::Value score, mlir::Value base);

  /// Stores this thread's elements of the rows from `first` on of a head, each
  /// times the factor of its row.
  void storeRows(const Rows &rows, mlir::Value head, mlir::Value first,
                 mlir::ValueRange elements,
                 llvm::ArrayRef<mlir::Value> factors);

private:
  Kept keptFrom(mlir::Value drawn, mlir::Value query, mlir::Value firstBit);
  mlir::Value keeps(mlir::Value word, int64_t bit);

protected:
  BlockBuilder block;
  KernelBuilder &k;
  AttentionTile tile;
  /// The position of the first query among the keys; null: 0.
  mlir::Value start;
  /// Of the model, where `tile.rule` has 1 since `leaveUnscaled`.
  const double scale;
  /// What a score of 1 is.
  double unit = 1.0;
  /// The first row of a tile that this thread's warp has.
  mlir::Value lane, warpRow;
};

} // namespace tfm::cuda

#endif // TFM_TARGET_CUDA_ATTENTIONFRAGMENTS_H
