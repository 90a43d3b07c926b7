//===- MeasurePredictions.cpp - what else @evaluate measures --------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/dialect/Programs.h"
#include "compiler/dialect/TfmBuilder.h"
#include "compiler/transforms/Passes.h"
#include "compiler/transforms/ReadRecipe.h"
#include "runtime/tfm_model.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tfm {
#define GEN_PASS_DEF_MEASUREPREDICTIONSPASS
#include "compiler/transforms/Passes.h.inc"
} // namespace tfm

using namespace mlir;
using namespace tfm;

namespace {

struct MeasurePredictionsPass
    : tfm::impl::MeasurePredictionsPassBase<MeasurePredictionsPass> {
  void runOnOperation() override {
    auto evaluate = findProgram(getOperation(), ProgramKind::Evaluate);
    if (!evaluate)
      return;
    FailureOr<bool> isOwn = hasOwnLoss(getOperation());
    if (failed(isOwn))
      return signalPassFailure();
    Operation *end = evaluate.getBody().front().getTerminator();
    constexpr unsigned losses = 1;
    auto loss = end->getOperand(losses).getDefiningOp<CrossEntropyOp>();
    // A loss of the model's own may be of other logits and targets.
    if (*isOwn || !loss || end->getOperand(losses) != loss.getLosses() ||
        !isa<BlockArgument>(loss.getTargets()) ||
        tensorType(loss.getLogits()).getShape().back() > TopKOp::mostElements)
      return;
    OpBuilder builder(end);
    TfmBuilder b{builder, loss.getLoc()};
    Value best =
        TopKOp::create(builder, b.loc, loss.getLogits(), 1).getIndices();
    best = b.reshape(best, tensorType(loss.getTargets()));
    Value right = b.compare(CompareKind::eq, best, loss.getTargets());
    if (failed(addResult(evaluate, b.cast(right, builder.getF32Type()),
                         TFM_OUT_RIGHT)))
      return signalPassFailure();
    if (loss.getLabelSmoothing().isZero())
      return;
    auto plain = CrossEntropyOp::create(builder, b.loc, loss.getLogits(),
                                        loss.getTargets(), loss.getIgnoreAttr(),
                                        builder.getF64FloatAttr(0));
    if (failed(addResult(evaluate, plain.getLosses(), TFM_OUT_SURPRISALS)))
      return signalPassFailure();
  }
};

} // namespace
