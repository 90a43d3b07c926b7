//===- ScheduleLoops.cpp - loops over layers ------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/codegen/schedule/ProgramBuilder.h"

using namespace mlir;
using namespace tfm;

std::vector<CarriedPlan> &ProgramBuilder::planCarried(RepeatOp repeat) {
  auto [it, fresh] = carriedPlans.try_emplace(repeat);
  if (!fresh)
    return it->second;
  std::vector<CarriedPlan> plans(repeat.getCarried().size());
  size_t carried = plans.size();
  YieldOp yield = repeat.getYield();
  int64_t count = repeat.getCount();
  for (auto [i, plan] : llvm::enumerate(plans)) {
    RankedTensorType type = tensorType(repeat.getCarried()[i]);
    for (size_t j = carried; j < yield.getNumOperands(); ++j)
      if (!repeat.getReverse() &&
          yield.getOperand(j) == repeat.getCarriedArgs()[i])
        plan.savedAs = static_cast<int>(j);
    if (plan.savedAs < 0) {
      View place = wantedPlace(repeat.getResult(i));
      if (!place.isValid())
        place = allocate(repeat.getResult(i));
      plan.init = plan.arg = plan.target = plan.result = place;
      continue;
    }
    // Layer i reads slot i and writes slot i + 1, so that the values to save
    // are simply left where they are.
    RankedTensorType slotsType = stackedType(type, count + 1);
    int buffer = allocate(freshName(repeat.getResult(i)),
                          slotsType.getNumElements() *
                              elementBytes(type.getElementType()));
    View slots = contiguousView(buffer, slotsType);
    unsigned depth = loops.size();
    plan.init = slots.sliced(0, 0, 1).dropLeading();
    plan.arg = slots.sliced(0, 0, count).perLayer(depth);
    plan.target = slots.sliced(0, 1, count).perLayer(depth);
    plan.result = slots.sliced(0, count, 1).dropLeading();
    views[repeat.getResult(plan.savedAs)] = slots.sliced(0, 0, count);
  }
  return carriedPlans[repeat] = std::move(plans);
}

/// The value whose elements, in the same order, are those of `value`.
static Value throughReshapes(Value value, const OpSet &materialised) {
  for (auto reshape = value.getDefiningOp<ReshapeOp>();
       reshape && !materialised.contains(reshape);
       reshape = value.getDefiningOp<ReshapeOp>())
    value = reshape.getX();
  return value;
}

/// Whether the kernel that computes `next` may write it where `arg` is: nothing
/// reads `arg` later, and that kernel reads it at the same points only, in its
/// last pass. What is a transpose of something else would be written at other
/// points.
bool ProgramBuilder::canWriteOver(Value arg, Value next, Block &block) {
  next = throughReshapes(next, schedule.materialised);
  Operation *def = next.getDefiningOp();
  auto producer = fused->groupOf.find(def);
  if (!def || producer == fused->groupOf.end())
    return false;
  const Group &writer = fused->groups[producer->second];
  if (isa<RepeatOp, ConcatOp, ReshapeOp, GatherOp>(def) ||
      isColumnReduction(def) ||
      (writer.kind != KernelKind::Row && writer.kind != KernelKind::Matmul))
    return false;
  auto passes = passesOf(writer, schedule.materialised);
  for (auto &[op, pass] : passes)
    if (pass > passes[def])
      return false;
  for (auto [index, group] : llvm::enumerate(fused->groups)) {
    for (Operation *op : group.ops) {
      bool safe = true;
      forEachRead(
          op, group.domain, schedule.materialised, [&](const Leaf &leaf) {
            if (leaf.base != arg || static_cast<int>(index) < producer->second)
              return;
            bool samePoint = static_cast<int>(index) == producer->second &&
                             leaf.inRegister && leaf.role == Role::Full &&
                             writer.domain.roleOf(next.getType()) == Role::Full;
            if (!samePoint)
              safe = false;
          });
      if (!safe)
        return false;
    }
  }
  for (Value operand : block.getTerminator()->getOperands())
    if (viewBase(operand, schedule.materialised) == arg)
      return false;
  return true;
}

/// Whether `sum`, which adds to the gradient `arg`, may be written where `arg`
/// is while it is computed.
bool ProgramBuilder::accumulatesInPlace(Value arg, Value sum, Block &block) {
  sum = throughReshapes(sum, schedule.materialised);
  if (sum == arg)
    return true;
  // A loop adds layer by layer; whether that is in place is decided inside.
  if (isa_and_nonnull<RepeatOp>(sum.getDefiningOp()))
    return arg.hasOneUse() && *arg.user_begin() == sum.getDefiningOp();
  // Rows are scattered onto what its base brought there.
  if (auto scatter = sum.getDefiningOp<ScatterAddOp>())
    return scatter.getBase() == arg
               ? arg.hasOneUse()
               : hasOneReader(scatter.getBase()) &&
                     accumulatesInPlace(arg, scatter.getBase(), block);
  return arg.hasOneUse() && canWriteOver(arg, sum, block);
}

/// Whether `view` keeps the order of axes that `value` has to be stored in.
bool ProgramBuilder::fitsLayout(Value value, const View &view) const {
  auto order = layouts.find(value);
  return order == layouts.end() ||
         view.transposed(order->second).isContiguous();
}

/// Places the stacked results of a loop, in the order of axes that its body
/// prefers. The body's loop is already the innermost one.
SmallVector<View> ProgramBuilder::placeStacked(RepeatOp repeat,
                                               size_t carried) {
  SmallVector<View> places;
  YieldOp yield = repeat.getYield();
  LoopState inner = loops.pop_back_val();
  for (size_t j = carried; j < yield.getNumOperands(); ++j) {
    Value result = repeat.getResult(j);
    if (auto order = layouts.find(yield.getOperand(j));
        order != layouts.end()) {
      SmallVector<int64_t> stacked = {0};
      for (int64_t axis : order->second)
        stacked.push_back(axis + 1);
      layouts.try_emplace(result, stacked);
    }
    places.push_back(place(result));
  }
  loops.push_back(inner);
  return places;
}

void ProgramBuilder::scheduleLoop(RepeatOp repeat,
                                  std::vector<tfm::Step> &steps) {
  std::vector<CarriedPlan> plans = planCarried(repeat);
  size_t carried = plans.size();
  for (auto [plan, init] : llvm::zip_equal(plans, repeat.getCarried()))
    moveTo(init, plan.init, steps);

  Block *body = repeat.getBlock();
  unsigned depth = loops.size();
  YieldOp yield = repeat.getYield();
  for (auto [arg, operand] :
       llvm::zip_equal(repeat.getStackedArgs(), repeat.getStacked()))
    views[arg] = viewOf(operand).perLayer(depth);
  for (auto [arg, operand] :
       llvm::zip_equal(repeat.getSharedArgs(), repeat.getShared()))
    views[arg] = viewOf(operand);
  for (auto [arg, plan] : llvm::zip_equal(repeat.getCarriedArgs(), plans))
    views[arg] = plan.arg;

  loops.push_back({time, {}, repeat});
  findLayouts(*body);
  findMaterialised(*body, schedule.materialised);
  FusedBlock bodyFused = fuse(*body, schedule.materialised);
  SmallVector<View> stackedResults = placeStacked(repeat, carried);
  const FusedBlock *outer = fused;
  fused = &bodyFused;
  for (size_t i = 0; i < yield.getNumOperands(); ++i) {
    Value value = yield.getOperand(i);
    if (i >= carried) {
      View target = stackedResults[i - carried].perLayer(depth);
      auto keepsApart = [&](Value arg) {
        const View &from = views[arg];
        return from.buffer != target.buffer || from.offset != target.offset ||
               accumulatesInPlace(arg, value, *body);
      };
      bool inPlace = target.buffer != schedule.gradientRegion ||
                     llvm::all_of(repeat.getStackedArgs(), keepsApart);
      if (inPlace && fitsLayout(value, target))
        targets.try_emplace(value, target);
    } else if (plans[i].savedAs >= 0 ||
               canWriteOver(repeat.getCarriedArgs()[i], value, *body)) {
      targets[value] = plans[i].target;
    }
  }
  tfm::Step loop;
  loop.count = repeat.getCount();
  loop.reverse = repeat.getReverse();
  // Operands are read, and results written, all through the loop.
  for (Value operand : repeat->getOperands())
    if (!isSplat(viewBase(operand, schedule.materialised)) &&
        !llvm::is_contained(repeat.getCarried(), operand))
      touch(viewOf(operand));
  scheduleBlock(loop.body);
  // Save before the carried values change.
  for (size_t i = carried; i < yield.getNumOperands(); ++i)
    moveTo(yield.getOperand(i), stackedResults[i - carried].perLayer(depth),
           loop.body);
  // A next value that is still where one will be written goes through a buffer
  // of its own.
  for (size_t i = 0; i < carried; ++i) {
    Value value = yield.getOperand(i);
    auto arg = dyn_cast<BlockArgument>(viewBase(value, schedule.materialised));
    if (arg && llvm::is_contained(repeat.getCarriedArgs(), arg) &&
        viewOf(value) != plans[i].target) {
      View copy = allocate(value);
      moveTo(value, copy, loop.body);
      views[value] = copy;
    }
  }
  for (size_t i = 0; i < carried; ++i)
    moveTo(yield.getOperand(i), plans[i].target, loop.body);
  fused = outer;
  LoopState state = loops.pop_back_val();
  for (int touched : state.touched) {
    Buffer &buffer = schedule.buffers[touched];
    buffer.end = std::max(buffer.end, time - 1);
    // An enclosing loop that the buffer lives outside of keeps it longer still.
    if (loops.size() > home[touched])
      loops[home[touched]].touched.push_back(touched);
  }
  for (auto [i, plan] : llvm::enumerate(plans))
    views[repeat.getResult(i)] = plan.result;
  steps.push_back(std::move(loop));
}
