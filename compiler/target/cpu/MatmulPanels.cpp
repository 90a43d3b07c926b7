//===- MatmulPanels.cpp - operands of a product in panels -----------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/target/cpu/MatmulEmitter.h"
#include "runtime/tfm_model.h"

using namespace mlir;
using namespace tfm;

Value MatmulEmitter::bAt(Value k0, Value column) {
  return b.at(kb, bBase, spec.isGrouped() ? kb.div(k0, 2) : k0, column);
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
