//===- AttentionFewQueries.cpp - attention of new tokens to a cache -------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/target/cpu/AttentionBlock.h"
#include "compiler/target/cpu/CpuMachine.h"
#include "compiler/target/cpu/MicroKernel.h"
#include "compiler/target/cpu/StreamedRows.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "llvm/Support/MathExtras.h"
#include <algorithm>

using namespace mlir;
using namespace tfm;

namespace {

/// Rows of queries that meet the keys together: their scores over all keys lie
/// in scratch.
constexpr int64_t mostRows = 16;

class FewQueries {
public:
  FewQueries(OpBuilder &builder, ModuleOp module, const AttentionSpec &spec,
             const CpuMachine &target)
      : spec(spec), target(target), kb(builder, module, target.lanes),
        module(module) {
    ArrayRef<int64_t> q = spec.q.getShape(), k = spec.k.getShape();
    batches = q[0];
    queries = q[2];
    d = q[3];
    kvHeads = k[1];
    group = q[1] / kvHeads;
    keys = k[2];
    e = spec.v.getDimSize(3);
    together = std::clamp<int64_t>(mostRows / group, 1, queries);
    keyWidth = llvm::alignTo(keys, kb.lanes);
    if (spec.ring) // keyFrom is not where the window begins
      keyWidth += kb.lanes;
    headsTogether = headsOfKeys();
  }

  Kernel emit(StringRef name) {
    // What a row of queries has in scratch, in f32.
    int64_t rows = headsTogether * group * together;
    queryWidth = llvm::alignTo(d, kb.lanes);
    outWidth = llvm::alignTo(e, kb.lanes);
    int64_t used = 0;
    auto reserve = [&](int64_t perRow) {
      int64_t offset = used;
      used += rows * perRow;
      return offset;
    };
    int64_t queriesAt = reserve(queryWidth), scoresAt = reserve(keyWidth),
            outAt = reserve(outWidth), largestAt = reserve(kb.lanes);
    int64_t lanesAt = used; // of one head at a time
    used += group * together * kb.lanes * kb.lanes;
    OpBuilder::InsertionGuard guard(kb.b);
    int64_t scratchBytes = used * int64_t{sizeof(float)};
    Value starts;
    func::FuncOp func = beginAttention(kb, module, name,
                                       {{spec.q, &q},
                                        {spec.k, &k},
                                        {spec.v, &v},
                                        {spec.mask, &mask},
                                        {spec.start, &starts},
                                        {spec.keyScale, &keyScales},
                                        {spec.valueScale, &valueScales},
                                        {spec.distanceBias, &distances},
                                        {spec.out, &out},
                                        {spec.lse, &lse}},
                                       scratchBytes);
    KernelArguments arguments(func);
    Value scratch = kb.pointer(arguments.scratch);
    queryRows = kb.at(scratch, queriesAt);
    lanes = kb.at(scratch, lanesAt);
    scores = kb.at(scratch, scoresAt);
    outRows = kb.at(scratch, outAt);
    largest = kb.at(scratch, largestAt);

    auto [from, to] =
        kb.share(kb.i64(batches * kvHeads / headsTogether),
                 kb.toI64(arguments.thread), kb.toI64(arguments.threads));
    kb.loop(from, to, 1, [&](Value item) {
      int64_t items = kvHeads / headsTogether;
      batch = kb.div(item, items);
      firstHead = kb.mul(kb.rem(item, kb.i64(items)), headsTogether);
      start = kb.loadInteger(
          kb.at(starts, kb.mul(batch, stridesOf(spec.start)[0])));
      for (int64_t first = 0; first < queries; first += together)
        someQueries(first, std::min(together, queries - first));
    });
    return {func, scratchBytes};
  }

private:
  const AttentionSpec &spec;
  const CpuMachine &target;
  KernelBuilder kb;
  ModuleOp module;
  int64_t batches, kvHeads, group, queries, keys, d, e;
  /// Queries of each head that are computed together, and heads of the keys
  /// that a few keys at a time meet all of them for.
  int64_t together, headsTogether;
  int64_t keyWidth = 0, queryWidth = 0, outWidth = 0;
  /// Null where there is none.
  Value q, k, v, mask, out, lse;
  /// Parts of scratch, each with a row for every row of queries.
  Value queryRows, lanes, scores, outRows, largest;
  Value batch, firstHead, start;
  /// Null where keys and values are floats.
  Value keyScales, valueScales;
  /// Null without biases by distance.
  Value distances;
  /// The keys that some of the rows see lie in [keyFrom, keyTo); keyFrom is a
  /// multiple of `lanes`, so that a key is in the same lane for all queries.
  Value keyFrom, keyTo;

  /// The heads of the keys that are computed together: one, where its keys lie
  /// beside each other. Where those of several texts lie in between, all heads
  /// of a key are next to each other, and are read so; but no more of them than
  /// leave every thread its share, and scores in the second-level cache.
  int64_t headsOfKeys() const {
    SmallVector<int64_t> strides = stridesOf(spec.k);
    if (strides[2] == d || strides[1] != d)
      return 1;
    constexpr int64_t fewestItems = 8;
    auto fits = [&](int64_t heads) {
      int64_t bytes = heads * group * together * keyWidth * 4;
      return kvHeads % heads == 0 && bytes <= target.l2Bytes / 4 &&
             batches * kvHeads / heads >= fewestItems;
    };
    int64_t heads = kvHeads;
    while (heads > 1 && !fits(heads))
      --heads;
    return heads;
  }

  Value rowOf(Value part, Value row, int64_t width) {
    return kb.at(part, kb.mul(row, width));
  }

  /// The heads that are computed together, and the number of the first row of
  /// queries of each.
  void overHeads(int64_t rows, function_ref<void(Value, Value)> body) {
    kb.loop(kb.i64(0), kb.i64(headsTogether), 1, [&](Value head) {
      body(kb.add(firstHead, head), kb.mul(head, rows));
    });
  }

  /// A row of queries: its head, the number of its query, and where that is
  /// among the keys.
  struct Row {
    Value number, head, query, position;
  };
  /// Queries [first, first + count) of the heads that share `kvHead`, whose
  /// rows are numbered from `number` on.
  void overRows(Value kvHead, Value number, int64_t first, int64_t count,
                function_ref<void(Row)> body) {
    kb.loop(kb.i64(0), kb.i64(group * count), 1, [&](Value row) {
      Value head = kb.add(kb.mul(kvHead, group), kb.div(row, count));
      Value query = kb.add(kb.rem(row, kb.i64(count)), first);
      body({kb.add(number, row), head, query, kb.add(start, query)});
    });
  }
  void overRows(int64_t first, int64_t count, function_ref<void(Row)> body) {
    overHeads(group * count, [&](Value kvHead, Value number) {
      overRows(kvHead, number, first, count, body);
    });
  }
  /// The row of a key.
  Value slotOf(Value key) {
    return spec.ring ? kb.rem(key, kb.i64(keys)) : key;
  }
  /// A row of a [B, heads, T, width] buffer.
  Value at(Value ptr, MemRefType type, Value head, Value row) {
    SmallVector<int64_t> strides = stridesOf(type);
    Value offset =
        kb.add(kb.add(kb.mul(batch, strides[0]), kb.mul(head, strides[1])),
               kb.mul(row, strides[2]));
    return kb.at(ptr, offset, type.getElementType());
  }
  /// The scales of keys from `key` on, as far as there are any.
  Value scalesFrom(Value scales, MemRefType type, Value kvHead, Value key) {
    return kb.load(at(scales, type, kvHead, slotOf(key)),
                   kb.maskOf(kb.sub(keyTo, key)));
  }
  Value columnMask(Value column, int64_t columns) {
    return columns % kb.lanes == 0 ? Value()
                                   : kb.maskOf(kb.sub(kb.i64(columns), column));
  }

  /// Queries [first, first + count) of all heads that are computed together.
  void someQueries(int64_t first, int64_t count) {
    int64_t rows = group * count;
    keyTo = kb.add(start, first + count);
    if (!spec.ring)
      keyTo = kb.min(kb.i64(keys), keyTo);
    keyFrom = kb.i64(0);
    if (spec.window) {
      Value seen = kb.sub(kb.add(start, first + 1), kb.i64(*spec.window));
      seen = kb.min(kb.max(seen, keyFrom), keyTo);
      keyFrom = kb.sub(seen, kb.rem(seen, kb.i64(kb.lanes)));
    }
    overRows(first, count, [&](Row row) {
      Value from = at(q, spec.q, row.head, row.query);
      Value to = rowOf(queryRows, row.number, queryWidth);
      Type element = spec.q.getElementType();
      kb.loop(kb.i64(0), kb.i64(d), kb.lanes, [&](Value i) {
        kb.store(kb.load(kb.at(from, i, element), columnMask(i, d), element),
                 kb.at(to, i));
      });
      kb.store(kb.splat(noScore), rowOf(largest, row.number, kb.lanes));
    });

    if (keyScales)
      overHeads(rows, [&](Value kvHead, Value) {
        prefetchScales(keyScales, spec.keyScale, kvHead, keyFrom);
        prefetchScales(valueScales, spec.valueScale, kvHead, keyFrom);
      });

    StreamedTerms terms{kb.f32Type, spec.k.getElementType()};
    int64_t keyStride = stridesOf(spec.k)[2];
    kb.loop(keyFrom, keyTo, kb.lanes, [&](Value key) {
      Value some = kb.min(kb.i64(kb.lanes), kb.sub(keyTo, key));
      overHeads(rows, [&](Value kvHead, Value number) {
        if (keyScales) {
          Value next = kb.add(key, rowsAhead(key));
          prefetchScales(keyScales, spec.keyScale, kvHead, next);
          prefetchScales(valueScales, spec.valueScale, kvHead, next);
        }
        dotProducts(kb, target, terms, rows,
                    rowOf(queryRows, number, queryWidth), kb.i64(queryWidth),
                    at(k, spec.k, kvHead, slotOf(key)), keyStride, some, d,
                    lanes, headsTogether > 1 ? rowsAhead(key) : Value());
        Value scales = keyScales
                           ? scalesFrom(keyScales, spec.keyScale, kvHead, key)
                           : Value();
        overRows(kvHead, number, first, count, [&](Row row) {
          Value own = kb.sub(row.number, number);
          Value score =
              addLanes(kb, terms, rowOf(lanes, own, kb.lanes * kb.lanes));
          if (scales)
            score = kb.mulf(score, scales);
          score = seen(finished(score, row, key), row, key);
          kb.store(score, scoreAt(row, key));
          Value to = rowOf(largest, row.number, kb.lanes);
          kb.store(kb.maxf(kb.load(to), score), to);
        });
      });
    });
    Value some = kb.min(kb.i64(kb.lanes), kb.sub(keyTo, keyFrom));
    if (headsTogether > 1)
      prefetch(at(v, spec.v, firstHead, slotOf(keyFrom)), spec.v, some);
    overRows(first, count, [&](Row row) { softmax(row); });

    terms.b = spec.v.getElementType();
    sumValues(v, rows, terms);
    overRows(first, count, [&](Row row) {
      Value to = at(out, spec.out, row.head, row.query);
      Value from = rowOf(outRows, row.number, outWidth);
      // What `softmax` left there.
      Value factor = kb.load(rowOf(largest, row.number, kb.lanes));
      Type element = spec.out.getElementType();
      kb.loop(kb.i64(0), kb.i64(e), kb.lanes, [&](Value i) {
        kb.store(kb.mulf(kb.load(kb.at(from, i)), factor),
                 kb.at(to, i, element), columnMask(i, e), element);
      });
    });
  }

  /// Prefetches `some` rows of keys or values of the heads read together.
  void prefetch(Value from, MemRefType type, Value some) {
    Type element = type.getElementType();
    int64_t line = 8 * cacheLine / element.getIntOrFloatBitWidth();
    int64_t stride = stridesOf(type)[2],
            width = headsTogether * type.getDimSize(3);
    kb.loop(kb.i64(0), some, 1, [&](Value i) {
      for (int64_t column = 0; column < width; column += line)
        kb.prefetch(
            kb.at(kb.at(from, kb.mul(i, stride), element), column, element),
            /*level=*/1);
    });
  }

  /// Prefetches the scales of keys from `key` on: those of the next head lie as
  /// far away as a text may be long, where no processor looks by itself.
  void prefetchScales(Value scales, MemRefType type, Value kvHead, Value key) {
    kb.prefetch(at(scales, type, kvHead, slotOf(key)), /*level=*/1);
  }

  /// How many rows behind these `lanes` keys the next are; none where no row
  /// sees more, since a short text fills little of its cache.
  Value rowsAhead(Value key) {
    Value next = kb.less(kb.add(key, kb.lanes), keyTo);
    return kb.select(next, kb.i64(kb.lanes), kb.i64(0));
  }

  Value scoreAt(Row row, Value key) {
    return kb.at(rowOf(scores, row.number, keyWidth), kb.sub(key, keyFrom));
  }

  /// Powers of two of what scores are multiplied by are e to the scores.
  double unit() const { return log2e * (spec.isPlain() ? spec.scale : 1.0); }

  /// The scores of keys from `key` on, as they lie in scratch.
  Value finished(Value score, Row row, Value key) {
    if (spec.isPlain())
      return score;
    score = kb.mulf(score, kb.splat(spec.scale));
    if (spec.softcap)
      score = kb.mulf(
          math::TanhOp::create(kb.b, kb.loc,
                               kb.mulf(score, kb.splat(1.0 / *spec.softcap))),
          kb.splat(*spec.softcap));
    if (spec.distanceBias)
      score = kb.addf(score, biases(row, key));
    if (!spec.mask)
      return score;
    SmallVector<int64_t> strides = stridesOf(spec.mask);
    ArrayRef<int64_t> shape = spec.mask.getShape();
    Value offset = kb.add(kb.mul(row.query, strides[2]), key);
    if (shape[0] > 1)
      offset = kb.add(offset, kb.mul(batch, strides[0]));
    if (shape[1] > 1)
      offset = kb.add(offset, kb.mul(row.head, strides[1]));
    Value within = columnMask(key, keys);
    if (spec.mask.getElementType().isF32())
      return kb.addf(score, kb.load(kb.at(mask, offset), within));
    Type byte = kb.b.getI8Type();
    auto bytes = VectorType::get({kb.lanes}, byte);
    Value loaded = kb.loadAs(bytes, kb.at(mask, offset, byte), within);
    Value zero =
        arith::ConstantOp::create(kb.b, kb.loc, kb.b.getZeroAttr(bytes));
    Value keep = arith::CmpIOp::create(kb.b, kb.loc, arith::CmpIPredicate::ne,
                                       loaded, zero);
    return kb.select(keep, score, kb.splat(-infinity));
  }

  /// The biases by distance of keys from `key` on: each is one nearer than the
  /// last, so that they lie the other way round.
  Value biases(Row row, Value key) {
    Value first = kb.add(kb.sub(row.position, key), 1 - kb.lanes);
    Value from =
        kb.at(distances, kb.mul(row.head, stridesOf(spec.distanceBias)[0]));
    Value found =
        kb.load(kb.at(from, first), kb.within(first, kb.i64(spec.distances())));
    SmallVector<int64_t> reversed;
    for (int64_t lane = kb.lanes; lane-- > 0;)
      reversed.push_back(lane);
    return kb.shuffle(found, found, reversed);
  }

  /// Minus infinity in the lanes of keys that the row does not see.
  Value seen(Value score, Row row, Value key) {
    Value end = kb.min(kb.add(row.position, 1), keyTo);
    Value nothing = kb.splat(-infinity);
    score = kb.select(kb.maskOf(kb.sub(end, key)), score, nothing);
    if (!spec.window)
      return score;
    Value first = kb.sub(kb.add(row.position, 1), kb.i64(*spec.window));
    return kb.select(kb.maskOf(kb.sub(first, key)), nothing, score);
  }

  /// All lanes of `x`, in each lane.
  Value inAllLanes(Value x, function_ref<Value(Value, Value)> combine) {
    for (int64_t far = kb.lanes / 2; far > 0; far /= 2) {
      SmallVector<int64_t> turned;
      for (int64_t lane = 0; lane < kb.lanes; ++lane)
        turned.push_back((lane + far) % kb.lanes);
      x = combine(x, kb.shuffle(x, x, turned));
    }
    return x;
  }

  /// Weights from the scores of a row, not yet divided by their sum, each times
  /// the scale of its value; one over that sum, in place of the largest scores;
  /// and lse.
  void softmax(Row row) {
    Value kept = rowOf(largest, row.number, kb.lanes);
    Value most = inAllLanes(kb.load(kept),
                            [&](Value x, Value y) { return kb.maxf(x, y); });
    auto takeOff = [&](ArrayRef<Value> taken) {
      kb.loop(keyFrom, keyTo, kb.lanes, [&](Value key) {
        Value at = scoreAt(row, key);
        kb.store(kb.subf(kb.load(at), taken.front()), at);
      });
    };
    Value shift = shiftsOf(kb, most, unit(), takeOff).front();
    Value sum = kb.loop(
        keyFrom, keyTo, kb.lanes, {kb.splat(0.0)},
        [&](Value key, ValueRange sums) {
          Value at = scoreAt(row, key);
          Value weight = emitExp2(kb.b, kb.loc,
                                  kb.fma(kb.load(at), kb.splat(unit()), shift));
          Value times = weight;
          if (valueScales)
            times = kb.mulf(weight, scalesFrom(valueScales, spec.valueScale,
                                               kb.div(row.head, group), key));
          kb.store(times, at);
          return SmallVector<Value>{kb.addf(sums[0], weight)};
        })[0];
    sum = inAllLanes(sum, [&](Value x, Value y) { return kb.addf(x, y); });
    // A row may see no key; NaN, from a NaN among the scores, is not that.
    auto compare = [&](arith::CmpFPredicate predicate) -> Value {
      return arith::CmpFOp::create(kb.b, kb.loc, predicate, sum, kb.splat(0.0));
    };
    Value none = compare(arith::CmpFPredicate::OEQ);
    kb.store(kb.select(none, kb.splat(0.0), kb.divf(kb.splat(1.0), sum)), kept);
    Value some = compare(arith::CmpFPredicate::OGT);
    Value safe = kb.select(some, sum, kb.splat(1.0));
    Value logarithm = kb.fma(most, kb.splat(unit() / log2e),
                             math::LogOp::create(kb.b, kb.loc, safe));
    Value result =
        kb.select(none, kb.splat(-infinity), kb.select(some, logarithm, sum));
    SmallVector<int64_t> strides = stridesOf(spec.lse);
    Value to =
        kb.add(kb.add(kb.mul(batch, strides[0]), kb.mul(row.head, strides[1])),
               kb.mul(row.query, strides[2]));
    kb.store(result, kb.at(lse, to), kb.maskOf(kb.i64(1)));
  }

  /// The sums of values, by the weights of each row; of some keys for one strip
  /// of their columns before the next.
  void sumValues(Value v, int64_t rows, const StreamedTerms &terms) {
    int64_t stride = stridesOf(spec.v)[2];
    // Heads read together take turns, and their rows follow each other.
    int64_t depth = headsTogether > 1 ? kb.lanes : keysTogether;
    Value first = kb.sub(keyFrom, kb.rem(keyFrom, kb.i64(depth)));
    kb.loop(first, keyTo, depth, [&](Value block) {
      Value key = kb.max(block, keyFrom);
      Value some = kb.sub(kb.min(kb.add(block, depth), keyTo), key);
      Value ahead = headsTogether > 1 ? rowsAhead(key) : kb.i64(16);
      overHeads(rows, [&](Value kvHead, Value number) {
        addProducts(
            kb, target, terms, rows,
            kb.at(rowOf(scores, number, keyWidth), kb.sub(key, keyFrom)),
            kb.i64(keyWidth), at(v, spec.v, kvHead, slotOf(key)), stride,
            rowOf(outRows, number, outWidth), outWidth, e, some,
            kb.less(keyFrom, key), kb.mul(ahead, stride));
      });
    });
  }
};

} // namespace

Kernel tfm::emitFewQueries(OpBuilder &builder, ModuleOp module, StringRef name,
                           const AttentionSpec &spec,
                           const CpuMachine &target) {
  if (!spec.fits())
    return refuseAttention(module, name);
  return FewQueries(builder, module, spec, target).emit(name);
}
