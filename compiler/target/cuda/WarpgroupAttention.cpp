//===- WarpgroupAttention.cpp - attention by warpgroups -------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Attention in bf16 on Hopper, after Shah et al. 2024 (FlashAttention-3). A
// block lives as long as the kernel and computes one tile of queries after the
// other. One thread of its last warpgroup has queries, keys and values brought
// to shared memory, and goes on with the next tile while the others end the
// last one. Each of these warpgroups has 64 of the queries: while the values of
// a tile of keys are added up by its weights, and the products of the queries
// with the next keys are, it computes the weights of these. They take turns to
// begin that, so that one multiplies while the other computes weights.
//
//===----------------------------------------------------------------------===//

#include "compiler/schedule/Launches.h"
#include "compiler/target/cuda/Attention.h"
#include "compiler/target/cuda/AttentionSoftmax.h"
#include "compiler/target/cuda/PanelOperand.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace tfm;
using namespace tfm::cuda;
using namespace tfm::sched;

namespace {

class WarpgroupAttention : AttentionSoftmax {
public:
  WarpgroupAttention(ModuleOp module, StringRef name, LaunchOp launch,
                     AttentionOp op)
      : AttentionSoftmax(module, name, launch, op,
                         {{itemsOf(op), 1, 1},
                          (warpgroups + 1) * warpgroupThreads,
                          /*resident=*/1,
                          /*persistent=*/true}),
        items(itemsOf(op)),
        queries(panels(op.getQ(), tile.q, /*rowsAreTerms=*/false, queryTile)),
        keys(panels(op.getK(), tile.k, /*rowsAreTerms=*/false, keyTile)),
        values(panels(op.getV(), tile.v, /*rowsAreTerms=*/true,
                      tile.valueWidth())) {
    // Of its warpgroup, which has a tile of its own.
    warpRow = k.mul(k.rem(block.warp(), k.i64(tileSize / warpRows)), warpRows);
  }

  void emit();

private:
  static constexpr int64_t warpgroups = 2, queryTile = warpgroups * tileSize,
                           multiplying = warpgroups * warpgroupThreads,
                           keyTile = 128, termsOfStep = 16;

  PanelOperand panels(Value value, const Rows &rows, bool rowsAreTerms,
                      int64_t size) {
    return {block, operandOf(rows, rowsAreTerms),
            argumentOf(value).getArgNumber(),
            ArrayRef(rows.view.shape).take_front(2), size};
  }

  /// Tiles of queries of a head. With causal attention each but the first sees
  /// more keys than the one before it: an item is the first and the last one,
  /// or the second and the last but one, so that blocks have equally much to
  /// do.
  static int64_t tilesOfHead(int64_t queries) {
    return llvm::divideCeil(queries, queryTile);
  }
  static int64_t itemsOfHead(int64_t queries, bool causal) {
    int64_t tiles = tilesOfHead(queries);
    return causal ? llvm::divideCeil(tiles, 2) : tiles;
  }
  static int64_t itemsOf(AttentionOp op) {
    ArrayRef<int64_t> q = tensorType(op.getQ()).getShape();
    return q[0] * q[1] * itemsOfHead(q[2], op.getCausal());
  }

  /// The first query of a tile, and the keys that its queries see: tiles from
  /// `last` down to `first`; of those before `whole`, and of the last one, not
  /// every query sees every key.
  struct Place {
    Value query, last, first, whole;
    Value count(KernelBuilder &k) const { return k.add(k.sub(last, first), 1); }
  };
  /// Calls `body` with each tile of queries of this block, how many tiles of
  /// keys there were before it, and how many of queries.
  using Visit =
      llvm::function_ref<void(const Place &place, Value keyTiles, Value tiles)>;
  void forEachTile(Visit body);
  Place placeOf(Value number);

  /// Something in shared memory that is filled and emptied in turns, in as many
  /// places as there are barriers of each kind.
  struct Ring {
    Value memory, full, empty;
    int64_t bytes, places;
  };
  Ring ring(int64_t bytes, int64_t places);
  /// The place of what comes after `before` others, and the parity of its
  /// round.
  struct Turn {
    Value number, parity;
  };
  Turn turnOf(const Ring &ring, Value before) {
    return {k.rem(before, k.i64(ring.places)),
            k.rem(k.div(before, ring.places), k.i64(2))};
  }
  Value placeIn(const Ring &ring, const Turn &turn) {
    return k.at(ring.memory, k.mul(turn.number, ring.bytes), k.b.getI8Type());
  }
  /// Waits for it, and tells where it is.
  Value filled(const Ring &ring, Value before);
  /// This warp does not read it any more.
  void leave(const Ring &ring, Value before);
  /// Once nobody reads what was there before: begins to fill it, in pieces of
  /// `operand`, which `bringPiece` is called for.
  void fill(const Ring &ring, Value before, int64_t pieces,
            const PanelOperand &operand,
            llvm::function_ref<void(int64_t piece, Value to, Value barrier)>
                bringPiece);

  /// The two warpgroups that multiply begin their products in turns: this one
  /// waits for its own, and has the other one go on.
  void awaitTurn() { block.barrier(k.add(warpgroup(), 1), multiplying); }
  void passTurn() {
    block.arriveAtBarrier(k.sub(k.i64(warpgroups), warpgroup()), multiplying);
  }

  /// A tile of queries as its warpgroup has it: where they start as a factor,
  /// and how many tiles of keys there were before it.
  struct Tile {
    const Place &place;
    Queries queries;
    Value start, keyTiles;
  };
  /// What it comes to after some tiles of keys: its rows; the weights of the
  /// last tile, as factors; and the output, which lacks the values of that.
  struct State {
    SmallVector<Row> rows;
    SmallVector<Value> factors, output;
  };
  static SmallVector<Value> valuesOf(const State &state);
  State stateOf(ValueRange values) const;

  void bring();
  void attend();
  State beginWithKeys(const Tile &of);
  State goOnWithKeys(const Tile &of, Value number, const State &before,
                     bool allVisible);
  SmallVector<Value> multiplyKeys(Value start, Value before);
  SmallVector<Value> addValues(const State &state, Value before);
  void weighTile(const Tile &of, Value number, MutableArrayRef<Value> products,
                 MutableArrayRef<Row> rows, bool allVisible);
  SmallVector<Value> factorsOf(MutableArrayRef<Value> weights);

  /// Tiles of keys in shared memory at once, of which rows of 128 leave room
  /// for two; and tiles of queries.
  int64_t stages() const {
    return std::max(tile.width(), tile.valueWidth()) > 64 ? 2 : 4;
  }
  static constexpr int64_t queryStages = 2;

  int64_t keyPieces() const { return tile.width() / PanelOperand::elements; }
  /// Registers of a factor of 16 terms.
  static constexpr int64_t factorWords = 4;
  static constexpr int64_t valuePieces = keyTile / PanelOperand::elements;
  Value warpgroup() { return k.div(block.thread(), warpgroupThreads); }

  const int64_t items;
  PanelOperand queries, keys, values;
  Ring ofQueries, ofKeys, ofValues;
  Value memory, barriers;
  int64_t barrierCount = 0;
};

} // namespace

WarpgroupAttention::Ring WarpgroupAttention::ring(int64_t bytes,
                                                  int64_t places) {
  Ring made{memory, k.at(barriers, barrierCount, k.i64Type),
            k.at(barriers, barrierCount + places, k.i64Type), bytes, places};
  memory = inBytes(memory, bytes * places);
  barrierCount += 2 * places;
  return made;
}

void WarpgroupAttention::emit() {
  constexpr int64_t barrierBytes = 8, panelAlignment = 1024,
                    warps = multiplying / warpSize;
  int64_t queryBytes = keyPieces() * queries.stageBytes(),
          keyBytes = keyPieces() * keys.stageBytes(),
          valueBytes = valuePieces * values.stageBytes();
  int64_t ofTiles =
      queryStages * queryBytes + stages() * (keyBytes + valueBytes);
  int64_t ofBarriers = 2 * (queryStages + 2 * stages()) * barrierBytes;
  memory = block.dynamicShared(ofTiles + ofBarriers, panelAlignment);
  barriers = inBytes(memory, ofTiles);
  ofQueries = ring(queryBytes, queryStages);
  ofKeys = ring(keyBytes, stages());
  ofValues = ring(valueBytes, stages());
  k.ifThen(k.equal(block.thread(), k.i64(0)), [&] {
    for (const Ring &ring : {ofQueries, ofKeys, ofValues})
      for (int64_t place = 0; place != ring.places; ++place) {
        block.makeBarrier(k.at(ring.full, place, k.i64Type), 1);
        block.makeBarrier(k.at(ring.empty, place, k.i64Type), warps);
      }
    block.fenceBarriers();
  });
  block.barrier();
  block.divideWork(h100, [&] { attend(); }, [&] { bring(); });
}

WarpgroupAttention::Place WarpgroupAttention::placeOf(Value number) {
  Place place;
  place.query = k.mul(number, queryTile);
  Value end = k.i64(tile.keys());
  if (tile.rule.causal)
    end = k.min(end, k.add(place.query, queryTile));
  place.last = k.div(k.sub(end, k.i64(1)), keyTile);
  place.first = place.whole = k.i64(0);
  if (tile.rule.window) {
    // What the first query sees first, and behind what the last one does.
    auto tileAt = [&](int64_t after) {
      Value key = k.add(place.query, after - *tile.rule.window);
      return k.min(k.div(k.max(key, k.i64(0)), keyTile), place.last);
    };
    place.first = tileAt(1);
    place.whole = tileAt(queryTile + keyTile - 1);
  }
  return place;
}

void WarpgroupAttention::forEachTile(Visit body) {
  const int64_t ofHead = itemsOfHead(tile.queries(), tile.rule.causal),
                tiles = tilesOfHead(tile.queries());
  SmallVector<Value> none = {k.i64(0), k.i64(0)};
  auto visit = [&](Value number, ValueRange before) -> SmallVector<Value> {
    Place place = placeOf(number);
    body(place, before[0], before[1]);
    return {k.add(before[0], place.count(k)), k.add(before[1], 1)};
  };
  k.loop(block.block(), k.i64(items), block.launchedBlocks(), none,
         [&](Value item, ValueRange before) -> SmallVector<Value> {
           enter(k.div(item, ofHead));
           Value early = k.rem(item, k.i64(ofHead)),
                 late = k.sub(k.i64(tiles - 1), early);
           if (!tile.rule.causal)
             return visit(late, before);
           Value count = k.i64(2);
           if (tiles % 2)
             count = k.select(k.equal(early, late), k.i64(1), count);
           return k.loop(k.i64(0), count, 1, before,
                         [&](Value which, ValueRange before) {
                           Value isFirst = k.equal(which, k.i64(0));
                           return visit(k.select(isFirst, late, early), before);
                         });
         });
}

Value WarpgroupAttention::filled(const Ring &ring, Value before) {
  Turn turn = turnOf(ring, before);
  block.await(k.at(ring.full, turn.number, k.i64Type), turn.parity);
  return placeIn(ring, turn);
}

void WarpgroupAttention::leave(const Ring &ring, Value before) {
  Turn turn = turnOf(ring, before);
  k.ifThen(k.equal(lane, k.i64(0)),
           [&] { block.arrive(k.at(ring.empty, turn.number, k.i64Type)); });
}

void WarpgroupAttention::fill(
    const Ring &ring, Value before, int64_t pieces, const PanelOperand &operand,
    llvm::function_ref<void(int64_t piece, Value to, Value barrier)>
        bringPiece) {
  Turn turn = turnOf(ring, before);
  Value full = k.at(ring.full, turn.number, k.i64Type);
  // In the first round there is nobody to wait for.
  block.await(k.at(ring.empty, turn.number, k.i64Type),
              k.sub(k.i64(1), turn.parity));
  block.arriveBefore(full, ring.bytes);
  Value to = placeIn(ring, turn);
  for (int64_t piece = 0; piece != pieces; ++piece)
    bringPiece(piece, inBytes(to, piece * operand.stageBytes()), full);
}

void WarpgroupAttention::bring() {
  constexpr int64_t elements = PanelOperand::elements;
  forEachTile([&](const Place &place, Value keyTiles, Value tiles) {
    SmallVector<Value> ofQuery = {head.batch, head.query},
                       ofKey = {head.batch, head.key};
    fill(ofQueries, tiles, keyPieces(), queries,
         [&](int64_t piece, Value to, Value barrier) {
           queries.bring(to, place.query, k.i64(piece * elements), ofQuery,
                         barrier);
         });
    k.loop(k.i64(0), place.count(k), 1, [&](Value number) {
      Value before = k.add(keyTiles, number),
            key = k.mul(k.sub(place.last, number), keyTile);
      fill(ofKeys, before, keyPieces(), keys,
           [&](int64_t piece, Value to, Value barrier) {
             keys.bring(to, key, k.i64(piece * elements), ofKey, barrier);
           });
      fill(ofValues, before, valuePieces, values,
           [&](int64_t piece, Value to, Value barrier) {
             values.bring(to, k.i64(0), k.add(key, piece * elements), ofKey,
                          barrier);
           });
    });
  });
}

/// When it is its turn, begins to multiply the queries of this warpgroup with a
/// tile of keys.
SmallVector<Value> WarpgroupAttention::multiplyKeys(Value start, Value before) {
  Value key = keys.startOf(filled(ofKeys, before));
  SmallVector<Value> products(elementsOf(keyTile));
  SmallVector<BlockBuilder::WarpgroupStep> steps;
  for (int64_t i = 0; i != tile.width() / termsOfStep; ++i)
    steps.push_back(
        {{queries.descriptorFrom(start, i)}, {keys.descriptorFrom(key, i)}});
  awaitTurn();
  block.multiplyWarpgroup(steps, /*aAlongTerms=*/true, /*bAlongTerms=*/true,
                          products, /*fromZero=*/true);
  return products;
}

/// Begins to add up a tile of values, which is there, by their weights.
SmallVector<Value> WarpgroupAttention::addValues(const State &state,
                                                 Value before) {
  Value value = values.startOf(placeIn(ofValues, turnOf(ofValues, before)));
  SmallVector<Value> sums = state.output;
  SmallVector<BlockBuilder::WarpgroupStep> steps;
  for (int64_t i = 0; i != keyTile / termsOfStep; ++i)
    steps.push_back(
        {llvm::to_vector<4>(
             ArrayRef(state.factors).slice(i * factorWords, factorWords)),
         {values.descriptorFrom(value, i)}});
  block.multiplyWarpgroup(steps, /*aAlongTerms=*/true, /*bAlongTerms=*/false,
                          sums);
  return sums;
}

/// The weights of the `number`th tile of keys, the last one first.
void WarpgroupAttention::weighTile(const Tile &of, Value number,
                                   MutableArrayRef<Value> products,
                                   MutableArrayRef<Row> rows, bool allVisible) {
  // Keys are counted from this thread's first one on, so that their numbers are
  // constants.
  Value first =
      k.add(k.mul(k.sub(of.place.last, number), keyTile), columnOf(0, 0));
  auto keyAt = [&](int64_t fragment, int64_t which) {
    return k.i64(fragment * fragmentColumns + which);
  };
  Value end;
  if (tile.keys() % keyTile)
    end = k.sub(k.i64(tile.keys()), first);
  for (auto [i, query] : llvm::enumerate(of.queries.ofRow))
    rows[i] = weighRow(static_cast<int64_t>(i), query,
                       {k.sub(query, first), end, keyAt}, products, rows[i],
                       allVisible);
}

SmallVector<Value>
WarpgroupAttention::factorsOf(MutableArrayRef<Value> weights) {
  SmallVector<Value> factors;
  for (int64_t step = 0; step != keyTile / termsOfStep; ++step)
    factors.append(factorOf(pairOf(weights, step)));
  return factors;
}

SmallVector<Value> WarpgroupAttention::valuesOf(const State &state) {
  SmallVector<Value> values;
  for (const Row &row : state.rows)
    values.append({row.largest, row.total});
  llvm::append_range(values, state.factors);
  llvm::append_range(values, state.output);
  return values;
}

WarpgroupAttention::State WarpgroupAttention::stateOf(ValueRange values) const {
  State state;
  for (int64_t row = 0; row != rowsOfThread; ++row)
    state.rows.push_back({values[2 * row], values[2 * row + 1], Value()});
  ValueRange rest = values.drop_front(2 * rowsOfThread);
  constexpr int64_t words = keyTile / termsOfStep * factorWords;
  llvm::append_range(state.factors, rest.take_front(words));
  llvm::append_range(state.output, rest.drop_front(words));
  return state;
}

WarpgroupAttention::State WarpgroupAttention::beginWithKeys(const Tile &of) {
  State state;
  state.rows.assign(rowsOfThread, {k.splat(-infinity), k.splat(0.0), Value()});
  SmallVector<Value> products = multiplyKeys(of.start, of.keyTiles);
  passTurn();
  block.awaitProducts(products);
  leave(ofKeys, of.keyTiles);
  bool isWhole =
      !tile.rule.causal && !tile.rule.window && tile.keys() % keyTile == 0;
  weighTile(of, k.i64(0), products, state.rows, isWhole);
  filled(ofValues, of.keyTiles);
  state.factors = factorsOf(products);
  state.output.assign(elementsOf(tile.valueWidth()), k.splat(0.0));
  return state;
}

WarpgroupAttention::State WarpgroupAttention::goOnWithKeys(const Tile &of,
                                                           Value number,
                                                           const State &before,
                                                           bool allVisible) {
  Value now = k.add(of.keyTiles, number), last = k.sub(now, k.i64(1));
  State state;
  state.rows = before.rows;
  SmallVector<Value> products = multiplyKeys(of.start, now);
  state.output = addValues(before, last);
  passTurn();
  block.awaitProducts(products, 1);
  leave(ofKeys, now);
  weighTile(of, number, products, state.rows, allVisible);
  state.factors = factorsOf(products);
  // Waited for here, where its loop keeps ptxas (CUDA 13) from moving the wait
  // for products before the weights, which these are to hide behind.
  filled(ofValues, now);
  block.awaitProducts(state.output);
  leave(ofValues, last);
  for (auto [i, row] : llvm::enumerate(state.rows))
    scaleRow(state.output, static_cast<int64_t>(i), row.factor);
  return state;
}

void WarpgroupAttention::attend() {
  constexpr int64_t rowBytes = PanelOperand::elements * 2;
  // The first turn is the first one's.
  k.ifThen(k.equal(warpgroup(), k.i64(1)), [&] { passTurn(); });
  forEachTile([&](const Place &place, Value keyTiles, Value tiles) {
    Value row = k.mul(warpgroup(), tileSize);
    Tile mine{place, queriesFrom(k.add(place.query, row)),
              queries.startOf(k.at(filled(ofQueries, tiles),
                                   k.mul(row, rowBytes), k.b.getI8Type())),
              keyTiles};
    SmallVector<Value> values = valuesOf(beginWithKeys(mine));
    auto goOn = [&](Value from, Value end, bool allVisible) {
      values =
          k.loop(from, end, 1, values, [&](Value number, ValueRange before) {
            return valuesOf(
                goOnWithKeys(mine, number, stateOf(before), allVisible));
          });
    };
    Value count = place.count(k),
          wholeEnd = k.add(k.sub(place.last, place.whole), 1);
    goOn(k.i64(1), wholeEnd, /*allVisible=*/true);
    if (tile.rule.window)
      goOn(wholeEnd, count, /*allVisible=*/false);
    leave(ofQueries, tiles);
    State state = stateOf(values);
    Value last = k.add(keyTiles, k.sub(count, k.i64(1)));
    SmallVector<Value> sums = addValues(state, last);
    block.awaitProducts(sums);
    leave(ofValues, last);
    finish(mine.queries, state.rows, sums);
  });
}

bool cuda::canAttendInWarpgroups(LaunchOp launch) {
  auto op = cast<AttentionOp>(launch.getFirstOp());
  if (op.getStart() || op.getDropout() || op.getMask() || op.getDistanceBias())
    return false;
  ArrayRef<int64_t> q = tensorType(op.getQ()).getShape(),
                    v = tensorType(op.getV()).getShape();
  constexpr int64_t elements = PanelOperand::elements;
  if (q[2] <= AttentionFragments::tileSize || q[3] % elements ||
      v[3] % elements)
    return false;
  // Where a row is known to the GPU alone nobody can tell the hardware.
  return llvm::none_of(rowOperands(launch), [&](const Operand &one) {
    return one.number < launch.getReads().size();
  });
}

void cuda::emitWarpgroupAttention(ModuleOp module, StringRef name,
                                  LaunchOp launch) {
  WarpgroupAttention(module, name, launch,
                     cast<AttentionOp>(launch.getFirstOp()))
      .emit();
}
