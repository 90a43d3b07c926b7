//===- StripDropout.cpp - add @evaluate -----------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/dialect/Attributes.h"
#include "compiler/dialect/Programs.h"
#include "compiler/dialect/TfmDialect.h"
#include "compiler/transforms/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"

namespace tfm {
#define GEN_PASS_DEF_STRIPDROPOUTPASS
#include "compiler/transforms/Passes.h.inc"
} // namespace tfm

using namespace mlir;
using namespace tfm;

namespace {

void stripDropout(func::FuncOp function) {
  function.walk([](Operation *op) {
    if (auto dropout = dyn_cast<DropoutOp>(op)) {
      dropout.replaceAllUsesWith(dropout.getX());
      dropout.erase();
    } else if (auto attention = dyn_cast<AttentionOp>(op)) {
      attention.removeDropoutAttr();
      attention.removeSiteAttr();
      attention.getLayerMutable().clear();
    }
  });
}

struct StripDropoutPass : tfm::impl::StripDropoutPassBase<StripDropoutPass> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    for (ProgramKind kind : {ProgramKind::Forward, ProgramKind::ForwardBatch})
      if (auto forward = findProgram(module, kind))
        stripDropout(forward);
    auto loss = findProgram(module, ProgramKind::Loss);
    if (!loss)
      return;
    auto evaluate = cast<func::FuncOp>(loss->clone());
    evaluate.setSymName(nameOf(ProgramKind::Evaluate));
    evaluate->removeAttr(shapesAttribute);
    module.insert(std::next(loss->getIterator()), evaluate);
    stripDropout(evaluate);
  }
};

} // namespace
