//===- AttentionSoftmax.cpp - weights of attention ------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/target/cuda/AttentionSoftmax.h"

#include "compiler/target/cuda/AttentionLaunch.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace tfm;
using namespace tfm::cuda;
using namespace tfm::sched;

AttentionSoftmax::AttentionSoftmax(ModuleOp module, StringRef name,
                                   LaunchOp launch, AttentionOp op,
                                   const Grid &grid)
    : AttentionFragments(module, name, launch, ruleOf(op, launch), grid) {
  AttentionLaunch rows(launch, block);
  rows.fill(tile, op);
  tile.start = rows.read(op.getStart());
  leaveUnscaled();
  out = rows.written(op.getOut());
  lse = rows.written(op.getLse());
}

void AttentionSoftmax::enter(Value number) {
  head.query = k.rem(number, k.i64(tile.heads()));
  head.batch = k.div(number, tile.heads());
  head.key = k.div(head.query, tile.headsPerKey());
}

AttentionSoftmax::Queries AttentionSoftmax::queriesFrom(Value first) {
  Queries queries{first, {}};
  for (int64_t row = 0; row != rowsOfThread; ++row)
    queries.ofRow.push_back(k.add(first, rowOf(row)));
  return queries;
}

AttentionSoftmax::Row
AttentionSoftmax::weighRow(int64_t row, Value query, const Keys &keys,
                           MutableArrayRef<Value> products, const Row &before,
                           bool allVisible, llvm::function_ref<Kept()> kept) {
  auto fragments = static_cast<int64_t>(products.size()) / ofFragment;
  // Of a long row parts go by themselves: a comparison waits for the one
  // before.
  constexpr int64_t partFragments = 8;
  SmallVector<Value> largest = {before.largest}, scores;
  for (int64_t fragment = 0; fragment != fragments; ++fragment)
    for (int64_t which = 0; which != ofRow; ++which) {
      AttentionTile::Score score = tile.score(
          products[at(fragment, row, which)], head, query, keys.position,
          keys.at(fragment, which), keys.end, allVisible);
      scores.push_back(block.orElse(score.visible, score.value, -infinity));
      if (fragment > 0 && fragment % partFragments == 0 && which == 0)
        largest.push_back(scores.back());
      else
        largest.back() = k.maxf(largest.back(), scores.back());
    }
  Value most = largest.front();
  for (Value part : ArrayRef(largest).drop_front())
    most = k.maxf(most, part);
  // Four neighbouring lanes have a row.
  most = block.reduceLanes(most, 4,
                           [&](Value x, Value y) { return k.maxf(x, y); });
  Value none = arith::CmpFOp::create(k.b, k.loc, arith::CmpFPredicate::OEQ,
                                     most, k.splat(-infinity));
  Value base = binary(k.select(none, k.splat(0.0), most), unit);
  Value factor = power(before.largest, base);
  Kept drawn;
  if (kept)
    drawn = kept();
  // Each lane adds up its own until the end.
  Value total = k.mulf(before.total, factor);
  for (int64_t fragment = 0; fragment != fragments; ++fragment)
    for (int64_t which = 0; which != ofRow; ++which) {
      Value weight = power(scores[fragment * ofRow + which], base);
      total = k.addf(total, weight);
      if (kept)
        weight = block.orElse(keepsColumn(drawn, fragment, which), weight, 0.0);
      products[at(fragment, row, which)] = weight;
    }
  return {most, total, factor};
}

void AttentionSoftmax::scaleRow(MutableArrayRef<Value> output, int64_t row,
                                Value factor) {
  for (int64_t fragment = 0; fragment != tile.valueWidth() / fragmentColumns;
       ++fragment)
    for (int64_t which = 0; which != ofRow; ++which) {
      Value &sum = output[at(fragment, row, which)];
      sum = k.mulf(sum, factor);
    }
}

void AttentionSoftmax::finish(const Queries &queries, ArrayRef<Row> rows,
                              ValueRange output) {
  SmallVector<Value> factors;
  for (auto [row, query] : llvm::zip_equal(rows, queries.ofRow)) {
    Value largest = row.largest;
    Value total = block.reduceLanes(
        row.total, 4, [&](Value x, Value y) { return k.addf(x, y); });
    Value none = arith::CmpFOp::create(k.b, k.loc, arith::CmpFPredicate::OEQ,
                                       total, k.splat(0.0));
    factors.push_back(
        k.select(none, k.splat(0.0), k.divf(k.splat(keptFactor()), total)));
    if (!lse.exists())
      continue;
    Value first = k.equal(k.rem(lane, k.i64(4)), k.i64(0));
    Value stores = block.both(first, k.less(query, k.i64(tile.queries())));
    k.ifThen(stores, [&, query = query] {
      Value log = math::LogOp::create(k.b, k.loc, total);
      Value value = k.select(none, k.splat(-infinity),
                             k.addf(k.mulf(largest, k.splat(unit)), log));
      k.storeScalar(value, tile.perQuery(lse, head, query));
    });
  }
  if (!out.exists())
    return;
  k.ifThen(k.less(queries.first, k.i64(tile.queries())), [&] {
    storeRows(out, tile.headOf(out, head.batch, head.query), queries.first,
              output, factors);
  });
}
