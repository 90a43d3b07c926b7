//===- AttentionPanels.cpp - attention in panels of bf16 ------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/target/cpu/AttentionPanels.h"
#include "compiler/target/cpu/Packing.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include <algorithm>

using namespace mlir;
using namespace tfm;

/// From memory as it is to slots.
static Packing pairsOfBf16() {
  Packing packing;
  packing.from = Packing::From::BF16;
  packing.pairs = true;
  return packing;
}

void AttentionPanels::takeQueries(RowsView view, int64_t columns, Value to) {
  Value last = kb.i64(cut.queries - 1);
  int64_t length = stepsOf(columns) * stepSlots * panelSide;
  kb.loop(kb.i64(0), kb.i64(cut.block / panelSide), 1, [&](Value panel) {
    for (int64_t half : {0, 1}) {
      // Past the last query its row is repeated: lanes that nobody stores.
      Value row = kb.min(
          kb.add(cut.t0, kb.add(kb.mul(panel, panelSide), half * tileSide)),
          last);
      Value rows = kb.min(kb.i64(tileSide), kb.sub(kb.i64(cut.queries), row));
      kb.call(packTransposed(kb, pairsOfBf16()),
              {cut.rowOf(view, row), view.stride, kb.i64(columns), rows,
               kb.at(kb.at(to, kb.mul(panel, length)), half * tileSide),
               kb.i64(panelSide)});
    }
  });
}

Value AttentionPanels::round(Value x, Value y) {
  auto type = VectorType::get({2 * kb.lanes}, kb.bf16Type);
  return LLVM::CallIntrinsicOp::create(
             kb.b, kb.loc, type,
             kb.b.getStringAttr("llvm.x86.avx512bf16.cvtne2ps2bf16.512"),
             ValueRange{y, x})
      .getResult(0);
}

Value AttentionPanels::takeWeights(Value weights, int64_t offset) {
  Value from = kb.sub(cut.keyFrom, cut.k0), to = kb.sub(cut.keyTo, cut.k0);
  Value begin = kb.mul(kb.div(from, panelSide), panelSide),
        end = kb.mul(kb.div(kb.add(to, panelSide - 1), panelSide), panelSide);
  auto clear = [&](Value from, Value to) {
    kb.loop(kb.mul(from, cut.block), kb.mul(to, cut.block), kb.lanes,
            [&](Value i) { kb.store(kb.splat(0.0), kb.at(weights, i)); });
  };
  clear(begin, from);
  clear(to, end);
  kb.loop(begin, end, 2, [&](Value s) {
    Value row = kb.at(weights, kb.mul(s, cut.block));
    for (int64_t v = 0; v < cut.blockVectors(); ++v)
      storeWeights(kb.load(kb.at(row, v * kb.lanes)),
                   kb.load(kb.at(row, v * kb.lanes + cut.block)),
                   cut.at(offset), s, v);
  });
  return cut.at(offset);
}

void AttentionPanels::storeWeights(Value x, Value y, Value to, Value s,
                                   int64_t v) {
  auto integers = VectorType::get({2 * kb.lanes}, kb.b.getI16Type());
  SmallVector<int64_t> interleaved;
  for (int64_t i = 0; i < kb.lanes; ++i)
    interleaved.append({i, kb.lanes + i});
  Value both = arith::BitcastOp::create(kb.b, kb.loc, integers, round(x, y));
  both = kb.shuffle(both, both, interleaved);
  Value slots = kb.at(to, kb.mul(kb.div(s, 2), panelSide));
  kb.store(both, kb.at(slots, v / 2 * (keySteps * stepSlots * panelSide) +
                                  v % 2 * kb.lanes));
}

Value AttentionPanels::takeWeightsOverQueries(Value weights, int64_t offset) {
  kb.loop(cut.panelFrom, cut.panelTo, 1, [&](Value panel) {
    Value from = kb.at(weights, kb.mul(panel, panelSide * cut.block));
    Value to = kb.at(cut.at(offset), kb.mul(panel, weightsOfPanel()));
    kb.loop(kb.i64(0), kb.i64(panelSide), 1, [&](Value key) {
      Value row = kb.at(from, kb.mul(key, cut.block));
      for (int64_t step = 0; step < querySteps; ++step)
        storeWeightsOverQueries(
            kb.load(kb.at(row, step * panelSide)),
            kb.load(kb.at(row, step * panelSide + kb.lanes)), to, key, step);
    });
  });
  return cut.at(offset);
}

void AttentionPanels::takePairs(Value source, RowsView view, Value rows,
                                int64_t columns, int64_t steps, Value to) {
  Value end = kb.div(kb.add(rows, 1), 2);
  Value filled =
      kb.mul(kb.div(kb.add(rows, panelSide - 1), panelSide), stepSlots);
  for (int64_t first = 0; first < vectorsOf(columns); first += 2) {
    int64_t width = vectorsOfPanel(first, columns) * tileSide;
    Value panel = kb.at(to, first * steps * stepSlots * tileSide);
    kb.call(packRows(kb, width / tileSide, pairsOfBf16()),
            {kb.at(source, first * tileSide, view.element), view.stride, rows,
             kb.i64(std::min(width, columns - first * tileSide)), panel,
             kb.i64(width), kb.i64(1), kb.i64(0)});
    kb.loop(kb.mul(end, width), kb.mul(filled, width), kb.lanes,
            [&](Value i) { kb.store(kb.splat(0.0), kb.at(panel, i)); });
  }
}

RowsView AttentionPanels::takeQueryTerms(RowsView view, int64_t columns,
                                         int64_t offset) {
  takePairs(cut.rowOf(view, cut.t0), view, cut.blockQueries, columns,
            querySteps, cut.at(offset));
  return {cut.at(offset)};
}

void AttentionPanels::sumOverQueries(Value weights, RowsView terms,
                                     int64_t columns, RowsView to) {
  kb.loop(cut.panelFrom, cut.panelTo, 1, [&](Value panel) {
    sumPanelOverQueries(panel, kb.at(weights, kb.mul(panel, weightsOfPanel())),
                        terms, columns, to);
  });
}
