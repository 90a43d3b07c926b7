//===- AttentionForward.cpp - attention on blocks of threads --------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/dialect/TfmDialect.h"
#include "compiler/schedule/Launches.h"
#include "compiler/target/cuda/Attention.h"
#include "compiler/target/cuda/AttentionLaunch.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace tfm;
using namespace tfm::cuda;
using namespace tfm::sched;

namespace {

class AttentionForward {
  /// As many blocks as there are registers for, of which ptxas (CUDA 13) saves
  /// too many otherwise.
  static constexpr int64_t resident = 4;

public:
  AttentionForward(ModuleOp module, StringRef name, LaunchOp launch,
                   AttentionOp op, int64_t size, int64_t blocks)
      : block(module, name, launch,
              launch.getReads().size() + launch.getWrites().size(),
              {{blocks, 1, 1}, AttentionTile::threads, resident}),
        k(block.k), tile(block, ruleOf(op, launch), size) {
    AttentionLaunch rows(launch, block);
    rows.fill(tile, op);
    out = rows.written(op.getOut());
    lse = rows.written(op.getLse());
  }

  void emit() {
    Value number = block.block();
    Value queryTile = k.rem(number, k.i64(tile.queryTiles()));
    number = k.div(number, tile.queryTiles());
    head.query = k.rem(number, k.i64(tile.heads()));
    head.batch = k.div(number, tile.heads());
    head.key = k.div(head.query, tile.headsPerKey());
    firstQuery = k.mul(queryTile, tile.size);
    query = k.add(firstQuery, tile.row);
    Value start = k.i64(0);
    if (tile.start.exists())
      start = k.loadInteger(k.at(tile.start.pointer,
                                 k.mul(head.batch, tile.start.view.strides[0]),
                                 k.b.getI32Type()));
    position = k.add(start, query);
    findKeys(start);

    int64_t width = tile.valueWidth();
    queries = tile.allocate(tile.width());
    others = tile.allocate(std::max(tile.width(), width));
    weights = tile.allocateScores();
    tile.load(queries, tile.q, tile.headOf(tile.q, head.batch, head.query),
              firstQuery, k.i64(tile.queries()));
    // The largest score, the sum of the weights, and the output so far.
    SmallVector<Value> state = {k.splat(-infinity), k.splat(0.0)};
    state.append(tile.columnsOf(width), k.splat(0.0));
    state = k.loop(
        firstKey, endOfKeys, tile.size, state,
        [&](Value key0, ValueRange before) { return visit(key0, before); });
    finish(state);
  }

private:
  /// Keys are numbered by their positions: from the first that a query of the
  /// tile sees to behind the last.
  void findKeys(Value start) {
    endOfKeys = k.i64(tile.keys());
    Value first = k.add(start, firstQuery);
    if (tile.rule.causal) {
      Value last = k.add(first, tile.size);
      // Queries that only fill up the tile see nothing of their own.
      last = k.min(last, k.add(start, tile.queries()));
      endOfKeys = tile.rule.ring ? last : k.min(last, endOfKeys);
    }
    firstKey = k.i64(0);
    if (tile.rule.window)
      firstKey = k.max(firstKey, k.sub(first, k.i64(*tile.rule.window - 1)));
  }

  SmallVector<Value> visit(Value key0, ValueRange before) {
    Value largest = before[0], total = before[1];
    int64_t ring = tile.rule.ring ? tile.keys() : 0;
    tile.load(others, tile.k, tile.headOf(tile.k, head.batch, head.key), key0,
              endOfKeys, ring);
    block.barrier();
    SmallVector<Value> products = tile.dots(queries, others, tile.width());
    SmallVector<Value> scores;
    Value most = k.splat(-infinity);
    for (auto [i, product] : llvm::enumerate(products)) {
      Value key = k.add(key0, tile.scoreAt(static_cast<int64_t>(i)));
      if (tile.keyScale.exists())
        product = k.mulf(product, scaleOf(tile.keyScale, key, ring));
      AttentionTile::Score score =
          tile.score(product, head, query, position, key, endOfKeys);
      scores.push_back(block.orElse(score.visible, score.value, -infinity));
      most = k.maxf(most, scores.back());
    }
    auto larger = [&](Value a, Value b) { return k.maxf(a, b); };
    auto sum = [&](Value a, Value b) { return k.addf(a, b); };
    most =
        k.maxf(largest, block.reduceLanes(most, tile.scoreThreads(), larger));
    // Where a query has seen no key yet.
    Value none = arith::CmpFOp::create(k.b, k.loc, arith::CmpFPredicate::OEQ,
                                       most, k.splat(-infinity));
    Value base = k.select(none, k.splat(0.0), most);
    Value factor = tile.exp(k.subf(largest, base));
    Value added = k.splat(0.0);
    for (auto [i, score] : llvm::enumerate(scores)) {
      Value weight = tile.exp(k.subf(score, base));
      added = k.addf(added, weight);
      Value other = tile.scoreAt(static_cast<int64_t>(i));
      Value key = k.add(key0, other);
      if (Value kept = tile.kept(head, query, key))
        weight = k.mulf(weight, kept);
      if (tile.valueScale.exists())
        weight = k.mulf(weight, scaleOf(tile.valueScale, key, ring));
      auto store = [&] {
        k.storeScalar(weight, tile.at(weights, tile.row, other, tile.size));
      };
      if (Value stores = tile.storesScores())
        k.ifThen(stores, store);
      else
        store();
    }
    total = k.fma(total, factor,
                  block.reduceLanes(added, tile.scoreThreads(), sum));
    block.barrier();
    tile.load(others, tile.v, tile.headOf(tile.v, head.batch, head.key), key0,
              endOfKeys, ring);
    block.barrier();
    SmallVector<Value> sums;
    for (Value column : before.drop_front(2))
      sums.push_back(k.mulf(column, factor));
    sums = tile.addRows(sums, weights, others, tile.valueWidth());
    block.barrier();
    SmallVector<Value> state = {most, total};
    llvm::append_range(state, sums);
    return state;
  }

  /// What the integers of a key or value count times.
  Value scaleOf(const Rows &scales, Value key, int64_t ring) {
    key = k.min(key, k.sub(endOfKeys, k.i64(1)));
    if (ring)
      key = k.rem(key, k.i64(ring));
    return k.loadScalar(k.at(tile.headOf(scales, head.batch, head.key),
                             k.mul(key, scales.view.strides[2])));
  }

  void finish(ArrayRef<Value> state) {
    Value largest = state[0], total = state[1];
    Value exists;
    if (tile.queries() % tile.size)
      exists = k.less(query, k.i64(tile.queries()));
    Value none = arith::CmpFOp::create(k.b, k.loc, arith::CmpFPredicate::OEQ,
                                       total, k.splat(0.0));
    Value factor = k.select(none, k.splat(0.0), k.divf(k.splat(1.0), total));
    if (out.exists())
      tile.storeRow(out, tile.headOf(out, head.batch, head.query), query,
                    state.drop_front(2), factor, exists);
    if (!lse.exists())
      return;
    Value first = k.equal(tile.own, k.i64(0));
    k.ifThen(block.both(first, exists), [&] {
      Value log = math::LogOp::create(k.b, k.loc, total);
      Value value = k.select(none, k.splat(-infinity), k.addf(largest, log));
      k.storeScalar(value, tile.perQuery(lse, head, query));
    });
  }

  BlockBuilder block;
  KernelBuilder &k;
  AttentionTile tile;
  Rows out, lse;
  AttentionTile::Head head;
  Value firstQuery, query, position, firstKey, endOfKeys;
  /// In shared memory: the queries, keys or values, and weights.
  Value queries, others, weights;
};

} // namespace

std::optional<int64_t> cuda::mostWidth(LaunchOp launch) {
  auto forward = dyn_cast<AttentionOp>(launch.getFirstOp());
  if ((forward && isOfFewQueries(launch)) || isOnTensorCores(launch))
    return std::nullopt;
  int64_t width = forward
                      ? widthOf(forward)
                      : widthOf(cast<AttentionBackwardOp>(launch.getFirstOp()));
  if (tileSizeOf(launch, width))
    return std::nullopt;
  while (!tileSizeOf(launch, width))
    --width;
  return width;
}

void cuda::emitAttentionKernel(ModuleOp module, StringRef name,
                               LaunchOp launch) {
  if (isOfFewQueries(launch))
    return emitFewQueries(module, name, launch);
  if (isOnTensorCores(launch)) {
    emitTensorAttention(module, name, launch);
    if (canAttendInWarpgroups(launch))
      addHopperForm(module, name, [&](StringRef form) {
        emitWarpgroupAttention(module, form, launch);
      });
    return;
  }
  auto op = cast<AttentionOp>(launch.getFirstOp());
  ArrayRef<int64_t> shape = tensorType(op.getQ()).getShape();
  int64_t size = tileSizeOf(launch, widthOf(op));
  int64_t blocks = shape[0] * shape[1] *
                   static_cast<int64_t>(llvm::divideCeil(shape[2], size));
  AttentionForward(module, name, launch, op, size, blocks).emit();
}
