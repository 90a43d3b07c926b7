//===- AttentionFewQueries.cpp - attention of few queries -----------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/dialect/TfmDialect.h"
#include "compiler/schedule/Launches.h"
#include "compiler/target/cuda/Attention.h"
#include "compiler/target/cuda/AttentionLaunch.h"
#include "compiler/target/cuda/Gpu.h"
#include "compiler/target/cuda/Pieces.h"
#include "compiler/target/emit/ElementEmitter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace tfm;
using namespace tfm::cuda;
using namespace tfm::sched;

namespace {

/// Elements of a row in a piece, and lanes that have a row.
struct RowPieces {
  int64_t each, count;

  RowPieces(int64_t width, Type element)
      : each(pieceBytes / elementBytes(element)), count(width / each) {}
  explicit RowPieces(const View &view)
      : RowPieces(view.shape[3], view.element) {}
  explicit RowPieces(Value tensor)
      : RowPieces(tensorType(tensor).getDimSize(3),
                  getElementTypeOrSelf(tensor)) {}
};

/// Lanes that have a key together.
int64_t groupOf(RowPieces keys, RowPieces values) {
  return static_cast<int64_t>(llvm::PowerOf2Ceil(
      static_cast<uint64_t>(std::max(keys.count, values.count))));
}

/// How the work is cut up.
struct Division {
  /// Rows, queries of one key's heads, of a block, and the blocks that all of
  /// such a head's take.
  int64_t rows, chunks;
  /// Blocks of the launch, and threads of each.
  int64_t blocks, threads;
  /// Keys that a thread has under way.
  int64_t keysAtOnce;
  /// As in `Grid`: a multiprocessor has no second block where there are few.
  int64_t resident;

  /// As many rows as stay in registers with their pieces, unless there are so
  /// few blocks of those that multiprocessors have none: then keys and values
  /// are better read several times, from the cache. And as many threads as the
  /// GPU has at once, up to those that need no second turn: for one sequence it
  /// is the time from load to load that counts.
  explicit Division(AttentionOp op) {
    ArrayRef<int64_t> q = tensorType(op.getQ()).getShape();
    int64_t keyHeads = tensorType(op.getK()).getDimSize(1),
            keys = tensorType(op.getK()).getDimSize(2),
            all = q[2] * (q[1] / keyHeads);
    RowPieces ofK(op.getK()), ofV(op.getV());
    int64_t group = groupOf(ofK, ofV), piece = std::max(ofK.each, ofV.each);
    keysAtOnce = std::clamp<int64_t>(32 / piece, 1, 4);
    auto cut = [&](int64_t count) {
      rows = count;
      chunks = static_cast<int64_t>(llvm::divideCeil(all, rows));
      blocks = q[0] * keyHeads * chunks;
    };
    cut(std::min(all, std::clamp<int64_t>(32 / piece, 1, 8)));
    while (rows > 1 && blocks < a100.multiprocessors)
      cut(static_cast<int64_t>(llvm::divideCeil(rows, 2)));
    // Of a row its query, sums and output; of a key its pieces, and addresses.
    constexpr int64_t most = 1024, beside = 40;
    int64_t registers = rows * (2 + ofK.each + ofV.each) +
                        keysAtOnce * 2 * (pieceBytes / 4) + beside;
    threads = AttentionTile::threads;
    while (threads < most && keys > threads / group * keysAtOnce &&
           2 * threads * registers <= a100.registers &&
           blocks * 2 * threads * registers <=
               a100.multiprocessors * a100.registers)
      threads *= 2;
    resident = blocks <= a100.multiprocessors ? 1 : 0;
  }
};

/// Of one query in a block: the largest score so far, the sum of the weights,
/// and this lane's piece of the output.
struct State {
  Value largest, total;
  SmallVector<Value> output;
};

class FewQueries {
public:
  FewQueries(ModuleOp module, StringRef name, LaunchOp launch, AttentionOp op)
      : division(op),
        block(module, name, launch,
              launch.getReads().size() + launch.getWrites().size(),
              {{division.blocks, 1, 1}, division.threads, division.resident}),
        k(block.k), tile(block, ruleOf(op, launch), /*size=*/32) {
    AttentionLaunch rows(launch, block);
    rows.fill(tile, op);
    out = rows.written(op.getOut());
    lse = rows.written(op.getLse());
  }

  void emit() {
    group = groupOf(RowPieces(tile.k.view), RowPieces(tile.v.view));
    Value number = block.block();
    firstRow = k.mul(k.rem(number, k.i64(division.chunks)), division.rows);
    number = k.div(number, division.chunks);
    keyHead = k.rem(number, k.i64(tile.keyHeads()));
    batch = k.div(number, tile.keyHeads());
    start = k.i64(0);
    if (tile.start.exists())
      start = k.loadInteger(k.at(tile.start.pointer,
                                 k.mul(batch, tile.start.view.strides[0]),
                                 k.b.getI32Type()));
    for (int64_t i = 0; i != division.rows; ++i)
      rows.push_back(rowOf(k.i64(i)));
    lane = k.rem(block.thread(), k.i64(group));
    loadQueries();
    combine(walk());
  }

private:
  struct Row {
    /// Null: always.
    Value exists;
    Value query, position;
    AttentionTile::Head head;
    SmallVector<Value> elements;
  };

  /// A row of this block.
  Row rowOf(Value i) {
    int64_t all = tile.headsPerKey() * tile.queries();
    Row row;
    Value inHeads = k.add(firstRow, i);
    if (all % division.rows)
      row.exists = k.less(inHeads, k.i64(all));
    inHeads = k.min(inHeads, k.i64(all - 1));
    row.query = k.div(inHeads, tile.headsPerKey());
    row.head.batch = batch;
    row.head.key = keyHead;
    row.head.query = k.add(k.mul(keyHead, tile.headsPerKey()),
                           k.rem(inHeads, k.i64(tile.headsPerKey())));
    row.position = k.add(start, row.query);
    return row;
  }

  /// This lane's piece of a row: where there are fewer pieces than lanes the
  /// last ones have the last again.
  Value pieceOf(const View &view) {
    RowPieces pieces(view);
    Value piece = lane;
    if (pieces.count != group)
      piece = k.min(piece, k.i64(pieces.count - 1));
    return k.mul(piece, pieces.each);
  }

  void loadQueries() {
    RowPieces pieces(tile.k.view);
    Value isReal =
        pieces.count == group ? Value() : k.less(lane, k.i64(pieces.count));
    Type element = tile.q.view.element;
    for (Row &row : rows) {
      Value at =
          k.add(k.mul(row.query, tile.q.view.strides[2]), pieceOf(tile.k.view));
      Value from = k.at(tile.headOf(tile.q, row.head.batch, row.head.query), at,
                        memoryOf(tile.q));
      for (int64_t i = 0; i != pieces.each; ++i) {
        Value x = block.loadFloat(k.at(from, i, memoryOf(tile.q)), element);
        row.elements.push_back(isReal ? block.orElse(isReal, x, 0.0) : x);
      }
    }
  }

  static Type memoryOf(const Rows &rows) {
    return memoryType(rows.view.element);
  }

  /// Visits this group's keys.
  SmallVector<State> walk() {
    Value end = k.i64(tile.keys()), first = k.i64(0);
    if (tile.rule.causal) {
      Value last = k.add(start, tile.queries());
      end = tile.rule.ring ? last : k.min(last, end);
    }
    if (tile.rule.window)
      first = k.max(first, k.sub(start, k.i64(*tile.rule.window - 1)));
    int64_t groups = block.threads() / group;
    Value own = k.add(first, k.div(block.thread(), group));
    Value keys = tile.headOf(tile.k, rows.front().head.batch,
                             rows.front().head.key),
          values = tile.headOf(tile.v, rows.front().head.batch,
                               rows.front().head.key);
    int64_t each = RowPieces(tile.v.view).each;
    SmallVector<Value> flat;
    for (size_t i = 0; i != rows.size(); ++i) {
      flat.append({k.splat(-infinity), k.splat(0.0)});
      flat.append(each, k.splat(0.0));
    }
    // All threads of a warp take as many turns: they tell each other products.
    Value turns = k.max(k.sub(end, first), k.i64(0));
    flat = k.loop(k.i64(0), turns, groups * division.keysAtOnce, flat,
                  [&](Value turn, ValueRange before) {
                    return visit(k.add(own, turn), end, groups, keys, values,
                                 before);
                  });
    SmallVector<State> states;
    for (size_t i = 0; i != rows.size(); ++i) {
      auto all = ArrayRef(flat).slice(i * (2 + each), 2 + each);
      states.push_back({all[0], all[1], SmallVector<Value>(all.drop_front(2))});
    }
    return states;
  }

  SmallVector<Value> visit(Value key0, Value end, int64_t groups, Value keys,
                           Value values, ValueRange before) {
    SmallVector<Value> key, keyPieces, valuePieces, keyScales, valueScales;
    for (int64_t i = 0; i != division.keysAtOnce; ++i) {
      key.push_back(k.add(key0, i * groups));
      Value row = k.min(key.back(), k.sub(end, k.i64(1)));
      if (tile.rule.ring)
        row = k.rem(row, k.i64(tile.keys()));
      auto piece = [&](Value head, const Rows &of) {
        Value at = k.add(k.mul(row, of.view.strides[2]), pieceOf(of.view));
        return loadPiece(k, k.at(head, at, memoryOf(of)));
      };
      keyPieces.push_back(piece(keys, tile.k));
      valuePieces.push_back(piece(values, tile.v));
      auto scale = [&](const Rows &of, SmallVector<Value> &scales) {
        if (of.exists())
          scales.push_back(k.loadScalar(k.at(
              tile.headOf(of, rows.front().head.batch, rows.front().head.key),
              k.mul(row, of.view.strides[2]))));
      };
      scale(tile.keyScale, keyScales);
      scale(tile.valueScale, valueScales);
    }
    block.gatherLoads();
    int64_t each = RowPieces(tile.v.view).each;
    auto sum = [&](Value x, Value y) { return k.addf(x, y); };
    SmallVector<SmallVector<Value>> x, y;
    for (int64_t i = 0; i != division.keysAtOnce; ++i) {
      x.push_back(floatsOf(k, keyPieces[i], tile.k.view.element));
      y.push_back(floatsOf(k, valuePieces[i], tile.v.view.element));
    }
    SmallVector<Value> after;
    for (auto [number, row] : llvm::enumerate(rows)) {
      ValueRange own = before.slice(number * (2 + each), 2 + each);
      SmallVector<Value> scores;
      Value most = own[0];
      for (int64_t i = 0; i != division.keysAtOnce; ++i) {
        Value product = k.splat(0.0);
        for (auto [a, b] : llvm::zip_equal(row.elements, x[i]))
          product = k.fma(a, b, product);
        product = block.reduceLanes(product, group, sum);
        if (!keyScales.empty())
          product = k.mulf(product, keyScales[i]);
        AttentionTile::Score score =
            tile.score(product, row.head, row.query, row.position, key[i], end);
        scores.push_back(block.orElse(score.visible, score.value, -infinity));
        most = k.maxf(most, scores.back());
      }
      Value base = baseOf(most);
      Value factor = tile.exp(k.subf(own[0], base));
      Value total = k.mulf(own[1], factor);
      SmallVector<Value> output;
      for (int64_t j = 0; j != each; ++j)
        output.push_back(k.mulf(own[2 + j], factor));
      for (int64_t i = 0; i != division.keysAtOnce; ++i) {
        Value weight = tile.exp(k.subf(scores[i], base));
        total = k.addf(total, weight);
        if (!valueScales.empty())
          weight = k.mulf(weight, valueScales[i]);
        for (int64_t j = 0; j != each; ++j)
          output[j] = k.fma(weight, y[i][j], output[j]);
      }
      after.append({most, total});
      after.append(output);
    }
    return after;
  }

  /// What scores are taken relative to: 0 where no key was seen.
  Value baseOf(Value largest) {
    Value none = arith::CmpFOp::create(k.b, k.loc, arith::CmpFPredicate::OEQ,
                                       largest, k.splat(-infinity));
    return k.select(none, k.splat(0.0), largest);
  }

  /// Several softmaxes in one. None waits for another one's exponential.
  State together(ArrayRef<State> parts) {
    SmallVector<Value> most;
    for (const State &part : parts)
      most.push_back(part.largest);
    for (; most.size() > 1; most.resize(llvm::divideCeil(most.size(), 2)))
      for (size_t i = 0; i != most.size() / 2; ++i)
        most[i] = k.maxf(most[i], most[most.size() - 1 - i]);
    Value base = baseOf(most.front());
    State all{most.front(), k.splat(0.0),
              SmallVector<Value>(parts.front().output.size(), k.splat(0.0))};
    for (const State &part : parts) {
      Value weight = tile.exp(k.subf(part.largest, base));
      all.total = k.fma(part.total, weight, all.total);
      for (auto [sum, x] : llvm::zip_equal(all.output, part.output))
        sum = k.fma(x, weight, sum);
    }
    return all;
  }

  void combine(SmallVector<State> states) {
    int64_t each = RowPieces(tile.v.view).each, width = tile.valueWidth();
    // The groups of a warp.
    for (State &state : states)
      for (int64_t distance = warpSize / 2; distance >= group; distance /= 2) {
        State other{block.fromLane(state.largest, distance),
                    block.fromLane(state.total, distance),
                    {}};
        for (Value x : state.output)
          other.output.push_back(block.fromLane(x, distance));
        state = together({state, other});
      }
    // The warps: the largest score and the sum of each, then its output.
    int64_t warps = block.threads() / warpSize, stride = width + 4;
    auto count = static_cast<int64_t>(rows.size());
    Value memory = block.shared(warps * count * stride);
    auto placeOf = [&](Value warp, Value row) {
      return k.at(memory, k.mul(k.add(k.mul(warp, count), row), stride));
    };
    Value exists = k.less(block.lane(), k.i64(RowPieces(tile.v.view).count));
    k.ifThen(exists, [&] {
      for (int64_t i = 0; i != count; ++i) {
        Value place = placeOf(block.warp(), k.i64(i));
        Value to = k.at(place, k.add(k.mul(lane, each), 4));
        for (int64_t j = 0; j != each; ++j)
          k.storeScalar(states[i].output[j], k.at(to, j));
        k.ifThen(k.equal(block.lane(), k.i64(0)), [&] {
          k.storeScalar(states[i].largest, place);
          k.storeScalar(states[i].total, k.at(place, 1));
        });
      }
    });
    block.barrier();
    // A thread has elements of any rows: once for all of these.
    k.loop(block.thread(), k.i64(count * width), block.threads(),
           [&](Value element) {
             Value i = k.div(element, width),
                   column = k.rem(element, k.i64(width));
             auto stateOf = [&](int64_t warp) -> State {
               Value place = placeOf(k.i64(warp), i);
               return {k.loadScalar(place),
                       k.loadScalar(k.at(place, 1)),
                       {k.loadScalar(k.at(place, k.add(column, 4)))}};
             };
             SmallVector<State> parts;
             for (int64_t warp = 0; warp != warps; ++warp)
               parts.push_back(stateOf(warp));
             State state = together(parts);
             Row row = rowOf(i);
             auto store = [&] { storeElement(row, column, state); };
             if (row.exists)
               k.ifThen(row.exists, store);
             else
               store();
           });
  }

  void storeElement(const Row &row, Value column, const State &state) {
    Value none = arith::CmpFOp::create(k.b, k.loc, arith::CmpFPredicate::OEQ,
                                       state.total, k.splat(0.0));
    if (out.exists()) {
      Value weight =
          k.select(none, k.splat(0.0), k.divf(k.splat(1.0), state.total));
      Value at = k.add(k.mul(row.query, out.view.strides[2]),
                       k.mul(column, out.view.strides[3]));
      Value to = k.at(tile.headOf(out, row.head.batch, row.head.query), at,
                      memoryOf(out));
      block.storeFloat(k.mulf(state.output.front(), weight), to,
                       out.view.element);
    }
    if (lse.exists())
      k.ifThen(k.equal(column, k.i64(0)), [&] {
        Value log = math::LogOp::create(k.b, k.loc, state.total);
        Value value =
            k.select(none, k.splat(-infinity), k.addf(state.largest, log));
        k.storeScalar(value, tile.perQuery(lse, row.head, row.query));
      });
  }

  const Division division;
  BlockBuilder block;
  KernelBuilder &k;
  AttentionTile tile;
  Rows out, lse;
  /// The number of the block's first row among all rows of its key's head, and
  /// whose these are.
  Value firstRow, batch, keyHead;
  /// The position of a sequence's first query.
  Value start;
  SmallVector<Row> rows;
  int64_t group = 1;
  /// This thread's number in its group.
  Value lane;
};

} // namespace

bool cuda::isOfFewQueries(LaunchOp launch) {
  auto op = cast<AttentionOp>(launch.getFirstOp());
  if (tensorType(op.getQ()).getDimSize(2) > fewQueries || op.getDropout())
    return false;
  auto liesInPieces = [&](Value value) {
    BlockArgument argument = argumentOf(value);
    View view = viewOf(cast<MemRefType>(argument.getType()));
    int64_t bytes = elementBytes(view.element);
    auto whole = [&](int64_t count) { return count * bytes % pieceBytes == 0; };
    return view.strides[3] == 1 && whole(view.shape[3]) &&
           llvm::all_of(ArrayRef(view.strides).drop_back(), whole) &&
           alignmentOf(launch.getReads()[argument.getArgNumber()]) %
                   pieceBytes ==
               0;
  };
  if (!liesInPieces(op.getK()) || !liesInPieces(op.getV()))
    return false;
  auto viewOfValue = [](Value value) {
    return viewOf(cast<MemRefType>(argumentOf(value).getType()));
  };
  return viewOfValue(op.getQ()).strides[3] == 1 &&
         groupOf(RowPieces(viewOfValue(op.getK())),
                 RowPieces(viewOfValue(op.getV()))) <= warpSize;
}

void cuda::emitFewQueries(ModuleOp module, StringRef name, LaunchOp launch) {
  auto op = cast<AttentionOp>(launch.getFirstOp());
  FewQueries(module, name, launch, op).emit();
}
