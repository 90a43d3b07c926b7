//===- AttentionTensor.cpp - attention on tensor cores --------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/dialect/TfmDialect.h"
#include "compiler/target/cuda/Attention.h"
#include "compiler/target/cuda/AttentionFragments.h"
#include "compiler/target/cuda/AttentionLaunch.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include <limits>

using namespace mlir;
using namespace tfm;
using namespace tfm::cuda;
using namespace tfm::sched;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

/// A block has 64 queries.
class AttentionTensor : AttentionFragments {
public:
  AttentionTensor(ModuleOp module, StringRef name, LaunchOp launch,
                  AttentionOp op)
      : AttentionFragments(module, name, launch, ruleOf(op, launch),
                           blocksOf(op), residentOf(op)) {
    AttentionLaunch rows(launch, block);
    rows.fill(tile, op);
    out = rows.written(op.getOut());
    lse = rows.written(op.getLse());
  }

  void emit() {
    Value number = block.block();
    // The last tiles see the most keys: they begin first.
    Value queryTile = k.sub(k.i64(tile.queryTiles() - 1),
                            k.rem(number, k.i64(tile.queryTiles())));
    number = k.div(number, tile.queryTiles());
    head.query = k.rem(number, k.i64(tile.heads()));
    head.batch = k.div(number, tile.heads());
    head.key = k.div(head.query, tile.headsPerKey());
    firstQuery = k.mul(queryTile, tileSize);
    for (int64_t i = 0; i != rowsOfThread; ++i)
      query.push_back(k.add(firstQuery, rowOf(i)));
    auto [first, end] = keysOf(firstQuery);

    const int64_t keyBytes = tileBytes(tile.k),
                  kept = keyBytes + tileBytes(tile.v),
                  stageBytes = kept + (tile.rule.dropout ? keptBytes : 0);
    Value queries = block.dynamicShared(tileBytes(tile.q) + 2 * stageBytes);
    Value stages = inBytes(queries, tileBytes(tile.q));
    Value keyHead = tile.headOf(tile.k, head.batch, head.key),
          valueHead = tile.headOf(tile.v, head.batch, head.key);
    loadTile(tile.q, tile.headOf(tile.q, head.batch, head.query), firstQuery,
             queries);
    StagedOperand ofQueries = staged(tile.q, tile.q.pointer, false),
                  ofKeys = staged(tile.k, tile.k.pointer, false),
                  ofValues = staged(tile.v, tile.v.pointer, true);
    ofQueries.beginFragments(warpRow, 1, /*isB=*/false);
    ofKeys.beginFragments(k.i64(0), tileSize / 16, /*isB=*/true);
    ofValues.beginFragments(k.i64(0), tile.valueWidth() / 16, /*isB=*/true);

    SmallVector<Value> state;
    for (int64_t i = 0; i != rowsOfThread; ++i)
      state.append({k.splat(-infinity), k.splat(0.0)});
    state.append(elementsOf(tile.valueWidth()), k.splat(0.0));
    state = walk(
        first, end, stages, stageBytes, state,
        [&](Value stage, Value key0) {
          loadTile(tile.k, keyHead, key0, stage);
          loadTile(tile.v, valueHead, key0, inBytes(stage, keyBytes));
          if (tile.rule.dropout)
            drawKept(inBytes(stage, kept), head, firstQuery, key0);
        },
        [&](Value stage, Value key0, ValueRange before) {
          SmallVector<Value> scores =
              multiplyKeys(ofQueries, ofKeys, queries, stage);
          return visit(scores, key0, before, ofValues, inBytes(stage, keyBytes),
                       inBytes(stage, kept));
        });
    finish(state);
  }

private:
  static int64_t blocksOf(AttentionOp op) {
    ArrayRef<int64_t> q = tensorType(op.getQ()).getShape();
    return q[0] * q[1] * tilesOf(q[2]);
  }

  /// As many as there are registers for.
  static int64_t residentOf(AttentionOp op) {
    return tensorType(op.getV()).getDimSize(3) > 64 ? 2 : 3;
  }

  SmallVector<Value> multiplyKeys(StagedOperand &queries, StagedOperand &keys,
                                  Value memory, Value stage) {
    SmallVector<Value> sums(elementsOf(tileSize), k.splat(0.0));
    for (int64_t step = 0; step != tile.width() / 16; ++step) {
      SmallVector<Value> x = queries.fragment(memory, 0, step);
      for (int64_t pair = 0; pair != tileSize / 16; ++pair)
        multiply(x, keys.fragment(stage, pair, step), pairOf(sums, pair));
    }
    return sums;
  }

  SmallVector<Value> visit(ArrayRef<Value> products, Value key0,
                           ValueRange before, StagedOperand &values,
                           Value stage, Value drawn) {
    constexpr int64_t fragments = tileSize / fragmentColumns;
    SmallVector<Value> weights(products.size()), after;
    SmallVector<Value> output(before.drop_front(2 * rowsOfThread));
    for (int64_t row = 0; row != rowsOfThread; ++row) {
      Value largest = before[2 * row], total = before[2 * row + 1];
      Value most = largest;
      SmallVector<Value> scores;
      for (int64_t fragment = 0; fragment != fragments; ++fragment)
        for (int64_t which = 0; which != ofRow; ++which) {
          AttentionTile::Score score = tile.score(
              products[at(fragment, row, which)], head, query[row], query[row],
              k.add(key0, columnOf(fragment, which)), endOfKeys());
          scores.push_back(block.orElse(score.visible, score.value, -infinity));
          most = k.maxf(most, scores.back());
        }
      // Four neighbouring lanes have a row.
      most = block.reduceLanes(most, 4,
                               [&](Value x, Value y) { return k.maxf(x, y); });
      Value none = arith::CmpFOp::create(k.b, k.loc, arith::CmpFPredicate::OEQ,
                                         most, k.splat(-infinity));
      Value base = k.select(none, k.splat(0.0), most);
      Value factor = exp(k.subf(largest, base));
      Kept kept;
      if (tile.rule.dropout)
        kept = keptOfRow(drawn, row, k.i64(0));
      // Each lane adds up its own until the end.
      total = k.mulf(total, factor);
      for (int64_t fragment = 0; fragment != fragments; ++fragment)
        for (int64_t which = 0; which != ofRow; ++which) {
          Value weight = exp(k.subf(scores[fragment * ofRow + which], base));
          total = k.addf(total, weight);
          if (tile.rule.dropout)
            weight = k.mulf(weight, factorOfColumn(kept, fragment, which));
          weights[at(fragment, row, which)] = weight;
        }
      for (int64_t fragment = 0;
           fragment != tile.valueWidth() / fragmentColumns; ++fragment)
        for (int64_t which = 0; which != ofRow; ++which) {
          Value &sum = output[at(fragment, row, which)];
          sum = k.mulf(sum, factor);
        }
      after.append({most, total});
    }
    for (int64_t step = 0; step != tileSize / 16; ++step) {
      SmallVector<Value> x = factorOf(pairOf(weights, step));
      for (int64_t pair = 0; pair != tile.valueWidth() / 16; ++pair)
        multiply(x, values.fragment(stage, pair, step), pairOf(output, pair));
    }
    after.append(output);
    return after;
  }

  void finish(ArrayRef<Value> state) {
    SmallVector<Value> factors;
    for (int64_t i = 0; i != rowsOfThread; ++i) {
      Value total = block.reduceLanes(
          state[2 * i + 1], 4, [&](Value x, Value y) { return k.addf(x, y); });
      Value none = arith::CmpFOp::create(k.b, k.loc, arith::CmpFPredicate::OEQ,
                                         total, k.splat(0.0));
      factors.push_back(
          k.select(none, k.splat(0.0), k.divf(k.splat(1.0), total)));
      if (!lse.exists())
        continue;
      Value first = k.equal(k.rem(lane, k.i64(4)), k.i64(0));
      Value stores = block.both(first, k.less(query[i], k.i64(tile.queries())));
      k.ifThen(stores, [&] {
        Value log = math::LogOp::create(k.b, k.loc, total);
        Value value =
            k.select(none, k.splat(-infinity), k.addf(state[2 * i], log));
        k.storeScalar(value, tile.perQuery(lse, head, query[i]));
      });
    }
    if (out.exists())
      storeRows(out, tile.headOf(out, head.batch, head.query), firstQuery,
                state.drop_front(2 * rowsOfThread), factors);
  }

  Rows out, lse;
  AttentionTile::Head head;
  Value firstQuery;
  /// This thread's queries.
  SmallVector<Value> query;
};

} // namespace

void cuda::emitTensorAttention(ModuleOp module, StringRef name,
                               LaunchOp launch) {
  AttentionTensor(module, name, launch, cast<AttentionOp>(launch.getFirstOp()))
      .emit();
}
