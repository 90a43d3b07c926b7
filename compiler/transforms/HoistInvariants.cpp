//===- HoistInvariants.cpp - what is the same in all layers, once ---------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/dialect/TfmDialect.h"
#include "compiler/transforms/Passes.h"

#include "mlir/Analysis/TopologicalSortUtils.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/SetVector.h"

namespace tfm {
#define GEN_PASS_DEF_HOISTINVARIANTSPASS
#include "compiler/transforms/Passes.h.inc"
} // namespace tfm

using namespace mlir;
using namespace tfm;

namespace {

/// What of one repeat's body is the same in all layers.
class Invariants {
public:
  explicit Invariants(RepeatOp repeat) : repeat(repeat) {
    for (BlockArgument argument : repeat.getSharedArgs())
      values.insert(argument);
    for (Operation &op : repeat.getBlock()->without_terminator())
      if (op.getNumRegions() == 0 && isPure(&op) &&
          llvm::all_of(op.getOperands(),
                       [&](Value value) { return values.contains(value); }))
        values.insert_range(op.getResults());
  }

  /// Computes before the repeat what takes long and is no larger than what
  /// layers hand on, and hands it to all of them.
  void hoist() {
    SmallVector<Operation *> wanted;
    for (Operation &op : repeat.getBlock()->without_terminator())
      if (isa<ScalarFunctionOpInterface>(op) &&
          !op.hasTrait<CheapToRebuild>() && values.contains(op.getResult(0)) &&
          isSmall(op.getResult(0)))
        wanted.push_back(&op);
    if (wanted.empty())
      return;
    OpBuilder builder(repeat);
    IRMapping outside;
    outside.map(repeat.getSharedArgs(), repeat.getShared());
    for (Operation *op : needed(wanted))
      builder.clone(*op, outside);
    for (Operation *op : wanted) {
      Value inside = op->getResult(0);
      repeat.getSharedMutable().append(outside.lookup(inside));
      inside.replaceAllUsesWith(
          repeat.getBlock()->addArgument(inside.getType(), inside.getLoc()));
      op->erase();
    }
  }

private:
  /// No memory is taken that one more value between layers would not take.
  bool isSmall(Value value) {
    auto elements = [](Value of) { return tensorType(of).getNumElements(); };
    return llvm::any_of(repeat.getCarried(), [&](Value carried) {
      return elements(value) <= elements(carried);
    });
  }

  /// These, and what of the body they are made of, in its order.
  SetVector<Operation *> needed(ArrayRef<Operation *> wanted) const {
    SetVector<Operation *> all(wanted.begin(), wanted.end());
    for (size_t i = 0; i != all.size(); ++i)
      for (Value operand : all[i]->getOperands())
        if (Operation *op = operand.getDefiningOp())
          all.insert(op);
    return topologicalSort(all);
  }

  RepeatOp repeat;
  llvm::DenseSet<Value> values;
};

struct HoistInvariantsPass
    : tfm::impl::HoistInvariantsPassBase<HoistInvariantsPass> {
  void runOnOperation() override {
    // What an inner repeat hands out the outer one may hand on.
    getOperation().walk<WalkOrder::PostOrder>(
        [](RepeatOp repeat) { Invariants(repeat).hoist(); });
  }
};

} // namespace
