//===- AttentionBackward.cpp - the derivative of attention ----------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/target/cpu/AttentionBlock.h"
#include "compiler/target/cpu/MicroKernel.h"
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
      : AttentionBlock(builder, module, spec, target, /*vectorsPerBlock=*/4) {}

  Kernel emit(StringRef name);

private:
  int64_t transposedQ = 0, transposedDout = 0, weights = 0, dScores = 0,
          dotProducts = 0, dqTile = 0, copyOfK = 0, copyOfV = 0, copyOfQ = 0,
          copyOfDout = 0, sumOfDk = 0, sumOfDv = 0, dMasks = 0, dMaskRows = 0;
  Value q, k, v, out, lse, dout, dq, dk, dv, dmask;
  Value batch, queryHead;
  RowsView keysView, wholeKeys, valuesView, dkView, dvView;

  void oneHeadOfKeys(Value batchIndex, Value kvHead);
  void oneBlock(Value first);
  void dotsOfRows(RowsView x, RowsView y, int64_t columns);
  void derivative();
  void element(Value s, int64_t v, bool check, Value keep);
  void zero(RowsView rows, int64_t columns);
  void copy(RowsView from, RowsView to, Value rows, int64_t columns);
  void addToMask();
  /// Where gradient rows are summed: in the result itself where it is of f32
  /// and whole vectors fit its rows, else in scratch.
  RowsView sumView(RowsView result, int64_t columns, int64_t offset) {
    if (copyWidth(columns) == 0)
      return result;
    return {at(offset), kb.i64(copyWidth(columns))};
  }
  Value elementAt(int64_t offset, Value s, int64_t v) {
    return kb.at(kb.at(at(offset), kb.mul(s, block)), v * kb.lanes);
  }
};

} // namespace

Kernel AttentionBackward::emit(StringRef name) {
  if (!valid) {
    module.emitError() << "the operands of attention's derivative '" << name
                       << "' have strides that its kernel cannot read";
    return {};
  }
  int64_t rows = llvm::alignTo(keys, spec.dropout ? 64 : 1);
  transposedQ = reserve(llvm::alignTo(d, kb.lanes) * block);
  transposedDout = reserve(llvm::alignTo(e, kb.lanes) * block);
  weights = reserve(rows * block);
  dScores = reserve(rows * block);
  dotProducts = reserve(block);
  dqTile = reserve(block * llvm::alignTo(d, kb.lanes));
  copyOfK = reserve(keys * copyWidth(d));
  copyOfV = reserve(keys * widenedWidth(e));
  copyOfQ = reserve(block * copyWidth(d));
  copyOfDout = reserve(block * copyWidth(e));
  sumOfDk = reserve(keys * copyWidth(d));
  sumOfDv = reserve(keys * copyWidth(e));
  if (spec.dmask) {
    dMasks = reserve(llvm::alignTo(rows, kb.lanes) * block);
    dMaskRows = reserve(block * (keys + kb.lanes) + kb.lanes);
  }
  SmallVector<Type> buffers{spec.q,   spec.k,   spec.v,
                            spec.out, spec.lse, spec.dout};
  if (spec.mask)
    buffers.push_back(spec.mask);
  buffers.append({spec.dq, spec.dk, spec.dv});
  if (spec.dmask)
    buffers.push_back(spec.dmask);
  OpBuilder::InsertionGuard guard(kb.b);
  func::FuncOp func = begin(name, buffers);
  Value *places[] = {&q, &k, &v, &out, &lse, &dout};
  unsigned next = 0;
  for (Value *place : places)
    *place = buffer(next++);
  if (spec.mask)
    maskPtr = buffer(next++);
  for (Value *place : {&dq, &dk, &dv})
    *place = buffer(next++);
  KernelArguments arguments(func);
  Value thread = kb.toI64(arguments.thread),
        threads = kb.toI64(arguments.threads);
  auto share = [&](Value thread, Value threads) {
    auto [from, to] = kb.share(kb.i64(batches * kvHeads), thread, threads);
    kb.loop(from, to, 1, [&](Value item) {
      oneHeadOfKeys(kb.div(item, kvHeads), kb.rem(item, kb.i64(kvHeads)));
    });
  };
  if (!spec.dmask) {
    share(thread, threads);
    return {func, scratchBytes()};
  }
  dmask = buffer(next++);
  kb.ifThen(kb.equal(thread, kb.i64(0)), [&] {
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
    share(kb.i64(0), kb.i64(1));
  });
  return {func, scratchBytes()};
}

void AttentionBackward::zero(RowsView rows, int64_t columns) {
  kb.loop(kb.i64(0), kb.i64(keys), 1, [&](Value row) {
    Value to = kb.at(rows.ptr, kb.mul(row, rows.stride));
    for (int64_t column = 0; column < columns; column += kb.lanes)
      kb.store(kb.splat(0.0), kb.at(to, column));
  });
}

void AttentionBackward::copy(RowsView from, RowsView to, Value rows,
                             int64_t columns) {
  kb.loop(kb.i64(0), rows, 1, [&](Value row) {
    Value source = rowOf(from, row), target = rowOf(to, row);
    for (int64_t column = 0; column < columns; column += kb.lanes)
      store(load(from, source, column), to, target, column,
            columnMask(column, columns));
  });
}

void AttentionBackward::oneHeadOfKeys(Value batchIndex, Value kvHead) {
  batch = batchIndex;
  keysView = head(k, spec.k, batch, kvHead);
  valuesView = head(v, spec.v, batch, kvHead);
  wholeKeys = readable(keysView, kb.i64(keys), d, copyOfK);
  if (narrow) {
    keysView = wholeKeys;
    valuesView = readable(valuesView, kb.i64(keys), e, copyOfV);
  }
  RowsView dkRows = head(dk, spec.dk, batch, kvHead);
  RowsView dvRows = head(dv, spec.dv, batch, kvHead);
  dkView = sumView(dkRows, d, sumOfDk);
  dvView = sumView(dvRows, e, sumOfDv);
  zero(dkView, d);
  zero(dvView, e);
  int64_t group = heads / kvHeads;
  kb.loop(kb.i64(0), kb.i64(group), 1, [&](Value member) {
    queryHead = kb.add(kb.mul(kvHead, group), member);
    kb.loop(kb.i64(0), kb.i64(queries), block,
            [&](Value first) { oneBlock(first); });
  });
  if (copyWidth(d))
    copy(dkView, dkRows, kb.i64(keys), d);
  if (copyWidth(e))
    copy(dvView, dvRows, kb.i64(keys), e);
}

/// dotProducts[query] = x[query] . y[query], over the block.
void AttentionBackward::dotsOfRows(RowsView x, RowsView y, int64_t columns) {
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

void AttentionBackward::oneBlock(Value first) {
  enterBlock(first);
  loadMask(batch, queryHead);
  RowsView queryRows = head(q, spec.q, batch, queryHead);
  RowsView doutRows = head(dout, spec.dout, batch, queryHead);
  RowsView outRows = head(out, spec.out, batch, queryHead);
  dotsOfRows(doutRows, outRows, e);
  RowsView wholeQueries = readableBlock(queryRows, d, copyOfQ);
  RowsView wholeDout = readableBlock(doutRows, e, copyOfDout);
  if (narrow) {
    queryRows = wholeQueries;
    doutRows = wholeDout;
  }
  transposeBlock(queryRows, d, at(transposedQ));
  transposeBlock(doutRows, e, at(transposedDout));
  scores(keysView, d, at(transposedQ), at(weights));
  scores(valuesView, e, at(transposedDout), at(dScores));
  derivative();

  auto ofBlock = [&](RowsView rows) {
    return RowsView{rowOf(rows, t0), rows.stride, rows.element};
  };
  accumulateKeys(at(weights), ofBlock(wholeDout), e, dvView);
  accumulateKeys(at(dScores), ofBlock(wholeQueries), d, dkView);
  Value from = panelStart(panelFrom), to = panelStart(panelTo);
  RowsView tile{at(dqTile), kb.i64(llvm::alignTo(d, kb.lanes))};
  sumOverKeys(at(dScores), wholeKeys, d, from, kb.sub(to, from), tile);
  copy(tile, ofBlock(head(dq, spec.dq, batch, queryHead)), blockQueries, d);
  if (spec.dmask)
    addToMask();
}

/// For every pair of the block: from the raw score and the cotangent of the
/// weight after dropout to the weight after dropout and the cotangent of the
/// raw score.
void AttentionBackward::derivative() {
  Value from = panelStart(panelFrom), to = panelStart(panelTo);
  if (spec.dropout) {
    overKeysWithDropout(batch, queryHead, [&](Value s, ArrayRef<Value> keep) {
      for (int64_t v = 0; v < blockVectors(); ++v)
        element(s, v, hides(), keep[v]);
    });
    // Panels may begin before and end after the keys that a query sees.
    auto clear = [&](Value from, Value to) {
      kb.loop(from, to, 1, [&](Value s) {
        for (int64_t v = 0; v < blockVectors(); ++v)
          for (int64_t part : {weights, dScores})
            kb.store(kb.splat(0.0), elementAt(part, s, v));
      });
    };
    clear(from, keyFrom);
    clear(keyTo, to);
    return;
  }
  SmallVector<Value> none;
  overKeys(
      from, to, {},
      [&](Value s, ValueRange, bool check) {
        for (int64_t v = 0; v < blockVectors(); ++v)
          element(s, v, check, Value());
        return SmallVector<Value>();
      },
      none);
}

void AttentionBackward::element(Value s, int64_t v, bool check, Value keep) {
  Value cap = capped(kb.load(elementAt(weights, s, v)));
  Value score = masked(cap, s, v, check);
  // Read here and not before the loop: registers are scarce, the cache is not.
  Value inBlock = kb.maskOf(kb.sub(blockQueries, kb.i64(v * kb.lanes)));
  SmallVector<int64_t> strides;
  int64_t offset = 0;
  (void)spec.lse.getStridesAndOffset(strides, offset);
  Value row =
      kb.add(kb.add(kb.mul(batch, strides[0]), kb.mul(queryHead, strides[1])),
             kb.add(t0, v * kb.lanes));
  Value logSum = kb.load(kb.at(lse, row), inBlock);
  // Minus infinity where a query sees no key; then no weight is more than 0.
  logSum = kb.maxf(logSum, kb.splat(-1e30));
  Value weight = math::ExpOp::create(kb.b, kb.loc, kb.subf(score, logSum));
  Value dWeight = kb.load(elementAt(dScores, s, v));
  Value kept = weight;
  if (keep) {
    Value factor = kb.splat(1.0 / (1.0 - *spec.dropout));
    kept = kb.select(keep, kb.mulf(weight, factor), kb.splat(0.0));
    dWeight = kb.select(keep, kb.mulf(dWeight, factor), kb.splat(0.0));
  }
  kb.store(kept, elementAt(weights, s, v));
  Value dot = kb.load(kb.at(at(dotProducts), v * kb.lanes));
  Value dScore = kb.mulf(weight, kb.subf(dWeight, dot));
  if (spec.dmask)
    kb.store(dScore, elementAt(dMasks, s, v));
  if (spec.softcap) {
    Value ratio = kb.mulf(cap, kb.splat(1.0 / *spec.softcap));
    dScore = kb.mulf(dScore, kb.subf(kb.splat(1.0), kb.mulf(ratio, ratio)));
  }
  kb.store(kb.mulf(dScore, kb.splat(spec.scale)), elementAt(dScores, s, v));
}

/// dmask[query, key] += the block's cotangents of scores, in the mask's layout.
void AttentionBackward::addToMask() {
  int64_t stride = keys + kb.lanes;
  kb.loop(keyFrom, keyTo, kb.lanes, [&](Value s) {
    Value rows = kb.min(kb.i64(kb.lanes), kb.sub(keyTo, s));
    kb.call(packTransposed(kb),
            {kb.at(at(dMasks), kb.mul(s, block)), kb.i64(block), kb.i64(block),
             rows, kb.at(at(dMaskRows), s), kb.i64(stride)});
  });
  ArrayRef<int64_t> shape = spec.dmask.getShape();
  RowsView target = head(dmask, spec.dmask, shape[0] > 1 ? batch : kb.i64(0),
                         shape[1] > 1 ? queryHead : kb.i64(0));
  kb.loop(kb.i64(0), blockQueries, 1, [&](Value t) {
    kb.loop(keyFrom, keyTo, kb.lanes, [&](Value s) {
      Value mask = kb.maskOf(kb.sub(keyTo, s));
      Value to =
          kb.at(kb.at(target.ptr, kb.mul(kb.add(t0, t), target.stride)), s);
      Value from = kb.at(kb.at(at(dMaskRows), kb.mul(t, stride)), s);
      kb.store(kb.addf(kb.load(to, mask), kb.load(from)), to, mask);
    });
  });
}

Kernel tfm::emitAttentionBackward(OpBuilder &builder, ModuleOp module,
                                  StringRef name, const AttentionSpec &spec,
                                  const CpuMachine &target) {
  return AttentionBackward(builder, module, spec, target).emit(name);
}
