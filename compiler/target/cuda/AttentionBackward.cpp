//===- AttentionBackward.cpp - the derivative of attention ----------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/dialect/TfmDialect.h"
#include "compiler/target/cuda/Attention.h"
#include "compiler/target/cuda/AttentionLaunch.h"
#include "compiler/target/emit/ElementEmitter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace tfm;
using namespace tfm::cuda;
using namespace tfm::sched;

namespace {

/// How many blocks of each kind there are, in this order.
struct Blocks {
  int64_t keys, queries, masks, distances;

  Blocks(AttentionBackwardOp op, int64_t size) {
    ArrayRef<int64_t> q = tensorType(op.getQ()).getShape(),
                      k = tensorType(op.getK()).getShape();
    auto tiles = [&](int64_t rows) {
      return static_cast<int64_t>(llvm::divideCeil(rows, size));
    };
    keys = k[0] * k[1] * tiles(k[2]);
    queries = q[0] * q[1] * tiles(q[2]);
    masks = 0;
    if (Value dmask = op.getDmask()) {
      ArrayRef<int64_t> mask = tensorType(dmask).getShape();
      masks = mask[0] * mask[1] * tiles(mask[2]) * tiles(mask[3]);
    }
    distances = 0;
    if (Value ddistance = op.getDdistance()) {
      ArrayRef<int64_t> biases = tensorType(ddistance).getShape();
      distances = biases[0] * tiles(biases[1]);
    }
  }
  int64_t all() const { return keys + queries + masks + distances; }
};

class AttentionBackward {
public:
  AttentionBackward(ModuleOp module, StringRef name, LaunchOp launch,
                    AttentionBackwardOp op, int64_t size, const Blocks &blocks)
      : blocks(blocks),
        block(module, name, launch,
              launch.getReads().size() + launch.getWrites().size(),
              {{blocks.all(), 1, 1}, AttentionTile::threads}),
        k(block.k), tile(block, ruleOf(op, launch), size) {
    AttentionLaunch rows(launch, block);
    rows.fill(tile, op);
    lse = rows.read(op.getLse());
    products = rows.read(op.getInner());
    dout = rows.read(op.getDout());
    dq = rows.written(op.getDq());
    dk = rows.written(op.getDk());
    dv = rows.written(op.getDv());
    dmask = rows.written(op.getDmask());
    ddistance = rows.written(op.getDdistance());
  }

  void emit() {
    queries = tile.allocate(tile.width());
    keys = tile.allocate(tile.width());
    values = tile.allocate(tile.valueWidth());
    cotangents = tile.allocate(tile.valueWidth());
    weights = tile.allocateScores();
    slopes = tile.allocateScores();
    inner = block.shared(tile.size);
    logs = block.shared(tile.size);
    SmallVector<Part> parts = {
        {blocks.keys, &AttentionBackward::emitKeys},
        {blocks.queries, &AttentionBackward::emitQueries}};
    if (blocks.masks)
      parts.push_back({blocks.masks, &AttentionBackward::emitMask});
    if (blocks.distances)
      parts.push_back({blocks.distances, &AttentionBackward::emitDistances});
    emitParts(block.block(), parts);
  }

private:
  using Head = AttentionTile::Head;

  /// What so many blocks compute, each by its number among these.
  struct Part {
    int64_t blocks;
    void (AttentionBackward::*emit)(Value number);
  };
  void emitParts(Value number, ArrayRef<Part> parts) {
    auto [count, emitPart] = parts.front();
    if (parts.size() == 1)
      return (this->*emitPart)(number);
    k.ifThen(
        k.less(number, k.i64(count)), [&] { (this->*emitPart)(number); },
        [&] { emitParts(k.sub(number, k.i64(count)), parts.drop_front()); });
  }

  /// A tile of queries of a head and what belongs to them: their cotangents,
  /// the logarithms of their sums, and dout . out of each.
  void loadQueries(const Head &head, Value first) {
    Value count = k.i64(tile.queries());
    tile.load(queries, tile.q, tile.headOf(tile.q, head.batch, head.query),
              first, count);
    tile.load(cotangents, dout, tile.headOf(dout, head.batch, head.query),
              first, count);
    Value query = k.min(k.add(first, tile.row), k.i64(tile.queries() - 1));
    k.ifThen(k.equal(tile.own, k.i64(0)), [&] {
      auto load = [&](const Rows &rows) {
        return k.loadScalar(tile.perQuery(rows, head, query));
      };
      k.storeScalar(load(products), k.at(inner, tile.row));
      k.storeScalar(tile.finiteLog(load(lse)), k.at(logs, tile.row));
    });
    block.barrier();
  }

  void loadKeys(const Head &head, Value first) {
    Value count = k.i64(tile.keys());
    tile.load(keys, tile.k, tile.headOf(tile.k, head.batch, head.key), first,
              count);
    tile.load(values, tile.v, tile.headOf(tile.v, head.batch, head.key), first,
              count);
  }

  /// What a query and a key contribute.
  using Pair = AttentionTile::Derivative;
  Pair pair(const Head &head, Value query, Value inTile, Value key,
            Value product, Value dweight) {
    Value none = k.splat(0.0);
    AttentionTile::Score score =
        tile.score(product, head, query, query, key, k.i64(tile.keys()));
    Value visible =
        block.both(score.visible, k.less(query, k.i64(tile.queries())));
    Value log = k.loadScalar(k.at(logs, inTile));
    // A query that sees no key has no logarithm either.
    Value power = k.select(visible, k.subf(score.value, log), none);
    Value weight = k.select(visible, tile.exp(power), none);
    return tile.derive(score, weight, dweight,
                       k.loadScalar(k.at(inner, inTile)),
                       tile.kept(head, query, key));
  }

  void storeScore(Value x, Value to, Value column) {
    auto store = [&] {
      k.storeScalar(x, tile.at(to, tile.row, column, tile.size));
    };
    if (Value stores = tile.storesScores())
      k.ifThen(stores, store);
    else
      store();
  }

  /// A tile of keys: dk and dv, over the queries that see it, of all heads that
  /// share it.
  void emitKeys(Value number) {
    Value keyTile = k.rem(number, k.i64(tile.keyTiles()));
    number = k.div(number, tile.keyTiles());
    Head head;
    head.key = k.rem(number, k.i64(tile.keyHeads()));
    head.batch = k.div(number, tile.keyHeads());
    Value firstKey = k.mul(keyTile, tile.size);
    Value key = k.add(firstKey, tile.row);
    loadKeys(head, firstKey);
    // From the first query that sees a key of the tile on.
    Value firstQuery = tile.rule.causal ? firstKey : k.i64(0);
    Value endOfQueries = k.i64(tile.queries());
    if (tile.rule.window)
      endOfQueries = k.min(endOfQueries,
                           k.add(firstKey, tile.size - 1 + *tile.rule.window));
    int64_t columns = tile.columnsOf(tile.width()),
            valueColumns = tile.columnsOf(tile.valueWidth());
    SmallVector<Value> sums(columns + valueColumns, k.splat(0.0));
    sums = k.loop(
        k.i64(0), k.i64(tile.headsPerKey()), 1, sums,
        [&](Value inGroup, ValueRange beforeHead) {
          head.query = k.add(k.mul(head.key, tile.headsPerKey()), inGroup);
          return k.loop(
              firstQuery, endOfQueries, tile.size, beforeHead,
              [&](Value query0, ValueRange before) {
                loadQueries(head, query0);
                SmallVector<Value> products =
                    tile.dots(keys, queries, tile.width());
                SmallVector<Value> dweights =
                    tile.dots(values, cotangents, tile.valueWidth());
                for (auto [i, both] :
                     llvm::enumerate(llvm::zip_equal(products, dweights))) {
                  auto [product, dweight] = both;
                  Value inTile = tile.scoreAt(static_cast<int64_t>(i));
                  Pair one = pair(head, k.add(query0, inTile), inTile, key,
                                  product, dweight);
                  storeScore(one.weight, weights, inTile);
                  storeScore(one.dproduct, slopes, inTile);
                }
                block.warpBarrier();
                SmallVector<Value> next = tile.addRows(
                    before.take_front(columns), slopes, queries, tile.width());
                llvm::append_range(
                    next, tile.addRows(before.drop_front(columns), weights,
                                       cotangents, tile.valueWidth()));
                block.barrier();
                return next;
              });
        });
    Value exists;
    if (tile.keys() % tile.size)
      exists = k.less(key, k.i64(tile.keys()));
    if (dk.exists())
      tile.storeRow(dk, tile.headOf(dk, head.batch, head.key), key,
                    ArrayRef(sums).take_front(columns),
                    k.splat(tile.rule.scale), exists);
    if (dv.exists())
      tile.storeRow(dv, tile.headOf(dv, head.batch, head.key), key,
                    ArrayRef(sums).drop_front(columns), k.splat(1.0), exists);
  }

  /// A tile of queries: dq, over the keys that they see.
  void emitQueries(Value number) {
    if (!dq.exists())
      return;
    Value queryTile = k.rem(number, k.i64(tile.queryTiles()));
    number = k.div(number, tile.queryTiles());
    Head head;
    head.query = k.rem(number, k.i64(tile.heads()));
    head.batch = k.div(number, tile.heads());
    head.key = k.div(head.query, tile.headsPerKey());
    Value firstQuery = k.mul(queryTile, tile.size);
    Value query = k.add(firstQuery, tile.row);
    Value firstKey = k.i64(0), endOfKeys = k.i64(tile.keys());
    if (tile.rule.causal)
      endOfKeys = k.min(endOfKeys, k.add(firstQuery, tile.size));
    if (tile.rule.window)
      firstKey =
          k.max(firstKey, k.sub(firstQuery, k.i64(*tile.rule.window - 1)));
    loadQueries(head, firstQuery);
    SmallVector<Value> sums(tile.columnsOf(tile.width()), k.splat(0.0));
    sums = k.loop(firstKey, endOfKeys, tile.size, sums,
                  [&](Value key0, ValueRange before) {
                    loadKeys(head, key0);
                    block.barrier();
                    forEachPair(head, query, key0,
                                [&](const Pair &one, Value inTile) {
                                  storeScore(one.dproduct, slopes, inTile);
                                });
                    block.warpBarrier();
                    SmallVector<Value> next =
                        tile.addRows(before, slopes, keys, tile.width());
                    block.barrier();
                    return next;
                  });
    Value exists;
    if (tile.queries() % tile.size)
      exists = k.less(query, k.i64(tile.queries()));
    tile.storeRow(dq, tile.headOf(dq, head.batch, head.query), query, sums,
                  k.splat(tile.rule.scale), exists);
  }

  /// Visits this thread's keys of a tile with its query.
  void forEachPair(const Head &head, Value query, Value key0,
                   llvm::function_ref<void(const Pair &, Value)> visit) {
    SmallVector<Value> products = tile.dots(queries, keys, tile.width());
    SmallVector<Value> dweights =
        tile.dots(cotangents, values, tile.valueWidth());
    for (auto [i, both] :
         llvm::enumerate(llvm::zip_equal(products, dweights))) {
      auto [product, dweight] = both;
      Value inTile = tile.scoreAt(static_cast<int64_t>(i));
      visit(pair(head, query, tile.row, k.add(key0, inTile), product, dweight),
            inTile);
    }
  }

  /// A tile of the mask: its gradient, over the batches and heads that share
  /// it.
  void emitMask(Value number) {
    ArrayRef<int64_t> shape = dmask.view.shape;
    Value keyTile = k.rem(number, k.i64(tile.keyTiles()));
    number = k.div(number, tile.keyTiles());
    Value queryTile = k.rem(number, k.i64(tile.queryTiles()));
    number = k.div(number, tile.queryTiles());
    Value maskHead = k.rem(number, k.i64(shape[1])),
          maskBatch = k.div(number, shape[1]);
    Value query0 = k.mul(queryTile, tile.size),
          key0 = k.mul(keyTile, tile.size);
    Value query = k.add(query0, tile.row);
    int64_t batches = shape[0] == 1 ? tile.batches() : 1,
            heads = shape[1] == 1 ? tile.heads() : 1;
    SmallVector<Value> sums(tile.scoreColumns(), k.splat(0.0));
    sums = k.loop(k.i64(0), k.i64(batches * heads), 1, sums,
                  [&](Value shared, ValueRange before) {
                    Head head;
                    head.batch = k.add(maskBatch, k.div(shared, heads));
                    head.query = k.add(maskHead, k.rem(shared, k.i64(heads)));
                    head.key = k.div(head.query, tile.headsPerKey());
                    loadKeys(head, key0);
                    loadQueries(head, query0);
                    SmallVector<Value> next;
                    forEachPair(head, query, key0, [&](const Pair &one, Value) {
                      next.push_back(k.addf(before[next.size()], one.dscore));
                    });
                    block.barrier();
                    return next;
                  });
    for (auto [i, sum] : llvm::enumerate(sums)) {
      Value key = k.add(key0, tile.scoreAt(static_cast<int64_t>(i)));
      Value exists = block.both(k.less(query, k.i64(tile.queries())),
                                k.less(key, k.i64(tile.keys())));
      exists = block.both(exists, tile.storesScores());
      k.ifThen(exists, [&, sum = sum] {
        Value offset = k.add(k.mul(maskBatch, dmask.view.strides[0]),
                             k.mul(maskHead, dmask.view.strides[1]));
        offset = k.add(offset, k.add(k.mul(query, dmask.view.strides[2]),
                                     k.mul(key, dmask.view.strides[3])));
        k.storeScalar(sum, k.at(dmask.pointer, offset));
      });
    }
  }

  /// As many biases of a head as a tile has rows: their gradients, over the
  /// batches and all pairs at one of these distances. Each has a group of
  /// threads, which share out the queries of a tile.
  void emitDistances(Value number) {
    int64_t columns = ddistance.view.shape[1];
    int64_t tiles = static_cast<int64_t>(llvm::divideCeil(columns, tile.size));
    Value column0 = k.mul(k.rem(number, k.i64(tiles)), tile.size);
    Head head;
    head.query = k.div(number, tiles);
    head.key = k.div(head.query, tile.headsPerKey());
    Value column = k.add(column0, tile.row);
    int64_t noDistance = tile.rule.causal ? 0 : (columns - 1) / 2;
    Value distance0 = k.sub(column0, k.i64(noDistance));
    // What is not there is loaded from within the tile.
    auto inTile = [&](Value x) {
      return k.min(k.max(x, k.i64(0)), k.i64(tile.size - 1));
    };
    auto overKeys = [&](Value query0, ValueRange before) {
      // The tiles with keys at these distances from the tile's queries.
      Value last = k.sub(query0, distance0);
      Value first = k.max(k.sub(last, k.i64(tile.size - 1)), k.i64(0));
      first = k.mul(k.div(first, tile.size), tile.size);
      Value end = k.min(k.add(last, tile.size), k.i64(tile.keys()));
      return k.loop(
          first, end, tile.size, before,
          [&](Value key0, ValueRange before) -> SmallVector<Value> {
            loadKeys(head, key0);
            loadQueries(head, query0);
            forEachPair(head, k.add(query0, tile.row), key0,
                        [&](const Pair &one, Value at) {
                          storeScore(one.dscore, slopes, at);
                        });
            block.barrier();
            Value sum = before.front();
            Value shift =
                k.sub(k.sub(query0, key0), k.add(distance0, tile.row));
            for (int64_t i = 0; i != tile.scoreColumns(); ++i) {
              Value query = k.add(tile.own, i * tile.group);
              Value key = k.add(query, shift);
              Value exists = block.both(k.less(k.i64(-1), key),
                                        k.less(key, k.i64(tile.size)));
              exists = block.both(exists, tile.storesScores());
              Value slope = k.loadScalar(
                  tile.at(slopes, inTile(query), inTile(key), tile.size));
              sum = k.addf(sum, block.orElse(exists, slope, 0.0));
            }
            block.barrier();
            return {sum};
          });
    };
    Value sum = k.loop(k.i64(0), k.i64(tile.batches()), 1, k.splat(0.0),
                       [&](Value batch, ValueRange before) {
                         head.batch = batch;
                         return k.loop(k.i64(0), k.i64(tile.queries()),
                                       tile.size, before, overKeys);
                       })
                    .front();
    sum = block.reduceLanes(sum, tile.group,
                            [&](Value a, Value b) { return k.addf(a, b); });
    Value exists =
        block.both(k.equal(tile.own, k.i64(0)), k.less(column, k.i64(columns)));
    k.ifThen(exists, [&] {
      Value offset = k.add(k.mul(head.query, ddistance.view.strides[0]),
                           k.mul(column, ddistance.view.strides[1]));
      k.storeScalar(sum, k.at(ddistance.pointer, offset));
    });
  }

  const Blocks blocks;
  BlockBuilder block;
  KernelBuilder &k;
  AttentionTile tile;
  Rows lse, products, dout, dq, dk, dv, dmask, ddistance;
  /// In shared memory: rows of q, k, v and dout, weights and the cotangents of
  /// products, and of each query dout . out and its logarithm.
  Value queries, keys, values, cotangents, weights, slopes, inner, logs;
};

} // namespace

void cuda::emitAttentionBackwardKernel(ModuleOp module, StringRef name,
                                       LaunchOp launch) {
  if (isOnTensorCores(launch))
    return emitTensorAttentionBackward(module, name, launch);
  auto op = cast<AttentionBackwardOp>(launch.getFirstOp());
  int64_t size = tileSizeOf(launch, widthOf(op));
  AttentionBackward(module, name, launch, op, size, Blocks(op, size)).emit();
}
