//===- AttentionVectors.cpp - products of attention in vectors ------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/target/cpu/AttentionProducts.h"
#include "compiler/target/cpu/MicroKernel.h"
#include "compiler/target/cpu/Packing.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include <algorithm>
#include <functional>

using namespace mlir;
using namespace tfm;

namespace {

class AttentionVectors final : public AttentionProducts {
public:
  using AttentionProducts::AttentionProducts;

  int64_t queriesLength(int64_t columns) const override {
    return llvm::alignTo(columns, kb.lanes) * cut.block;
  }
  /// [columns, block], the transpose.
  void takeQueries(RowsView view, int64_t columns, Value to) override;

  int64_t keysLength(int64_t columns, Use use) const override {
    return cut.keyBlock *
           (use == asFactor ? factorWidth(columns) : copyWidth(columns));
  }
  Keys takeKeys(RowsView view, Value rows, int64_t columns, Use use,
                int64_t offset, RowsView scales) override;

  void scoresOfPanel(Value panel, RowsView keys, int64_t columns, Value queries,
                     Value to) override;

  int64_t weightsLength() const override { return 0; }
  Value takeWeights(Value weights, int64_t) override { return weights; }
  void sumOverKeys(Value weights, RowsView terms, int64_t columns, Value sums,
                   bool accumulate) override;

  int64_t weightsOverQueriesLength() const override { return 0; }
  Value takeWeightsOverQueries(Value weights, int64_t) override {
    return weights;
  }
  int64_t queryTermsLength(int64_t columns) const override {
    return cut.block * copyWidth(columns);
  }
  RowsView takeQueryTerms(RowsView view, int64_t columns,
                          int64_t offset) override {
    return readable(view, cut.t0, cut.blockQueries, columns, offset, {});
  }
  void sumOverQueries(Value weights, RowsView terms, int64_t columns,
                      RowsView to) override;

private:
  /// Elements of a row in scratch; 0 where rows are read where they lie, which
  /// asks for f32 and whole vectors.
  int64_t copyWidth(int64_t columns) const {
    return columns % kb.lanes == 0 && !cut.copies
               ? 0
               : llvm::alignTo(columns, kb.lanes);
  }
  /// The same for what is read in any steps.
  int64_t factorWidth(int64_t columns) const {
    return cut.copies ? copyWidth(columns) : 0;
  }
  /// `rows` rows of `columns` elements of `view` from row `first` on, in
  /// scratch at `offset` where `copyWidth` says so, else where they lie.
  RowsView readable(RowsView view, Value first, Value rows, int64_t columns,
                    int64_t offset, RowsView scales);

  /// Runs `run(vectors, first)` for the cut of `columns` into register tiles.
  void
  overColumns(int64_t columns,
              function_ref<void(int64_t vectors, int64_t first)> run) const;
  /// Runs `one(rows)` with the number of rows of key panel `panel`.
  void byHeight(Value panel, function_ref<void(int64_t)> one);
};

} // namespace

AttentionVectors::Keys AttentionVectors::takeKeys(RowsView view, Value rows,
                                                  int64_t columns, Use use,
                                                  int64_t offset,
                                                  RowsView scales) {
  Keys keys;
  bool copied = factorWidth(columns) > 0;
  if (use != asFactor || copied)
    keys.terms = readable(view, cut.k0, rows, columns, offset, scales);
  keys.factor =
      copied ? keys.terms
             : RowsView{cut.rowOf(view, cut.k0), view.stride, view.element};
  return keys;
}

RowsView AttentionVectors::readable(RowsView view, Value first, Value rows,
                                    int64_t columns, int64_t offset,
                                    RowsView scales) {
  int64_t stride = copyWidth(columns);
  if (stride == 0)
    return {cut.rowOf(view, first), view.stride, view.element};
  RowsView copy{cut.at(offset), kb.i64(stride)};
  Value inRing = cut.spec.ring ? kb.rem(first, kb.i64(cut.keys)) : Value();
  kb.loop(kb.i64(0), rows, 1, [&](Value row) {
    Value stored = cut.spec.ring ? kb.rem(kb.add(inRing, row), kb.i64(cut.keys))
                                 : kb.add(first, row);
    Value from = cut.rowOf(view, stored), to = cut.rowOf(copy, row);
    Value scale = scales.ptr
                      ? kb.splat(kb.loadScalar(cut.rowOf(scales, stored)))
                      : Value();
    for (int64_t column = 0; column < columns; column += kb.lanes) {
      Value some =
          cut.load(view, from, column, cut.columnMask(column, columns));
      kb.store(scale ? kb.mulf(some, scale) : some, kb.at(to, column));
    }
  });
  return copy;
}

void AttentionVectors::takeQueries(RowsView view, int64_t columns, Value to) {
  Packing packing;
  if (view.element)
    packing.from = Packing::fromType(view.element);
  kb.loop(kb.i64(0), kb.i64(cut.block), kb.lanes, [&](Value first) {
    // Past the last query its row is repeated: lanes that nobody stores.
    Value row = kb.min(kb.add(cut.t0, first), kb.i64(cut.queries - 1));
    Value rows = kb.min(kb.i64(kb.lanes), kb.sub(kb.i64(cut.queries), row));
    kb.call(packTransposed(kb, packing),
            {cut.rowOf(view, row), view.stride, kb.i64(columns), rows,
             kb.at(to, first), kb.i64(cut.block)});
  });
}

void AttentionVectors::overColumns(
    int64_t columns, function_ref<void(int64_t, int64_t)> run) const {
  int64_t all = llvm::divideCeil(columns, kb.lanes);
  for (int64_t first = 0; first < all; first += cut.tileVectors)
    run(std::min(cut.tileVectors, all - first), first * kb.lanes);
}

void AttentionVectors::byHeight(Value panel, function_ref<void(int64_t)> one) {
  if (cut.tallPanels == cut.keyPanels)
    return one(cut.keyRows);
  kb.ifThen(
      kb.less(panel, kb.i64(cut.tallPanels)), [&] { one(cut.keyRows); },
      [&] { one(cut.keyRows - 1); });
}

void AttentionVectors::scoresOfPanel(Value panel, RowsView keys,
                                     int64_t columns, Value queries, Value to) {
  Value start = cut.panelStart(panel);
  Value a = kb.at(keys.ptr, kb.mul(start, keys.stride));
  Value first = cut.firstQuery(start);
  byHeight(panel, [&](int64_t height) {
    auto tile = [&](int64_t vectors, int64_t column) {
      kb.call(microKernel(kb, height, vectors, ALayout::Rows),
              {a, keys.stride, kb.at(queries, column), kb.i64(cut.block),
               kb.at(to, column), kb.i64(cut.block), kb.i64(columns),
               kb.i1(false)});
    };
    // From the first vector on that sees a key.
    std::function<void(int64_t, int64_t)> seen = [&](int64_t vectors,
                                                     int64_t column) {
      if (!cut.spec.causal)
        return tile(vectors, column);
      kb.ifThen(
          kb.less(first, kb.i64(column + kb.lanes)),
          [&] { tile(vectors, column); },
          [&] {
            if (vectors > 1)
              seen(vectors - 1, column + kb.lanes);
          });
    };
    for (int64_t column = 0; column < cut.block; column += cut.width)
      seen(cut.tileVectors, column);
  });
}

void AttentionVectors::sumOverQueries(Value weights, RowsView terms,
                                      int64_t columns, RowsView to) {
  kb.loop(cut.panelFrom, cut.panelTo, 1, [&](Value panel) {
    Value start = cut.panelStart(panel);
    Value first = cut.firstQuery(start);
    Value a = kb.at(kb.at(weights, kb.mul(start, cut.block)), first);
    Value b = cut.rowOf(terms, first);
    Value c = cut.rowOf(to, start);
    Value depth = kb.sub(cut.blockQueries, first);
    byHeight(panel, [&](int64_t height) {
      overColumns(columns, [&](int64_t vectors, int64_t column) {
        kb.call(microKernel(kb, height, vectors, ALayout::Rows),
                {a, kb.i64(cut.block), kb.at(b, column), terms.stride,
                 kb.at(c, column), to.stride, depth, kb.i1(true)});
      });
    });
  });
}

void AttentionVectors::sumOverKeys(Value weights, RowsView terms,
                                   int64_t columns, Value sums,
                                   bool accumulate) {
  int64_t stride = llvm::alignTo(columns, kb.lanes);
  Value from = kb.sub(cut.keyFrom, cut.k0);
  Value a = kb.at(weights, kb.mul(from, cut.block));
  Value b = cut.rowOf(terms, from);
  Value all = kb.sub(cut.keyTo, cut.keyFrom);
  overColumns(columns, [&](int64_t vectors, int64_t column) {
    overTiles(
        std::min(cut.block, cut.queries), [&](int64_t height, int64_t first) {
          Value count = all;
          if (cut.spec.causal)
            count = kb.min(
                all, kb.max(kb.i64(0),
                            kb.sub(kb.add(cut.position(cut.t0), first + height),
                                   cut.keyFrom)));
          kb.call(microKernel(kb, height, vectors, ALayout::Columns),
                  {kb.at(a, first), kb.i64(cut.block), kb.at(b, column),
                   terms.stride, kb.at(kb.at(sums, first * stride), column),
                   kb.i64(stride), count, kb.i1(accumulate)});
        });
  });
}

std::unique_ptr<AttentionProducts> tfm::productsInVectors(AttentionBlock &cut) {
  return std::make_unique<AttentionVectors>(cut);
}
