//===- AddCandidates.cpp - the best candidates beside the logits ----------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/dialect/Programs.h"
#include "compiler/dialect/TfmDialect.h"
#include "compiler/transforms/Passes.h"
#include "compiler/transforms/ReadRecipe.h"
#include "runtime/tfm_model.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tfm {
#define GEN_PASS_DEF_ADDCANDIDATESPASS
#include "compiler/transforms/Passes.h.inc"
} // namespace tfm

using namespace mlir;
using namespace tfm;

namespace {

struct AddCandidatesPass : tfm::impl::AddCandidatesPassBase<AddCandidatesPass> {
  using AddCandidatesPassBase::AddCandidatesPassBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    if (least == 0)
      return;
    FailureOr<int64_t> topK = topKOfGeneration(module);
    if (failed(topK))
      return signalPassFailure();
    int64_t count = std::max<int64_t>(least, *topK < most ? *topK + 1 : 0);
    for (ProgramKind kind : cachedPrograms())
      if (func::FuncOp function = findProgram(module, kind))
        if (failed(addTo(function, count)))
          return signalPassFailure();
  }

private:
  LogicalResult addTo(func::FuncOp function, int64_t count) {
    Operation *end = function.getBody().front().getTerminator();
    Value logits = end->getOperand(0);
    RankedTensorType type = tensorType(logits);
    int64_t vocabulary = type.getShape().back();
    if (vocabulary < leastLogits || vocabulary <= count ||
        vocabulary > TopKOp::mostElements || !type.getElementType().isF32())
      return success();
    OpBuilder builder(end);
    auto best = TopKOp::create(builder, logits.getLoc(), logits, count);
    return success(
        succeeded(addResult(function, best.getValues(), TFM_OUT_CANDIDATES)) &&
        succeeded(
            addResult(function, best.getIndices(), TFM_OUT_CANDIDATE_IDS)));
  }
};

} // namespace
