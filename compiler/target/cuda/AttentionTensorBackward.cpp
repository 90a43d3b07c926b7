//===- AttentionTensorBackward.cpp - the derivative on tensor cores -------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/dialect/TfmDialect.h"
#include "compiler/target/cuda/Attention.h"
#include "compiler/target/cuda/AttentionFragments.h"
#include "compiler/target/cuda/AttentionLaunch.h"
#include "compiler/target/cuda/Pieces.h"
#include "compiler/target/emit/ElementEmitter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace tfm;
using namespace tfm::cuda;
using namespace tfm::sched;

namespace {

/// Some blocks have 64 keys as rows, others 64 queries. Of both kinds a tile is
/// two matrices: of keys k and v, of queries q and dout.
class AttentionTensorBackward : AttentionFragments {
public:
  AttentionTensorBackward(ModuleOp module, StringRef name, LaunchOp launch,
                          AttentionBackwardOp op)
      : AttentionFragments(
            module, name, launch, ruleOf(op, launch),
            {{keyBlocks(op) + queryBlocks(op), 1, 1}, threads, residentOf(op)}),
        keyBlockCount(keyBlocks(op)) {
    AttentionLaunch rows(launch, block);
    rows.fill(tile, op);
    leaveUnscaled();
    lse = rows.read(op.getLse());
    inner = rows.read(op.getInner());
    dout = rows.read(op.getDout());
    dq = rows.written(op.getDq());
    dk = rows.written(op.getDk());
    dv = rows.written(op.getDv());
  }

  void emit() {
    memory = block.dynamicShared(pairBytes() + 2 * stageBytes());
    Value number = block.block();
    k.ifThen(
        k.less(number, k.i64(keyBlockCount)), [&] { emitKeys(number); },
        [&] { emitQueries(k.sub(number, k.i64(keyBlockCount))); });
  }

private:
  using Head = AttentionTile::Head;

  /// As many as there are registers for.
  static int64_t residentOf(AttentionBackwardOp op) {
    return widthOf(op) <= 64 && !op.getDropout() ? 3 : 2;
  }
  static int64_t keyBlocks(AttentionBackwardOp op) {
    ArrayRef<int64_t> keys = tensorType(op.getK()).getShape();
    return keys[0] * keys[1] * tilesOf(keys[2]);
  }
  static int64_t queryBlocks(AttentionBackwardOp op) {
    ArrayRef<int64_t> queries = tensorType(op.getQ()).getShape();
    return queries[0] * queries[1] * tilesOf(queries[2]);
  }

  // Shared memory: the tile of rows, then two stages of columns, behind each of
  // which are two numbers of every query and what dropout keeps.
  static constexpr int64_t numbersBytes = 2 * tileSize * 4;
  int64_t pairBytes() const { return tileBytes(tile.q) + tileBytes(tile.v); }
  int64_t stageBytes() const {
    return pairBytes() + numbersBytes + (tile.rule.dropout ? keptBytes : 0);
  }
  Value numbersOf(Value stage) { return inBytes(stage, pairBytes()); }
  Value keptOf(Value stage) {
    return inBytes(stage, pairBytes() + numbersBytes);
  }

  void loadKeys(const Head &head, Value first, Value to) {
    loadTile(tile.k, tile.headOf(tile.k, head.batch, head.key), first, to);
    loadTile(tile.v, tile.headOf(tile.v, head.batch, head.key), first,
             inBytes(to, tileBytes(tile.k)));
  }
  void loadQueries(const Head &head, Value first, Value to) {
    loadTile(tile.q, tile.headOf(tile.q, head.batch, head.query), first, to);
    loadTile(dout, tile.headOf(dout, head.batch, head.query), first,
             inBytes(to, tileBytes(tile.q)));
  }

  /// Begins to copy two numbers of each query of a tile, the logarithm of its
  /// sum and dout . out, by a thread each.
  void loadNumbers(const Head &head, Value first, Value to) {
    Value row = k.rem(block.thread(), k.i64(tileSize));
    Value query = k.add(first, row);
    if (tile.queries() % tileSize)
      query = k.min(query, k.i64(tile.queries() - 1));
    auto copy = [&](const Rows &rows) {
      block.copyAsync(k.at(to, block.thread()),
                      tile.perQuery(rows, head, query), /*bytes=*/4);
    };
    k.ifThen(
        k.less(block.thread(), k.i64(tileSize)), [&] { copy(lse); },
        [&] { copy(inner); });
  }
  struct Numbers {
    Value log, inner;
  };
  /// Of a query, by what was copied; the logarithm in `binary` form.
  Numbers asNumbers(Value log, Value inner) {
    return {binary(tile.finiteLog(log)), inner};
  }

  /// One of the two matrices of rows, and that of columns: as factors of each
  /// other, and the columns as terms of the gradient of rows.
  struct Factor {
    StagedOperand rows, columns, terms;
    /// Where they begin in a tile.
    int64_t offset, width;
    /// The rows, where they stay in registers.
    SmallVector<SmallVector<Value>> kept;
  };
  /// Narrow rows do.
  static constexpr int64_t mostKept = 64;

  Factor factor(const Rows &rows, const Rows &columns, int64_t offset) {
    Factor result{staged(rows, rows.pointer, false),
                  staged(columns, columns.pointer, false),
                  staged(columns, columns.pointer, true),
                  offset,
                  rows.view.shape[3],
                  {}};
    result.rows.beginFragments(warpRow, 1, /*isB=*/false);
    result.columns.beginFragments(k.i64(0), tileSize / 16, /*isB=*/true);
    result.terms.beginFragments(k.i64(0), result.width / 16, /*isB=*/true);
    return result;
  }
  SmallVector<Value> rowsOf(Factor &factor, int64_t step) {
    return factor.kept.empty()
               ? factor.rows.fragment(inBytes(memory, factor.offset), 0, step)
               : factor.kept[step];
  }
  void keepRows(Factor &factor) {
    if (factor.width > mostKept)
      return;
    SmallVector<SmallVector<Value>> kept;
    for (int64_t step = 0; step != factor.width / 16; ++step)
      kept.push_back(rowsOf(factor, step));
    factor.kept = std::move(kept);
  }

  /// Of a stage 16 columns, the `part`th.
  Value columnsOf(const Factor &factor, Value stage, Value part) {
    return k.at(inBytes(stage, factor.offset),
                k.mul(part, 16 * factor.width * 2), k.b.getI8Type());
  }
  /// Products of the rows with 16 columns.
  SmallVector<Value> products(Factor &factor, Value columns) {
    SmallVector<Value> sums(2 * ofFragment, k.splat(0.0));
    for (int64_t step = 0; step != factor.width / 16; ++step)
      multiply(rowsOf(factor, step), factor.columns.fragment(columns, 0, step),
               sums);
    return sums;
  }
  /// Adds the 16 columns, each times its factor, to gradients of rows.
  void addColumns(MutableArrayRef<Value> sums, ValueRange factors,
                  Factor &factor, Value columns) {
    SmallVector<Value> x = factorOf(factors);
    for (int64_t pair = 0; pair != factor.width / 16; ++pair)
      multiply(x, factor.terms.fragment(columns, pair, 0), pairOf(sums, pair));
  }
  /// Visits a stage 16 columns after the other, so that scores take few
  /// registers.
  SmallVector<Value>
  visitParts(ValueRange before,
             llvm::function_ref<void(Value part, MutableArrayRef<Value>)> add) {
    return k.loop(k.i64(0), k.i64(tileSize / 16), 1, before,
                  [&](Value part, ValueRange sums) {
                    SmallVector<Value> next(sums);
                    add(part, next);
                    return next;
                  });
  }

  /// What a query and a key contribute.
  AttentionTile::Derivative pair(const Head &head, Value query, Value key,
                                 Value product, Value dweight,
                                 const Numbers &numbers, Value keeps,
                                 bool columnsAreQueries, bool allVisible) {
    // Rows that are not there are not stored.
    AttentionTile::Score score =
        tile.score(product, head, query, query, key,
                   columnsAreQueries ? Value() : endOfKeys(), allVisible);
    Value visible = score.visible;
    if (columnsAreQueries && tile.queries() % tileSize && !allVisible)
      visible = block.both(visible, k.less(query, k.i64(tile.queries())));
    // A query that sees no key has no logarithm either.
    Value weight = block.orElse(visible, power(score.value, numbers.log), 0.0);
    Value kept;
    if (keeps)
      kept = block.orElse(keeps, k.splat(keptFactor()), 0.0);
    return tile.derive(score, weight, dweight, numbers.inner, kept);
  }

  /// 16 keys of each warp: dk and dv, over the queries that see them, of all
  /// heads that share them.
  void emitKeys(Value number) {
    Value keyTile = k.rem(number, k.i64(tile.keyTiles()));
    number = k.div(number, tile.keyTiles());
    Head head;
    head.key = k.rem(number, k.i64(tile.keyHeads()));
    head.batch = k.div(number, tile.keyHeads());
    Value firstKey = k.mul(keyTile, tileSize);
    // From the first query that sees a key of the tile on.
    Value firstQuery = tile.rule.causal ? firstKey : k.i64(0);
    Value endOfQueries = k.i64(tile.queries());
    if (tile.rule.window)
      endOfQueries = k.min(endOfQueries,
                           k.add(firstKey, tileSize - 1 + *tile.rule.window));
    loadKeys(head, firstKey, memory);
    block.commitCopies();
    block.awaitCopies(0);
    block.barrier();
    Factor x = factor(tile.k, tile.q, 0),
           y = factor(tile.v, dout, tileBytes(tile.q));
    keepRows(x);
    keepRows(y);
    const auto ofX = static_cast<size_t>(elementsOf(x.width));
    SmallVector<Value> sums(ofX + elementsOf(y.width), k.splat(0.0));
    auto visitHead = [&](Value inGroup, ValueRange before) {
      head.query = k.add(k.mul(head.key, tile.headsPerKey()), inGroup);
      return walk(
          firstQuery, endOfQueries, inBytes(memory, pairBytes()), stageBytes(),
          before,
          [&](Value stage, Value query0) {
            loadQueries(head, query0, stage);
            loadNumbers(head, query0, numbersOf(stage));
            if (tile.rule.dropout)
              drawKept(keptOf(stage), head, query0, firstKey);
          },
          [&](Value stage, Value query0, ValueRange before) {
            return visitPairs(query0, firstKey, [&](bool allVisible) {
              return visitParts(before, [&](Value part,
                                            MutableArrayRef<Value> next) {
                visitQueries(head, firstKey, stage, query0, part, allVisible, x,
                             y, next.take_front(ofX), next.drop_front(ofX));
              });
            });
          });
    };
    if (tile.headsPerKey() == 1)
      sums = visitHead(k.i64(0), sums);
    else
      sums = k.loop(k.i64(0), k.i64(tile.headsPerKey()), 1, sums,
                    [&](Value inGroup, ValueRange before) {
                      SmallVector<Value> after = visitHead(inGroup, before);
                      // The next head's queries go where others still read.
                      block.barrier();
                      return after;
                    });
    auto store = [&](const Rows &rows, ArrayRef<Value> elements, double scale) {
      SmallVector<Value> factors(rowsOfThread, k.splat(scale));
      if (rows.exists())
        storeRows(rows, tile.headOf(rows, head.batch, head.key), firstKey,
                  elements, factors);
    };
    store(dk, ArrayRef(sums).take_front(ofX), scale);
    store(dv, ArrayRef(sums).drop_front(ofX), 1.0);
  }

  /// Adds to dk and dv what 16 queries of a tile contribute.
  void visitQueries(const Head &head, Value firstKey, Value stage, Value query0,
                    Value part, bool allVisible, Factor &x, Factor &y,
                    MutableArrayRef<Value> dkeys,
                    MutableArrayRef<Value> dvalues) {
    Value ofX = columnsOf(x, stage, part), ofY = columnsOf(y, stage, part);
    SmallVector<Value> scores = products(x, ofX), dweights = products(y, ofY),
                       weights(8), slopes(8);
    Value column0 = k.mul(part, 16);
    for (int64_t fragment = 0; fragment != 2; ++fragment) {
      Value ofColumns =
          k.at(numbersOf(stage), k.add(column0, columnOf(fragment, 0)));
      SmallVector<Value> logs = block.loadVector(ofColumns, ofRow),
                         inners =
                             block.loadVector(k.at(ofColumns, tileSize), ofRow);
      SmallVector<Numbers> numbers;
      for (auto [log, inner] : llvm::zip_equal(logs, inners))
        numbers.push_back(asNumbers(log, inner));
      for (int64_t which = 0; which != ofRow; ++which) {
        Value column = k.add(column0, columnOf(fragment, which));
        Kept kept;
        if (tile.rule.dropout)
          kept = keptOfColumn(keptOf(stage), column);
        for (int64_t row = 0; row != rowsOfThread; ++row) {
          size_t i = at(fragment, row, which);
          AttentionTile::Derivative one =
              pair(head, k.add(query0, column), k.add(firstKey, rowOf(row)),
                   scores[i], dweights[i], numbers[which],
                   tile.rule.dropout ? keepsRow(kept, row) : Value(),
                   /*columnsAreQueries=*/true, allVisible);
          weights[i] = one.weight;
          slopes[i] = one.dproduct;
        }
      }
    }
    addColumns(dvalues, weights, y, ofY);
    addColumns(dkeys, slopes, x, ofX);
  }

  /// 16 queries of each warp: dq, over the keys that they see.
  void emitQueries(Value number) {
    if (!dq.exists())
      return;
    // The last tiles see the most keys: they begin first.
    Value queryTile = k.sub(k.i64(tile.queryTiles() - 1),
                            k.rem(number, k.i64(tile.queryTiles())));
    number = k.div(number, tile.queryTiles());
    Head head;
    head.query = k.rem(number, k.i64(tile.heads()));
    head.batch = k.div(number, tile.heads());
    head.key = k.div(head.query, tile.headsPerKey());
    Value firstQuery = k.mul(queryTile, tileSize);
    auto [firstKey, endOfKeys] = keysOf(firstQuery);
    Value stages = inBytes(memory, pairBytes());
    loadQueries(head, firstQuery, memory);
    loadNumbers(head, firstQuery, numbersOf(stages));
    block.commitCopies();
    block.awaitCopies(0);
    block.barrier();
    Factor x = factor(tile.q, tile.k, 0),
           y = factor(dout, tile.v, tileBytes(tile.q));
    keepRows(x);
    keepRows(y);
    SmallVector<Numbers> numbers;
    for (int64_t row = 0; row != rowsOfThread; ++row) {
      Value ofRow = k.at(numbersOf(stages), rowOf(row));
      numbers.push_back(
          asNumbers(k.loadScalar(ofRow), k.loadScalar(k.at(ofRow, tileSize))));
    }
    SmallVector<Value> sums(elementsOf(x.width), k.splat(0.0));
    sums = walk(
        firstKey, endOfKeys, stages, stageBytes(), sums,
        [&](Value stage, Value key0) {
          loadKeys(head, key0, stage);
          if (tile.rule.dropout)
            drawKept(keptOf(stage), head, firstQuery, key0);
        },
        [&](Value stage, Value key0, ValueRange before) {
          return visitPairs(firstQuery, key0, [&](bool allVisible) {
            return visitParts(before,
                              [&](Value part, MutableArrayRef<Value> next) {
                                visitKeys(head, firstQuery, numbers, stage,
                                          key0, part, allVisible, x, y, next);
                              });
          });
        });
    SmallVector<Value> factors(rowsOfThread, k.splat(scale));
    storeRows(dq, tile.headOf(dq, head.batch, head.query), firstQuery, sums,
              factors);
  }

  /// Adds to dq what 16 keys of a tile contribute.
  void visitKeys(const Head &head, Value firstQuery, ArrayRef<Numbers> numbers,
                 Value stage, Value key0, Value part, bool allVisible,
                 Factor &x, Factor &y, MutableArrayRef<Value> dqueries) {
    Value ofX = columnsOf(x, stage, part), ofY = columnsOf(y, stage, part);
    SmallVector<Value> scores = products(x, ofX), dweights = products(y, ofY),
                       slopes(8);
    Value firstKey = k.add(key0, k.mul(part, 16));
    for (int64_t row = 0; row != rowsOfThread; ++row) {
      Kept kept;
      if (tile.rule.dropout)
        kept = keptOfRow(keptOf(stage), row, part);
      for (int64_t fragment = 0; fragment != 2; ++fragment)
        for (int64_t which = 0; which != ofRow; ++which) {
          size_t i = at(fragment, row, which);
          slopes[i] =
              pair(head, k.add(firstQuery, rowOf(row)),
                   k.add(firstKey, columnOf(fragment, which)), scores[i],
                   dweights[i], numbers[row],
                   tile.rule.dropout ? keepsColumn(kept, fragment, which)
                                     : Value(),
                   /*columnsAreQueries=*/false, allVisible)
                  .dproduct;
        }
    }
    addColumns(dqueries, slopes, x, ofX);
  }

  const int64_t keyBlockCount;
  Rows lse, inner, dout, dq, dk, dv;
  Value memory;
};

} // namespace

void cuda::emitTensorAttentionBackward(ModuleOp module, StringRef name,
                                       LaunchOp launch) {
  AttentionTensorBackward(module, name, launch,
                          cast<AttentionBackwardOp>(launch.getFirstOp()))
      .emit();
}
