//===- Flops.cpp - floating-point operations of ops -----------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/dialect/TfmDialect.h"

#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace tfm;

namespace {

/// Query and key pairs of one head that attention looks at, for `queries` from
/// position `start` on.
FlopCount visiblePairs(int64_t start, int64_t queries, int64_t keys,
                       bool causal, std::optional<int64_t> window) {
  FlopCount pairs = 0;
  for (int64_t t = start; t != start + queries; ++t) {
    int64_t end = causal ? std::min(t + 1, keys) : keys;
    int64_t begin = window ? std::max<int64_t>(0, t - *window + 1) : 0;
    pairs += std::max<int64_t>(0, end - begin);
  }
  return pairs;
}

template <typename OpT> FlopCount attentionPairs(OpT op, int64_t start = 0) {
  ArrayRef<int64_t> q = tensorType(op.getQ()).getShape();
  int64_t keys = tensorType(op.getK()).getDimSize(2);
  std::optional<int64_t> window;
  if (auto attr = op.getWindow())
    window = static_cast<int64_t>(*attr);
  return visiblePairs(start, q[2], keys, op.getCausal(), window) * q[0] * q[1];
}

} // namespace

FlopCount tfm::flopsOf(Operation *op) {
  auto counted = dyn_cast<FlopsOpInterface>(op);
  return counted ? counted.getFlops() : 0;
}

FlopCount tfm::elementFlops(Operation *op, int64_t perElement) {
  if (perElement == 0 || op->getNumOperands() == 0)
    return 0;
  auto type = dyn_cast<RankedTensorType>(op->getOperand(0).getType());
  // Integer arithmetic (positions, masks) is no floating-point operation.
  if (!type || !isa<FloatType>(type.getElementType()))
    return 0;
  return FlopCount(perElement) * type.getNumElements();
}

FlopCount MatmulOp::getFlops() {
  return FlopCount(2) * getTerms() * tensorType(getY()).getNumElements();
}

FlopCount ScatterAddOp::getFlops() {
  return tensorType(getUpdates()).getNumElements();
}

FlopCount AttentionOp::getFlops() {
  int64_t d = tensorType(getQ()).getDimSize(3);
  int64_t e = tensorType(getV()).getDimSize(3);
  int64_t perPair =
      2 * d + 2 * e + 5 + (getSoftcap() ? 3 : 0) + (getDistanceBias() ? 1 : 0);
  // Of a cache the most there can be: it is full, the queries are the last.
  int64_t start = 0;
  if (getStart())
    start = std::max<int64_t>(0, tensorType(getK()).getDimSize(2) -
                                     tensorType(getQ()).getDimSize(2));
  return attentionPairs(*this, start) * perPair;
}

FlopCount AttentionBackwardOp::getFlops() {
  RankedTensorType q = tensorType(getQ());
  int64_t d = q.getDimSize(3), e = tensorType(getV()).getDimSize(3);
  int64_t rows = q.getNumElements() / d;
  int64_t perPair = 6 * d + 4 * e + 6 + (getSoftcap() ? 6 : 0) +
                    (getDistanceBias() ? 1 : 0) + (getDdistance() ? 1 : 0);
  return attentionPairs(*this) * perPair + FlopCount(rows) * 2 * e;
}

// A pair of elements is turned by 4 multiplications and 2 additions. Those of
// the amplitude are with the sines and cosines, which are not counted.
FlopCount RopeOp::getFlops() {
  RankedTensorType x = tensorType(getX());
  int64_t turned = static_cast<int64_t>(getDims());
  return FlopCount(3) * turned * (x.getNumElements() / x.getShape().back());
}

FlopCount RepeatOp::getFlops() {
  FlopCount layer = 0;
  for (Operation &op : *getBlock())
    layer += flopsOf(&op);
  return FlopCount(getCount()) * layer;
}
