//===- AttentionTile.cpp - tiles of queries and keys ----------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/target/cuda/AttentionTile.h"

#include "compiler/target/emit/ElementEmitter.h"
#include "compiler/target/emit/VectorHelpers.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace tfm;
using namespace tfm::cuda;

int64_t AttentionTile::sizeFor(int64_t width, int64_t tiles) {
  for (int64_t size : {32, 16, 8})
    // Beside the rows two tiles of scores, and a few numbers of each row.
    if ((tiles * size * strideOf(width) + 2 * size * strideOf(size) +
         16 * warpSize) *
            4 <=
        maxStaticShared)
      return size;
  return 0;
}

AttentionTile::AttentionTile(BlockBuilder &block, const AttentionRule &rule,
                             int64_t size)
    : rule(rule), size(size), group(threads / size),
      row(block.k.div(block.thread(), group)),
      own(block.k.rem(block.thread(), block.k.i64(group))), block(block),
      kb(block.k) {}

Value AttentionTile::headOf(const Rows &rows, Value batch, Value head) {
  return kb.at(rows.pointer,
               kb.add(kb.mul(batch, rows.view.strides[0]),
                      kb.mul(head, rows.view.strides[1])),
               memoryType(rows.view.element));
}

Value AttentionTile::allocate(int64_t width) {
  return block.shared(size * strideOf(width));
}

Value AttentionTile::at(Value tile, Value row, Value column, int64_t width) {
  return kb.at(tile, kb.add(kb.mul(row, strideOf(width)), column));
}

void AttentionTile::load(Value to, const Rows &rows, Value head, Value first,
                         Value count, int64_t ring) {
  int64_t width = rows.view.shape[3];
  Type element = rows.view.element;
  kb.loop(block.thread(), kb.i64(size * width), threads, [&](Value number) {
    Value row = kb.div(number, width), column = kb.rem(number, kb.i64(width));
    Value from = kb.min(kb.add(first, row), kb.sub(count, kb.i64(1)));
    if (ring)
      from = kb.rem(from, kb.i64(ring));
    Value offset = kb.add(kb.mul(from, rows.view.strides[2]),
                          kb.mul(column, rows.view.strides[3]));
    Value x =
        block.loadFloat(kb.at(head, offset, memoryType(element)), element);
    kb.storeScalar(x, at(to, row, column, width));
  });
}

Value AttentionTile::scoreAt(int64_t number) {
  Value first = group > size ? kb.rem(own, kb.i64(size)) : own;
  return kb.add(first, number * group);
}

Value AttentionTile::storesScores() {
  return group > size ? kb.less(own, kb.i64(size)) : Value();
}

SmallVector<Value> AttentionTile::dots(Value tile, Value others,
                                       int64_t width) {
  int64_t count = scoreColumns();
  int64_t step = width % 8 == 0 ? 8 : width % 4 == 0 ? 4 : 1;
  SmallVector<Value> sums(count, kb.splat(0.0));
  Value x = at(tile, row, kb.i64(0), width);
  Value y = at(others, scoreAt(0), kb.i64(0), width);
  return kb.loop(
      kb.i64(0), kb.i64(width), step, sums, [&](Value term, ValueRange before) {
        SmallVector<Value> next(before);
        Value from = kb.at(x, term), with = kb.at(y, term);
        for (int64_t i = 0; i != step; ++i) {
          Value one = kb.loadScalar(kb.at(from, i));
          for (int64_t j = 0; j != count; ++j)
            next[j] = kb.fma(
                one,
                kb.loadScalar(kb.at(with, i + j * group * strideOf(width))),
                next[j]);
        }
        return next;
      });
}

int64_t AttentionTile::columnsOf(int64_t width) const {
  return static_cast<int64_t>(llvm::divideCeil(width, group));
}

SmallVector<Value> AttentionTile::addRows(ValueRange sums, Value weights,
                                          Value tile, int64_t width) {
  int64_t columns = columnsOf(width);
  return kb.loop(
      kb.i64(0), kb.i64(size), 1, sums, [&](Value other, ValueRange before) {
        SmallVector<Value> next(before);
        Value weight = kb.loadScalar(at(weights, row, other, size));
        for (int64_t j = 0; j != columns; ++j) {
          Value column = columnOf(j);
          if ((j + 1) * group > width)
            column = kb.min(column, kb.i64(width - 1));
          next[j] = kb.fma(
              weight, kb.loadScalar(at(tile, other, column, width)), next[j]);
        }
        return next;
      });
}

AttentionTile::Score AttentionTile::score(Value product, const Head &head,
                                          Value query, Value position,
                                          Value key, Value end,
                                          bool allVisible) {
  Score result;
  Value x = kb.mulf(product, kb.splat(rule.scale));
  if (rule.softcap) {
    Value tanh = math::TanhOp::create(
        kb.b, kb.loc, kb.mulf(x, kb.splat(1.0 / *rule.softcap)));
    result.slope = kb.subf(kb.splat(1.0), kb.mulf(tanh, tanh));
    x = kb.mulf(tanh, kb.splat(*rule.softcap));
  }
  if (distanceBias.exists()) {
    const View &view = distanceBias.view;
    int64_t columns = view.shape[1];
    Value column =
        kb.add(kb.sub(position, key), rule.causal ? 0 : (columns - 1) / 2);
    // Nothing is added where a distance has no column.
    Value within = block.both(kb.less(kb.i64(-1), column),
                              kb.less(column, kb.i64(columns)));
    Value safe = kb.min(kb.max(column, kb.i64(0)), kb.i64(columns - 1));
    Value offset = kb.add(kb.mul(head.query, view.strides[0]),
                          kb.mul(safe, view.strides[1]));
    Value bias = kb.loadScalar(kb.at(distanceBias.pointer, offset));
    x = kb.addf(x, block.orElse(within, bias, 0.0));
  }
  Value visible = end && !allVisible ? kb.less(key, end) : kb.i1(true);
  if (rule.causal && !allVisible)
    visible = block.both(visible, kb.less(key, kb.add(position, 1)));
  if (rule.window && !allVisible)
    visible = block.both(visible,
                         kb.less(kb.sub(position, key), kb.i64(*rule.window)));
  if (mask.exists() && !(allVisible && hidesByMask())) {
    const View &view = mask.view;
    Value offset = kb.i64(0);
    auto advance = [&](Value index, Value most, int64_t axis) {
      if (view.shape[axis] == 1)
        return;
      if (most)
        index = kb.min(index, most);
      offset = kb.add(offset, kb.mul(index, view.strides[axis]));
    };
    advance(head.batch, Value(), 0);
    advance(head.query, Value(), 1);
    advance(query, kb.i64(queries() - 1), 2);
    advance(key, kb.i64(keys() - 1), 3);
    Type element = view.element;
    Value pointer = kb.at(mask.pointer, offset, memoryType(element));
    if (!hidesByMask()) {
      x = kb.addf(x, block.loadFloat(pointer, element));
    } else {
      Value byte = LLVM::LoadOp::create(kb.b, kb.loc, kb.b.getI8Type(), pointer,
                                        /*alignment=*/1);
      Value zero =
          arith::ConstantIntOp::create(kb.b, kb.loc, kb.b.getI8Type(), 0);
      Value keeps = arith::CmpIOp::create(kb.b, kb.loc,
                                          arith::CmpIPredicate::ne, byte, zero);
      visible = block.both(visible, keeps);
    }
  }
  result.value = x;
  result.visible = visible;
  return result;
}

AttentionTile::Derivative AttentionTile::derive(const Score &score,
                                                Value weight, Value dweight,
                                                Value inner, Value kept) {
  Derivative result;
  result.weight = kept ? kb.mulf(weight, kept) : weight;
  Value difference =
      kept ? kb.fma(dweight, kept, arith::NegFOp::create(kb.b, kb.loc, inner))
           : kb.subf(dweight, inner);
  result.dscore = kb.mulf(weight, difference);
  result.dproduct =
      score.slope ? kb.mulf(result.dscore, score.slope) : result.dscore;
  return result;
}

Value AttentionTile::kept(const Head &head, Value query, Value key) {
  if (!rule.dropout)
    return {};
  DropoutKey counter =
      dropoutKey(kb.b, kb.loc, block.arguments.rng,
                 rule.hasLayer ? block.arguments.layer : kb.toIndex(kb.i64(0)),
                 rule.site, *rule.dropout, rule.microSteps);
  Value number =
      kb.add(kb.mul(kb.add(kb.mul(head.batch, heads()), head.query), queries()),
             query);
  Value keep = dropoutKeep(kb.b, kb.loc, counter, number, key);
  return block.orElse(keep, kb.splat(1.0 / (1.0 - *rule.dropout)), 0.0);
}

Value AttentionTile::perQuery(const Rows &rows, const Head &head, Value query) {
  Value offset = kb.mul(query, rows.view.strides[2]);
  return kb.at(headOf(rows, head.batch, head.query), offset);
}

Value AttentionTile::finiteLog(Value log) {
  return kb.maxf(log, kb.splat(-1e30));
}

void AttentionTile::storeRow(const Rows &rows, Value head, Value number,
                             ValueRange values, Value factor, Value exists) {
  int64_t width = rows.view.shape[3];
  Type element = rows.view.element;
  for (auto [j, value] : llvm::enumerate(values)) {
    Value column = columnOf(static_cast<int64_t>(j));
    Value within = exists;
    if ((static_cast<int64_t>(j) + 1) * group > width)
      within = block.both(within, kb.less(column, kb.i64(width)));
    auto store = [&, value = value] {
      Value offset = kb.add(kb.mul(number, rows.view.strides[2]),
                            kb.mul(column, rows.view.strides[3]));
      block.storeFloat(kb.mulf(value, factor),
                       kb.at(head, offset, memoryType(element)), element);
    };
    if (within)
      kb.ifThen(within, store);
    else
      store();
  }
}

Value AttentionTile::exp(Value x) {
  return math::ExpOp::create(kb.b, kb.loc, x);
}
