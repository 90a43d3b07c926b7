//===- AccumulateGradients.cpp - @train adds to the gradients -------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/dialect/Attributes.h"
#include "compiler/dialect/Programs.h"
#include "compiler/dialect/TfmDialect.h"
#include "compiler/transforms/Passes.h"
#include "compiler/transforms/ReadRecipe.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"

namespace tfm {
#define GEN_PASS_DEF_ACCUMULATEGRADIENTSPASS
#include "compiler/transforms/Passes.h.inc"
} // namespace tfm

using namespace mlir;
using namespace tfm;

namespace {

/// Makes what `use` reads `sum` plus what it read. A gradient that a repeat
/// stacks is added layer by layer, inside, where the addition costs nothing:
/// the kernel that computes a layer's gradient does it on the way out. One that
/// a repeat updates begins as the sum.
void addTo(OpOperand &use, Value sum) {
  auto result = dyn_cast<OpResult>(use.get());
  auto repeat = result ? dyn_cast<RepeatOp>(result.getOwner()) : RepeatOp();
  unsigned number = result ? result.getResultNumber() : 0;
  unsigned carried = repeat ? repeat.getCarried().size() : 0;
  if (repeat && result.hasOneUse() && number >= carried &&
      number < carried + repeat.getUpdated()) {
    unsigned operand = carried + repeat.getStacked().size() -
                       repeat.getUpdated() + (number - carried);
    OpBuilder builder(repeat);
    repeat.setOperand(operand, AddOp::create(builder, use.get().getLoc(), sum,
                                             repeat.getOperand(operand)));
    return;
  }
  if (repeat && result.hasOneUse() && number >= carried) {
    Value argument = repeat.addStacked(sum, /*isChosen=*/false);
    addTo(repeat.getYield()->getOpOperand(number), argument);
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
          train.getResultAttrOfType<FlatSymbolRefAttr>(i, gradientAttribute);
      if (!param)
        continue;
      unsigned number = train.getNumArguments();
      OpBuilder builder(&getContext());
      DictionaryAttr attributes = builder.getDictionaryAttr(
          builder.getNamedAttr(gradientAttribute, param));
      if (failed(train.insertArgument(number, train.getResultTypes()[i],
                                      attributes, train.getLoc())))
        return signalPassFailure();
      addTo(end->getOpOperand(i), train.getArgument(number));
    }
  }
};

} // namespace
