//===- AttentionForward.cpp - scaled dot-product attention ----------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/target/cpu/AttentionBlock.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/MathExtras.h"
#include <limits>

using namespace mlir;
using namespace tfm;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
/// Stands for the largest score of a query that sees no key: finite, so that
/// differences to it are not NaN.
constexpr double noScore = -1e30;

class AttentionForward : AttentionBlock {
public:
  AttentionForward(OpBuilder &builder, ModuleOp module,
                   const AttentionSpec &spec, const CpuMachine &target)
      : AttentionBlock(builder, module, spec, target, /*vectorsPerBlock=*/2) {}

  Kernel emit(StringRef name) {
    if (!valid) {
      module.emitError() << "the operands of attention '" << name
                         << "' have strides that its kernel cannot read";
      return {};
    }
    int64_t d16 = llvm::alignTo(d, kb.lanes);
    outWidth = llvm::alignTo(e, kb.lanes);
    transposedQ = reserve(d16 * block);
    weights = reserve(llvm::alignTo(keys, spec.dropout ? 64 : 1) * block);
    inverse = reserve(block);
    outTile = reserve(block * outWidth);
    copyOfV = reserve(keys * copyWidth(e));
    copyOfK = reserve(keys * widenedWidth(d));
    copyOfQ = reserve(block * widenedWidth(d));
    SmallVector<Type> buffers{spec.q, spec.k, spec.v};
    if (spec.mask)
      buffers.push_back(spec.mask);
    buffers.push_back(spec.out);
    buffers.push_back(spec.lse);
    OpBuilder::InsertionGuard guard(kb.b);
    func::FuncOp func = begin(name, buffers);
    q = buffer(0);
    k = buffer(1);
    v = buffer(2);
    if (spec.mask)
      maskPtr = buffer(3);
    out = buffer(buffers.size() - 2);
    lse = buffer(buffers.size() - 1);

    KernelArguments arguments(func);
    // Where values are copied, a head has one owner; else its blocks may have
    // several.
    bool shareBlocks = copyWidth(e) == 0;
    int64_t items = batches * heads * (shareBlocks ? blocks : 1);
    auto [from, to] = kb.share(kb.i64(items), kb.toI64(arguments.thread),
                               kb.toI64(arguments.threads));
    kb.loop(from, to, 1, [&](Value item) {
      Value pair = shareBlocks ? kb.div(item, blocks) : item;
      batch = kb.div(pair, heads);
      queryHead = kb.rem(pair, kb.i64(heads));
      Value kvHead = kb.div(queryHead, heads / kvHeads);
      keysView = head(k, spec.k, batch, kvHead);
      if (narrow)
        keysView = readable(keysView, kb.i64(keys), d, copyOfK);
      valuesView =
          readable(head(v, spec.v, batch, kvHead), kb.i64(keys), e, copyOfV);
      if (shareBlocks)
        oneBlock(kb.mul(kb.rem(item, kb.i64(blocks)), block));
      else
        kb.loop(kb.i64(0), kb.i64(queries), block,
                [&](Value first) { oneBlock(first); });
    });
    return {func, scratchBytes()};
  }

private:
  int64_t outWidth = 0, transposedQ = 0, weights = 0, inverse = 0, outTile = 0,
          copyOfV = 0, copyOfK = 0, copyOfQ = 0;
  Value q, k, v, out, lse, batch, queryHead;
  RowsView keysView, valuesView;

  Value weightAt(Value s, int64_t v) {
    return kb.at(kb.at(at(weights), kb.mul(s, block)), v * kb.lanes);
  }

  void oneBlock(Value first) {
    enterBlock(first);
    loadMask(batch, queryHead);
    RowsView queryRows = head(q, spec.q, batch, queryHead);
    if (narrow)
      queryRows = readableBlock(queryRows, d, copyOfQ);
    transposeBlock(queryRows, d, at(transposedQ));
    scores(keysView, d, at(transposedQ), at(weights));
    softmax();
    if (spec.dropout)
      overKeysWithDropout(batch, queryHead, [&](Value s, ArrayRef<Value> keep) {
        for (int64_t v = 0; v < blockVectors(); ++v)
          kb.store(kb.select(keep[v], kb.load(weightAt(s, v)), kb.splat(0.0)),
                   weightAt(s, v));
      });
    RowsView tile{at(outTile), kb.i64(outWidth)};
    sumOverKeys(at(weights), valuesView, e, keyFrom, kb.sub(keyTo, keyFrom),
                tile);
    RowsView rows = head(out, spec.out, batch, queryHead);
    kb.loop(kb.i64(0), blockQueries, 1, [&](Value t) {
      Value factor = kb.splat(kb.loadScalar(kb.at(at(inverse), t)));
      Value from = kb.at(tile.ptr, kb.mul(t, outWidth));
      Value to = rowOf(rows, kb.add(t0, t));
      for (int64_t column = 0; column < e; column += kb.lanes)
        store(kb.mulf(kb.load(kb.at(from, column)), factor), rows, to, column,
              columnMask(column, e));
    });
  }

  /// Weights, not yet divided by their sum, from raw scores; the sums' inverses
  /// and the lse.
  void softmax() {
    int64_t vectors = blockVectors();
    // With nothing between product and softmax but a positive scale, the
    // largest score is that of the largest product.
    bool plain = !spec.softcap && !spec.mask && spec.scale > 0;
    SmallVector<Value> largest(vectors, kb.splat(noScore)), sums;
    overKeys(
        keyFrom, keyTo, largest,
        [&](Value s, ValueRange carried, bool check) {
          SmallVector<Value> next;
          for (int64_t v = 0; v < vectors; ++v) {
            Value score = kb.load(weightAt(s, v));
            if (plain) {
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
    SmallVector<Value> shift;
    for (Value &value : largest) {
      if (plain)
        value = kb.mulf(value, kb.splat(spec.scale));
      shift.push_back(kb.subf(kb.splat(0.0), value));
    }
    sums.assign(vectors, kb.splat(0.0));
    overKeys(
        keyFrom, keyTo, sums,
        [&](Value s, ValueRange carried, bool check) {
          SmallVector<Value> next;
          for (int64_t v = 0; v < vectors; ++v) {
            Value score = kb.load(weightAt(s, v));
            if (plain)
              score = kb.fma(score, kb.splat(spec.scale), shift[v]);
            else
              score = kb.addf(score, shift[v]);
            Value weight = math::ExpOp::create(kb.b, kb.loc, score);
            if (plain && check)
              weight = kb.select(visible(s, v), weight, kb.splat(0.0));
            kb.store(weight, weightAt(s, v));
            next.push_back(kb.addf(carried[v], weight));
          }
          return next;
        },
        sums);
    RowsView lseRow = lseOf();
    double kept = spec.dropout ? 1.0 - *spec.dropout : 1.0;
    for (int64_t v = 0; v < vectors; ++v) {
      Value some = arith::CmpFOp::create(
          kb.b, kb.loc, arith::CmpFPredicate::OGT, sums[v], kb.splat(0.0));
      Value inverted = kb.divf(kb.splat(1.0 / kept), sums[v]);
      // NaN, from a NaN among the scores, is not the empty sum.
      Value none = arith::CmpFOp::create(
          kb.b, kb.loc, arith::CmpFPredicate::OEQ, sums[v], kb.splat(0.0));
      kb.store(kb.select(none, kb.splat(0.0), inverted),
               kb.at(at(inverse), v * kb.lanes));
      Value safe = kb.select(some, sums[v], kb.splat(1.0));
      Value logarithm =
          kb.addf(largest[v], math::LogOp::create(kb.b, kb.loc, safe));
      Value mask = kb.maskOf(kb.sub(blockQueries, kb.i64(v * kb.lanes)));
      kb.store(kb.select(none, kb.splat(-infinity),
                         kb.select(some, logarithm, sums[v])),
               kb.at(lseRow.ptr, kb.add(t0, v * kb.lanes)), mask);
    }
  }

  /// The lse of the current head, as one row.
  RowsView lseOf() {
    SmallVector<int64_t> strides;
    int64_t offset = 0;
    (void)spec.lse.getStridesAndOffset(strides, offset);
    Value at = kb.add(kb.mul(batch, strides[0]), kb.mul(queryHead, strides[1]));
    return {kb.at(lse, at), kb.i64(1)};
  }
};

} // namespace

Kernel tfm::emitAttention(OpBuilder &builder, ModuleOp module, StringRef name,
                          const AttentionSpec &spec, const CpuMachine &target) {
  return AttentionForward(builder, module, spec, target).emit(name);
}
