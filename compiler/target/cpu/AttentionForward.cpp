//===- AttentionForward.cpp - scaled dot-product attention ----------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/target/cpu/AttentionBlock.h"
#include "compiler/target/cpu/CpuMachine.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/MathExtras.h"
#include <algorithm>
#include <limits>

using namespace mlir;
using namespace tfm;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

class AttentionForward : AttentionBlock {
public:
  AttentionForward(OpBuilder &builder, ModuleOp module,
                   const AttentionSpec &spec, const CpuMachine &target)
      : AttentionBlock(builder, module, spec, target, /*vectorsPerBlock=*/2,
                       /*scoreBytes=*/target.l1Bytes * 2 / 3) {
    if (copyWidth(e))
      spanBlocks = std::clamp<int64_t>(sharingQueries / block, 1, blocks);
  }

  Kernel emit(StringRef name) {
    if (!valid)
      return refuseAttention(module, name);
    transposedRows = llvm::alignTo(d, kb.lanes);
    outWidth = llvm::alignTo(e, kb.lanes);
    // What a block of queries keeps from one block of keys to the next.
    int64_t kept = keyBlocks > 1 ? spanBlocks : 1;
    transposedQ = reserve(transposedRows * block * kept);
    outTile = reserve(block * outWidth * kept);
    largestScores = reserve(block * kept);
    sumsOfWeights = reserve(block * kept);
    weights = reserve(llvm::alignTo(keyBlock, spec.dropout ? 64 : 1) * block);
    factors = reserve(block);
    copyOfK = reserve(keyBlock * scalarWidth(d));
    copyOfV = reserve(keyBlock * copyWidth(e));
    SmallVector<Type> buffers{spec.q, spec.k, spec.v};
    if (spec.mask)
      buffers.push_back(spec.mask);
    if (spec.start)
      buffers.push_back(spec.start);
    if (spec.keyScale)
      buffers.append({spec.keyScale, spec.valueScale});
    if (spec.distanceBias)
      buffers.push_back(spec.distanceBias);
    buffers.push_back(spec.out);
    buffers.push_back(spec.lse);
    OpBuilder::InsertionGuard guard(kb.b);
    func::FuncOp func = begin(name, buffers);
    q = buffer(0);
    k = buffer(1);
    v = buffer(2);
    unsigned next = 3;
    if (spec.mask)
      maskPtr = buffer(next++);
    if (spec.start)
      starts = buffer(next++);
    if (spec.keyScale) {
      keyScales = buffer(next++);
      valueScales = buffer(next++);
    }
    Value biases = spec.distanceBias ? buffer(next++) : Value();
    out = buffer(next++);
    lse = buffer(next);

    KernelArguments arguments(func);
    int64_t spans = llvm::divideCeil(blocks, spanBlocks);
    auto [from, to] =
        kb.share(kb.i64(batches * heads * spans), kb.toI64(arguments.thread),
                 kb.toI64(arguments.threads));
    kb.loop(from, to, 1, [&](Value item) {
      Value pair = kb.div(item, spans);
      batch = kb.div(pair, heads);
      queryHead = kb.rem(pair, kb.i64(heads));
      kvHead = kb.div(queryHead, heads / kvHeads);
      if (biases)
        distances = distancesOf(biases, spec.distanceBias, queryHead);
      if (spec.start)
        firstPosition = kb.loadInteger(
            kb.at(starts, kb.mul(batch, stridesOf(spec.start)[0])));
      oneSpan(kb.mul(kb.rem(item, kb.i64(spans)), spanBlocks * block));
    });
    return {func, scratchBytes()};
  }

private:
  /// Blocks of queries that share copies of keys and values, and a thread.
  int64_t spanBlocks = 1;
  int64_t transposedRows = 0, outWidth = 0;
  int64_t transposedQ = 0, outTile = 0, largestScores = 0, sumsOfWeights = 0,
          weights = 0, factors = 0, copyOfK = 0, copyOfV = 0;
  Value q, k, v, starts, keyScales, valueScales, out, lse, batch, queryHead,
      kvHead;
  RowsView keysView, valuesView;
  Value spanStart;

  Value weightAt(Value s, int64_t v) {
    return kb.at(scoreRow(weights, s), v * kb.lanes);
  }
  /// The block's part of what is kept for each block of a span.
  Value ofBlock(int64_t offset, int64_t perQuery) {
    if (keyBlocks == 1)
      return at(offset);
    return kb.at(at(offset), kb.mul(kb.sub(t0, spanStart), perQuery));
  }
  RowsView tile() { return {ofBlock(outTile, outWidth), kb.i64(outWidth)}; }

  /// The blocks of queries from `first` on that share copies of keys.
  void oneSpan(Value first) {
    spanStart = first;
    Value end = kb.min(kb.i64(queries), kb.add(first, spanBlocks * block));
    auto overBlocks = [&](function_ref<void()> run) {
      kb.loop(first, end, block, [&](Value t) {
        enterBlock(t);
        run();
      });
    };
    auto transposeQueries = [&] {
      transposeBlock(head(q, spec.q, batch, queryHead), d,
                     ofBlock(transposedQ, transposedRows));
    };
    if (keyBlocks == 1) {
      enterKeys(kb.i64(0));
      readKeys(end);
      overBlocks([&] {
        transposeQueries();
        meetKeys();
        finish();
      });
      return;
    }
    enterKeys(kb.i64(0));
    overBlocks([&] {
      transposeQueries();
      for (int64_t v = 0; v < blockVectors(); ++v) {
        kb.store(kb.splat(noScore),
                 kb.at(ofBlock(largestScores, 1), v * kb.lanes));
        kb.store(kb.splat(0.0), kb.at(ofBlock(sumsOfWeights, 1), v * kb.lanes));
      }
      scaleRows(kb.i64(block), [&](Value) { return kb.splat(0.0); }, true);
    });
    auto [seenFrom, seenTo] = seenBy(first, end);
    Value firstKeys =
        spec.window ? kb.mul(kb.div(seenFrom, keyBlock), keyBlock) : seenFrom;
    kb.loop(firstKeys, seenTo, keyBlock, [&](Value firstKey) {
      enterKeys(firstKey);
      readKeys(end);
      overBlocks(
          [&] { kb.ifThen(kb.less(keyFrom, keyTo), [&] { meetKeys(); }); });
    });
    enterKeys(kb.i64(0));
    overBlocks([&] { finish(); });
  }

  /// Has the keys and values of the block lie where products can read them, as
  /// far as queries before `end` see them.
  void readKeys(Value end) {
    Value rows = blockKeys;
    if (spec.causal)
      rows = kb.min(rows, kb.sub(position(end), k0));
    auto scalesOf = [&](Value scales, MemRefType type) {
      return scales ? head(scales, type, batch, kvHead) : RowsView();
    };
    keysView = head(k, spec.k, batch, kvHead);
    keysView = scalarWidth(d) ? readable(keysView, k0, rows, d, copyOfK,
                                         scalesOf(keyScales, spec.keyScale))
                              : RowsView{rowOf(keysView, k0), keysView.stride,
                                         keysView.element};
    valuesView = readable(head(v, spec.v, batch, kvHead), k0, rows, e, copyOfV,
                          scalesOf(valueScales, spec.valueScale));
  }

  /// A block of queries and one of keys.
  void meetKeys() {
    loadMask(batch, queryHead);
    scores(keysView, d, ofBlock(transposedQ, transposedRows), at(weights));
    softmax();
    if (spec.dropout)
      overKeysWithDropout(batch, queryHead, [&](Value s, ArrayRef<Value> keep) {
        for (int64_t v = 0; v < blockVectors(); ++v)
          kb.store(kb.select(keep[v], kb.load(weightAt(s, v)), kb.splat(0.0)),
                   weightAt(s, v));
      });
    sumOverKeys(at(weights), valuesView, e, tile(), keyBlocks > 1);
  }

  /// Multiplies rows of the block's sums, or sets them to the factor.
  void scaleRows(Value rows, function_ref<Value(Value)> factorOf, bool set) {
    RowsView sums = tile();
    kb.loop(kb.i64(0), rows, 1, [&](Value t) {
      Value factor = factorOf(t);
      for (int64_t column = 0; column < e; column += kb.lanes) {
        Value to = kb.at(rowOf(sums, t), column);
        kb.store(set ? factor : kb.mulf(kb.load(to), factor), to);
      }
    });
  }

  bool plain() const { return spec.isPlain(); }
  /// Powers of two of what scores are multiplied by are e to the scores.
  double unit() const { return log2e * (plain() ? spec.scale : 1.0); }

  /// The largest score of each query, and of `carried`. Scores that the second
  /// pass would have to make again are stored.
  SmallVector<Value> largestOf(SmallVector<Value> carried) {
    int64_t vectors = blockVectors();
    Value from = keyFrom;
    if (plain() && !spec.window) {
      // Four keys at a time, so that maxima do not wait for each other.
      Value seenByAll = keyTo;
      if (spec.causal)
        seenByAll = kb.min(keyTo, kb.max(keyFrom, kb.add(position(t0), 1)));
      from = kb.sub(seenByAll, kb.rem(kb.sub(seenByAll, keyFrom), kb.i64(4)));
      carried =
          kb.loop(keyFrom, from, 4, carried, [&](Value s, ValueRange carried) {
            SmallVector<Value> next;
            for (int64_t v = 0; v < vectors; ++v) {
              auto score = [&](int64_t i) {
                return kb.load(kb.at(weightAt(s, v), i * block));
              };
              next.push_back(
                  kb.maxf(carried[v], kb.maxf(kb.maxf(score(0), score(1)),
                                              kb.maxf(score(2), score(3)))));
            }
            return next;
          });
    }
    SmallVector<Value> largest;
    overKeys(
        from, keyTo, carried,
        [&](Value s, ValueRange carried, bool check) {
          SmallVector<Value> next;
          for (int64_t v = 0; v < vectors; ++v) {
            Value score = kb.load(weightAt(s, v));
            if (plain()) {
              if (check)
                score = kb.select(visible(s, v), score, kb.splat(-infinity));
            } else {
              score = masked(capped(score), s, v, check);
              kb.store(score, weightAt(s, v));
            }
            next.push_back(kb.maxf(carried[v], score));
          }
          return next;
        },
        largest);
    return largest;
  }

  /// Weights, not yet divided by their sum, from raw scores. With several
  /// blocks of keys the largest score and the sums are those of the blocks so
  /// far, and the sums are brought to a new largest score (Milakov and
  /// Gimelshein 2018, "Online normalizer calculation for softmax").
  void softmax() {
    int64_t vectors = blockVectors();
    auto load = [&](int64_t offset, int64_t v) {
      return kb.load(kb.at(ofBlock(offset, 1), v * kb.lanes));
    };
    SmallVector<Value> before, largest, sums;
    for (int64_t v = 0; v < vectors; ++v)
      before.push_back(keyBlocks > 1 ? load(largestScores, v)
                                     : kb.splat(noScore));
    largest = largestOf(before);
    SmallVector<Value> shift;
    for (Value value : largest)
      shift.push_back(kb.mulf(value, kb.splat(-unit())));
    if (keyBlocks == 1) {
      sums.assign(vectors, kb.splat(0.0));
    } else {
      for (int64_t v = 0; v < vectors; ++v) {
        Value factor =
            emitExp2(kb.b, kb.loc,
                     kb.mulf(kb.subf(before[v], largest[v]), kb.splat(unit())));
        kb.store(factor, kb.at(at(factors), v * kb.lanes));
        sums.push_back(kb.mulf(load(sumsOfWeights, v), factor));
      }
      scaleRows(
          blockQueries,
          [&](Value t) {
            return kb.splat(kb.loadScalar(kb.at(at(factors), t)));
          },
          false);
    }
    overKeys(
        keyFrom, keyTo, sums,
        [&](Value s, ValueRange carried, bool check) {
          SmallVector<Value> next;
          for (int64_t v = 0; v < vectors; ++v) {
            Value score = kb.load(weightAt(s, v));
            Value weight = emitExp2(kb.b, kb.loc,
                                    kb.fma(score, kb.splat(unit()), shift[v]));
            if (plain() && check)
              weight = kb.select(visible(s, v), weight, kb.splat(0.0));
            kb.store(weight, weightAt(s, v));
            next.push_back(kb.addf(carried[v], weight));
          }
          return next;
        },
        sums);
    for (int64_t v = 0; v < vectors; ++v) {
      kb.store(largest[v], kb.at(ofBlock(largestScores, 1), v * kb.lanes));
      kb.store(sums[v], kb.at(ofBlock(sumsOfWeights, 1), v * kb.lanes));
    }
  }

  /// Writes a block's output and lse.
  void finish() {
    RowsView lseRow = lseOf();
    double kept = spec.dropout ? 1.0 - *spec.dropout : 1.0;
    for (int64_t v = 0; v < blockVectors(); ++v) {
      Value sum = kb.load(kb.at(ofBlock(sumsOfWeights, 1), v * kb.lanes));
      Value largest = kb.load(kb.at(ofBlock(largestScores, 1), v * kb.lanes));
      Value zero = kb.splat(0.0);
      Value some = arith::CmpFOp::create(kb.b, kb.loc,
                                         arith::CmpFPredicate::OGT, sum, zero);
      Value inverted = kb.divf(kb.splat(1.0 / kept), sum);
      // NaN, from a NaN among the scores, is not the empty sum.
      Value none = arith::CmpFOp::create(kb.b, kb.loc,
                                         arith::CmpFPredicate::OEQ, sum, zero);
      kb.store(kb.select(none, zero, inverted),
               kb.at(at(factors), v * kb.lanes));
      Value safe = kb.select(some, sum, kb.splat(1.0));
      Value logarithm = kb.fma(largest, kb.splat(plain() ? spec.scale : 1.0),
                               math::LogOp::create(kb.b, kb.loc, safe));
      Value mask = kb.maskOf(kb.sub(blockQueries, kb.i64(v * kb.lanes)));
      kb.store(
          kb.select(none, kb.splat(-infinity), kb.select(some, logarithm, sum)),
          kb.at(lseRow.ptr, kb.add(t0, v * kb.lanes)), mask);
    }
    RowsView sums = tile();
    RowsView rows = head(out, spec.out, batch, queryHead);
    kb.loop(kb.i64(0), blockQueries, 1, [&](Value t) {
      Value factor = kb.splat(kb.loadScalar(kb.at(at(factors), t)));
      Value from = rowOf(sums, t);
      Value to = rowOf(rows, kb.add(t0, t));
      for (int64_t column = 0; column < e; column += kb.lanes)
        store(kb.mulf(kb.load(kb.at(from, column)), factor), rows, to, column,
              columnMask(column, e));
    });
  }

  /// The lse of the current head, as one row.
  RowsView lseOf() {
    SmallVector<int64_t> strides = stridesOf(spec.lse);
    Value at = kb.add(kb.mul(batch, strides[0]), kb.mul(queryHead, strides[1]));
    return {kb.at(lse, at), kb.i64(1)};
  }
};

} // namespace

Kernel tfm::emitAttention(OpBuilder &builder, ModuleOp module, StringRef name,
                          const AttentionSpec &spec, const CpuMachine &target) {
  bool wraps = spec.ring && spec.k.getDimSize(2) % keysTogether != 0;
  // Scales are read as vectors, too.
  bool scattered = llvm::any_of(
      ArrayRef{spec.keyScale, spec.valueScale},
      [](MemRefType type) { return type && stridesOf(type)[2] != 1; });
  if (spec.start && !spec.dropout && !wraps && !scattered &&
      spec.q.getDimSize(2) <= fewQueries)
    return emitFewQueries(builder, module, name, spec, target);
  return AttentionForward(builder, module, spec, target).emit(name);
}
