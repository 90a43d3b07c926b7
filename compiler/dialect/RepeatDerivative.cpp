//===- RepeatDerivative.cpp - the derivative of repeated layers -----------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The derivative of a repeat is the repeat of its body's derivative over the
// layers in reversed order. Its body is built by a reverse sweep over a copy of
// the forward body; the forward values that the swept ops mention are then
// either saved by the forward repeat, as further stacked results, or rebuilt in
// the reversed body where that is cheap.
//
//===----------------------------------------------------------------------===//

#include "compiler/dialect/Attributes.h"
#include "compiler/dialect/ReverseSweep.h"
#include "compiler/dialect/TfmBuilder.h"

#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace tfm;

namespace {

int64_t sizeOf(Value value) { return tensorType(value).getNumElements(); }

/// Whether `op` only moves elements of its one operand, without making fewer of
/// them: its operand is then the better thing to save.
bool onlyMoves(Operation *op) {
  if (auto cast = dyn_cast_or_null<CastOp>(op))
    return tensorType(cast.getX()).getElementTypeBitWidth() <=
           tensorType(cast.getY()).getElementTypeBitWidth();
  return isa_and_nonnull<BroadcastOp, ReshapeOp, TransposeOp>(op);
}

/// Whether computing `op` again costs about as much as loading its result.
bool isCheap(Operation *op) { return op->hasTrait<CheapToRebuild>(); }

/// What the reversed body needs of the forward body, and how it gets it.
class ForwardValues {
public:
  /// `forward` has the arguments of a body of `op`.
  ForwardValues(RepeatOp op, Block &forward) : forward(forward) {
    carriedEnd = 1 + op.getCarried().size();
    stackedEnd = carriedEnd + op.getStacked().size();
  }

  /// Decides for every value of the forward body that `reversed` uses.
  void decide(Block &reversed);

  /// Values that the forward repeat has to yield, in program order.
  llvm::SetVector<Value> saved;
  /// Stacked and shared arguments that are read again, as argument numbers.
  llvm::SetVector<unsigned> stacked, shared;

  /// Replaces the uses in `reversed` of forward values, given what stands for
  /// saved values and arguments; rebuilds the rest before its first use.
  void substitute(Block &reversed, IRMapping &known);

private:
  bool canRebuild(Value value);
  Value source(Value value) const;
  void require(Value value);
  Value rebuild(OpBuilder &builder, Value value, IRMapping &known);

  Block &forward;
  unsigned carriedEnd, stackedEnd;
  /// How many elements of a value the needed slices of it hold.
  llvm::DenseMap<Value, int64_t> sliced;
  /// Those of which that is known, and those whose arguments are recorded: a
  /// value may be reached on many ways.
  llvm::DenseSet<Value> rebuildable, required;
};

bool ForwardValues::canRebuild(Value value) {
  if (saved.contains(value) || rebuildable.contains(value))
    return true;
  if (auto arg = dyn_cast<BlockArgument>(value))
    return arg.getArgNumber() == 0 || arg.getArgNumber() >= carriedEnd;
  Operation *op = value.getDefiningOp();
  if (!isCheap(op) || !llvm::all_of(op->getOperands(), [&](Value operand) {
        return canRebuild(operand);
      }))
    return false;
  rebuildable.insert(value);
  return true;
}

/// Follows moves back to the value worth saving. A slice is saved by saving
/// what it was cut from when all of that is needed: split(x) is.
Value ForwardValues::source(Value value) const {
  while (Operation *op = value.getDefiningOp()) {
    if (auto slice = dyn_cast<SliceOp>(op)) {
      if (sliced.lookup(slice.getX()) < sizeOf(slice.getX()))
        break;
    } else if (!onlyMoves(op)) {
      break;
    }
    value = op->getOperand(0);
  }
  return value;
}

/// Records the arguments that rebuilding `value` reads.
void ForwardValues::require(Value value) {
  if (saved.contains(value) || !required.insert(value).second)
    return;
  if (auto arg = dyn_cast<BlockArgument>(value)) {
    unsigned number = arg.getArgNumber();
    if (number >= stackedEnd)
      shared.insert(number);
    else if (number >= carriedEnd)
      stacked.insert(number);
    return;
  }
  for (Value operand : value.getDefiningOp()->getOperands())
    require(operand);
}

void ForwardValues::decide(Block &reversed) {
  // In program order, so that a value is asked for after those it is made of.
  llvm::DenseSet<Value> used;
  for (Operation &op : reversed)
    for (Value operand : op.getOperands())
      if (operand.getParentBlock() == &forward)
        used.insert(operand);
  SmallVector<Value> needed;
  auto collect = [&](Value value) {
    if (used.contains(value))
      needed.push_back(value);
  };
  llvm::for_each(forward.getArguments(), collect);
  for (Operation &op : forward)
    llvm::for_each(op.getResults(), collect);

  llvm::DenseSet<Value> seen;
  for (Value value : needed) {
    while (onlyMoves(value.getDefiningOp()))
      value = value.getDefiningOp()->getOperand(0);
    if (auto slice = value.getDefiningOp<SliceOp>())
      if (seen.insert(value).second)
        sliced[slice.getX()] += sizeOf(value);
  }
  for (Value value : needed) {
    if (canRebuild(value))
      continue;
    Value root = source(value);
    if (!canRebuild(root))
      saved.insert(root);
  }
  for (Value value : needed)
    require(value);
}

Value ForwardValues::rebuild(OpBuilder &builder, Value value,
                             IRMapping &known) {
  if (Value mapped = known.lookupOrNull(value))
    return mapped;
  Operation *op = value.getDefiningOp();
  for (Value operand : op->getOperands())
    rebuild(builder, operand, known);
  Operation *clone = builder.clone(*op, known);
  // The name is the forward value's.
  clone->removeAttr(valueAttribute);
  return known.lookup(value);
}

void ForwardValues::substitute(Block &reversed, IRMapping &known) {
  OpBuilder builder(reversed.front().getContext());
  for (Operation &op : llvm::make_early_inc_range(reversed)) {
    builder.setInsertionPoint(&op);
    for (OpOperand &operand : op.getOpOperands())
      if (operand.get().getParentBlock() == &forward)
        operand.set(rebuild(builder, operand.get(), known));
  }
}

/// Which carried values need a cotangent in some layer: those whose operand is
/// active, and those that become active on their way through the layers.
/// Leaves the activity of the body's values in `sweep`.
SmallVector<bool> activateBody(ReverseSweep &sweep, RepeatOp op, Block &body,
                               ArrayRef<bool> wanted) {
  size_t numCarried = op.getCarried().size();
  // The order of layers is an operand behind these, and no argument.
  auto arguments = body.getArguments().drop_front();
  for (auto [arg, isWanted] :
       llvm::zip_equal(arguments, wanted.take_front(arguments.size())))
    if (isWanted)
      sweep.activate(arg);
  SmallVector<bool> result(numCarried, false);
  for (bool changed = true; changed;) {
    changed = false;
    sweep.propagateActivity(body);
    for (size_t i = 0; i < numCarried; ++i) {
      BlockArgument arg = body.getArgument(1 + i);
      if (sweep.isActive(body.getTerminator()->getOperand(i)) &&
          !sweep.isActive(arg)) {
        sweep.activate(arg);
        changed = true;
      }
      result[i] = sweep.isActive(arg);
    }
  }
  return result;
}

} // namespace

FailureOr<Cotangents> tfm::differentiateRepeat(OpBuilder &builder, RepeatOp op,
                                               ValueRange cotangents,
                                               ArrayRef<bool> wanted) {
  if (op.getUpdated() != 0)
    return op.emitOpError("has no derivative where it updates slices");
  Location loc = op.getLoc();
  const int64_t count = op.getCount();
  const size_t numCarried = op.getCarried().size(),
               numStacked = op.getStacked().size();
  Cotangents result(op->getNumOperands());

  // The forward body is swept in a copy: nested repeats are replaced in it.
  Region forwardRegion, reversedRegion;
  IRMapping copies;
  op.getBody().cloneInto(&forwardRegion, copies);
  Block &forward = forwardRegion.front();
  Operation *yield = forward.getTerminator();

  Block &reversed = reversedRegion.emplaceBlock();
  OpBuilder body(builder.getContext());
  body.setInsertionPointToStart(&reversed);
  ReverseSweep sweep(body);
  SmallVector<bool> carriedActive = activateBody(sweep, op, forward, wanted);

  // Arguments: the layer, the cotangents of the next carried values, and those
  // of the values that this layer stacked.
  reversed.addArgument(builder.getIndexType(), loc);
  SmallVector<Value> carriedOperands, stackedOperands, sharedOperands;
  for (size_t i = 0; i < numCarried; ++i) {
    if (!carriedActive[i])
      continue;
    Value start = cotangents[i];
    if (!start)
      start = splat(builder, loc, tensorType(op.getCarried()[i]), 0.0);
    carriedOperands.push_back(start);
    Value arg = reversed.addArgument(start.getType(), loc);
    sweep.accumulate(yield->getOperand(i), arg);
  }
  const size_t numCotangents = carriedOperands.size();
  for (size_t i = numCarried; i < op->getNumResults(); ++i) {
    Value value = yield->getOperand(i);
    if (!cotangents[i] || !sweep.isActive(value))
      continue;
    stackedOperands.push_back(cotangents[i]);
    sweep.accumulate(value, reversed.addArgument(value.getType(), loc));
  }
  if (carriedOperands.empty() && stackedOperands.empty())
    return result;
  if (failed(sweep.run(forward)))
    return failure();

  // Yielded: the cotangents of the carried arguments, sums of those of shared
  // operands, and those of this layer's slice of stacked operands. Of a slice
  // that several turns may choose theirs are added up in its place.
  SmallVector<Value> yielded, perLayer, perChosen, chosenOperands,
      updatedOperands;
  SmallVector<size_t> sumOf, updateOf, stackOf;
  for (size_t i = 0; i < numCarried; ++i) {
    if (!carriedActive[i])
      continue;
    BlockArgument arg = forward.getArgument(1 + i);
    Value value = sweep.cotangent(arg);
    yielded.push_back(value ? value : splat(body, loc, tensorType(arg), 0.0));
  }
  for (size_t i = numCarried; i + 1 < forward.getNumArguments(); ++i) {
    Value value = sweep.cotangent(forward.getArgument(1 + i));
    if (!wanted[i] || !value)
      continue;
    auto type = cast<RankedTensorType>(value.getType());
    if (i < numCarried + numStacked && op.isChosen(i - numCarried)) {
      updateOf.push_back(i);
      updatedOperands.push_back(
          splat(builder, loc, tensorType(op->getOperand(i)), 0.0));
      perChosen.push_back(
          AddOp::create(body, loc, reversed.addArgument(type, loc), value));
      continue;
    }
    if (i < numCarried + numStacked) {
      stackOf.push_back(i);
      perLayer.push_back(value);
      continue;
    }
    Value sum = reversed.insertArgument(1 + carriedOperands.size(), type, loc);
    carriedOperands.push_back(splat(builder, loc, type, 0.0));
    sumOf.push_back(i);
    yielded.push_back(AddOp::create(body, loc, sum, value));
  }
  llvm::append_range(yielded, perChosen);
  llvm::append_range(yielded, perLayer);
  YieldOp::create(body, loc, yielded);
  eraseDeadOps(reversed);

  // Connect the reversed body with what it needs of the forward one.
  ForwardValues needs(op, forward);
  needs.decide(reversed);
  IRMapping known;
  known.map(forward.getArgument(0), reversed.getArgument(0));
  size_t numByLayer = stackedOperands.size();
  // Those that are updated are there already, and stand behind the others.
  auto addByLayer = [&](Type type) {
    return reversed.insertArgument(1 + carriedOperands.size() + numByLayer++,
                                   type, loc);
  };
  for (unsigned number : needs.stacked) {
    BlockArgument arg = forward.getArgument(number);
    Value operand = op->getOperand(number - 1);
    if (op.isChosen(number - 1 - numCarried)) {
      size_t before =
          carriedOperands.size() + numByLayer + chosenOperands.size();
      chosenOperands.push_back(operand);
      known.map(arg, reversed.insertArgument(1 + before, arg.getType(), loc));
    } else {
      stackedOperands.push_back(operand);
      known.map(arg, addByLayer(arg.getType()));
    }
  }
  SmallVector<Value> forwardYields(yield->getOperands());
  SmallVector<Type> forwardTypes(op.getResultTypes());
  SmallVector<size_t> savedResults;
  for (Value value : needs.saved) {
    known.map(value, addByLayer(value.getType()));
    auto stackedYields = ArrayRef(forwardYields).drop_front(numCarried);
    const auto *found = llvm::find(stackedYields, value);
    savedResults.push_back(numCarried + (found - stackedYields.begin()));
    if (found != stackedYields.end())
      continue;
    forwardYields.push_back(value);
    forwardTypes.push_back(stackedType(tensorType(value), count));
  }
  for (unsigned number : needs.shared) {
    sharedOperands.push_back(op->getOperand(number - 1));
    BlockArgument arg = forward.getArgument(number);
    known.map(arg, reversed.addArgument(arg.getType(), loc));
  }
  needs.substitute(reversed, known);

  // The forward repeat, which now saves.
  yield->setOperands(forwardYields);
  eraseDeadOps(forward);
  OpBuilder before(op);
  auto saving = RepeatOp::create(
      before, loc, forwardTypes, count, op.getReverse(), op.getCarried(),
      op.getStacked(), op.getShared(), op.getOrder(), op.getChosen());
  saving->setDiscardableAttrs(op->getDiscardableAttrDictionary());
  saving.getBody().takeBody(forwardRegion);
  op->replaceAllUsesWith(saving.getResults().take_front(op->getNumResults()));
  for (size_t index : savedResults)
    stackedOperands.push_back(saving.getResult(index));

  // Cotangents of stacked results come before the operands that are read
  // again and the saved values, as their arguments do.
  size_t numChosen = chosenOperands.size() + updatedOperands.size();
  llvm::append_range(stackedOperands, chosenOperands);
  llvm::append_range(stackedOperands, updatedOperands);
  SmallVector<Type> types;
  llvm::append_range(types, ValueRange(carriedOperands).getTypes());
  llvm::append_range(types, ValueRange(updatedOperands).getTypes());
  for (Value value : perLayer)
    types.push_back(stackedType(tensorType(value), count));
  auto backward = RepeatOp::create(
      builder, loc, types, count, !op.getReverse(), carriedOperands,
      stackedOperands, sharedOperands, numChosen ? op.getOrder() : Value(),
      numChosen, updatedOperands.size());
  backward.getBody().takeBody(reversedRegion);

  for (size_t i = 0, next = 0; i < numCarried; ++i)
    if (carriedActive[i]) {
      if (wanted[i])
        result[i] = backward.getResult(next);
      ++next;
    }
  for (auto [i, operand] : llvm::enumerate(sumOf))
    result[operand] = backward.getResult(numCotangents + i);
  for (auto [i, operand] : llvm::enumerate(updateOf))
    result[operand] = backward.getUpdatedResults()[i];
  for (auto [i, operand] : llvm::enumerate(stackOf))
    result[operand] = backward.getStackedResults()[i];
  return result;
}

FailureOr<Cotangents> RepeatOp::buildVJP(OpBuilder &builder,
                                         ValueRange cotangents) {
  SmallVector<bool> wanted;
  for (Value operand : getOperands())
    wanted.push_back(isFloat(operand) && !operand.getDefiningOp<ConstantOp>());
  return differentiateRepeat(builder, *this, cotangents, wanted);
}
