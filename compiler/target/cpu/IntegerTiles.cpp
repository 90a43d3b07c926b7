//===- IntegerTiles.cpp - products of integers on AMX tiles ---------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/target/cpu/IntegerTiles.h"
#include "compiler/target/cpu/CpuMachine.h"
#include "compiler/target/cpu/MatmulPlan.h"
#include "compiler/target/cpu/MicroKernel.h"
#include "compiler/target/cpu/ProductKernel.h"
#include "compiler/target/cpu/TileKernel.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
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
    prefetched = sharePrefetches(panels);
    int64_t sumBytes = (isBlocked ? panels : 1) * sumSlots * 4;
    int64_t packedBytes = plan.packedRows * spec.k;
    int64_t scratchBytes = sumBytes + packedBytes + 4 * plan.packedRows;
    OpBuilder::InsertionGuard guard(kb.b);
    sums = begin(name, scratchBytes);
    packed = kb.at(sums, sumBytes, byte);
    offsets = kb.at(packed, packedBytes, byte);
    shareStrips(plan.serial, columnPanels, [&](Value begin, Value end) {
      // Without a column there is nothing to pack rows for.
      Value rows = kb.select(kb.less(begin, end), kb.i64(spec.m), kb.i64(0));
      kb.loop(kb.i64(0), rows, plan.packedRows, [&](Value first) {
        Value count =
            kb.min(kb.i64(plan.packedRows), kb.sub(kb.i64(spec.m), first));
        pack(first, count);
        kb.loop(begin, end, 1, [&](Value q) { column(q, first, count); });
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

  /// Cache lines of the next panel of B that each tile prefetches: so many with
  /// each step, and so many with each row that it stores.
  struct Prefetched {
    int64_t perStep, perRow;
  };
  Prefetched prefetched;

  /// Memory has to be read all the time: as much of a panel while tiles are
  /// stored as while they are multiplied, if that takes as long.
  Prefetched sharePrefetches(int64_t panels) const {
    int64_t lines = llvm::divideCeil(panelColumns * spec.k, cacheLine * panels);
    int64_t rows = std::min(spec.m, panelRows);
    int64_t perRow = std::min(lines / rows / 2, int64_t{8});
    return {static_cast<int64_t>(
                llvm::divideCeil(lines - rows * perRow, spec.k / stepTerms)),
            perRow};
  }

  /// Where tile `p` of column panel `q` goes on with its share of the next
  /// panel of B behind so many lines. Behind the last one that is nothing that
  /// anybody reads.
  Value nextOfB(Value p, Value q, Value lines) {
    int64_t share =
        spec.k / stepTerms * prefetched.perStep + panelRows * prefetched.perRow;
    Value panel =
        b.at(kb, bBase, kb.i64(0), kb.mul(kb.add(q, 1), panelColumns));
    return kb.at(panel, kb.mul(kb.add(kb.mul(p, share), lines), cacheLine),
                 byte);
  }

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

  /// All packed rows by column panel `q`.
  void column(Value q, Value first, Value count) {
    Value panels = kb.div(kb.add(count, panelRows - 1), panelRows);
    kb.loop(kb.i64(0), kb.i64(spec.k), plan.depth, [&](Value k0) {
      kb.loop(kb.i64(0), panels, 1, [&](Value p) {
        Value sum = isBlocked ? kb.at(sums, kb.mul(p, sumSlots)) : sums;
        multiply(p, q, k0, count, sum);
        if (!isBlocked)
          store(p, q, first, count, sum);
      });
    });
    if (isBlocked)
      kb.loop(kb.i64(0), panels, 1, [&](Value p) {
        store(p, q, first, count, kb.at(sums, kb.mul(p, sumSlots)));
      });
  }

  void multiply(Value p, Value q, Value k0, Value count, Value sum) {
    Value depth = kb.i64(plan.depth);
    if (spec.k % plan.depth != 0)
      depth = kb.min(depth, kb.sub(kb.i64(spec.k), k0));
    Value steps = kb.div(depth, stepTerms);
    Value from = kb.mul(k0, panelRows);
    Value panel = b.at(kb, bBase, k0, kb.mul(q, panelColumns));
    Value ahead =
        nextOfB(p, q, kb.mul(kb.div(k0, stepTerms), prefetched.perStep));
    auto run = [&](int64_t rowTiles) {
      IntegerTileKernel kernel{rowTiles, plan.packedRows == panelRows,
                               prefetched.perStep};
      kb.call(integerTileKernel(kb, kernel),
              {kb.at(panelOfA(p), from, byte), panel, sum, steps,
               kb.less(kb.i64(0), k0), ahead});
    };
    int64_t rest = spec.m % panelRows;
    if (rest == 0 || rest > tileSide)
      return run(2);
    if (spec.m < panelRows)
      return run(1);
    Value rows = kb.sub(count, kb.mul(p, panelRows));
    kb.ifThen(
        kb.less(kb.i64(tileSide), rows), [&] { run(2); }, [&] { run(1); });
  }

  void store(Value p, Value q, Value first, Value count, Value sum) {
    Value row0 = kb.mul(p, panelRows), column0 = kb.mul(q, panelColumns);
    Value rows = kb.min(kb.i64(panelRows), kb.sub(count, row0));
    kb.loop(kb.i64(0), rows, 1, [&](Value r) {
      Value row = kb.add(row0, r);
      Value offset = kb.splatInteger(kb.at(offsets, row));
      auto type = cast<VectorType>(offset.getType());
      Value ahead = nextOfB(p, q,
                            kb.add(kb.mul(r, prefetched.perRow),
                                   spec.k / stepTerms * prefetched.perStep));
      for (int64_t line = 0; line < prefetched.perRow; ++line)
        kb.prefetch(kb.at(ahead, line * cacheLine, byte), /*level=*/2);
      for (int64_t v = 0; v < panelColumns; v += kb.lanes) {
        Value column = kb.add(column0, v);
        auto one = [&] {
          Value at = kb.at(sum, kb.add(kb.mul(r, panelColumns), v));
          storeVector(kb.add(first, row), column,
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
