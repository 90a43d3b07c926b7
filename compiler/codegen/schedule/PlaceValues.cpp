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

int ProgramBuilder::allocate(const std::string &name, int64_t bytes) {
  int buffer = schedule.addBuffer(name, BufferKind::Activation, bytes);
  schedule.buffers[buffer].program = program;
  home.resize(schedule.buffers.size(), 0);
  home[buffer] = loops.size();
  return buffer;
}

std::string ProgramBuilder::freshName(Value value) {
  std::string base;
  if (Operation *op = value.getDefiningOp()) {
    if (auto words = op->getAttrOfType<DictionaryAttr>("tfm.value"))
      if (auto name = words.getAs<StringAttr>("name"))
        base = name.getValue().str();
    if (base.empty())
      base = op->getName().stripDialect().str();
  } else {
    base = "arg";
  }
  return "%" + base + "." + std::to_string(schedule.buffers.size());
}

View ProgramBuilder::allocate(Value value) {
  RankedTensorType type = tensorType(value);
  int buffer =
      allocate(freshName(value),
               type.getNumElements() * elementBytes(type.getElementType()));
  return viewInto(buffer, value);
}

View ProgramBuilder::viewInto(int buffer, Value value) const {
  RankedTensorType type = tensorType(value);
  auto order = layouts.find(value);
  if (order == layouts.end())
    return contiguousView(buffer, type);
  SmallVector<int64_t> shape, inverse(order->second.size());
  for (auto [i, axis] : llvm::enumerate(order->second)) {
    shape.push_back(type.getDimSize(axis));
    inverse[axis] = i;
  }
  return contiguousView(buffer,
                        RankedTensorType::get(shape, type.getElementType()))
      .transposed(inverse);
}

void ProgramBuilder::touch(const View &view) {
  Buffer &buffer = schedule.buffers[view.buffer];
  if (buffer.kind != BufferKind::Activation)
    return;
  size_t depth = home[view.buffer];
  if (loops.size() > depth) {
    buffer.begin = std::min(buffer.begin, loops[depth].begin);
    loops[depth].touched.push_back(view.buffer);
  } else {
    buffer.begin = std::min(buffer.begin, time);
  }
  buffer.end = std::max(buffer.end, time);
}

View ProgramBuilder::viewOf(Value value) {
  if (auto it = views.find(value); it != views.end())
    return it->second;
  Operation *op = value.getDefiningOp();
  assert(op && "a block argument without a place");
  if (auto get = dyn_cast<GetParamOp>(op))
    return views[value] =
               parameterView(get.getParam(), schedule.parameterRegion);
  if (auto constant = dyn_cast<ConstantOp>(op))
    return views[value] = constantView(constant);
  assert(isViewOp(op) && !schedule.materialised.contains(op) && "not placed");
  View from = viewOf(op->getOperand(0));
  View result = throughViewOp(op, from);
  assert(result.isValid() && "a reshape that should have been a copy");
  return result;
}

View ProgramBuilder::throughViewOp(Operation *op, const View &from) {
  if (auto reshape = dyn_cast<ReshapeOp>(op))
    return from.reshaped(tensorType(reshape.getY()).getShape());
  if (auto transpose = dyn_cast<TransposeOp>(op))
    return from.transposed(transpose.getPermutation());
  if (auto slice = dyn_cast<SliceOp>(op))
    return from.sliced(slice.getAxis(), slice.getStart(), slice.getSize());
  return from.broadcastTo(tensorType(op->getResult(0)).getShape());
}

View ProgramBuilder::parameterView(StringRef name, int region) {
  for (const ParameterSlot &slot : schedule.parameters) {
    auto param = cast<ParamOp>(slot.param);
    if (param.getSymName() != name)
      continue;
    View view = contiguousView(region, param.getTensorType());
    view.offset = slot.offset;
    return view;
  }
  llvm_unreachable("an unknown parameter");
}

View ProgramBuilder::constantView(ConstantOp op) {
  for (auto &[attr, buffer] : schedule.constants)
    if (attr == op.getValue())
      return contiguousView(buffer, tensorType(op.getY()));
  RankedTensorType type = tensorType(op.getY());
  int buffer = schedule.addBuffer(
      "constant" + std::to_string(schedule.constants.size()),
      BufferKind::Constant,
      type.getNumElements() * elementBytes(type.getElementType()));
  home.resize(schedule.buffers.size(), 0);
  schedule.constants.push_back({op.getValue(), buffer});
  return contiguousView(buffer, type);
}

/// Whether the kernel of `op` can write a result through `view`: products and
/// attention write whole rows, a scatter adds to rows that follow each other.
static bool canWrite(Operation *op, const View &view) {
  if (isa_and_nonnull<ScatterAddOp>(op))
    return view.isContiguous();
  return !isa_and_nonnull<MatmulOp, AttentionOp, AttentionBackwardOp>(op) ||
         view.strides.back() == 1;
}

View ProgramBuilder::place(Value value) {
  if (auto it = views.find(value); it != views.end())
    return it->second;
  View view = wantedPlace(value);
  if (!view.isValid() || !canWrite(value.getDefiningOp(), view))
    view = allocate(value);
  return views[value] = view;
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
  return viewInto(/*buffer=*/0, value);
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
