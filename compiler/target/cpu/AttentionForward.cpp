//===- AttentionForward.cpp - scaled dot-product attention ----------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/target/cpu/AttentionPanels.h"
#include "compiler/target/cpu/CpuMachine.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/MathExtras.h"
#include <algorithm>

using namespace mlir;
using namespace tfm;

namespace {

class AttentionForward : AttentionBlock {
public:
  AttentionForward(OpBuilder &builder, ModuleOp module,
                   const AttentionSpec &spec, const CpuMachine &target)
      : AttentionBlock(builder, module, spec, target, /*vectorsPerBlock=*/2,
                       /*scoreBytes=*/target.l1Bytes * 2 / 3) {
    if (products->keysLength(e, AttentionProducts::asTerms) > 0)
      spanBlocks = std::clamp<int64_t>(sharingQueries() / block, 1, blocks);
  }

  Kernel emit(StringRef name) {
    if (!valid)
      return refuseAttention(module, name);
    queriesLength = products->queriesLength(d);
    sumsLength = products->sumsLength(e);
    // What a block of queries keeps from one block of keys to the next.
    int64_t kept = keyBlocks > 1 ? spanBlocks : 1;
    transposedQ = reserve(queriesLength * kept);
    outSums = reserve(sumsLength * kept);
    largestScores = reserve(block * kept);
    sumsOfWeights = reserve(block * kept);
    weights = reserve((inPanels() ? keyRows : scoreRows()) * block);
    largestOfPanel = reserve(inPanels() ? block : 0);
    weightsForSums = reserve(products->weightsLength());
    factors = reserve(block);
    outRows = reserve(products->rowsLength(e));
    copyOfK = reserve(products->keysLength(d, AttentionProducts::asFactor));
    copyOfV = reserve(products->keysLength(e, AttentionProducts::asTerms));
    OpBuilder::InsertionGuard guard(kb.b);
    Value biases;
    func::FuncOp func = begin(name, {{spec.q, &q},
                                     {spec.k, &k},
                                     {spec.v, &v},
                                     {spec.mask, &maskPtr},
                                     {spec.start, &starts},
                                     {spec.keyScale, &keyScales},
                                     {spec.valueScale, &valueScales},
                                     {spec.distanceBias, &biases},
                                     {spec.out, &out},
                                     {spec.lse, &lse}});
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
  /// Of a block of queries.
  int64_t queriesLength = 0, sumsLength = 0;
  int64_t transposedQ = 0, outSums = 0, largestScores = 0, sumsOfWeights = 0,
          weights = 0, weightsForSums = 0, largestOfPanel = 0, factors = 0,
          outRows = 0, copyOfK = 0, copyOfV = 0;
  Value q, k, v, starts, keyScales, valueScales, out, lse, batch, queryHead,
      kvHead;
  RowsView keysView, valuesView;
  Value spanStart;

  Value weightAt(Value s, int64_t v) {
    return kb.at(scoreRow(weights, s), v * kb.lanes);
  }
  /// The block's part of what is kept for each block of a span.
  Value ofBlock(int64_t offset, int64_t length) {
    if (keyBlocks == 1)
      return at(offset);
    return kb.at(at(offset), kb.mul(kb.sub(t0, spanStart), length / block));
  }
  Value sums() { return ofBlock(outSums, sumsLength); }
  Value largestAt(int64_t v) {
    return kb.at(ofBlock(largestScores, block), v * kb.lanes);
  }
  Value sumAt(int64_t v) {
    return kb.at(ofBlock(sumsOfWeights, block), v * kb.lanes);
  }

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
      products->takeQueries(head(q, spec.q, batch, queryHead), d,
                            ofBlock(transposedQ, queriesLength));
    };
    if (keyBlocks == 1) {
      enterKeys(kb.i64(0));
      readKeys(end);
      overBlocks([&] {
        transposeQueries();
        if (inPanels())
          beginSoftmax();
        meetKeys();
        finish();
      });
      return;
    }
    enterKeys(kb.i64(0));
    overBlocks([&] {
      transposeQueries();
      beginSoftmax();
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

  /// No key has been met.
  void beginSoftmax() {
    for (int64_t v = 0; v < blockVectors(); ++v) {
      kb.store(kb.splat(noScore), largestAt(v));
      kb.store(kb.splat(0.0), sumAt(v));
    }
    kb.loop(kb.i64(0), kb.i64(sumsLength), kb.lanes,
            [&](Value i) { kb.store(kb.splat(0.0), kb.at(sums(), i)); });
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
    keysView = products
                   ->takeKeys(head(k, spec.k, batch, kvHead), rows, d,
                              AttentionProducts::asFactor, copyOfK,
                              scalesOf(keyScales, spec.keyScale))
                   .factor;
    valuesView = products
                     ->takeKeys(head(v, spec.v, batch, kvHead), rows, e,
                                AttentionProducts::asTerms, copyOfV,
                                scalesOf(valueScales, spec.valueScale))
                     .terms;
  }

  /// A block of queries and one of keys.
  void meetKeys() {
    loadMask(batch, queryHead);
    if (inPanels())
      return meetPanels();
    products->scores(keysView, d, ofBlock(transposedQ, queriesLength),
                     at(weights));
    softmax();
    if (spec.dropout)
      overKeysWithDropout(batch, queryHead, [&](Value s, ArrayRef<Value> keep) {
        for (int64_t v = 0; v < blockVectors(); ++v)
          kb.store(kb.select(keep[v], kb.load(weightAt(s, v)), kb.splat(0.0)),
                   weightAt(s, v));
      });
    products->sumOverKeys(products->takeWeights(at(weights), weightsForSums),
                          valuesView, e, sums(), keyBlocks > 1);
  }

  /// On tiles scores of a panel are made while vectors make weights of the one
  /// before, and written after those have been read. Scores are taken from the
  /// largest so far only where some exceeds it by far: what was added up is
  /// brought to a new largest score a few times, and weights are 2 ** `slack`
  /// at most.
  void meetPanels() {
    constexpr double slack = 8;
    Value queries = ofBlock(transposedQ, queriesLength);
    auto beginScores = [&](Value panel) {
      panels->beginScores(panel, keysView, d, queries);
    };
    auto endScores = [&] { panels->endScores(at(weights)); };
    auto sumPanels = [&](Value from, Value to) {
      panels->sumOverPanels(at(weightsForSums), valuesView, e, sums(),
                            /*accumulate=*/true, from, to);
    };
    beginScores(panelFrom);
    endScores();
    Value summed = kb.loop(
        panelFrom, panelTo, 1, {panelFrom},
        [&](Value panel, ValueRange carried) -> SmallVector<Value> {
          Value summed = carried[0], next = kb.add(panel, 1);
          overPanel(panel, [&](bool check) { findLargest(panel, check); });
          Value exceeds = exceedsBy(slack);
          kb.ifThen(exceeds, [&] {
            sumPanels(summed, panel);
            takeLargest();
          });
          Value more = kb.less(next, panelTo);
          kb.ifThen(more, [&] { beginScores(next); });
          overPanel(panel, [&](bool check) { weigh(panel, check); });
          kb.ifThen(more, endScores);
          return {kb.select(exceeds, panel, summed)};
        })[0];
    sumPanels(summed, panelTo);
  }

  /// Of scores that the second pass would have to make again, too.
  void findLargest(Value panel, bool check) {
    Value first = kb.add(k0, panelStart(panel));
    SmallVector<Value> largest;
    for (int64_t v = 0; v < blockVectors(); ++v)
      largest.push_back(kb.load(largestAt(v)));
    largest = kb.loop(
        kb.i64(0), kb.i64(keyRows), 4, largest,
        [&](Value row, ValueRange carried) {
          SmallVector<Value> next;
          for (int64_t v = 0; v < blockVectors(); ++v) {
            SmallVector<Value> four;
            for (int64_t i = 0; i < 4; ++i) {
              Value from = elementAt(at(weights), kb.add(row, i), v);
              Value s = kb.add(first, kb.add(row, i));
              Value score = kb.load(from);
              if (!plain())
                score = masked(capped(score), s, v, false);
              if (check)
                score = kb.select(seen(s, v), score, kb.splat(-infinity));
              if (!plain())
                kb.store(score, from);
              four.push_back(score);
            }
            next.push_back(
                kb.maxf(carried[v], kb.maxf(kb.maxf(four[0], four[1]),
                                            kb.maxf(four[2], four[3]))));
          }
          return next;
        });
    for (int64_t v = 0; v < blockVectors(); ++v)
      kb.store(largest[v], kb.at(at(largestOfPanel), v * kb.lanes));
  }
  /// Whether the largest score of a panel makes some weight more than 2 **
  /// `slack`.
  Value exceedsBy(double slack) {
    Value any;
    for (int64_t v = 0; v < blockVectors(); ++v) {
      Value most = kb.addf(kb.load(largestAt(v)), kb.splat(slack / unit()));
      Value some = arith::CmpFOp::create(
          kb.b, kb.loc, arith::CmpFPredicate::OGT,
          kb.load(kb.at(at(largestOfPanel), v * kb.lanes)), most);
      any = any ? arith::OrIOp::create(kb.b, kb.loc, any, some) : some;
    }
    return vector::ReductionOp::create(kb.b, kb.loc, vector::CombiningKind::OR,
                                       any);
  }
  /// Brings the sums so far to the largest score of a panel.
  void takeLargest() {
    for (int64_t v = 0; v < blockVectors(); ++v) {
      Value largest = kb.load(kb.at(at(largestOfPanel), v * kb.lanes));
      rescale(v, kb.load(largestAt(v)), largest);
      kb.store(largest, largestAt(v));
    }
    products->scaleSums(sums(), e, at(factors));
  }
  /// The sum of weights, and the factor of the sums, at another largest score.
  void rescale(int64_t v, Value before, Value largest) {
    Value factor =
        powerOfTwo(kb.mulf(kb.subf(before, largest), kb.splat(unit())));
    kb.store(factor, kb.at(at(factors), v * kb.lanes));
    kb.store(kb.mulf(kb.load(sumAt(v)), factor), sumAt(v));
  }
  /// Weights of a panel, not yet divided by their sum.
  void weigh(Value panel, bool check) {
    Value start = panelStart(panel);
    SmallVector<Value> sums, largest;
    for (int64_t v = 0; v < blockVectors(); ++v) {
      largest.push_back(kb.load(largestAt(v)));
      sums.push_back(kb.load(sumAt(v)));
    }
    SmallVector<Value> shift =
        shiftsOf(kb, largest, unit(), [&](ArrayRef<Value> taken) {
          kb.loop(kb.i64(0), kb.i64(keyRows), 1, [&](Value row) {
            for (int64_t v = 0; v < blockVectors(); ++v)
              takeOff(taken[v], elementAt(at(weights), row, v));
          });
        });
    sums = kb.loop(
        kb.i64(0), kb.i64(keyRows), 2, sums,
        [&](Value row, ValueRange carried) {
          SmallVector<Value> next;
          for (int64_t v = 0; v < blockVectors(); ++v) {
            Value both[2];
            for (int64_t i : {0, 1}) {
              Value in = kb.add(row, i);
              Value score = kb.load(elementAt(at(weights), in, v));
              Value weight =
                  powerOfTwo(kb.fma(score, kb.splat(unit()), shift[v]));
              if (plain() && check)
                weight = kb.select(seen(kb.add(k0, kb.add(start, in)), v),
                                   weight, kb.splat(0.0));
              both[i] = weight;
            }
            panels->storeWeights(both[0], both[1], at(weightsForSums),
                                 kb.add(start, row), v);
            next.push_back(kb.addf(carried[v], kb.addf(both[0], both[1])));
          }
          return next;
        });
    for (int64_t v = 0; v < blockVectors(); ++v)
      kb.store(sums[v], sumAt(v));
  }

  bool plain() const { return spec.isPlain(); }
  /// Powers of two of what scores are multiplied by are e to the scores.
  double unit() const { return log2e * (plain() ? spec.scale : 1.0); }
  void takeOff(Value taken, Value score) {
    kb.store(kb.subf(kb.load(score), taken), score);
  }

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
    SmallVector<Value> before, largest, sums;
    for (int64_t v = 0; v < vectors; ++v)
      before.push_back(keyBlocks > 1 ? kb.load(largestAt(v))
                                     : kb.splat(noScore));
    largest = largestOf(before);
    SmallVector<Value> shift =
        shiftsOf(kb, largest, unit(), [&](ArrayRef<Value> taken) {
          overVectors([&](int64_t first, int64_t end) {
            kb.loop(keyFrom, keyTo, 1, [&](Value s) {
              for (int64_t v = first; v < end; ++v)
                takeOff(taken[v], weightAt(s, v));
            });
          });
        });
    if (keyBlocks == 1) {
      sums.assign(vectors, kb.splat(0.0));
    } else {
      for (int64_t v = 0; v < vectors; ++v) {
        rescale(v, before[v], largest[v]);
        sums.push_back(kb.load(sumAt(v)));
      }
      products->scaleSums(this->sums(), e, at(factors));
    }
    overVectors([&](int64_t first, int64_t end) {
      SmallVector<Value> added;
      overKeys(
          keyFrom, keyTo, ArrayRef(sums).slice(first, end - first),
          [&](Value s, ValueRange carried, bool check) {
            SmallVector<Value> next;
            for (int64_t v = first; v < end; ++v) {
              Value score = kb.load(weightAt(s, v));
              Value weight =
                  powerOfTwo(kb.fma(score, kb.splat(unit()), shift[v]));
              if (plain() && check)
                weight = kb.select(visible(s, v), weight, kb.splat(0.0));
              kb.store(weight, weightAt(s, v));
              next.push_back(kb.addf(carried[v - first], weight));
            }
            return next;
          },
          added);
      llvm::copy(added, sums.begin() + first);
    });
    for (int64_t v = 0; v < vectors; ++v) {
      kb.store(largest[v], largestAt(v));
      kb.store(sums[v], sumAt(v));
    }
  }

  /// Writes a block's output and lse.
  void finish() {
    RowsView lseRow = lseOf();
    double kept = spec.dropout ? 1.0 - *spec.dropout : 1.0;
    for (int64_t v = 0; v < blockVectors(); ++v) {
      Value sum = kb.load(sumAt(v));
      Value largest = kb.load(largestAt(v));
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
    RowsView rowsOfSums = products->rowsOfSums(sums(), e, outRows);
    RowsView rows = head(out, spec.out, batch, queryHead);
    kb.loop(kb.i64(0), blockQueries, 1, [&](Value t) {
      Value factor = kb.splat(kb.loadScalar(kb.at(at(factors), t)));
      Value from = rowOf(rowsOfSums, t);
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
