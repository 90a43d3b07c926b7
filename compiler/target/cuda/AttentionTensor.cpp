//===- AttentionTensor.cpp - attention on tensor cores --------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/target/cuda/Attention.h"
#include "compiler/target/cuda/AttentionSoftmax.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace tfm;
using namespace tfm::cuda;
using namespace tfm::sched;

namespace {

/// A block has one or two tiles of 64 queries, 16 of each of its warps; of two
/// a warp multiplies every key and value that it reads with both.
class AttentionTensor : AttentionSoftmax {
public:
  AttentionTensor(ModuleOp module, StringRef name, LaunchOp launch,
                  AttentionOp op)
      : AttentionSoftmax(module, name, launch, op,
                         {{blocksOf(op), 1, 1}, threads, residentOf(op)}),
        tileCount(tileCountOf(op)) {}

  void emit() {
    Value number = block.block();
    const int64_t ofHead = blocksOfHead(tile.queries(), tileCount);
    // The last ones see the most keys: they begin first.
    Value inHead = k.sub(k.i64(ofHead - 1), k.rem(number, k.i64(ofHead)));
    enter(k.div(number, ofHead));
    if (tile.start.exists())
      start = k.loadInteger(k.at(tile.start.pointer,
                                 k.mul(head.batch, tile.start.view.strides[0]),
                                 k.b.getI32Type()));
    for (int64_t i = 0; i != tileCount; ++i)
      tiles.push_back(queriesFrom(
          k.add(k.mul(inHead, tileCount * tileSize), i * tileSize)));
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
    for (auto [i, each] : llvm::enumerate(tiles)) {
      ValueRange ofTile = stateOf(state, i);
      finish(each, {rowOfState(ofTile, 0), rowOfState(ofTile, 1)},
             ofTile.drop_front(2 * rowsOfThread));
    }
  }

private:
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
  static Row rowOfState(ValueRange state, int64_t row) {
    return {state[2 * row], state[2 * row + 1], Value()};
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
    SmallVector<Value> weights(products), after;
    SmallVector<Value> output(before.drop_front(2 * rowsOfThread));
    for (int64_t row = 0; row != rowsOfThread; ++row) {
      Value query = queries.ofRow[row];
      auto keyAt = [&](int64_t fragment, int64_t which) {
        return k.add(key0, columnOf(fragment, which));
      };
      auto kept = [&] { return keptOfRow(drawn, row, k.i64(0)); };
      Row weighed = weighRow(
          row, query, {positionOf(query), endOfKeys(), keyAt}, weights,
          rowOfState(before, row), allVisible,
          tile.rule.dropout ? llvm::function_ref<Kept()>(kept) : nullptr);
      scaleRow(output, row, weighed.factor);
      after.append({weighed.largest, weighed.total});
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

  const int64_t tileCount;
  SmallVector<Queries> tiles;
};

} // namespace

void cuda::emitTensorAttention(ModuleOp module, StringRef name,
                               LaunchOp launch) {
  AttentionTensor(module, name, launch, cast<AttentionOp>(launch.getFirstOp()))
      .emit();
}
