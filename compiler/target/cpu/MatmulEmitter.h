//===- MatmulEmitter.h - emits the kernel of a product ----------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_TARGET_CPU_MATMULEMITTER_H
#define TFM_TARGET_CPU_MATMULEMITTER_H

#include "compiler/target/cpu/CpuMachine.h"
#include "compiler/target/cpu/MatmulPlan.h"
#include "compiler/target/cpu/MicroKernel.h"
#include "compiler/target/cpu/Packing.h"
#include "compiler/target/cpu/ProductKernel.h"
#include "compiler/target/cpu/TileKernel.h"
#include "llvm/Support/MathExtras.h"
#include <algorithm>

namespace tfm {

/// Emits the kernel of one product; members are what its parts share. Those of
/// packing are in MatmulPanels.cpp, those of prefetching in MatmulAhead.cpp.
class MatmulEmitter : ProductKernel {
public:
  MatmulEmitter(mlir::OpBuilder &builder, mlir::ModuleOp module,
                const MatmulSpec &spec, const ProductOperands &operands,
                const CpuMachine &target, const MatmulPlan &plan)
      : ProductKernel(builder, module, spec, operands, target), plan(plan),
        vectors(plan.tileVectors), width(vectors * target.lanes),
        perSlot(elementsPerSlot(plan.terms)) {}

  /// Nothing where the plan reads an operand where it cannot be read.
  std::optional<Kernel> emit(llvm::StringRef name);

private:
  using Value = mlir::Value;

  /// Row panels count from `p0`, those of sums from `s0`, those of B from `q0`
  /// to `end`.
  struct Block {
    Value s0, p0, q0, end, k0, depth;
  };
  /// Row panel `p` by column panel `q`, of a block.
  struct Tile {
    Tile(Value p, Value q, const Block &block) : p(p), q(q), block(block) {}

    Value p, q;
    const Block &block;
    /// Where it begins in C.
    Value row, column;
    /// What micro-kernels take.
    Value a, aStride, b, bStride, c, cStride, slots, accumulate;
    ALayout layout = ALayout::Columns;
    /// What they prefetch: of matrices that are read or written once the tile
    /// is finished, and of B.
    llvm::SmallVector<Value> matrices, next;
  };

  const MatmulPlan &plan;
  const int64_t vectors, width, perSlot;

  /// Whether tiles go through scratch on their way to C.
  bool throughTile = false;
  bool blockedDepth = false;
  bool rowsOfA = false, rowsOfB = false;
  /// Whether a panel of B is packed right before its only use, while what will
  /// be the next one is prefetched; by the first tiles of its use if `copiesB`.
  bool byPanel = false, copiesB = false;
  int64_t tallPanels = 0;
  /// In slots: strides of packed panels of A per k, and lengths of panels and
  /// tiles.
  int64_t aPanelStride = 0, aPanel = 0, bPanel = 0, tileLength = 0;
  /// Tiles below each other in a panel of A; 0 where sums are in vectors.
  int64_t rowTiles = 0;
  /// Where the parts of scratch begin.
  Value tiles, packedA, packedB;
  /// What is to be taken off the sums of each row, where B is offset.
  Value offsets;

  /// Of a panel of B for tiles, whose halves have 16 columns each.
  int64_t halfOfB() const { return bPanel / 2; }
  /// Whether what becomes of sums on tiles is computed beside the next tile's
  /// products.
  bool storesBeside() const { return rowTiles > 0 && throughTile; }
  /// From a row of sums that go through scratch to the next.
  int64_t sumsStride() const {
    return plan.sumsInFewSets ? pageBytes / slotBytes : width;
  }

  /// Whether the plan reads operands where they can be read.
  bool canRead() const;
  /// What becomes of the plan: false where it cannot be followed.
  bool layOut();
  void layOutTiles(int64_t depth);
  void shareAndLoop();
  void blocks(Value rowFrom, Value rowTo, Value columnFrom, Value columnTo);
  void tile(Value p, Value q, const Block &block);
  Tile operandsOf(Value p, Value q, const Block &block);
  /// Calls micro-kernels of so many rows, as wide as the tile's columns are.
  void runRows(const Tile &tile, int64_t rows);
  void runMicroKernel(const Tile &tile, int64_t rows, int64_t tileVectors);
  void runOnTiles(const Tile &tile);
  void findOffsets(Value rowFrom, Value rowTo);
  /// Where the sums of a tile are that go through scratch.
  Value sumsAt(Value p, Value q, const Block &block);
  /// Whether no terms come behind a block's.
  Value isLast(const Block &block);
  void store(Value p, Value q, Value source);
  void storeRow(Value p, Value q, Value source, Value row);

  //===--------------------------------------------------------------------===//
  // Panels (MatmulPanels.cpp)
  //===--------------------------------------------------------------------===//

  Value rowStart(Value panel);
  Value rowCount(Value panel);
  /// Where the terms of a column of B from `k0` on lie: of 4 bits those of
  /// whole groups.
  Value bAt(Value k0, Value column);
  Packing packing(const Matrix &operand) const;
  void packPanelsOfA(Value from, Value to, Value k0, Value depth);
  void packTilesOfA(Value from, Value to, Value k0, Value depth);
  void packPanelsOfB(Value from, Value to, Value k0, Value depth);
  /// Zeros where the last step of tiles reads more slots than there are: what
  /// stands there is multiplied by zeros of A, and may be NaN.
  void clearTailOfB(Value from, Value to, Value depth);
  void inGroups(Value from, Value to,
                llvm::function_ref<void(Value, Value)> pack);

  //===--------------------------------------------------------------------===//
  // What is fetched before its use (MatmulAhead.cpp)
  //===--------------------------------------------------------------------===//

  /// Cache lines of the next panel of B (`byPanel`), or of the next one in
  /// memory or of those that are packed, that a tile prefetches at a time; and
  /// whether they follow each other through all of its columns.
  int64_t linesAhead = 0;
  bool lineByLine = false;
  /// What is read and written once a tile is finished, each as rows of
  /// elements `row` apart, and so is prefetched beside its sums.
  struct Ahead {
    unsigned argument;
    mlir::Type element;
    int64_t row;
  };
  llvm::SmallVector<Ahead> matricesAhead;
  /// Whether instead of those the tile's sums are, of a part of the depth:
  /// those of other tiles have pushed them out since the part before.
  bool sumsAhead = false;
  /// Cache lines of a row of A, where its next panel is first of those.
  int64_t linesOfA = 0;

  static int64_t bytesOf(const Matrix &operand) {
    return operand.element.getIntOrFloatBitWidth() / 8;
  }
  /// Cache lines of a packed panel of B.
  int64_t linesOfPanel() const { return bPanel * 4 / cacheLine; }
  /// How often a tile of all of k prefetches.
  int64_t turnsOfTile() const {
    return plan.depth / (perSlot * prefetchedEvery);
  }

  /// What register tiles prefetch beside their sums.
  void lookAhead();
  void findMatricesAhead();
  llvm::SmallVector<Value> matricesOf(const Tile &tile);
  llvm::SmallVector<Value> nextOf(const Tile &tile);
  /// What the micro-kernel prefetches of panel `next` of B, of `depth` terms
  /// from `k0` on, beside the tile of this number in its column: nothing from
  /// panel `to` on.
  llvm::SmallVector<Value> nextOfB(Value number, Value next, Value to, Value k0,
                                   Value depth);
  /// What is fetched beside a step of a tile, whose B begins at `b`.
  void fetchBeside(const Tile &tile, Value step, Value b);
};

} // namespace tfm

#endif // TFM_TARGET_CPU_MATMULEMITTER_H
