//===- ReverseSweep.cpp - reverse-mode differentiation of a block ---------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/dialect/ReverseSweep.h"

#include "compiler/dialect/TfmBuilder.h"

using namespace mlir;
using namespace tfm;

void ReverseSweep::activate(Value value) {
  if (isFloat(value))
    active.insert(value);
}

void ReverseSweep::propagateActivity(Block &block) {
  for (Operation &op : block) {
    if (isa<StopGradientOp>(op))
      continue;
    if (llvm::any_of(op.getOperands(), [&](Value x) { return isActive(x); }))
      for (Value value : op.getResults())
        activate(value);
  }
}

void ReverseSweep::accumulate(Value value, Value cotangent) {
  Value &sum = cotangents[value];
  if (!sum)
    sum = cotangent;
  else
    sum = AddOp::create(builder, cotangent.getLoc(), sum, cotangent);
}

LogicalResult ReverseSweep::run(Block &block) {
  SmallVector<Operation *> ops;
  for (Operation &op : block.without_terminator())
    ops.push_back(&op);
  for (Operation *op : llvm::reverse(ops)) {
    SmallVector<Value> results;
    bool reached = false;
    for (Value value : op->getResults()) {
      results.push_back(cotangent(value));
      reached |= results.back() != nullptr;
    }
    SmallVector<bool> wanted;
    for (Value operand : op->getOperands())
      wanted.push_back(isActive(operand));
    if (!reached || !llvm::is_contained(wanted, true))
      continue;

    if (!isa<DifferentiableOpInterface>(op))
      return op->emitOpError("has no derivative");
    SmallVector<Value> operands(op->getOperands());
    auto repeat = dyn_cast<RepeatOp>(op);
    FailureOr<Cotangents> found =
        repeat ? differentiateRepeat(builder, repeat, results, wanted)
               : cast<DifferentiableOpInterface>(op).buildVJP(builder, results);
    if (failed(found))
      return failure();
    if (repeat && repeat.use_empty())
      repeat.erase();
    for (auto [operand, isWanted, value] :
         llvm::zip_equal(operands, wanted, *found))
      if (isWanted && value)
        accumulate(operand, value);
  }
  return success();
}

void tfm::eraseDeadOps(Block &block) {
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block))) {
    if (isOpTriviallyDead(&op)) {
      op.erase();
      continue;
    }
    auto backward = dyn_cast<AttentionBackwardOp>(op);
    if (!backward)
      continue;
    // The gradient of a mask is [B, heads, T, S]: not to be computed in vain.
    auto isVain = [](Value gradient) {
      return gradient && gradient.use_empty();
    };
    if (!isVain(backward.getDmask()) && !isVain(backward.getDdistance()))
      continue;
    OpBuilder builder(backward);
    auto wanted = [&](Value gradient) {
      return gradient && !gradient.use_empty() ? gradient.getType() : Type();
    };
    auto narrow = AttentionBackwardOp::create(
        builder, op.getLoc(), backward.getDq().getType(),
        backward.getDk().getType(), backward.getDv().getType(),
        wanted(backward.getDmask()), wanted(backward.getDdistance()),
        backward.getQ(), backward.getK(), backward.getV(), backward.getOut(),
        backward.getLse(), backward.getDout(), backward.getMask(),
        backward.getLayer(), backward.getDistanceBias(), backward.getInner(),
        backward.getCausalAttr(), backward.getScaleAttr(),
        backward.getWindowAttr(), backward.getSoftcapAttr(),
        backward.getDropoutAttr(), backward.getSiteAttr());
    narrow->setDiscardableAttrs(op.getDiscardableAttrDictionary());
    std::pair<Value, Value> results[] = {
        {backward.getDq(), narrow.getDq()},
        {backward.getDk(), narrow.getDk()},
        {backward.getDv(), narrow.getDv()},
        {backward.getDmask(), narrow.getDmask()},
        {backward.getDdistance(), narrow.getDdistance()}};
    for (auto [from, to] : results)
      if (to)
        from.replaceAllUsesWith(to);
    op.erase();
  }
}
