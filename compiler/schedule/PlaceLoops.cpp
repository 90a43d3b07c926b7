//===- PlaceLoops.cpp - where the values of loops go ----------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/schedule/Fuse.h"
#include "compiler/schedule/PlaceValues.h"

using namespace mlir;
using namespace tfm;
using namespace tfm::sched;

std::vector<CarriedPlan> &ValuePlacer::planCarried(RepeatOp repeat) {
  auto [it, fresh] = carriedPlans.try_emplace(repeat);
  if (!fresh)
    return it->second;
  std::vector<CarriedPlan> plans(repeat.getCarried().size());
  size_t carried = plans.size();
  tfm::YieldOp yield = repeat.getYield();
  auto count = static_cast<int64_t>(repeat.getCount());
  for (auto [i, plan] : llvm::enumerate(plans)) {
    RankedTensorType type = tensorType(repeat.getCarried()[i]);
    Value result = repeat.getResult(i), argument = repeat.getCarriedArgs()[i];
    for (size_t j = carried + repeat.getUpdated(); j < yield.getNumOperands();
         ++j)
      if (!repeat.getReverse() && yield.getOperand(j) == argument)
        plan.savedAs = static_cast<int>(j);
    if (plan.savedAs < 0) {
      View place = makeWantedPlace(result);
      if (!place.isValid() || !canBeViewed(result, place) ||
          !canBeViewed(argument, place))
        place = allocate(result);
      plan.init = plan.arg = plan.next = plan.result = place;
      continue;
    }
    // Layer i reads slot i and writes slot i + 1, so that the values to save
    // are simply left where they are.
    RankedTensorType slotsType = stackedType(type, count + 1);
    View slots = contiguousView(
        slotsType,
        allocate(freshName(result), contiguousView(slotsType).numBytes()));
    unsigned depth = loops.size();
    plan.init = slots.sliced(0, 0, 1).dropLeading();
    plan.arg = slots.sliced(0, 0, count).perLayer(depth);
    plan.next = slots.sliced(0, 1, count).perLayer(depth);
    plan.result = slots.sliced(0, count, 1).dropLeading();
    views[repeat.getResult(plan.savedAs)] = slots.sliced(0, 0, count);
  }
  return carriedPlans[repeat] = std::move(plans);
}

/// Whether anything behind `op`, of the block that `value` is in, reads it or
/// what is a view of it.
static bool isReadAfter(Value value, Operation *op) {
  return llvm::any_of(value.getUsers(), [&](Operation *user) {
    if (isViewOp(user))
      return isReadAfter(user->getResult(0), op);
    Operation *reader = op->getBlock()->findAncestorOpInBlock(*user);
    return !reader || op->isBeforeInBlock(reader);
  });
}

/// Whether the kernel that computes `next` may write it where `arg` is: nothing
/// reads `arg` later, and that kernel reads it at the same points only, in its
/// last pass. What is a transpose of something else would be written at other
/// points.
bool ValuePlacer::canWriteOver(Value arg, Value next, Block &block) {
  next = throughReshapes(next);
  auto writer = next.getDefiningOp<KernelOp>();
  if (!writer || writer->getBlock() != &block)
    return false;
  // Some rows are written onto what the others stay as, perhaps by two.
  if (writer.isInPlace()) {
    Value base = writer.getInputs().front();
    return llvm::none_of(writer.getInputs().drop_front(),
                         [&](Value input) { return viewBase(input) == arg; }) &&
           !isReadAfter(arg, writer) &&
           (viewBase(base) == arg ||
            (hasOneReader(base) && canWriteOver(arg, base, block)));
  }
  if (writer.getKind() != KernelKind::Row &&
      writer.getKind() != KernelKind::Matmul)
    return false;
  unsigned number = cast<OpResult>(next).getResultNumber();
  Operation *def = writer.getYield()->getOperand(number).getDefiningOp();
  if (!def || isa<GatherOp, ReduceChunksOp>(def) || isColumnReduction(def))
    return false;
  llvm::DenseMap<Operation *, int> passes = passesOf(*writer.getBlock());
  int written = passes.lookup(def);
  for (auto &[op, pass] : passes)
    if (pass > written)
      return false;
  for (auto [i, input] : llvm::enumerate(writer.getInputs())) {
    bool samePoint = input == arg &&
                     writer.getInputAccess()[i] == Access::Point &&
                     writer.getResultAccess()[number] == Access::Point;
    if (viewBase(input) == arg && !samePoint)
      return false;
  }
  return !isReadAfter(arg, writer);
}

/// Whether `sum`, which adds to the gradient `arg`, may be written where `arg`
/// is while it is computed.
bool ValuePlacer::accumulatesInPlace(Value arg, Value sum, Block &block) {
  sum = throughReshapes(sum);
  if (sum == arg)
    return true;
  // A loop adds layer by layer; whether that is in place is decided inside.
  if (isa_and_nonnull<RepeatOp>(sum.getDefiningOp()))
    return arg.hasOneUse() && *arg.user_begin() == sum.getDefiningOp();
  // Rows are scattered onto what its base brought there.
  if (auto kernel = sum.getDefiningOp<KernelOp>();
      kernel && kernel.getKind() == KernelKind::ScatterAdd) {
    Value base = kernel.getInputs().front();
    return base == arg
               ? arg.hasOneUse()
               : hasOneReader(base) && accumulatesInPlace(arg, base, block);
  }
  return arg.hasOneUse() && canWriteOver(arg, sum, block);
}

SmallVector<View> ValuePlacer::placeAll(ValueRange values) {
  SmallVector<View> places;
  for (Value value : values)
    places.push_back(place(value));
  return places;
}

/// Has what a layer computes written where the loop wants it.
void ValuePlacer::placeTargets(RepeatOp repeat, ArrayRef<CarriedPlan> plans,
                               ArrayRef<View> updated, ArrayRef<View> stacked) {
  Block *body = repeat.getBlock();
  tfm::YieldOp yield = repeat.getYield();
  unsigned depth = loops.size() - 1;
  for (auto [i, value] : llvm::enumerate(yield.getOperands())) {
    if (i < plans.size()) {
      if (plans[i].savedAs >= 0 ||
          canWriteOver(repeat.getCarriedArgs()[i], value, *body))
        wanted[value] = plans[i].next;
      continue;
    }
    if (size_t slice = i - plans.size(); slice < updated.size()) {
      if (canWriteOver(repeat.getUpdatedArgs()[slice], value, *body) &&
          fitsOrder(value, updated[slice]))
        wanted.try_emplace(value, updated[slice]);
      continue;
    }
    View slot = stacked[i - plans.size() - updated.size()].perLayer(depth);
    auto keepsApart = [&, value = value](Value arg) {
      const View &from = views[arg];
      return from.buffer != slot.buffer || from.offset != slot.offset ||
             accumulatesInPlace(arg, value, *body);
    };
    bool inPlace = !permanent.isGradient(slot) ||
                   llvm::all_of(repeat.getStackedArgs(), keepsApart);
    if (inPlace && fitsOrder(value, slot))
      wanted.try_emplace(value, slot);
  }
}

/// A next value that is still where one will be written goes through a buffer
/// of its own.
void ValuePlacer::separateNext(RepeatOp repeat, ArrayRef<View> next) {
  for (auto [value, to] : llvm::zip(repeat.getYield().getOperands(), next)) {
    auto arg = dyn_cast<BlockArgument>(viewBase(value));
    if (!arg ||
        !(llvm::is_contained(repeat.getCarriedArgs(), arg) ||
          llvm::is_contained(repeat.getUpdatedArgs(), arg)) ||
        viewOf(value) == to)
      continue;
    View copy = allocate(value);
    moveTo(value, copy);
    views[value] = copy;
  }
}

void ValuePlacer::placeLoop(RepeatOp repeat) {
  std::vector<CarriedPlan> plans = planCarried(repeat);
  for (auto [plan, init] : llvm::zip_equal(plans, repeat.getCarried()))
    moveTo(init, plan.init);
  unsigned depth = loops.size();
  tfm::YieldOp yield = repeat.getYield();
  for (auto [arg, operand] :
       llvm::zip_equal(repeat.getSharedArgs(), repeat.getShared()))
    views[arg] = viewOf(operand);
  for (auto [arg, plan] : llvm::zip_equal(repeat.getCarriedArgs(), plans))
    views[arg] = plan.arg;
  SmallVector<View> stacked = placeAll(repeat.getStackedResults()),
                    updated = placeAll(repeat.getUpdatedResults());
  for (auto [operand, whole] :
       llvm::zip_equal(repeat.getUpdatedOperands(), updated))
    moveTo(operand, whole);

  auto loop = LoopOp::create(b, repeat.getLoc(), repeat.getCountAttr(),
                             repeat.getReverseAttr());
  Block &body = loop.getBody().emplaceBlock();
  layers[repeat.getLayer()] =
      body.addArgument(b.getIndexType(), repeat.getLoc());
  loops.push_back(loop);
  lastBuffers.push_back(nullptr);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToEnd(&body);
  Value number;
  if (Value order = repeat.getOrder())
    number = emit(viewOf(order).perLayer(depth));
  size_t numRead = repeat.getStacked().size() - updated.size();
  for (size_t i = 0; i < numRead; ++i) {
    View whole = viewOf(repeat.getStacked()[i]);
    views[repeat.getStackedArgs()[i]] =
        repeat.isChosen(i) ? whole.atRow(number) : whole.perLayer(depth);
  }
  // From here on they are the slices.
  for (auto [arg, view] : llvm::zip_equal(repeat.getUpdatedArgs(), updated))
    views[arg] = view = view.atRow(number);
  placeTargets(repeat, plans, updated, stacked);
  placeBlock(*repeat.getBlock());
  // Save before what is carried, and slices, change.
  auto yielded = yield.getOperands();
  for (auto [value, slot] :
       llvm::zip_equal(yielded.take_back(stacked.size()), stacked))
    moveTo(value, slot.perLayer(depth));
  SmallVector<View> next;
  for (const CarriedPlan &plan : plans)
    next.push_back(plan.next);
  llvm::append_range(next, updated);
  separateNext(repeat, next);
  for (auto [value, to] : llvm::zip(yielded, next))
    moveTo(value, to);
  loops.pop_back();
  lastBuffers.pop_back();
  for (auto [i, plan] : llvm::enumerate(plans))
    views[repeat.getResult(i)] = plan.result;
}
