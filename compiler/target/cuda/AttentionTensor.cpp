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
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace tfm;
using namespace tfm::cuda;
using namespace tfm::sched;

namespace {

/// A block has one or two tiles of 64 queries, 16 of each of its warps; of two
/// a warp multiplies every key and value that it reads with both.
class AttentionTensor : AttentionFragments {
public:
  AttentionTensor(ModuleOp module, StringRef name, LaunchOp launch,
                  AttentionOp op)
      : AttentionFragments(module, name, launch, ruleOf(op, launch),
                           blocksOf(op), residentOf(op)),
        tileCount(tileCountOf(op)) {
    AttentionLaunch rows(launch, block);
    rows.fill(tile, op);
    tile.start = rows.read(op.getStart());
    leaveUnscaled();
    out = rows.written(op.getOut());
    lse = rows.written(op.getLse());
  }

  void emit() {
    Value number = block.block();
    const int64_t ofHead = blocksOfHead(tile.queries(), tileCount);
    // The last ones see the most keys: they begin first.
    Value inHead = k.sub(k.i64(ofHead - 1), k.rem(number, k.i64(ofHead)));
    number = k.div(number, ofHead);
    head.query = k.rem(number, k.i64(tile.heads()));
    head.batch = k.div(number, tile.heads());
    head.key = k.div(head.query, tile.headsPerKey());
    if (tile.start.exists())
      start = k.loadInteger(k.at(tile.start.pointer,
                                 k.mul(head.batch, tile.start.view.strides[0]),
                                 k.b.getI32Type()));
    for (int64_t i = 0; i != tileCount; ++i) {
      Queries &each = tiles.emplace_back();
      each.first = k.add(k.mul(inHead, tileCount * tileSize), i * tileSize);
      for (int64_t row = 0; row != rowsOfThread; ++row)
        each.ofRow.push_back(k.add(each.first, rowOf(row)));
    }
    Value first = keysOf(tiles.front().first).first,
          end = keysOf(tiles.back().first).second, endOfRows = endOfCache();

    const int64_t queryBytes = tileBytes(tile.q), keyBytes = tileBytes(tile.k),
                  kept = keyBytes + tileBytes(tile.v),
                  ofTile = tile.rule.dropout ? keptBytes : 0,
                  stageBytes = kept + tileCount * ofTile;
    Value queries =
        block.dynamicShared(tileCount * queryBytes + 2 * stageBytes);
    Value stages = inBytes(queries, tileCount * queryBytes);
    Value keyHead = tile.headOf(tile.k, head.batch, head.key),
          valueHead = tile.headOf(tile.v, head.batch, head.key);
    // The second tile of the last block may not exist: it has the one before
    // it, and stores nothing.
    const int64_t lastTile = (tile.queries() - 1) / tileSize * tileSize;
    for (auto [i, each] : llvm::enumerate(tiles))
      loadTile(tile.q, tile.headOf(tile.q, head.batch, head.query),
               k.min(each.first, k.i64(lastTile)),
               inBytes(queries, static_cast<int64_t>(i) * queryBytes));
    StagedOperand ofQueries = staged(tile.q, tile.q.pointer, false),
                  ofKeys = staged(tile.k, tile.k.pointer, false),
                  ofValues = staged(tile.v, tile.v.pointer, true);
    ofQueries.beginFragments(warpRow, 1, /*isB=*/false);
    ofKeys.beginFragments(k.i64(0), tileSize / 16, /*isB=*/true);
    ofValues.beginFragments(k.i64(0), tile.valueWidth() / 16, /*isB=*/true);

    SmallVector<Value> state;
    for (int64_t i = 0; i != tileCount; ++i) {
      for (int64_t row = 0; row != rowsOfThread; ++row)
        state.append({k.splat(-infinity), k.splat(0.0)});
      state.append(elementsOf(tile.valueWidth()), k.splat(0.0));
    }
    auto keptOf = [&](Value stage, size_t i) {
      return inBytes(stage, kept + static_cast<int64_t>(i) * ofTile);
    };
    state = walk(
        first, end, stages, stageBytes, state,
        [&](Value stage, Value key0) {
          loadTile(tile.k, keyHead, key0, stage, endOfRows);
          loadTile(tile.v, valueHead, key0, inBytes(stage, keyBytes),
                   endOfRows);
          if (tile.rule.dropout)
            for (auto [i, each] : llvm::enumerate(tiles))
              drawKept(keptOf(stage, i), head, each.first, key0);
        },
        [&](Value stage, Value key0, ValueRange before) {
          auto products = multiplyKeys(ofQueries, ofKeys, queries, stage);
          SmallVector<SmallVector<Value>> after;
          for (auto [i, each] : llvm::enumerate(tiles))
            after.push_back(visitPairs(each.first, key0, [&](bool allVisible) {
              return weigh(each, products[i], key0, stateOf(before, i),
                           keptOf(stage, i), allVisible);
            }));
          return addValues(after, ofValues, inBytes(stage, keyBytes));
        });
    for (auto [i, each] : llvm::enumerate(tiles))
      finish(each, stateOf(state, i));
  }

private:
  /// A tile of queries: its first one, and those of this thread.
  struct Queries {
    Value first;
    SmallVector<Value> ofRow;
  };

  /// Two where that many queries are there, and registers for what they have.
  static int64_t tileCountOf(AttentionOp op) {
    RankedTensorType q = tensorType(op.getQ()), v = tensorType(op.getV());
    return q.getDimSize(2) > tileSize && v.getDimSize(3) <= 64 ? 2 : 1;
  }
  static int64_t blocksOfHead(int64_t queries, int64_t tileCount) {
    return llvm::divideCeil(queries, tileCount * tileSize);
  }
  static int64_t blocksOf(AttentionOp op) {
    ArrayRef<int64_t> q = tensorType(op.getQ()).getShape();
    return q[0] * q[1] * blocksOfHead(q[2], tileCountOf(op));
  }
  /// As many as there are registers for.
  static int64_t residentOf(AttentionOp op) {
    bool wide = tensorType(op.getV()).getDimSize(3) > 64;
    return tileCountOf(op) == 2 || wide ? 2 : 3;
  }

  /// Of a tile of queries: the largest scores and the sums of weights of each
  /// row, and the output in the measure of the former.
  size_t stateSize() const {
    return 2 * rowsOfThread + elementsOf(tile.valueWidth());
  }
  ValueRange stateOf(ValueRange all, size_t i) const {
    return all.slice(i * stateSize(), stateSize());
  }

  SmallVector<SmallVector<Value>> multiplyKeys(StagedOperand &queries,
                                               StagedOperand &keys,
                                               Value memory, Value stage) {
    SmallVector<SmallVector<Value>> sums(
        tileCount, SmallVector<Value>(elementsOf(tileSize), k.splat(0.0)));
    for (int64_t step = 0; step != tile.width() / 16; ++step) {
      SmallVector<SmallVector<Value>> x;
      for (int64_t i = 0; i != tileCount; ++i)
        x.push_back(
            queries.fragment(inBytes(memory, i * tileBytes(tile.q)), 0, step));
      for (int64_t pair = 0; pair != tileSize / 16; ++pair) {
        SmallVector<Value> y = keys.fragment(stage, pair, step);
        for (int64_t i = 0; i != tileCount; ++i)
          multiply(x[i], y, pairOf(sums[i], pair));
      }
    }
    return sums;
  }

  /// From the products of a tile and its state before: its state, whose output
  /// lacks this tile's values, and the weights of these, as factors.
  SmallVector<Value> weigh(const Queries &queries, ArrayRef<Value> products,
                           Value key0, ValueRange before, Value drawn,
                           bool allVisible) {
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
              products[at(fragment, row, which)], head, queries.ofRow[row],
              positionOf(queries.ofRow[row]),
              k.add(key0, columnOf(fragment, which)), endOfKeys(), allVisible);
          scores.push_back(block.orElse(score.visible, score.value, -infinity));
          most = k.maxf(most, scores.back());
        }
      // Four neighbouring lanes have a row.
      most = block.reduceLanes(most, 4,
                               [&](Value x, Value y) { return k.maxf(x, y); });
      Value none = arith::CmpFOp::create(k.b, k.loc, arith::CmpFPredicate::OEQ,
                                         most, k.splat(-infinity));
      Value base = binary(k.select(none, k.splat(0.0), most), unit);
      Value factor = power(largest, base);
      Kept kept;
      if (tile.rule.dropout)
        kept = keptOfRow(drawn, row, k.i64(0));
      // Each lane adds up its own until the end.
      total = k.mulf(total, factor);
      for (int64_t fragment = 0; fragment != fragments; ++fragment)
        for (int64_t which = 0; which != ofRow; ++which) {
          Value weight = power(scores[fragment * ofRow + which], base);
          total = k.addf(total, weight);
          if (tile.rule.dropout)
            weight =
                block.orElse(keepsColumn(kept, fragment, which), weight, 0.0);
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
    after.append(output);
    for (int64_t step = 0; step != tileSize / 16; ++step)
      after.append(factorOf(pairOf(weights, step)));
    return after;
  }

  /// The states of all tiles after what `weigh` made of each.
  SmallVector<Value> addValues(MutableArrayRef<SmallVector<Value>> weighed,
                               StagedOperand &values, Value stage) {
    constexpr int64_t ofStep = 4;
    for (int64_t step = 0; step != tileSize / 16; ++step)
      for (int64_t pair = 0; pair != tile.valueWidth() / 16; ++pair) {
        SmallVector<Value> y = values.fragment(stage, pair, step);
        for (SmallVector<Value> &each : weighed) {
          MutableArrayRef<Value> state =
              MutableArrayRef<Value>(each).take_front(stateSize());
          ArrayRef<Value> x =
              ArrayRef(each).slice(stateSize() + step * ofStep, ofStep);
          multiply(x, y, pairOf(state.drop_front(2 * rowsOfThread), pair));
        }
      }
    SmallVector<Value> states;
    for (const SmallVector<Value> &each : weighed)
      states.append(each.begin(), each.begin() + stateSize());
    return states;
  }

  void finish(const Queries &queries, ValueRange state) {
    SmallVector<Value> factors;
    for (int64_t i = 0; i != rowsOfThread; ++i) {
      Value total = block.reduceLanes(
          state[2 * i + 1], 4, [&](Value x, Value y) { return k.addf(x, y); });
      Value none = arith::CmpFOp::create(k.b, k.loc, arith::CmpFPredicate::OEQ,
                                         total, k.splat(0.0));
      factors.push_back(
          k.select(none, k.splat(0.0), k.divf(k.splat(keptFactor()), total)));
      if (!lse.exists())
        continue;
      Value query = queries.ofRow[i];
      Value first = k.equal(k.rem(lane, k.i64(4)), k.i64(0));
      Value stores = block.both(first, k.less(query, k.i64(tile.queries())));
      k.ifThen(stores, [&] {
        Value log = math::LogOp::create(k.b, k.loc, total);
        Value largest = k.mulf(state[2 * i], k.splat(unit));
        Value value = k.select(none, k.splat(-infinity), k.addf(largest, log));
        k.storeScalar(value, tile.perQuery(lse, head, query));
      });
    }
    if (!out.exists())
      return;
    k.ifThen(k.less(queries.first, k.i64(tile.queries())), [&] {
      storeRows(out, tile.headOf(out, head.batch, head.query), queries.first,
                state.drop_front(2 * rowsOfThread), factors);
    });
  }

  const int64_t tileCount;
  Rows out, lse;
  AttentionTile::Head head;
  SmallVector<Queries> tiles;
};

} // namespace

void cuda::emitTensorAttention(ModuleOp module, StringRef name,
                               LaunchOp launch) {
  AttentionTensor(module, name, launch, cast<AttentionOp>(launch.getFirstOp()))
      .emit();
}
