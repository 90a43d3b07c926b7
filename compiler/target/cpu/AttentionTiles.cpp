//===- AttentionTiles.cpp - products of attention on AMX tiles ------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/target/cpu/AttentionTiles.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include <algorithm>

using namespace mlir;
using namespace tfm;

/// [panel of queries][slot of columns][32]
void AttentionTiles::takeQueries(RowsView view, int64_t columns, Value to) {
  Packing packing;
  packing.from = Packing::From::BF16;
  packing.pairs = true;
  Value last = kb.i64(cut.queries - 1);
  int64_t length = stepsOf(columns) * 2 * tileSlots;
  kb.loop(kb.i64(0), kb.i64(cut.block / panelSide), 1, [&](Value panel) {
    for (int64_t half : {0, 1}) {
      // Past the last query its row is repeated: lanes that nobody stores.
      Value row = kb.min(
          kb.add(cut.t0, kb.add(kb.mul(panel, panelSide), half * tileSide)),
          last);
      Value rows = kb.min(kb.i64(tileSide), kb.sub(kb.i64(cut.queries), row));
      kb.call(packTransposed(kb, packing),
              {cut.rowOf(view, row), view.stride, kb.i64(columns), rows,
               kb.at(kb.at(to, kb.mul(panel, length)), half * tileSide),
               kb.i64(panelSide)});
    }
  });
}

/// Factors: [panel of keys][step of columns][32 keys][16 slots]. Terms, with
/// columns as rows: [panel of columns][step of keys][rows][16 slots].
AttentionTiles::Keys AttentionTiles::takeKeys(RowsView view, Value rows,
                                              int64_t columns, Use use,
                                              int64_t offset, RowsView) {
  Packing packing;
  packing.from = Packing::From::BF16;
  Keys keys;
  Value first = cut.rowOf(view, cut.k0);
  if (use & asFactor) {
    keys.factor.ptr = cut.at(offset);
    offset += factorLength(columns);
    int64_t length = stepsOf(columns) * 2 * tileSlots;
    Value last = kb.sub(rows, kb.i64(1));
    kb.loop(kb.i64(0), rows, panelSide, [&](Value start) {
      Value panel =
          kb.at(keys.factor.ptr, kb.mul(kb.div(start, panelSide), length));
      for (int64_t half : {0, 1}) {
        Value row = kb.min(kb.add(start, half * tileSide), last);
        kb.call(packTileRows(kb, packing),
                {kb.at(first, kb.mul(row, view.stride), view.element),
                 view.stride, kb.i64(columns),
                 kb.min(kb.i64(tileSide), kb.sub(rows, row)),
                 kb.at(panel, half * tileSlots), kb.i64(2 * tileSlots)});
      }
    });
  }
  if (use & asTerms) {
    keys.terms.ptr = cut.at(offset);
    for (int64_t begin = 0; begin < columns; begin += panelSide)
      kb.call(packTileColumns(kb, packing),
              {kb.at(first, begin, view.element), view.stride, rows,
               kb.i64(std::min(panelSide, columns - begin)),
               kb.at(keys.terms.ptr, begin / tileSide * keySteps * tileSlots),
               kb.i64(tilesOfPanel(begin / tileSide, columns) * tileSlots)});
  }
  return keys;
}

void AttentionTiles::scoresOfPanel(Value panel, RowsView keys, int64_t columns,
                                   Value queries, Value to) {
  int64_t steps = stepsOf(columns), length = steps * 2 * tileSlots;
  Value a = kb.at(keys.ptr, kb.mul(panel, length));
  Value first = cut.firstQuery(cut.panelStart(panel));
  for (int64_t column = 0; column < cut.block; column += panelSide) {
    auto tiles = [&] {
      multiply(2, 2, a, kb.at(queries, column / panelSide * length),
               kb.at(to, column), kb.i64(cut.block), kb.i64(steps), false);
    };
    if (cut.spec.causal)
      kb.ifThen(kb.less(first, kb.i64(column + panelSide)), tiles);
    else
      tiles();
  }
}

void AttentionTiles::beginScores(Value panel, RowsView keys, int64_t columns,
                                 Value queries) {
  assert(cut.block == panelSide && "sums are four tiles");
  int64_t steps = stepsOf(columns);
  Value a = kb.at(keys.ptr, kb.mul(panel, steps * 2 * tileSlots));
  Tiles tiles(kb);
  for (int64_t sum = 0; sum < 4; ++sum)
    tiles.zero(sum);
  for (int64_t step = 0; step < steps; ++step) {
    for (int64_t half : {0, 1}) {
      tiles.load(4 + half, kb.at(a, (2 * step + half) * tileSlots),
                 kb.i64(tileSide));
      tiles.load(6 + half,
                 kb.at(queries, step * 2 * tileSlots + half * tileSide),
                 kb.i64(panelSide));
    }
    for (int64_t sum = 0; sum < 4; ++sum)
      tiles.multiplyAdd(sum, 4 + sum / 2, 6 + sum % 2);
  }
}

void AttentionTiles::endScores(Value to) {
  Tiles tiles(kb);
  for (int64_t sum = 0; sum < 4; ++sum)
    tiles.store(sum,
                kb.at(to, sum / 2 * tileSide * cut.block + sum % 2 * tileSide),
                kb.i64(cut.block));
}

void AttentionTiles::multiply(int64_t rowTiles, int64_t columnTiles, Value a,
                              Value b, Value sums, Value stride, Value steps,
                              bool accumulate) {
  kb.call(tileKernel(kb, {rowTiles, columnTiles}),
          {a, b, sums, stride, steps, kb.i1(accumulate)});
}

Value AttentionTiles::round(Value x, Value y) {
  auto type = VectorType::get({2 * kb.lanes}, kb.bf16Type);
  return LLVM::CallIntrinsicOp::create(
             kb.b, kb.loc, type,
             kb.b.getStringAttr("llvm.x86.avx512bf16.cvtne2ps2bf16.512"),
             ValueRange{y, x})
      .getResult(0);
}

/// [panel of queries][slot of keys][32]
Value AttentionTiles::takeWeights(Value weights, int64_t offset) {
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

void AttentionTiles::storeWeights(Value x, Value y, Value to, Value s,
                                  int64_t v) {
  auto integers = VectorType::get({2 * kb.lanes}, kb.b.getI16Type());
  SmallVector<int64_t> interleaved;
  for (int64_t i = 0; i < kb.lanes; ++i)
    interleaved.append({i, kb.lanes + i});
  Value both = arith::BitcastOp::create(kb.b, kb.loc, integers, round(x, y));
  both = kb.shuffle(both, both, interleaved);
  Value slots = kb.at(to, kb.mul(kb.div(s, 2), panelSide));
  kb.store(both, kb.at(slots, v / 2 * (keySteps * tileSide * panelSide) +
                                  v % 2 * kb.lanes));
}

void AttentionTiles::sumOverKeys(Value weights, RowsView terms, int64_t columns,
                                 Value sums, bool accumulate) {
  sumOverPanels(weights, terms, columns, sums, accumulate, cut.panelFrom,
                cut.panelTo);
}

void AttentionTiles::sumOverPanels(Value weights, RowsView terms,
                                   int64_t columns, Value sums, bool accumulate,
                                   Value from, Value to) {
  for (int64_t first = 0; first < cut.block; first += panelSide) {
    Value end = to;
    if (cut.spec.causal && first + panelSide < cut.block) {
      Value seen =
          kb.sub(kb.add(cut.position(cut.t0), first + panelSide), cut.k0);
      end = kb.max(from, kb.min(to, kb.div(kb.add(kb.max(seen, kb.i64(0)),
                                                  tileDepth - 1),
                                           tileDepth)));
    }
    Value b = kb.at(weights, kb.add(kb.mul(from, tileSide * panelSide),
                                    first * keySteps * tileSide));
    for (int64_t tile = 0; tile < tilesOf(columns); tile += 2) {
      int64_t height = tilesOfPanel(tile, columns);
      multiply(height, 2,
               kb.at(kb.at(terms.ptr, tile * keySteps * tileSlots),
                     kb.mul(from, height * tileSlots)),
               b, kb.at(sums, tile * tileSide * cut.block + first),
               kb.i64(cut.block), kb.sub(end, from), accumulate);
    }
  }
}

void AttentionTiles::scaleSums(Value sums, int64_t columns, Value factors) {
  SmallVector<Value> all;
  for (int64_t query = 0; query < cut.block; query += kb.lanes)
    all.push_back(kb.load(kb.at(factors, query)));
  kb.loop(kb.i64(0), kb.i64(columns), 1, [&](Value column) {
    Value row = kb.at(sums, kb.mul(column, cut.block));
    for (auto [v, factor] : llvm::enumerate(all)) {
      Value to = kb.at(row, static_cast<int64_t>(v) * kb.lanes);
      kb.store(kb.mulf(kb.load(to), factor), to);
    }
  });
}

RowsView AttentionTiles::rowsOfSums(Value sums, int64_t columns,
                                    int64_t offset) {
  int64_t stride = llvm::alignTo(columns, kb.lanes);
  for (int64_t column = 0; column < columns; column += kb.lanes)
    kb.call(packTransposed(kb),
            {kb.at(sums, column * cut.block), kb.i64(cut.block),
             kb.i64(cut.block), kb.i64(kb.lanes), kb.at(cut.at(offset), column),
             kb.i64(stride)});
  return {cut.at(offset), kb.i64(stride)};
}

/// [panel of keys][step of queries][32 keys][16 slots]
Value AttentionTiles::takeWeightsOverQueries(Value weights, int64_t offset) {
  kb.loop(cut.panelFrom, cut.panelTo, 1, [&](Value panel) {
    Value from = kb.at(weights, kb.mul(panel, panelSide * cut.block));
    Value to =
        kb.at(cut.at(offset), kb.mul(panel, querySteps * panelSide * tileSide));
    kb.loop(kb.i64(0), kb.i64(panelSide), 1, [&](Value key) {
      Value row = kb.at(from, kb.mul(key, cut.block));
      for (int64_t step = 0; step < querySteps; ++step)
        storeWeightsOverQueries(
            kb.load(kb.at(row, step * tileDepth)),
            kb.load(kb.at(row, step * tileDepth + kb.lanes)), to, key, step);
    });
  });
  return cut.at(offset);
}

void AttentionTiles::storeWeightsOverQueries(Value x, Value y, Value to,
                                             Value row, int64_t step) {
  kb.store(round(x, y), kb.at(kb.at(to, kb.mul(row, tileSide)),
                              step * panelSide * tileSide));
}

/// [panel of columns][slot of queries][columns]
RowsView AttentionTiles::takeQueryTerms(RowsView view, int64_t columns,
                                        int64_t offset) {
  Packing packing;
  packing.from = Packing::From::BF16;
  packing.pairs = true;
  Value source = cut.rowOf(view, cut.t0);
  Value end = kb.div(kb.add(cut.blockQueries, 1), 2);
  Value filled = kb.mul(
      kb.div(kb.add(cut.blockQueries, tileDepth - 1), tileDepth), tileSide);
  for (int64_t tile = 0; tile < tilesOf(columns); tile += 2) {
    int64_t vectors = tilesOfPanel(tile, columns);
    Value panel = kb.at(cut.at(offset), tile * querySteps * tileSlots);
    kb.call(packRows(kb, vectors, packing),
            {kb.at(source, tile * tileSide, view.element), view.stride,
             cut.blockQueries,
             kb.i64(std::min(vectors * tileSide, columns - tile * tileSide)),
             panel, kb.i64(vectors * tileSide), kb.i64(1), kb.i64(0)});
    kb.loop(kb.mul(end, vectors * tileSide), kb.mul(filled, vectors * tileSide),
            kb.lanes,
            [&](Value i) { kb.store(kb.splat(0.0), kb.at(panel, i)); });
  }
  return {cut.at(offset)};
}

void AttentionTiles::sumOverQueries(Value weights, RowsView terms,
                                    int64_t columns, RowsView to) {
  kb.loop(cut.panelFrom, cut.panelTo, 1, [&](Value panel) {
    sumPanelOverQueries(
        panel, kb.at(weights, kb.mul(panel, querySteps * panelSide * tileSide)),
        terms, columns, to);
  });
}

void AttentionTiles::sumPanelOverQueries(Value panel, Value weights,
                                         RowsView terms, int64_t columns,
                                         RowsView to) {
  Value start = cut.panelStart(panel);
  Value first = kb.div(cut.firstQuery(start), tileDepth);
  Value end = kb.div(kb.add(cut.blockQueries, tileDepth - 1), tileDepth);
  Value c = cut.rowOf(to, start);
  for (int64_t tile = 0; tile < tilesOf(columns); tile += 2) {
    int64_t width = tilesOfPanel(tile, columns);
    multiply(2, width, kb.at(weights, kb.mul(first, panelSide * tileSide)),
             kb.at(kb.at(terms.ptr, tile * querySteps * tileSlots),
                   kb.mul(first, width * tileSlots)),
             kb.at(c, tile * tileSide), to.stride, kb.sub(end, first), true);
  }
}
