//===- IntegerTiles.cpp - products of integers on AMX tiles ---------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/target/cpu/IntegerTiles.h"
#include "compiler/target/cpu/CpuMachine.h"
#include "compiler/target/cpu/MicroKernel.h"
#include "compiler/target/cpu/ProductKernel.h"
#include "compiler/target/cpu/TileKernel.h"
#include "llvm/Support/MathExtras.h"
#include <algorithm>

using namespace mlir;
using namespace tfm;

namespace {

/// Rows of a panel of A, columns of one of B, and bytes along k that a step
/// takes of each.
constexpr int64_t panelRows = 2 * tileSide, panelColumns = 2 * tileSide,
                  stepTerms = 4 * tileSide;
/// Bytes of such a step of a panel, of A or of B.
constexpr int64_t stepBytes = panelRows * stepTerms;
/// Of fewer rows VPDPBUSD makes the sums while memory is read.
constexpr int64_t leastRows = 8;

} // namespace

std::optional<IntegerTilesPlan>
tfm::planIntegerTiles(const MatmulSpec &spec, const CpuMachine &target) {
  std::optional<Matrix> a = Matrix::of(spec.a, spec.transposeA);
  if (!target.int8Tiles || !spec.inPanels || !a || !a->element.isInteger(8) ||
      a->column != 1 || spec.b.getShape().drop_back().back() != panelColumns ||
      spec.k % stepTerms != 0 || spec.m < leastRows)
    return std::nullopt;
  IntegerTilesPlan plan;
  int64_t rows = llvm::alignTo(spec.m, panelRows);
  int64_t most = target.l2Bytes * 3 / 4 / spec.k;
  int64_t blocks = llvm::divideCeil(rows, std::max(most, panelRows));
  plan.packedRows = llvm::alignTo(llvm::divideCeil(spec.m, blocks), panelRows);
  plan.depth = spec.k;
  if (plan.packedRows > panelRows) {
    int64_t deepest = target.l1Bytes * 2 / 3 / panelColumns;
    int64_t cuts = llvm::divideCeil(spec.k, deepest);
    plan.depth = llvm::alignTo(llvm::divideCeil(spec.k, cuts), stepTerms);
  }
  plan.serial = spec.isTooSmallToShare();
  return plan;
}

namespace {

class IntegerTilesEmitter : ProductKernel {
public:
  IntegerTilesEmitter(OpBuilder &builder, ModuleOp module,
                      const MatmulSpec &spec, const ProductOperands &operands,
                      const CpuMachine &target, const IntegerTilesPlan &plan)
      : ProductKernel(builder, module, spec, operands, target), plan(plan),
        byte(kb.b.getI8Type()), columnPanels(static_cast<int64_t>(
                                    llvm::divideCeil(spec.n, panelColumns))) {}

  Kernel emit(StringRef name) {
    isBlocked = plan.depth < spec.k;
    int64_t panels = plan.packedRows / panelRows;
    int64_t sumBytes = (isBlocked ? panels : 1) * sumSlots * 4;
    int64_t packedBytes = plan.packedRows * spec.k;
    int64_t scratchBytes = sumBytes + packedBytes + 4 * plan.packedRows;
    OpBuilder::InsertionGuard guard(kb.b);
    sums = begin(name, scratchBytes);
    packed = kb.at(sums, sumBytes, byte);
    offsets = kb.at(packed, packedBytes, byte);
    shareStrips(plan.serial, columnPanels, [&](Value begin, Value end) {
      // Without a column there is nothing to pack rows for.
      Value all = kb.select(kb.less(begin, end), kb.i64(spec.m), kb.i64(0));
      kb.loop(kb.i64(0), all, plan.packedRows, [&](Value first) {
        Value count =
            kb.min(kb.i64(plan.packedRows), kb.sub(kb.i64(spec.m), first));
        pack(first, count);
        Rows rows{first, count,
                  kb.div(kb.add(count, panelRows - 1), panelRows)};
        kb.loop(begin, end, 1, [&](Value q) { column(rows, begin, q); });
        storeLast(rows, kb.sub(end, kb.i64(1)));
      });
    });
    return {kernel, scratchBytes};
  }

private:
  const IntegerTilesPlan &plan;
  const Type byte;
  const int64_t columnPanels;
  /// Elements of a panel of A by one of B.
  static constexpr int64_t sumSlots = panelRows * panelColumns;
  /// Whether sums are cut, so that those of all rows are kept.
  bool isBlocked = false;
  /// The parts of scratch: sums, panels of A, and what is to be taken off the
  /// sums of each row.
  Value sums, packed, offsets;

  /// The rows of A that are packed: the first of them, and how many there are,
  /// in how many panels.
  struct Rows {
    Value first, count, panels;
  };
  /// Sums of a panel of A by one of B.
  struct Tile {
    Value p, q;
  };

  Value panelOfA(Value number) {
    return kb.at(packed, kb.mul(number, panelRows * spec.k), byte);
  }

  /// Copies `count` rows, step by step. What is left of the last panel are rows
  /// that nobody reads sums of.
  void pack(Value first, Value count) {
    auto step = VectorType::get({stepTerms}, byte);
    kb.loop(kb.i64(0), count, 1, [&](Value number) {
      Value from = a.at(kb, aBase, kb.add(first, number), kb.i64(0));
      kb.storeScalar(offsetOfRow(kb, from, kb.i64(spec.k)),
                     kb.at(offsets, number));
      Value to =
          kb.at(panelOfA(kb.div(number, panelRows)),
                kb.mul(kb.rem(number, kb.i64(panelRows)), stepTerms), byte);
      kb.loop(kb.i64(0), kb.i64(spec.k / stepTerms), 1, [&](Value number) {
        Value x = kb.loadAs(step, kb.at(from, kb.mul(number, stepTerms), byte));
        kb.store(x, kb.at(to, kb.mul(number, stepBytes), byte));
      });
    });
  }

  Value sumsOf(Value p) {
    return isBlocked ? kb.at(sums, kb.mul(p, sumSlots)) : sums;
  }

  /// All packed rows by column panel `q`, of those from `begin` on.
  void column(const Rows &rows, Value begin, Value q) {
    Value hasBefore = kb.less(begin, q), before = kb.sub(q, kb.i64(1));
    kb.loop(kb.i64(0), kb.i64(spec.k), plan.depth, [&](Value k0) {
      kb.loop(kb.i64(0), rows.panels, 1, [&](Value p) {
        // Sums that are whole, whose place these ones take.
        Tile whole{p, before};
        Value isWhole = hasBefore;
        if (isBlocked) {
          isWhole = kb.select(kb.equal(k0, kb.i64(0)), isWhole, kb.i1(false));
        } else {
          Value isFirst = kb.equal(p, kb.i64(0));
          whole.p = kb.sub(kb.select(isFirst, rows.panels, p), kb.i64(1));
          whole.q = kb.select(isFirst, before, q);
          isWhole = kb.select(isFirst, isWhole, kb.i1(true));
        }
        multiply(rows, {p, q}, k0, whole, isWhole);
      });
    });
  }

  /// A tile's sums of a part of the depth. While units for tiles are busy, the
  /// others take the next panel of B towards the core, and sums that are whole,
  /// whose place these ones take, to C.
  void multiply(const Rows &rows, const Tile &tile, Value k0, const Tile &whole,
                Value isWhole) {
    Value next = nextOfB(tile, k0);
    Value storedRows = kb.select(isWhole, rowsOf(rows, whole.p), kb.i64(0));
    int64_t rowsBeside =
        llvm::divideCeil(std::min(spec.m, panelRows), plan.depth / stepTerms);
    auto beside = [&](Value step, Value) {
      Value lines = kb.mul(step, linesBeside());
      for (int64_t line = 0; line < linesBeside(); ++line)
        kb.prefetch(kb.at(next, kb.mul(kb.add(lines, line), cacheLine), byte),
                    /*level=*/2);
      Value row = kb.mul(step, rowsBeside);
      store(rows, whole, row, kb.min(kb.add(row, rowsBeside), storedRows));
    };
    TileOperands operands = operandsOf(tile, k0);
    auto run = [&](int64_t rowTiles) {
      multiplyTiles(
          kb,
          {rowTiles, /*columnTiles=*/2, Terms::I8Quads,
           isOnePanel() ? TileShape::Passing::B : TileShape::Passing::A},
          operands, beside);
    };
    int64_t rest = spec.m % panelRows;
    if (rest == 0 || rest > tileSide)
      return run(2);
    if (spec.m < panelRows)
      return run(1);
    kb.ifThen(
        kb.less(kb.i64(tileSide), rowsOf(rows, tile.p)), [&] { run(2); },
        [&] { run(1); });
  }

  TileOperands operandsOf(const Tile &tile, Value k0) {
    constexpr int64_t rowSlots = 2 * tileSide;
    Value depth = kb.i64(plan.depth);
    if (spec.k % plan.depth != 0)
      depth = kb.min(depth, kb.sub(kb.i64(spec.k), k0));
    TileOperands operands;
    operands.a = kb.at(panelOfA(tile.p), kb.mul(k0, panelRows), byte);
    operands.aStride = kb.i64(tileSide);
    operands.aStep = operands.bStep = kb.i64(rowSlots * tileSide);
    operands.b = b.at(kb, bBase, k0, kb.mul(tile.q, panelColumns));
    operands.bStride = kb.i64(rowSlots);
    operands.bColumns = kb.i64(tileSide);
    operands.c = sumsOf(tile.p);
    operands.cStride = kb.i64(panelColumns);
    operands.accumulate = kb.less(kb.i64(0), k0);
    operands.steps = kb.div(depth, stepTerms);
    return operands;
  }

  bool isOnePanel() const { return plan.packedRows == panelRows; }

  /// Cache lines of the next panel of B that a step fetches: all panels of A
  /// together fetch all of it.
  int64_t linesBeside() const {
    int64_t panels = plan.packedRows / panelRows;
    return llvm::divideCeil(stepBytes, cacheLine * panels);
  }

  /// The first of those of a tile. Behind the last panel is nothing that
  /// anybody reads.
  Value nextOfB(const Tile &tile, Value k0) {
    Value panel =
        b.at(kb, bBase, kb.i64(0), kb.mul(kb.add(tile.q, 1), panelColumns));
    Value steps =
        kb.add(kb.mul(tile.p, spec.k / stepTerms), kb.div(k0, stepTerms));
    return kb.at(panel, kb.mul(steps, linesBeside() * cacheLine), byte);
  }

  /// Rows of panel `p`.
  Value rowsOf(const Rows &rows, Value p) {
    return kb.min(kb.i64(panelRows), kb.sub(rows.count, kb.mul(p, panelRows)));
  }

  /// What is whole when there is nothing more to multiply.
  void storeLast(const Rows &rows, Value q) {
    Value last = kb.sub(rows.panels, kb.i64(1));
    kb.loop(isBlocked ? kb.i64(0) : last, rows.panels, 1,
            [&](Value p) { store(rows, {p, q}, kb.i64(0), rowsOf(rows, p)); });
  }

  /// Rows [from, to) of a panel.
  void store(const Rows &rows, const Tile &tile, Value from, Value to) {
    Value sum = sumsOf(tile.p);
    Value row0 = kb.mul(tile.p, panelRows),
          column0 = kb.mul(tile.q, panelColumns);
    kb.loop(from, to, 1, [&](Value r) {
      Value row = kb.add(row0, r);
      Value offset = kb.splatInteger(kb.at(offsets, row));
      auto type = cast<VectorType>(offset.getType());
      for (int64_t v = 0; v < panelColumns; v += kb.lanes) {
        Value column = kb.add(column0, v);
        auto one = [&] {
          Value at = kb.at(sum, kb.add(kb.mul(r, panelColumns), v));
          storeVector(kb.add(rows.first, row), column,
                      kb.sub(kb.loadAs(type, at), offset));
        };
        // A last panel may be narrower.
        if (v == 0 || spec.n % panelColumns == 0)
          one();
        else
          kb.ifThen(kb.less(column, kb.i64(spec.n)), one);
      }
    });
  }
};

} // namespace

Kernel tfm::emitIntegerTiles(OpBuilder &builder, ModuleOp module,
                             StringRef name, const MatmulSpec &spec,
                             const CpuMachine &target,
                             const IntegerTilesPlan &plan) {
  std::optional<ProductOperands> operands = ProductOperands::of(spec);
  if (!operands)
    return refuseProduct(module, name);
  return IntegerTilesEmitter(builder, module, spec, *operands, target, plan)
      .emit(name);
}
