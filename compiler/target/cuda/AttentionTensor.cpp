//===- AttentionTensor.cpp - attention on tensor cores --------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/dialect/TfmDialect.h"
#include "compiler/schedule/Launches.h"
#include "compiler/target/cuda/Attention.h"
#include "compiler/target/cuda/AttentionLaunch.h"
#include "compiler/target/cuda/StagedOperand.h"
#include "compiler/target/emit/ElementEmitter.h"
#include "compiler/target/emit/VectorHelpers.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "llvm/Support/MathExtras.h"
#include <limits>

using namespace mlir;
using namespace tfm;
using namespace tfm::cuda;
using namespace tfm::sched;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

/// Queries of a block, 16 of each of its warps, and keys of a step: as many as
/// dropout draws at once.
constexpr int64_t tileSize = 64, warpRows = 16, fragmentKeys = 8;
constexpr int64_t threads = tileSize / warpRows * warpSize;
/// Of a fragment of scores or outputs a thread has two neighbours of row lane /
/// 4, and two of the row 8 further on.
constexpr int64_t rowsOfThread = 2, ofRow = 2;

/// An operand whose rows are `outer`, or terms of what they are multiplied by.
ProductOperand operandOf(const Rows &rows, bool rowsAreTerms,
                         int64_t alignment) {
  ProductOperand operand;
  const View &view = rows.view;
  operand.pointer = rows.pointer;
  operand.element = view.element;
  operand.batchStrides.assign({view.strides[0], view.strides[1]});
  operand.outerStride = view.strides[rowsAreTerms ? 3 : 2];
  operand.termStride = view.strides[rowsAreTerms ? 2 : 3];
  operand.outers = view.shape[rowsAreTerms ? 3 : 2];
  operand.terms = view.shape[rowsAreTerms ? 2 : 3];
  operand.alignment = alignment;
  return operand;
}

class AttentionTensor {
public:
  AttentionTensor(ModuleOp module, StringRef name, LaunchOp launch,
                  AttentionOp op)
      : launch(launch), op(op),
        block(module, name, launch,
              launch.getReads().size() + launch.getWrites().size(),
              {{blocksOf(op), 1, 1}, threads}),
        k(block.k), tile(block, ruleOf(op, launch), tileSize) {
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
    warpQuery = k.mul(block.warp(), warpRows);
    lane = block.lane();
    for (int64_t i = 0; i != rowsOfThread; ++i)
      query.push_back(
          k.add(k.add(firstQuery, warpQuery), k.add(k.div(lane, 4), 8 * i)));
    Value end = k.i64(tile.keys()), first = k.i64(0);
    if (tile.rule.causal)
      end = k.min(end, k.add(firstQuery, tileSize));
    if (tile.rule.window)
      first = k.max(first, k.sub(firstQuery, k.i64(*tile.rule.window - 1)));
    // Dropout counts columns from multiples of a step on.
    first = k.mul(k.div(first, tileSize), tileSize);

    StagedOperand queries = staged(tile.q, op.getQ(), head.query, false);
    StagedOperand keys = staged(tile.k, op.getK(), head.key, false);
    StagedOperand values = staged(tile.v, op.getV(), head.key, true);
    int64_t stageBytes = keys.stageBytes() + values.stageBytes();
    Value memory = block.dynamicShared(queries.stageBytes() + 2 * stageBytes);
    Type byte = k.b.getI8Type();
    Value stages = k.at(memory, queries.stageBytes(), byte);
    auto load = [&](Value stage, Value key0) {
      keys.begin(key0);
      keys.load(stage, k.i64(0));
      values.load(k.at(stage, keys.stageBytes(), byte), key0);
    };
    queries.begin(firstQuery);
    queries.load(memory, k.i64(0));
    values.begin(k.i64(0));
    load(stages, first);
    block.commitCopies();
    queries.beginFragments(warpQuery, 1, /*isB=*/false);
    keys.beginFragments(k.i64(0), tileSize / 16, /*isB=*/true);
    values.beginFragments(k.i64(0), tile.valueWidth() / 16, /*isB=*/true);

    SmallVector<Value> state;
    for (int64_t i = 0; i != rowsOfThread; ++i)
      state.append({k.splat(-infinity), k.splat(0.0)});
    state.append(outputs(), k.splat(0.0));
    state.push_back(k.i64(0));
    state =
        k.loop(first, end, tileSize, state, [&](Value key0, ValueRange before) {
          Value offset = before.back();
          Value stage = k.at(stages, offset, byte);
          Value other = k.sub(k.i64(stageBytes), offset);
          // What was copied for this step is there, and nobody reads any more
          // what the last step had, where the next goes.
          block.awaitCopies(0);
          block.barrier();
          Value next = k.add(key0, tileSize);
          k.ifThen(k.less(next, end),
                   [&] { load(k.at(stages, other, byte), next); });
          block.commitCopies();
          SmallVector<Value> scores =
              multiplyKeys(queries, keys, memory, stage);
          SmallVector<Value> after =
              visit(scores, key0, end, before.drop_back(1), values,
                    k.at(stage, keys.stageBytes(), byte));
          after.push_back(other);
          return after;
        });
    block.awaitCopies(0);
    state.pop_back();
    finish(state);
  }

private:
  static int64_t blocksOf(AttentionOp op) {
    ArrayRef<int64_t> q = tensorType(op.getQ()).getShape();
    return q[0] * q[1] * static_cast<int64_t>(llvm::divideCeil(q[2], tileSize));
  }

  StagedOperand staged(const Rows &rows, Value value, Value ofHead,
                       bool rowsAreTerms) {
    ProductOperand operand = operandOf(
        rows, rowsAreTerms,
        alignmentOf(launch.getReads()[argumentOf(value).getArgNumber()]));
    operand.pointer = tile.headOf(rows, head.batch, ofHead);
    int64_t width = rows.view.shape[3];
    return {block, operand, StagedOperand::Form::Matrix,
            rowsAreTerms ? width : tileSize, rowsAreTerms ? tileSize : width};
  }

  /// This thread's elements of the output.
  int64_t outputs() const {
    return tile.valueWidth() / 8 * rowsOfThread * ofRow;
  }

  SmallVector<Value> multiplyKeys(StagedOperand &queries, StagedOperand &keys,
                                  Value memory, Value stage) {
    SmallVector<Value> sums(tileSize / fragmentKeys * rowsOfThread * ofRow,
                            k.splat(0.0));
    for (int64_t step = 0; step != tile.width() / 16; ++step) {
      SmallVector<Value> x = queries.fragment(memory, 0, step);
      for (int64_t pair = 0; pair != tileSize / 16; ++pair) {
        SmallVector<Value> y = keys.fragment(stage, pair, step);
        for (int64_t half = 0; half != 2; ++half)
          block.multiplyFragments(
              x, ArrayRef(y).slice(2 * half, 2),
              MutableArrayRef(sums).slice((2 * pair + half) * 4, 4));
      }
    }
    return sums;
  }

  /// The number of a score of this thread: fragment, row, and which of two.
  static size_t at(int64_t fragment, int64_t row, int64_t which) {
    return static_cast<size_t>((fragment * rowsOfThread + row) * ofRow + which);
  }

  /// Factors of dropout of all scores of a row.
  SmallVector<Value> kept(int64_t row, Value key0) {
    const AttentionRule &rule = tile.rule;
    DropoutKey key =
        dropoutKey(k.b, k.loc, block.arguments.rng,
                   rule.hasLayer ? block.arguments.layer : k.toIndex(k.i64(0)),
                   rule.site, *rule.dropout, rule.microSteps);
    Type i32 = k.b.getI32Type();
    Value number =
        k.add(k.mul(k.add(k.mul(head.batch, tile.heads()), head.query),
                    tile.queries()),
              query[row]);
    number = arith::TruncIOp::create(k.b, k.loc, i32, number);
    SmallVector<Value> factors(tileSize / fragmentKeys * ofRow);
    for (int64_t fragment = 0; fragment != 2; ++fragment)
      for (int64_t which = 0; which != ofRow; ++which) {
        Value column = k.add(k.mul(k.rem(lane, k.i64(4)), 2),
                             fragment * fragmentKeys + which);
        Value counter = arith::TruncIOp::create(k.b, k.loc, i32,
                                                k.add(k.div(key0, 4), column));
        SmallVector<Value> keeps =
            dropoutKeepWords(k.b, k.loc, key, number, counter);
        for (auto [word, keep] : llvm::enumerate(keeps))
          factors[(fragment + 2 * word) * ofRow + which] =
              block.orElse(keep, k.splat(1.0 / (1.0 - *rule.dropout)), 0.0);
      }
    return factors;
  }

  SmallVector<Value> visit(ArrayRef<Value> products, Value key0, Value end,
                           ValueRange before, StagedOperand &values,
                           Value stage) {
    constexpr int64_t fragments = tileSize / fragmentKeys;
    SmallVector<Value> weights(products.size()), after;
    SmallVector<Value> output(before.drop_front(2 * rowsOfThread));
    for (int64_t row = 0; row != rowsOfThread; ++row) {
      Value largest = before[2 * row], total = before[2 * row + 1];
      Value most = largest;
      SmallVector<Value> scores;
      for (int64_t fragment = 0; fragment != fragments; ++fragment)
        for (int64_t which = 0; which != ofRow; ++which) {
          Value key = k.add(k.add(key0, k.mul(k.rem(lane, k.i64(4)), 2)),
                            fragment * fragmentKeys + which);
          AttentionTile::Score score =
              tile.score(products[at(fragment, row, which)], head, query[row],
                         query[row], key, end);
          scores.push_back(block.orElse(score.visible, score.value, -infinity));
          most = k.maxf(most, scores.back());
        }
      // Four neighbouring lanes have a row.
      most = block.reduceLanes(most, 4,
                               [&](Value x, Value y) { return k.maxf(x, y); });
      Value none = arith::CmpFOp::create(k.b, k.loc, arith::CmpFPredicate::OEQ,
                                         most, k.splat(-infinity));
      Value base = k.select(none, k.splat(0.0), most);
      Value factor = tile.exp(k.subf(largest, base));
      SmallVector<Value> factors;
      if (tile.rule.dropout)
        factors = kept(row, key0);
      // Each lane adds up its own until the end.
      total = k.mulf(total, factor);
      for (int64_t fragment = 0; fragment != fragments; ++fragment)
        for (int64_t which = 0; which != ofRow; ++which) {
          int64_t i = fragment * ofRow + which;
          Value weight = tile.exp(k.subf(scores[i], base));
          total = k.addf(total, weight);
          if (!factors.empty())
            weight = k.mulf(weight, factors[i]);
          weights[at(fragment, row, which)] = weight;
        }
      for (int64_t fragment = 0; fragment != tile.valueWidth() / 8; ++fragment)
        for (int64_t which = 0; which != ofRow; ++which) {
          Value &sum = output[at(fragment, row, which)];
          sum = k.mulf(sum, factor);
        }
      after.append({most, total});
    }
    // Two fragments of weights side by side are one of the other factor.
    for (int64_t step = 0; step != tileSize / 16; ++step) {
      SmallVector<Value> x;
      for (int64_t half = 0; half != 2; ++half)
        for (int64_t row = 0; row != rowsOfThread; ++row)
          x.push_back(block.packBf16(weights[at(2 * step + half, row, 0)],
                                     weights[at(2 * step + half, row, 1)]));
      for (int64_t pair = 0; pair != tile.valueWidth() / 16; ++pair) {
        SmallVector<Value> y = values.fragment(stage, pair, step);
        for (int64_t half = 0; half != 2; ++half)
          block.multiplyFragments(
              x, ArrayRef(y).slice(2 * half, 2),
              MutableArrayRef(output).slice((2 * pair + half) * 4, 4));
      }
    }
    after.append(output);
    return after;
  }

  void finish(ArrayRef<Value> state) {
    for (int64_t row = 0; row != rowsOfThread; ++row) {
      Value total =
          block.reduceLanes(state[2 * row + 1], 4,
                            [&](Value x, Value y) { return k.addf(x, y); });
      Value none = arith::CmpFOp::create(k.b, k.loc, arith::CmpFPredicate::OEQ,
                                         total, k.splat(0.0));
      Value factor = k.select(none, k.splat(0.0), k.divf(k.splat(1.0), total));
      auto store = [&] {
        if (out.exists()) {
          Value to = k.at(tile.headOf(out, head.batch, head.query),
                          k.mul(query[row], out.view.strides[2]),
                          memoryType(out.view.element));
          for (int64_t fragment = 0; fragment != tile.valueWidth() / 8;
               ++fragment)
            for (int64_t which = 0; which != ofRow; ++which) {
              Value column =
                  k.add(k.mul(k.rem(lane, k.i64(4)), 2), fragment * 8 + which);
              Value x = state[2 * rowsOfThread + at(fragment, row, which)];
              block.storeFloat(k.mulf(x, factor),
                               k.at(to, k.mul(column, out.view.strides[3]),
                                    memoryType(out.view.element)),
                               out.view.element);
            }
        }
        if (lse.exists())
          k.ifThen(k.equal(k.rem(lane, k.i64(4)), k.i64(0)), [&] {
            Value log = math::LogOp::create(k.b, k.loc, total);
            Value value =
                k.select(none, k.splat(-infinity), k.addf(state[2 * row], log));
            k.storeScalar(value, tile.perQuery(lse, head, query[row]));
          });
      };
      if (tile.queries() % tileSize)
        k.ifThen(k.less(query[row], k.i64(tile.queries())), store);
      else
        store();
    }
  }

  LaunchOp launch;
  AttentionOp op;
  BlockBuilder block;
  KernelBuilder &k;
  AttentionTile tile;
  Rows out, lse;
  AttentionTile::Head head;
  Value firstQuery, warpQuery, lane;
  /// This thread's queries.
  SmallVector<Value> query;
};

} // namespace

bool cuda::isOnTensorCores(LaunchOp launch) {
  auto op = cast<AttentionOp>(launch.getFirstOp());
  // Of a cache what is beyond the last position may be anything, NaN too.
  if (op.getStart() || op.getKeyScale() || op.getRing())
    return false;
  auto fits = [&](Value value) {
    BlockArgument argument = argumentOf(value);
    Rows rows{argument, viewOf(cast<MemRefType>(argument.getType()))};
    int64_t width = rows.view.shape[3];
    return rows.view.element.isBF16() && rows.view.strides[3] == 1 &&
           width >= 16 && width <= 128 && llvm::isPowerOf2_64(width) &&
           StagedOperand::canCopy(operandOf(
               rows, false,
               alignmentOf(launch.getReads()[argument.getArgNumber()])));
  };
  return fits(op.getQ()) && fits(op.getK()) && fits(op.getV());
}

void cuda::emitTensorAttention(ModuleOp module, StringRef name,
                               LaunchOp launch) {
  AttentionTensor(module, name, launch, cast<AttentionOp>(launch.getFirstOp()))
      .emit();
}
