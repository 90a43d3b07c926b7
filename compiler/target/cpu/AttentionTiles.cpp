//===- AttentionTiles.cpp - products of attention on AMX tiles ------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/target/cpu/AttentionPanels.h"
#include "compiler/target/cpu/TileKernel.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include <algorithm>

using namespace mlir;
using namespace tfm;

namespace {

/// Sums over keys are [columns, queries], so that all factors of a query are in
/// its lane.
class AttentionTiles final : public AttentionPanels {
public:
  using AttentionPanels::AttentionPanels;

  int64_t keysLength(int64_t columns, Use use) const override {
    return (use & asFactor ? factorLength(columns) : 0) +
           (use & asTerms ? keySteps * vectorsOf(columns) * tileSlots : 0);
  }
  Keys takeKeys(RowsView view, Value rows, int64_t columns, Use use,
                int64_t offset, RowsView scales) override;

  void scoresOfPanel(Value panel, RowsView keys, int64_t columns, Value queries,
                     Value to) override;
  /// In between scores are in tiles, where they need no memory.
  void beginScores(Value panel, RowsView keys, int64_t columns,
                   Value queries) override;
  void endScores(Value to) override;

  void sumOverPanels(Value weights, RowsView terms, int64_t columns, Value sums,
                     bool accumulate, Value from, Value to) override;
  void scaleSums(Value sums, int64_t columns, Value factors) override;
  int64_t rowsLength(int64_t columns) const override {
    return sumsLength(columns);
  }
  RowsView rowsOfSums(Value sums, int64_t columns, int64_t offset) override;

  /// [panel of keys][step of queries][32 keys][16 slots]
  void storeWeightsOverQueries(Value x, Value y, Value to, Value row,
                               int64_t step) override;
  void sumPanelOverQueries(Value panel, Value weights, RowsView terms,
                           int64_t columns, RowsView to) override;

private:
  /// Slots of a tile.
  static constexpr int64_t tileSlots = tileSide * tileSide;

  int64_t factorLength(int64_t columns) const {
    return cut.keyPanels * stepsOf(columns) * 2 * tileSlots;
  }
  /// Sums of tiles, as `tileKernel` has them.
  void multiply(int64_t rowTiles, int64_t columnTiles, Value a, Value b,
                Value sums, Value stride, Value steps, bool accumulate);
};

} // namespace

static_assert(AttentionPanels::panelSide == 2 * tileSide);
static_assert(AttentionPanels::panelSide == tileDepth);

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
               kb.i64(vectorsOfPanel(begin / tileSide, columns) * tileSlots)});
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
      tiles.multiplyAdd(Terms::Bf16Tiles, sum, 4 + sum / 2, 6 + sum % 2);
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
  kb.call(tileKernel(kb, rowTiles, columnTiles),
          {a, b, sums, stride, steps, kb.i1(accumulate)});
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
    for (int64_t tile = 0; tile < vectorsOf(columns); tile += 2) {
      int64_t height = vectorsOfPanel(tile, columns);
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

void AttentionTiles::storeWeightsOverQueries(Value x, Value y, Value to,
                                             Value row, int64_t step) {
  kb.store(round(x, y), kb.at(kb.at(to, kb.mul(row, tileSide)),
                              step * panelSide * tileSide));
}

void AttentionTiles::sumPanelOverQueries(Value panel, Value weights,
                                         RowsView terms, int64_t columns,
                                         RowsView to) {
  Value start = cut.panelStart(panel);
  Value first = kb.div(cut.firstQuery(start), tileDepth);
  Value end = kb.div(kb.add(cut.blockQueries, tileDepth - 1), tileDepth);
  Value c = cut.rowOf(to, start);
  for (int64_t tile = 0; tile < vectorsOf(columns); tile += 2) {
    int64_t width = vectorsOfPanel(tile, columns);
    multiply(2, width, kb.at(weights, kb.mul(first, panelSide * tileSide)),
             kb.at(kb.at(terms.ptr, tile * querySteps * tileSlots),
                   kb.mul(first, width * tileSlots)),
             kb.at(c, tile * tileSide), to.stride, kb.sub(end, first), true);
  }
}

std::unique_ptr<AttentionPanels> tfm::productsOnTiles(AttentionBlock &cut) {
  return std::make_unique<AttentionTiles>(cut);
}
