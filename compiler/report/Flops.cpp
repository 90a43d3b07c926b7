//===- Flops.cpp - floating-point operations of a tfm function ------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/report/Flops.h"

#include "compiler/dialect/TfmDialect.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace tfm;

/// Query and key pairs of one head that attention looks at, for `queries` x
/// `keys` aligned at the top left.
static int64_t visiblePairs(int64_t queries, int64_t keys, bool causal,
                            std::optional<int64_t> window) {
  int64_t pairs = 0;
  for (int64_t t = 0; t != queries; ++t) {
    int64_t end = causal ? std::min(t + 1, keys) : keys;
    int64_t begin = window ? std::max<int64_t>(0, t - *window + 1) : 0;
    pairs += std::max<int64_t>(0, end - begin);
  }
  return pairs;
}

template <typename OpT> static int64_t attentionPairs(OpT op) {
  ArrayRef<int64_t> q = tensorType(op.getQ()).getShape();
  int64_t keys = tensorType(op.getK()).getDimSize(2);
  std::optional<int64_t> window;
  if (auto attr = op.getWindow())
    window = static_cast<int64_t>(*attr);
  return q[0] * q[1] * visiblePairs(q[2], keys, op.getCausal(), window);
}

static int64_t matmulFlops(MatmulOp op) {
  RankedTensorType a = tensorType(op.getA());
  int64_t k = a.getDimSize(a.getRank() - (op.getTransposeA() ? 2 : 1));
  return 2 * k * tensorType(op.getY()).getNumElements();
}

static int64_t attentionFlops(AttentionOp op) {
  int64_t d = tensorType(op.getQ()).getDimSize(3);
  int64_t e = tensorType(op.getV()).getDimSize(3);
  int64_t perPair = 2 * d + 2 * e + 5 + (op.getSoftcap() ? 3 : 0);
  return attentionPairs(op) * perPair;
}

static int64_t attentionBackwardFlops(AttentionBackwardOp op) {
  RankedTensorType q = tensorType(op.getQ());
  int64_t d = q.getDimSize(3), e = tensorType(op.getV()).getDimSize(3);
  int64_t rows = q.getNumElements() / d;
  int64_t perPair = 6 * d + 4 * e + 6 + (op.getSoftcap() ? 6 : 0);
  return attentionPairs(op) * perPair + rows * 2 * e;
}

/// Operations per element of the first operand for ops whose formula is applied
/// to each element, or to each row of elements; 0 for those that move data.
static int64_t flopsPerElement(Operation *op) {
  return llvm::TypeSwitch<Operation *, int64_t>(op)
      .Case<NegOp, AbsOp, ExpOp, LogOp, SqrtOp, TanhOp, ErfOp, SinOp, CosOp,
            ReluOp, AddOp, SubOp, MulOp, DivOp, PowOp, MinOp, MaxOp,
            ReduceSumOp, ReduceMaxOp, DropoutOp>([](auto) { return 1; })
      // 1 / sqrt(x)
      .Case<RsqrtOp>([](auto) { return 2; })
      // log(1 + exp(x)): exp, add, log
      .Case<SoftplusOp>([](auto) { return 3; })
      // 1 / (1 + exp(-x)), x / (1 + exp(-x)): negate, exp, add, divide
      .Case<SigmoidOp, SiluOp>([](auto) { return 4; })
      // x * (1 + erf(x / sqrt(2))) / 2: divide, erf, add, multiply, divide
      .Case<GeluOp>([](auto) { return 5; })
      // x ** 3 (2), * 0.044715, + x, * sqrt(2 / pi), tanh, 1 +, x *, / 2
      .Case<GeluTanhOp>([](auto) { return 9; })
      // maximum, subtract, exp, sum, divide (or subtract)
      .Case<SoftmaxOp, LogSoftmaxOp>([](auto) { return 5; })
      // mean, subtract, square, sum, scale
      .Case<NormalizeOp>([](auto) { return 5; })
      // square, sum, scale
      .Case<RmsNormalizeOp>([](auto) { return 3; })
      // maximum, subtract, exp, sum
      .Case<CrossEntropyOp>([](auto) { return 4; })
      // subtract lse, exp, multiply by the cotangent
      .Case<CrossEntropyBackwardOp>([](auto) { return 3; })
      .Default([](Operation *) { return 0; });
}

int64_t tfm::countFlops(Operation *op) {
  if (auto matmul = dyn_cast<MatmulOp>(op))
    return matmulFlops(matmul);
  if (auto attention = dyn_cast<AttentionOp>(op))
    return attentionFlops(attention);
  if (auto attention = dyn_cast<AttentionBackwardOp>(op))
    return attentionBackwardFlops(attention);
  if (auto scatter = dyn_cast<ScatterAddOp>(op))
    return tensorType(scatter.getUpdates()).getNumElements();
  if (auto rope = dyn_cast<RopeOp>(op)) {
    // A pair of elements is turned by 4 multiplications and 2 additions.
    RankedTensorType x = tensorType(rope.getX());
    int64_t turned = static_cast<int64_t>(rope.getDims());
    return 3 * turned * (x.getNumElements() / x.getShape().back());
  }
  int64_t executions = 1;
  if (auto repeat = dyn_cast<RepeatOp>(op))
    executions = static_cast<int64_t>(repeat.getCount());
  if (op->getNumRegions() != 0) {
    llvm::StringMap<int64_t> byKind;
    for (Region &region : op->getRegions())
      countFlops(region, executions, byKind);
    int64_t sum = 0;
    for (const auto &kind : byKind)
      sum += kind.second;
    return sum;
  }
  int64_t each = flopsPerElement(op);
  if (each == 0)
    return 0;
  // Integer arithmetic (positions, masks) is no floating-point operation.
  auto type = dyn_cast<RankedTensorType>(op->getOperand(0).getType());
  if (!type || !isa<FloatType>(type.getElementType()))
    return 0;
  return each * type.getNumElements();
}

void tfm::countFlops(Region &region, int64_t executions,
                     llvm::StringMap<int64_t> &byKind) {
  for (Operation &op : region.getOps()) {
    if (auto repeat = dyn_cast<RepeatOp>(op)) {
      countFlops(repeat.getBody(),
                 executions * static_cast<int64_t>(repeat.getCount()), byKind);
      continue;
    }
    if (int64_t flops = countFlops(&op))
      byKind[op.getName().stripDialect()] += executions * flops;
  }
}
