//===- AccumulateGradients.cpp - @train adds to the gradients -------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/dialect/Programs.h"
#include "compiler/dialect/TfmDialect.h"
#include "compiler/transforms/Optimizer.h"
#include "compiler/transforms/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"

namespace tfm {
#define GEN_PASS_DEF_ACCUMULATEGRADIENTSPASS
#include "compiler/transforms/Passes.h.inc"
} // namespace tfm

using namespace mlir;
using namespace tfm;

namespace {

/// A copy of `repeat` whose last stacked operand is `operand`, and its
/// argument. The old one is erased.
std::pair<RepeatOp, Value> withStackedOperand(RepeatOp repeat, Value operand) {
  OpBuilder builder(repeat);
  SmallVector<Value> stacked(repeat.getStacked());
  stacked.push_back(operand);
  auto wider = RepeatOp::create(builder, repeat.getLoc(),
                                repeat->getResultTypes(), repeat.getCount(),
                                repeat.getReverse(), repeat.getCarried(),
                                stacked, repeat.getShared(), /*order=*/nullptr);
  wider->setDiscardableAttrs(repeat->getDiscardableAttrDictionary());
  auto type = cast<RankedTensorType>(operand.getType());
  Block *body = repeat.getBlock();
  Value argument = body->insertArgument(
      1 + repeat.getCarried().size() + repeat.getStacked().size(),
      type.clone(type.getShape().drop_front()), operand.getLoc());
  wider.getBody().takeBody(repeat.getBody());
  repeat->replaceAllUsesWith(wider->getResults());
  repeat.erase();
  return {wider, argument};
}

/// Makes what `use` reads `sum` plus what it read. A gradient that a repeat
/// stacks is added layer by layer, inside, where the addition costs nothing:
/// the kernel that computes a layer's gradient does it on the way out.
void addTo(OpOperand &use, Value sum) {
  auto result = dyn_cast<OpResult>(use.get());
  auto repeat = result ? dyn_cast<RepeatOp>(result.getOwner()) : RepeatOp();
  unsigned number = result ? result.getResultNumber() : 0;
  if (repeat && result.hasOneUse() && number >= repeat.getCarried().size()) {
    auto [wider, argument] = withStackedOperand(repeat, sum);
    addTo(wider.getYield()->getOpOperand(number), argument);
    return;
  }
  OpBuilder builder(use.getOwner());
  use.set(AddOp::create(builder, use.get().getLoc(), sum, use.get()));
}

struct AccumulateGradientsPass
    : tfm::impl::AccumulateGradientsPassBase<AccumulateGradientsPass> {
  void runOnOperation() override {
    auto train = findProgram(getOperation(), ProgramKind::Train);
    FailureOr<int64_t> steps = microSteps(getOperation());
    if (failed(steps))
      return signalPassFailure();
    if (!train || *steps == 1)
      return;
    Operation *end = train.getBody().front().getTerminator();
    for (unsigned i = 0; i < train.getNumResults(); ++i) {
      auto param =
          train.getResultAttrOfType<FlatSymbolRefAttr>(i, "tfm.gradient");
      if (!param)
        continue;
      unsigned number = train.getNumArguments();
      OpBuilder builder(&getContext());
      DictionaryAttr attributes = builder.getDictionaryAttr(
          builder.getNamedAttr("tfm.gradient", param));
      if (failed(train.insertArgument(number, train.getResultTypes()[i],
                                      attributes, train.getLoc())))
        return signalPassFailure();
      addTo(end->getOpOperand(i), train.getArgument(number));
    }
  }
};

} // namespace
