//===- SplitAttention.cpp - attention of one query in parts ---------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/dialect/TfmBuilder.h"
#include "compiler/target/cuda/Gpu.h"
#include "compiler/target/cuda/Passes.h"

namespace tfm::cuda {
#define GEN_PASS_DEF_SPLITATTENTIONPASS
#include "compiler/target/cuda/Passes.h.inc"
} // namespace tfm::cuda

using namespace mlir;
using namespace tfm;
using namespace tfm::cuda;

namespace {

/// Into how many parts the keys are cut: as many as leave no multiprocessor
/// with two blocks, of a head each.
int64_t partsOf(AttentionOp op) {
  ArrayRef<int64_t> q = tensorType(op.getQ()).getShape();
  int64_t heads = q[1], keys = tensorType(op.getK()).getDimSize(2);
  if (q[0] != 1 || q[2] != 1 || !op.getStart() || op.getRing() ||
      op.getMask() || op.getKeyScale() || op.getDistanceBias() ||
      op.getDropout() || !op.getLse().use_empty())
    return 1;
  // What the parts give is read by all blocks of the product behind them.
  constexpr int64_t most = 8, leastKeys = 64;
  int64_t parts = 1;
  while (2 * parts <= most && 2 * parts * heads <= h100.multiprocessors &&
         keys % (2 * parts) == 0 && keys / (2 * parts) >= leastKeys)
    parts *= 2;
  return parts;
}

/// As many as `count` of what is one along the first axis.
RankedTensorType times(Value x, int64_t count) {
  SmallVector<int64_t> shape(tensorType(x).getShape());
  shape[0] = count;
  return tensorType(x).clone(shape);
}

/// Attends to each part as to a sequence of its own, in which the query is
/// later than in the one before; in those it has not come to it sees no key.
AttentionOp attendInParts(AttentionOp op, int64_t parts) {
  OpBuilder b(op);
  Location loc = op.getLoc();
  TfmBuilder build{b, loc};
  int64_t keys = tensorType(op.getK()).getDimSize(2) / parts;
  auto rowsOf = [&](Value x) -> Value {
    ArrayRef<int64_t> shape = tensorType(x).getShape();
    Value cut = build.reshape(
        x, tensorType(x).clone({shape[1], parts, keys, shape[3]}));
    return TransposeOp::create(b, loc, cut, ArrayRef<int64_t>{1, 0, 2, 3});
  };
  Value k = rowsOf(op.getK()), v = rowsOf(op.getV()),
        q = build.broadcast(op.getQ(), times(op.getQ(), parts)),
        start = build.broadcast(op.getStart(), times(op.getStart(), parts));
  SmallVector<int32_t> first;
  for (int64_t part = 0; part != parts; ++part)
    first.push_back(static_cast<int32_t>(part * keys));
  start = build.sub(
      start, ConstantOp::create(
                 b, loc, DenseIntElementsAttr::get(tensorType(start), first)));
  auto inParts = cast<AttentionOp>(b.clone(*op));
  inParts.getQMutable().assign(q);
  inParts.getKMutable().assign(k);
  inParts.getVMutable().assign(v);
  inParts.getStartMutable().assign(start);
  for (Value result : inParts.getResults())
    result.setType(times(result, parts));
  return inParts;
}

/// The sum of the parts' outputs, each weighted with its part of the sum of all
/// exponentials (Dao et al. 2023, "Flash-Decoding for long-context inference").
Value addUp(AttentionOp inParts, int64_t parts) {
  OpBuilder b(inParts);
  b.setInsertionPointAfter(inParts);
  Location loc = inParts.getLoc();
  TfmBuilder build{b, loc};
  RankedTensorType out = times(inParts.getOut(), 1),
                   f32 = out.clone(b.getF32Type());
  auto part = [&](Value x, int64_t number) -> Value {
    return SliceOp::create(b, loc, x, 0, number, 1);
  };
  SmallVector<Value> sums;
  Value largest;
  for (int64_t number = 0; number != parts; ++number) {
    Value lse = part(inParts.getLse(), number);
    ArrayRef<int64_t> shape = out.getShape();
    lse = build.reshape(lse, f32.clone({1, shape[1], shape[2], 1}));
    sums.push_back(build.broadcast(lse, f32));
    largest = number == 0 ? sums.front()
                          : Value(MaxOp::create(b, loc, largest, sums.back()));
  }
  Value total, sum;
  for (int64_t number = 0; number != parts; ++number) {
    Value weight = build.exp(build.sub(sums[number], largest));
    Value weighted = build.mul(
        weight, build.cast(part(inParts.getOut(), number), b.getF32Type()));
    total = number == 0 ? weight : build.add(total, weight);
    sum = number == 0 ? weighted : build.add(sum, weighted);
  }
  // A division of the row's, not of each element.
  Value inverse = build.div(build.constant(total, 1.0), total);
  return build.cast(build.mul(sum, inverse), out.getElementType());
}

struct SplitAttentionPass
    : tfm::cuda::impl::SplitAttentionPassBase<SplitAttentionPass> {
  void runOnOperation() override {
    SmallVector<std::pair<AttentionOp, int64_t>> found;
    getOperation().walk([&](AttentionOp op) {
      if (int64_t parts = partsOf(op); parts > 1)
        found.push_back({op, parts});
    });
    for (auto [op, parts] : found) {
      op.getOut().replaceAllUsesWith(addUp(attendInParts(op, parts), parts));
      op.erase();
    }
  }
};

} // namespace
