//===- Matmul.cpp - matrix products with fused epilogues ------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/target/cpu/Matmul.h"
#include "compiler/target/cpu/CpuMachine.h"
#include "compiler/target/cpu/MatmulPlan.h"
#include "compiler/target/cpu/MicroKernel.h"
#include "compiler/target/cpu/Packing.h"
#include "compiler/target/cpu/ProductKernel.h"
#include "compiler/target/cpu/TileKernel.h"
#include "runtime/tfm_model.h"
#include "llvm/Support/MathExtras.h"
#include <algorithm>

using namespace mlir;
using namespace tfm;

namespace {

/// Emits one kernel; members are what its parts share.
class MatmulEmitter : ProductKernel {
public:
  MatmulEmitter(OpBuilder &builder, ModuleOp module, const MatmulSpec &spec,
                const ProductOperands &operands, const CpuMachine &target,
                const MatmulPlan &plan)
      : ProductKernel(builder, module, spec, operands, target), plan(plan),
        vectors(plan.tileVectors), width(vectors * target.lanes),
        perSlot(elementsPerSlot(plan.terms)) {}

  /// Nothing where the plan reads an operand where it cannot be read.
  std::optional<Kernel> emit(StringRef name);

private:
  const MatmulPlan &plan;
  const int64_t vectors, width, perSlot;

  /// Whether tiles go through scratch on their way to C.
  bool throughTile = false;
  bool blockedDepth = false;
  bool rowsOfA = false, rowsOfB = false;
  /// Whether a panel of B is packed right before its only use, while what will
  /// be the next one is prefetched; by the first tiles of its use if `copiesB`.
  bool byPanel = false, copiesB = false;
  /// Cache lines of that next panel, or of the next one in memory or of those
  /// that are packed, that a tile prefetches at a time; and whether they follow
  /// each other through all of its columns.
  int64_t linesAhead = 0;
  bool lineByLine = false;
  /// What is read and written once a tile is finished, each as rows of
  /// elements `row` apart, and so is prefetched beside its sums.
  struct Ahead {
    unsigned argument;
    Type element;
    int64_t row;
  };
  SmallVector<Ahead> matricesAhead;
  /// Whether instead of those the tile's sums are, of a part of the depth:
  /// those of other tiles have pushed them out since the part before.
  bool sumsAhead = false;
  /// Cache lines of a row of A, where its next panel is first of those.
  int64_t linesOfA = 0;
  int64_t tallPanels = 0;
  /// In slots: strides of packed panels of A per k, and lengths of panels and
  /// tiles.
  int64_t aPanelStride = 0, aPanel = 0, bPanel = 0, tileLength = 0;
  /// Tiles below each other in a panel of A; 0 where sums are in vectors.
  int64_t rowTiles = 0;
  /// Of a panel of B for tiles, whose halves have 16 columns each.
  int64_t halfOfB() const { return bPanel / 2; }
  /// Whether what becomes of sums on tiles is computed beside the next tile's
  /// products.
  bool storesBeside() const { return rowTiles > 0 && throughTile; }
  /// From a row of sums that go through scratch to the next.
  int64_t sumsStride() const {
    return plan.sumsInFewSets ? pageBytes / slotBytes : width;
  }
  /// Where the parts of scratch begin.
  Value tiles, packedA, packedB;
  /// What is to be taken off the sums of each row, where B is offset.
  Value offsets;

  /// Whether the plan reads operands where they can be read.
  bool canRead() const;
  /// What becomes of the plan: false where it cannot be followed.
  bool layOut();
  void layOutTiles(int64_t depth);
  /// What register tiles prefetch beside their sums.
  void lookAhead();
  static int64_t bytesOf(const Matrix &operand) {
    return operand.element.getIntOrFloatBitWidth() / 8;
  }
  Packing packing(const Matrix &operand) const;
  void shareAndLoop();
  void blocks(Value rowFrom, Value rowTo, Value columnFrom, Value columnTo);
  void inGroups(Value from, Value to, function_ref<void(Value, Value)> pack);
  void packPanelsOfA(Value from, Value to, Value k0, Value depth);
  void packTilesOfA(Value from, Value to, Value k0, Value depth);
  void packPanelsOfB(Value from, Value to, Value k0, Value depth);
  /// Zeros where the last step of tiles reads more slots than there are: what
  /// stands there is multiplied by zeros of A, and may be NaN.
  void clearTailOfB(Value from, Value to, Value depth);
  /// What the micro-kernel prefetches of panel `next` of B, of `depth` terms
  /// from `k0` on, beside the tile of this number in its column: nothing from
  /// panel `to` on.
  SmallVector<Value> nextOfB(Value number, Value next, Value to, Value k0,
                             Value depth);
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
    SmallVector<Value> matrices, next;
  };
  void tile(Value p, Value q, const Block &block);
  Tile operandsOf(Value p, Value q, const Block &block);
  SmallVector<Value> nextOf(const Tile &tile);
  SmallVector<Value> matricesOf(const Tile &tile);
  /// Calls micro-kernels of so many rows, as wide as the tile's columns are.
  void runRows(const Tile &tile, int64_t rows);
  void runMicroKernel(const Tile &tile, int64_t rows, int64_t tileVectors);
  void runOnTiles(const Tile &tile);
  /// What is fetched beside a step of a tile, whose B begins at `b`.
  void fetchBeside(const Tile &tile, Value step, Value b);
  /// Where the sums of a tile are that go through scratch.
  Value sumsAt(Value p, Value q, const Block &block);
  /// Whether no terms come behind a block's.
  Value isLast(const Block &block);
  void store(Value p, Value q, Value source);
  void storeRow(Value p, Value q, Value source, Value row);
  /// Cache lines of a packed panel of B.
  int64_t linesOfPanel() const { return bPanel * 4 / cacheLine; }
  /// How often a tile of all of k prefetches.
  int64_t turnsOfTile() const {
    return plan.depth / (perSlot * prefetchedEvery);
  }
  void findOffsets(Value rowFrom, Value rowTo);
  void findMatricesAhead();
  /// Where the terms of a column of B from `k0` on lie: of 4 bits those of
  /// whole groups.
  Value bAt(Value k0, Value column) {
    return b.at(kb, bBase, spec.isGrouped() ? kb.div(k0, 2) : k0, column);
  }
  Value rowStart(Value panel);
  Value rowCount(Value panel);
};

} // namespace

bool MatmulEmitter::canRead() const {
  bool inQuads = areQuads(plan.terms);
  if (inQuads && (!rowsOfA || b.row != (spec.inPanels ? width : 1)))
    return false;
  if (spec.inPanels)
    return inQuads && (plan.packA || canReadA(spec, plan.terms, a));
  return (plan.packA || canReadA(spec, plan.terms, a)) &&
         (plan.packB || canReadB(spec, plan.terms, b, kb.lanes));
}

bool MatmulEmitter::layOut() {
  rowsOfA = a.column == 1;
  // Quads are made of columns alone.
  rowsOfB = b.column == 1 && !areQuads(plan.terms);
  if (!canRead())
    return false;
  assert((plan.terms != Terms::F32TimesBf16 || !plan.packB) &&
         "panels of single elements are f32");
  blockedDepth = plan.depth < spec.k;
  throughTile = !storesSums(spec, plan.terms, kb.lanes);
  tallPanels = spec.m - plan.rowPanels * (plan.tileRows - 1);
  int64_t depth = llvm::divideCeil(plan.depth, perSlot);
  bPanel = packedLength(depth, width, 0, kb.lanes);
  if (plan.terms == Terms::Bf16Tiles) {
    layOutTiles(depth);
    return true;
  }
  aPanelStride = plan.tileRows <= kb.lanes
                     ? plan.tileRows
                     : llvm::alignTo(plan.tileRows, kb.lanes);
  aPanel = packedLength(depth, aPanelStride, kb.lanes, kb.lanes);
  tileLength = plan.tileRows * width;
  // With one panel for each thread there is nothing to look ahead to.
  byPanel = plan.packB && !plan.alongRows && plan.rowBlock == plan.rowPanels &&
            plan.columnPanels > 2;
  Packing packs = packing(b);
  copiesB = byPanel && rowsOfB && spec.n >= width && !packs.rounds &&
            !packs.pairs && packs.from != Packing::From::I8;
  lookAhead();
  return true;
}

void MatmulEmitter::layOutTiles(int64_t depth) {
  assert(width == 2 * tileSide && plan.depth % tileDepth * blockedDepth == 0);
  rowTiles = llvm::divideCeil(plan.tileRows, tileSide);
  aPanel = rowTiles * tileSide * llvm::alignTo(depth, tileSide);
  tileLength = rowTiles * tileSide * width;
  // Whole tiles are stored.
  throughTile |= plan.tileRows != rowTiles * tileSide ||
                 tallPanels != plan.rowPanels || spec.n % width != 0;
  findMatricesAhead();
}

void MatmulEmitter::lookAhead() {
  // Panels that lie in memory are fetched ahead in every turn instead.
  sumsAhead = blockedDepth && !byPanel && !plan.alongRows && !spec.inPanels;
  if (plan.fetchesA)
    linesOfA = llvm::divideCeil(spec.k * bytesOf(a), cacheLine);
  if (plan.alongRows || plan.fetchesA || (plan.fetchesPacked && !blockedDepth))
    findMatricesAhead();
  int64_t turns = std::max<int64_t>(turnsOfTile(), 1);
  if (plan.fetchesPacked) {
    linesAhead = llvm::divideCeil(linesOfPanel(), plan.rowBlock * turns);
    return;
  }
  if (!byPanel && !spec.inPanels)
    return;
  linesAhead = 2;
  // With too few tiles for its columns, a panel is read from end to end, and
  // so is one that lies in memory.
  lineByLine = spec.inPanels ||
               (!rowsOfB && throughTile && !blockedDepth &&
                b.column == spec.k && plan.rowPanels * linesAhead < width);
  if (lineByLine)
    linesAhead =
        std::min<int64_t>(llvm::divideCeil(width * plan.depth * bytesOf(b),
                                           cacheLine * plan.rowPanels * turns),
                          spec.inPanels ? 16 : 8);
  else
    findMatricesAhead();
}

void MatmulEmitter::findMatricesAhead() {
  // Where a tile goes by itself, and of an epilogue what it reads and writes
  // where it is, one product at a time.
  constexpr size_t most = 3;
  SmallVector<Type> types(spec.reads);
  if (spec.c)
    types.push_back(spec.c);
  llvm::append_range(types, spec.writes);
  if (spec.batches() > 1 && spec.epilogue)
    return;
  for (auto [i, type] : llvm::enumerate(types)) {
    auto buffer = cast<MemRefType>(type);
    std::optional<Matrix> matrix = Matrix::of(buffer, /*transposed=*/false);
    // Of what all rows have in common nothing has to be fetched.
    if (!matrix || matrix->column != 1 || matrix->row == 0 ||
        buffer.getShape().back() != spec.n ||
        buffer.getNumElements() != spec.batches() * spec.m * spec.n)
      continue;
    // Rows of all leading axes, that one stride walks.
    if (spec.batches() == 1) {
      int64_t rows = buffer.getDimSize(buffer.getRank() - 2),
              stride = matrix->row;
      if (rows == 1 ||
          !llvm::all_of(llvm::reverse(llvm::zip_equal(
                            matrix->batch, buffer.getShape().drop_back(2))),
                        [&](auto axis) {
                          auto [step, size] = axis;
                          bool follows = size == 1 || step == rows * stride;
                          rows *= size;
                          return follows;
                        }))
        continue;
    }
    if (matricesAhead.size() < most)
      matricesAhead.push_back({spec.operands() + static_cast<unsigned>(i),
                               matrix->element, matrix->row});
  }
}

Packing MatmulEmitter::packing(const Matrix &operand) const {
  Packing packing;
  packing.from = Packing::fromType(operand.element);
  // Integers of 8 bits are exact in bf16.
  packing.rounds = spec.isBf16() && packing.from == Packing::From::F32;
  packing.pairs = perSlot == 2;
  packing.quads = perSlot == 4;
  packing.offset = packing.quads && &operand == &b;
  return packing;
}

Value MatmulEmitter::rowStart(Value panel) {
  // The first `tallPanels` panels have `tileRows` rows, the others one less.
  Value start = kb.mul(panel, plan.tileRows);
  if (tallPanels == plan.rowPanels)
    return start;
  return kb.sub(start, kb.max(kb.i64(0), kb.sub(panel, kb.i64(tallPanels))));
}

Value MatmulEmitter::rowCount(Value panel) {
  Value tall = kb.i64(plan.tileRows);
  if (tallPanels == plan.rowPanels)
    return tall;
  return kb.select(kb.less(panel, kb.i64(tallPanels)), tall,
                   kb.i64(plan.tileRows - 1));
}

std::optional<Kernel> MatmulEmitter::emit(StringRef name) {
  assert(spec.accumulator.getIntOrFloatBitWidth() == 32 &&
         "no micro-kernel adds up in it");
  if (!layOut())
    return std::nullopt;
  int64_t tileSlots = 0;
  if (throughTile)
    tileSlots = blockedDepth         ? plan.rowsOfSums * plan.columnBlock
                : plan.sumsInFewSets ? sumsStride() / width
                : storesBeside()     ? 2
                                     : 1;
  int64_t panelsOfB = byPanel ? 1 : plan.columnBlock;
  int64_t lengths[] = {
      static_cast<int64_t>(llvm::alignTo(tileSlots * tileLength, 16)),
      static_cast<int64_t>(
          llvm::alignTo(plan.packA ? plan.rowBlock * aPanel : 0, 16)),
      static_cast<int64_t>(
          llvm::alignTo(plan.packB ? panelsOfB * bPanel : 0, 16)),
      plan.terms == Terms::I8Quads ? spec.m : 0};
  int64_t scratchBytes = (lengths[0] + lengths[1] + lengths[2] + lengths[3]) *
                         spec.accumulator.getIntOrFloatBitWidth() / 8;

  OpBuilder::InsertionGuard guard(kb.b);
  tiles = begin(name, scratchBytes);
  packedA = kb.at(tiles, lengths[0]);
  packedB = kb.at(packedA, lengths[1]);
  offsets = kb.at(packedB, lengths[2]);
  if (plan.serial)
    kb.ifThen(kb.equal(kb.toI64(KernelArguments(kernel).thread), kb.i64(0)),
              [&] { shareAndLoop(); });
  else
    shareAndLoop();
  return Kernel{kernel, scratchBytes};
}

void MatmulEmitter::shareAndLoop() {
  KernelArguments arguments(kernel);
  Value thread = plan.serial ? kb.i64(0) : kb.toI64(arguments.thread);
  Value threads = plan.serial ? kb.i64(1) : kb.toI64(arguments.threads);
  Value batchFrom = kb.i64(0), batchTo = kb.i64(spec.batches());
  if (spec.batches() > 1 && !plan.serial) {
    // Groups of threads share the batches; a group's threads share a product.
    Value groups = kb.min(threads, kb.i64(spec.batches()));
    Value groupSize = kb.div(threads, groups);
    Value group = kb.div(thread, groupSize);
    Value inGroup = kb.less(group, groups);
    std::tie(batchFrom, batchTo) =
        kb.share(kb.i64(spec.batches()), group, groups);
    batchTo = kb.select(inGroup, batchTo, batchFrom);
    thread = kb.rem(thread, groupSize);
    threads = groupSize;
  }
  Value rows = kb.i64(plan.rowPanels), columns = kb.i64(plan.columnPanels);
  Value rowFrom = kb.i64(0), rowTo = rows, columnFrom = kb.i64(0),
        columnTo = columns;
  if (!plan.serial) {
    Value rowThreads, columnThreads;
    if (plan.splitColumns) {
      columnThreads = kb.min(threads, columns);
      rowThreads = kb.min(kb.div(threads, columnThreads), rows);
    } else {
      rowThreads = kb.min(threads, rows);
      columnThreads = kb.min(kb.div(threads, rowThreads), columns);
    }
    Value rowThread = kb.rem(thread, rowThreads);
    Value columnThread = kb.div(thread, rowThreads);
    std::tie(rowFrom, rowTo) = kb.share(rows, rowThread, rowThreads);
    std::tie(columnFrom, columnTo) =
        kb.share(columns, columnThread, columnThreads);
    // Threads beyond the grid have nothing to do.
    rowTo = kb.select(kb.less(columnThread, columnThreads), rowTo, rowFrom);
  }

  auto oneBatch = [&](Value batch) {
    enterBatch(batch);
    if (plan.terms == Terms::I8Quads)
      findOffsets(rowStart(rowFrom), rowStart(rowTo));
    blocks(rowFrom, rowTo, columnFrom, columnTo);
  };
  if (spec.batch.empty())
    oneBatch(kb.i64(0));
  else
    kb.loop(batchFrom, batchTo, 1, oneBatch);
}

void MatmulEmitter::blocks(Value rowFrom, Value rowTo, Value columnFrom,
                           Value columnTo) {
  Value zero = kb.i64(0), whole = kb.i64(spec.k);
  // Where all rows fit in one block, A is packed once, before everything.
  bool packAOnce = plan.packA && !plan.alongRows && !blockedDepth &&
                   plan.rowBlock >= plan.rowPanels;
  if (packAOnce)
    kb.ifThen(kb.less(columnFrom, columnTo),
              [&] { packPanelsOfA(rowFrom, rowTo, zero, whole); });
  // Blocks as equal as possible: each goes over all of A.
  Value columns = kb.sub(columnTo, columnFrom);
  Value columnBlocks =
      kb.div(kb.add(columns, plan.columnBlock - 1), plan.columnBlock);
  kb.loop(zero, columnBlocks, 1, [&](Value number) {
    auto [first, end] = kb.share(columns, number, columnBlocks);
    Value q0 = kb.add(columnFrom, first), q1 = kb.add(columnFrom, end);
    if (plan.packB && !byPanel && !blockedDepth)
      kb.ifThen(kb.less(rowFrom, rowTo),
                [&] { packPanelsOfB(q0, q1, zero, whole); });
    kb.loop(rowFrom, rowTo, plan.rowsOfSums, [&](Value s0) {
      Value s1 = kb.min(kb.add(s0, plan.rowsOfSums), rowTo);
      auto part = [&](Value k0) {
        Value depth = blockedDepth
                          ? kb.min(kb.i64(plan.depth), kb.sub(whole, k0))
                          : whole;
        if (plan.packB && !byPanel && blockedDepth)
          packPanelsOfB(q0, q1, k0, depth);
        kb.loop(s0, s1, plan.rowBlock, [&](Value p0) {
          Value p1 = kb.min(kb.add(p0, plan.rowBlock), s1);
          if (plan.packA && !packAOnce)
            packPanelsOfA(p0, p1, k0, depth);
          Value end = blockedDepth || plan.fetchesPacked ? q1 : columnTo;
          Block now{s0, p0, q0, end, k0, depth};
          kb.loop(q0, q1, 1, [&](Value q) {
            auto pack = [&] { packPanelsOfB(q, kb.add(q, 1), k0, depth); };
            if (copiesB && spec.n % width != 0)
              kb.ifThen(kb.equal(q, kb.i64(plan.columnPanels - 1)), pack);
            else if (byPanel && !copiesB)
              pack();
            kb.loop(p0, p1, 1, [&](Value p) { tile(p, q, now); });
          });
          if (storesBeside())
            kb.ifThen(isLast(now), [&] {
              Value last = kb.sub(q1, kb.i64(1));
              store(p0, last, sumsAt(p0, last, now));
            });
        });
      };
      if (blockedDepth)
        kb.loop(zero, whole, plan.depth, part);
      else
        part(zero);
    });
  });
}

void MatmulEmitter::packPanelsOfA(Value from, Value to, Value k0, Value depth) {
  if (rowTiles > 0)
    return packTilesOfA(from, to, k0, depth);
  Value stride = kb.i64(aPanelStride);
  if (!rowsOfA) {
    // The panels of [from, to) that have `rows` rows.
    auto pack = [&](Value from, Value to, int64_t rows, Value first) {
      inGroups(from, to, [&](Value p, Value panels) {
        Value source = a.at(kb, aBase, rowStart(p), k0);
        kb.call(
            packRows(kb, llvm::divideCeil(plan.tileRows, kb.lanes), packing(a)),
            {source, kb.i64(a.column), depth, kb.i64(rows),
             kb.at(packedA, kb.mul(kb.sub(p, first), aPanel)), stride, panels,
             kb.i64(aPanel)});
      });
    };
    if (tallPanels == plan.rowPanels)
      return pack(from, to, plan.tileRows, from);
    Value middle = kb.max(from, kb.min(to, kb.i64(tallPanels)));
    pack(from, middle, plan.tileRows, from);
    pack(middle, to, plan.tileRows - 1, from);
    return;
  }
  kb.loop(from, to, 1, [&](Value p) {
    Value panel = kb.at(packedA, kb.mul(kb.sub(p, from), aPanel));
    Value rows = rowCount(p);
    Value source = a.at(kb, aBase, rowStart(p), k0);
    for (int64_t first = 0; first < plan.tileRows; first += kb.lanes) {
      Value rest = kb.sub(rows, kb.i64(first));
      auto pack = [&] {
        kb.call(packTransposed(kb, packing(a)),
                {kb.at(source, first * a.row, a.element), kb.i64(a.row), depth,
                 kb.min(kb.i64(kb.lanes), rest), kb.at(panel, first), stride});
      };
      // A panel of one row less may have no row here.
      if (first + 1 == plan.tileRows && tallPanels != plan.rowPanels)
        kb.ifThen(kb.less(kb.i64(0), rest), pack);
      else
        pack();
    }
  });
}

void MatmulEmitter::packTilesOfA(Value from, Value to, Value k0, Value depth) {
  kb.loop(from, to, 1, [&](Value p) {
    Value panel = kb.at(packedA, kb.mul(kb.sub(p, from), aPanel));
    Value source = a.at(kb, aBase, rowStart(p), k0);
    Value step = kb.i64(rowTiles * tileSide * tileSide);
    if (!rowsOfA) {
      kb.call(packTileColumns(kb, packing(a)),
              {source, kb.i64(a.column), depth, rowCount(p), panel, step});
      return;
    }
    for (int64_t first = 0; first < plan.tileRows; first += tileSide) {
      Value rest = kb.sub(rowCount(p), kb.i64(first));
      // A panel of one row less may have no row here.
      kb.ifThen(kb.less(kb.i64(0), rest), [&] {
        kb.call(packTileRows(kb, packing(a)),
                {kb.at(source, first * a.row, a.element), kb.i64(a.row), depth,
                 kb.min(kb.i64(tileSide), rest), kb.at(panel, first * tileSide),
                 step});
      });
    }
  });
}

void MatmulEmitter::clearTailOfB(Value from, Value to, Value depth) {
  if (rowTiles == 0 || spec.k % tileDepth == 0)
    return;
  Value slots = kb.div(kb.add(depth, 1), 2);
  Value end = kb.mul(kb.div(kb.add(slots, tileSide - 1), tileSide), tileSide);
  kb.loop(kb.mul(from, 2), kb.mul(to, 2), 1, [&](Value half) {
    Value at = kb.at(packedB, kb.mul(kb.sub(half, kb.mul(from, 2)), halfOfB()));
    kb.loop(slots, end, 1, [&](Value slot) {
      kb.store(kb.splat(0.0), kb.at(at, kb.mul(slot, tileSide)));
    });
  });
}

void MatmulEmitter::inGroups(Value from, Value to,
                             function_ref<void(Value, Value)> pack) {
  constexpr int64_t group = 8;
  kb.loop(from, to, group, [&](Value first) {
    pack(first, kb.min(kb.i64(group), kb.sub(to, first)));
  });
}

void MatmulEmitter::packPanelsOfB(Value from, Value to, Value k0, Value depth) {
  auto panelAt = [&](Value q) {
    return kb.at(packedB, kb.mul(kb.sub(q, from), bPanel));
  };
  // A row of a panel's slots, and its next vector of columns.
  Value stride = kb.i64(rowTiles > 0 ? tileSide : width);
  int64_t nextVector = rowTiles > 0 ? halfOfB() : kb.lanes;
  if (rowsOfB) {
    auto pack = [&](Value q, Value columns, Value panels) {
      Value source = b.at(kb, bBase, k0, kb.mul(q, width));
      if (rowTiles > 0)
        return kb.call(packTilePairs(kb, packing(b)),
                       {source, kb.i64(b.row), depth, columns, panelAt(q),
                        kb.i64(halfOfB()), panels, kb.i64(bPanel)});
      kb.call(packRows(kb, vectors, packing(b)),
              {source, kb.i64(b.row), depth, columns, panelAt(q), stride,
               panels, kb.i64(bPanel)});
    };
    int64_t whole = spec.n / width;
    inGroups(from, kb.min(to, kb.i64(whole)),
             [&](Value q, Value panels) { pack(q, kb.i64(width), panels); });
    if (whole != plan.columnPanels)
      kb.ifThen(kb.equal(to, kb.i64(plan.columnPanels)), [&] {
        pack(kb.i64(whole), kb.i64(spec.n % width), kb.i64(1));
      });
    return clearTailOfB(from, to, depth);
  }
  kb.loop(from, to, 1, [&](Value q) {
    Value panel = panelAt(q);
    Value column = kb.mul(q, width);
    Value columns = kb.min(kb.i64(width), kb.sub(kb.i64(spec.n), column));
    Value source = bAt(k0, column);
    for (int64_t v = 0; v < vectors; ++v) {
      Value rest = kb.sub(columns, kb.i64(v * kb.lanes));
      auto pack = [&] {
        Value rows = kb.min(rest, kb.i64(kb.lanes));
        Value to = kb.at(panel, v * nextVector);
        if (spec.isGrouped()) {
          GroupedRows from = groupsAt(kb.add(column, v * kb.lanes),
                                      kb.div(k0, TFM_GROUP_TERMS));
          kb.call(packGroups(kb),
                  {from.bytes, kb.i64(from.byteStride), from.scale,
                   from.minimum, kb.i64(from.tableStride), depth, rows, to,
                   stride});
          return;
        }
        kb.call(packTransposed(kb, packing(b)),
                {kb.at(source, v * kb.lanes * b.column, b.element),
                 kb.i64(b.column), depth, rows, to, stride});
      };
      // A last panel of few columns is computed with a narrower tile.
      if (v == 0 || spec.n % width == 0)
        pack();
      else
        kb.ifThen(kb.less(kb.i64(0), rest), pack);
    }
  });
}

SmallVector<Value> MatmulEmitter::nextOfB(Value number, Value next, Value to,
                                          Value k0, Value depth) {
  int64_t bytes = b.element.getIntOrFloatBitWidth() / 8;
  Value first, second, stride, from, end;
  if (plan.fetchesPacked) {
    // Behind the last panel comes the first one again.
    next = kb.select(kb.less(next, to), next, kb.i64(0));
    from = kb.mul(number, turnsOfTile() * linesAhead);
    end = kb.i64(linesOfPanel());
    first = kb.at(kb.at(packedB, kb.mul(next, bPanel)), kb.mul(from, cacheLine),
                  kb.b.getI8Type());
    second = kb.i64(cacheLine);
    stride = kb.i64(linesAhead * cacheLine);
  } else if (rowsOfB) {
    // Rows of the panel, as many as the micro-kernel has turns for after those
    // for C.
    Value turns = kb.div(depth, perSlot * prefetchedEvery);
    turns = kb.max(kb.sub(turns, kb.i64(plan.tileRows)), kb.i64(1));
    from = kb.mul(number, turns);
    end = depth;
    first = b.at(kb, bBase, kb.add(k0, from), kb.mul(next, width));
    second = kb.i64(width * bytes > cacheLine ? cacheLine : 0);
    stride = kb.i64(b.row * bytes);
  } else if (lineByLine) {
    int64_t lines = turnsOfTile() * linesAhead;
    from = kb.mul(number, lines);
    end = kb.i64(llvm::divideCeil(width * plan.depth * bytes, cacheLine));
    first = kb.at(b.at(kb, bBase, k0, kb.mul(next, width)),
                  kb.mul(from, cacheLine), kb.b.getI8Type());
    second = kb.i64(cacheLine);
    stride = kb.i64(linesAhead * cacheLine);
  } else {
    // As many of its columns, along k.
    from = kb.mul(number, linesAhead);
    end = kb.i64(width);
    first = bAt(k0, kb.add(kb.mul(next, width), from));
    second = kb.i64(b.column * bytes);
    stride = kb.i64(cacheLine);
  }
  // Where nothing is left to prefetch, what is in the cache.
  Value none = kb.i64(0);
  Value more = kb.select(kb.less(next, to), kb.less(from, end), kb.i1(false));
  return {kb.select(more, first, packedB), kb.select(more, second, none),
          kb.select(more, stride, none)};
}

MatmulEmitter::Tile MatmulEmitter::operandsOf(Value p, Value q,
                                              const Block &block) {
  Tile tile(p, q, block);
  tile.row = rowStart(p);
  tile.column = kb.mul(q, width);
  if (plan.packA) {
    tile.a = kb.at(packedA, kb.mul(kb.sub(p, block.p0), aPanel));
    tile.aStride = kb.i64(aPanelStride);
  } else {
    tile.a = a.at(kb, aBase, tile.row, block.k0);
    tile.aStride = kb.i64((rowsOfA ? a.row : a.column) / perSlot);
    if (rowsOfA)
      tile.layout = ALayout::Rows;
  }
  if (plan.packB) {
    tile.b = packedB;
    if (!byPanel)
      tile.b = kb.at(packedB, kb.mul(kb.sub(q, block.q0), bPanel));
    tile.bStride = kb.i64(width);
  } else {
    tile.b = b.at(kb, bBase, block.k0, tile.column);
    tile.bStride = kb.i64(spec.inPanels ? width : b.row);
  }
  tile.accumulate = kb.sub(kb.i1(true), kb.equal(block.k0, kb.i64(0)));
  if (throughTile) {
    tile.c = sumsAt(p, q, block);
    tile.cStride = kb.i64(sumsStride());
  } else {
    tile.c = c.at(kb, cBase, tile.row, tile.column);
    tile.cStride = kb.i64(c.row);
  }
  return tile;
}

Value MatmulEmitter::sumsAt(Value p, Value q, const Block &block) {
  Value slot;
  if (blockedDepth)
    slot = kb.add(kb.mul(kb.sub(q, block.q0), plan.rowsOfSums),
                  kb.sub(p, block.s0));
  else if (storesBeside())
    slot = kb.rem(kb.sub(q, block.q0), kb.i64(2));
  else
    return tiles;
  return kb.at(tiles, kb.mul(slot, plan.sumsInFewSets ? width : tileLength));
}

Value MatmulEmitter::isLast(const Block &block) {
  return kb.equal(kb.add(block.k0, block.depth), kb.i64(spec.k));
}

SmallVector<Value> MatmulEmitter::nextOf(const Tile &tile) {
  // Each panel is read once, from end to end: a page ahead lies what is read
  // next, of this panel or of the one behind it.
  if (spec.inPanels && plan.rowPanels == 1)
    return {kb.at(tile.b, pageBytes, b.element), kb.i64(cacheLine),
            kb.i64(linesAhead * cacheLine)};
  if (linesAhead == 0)
    return {};
  // Panels of B count from the first one there is, or that is packed.
  Value number = kb.sub(tile.p, tile.block.p0), next = kb.add(tile.q, 1),
        end = tile.block.end;
  if (plan.fetchesPacked) {
    next = kb.sub(next, tile.block.q0);
    end = kb.sub(end, tile.block.q0);
  }
  return nextOfB(number, next, end, tile.block.k0, tile.block.depth);
}

SmallVector<Value> MatmulEmitter::matricesOf(const Tile &tile) {
  SmallVector<Value> matrices;
  if (plan.fetchesA) {
    // Of other columns it is in the cache already.
    Value next = a.at(kb, aBase, rowStart(kb.add(tile.p, 1)), tile.block.k0);
    matrices.push_back(
        kb.select(kb.equal(tile.q, tile.block.q0), next, tile.a));
    matrices.push_back(kb.i64(a.row * a.element.getIntOrFloatBitWidth() / 8));
  }
  if (sumsAhead)
    matrices.append({tile.c, kb.mul(tile.cStride, 4)});
  for (const Ahead &matrix : matricesAhead) {
    Value base = spec.batches() > 1
                     ? cBase
                     : kb.pointer(kernel.getArgument(matrix.argument));
    matrices.push_back(kb.at(base,
                             kb.add(kb.mul(tile.row, matrix.row), tile.column),
                             matrix.element));
    matrices.push_back(
        kb.i64(matrix.row * matrix.element.getIntOrFloatBitWidth() / 8));
  }
  return matrices;
}

void MatmulEmitter::runMicroKernel(const Tile &tile, int64_t rows,
                                   int64_t tileVectors) {
  auto call = [&](const MicroKernel &micro, Value b, Value stride,
                  ValueRange panel) {
    SmallVector<Value> arguments{tile.a,     tile.aStride,   b,
                                 stride,     tile.c,         tile.cStride,
                                 tile.slots, tile.accumulate};
    llvm::append_range(arguments, panel);
    llvm::append_range(arguments, tile.matrices);
    llvm::append_range(arguments, tile.next);
    kb.call(microKernel(kb, micro), arguments);
  };
  MicroKernel micro{rows, tileVectors, tile.layout, plan.terms};
  micro.matricesAhead = static_cast<int64_t>(tile.matrices.size() / 2);
  micro.rowsAhead =
      llvm::divideCeil(plan.tileRows, std::max<int64_t>(turnsOfTile(), 1));
  micro.linesAhead = linesAhead;
  micro.linesOfA = linesOfA;
  // Of few rows every kernel adds up in the same order, by which looking ahead
  // finds the tokens of plain decoding.
  micro.addsLast =
      blockedDepth && micro.matricesAhead > 0 && plan.rowPanels > 2;
  auto plain = [&] { call(micro, tile.b, tile.bStride, {}); };
  if (!copiesB || tileVectors < vectors)
    return plain();
  auto copying = [&] {
    MicroKernel copies = micro;
    copies.copiesB = true;
    if (b.element.isBF16())
      copies.terms = Terms::F32TimesBf16;
    call(copies, b.at(kb, bBase, tile.block.k0, tile.column), kb.i64(b.row),
         tile.b);
  };
  // The last panel may be narrower than the tiles that copy.
  Value isFirst = kb.equal(tile.p, tile.block.p0);
  if (spec.n % width != 0)
    isFirst = kb.select(kb.equal(tile.q, kb.i64(plan.columnPanels - 1)),
                        kb.i1(false), isFirst);
  kb.ifThen(isFirst, copying, plain);
}

void MatmulEmitter::runRows(const Tile &tile, int64_t rows) {
  int64_t lastVectors =
      llvm::divideCeil(spec.n - (plan.columnPanels - 1) * width, kb.lanes);
  if (lastVectors == vectors)
    return runMicroKernel(tile, rows, vectors);
  if (plan.columnPanels == 1)
    return runMicroKernel(tile, rows, lastVectors);
  kb.ifThen(
      kb.equal(tile.q, kb.i64(plan.columnPanels - 1)),
      [&] { runMicroKernel(tile, rows, lastVectors); },
      [&] { runMicroKernel(tile, rows, vectors); });
}

void MatmulEmitter::runOnTiles(const Tile &tile) {
  const Block &block = tile.block;
  TileOperands operands;
  operands.a = tile.a;
  operands.aStep = kb.i64(rowTiles * tileSide * tileSide);
  operands.b = tile.b;
  operands.bStride = kb.i64(tileSide);
  operands.bStep = kb.i64(tileSide * tileSide);
  operands.bColumns = kb.i64(halfOfB());
  operands.c = tile.c;
  operands.cStride = tile.cStride;
  operands.accumulate = tile.accumulate;
  operands.steps = kb.div(kb.add(block.depth, tileDepth - 1), tileDepth);

  // The last terms may be fewer than the others.
  int64_t before = (llvm::divideCeil(spec.k, plan.depth) - 1) * plan.depth;
  int64_t rowsBeside = llvm::divideCeil(
      plan.tileRows, llvm::divideCeil(spec.k - before, tileDepth));
  Value rows, previous = kb.sub(tile.q, kb.i64(1)), sums;
  if (storesBeside()) {
    Value has = kb.less(block.q0, tile.q);
    if (blockedDepth)
      has = kb.select(isLast(block), has, kb.i1(false));
    rows = kb.select(has, rowCount(tile.p), kb.i64(0));
    sums = sumsAt(tile.p, previous, block);
  }
  multiplyTiles(
      kb, {rowTiles, /*columnTiles=*/2}, operands, [&](Value step, Value b) {
        fetchBeside(tile, step, b);
        if (!storesBeside())
          return;
        Value first = kb.mul(step, rowsBeside);
        kb.loop(first, kb.min(kb.add(first, rowsBeside), rows), 1,
                [&](Value row) { storeRow(tile.p, previous, sums, row); });
      });
}

void MatmulEmitter::fetchBeside(const Tile &tile, Value step, Value b) {
  // The next step of B: where another thread has its part of the core, loads
  // alone wait for the second-level cache.
  for (int64_t half : {0, 1})
    for (int64_t row = 0; row < tileSide; ++row)
      kb.prefetch(kb.at(b, half * halfOfB() + (tileSide + row) * tileSide), 1);
  int64_t rowsAhead = llvm::divideCeil(plan.tileRows * tileDepth, plan.depth);
  auto fetch = [&](Value first, Value stride) {
    Type byte = kb.b.getI8Type();
    for (int64_t ahead = 0; ahead < rowsAhead; ++ahead) {
      Value row = kb.add(kb.mul(step, rowsAhead), ahead);
      Value at = kb.at(first, kb.mul(row, stride), byte);
      kb.prefetch(at, 1);
      kb.prefetch(kb.at(at, cacheLine, byte), 1);
    }
  };
  auto fetchMatrices = [&] {
    for (size_t i = 0; i + 1 < tile.matrices.size(); i += 2)
      fetch(tile.matrices[i], tile.matrices[i + 1]);
  };
  if (!blockedDepth)
    return fetchMatrices();
  // Sums of a part of the depth are read before they are written: the next
  // tile's.
  fetch(kb.at(tile.c, throughTile ? plan.rowsOfSums * tileLength : width),
        kb.mul(tile.cStride, slotBytes));
  if (throughTile)
    kb.ifThen(isLast(tile.block), fetchMatrices);
}

void MatmulEmitter::tile(Value p, Value q, const Block &block) {
  Tile tile = operandsOf(p, q, block);
  tile.slots = kb.div(kb.add(block.depth, perSlot - 1), perSlot);
  tile.next = nextOf(tile);
  tile.matrices = matricesOf(tile);
  if (rowTiles > 0)
    return runOnTiles(tile);
  if (tallPanels == plan.rowPanels)
    runRows(tile, plan.tileRows);
  else
    kb.ifThen(
        kb.less(p, kb.i64(tallPanels)), [&] { runRows(tile, plan.tileRows); },
        [&] { runRows(tile, plan.tileRows - 1); });
  if (!throughTile)
    return;
  if (!blockedDepth)
    return store(p, q, tile.c);
  kb.ifThen(isLast(block), [&] { store(p, q, tile.c); });
}

void MatmulEmitter::findOffsets(Value rowFrom, Value rowTo) {
  kb.loop(rowFrom, rowTo, 1, [&](Value row) {
    Value offset =
        offsetOfRow(kb, a.at(kb, aBase, row, kb.i64(0)), kb.i64(spec.k));
    kb.storeScalar(offset, kb.at(offsets, row));
  });
}

void MatmulEmitter::store(Value p, Value q, Value source) {
  kb.loop(kb.i64(0), rowCount(p), 1,
          [&](Value row) { storeRow(p, q, source, row); });
}

void MatmulEmitter::storeRow(Value p, Value q, Value source, Value r) {
  // The vectors of a row follow each other, so that what their epilogues have
  // in common (dropout's random words) is computed once.
  Value row = kb.add(rowStart(p), r), column0 = kb.mul(q, width);
  Value from = kb.at(source, kb.mul(r, sumsStride()));
  Value offset;
  if (plan.terms == Terms::I8Quads)
    offset = kb.splatInteger(kb.at(offsets, row));
  for (int64_t v = 0; v < vectors; ++v) {
    Value column = kb.add(column0, v * kb.lanes);
    auto one = [&] {
      Value at = kb.at(from, v * kb.lanes);
      if (!areQuads(plan.terms))
        return storeVector(row, column, kb.load(at));
      Value sums = kb.loadAs(kb.vecType.clone(kb.b.getI32Type()), at);
      storeVector(row, column, offset ? kb.sub(sums, offset) : sums);
    };
    // A last panel may be narrower.
    if (v == 0 || spec.n % width == 0)
      one();
    else
      kb.ifThen(kb.less(column, kb.i64(spec.n)), one);
  }
}

Kernel tfm::emitMatmul(OpBuilder &builder, ModuleOp module, StringRef name,
                       const MatmulSpec &spec, const CpuMachine &target,
                       const MatmulPlan &plan) {
  std::optional<Kernel> kernel;
  if (std::optional<ProductOperands> operands = ProductOperands::of(spec))
    kernel = MatmulEmitter(builder, module, spec, *operands, target, plan)
                 .emit(name);
  return kernel ? *kernel : refuseProduct(module, name);
}
