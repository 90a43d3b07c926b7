//===- AttentionBackward.cpp - the derivative of attention ----------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/target/cpu/AttentionPanels.h"
#include "compiler/target/cpu/CpuMachine.h"
#include "compiler/target/cpu/Packing.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace tfm;

namespace {

class AttentionBackward : AttentionBlock {
public:
  /// Larger blocks than forward: the products over queries need depth.
  AttentionBackward(OpBuilder &builder, ModuleOp module,
                    const AttentionSpec &spec, const CpuMachine &target)
      : AttentionBlock(builder, module, spec, target, /*vectorsPerBlock=*/4,
                       scoreBytes(spec, target)) {}

  Kernel emit(StringRef name);

private:
  /// Panels keep scores of two of them alone: blocks of keys are as large as
  /// sums for dk and dv leave room for in the second-level cache.
  static int64_t scoreBytes(const AttentionSpec &spec,
                            const CpuMachine &target) {
    bool inPanels =
        termsOfAttention(spec, target) != Terms::F32 && !spec.dropout;
    return (inPanels ? 128 : 64) << 10;
  }
  int64_t transposedQ = 0, transposedDout = 0, weights = 0, dScores = 0,
          dotProducts = 0, shifts = 0, dqTile = 0, copyOfK = 0, copyOfV = 0,
          termsOfQ = 0, termsOfDout = 0, weightsForSums = 0, dScoresForSums = 0,
          dScoresForKeys = 0, dqRowsOfBlock = 0, sumOfDk = 0, sumOfDv = 0,
          sumOfDq = 0, dMasks = 0, dMaskRows = 0;
  Value q, k, v, out, lse, dout, dq, dk, dv, dmask, biases, ddistance;
  Value batch, kvHead, member, queryHead;
  /// Of the block of keys, from `k0` on.
  AttentionProducts::Keys keysView;
  RowsView valuesView, dkView, dvView;

  int64_t group() const { return heads / kvHeads; }
  /// Query heads whose dq is summed in scratch, over the blocks of keys.
  int64_t summedHeads() const {
    return keyBlocks > 1 && sumsApart(d, spec.dq) ? group() : 0;
  }
  void oneHeadOfKeys();
  void oneBlock();
  void dotsOfRows(RowsView x, RowsView y, int64_t columns);
  void shiftsOfBlock();
  void derivative();
  /// Of a pair of query and key: the weight after dropout, and the cotangent of
  /// the raw score.
  struct Element {
    Value weight, dScore;
  };
  /// `sees`, where it is not null: which queries see the key.
  Element elementOf(Value raw, Value dWeight, Value s, int64_t v, Value sees,
                    Value keep);
  void element(Value s, int64_t v, bool check, Value keep);
  void panelByPanel(RowsView queryTerms, RowsView doutTerms);
  /// The same where no query of vector `v` sees key `s`.
  void hide(Value s, int64_t v) {
    for (int64_t part : {weights, dScores})
      kb.store(kb.splat(0.0), elementAt(part, s, v));
    if (keepsDScores())
      kb.store(kb.splat(0.0), elementAt(dMasks, s, v));
  }
  /// Whether the cotangents of scores are kept for the end of a block.
  bool keepsDScores() const { return spec.dmask || spec.ddistance; }
  void reserveScratch();
  /// What a thread computes: all that is added to rows of keys has one owner.
  void shareOf(Value thread, Value threads);
  void clearMaskGradient();
  void clearDistanceGradient();
  void zero(RowsView rows, Value count, int64_t columns);
  void copy(RowsView from, RowsView to, Value rows, int64_t columns,
            bool add = false);
  void addToMask();
  void addToDistances();
  /// Whether gradient rows are summed in scratch, and not in the result itself:
  /// where it is not of f32, or vectors do not fit its rows.
  bool sumsApart(int64_t columns, MemRefType result) const {
    return columns % kb.lanes != 0 || result.getElementType().isBF16();
  }
  /// Elements of a row of dk or dv that is summed in scratch, 0 where the
  /// result itself has the sums.
  int64_t sumsWidth(int64_t columns) const {
    return columns % kb.lanes == 0 && !copies
               ? 0
               : llvm::alignTo(columns, kb.lanes);
  }
  /// The rows of dq of the current head.
  RowsView dqRows() { return head(dq, spec.dq, batch, queryHead); }
  /// The rows that those are summed in.
  RowsView dqSums() {
    if (!summedHeads())
      return dqRows();
    int64_t width = llvm::alignTo(d, kb.lanes);
    return {kb.at(at(sumOfDq), kb.mul(member, queries * width)), kb.i64(width)};
  }
  void overMembers(function_ref<void()> run) {
    kb.loop(kb.i64(0), kb.i64(group()), 1, [&](Value i) {
      member = i;
      queryHead = kb.add(kb.mul(kvHead, group()), member);
      if (biases)
        distances = distancesOf(biases, spec.distanceBias, queryHead);
      run();
    });
  }
  using AttentionBlock::elementAt;
  Value elementAt(int64_t offset, Value s, int64_t v) {
    return kb.at(scoreRow(offset, s), v * kb.lanes);
  }
};

} // namespace

Kernel AttentionBackward::emit(StringRef name) {
  if (!valid) {
    module.emitError() << "the operands of attention's derivative '" << name
                       << "' have strides that its kernel cannot read";
    return {};
  }
  reserveScratch();
  OpBuilder::InsertionGuard guard(kb.b);
  func::FuncOp func = begin(name, {{spec.q, &q},
                                   {spec.k, &k},
                                   {spec.v, &v},
                                   {spec.out, &out},
                                   {spec.lse, &lse},
                                   {spec.dout, &dout},
                                   {spec.mask, &maskPtr},
                                   {spec.distanceBias, &biases},
                                   {spec.dq, &dq},
                                   {spec.dk, &dk},
                                   {spec.dv, &dv},
                                   {spec.dmask, &dmask},
                                   {spec.ddistance, &ddistance}});
  KernelArguments arguments(func);
  Value thread = kb.toI64(arguments.thread),
        threads = kb.toI64(arguments.threads);
  // The gradient of a mask has one owner.
  if (spec.dmask)
    kb.ifThen(kb.equal(thread, kb.i64(0)), [&] {
      clearMaskGradient();
      shareOf(kb.i64(0), kb.i64(1));
    });
  else
    shareOf(thread, threads);
  return {func, scratchBytes()};
}

void AttentionBackward::reserveScratch() {
  int64_t rows = scoreRows();
  transposedQ = reserve(products->queriesLength(d));
  transposedDout = reserve(products->queriesLength(e));
  weights = reserve(rows * block);
  dScores = reserve(rows * block);
  weightsForSums = reserve(products->weightsOverQueriesLength());
  dScoresForSums = reserve(products->weightsOverQueriesLength());
  dScoresForKeys = reserve(products->weightsLength());
  dotProducts = reserve(block);
  dqTile = reserve(products->sumsLength(d));
  dqRowsOfBlock = reserve(products->rowsLength(d));
  shifts = reserve(block);
  copyOfK = reserve(products->keysLength(d, AttentionProducts::asBoth));
  copyOfV = reserve(products->keysLength(e, AttentionProducts::asFactor));
  termsOfQ = reserve(products->queryTermsLength(d));
  termsOfDout = reserve(products->queryTermsLength(e));
  int64_t summedKeys = keyPanels * keyRows;
  sumOfDk = reserve(summedKeys * sumsWidth(d));
  sumOfDv = reserve(summedKeys * sumsWidth(e));
  sumOfDq = reserve(summedHeads() * queries * llvm::alignTo(d, kb.lanes));
  if (keepsDScores())
    dMasks = reserve(
        llvm::alignTo(std::max(rows, keyPanels * keyRows), kb.lanes) * block);
  if (spec.dmask)
    dMaskRows = reserve(block * (keyBlock + kb.lanes) + kb.lanes);
}

void AttentionBackward::shareOf(Value thread, Value threads) {
  // What sequences add to the biases of a head has one owner, too.
  if (spec.ddistance) {
    auto [from, to] = kb.share(kb.i64(kvHeads), thread, threads);
    kb.loop(from, to, 1, [&](Value item) {
      kvHead = item;
      overMembers([&] { clearDistanceGradient(); });
      kb.loop(kb.i64(0), kb.i64(batches), 1, [&](Value b) {
        batch = b;
        oneHeadOfKeys();
      });
    });
    return;
  }
  auto [from, to] = kb.share(kb.i64(batches * kvHeads), thread, threads);
  kb.loop(from, to, 1, [&](Value item) {
    batch = kb.div(item, kvHeads);
    kvHead = kb.rem(item, kb.i64(kvHeads));
    oneHeadOfKeys();
  });
}

void AttentionBackward::clearDistanceGradient() {
  RowsView row = distancesOf(ddistance, spec.ddistance, queryHead);
  kb.loop(kb.i64(0), kb.i64(spec.distances()), kb.lanes, [&](Value i) {
    kb.store(kb.splat(0.0), kb.at(row.ptr, i),
             kb.maskOf(kb.sub(kb.i64(spec.distances()), i)));
  });
}

void AttentionBackward::clearMaskGradient() {
  ArrayRef<int64_t> shape = spec.dmask.getShape();
  kb.loop(kb.i64(0), kb.i64(shape[0]), 1, [&](Value b) {
    kb.loop(kb.i64(0), kb.i64(shape[1]), 1, [&](Value h) {
      RowsView rows = head(dmask, spec.dmask, b, h);
      kb.loop(kb.i64(0), kb.i64(queries), 1, [&](Value t) {
        kb.loop(kb.i64(0), kb.i64(keys), kb.lanes, [&](Value s) {
          kb.store(kb.splat(0.0),
                   kb.at(kb.at(rows.ptr, kb.mul(t, rows.stride)), s),
                   kb.maskOf(kb.sub(kb.i64(keys), s)));
        });
      });
    });
  });
}

void AttentionBackward::zero(RowsView rows, Value count, int64_t columns) {
  kb.loop(kb.i64(0), count, 1, [&](Value row) {
    Value to = rowOf(rows, row);
    for (int64_t column = 0; column < columns; column += kb.lanes)
      kb.store(kb.splat(0.0), kb.at(to, column));
  });
}

void AttentionBackward::copy(RowsView from, RowsView to, Value rows,
                             int64_t columns, bool add) {
  kb.loop(kb.i64(0), rows, 1, [&](Value row) {
    Value source = rowOf(from, row), target = rowOf(to, row);
    for (int64_t column = 0; column < columns; column += kb.lanes) {
      Value x = load(from, source, column);
      if (add)
        x = kb.addf(load(to, target, column), x);
      store(x, to, target, column, columnMask(column, columns));
    }
  });
}

void AttentionBackward::oneHeadOfKeys() {
  if (keyBlocks > 1)
    overMembers([&] { zero(dqSums(), kb.i64(queries), d); });
  kb.loop(kb.i64(0), kb.i64(keys), keyBlock, [&](Value firstKey) {
    enterKeys(firstKey);
    keysView = products->takeKeys(head(k, spec.k, batch, kvHead), blockKeys, d,
                                  AttentionProducts::asBoth, copyOfK);
    valuesView = products
                     ->takeKeys(head(v, spec.v, batch, kvHead), blockKeys, e,
                                AttentionProducts::asFactor, copyOfV)
                     .factor;
    auto sums = [&](Value ptr, MemRefType type, int64_t columns,
                    int64_t offset) {
      RowsView rows = head(ptr, type, batch, kvHead);
      rows.ptr = rowOf(rows, k0);
      RowsView apart{at(offset), kb.i64(sumsWidth(columns))};
      return std::pair(rows, sumsWidth(columns) ? apart : rows);
    };
    auto [dkRows, dkSums] = sums(dk, spec.dk, d, sumOfDk);
    auto [dvRows, dvSums] = sums(dv, spec.dv, e, sumOfDv);
    dkView = dkSums;
    dvView = dvSums;
    zero(dkView, blockKeys, d);
    zero(dvView, blockKeys, e);
    overMembers([&] {
      // The first block of queries that sees one of the keys.
      Value first = kb.i64(0);
      if (spec.causal && keyBlocks > 1)
        first = kb.mul(kb.div(kb.min(k0, kb.i64(queries)), block), block);
      kb.loop(first, kb.i64(queries), block, [&](Value t) {
        enterBlock(t);
        if (keyBlocks == 1)
          return oneBlock();
        kb.ifThen(kb.less(keyFrom, keyTo), [&] { oneBlock(); });
      });
    });
    if (sumsWidth(d))
      copy(dkView, dkRows, blockKeys, d);
    if (sumsWidth(e))
      copy(dvView, dvRows, blockKeys, e);
  });
  if (summedHeads())
    overMembers([&] { copy(dqSums(), dqRows(), kb.i64(queries), d); });
}

/// dotProducts[query] = x[query] . y[query], over the block, and 0 behind it.
void AttentionBackward::dotsOfRows(RowsView x, RowsView y, int64_t columns) {
  for (int64_t v = 0; v < blockVectors(); ++v)
    kb.store(kb.splat(0.0), kb.at(at(dotProducts), v * kb.lanes));
  kb.loop(kb.i64(0), blockQueries, 1, [&](Value t) {
    Value row = kb.add(t0, t);
    Value xRow = rowOf(x, row), yRow = rowOf(y, row);
    Value sum = kb.splat(0.0);
    for (int64_t column = 0; column < columns; column += kb.lanes) {
      Value mask = columnMask(column, columns);
      sum =
          kb.fma(load(x, xRow, column, mask), load(y, yRow, column, mask), sum);
    }
    Value dot = vector::ReductionOp::create(kb.b, kb.loc,
                                            vector::CombiningKind::ADD, sum);
    kb.storeScalar(dot, kb.at(at(dotProducts), t));
  });
}

void AttentionBackward::oneBlock() {
  loadMask(batch, queryHead);
  RowsView queryRows = head(q, spec.q, batch, queryHead);
  RowsView doutRows = head(dout, spec.dout, batch, queryHead);
  RowsView outRows = head(out, spec.out, batch, queryHead);
  dotsOfRows(doutRows, outRows, e);
  products->takeQueries(queryRows, d, at(transposedQ));
  products->takeQueries(doutRows, e, at(transposedDout));
  RowsView doutTerms = products->takeQueryTerms(doutRows, e, termsOfDout),
           queryTerms = products->takeQueryTerms(queryRows, d, termsOfQ);
  shiftsOfBlock();
  if (inPanels()) {
    panelByPanel(queryTerms, doutTerms);
  } else {
    products->scores(keysView.factor, d, at(transposedQ), at(weights));
    products->scores(valuesView, e, at(transposedDout), at(dScores));
    derivative();
    products->sumOverQueries(
        products->takeWeightsOverQueries(at(weights), weightsForSums),
        doutTerms, e, dvView);
    products->sumOverQueries(
        products->takeWeightsOverQueries(at(dScores), dScoresForSums),
        queryTerms, d, dkView);
    products->sumOverKeys(products->takeWeights(at(dScores), dScoresForKeys),
                          keysView.terms, d, at(dqTile),
                          /*accumulate=*/false);
  }
  RowsView tile = products->rowsOfSums(at(dqTile), d, dqRowsOfBlock);
  RowsView sums = dqSums();
  copy(tile, {rowOf(sums, t0), sums.stride, sums.element}, blockQueries, d,
       /*add=*/keyBlocks > 1);
  if (spec.dmask)
    addToMask();
  if (spec.ddistance)
    addToDistances();
}

/// For every pair of the block: from the raw score and the cotangent of the
/// weight after dropout to the weight after dropout and the cotangent of the
/// raw score.
void AttentionBackward::derivative() {
  Value from = kb.add(k0, panelStart(panelFrom)),
        panelEnd = kb.add(k0, panelStart(panelTo)),
        to = kb.min(panelEnd, kb.add(k0, blockKeys));
  // Panels may begin before and end after the keys that a query sees.
  auto clear = [&](Value from, Value to) {
    kb.loop(from, to, 1, [&](Value s) {
      for (int64_t v = 0; v < blockVectors(); ++v)
        hide(s, v);
    });
  };
  if (spec.dropout) {
    overKeysWithDropout(batch, queryHead, [&](Value s, ArrayRef<Value> keep) {
      for (int64_t v = 0; v < blockVectors(); ++v)
        element(s, v, hides(), keep[v]);
    });
    clear(from, keyFrom);
    clear(keyTo, panelEnd);
    return;
  }
  SmallVector<Value> none;
  overKeys(
      from, to, {},
      [&](Value s, ValueRange, bool check) {
        for (int64_t v = 0; v < blockVectors(); ++v) {
          if (!check || !spec.causal) {
            element(s, v, check, Value());
            continue;
          }
          kb.ifThen(
              kb.less(s, kb.add(t0, (v + 1) * kb.lanes)),
              [&] { element(s, v, check, Value()); }, [&] { hide(s, v); });
        }
        return SmallVector<Value>();
      },
      none);
  clear(to, panelEnd);
}

/// What is added to scores, in powers of two, so that weights sum up to 1. Past
/// the last query they are 0.
void AttentionBackward::shiftsOfBlock() {
  SmallVector<int64_t> strides;
  int64_t offset = 0;
  (void)spec.lse.getStridesAndOffset(strides, offset);
  Value head = kb.add(kb.mul(batch, strides[0]), kb.mul(queryHead, strides[1]));
  for (int64_t v = 0; v < blockVectors(); ++v) {
    Value inBlock = kb.maskOf(kb.sub(blockQueries, kb.i64(v * kb.lanes)));
    Value logSum =
        kb.load(kb.at(lse, kb.add(head, kb.add(t0, v * kb.lanes))), inBlock);
    // Minus infinity where a query sees no key; then no weight is more than 0.
    logSum =
        kb.select(inBlock, kb.maxf(logSum, kb.splat(-1e30)), kb.splat(1e30));
    kb.store(kb.mulf(logSum, kb.splat(-log2e)),
             kb.at(at(shifts), v * kb.lanes));
  }
}

AttentionBackward::Element AttentionBackward::elementOf(Value raw,
                                                        Value dWeight, Value s,
                                                        int64_t v, Value sees,
                                                        Value keep) {
  Value cap, score = raw;
  bool plain = spec.addsNothing();
  if (!plain) {
    cap = capped(raw);
    score = masked(cap, s, v, false);
  }
  // Read here and not before the loop: registers are scarce, the cache is not.
  Value shift = kb.load(kb.at(at(shifts), v * kb.lanes));
  Value weight = powerOfTwo(
      kb.fma(score, kb.splat(plain ? spec.scale * log2e : log2e), shift));
  auto seen = [&](Value x) {
    return sees ? kb.select(sees, x, kb.splat(0.0)) : x;
  };
  weight = seen(weight);
  Value kept = weight;
  if (keep) {
    Value factor = kb.splat(1.0 / (1.0 - *spec.dropout));
    kept = kb.select(keep, kb.mulf(weight, factor), kb.splat(0.0));
    dWeight = kb.select(keep, kb.mulf(dWeight, factor), kb.splat(0.0));
  }
  Value dot = kb.load(kb.at(at(dotProducts), v * kb.lanes));
  // Where nobody sees, no product has written.
  Value dScore = seen(kb.mulf(weight, kb.subf(dWeight, dot)));
  if (keepsDScores())
    kb.store(dScore, elementAt(dMasks, s, v));
  if (spec.softcap) {
    Value ratio = kb.mulf(cap, kb.splat(1.0 / *spec.softcap));
    dScore =
        seen(kb.mulf(dScore, kb.subf(kb.splat(1.0), kb.mulf(ratio, ratio))));
  }
  return {kept, kb.mulf(dScore, kb.splat(spec.scale))};
}

void AttentionBackward::element(Value s, int64_t v, bool check, Value keep) {
  auto [weight, dScore] = elementOf(kb.load(elementAt(weights, s, v)),
                                    kb.load(elementAt(dScores, s, v)), s, v,
                                    check ? visible(s, v) : Value(), keep);
  kb.store(weight, elementAt(weights, s, v));
  kb.store(dScore, elementAt(dScores, s, v));
}

/// The same in panels: on tiles, products of the next one are made while
/// vectors compute those of one.
void AttentionBackward::panelByPanel(RowsView queryTerms, RowsView doutTerms) {
  auto multiply = [&](Value panel) {
    panels->scoresOfPanel(panel, keysView.factor, d, at(transposedQ),
                          ofPanel(weights, panel));
    panels->scoresOfPanel(panel, valuesView, e, at(transposedDout),
                          ofPanel(dScores, panel));
  };
  multiply(panelFrom);
  kb.loop(panelFrom, panelTo, 1, [&](Value panel) {
    Value next = kb.add(panel, 1), start = panelStart(panel);
    kb.ifThen(kb.less(next, panelTo), [&] { multiply(next); });
    Value raw = ofPanel(weights, panel), dWeights = ofPanel(dScores, panel);
    auto elements = [&](int64_t step, bool check) {
      kb.loop(kb.i64(0), kb.i64(keyRows), 2, [&](Value pair) {
        Element all[2][2];
        for (int64_t i : {0, 1}) {
          Value row = kb.add(pair, i), s = kb.add(k0, kb.add(start, row));
          for (int64_t half : {0, 1}) {
            int64_t v = 2 * step + half;
            all[i][half] = elementOf(kb.load(elementAt(raw, row, v)),
                                     kb.load(elementAt(dWeights, row, v)), s, v,
                                     check ? seen(s, v) : Value(), Value());
          }
          panels->storeWeightsOverQueries(all[i][0].weight, all[i][1].weight,
                                          at(weightsForSums), row, step);
          panels->storeWeightsOverQueries(all[i][0].dScore, all[i][1].dScore,
                                          at(dScoresForSums), row, step);
        }
        for (int64_t half : {0, 1})
          panels->storeWeights(all[0][half].dScore, all[1][half].dScore,
                               at(dScoresForKeys), kb.add(start, pair),
                               2 * step + half);
      });
    };
    Value first = firstQuery(start);
    overPanel(panel, [&](bool check) {
      // Products leave out queries that see no key, and such as are not there.
      for (int64_t step = 0; step < block / tileDepth; ++step) {
        auto ofStep = [&] { elements(step, check); };
        auto unlessPast = [&](function_ref<void()> run) {
          if (step == 0 || queries % tileDepth == 0 || keepsDScores())
            return run();
          kb.ifThen(kb.less(kb.i64(step * tileDepth), blockQueries), run);
        };
        unlessPast([&] {
          if (check && spec.causal && !keepsDScores())
            kb.ifThen(kb.less(first, kb.i64((step + 1) * tileDepth)), ofStep);
          else
            ofStep();
        });
      }
    });
    panels->sumPanelOverQueries(panel, at(weightsForSums), doutTerms, e,
                                dvView);
    panels->sumPanelOverQueries(panel, at(dScoresForSums), queryTerms, d,
                                dkView);
  });
  panels->sumOverKeys(at(dScoresForKeys), keysView.terms, d, at(dqTile),
                      /*accumulate=*/false);
}

/// dmask[query, key] += the block's cotangents of scores, in the mask's layout.
void AttentionBackward::addToMask() {
  int64_t stride = keyBlock + kb.lanes;
  kb.loop(keyFrom, keyTo, kb.lanes, [&](Value s) {
    Value rows = kb.min(kb.i64(kb.lanes), kb.sub(keyTo, s));
    kb.call(packTransposed(kb),
            {scoreRow(dMasks, s), kb.i64(block), kb.i64(block), rows,
             kb.at(at(dMaskRows), kb.sub(s, k0)), kb.i64(stride)});
  });
  ArrayRef<int64_t> shape = spec.dmask.getShape();
  RowsView target = head(dmask, spec.dmask, shape[0] > 1 ? batch : kb.i64(0),
                         shape[1] > 1 ? queryHead : kb.i64(0));
  kb.loop(kb.i64(0), blockQueries, 1, [&](Value t) {
    kb.loop(keyFrom, keyTo, kb.lanes, [&](Value s) {
      Value mask = kb.maskOf(kb.sub(keyTo, s));
      Value to =
          kb.at(kb.at(target.ptr, kb.mul(kb.add(t0, t), target.stride)), s);
      Value from =
          kb.at(kb.at(at(dMaskRows), kb.mul(t, stride)), kb.sub(s, k0));
      kb.store(kb.addf(kb.load(to, mask), kb.load(from)), to, mask);
    });
  });
}

/// ddistance[distance] += the block's cotangents of scores.
void AttentionBackward::addToDistances() {
  RowsView sums = distancesOf(ddistance, spec.ddistance, queryHead);
  kb.loop(keyFrom, keyTo, 1, [&](Value s) {
    for (int64_t v = 0; v < blockVectors(); ++v) {
      Value column = columnOf(s, v);
      Value queries = kb.sub(blockQueries, kb.i64(v * kb.lanes));
      Value mask = kb.within(
          column, kb.min(kb.i64(spec.distances()), kb.add(column, queries)));
      Value to = kb.at(sums.ptr, column);
      kb.store(kb.addf(kb.load(to, mask), kb.load(elementAt(dMasks, s, v))), to,
               mask);
    }
  });
}

Kernel tfm::emitAttentionBackward(OpBuilder &builder, ModuleOp module,
                                  StringRef name, const AttentionSpec &spec,
                                  const CpuMachine &target) {
  return AttentionBackward(builder, module, spec, target).emit(name);
}
