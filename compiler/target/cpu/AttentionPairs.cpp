//===- AttentionPairs.cpp - products of attention in pairs of bf16 --------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/target/cpu/AttentionPanels.h"
#include "compiler/target/cpu/MicroKernel.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
using namespace tfm;

namespace {

/// By the micro-kernel of matrix products: 32 rows are cut into register tiles.
class AttentionPairs final : public AttentionPanels {
public:
  using AttentionPanels::AttentionPanels;

  int64_t keysLength(int64_t columns, Use use) const override {
    return (use & asFactor ? factorLength(columns) : 0) +
           (use & asTerms ? pairsLength(keySteps, columns) : 0);
  }
  /// Factors are rows, of whole steps, terms pairs.
  Keys takeKeys(RowsView view, Value rows, int64_t columns, Use use,
                int64_t offset, RowsView scales) override;

  void scoresOfPanel(Value panel, RowsView keys, int64_t columns, Value queries,
                     Value to) override;
  void beginScores(Value panel, RowsView keys, int64_t columns,
                   Value queries) override {
    begun = {panel, keys, columns, queries};
  }
  void endScores(Value to) override {
    scoresOfPanel(begun.panel, begun.keys, begun.columns, begun.queries, to);
  }

  void sumOverPanels(Value weights, RowsView terms, int64_t columns, Value sums,
                     bool accumulate, Value from, Value to) override;

  /// [panel of keys][32 keys][slot of queries]
  void storeWeightsOverQueries(Value x, Value y, Value to, Value row,
                               int64_t step) override {
    kb.store(round(x, y), kb.at(kb.at(to, kb.mul(row, querySteps * stepSlots)),
                                step * stepSlots));
  }
  void sumPanelOverQueries(Value panel, Value weights, RowsView terms,
                           int64_t columns, RowsView to) override;

private:
  struct {
    Value panel;
    RowsView keys;
    int64_t columns;
    Value queries;
  } begun;

  int64_t factorLength(int64_t columns) const {
    return cut.keyPanels * panelSide * stepsOf(columns) * stepSlots;
  }
  /// A register tile, as `microKernel` has it.
  void multiply(int64_t rows, int64_t vectors, ALayout layout, Value a,
                int64_t aStride, Value b, int64_t bStride, Value sums,
                Value stride, Value slots, bool accumulate) {
    MicroKernel kernel{rows, vectors, layout, Terms::Bf16Pairs};
    kb.call(microKernel(kb, kernel), {a, kb.i64(aStride), b, kb.i64(bStride),
                                      sums, stride, slots, kb.i1(accumulate)});
  }
  Value slotsOf(Value terms) { return kb.div(kb.add(terms, 1), 2); }
  /// A tile of a panel, unless all that it has lies past the end: only where
  /// there are no whole panels does that cost a comparison.
  void unlessPast(int64_t count, int64_t row, Value first, Value end,
                  function_ref<void()> tile) {
    if (count % panelSide == 0 || row == 0)
      return tile();
    kb.ifThen(kb.less(first, end), tile);
  }
  /// Of the block.
  Value keysSeen() { return kb.sub(cut.keyTo, cut.k0); }
};

} // namespace

AttentionPairs::Keys AttentionPairs::takeKeys(RowsView view, Value rows,
                                              int64_t columns, Use use,
                                              int64_t offset, RowsView) {
  Keys keys;
  if (use & asFactor) {
    keys.factor.ptr = cut.at(offset);
    offset += factorLength(columns);
    int64_t length = stepsOf(columns) * stepSlots;
    auto step = VectorType::get({panelSide}, kb.bf16Type);
    kb.loop(kb.i64(0), rows, 1, [&](Value row) {
      Value from = cut.rowOf(view, kb.add(cut.k0, row));
      Value to = kb.at(keys.factor.ptr, kb.mul(row, length));
      for (int64_t column = 0; column < columns; column += panelSide) {
        Value mask;
        if (columns - column < panelSide)
          mask = kb.maskOf(kb.i64(columns - column), panelSide);
        kb.store(kb.loadAs(step, kb.at(from, column, view.element), mask),
                 kb.at(to, column / 2));
      }
    });
  }
  if (use & asTerms) {
    keys.terms.ptr = cut.at(offset);
    takePairs(cut.rowOf(view, cut.k0), view, rows, columns, keySteps,
              keys.terms.ptr);
  }
  return keys;
}

void AttentionPairs::scoresOfPanel(Value panel, RowsView keys, int64_t columns,
                                   Value queries, Value to) {
  int64_t length = stepsOf(columns) * stepSlots;
  Value slots = kb.i64(llvm::divideCeil(columns, 2));
  Value start = cut.panelStart(panel);
  auto ofRows = [&](int64_t rows, int64_t row) {
    Value a = kb.at(keys.ptr, kb.mul(kb.add(start, row), length));
    Value first = cut.firstQuery(kb.add(start, row));
    for (int64_t column = 0; column < cut.block; column += panelSide) {
      auto tile = [&](int64_t vector) {
        int64_t from = column + vector * kb.lanes;
        multiply(rows, panelSide / kb.lanes - vector, ALayout::Rows, a, length,
                 kb.at(queries, column * length + vector * kb.lanes), panelSide,
                 kb.at(to, row * cut.block + from), kb.i64(cut.block), slots,
                 false);
      };
      auto ofColumns = [&] {
        if (!cut.spec.causal)
          return tile(0);
        kb.ifThen(
            kb.less(first, kb.i64(column + kb.lanes)), [&] { tile(0); },
            [&] {
              kb.ifThen(kb.less(first, kb.i64(column + panelSide)),
                        [&] { tile(1); });
            });
      };
      // Cotangents of scores that are kept are kept of whole blocks.
      if (cut.spec.dmask || cut.spec.ddistance)
        ofColumns();
      else
        unlessPast(cut.queries, column, kb.i64(column), cut.blockQueries,
                   ofColumns);
    }
  };
  overTiles(panelSide, [&](int64_t rows, int64_t row) {
    unlessPast(cut.keys, row, kb.add(start, row), keysSeen(),
               [&] { ofRows(rows, row); });
  });
}

void AttentionPairs::sumOverPanels(Value weights, RowsView terms,
                                   int64_t columns, Value sums, bool accumulate,
                                   Value from, Value to) {
  int64_t stride = llvm::alignTo(columns, kb.lanes);
  Value all = kb.mul(kb.sub(to, from), panelSide);
  if (cut.keys % panelSide != 0)
    all = kb.min(all, kb.sub(keysSeen(), kb.mul(from, panelSide)));
  auto ofRows = [&](int64_t panel, int64_t rows, int64_t row) {
    int64_t query = panel + row;
    Value keys = all;
    if (cut.spec.causal) {
      Value end = kb.sub(kb.add(cut.position(cut.t0), query + rows),
                         kb.add(cut.k0, kb.mul(from, panelSide)));
      keys = kb.min(all, kb.max(kb.i64(0), end));
    }
    Value a = kb.at(weights, kb.add(kb.mul(from, stepSlots * panelSide),
                                    panel * keySteps * stepSlots + row));
    for (int64_t first = 0; first < vectorsOf(columns); first += 2) {
      int64_t vectors = vectorsOfPanel(first, columns);
      int64_t width = vectors * tileSide;
      multiply(rows, vectors, ALayout::Columns, a, panelSide,
               kb.at(kb.at(terms.ptr, first * keySteps * stepSlots * tileSide),
                     kb.mul(from, stepSlots * width)),
               width, kb.at(sums, query * stride + first * tileSide),
               kb.i64(stride), slotsOf(keys), accumulate);
    }
  };
  for (int64_t panel = 0; panel < cut.block; panel += panelSide)
    overTiles(panelSide, [&](int64_t rows, int64_t row) {
      unlessPast(cut.queries, panel + row, kb.i64(panel + row),
                 cut.blockQueries, [&] { ofRows(panel, rows, row); });
    });
}

void AttentionPairs::sumPanelOverQueries(Value panel, Value weights,
                                         RowsView terms, int64_t columns,
                                         RowsView to) {
  Value start = cut.panelStart(panel);
  Value end = slotsOf(cut.blockQueries);
  int64_t length = querySteps * stepSlots;
  auto ofRows = [&](int64_t rows, int64_t row) {
    Value first = kb.div(cut.firstQuery(kb.add(start, row)), 2);
    Value a = kb.at(kb.at(weights, row * length), first);
    Value c = cut.rowOf(to, kb.add(start, row));
    for (int64_t vector = 0; vector < vectorsOf(columns); vector += 2) {
      int64_t vectors = vectorsOfPanel(vector, columns);
      int64_t width = vectors * tileSide;
      multiply(
          rows, vectors, ALayout::Rows, a, length,
          kb.at(kb.at(terms.ptr, vector * querySteps * stepSlots * tileSide),
                kb.mul(first, width)),
          width, kb.at(c, vector * tileSide), to.stride, kb.sub(end, first),
          true);
    }
  };
  overTiles(panelSide, [&](int64_t rows, int64_t row) {
    unlessPast(cut.keys, row, kb.add(start, row), keysSeen(),
               [&] { ofRows(rows, row); });
  });
}

std::unique_ptr<AttentionPanels> tfm::productsInPairs(AttentionBlock &cut) {
  return std::make_unique<AttentionPairs>(cut);
}
