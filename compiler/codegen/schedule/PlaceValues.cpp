//===- PlaceValues.cpp - where values go ----------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/codegen/schedule/ProgramBuilder.h"

using namespace mlir;
using namespace tfm;

bool tfm::hasOneReader(Value value) {
  for (;; value = value.getDefiningOp()->getOperand(0)) {
    if (!value.hasOneUse())
      return false;
    Operation *op = value.getDefiningOp();
    if (!op || !isViewOp(op))
      return op != nullptr;
  }
}

View ProgramBuilder::wantedPlace(Value value) {
  if (auto it = targets.find(value); it != targets.end())
    return it->second;
  Operation *def = value.getDefiningOp();
  if (!def)
    return View();
  ArrayRef<int64_t> shape = tensorType(value).getShape();
  for (OpOperand &use : value.getUses()) {
    Operation *user = use.getOwner();
    if (user->getBlock() != def->getBlock() ||
        schedule.materialised.contains(user))
      continue;
    if (isa<ReshapeOp, TransposeOp>(user)) {
      View wanted = wantedPlace(user->getResult(0));
      if (!wanted.isValid())
        continue;
      if (auto transpose = dyn_cast<TransposeOp>(user)) {
        SmallVector<int64_t> inverse(transpose.getPermutation().size());
        for (auto [i, axis] : llvm::enumerate(transpose.getPermutation()))
          inverse[axis] = i;
        return wanted.transposed(inverse);
      }
      if (View back = wanted.reshaped(shape); back.isValid())
        return back;
      continue;
    }
    if (auto concat = dyn_cast<ConcatOp>(user)) {
      int64_t start = 0;
      for (Value x : concat.getXs().take_front(use.getOperandNumber()))
        start += tensorType(x).getDimSize(concat.getAxis());
      return place(concat.getY())
          .sliced(concat.getAxis(), start, shape[concat.getAxis()]);
    }
    if (auto scatter = dyn_cast<ScatterAddOp>(user)) {
      if (use.getOperandNumber() == 0 && hasOneReader(value))
        return place(scatter.getY());
      continue;
    }
    if (auto repeat = dyn_cast<RepeatOp>(user)) {
      unsigned index = use.getOperandNumber();
      if (index >= repeat.getCarried().size())
        continue;
      CarriedPlan &plan = planCarried(repeat)[index];
      // The loop changes its carried value in place, unless it keeps them all.
      if (plan.savedAs >= 0 || hasOneReader(value))
        return plan.init;
    }
  }
  return View();
}

View ProgramBuilder::trialView(Value value) {
  Operation *op = value.getDefiningOp();
  if (op && isViewOp(op) && !schedule.materialised.contains(op)) {
    View from = trialView(op->getOperand(0));
    return from.isValid() ? throughViewOp(op, from) : View();
  }
  if (auto known = views.find(value); known != views.end())
    return known->second;
  RankedTensorType type = tensorType(value);
  auto order = layouts.find(value);
  if (order == layouts.end())
    return contiguousView(0, type);
  SmallVector<int64_t> shape, inverse(order->second.size());
  for (auto [i, axis] : llvm::enumerate(order->second)) {
    shape.push_back(type.getDimSize(axis));
    inverse[axis] = i;
  }
  return contiguousView(0, RankedTensorType::get(shape, type.getElementType()))
      .transposed(inverse);
}

/// A reshape that strides cannot express becomes one that they can when its
/// base is stored in the transposed order; else it is a copy.
void ProgramBuilder::findLayouts(Block &block) {
  for (Operation &op : block) {
    auto reshape = dyn_cast<ReshapeOp>(&op);
    if (!reshape || isSplat(viewBase(reshape.getX(), schedule.materialised)) ||
        trialView(reshape.getY()).isValid())
      continue;
    auto transpose = reshape.getX().getDefiningOp<TransposeOp>();
    Operation *base = transpose ? transpose.getX().getDefiningOp() : nullptr;
    bool flexible =
        base && !isViewOp(base) && base->getBlock() == &block &&
        !isa<RepeatOp, ConcatOp, GetParamOp, ConstantOp, ScatterAddOp,
             CacheUpdateOp>(base) &&
        transpose.getPermutation().back() ==
            static_cast<int64_t>(transpose.getPermutation().size()) - 1;
    if (flexible && !layouts.contains(transpose.getX())) {
      layouts[transpose.getX()] =
          SmallVector<int64_t>(transpose.getPermutation());
      if (trialView(reshape.getY()).isValid())
        continue;
      layouts.erase(transpose.getX());
    }
    schedule.materialised.insert(&op);
  }
}
