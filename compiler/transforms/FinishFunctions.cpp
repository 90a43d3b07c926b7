//===- FinishFunctions.cpp - leave the functions that a binary runs -------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/dialect/Programs.h"
#include "compiler/transforms/Passes.h"
#include "runtime/tfm_model.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tfm {
#define GEN_PASS_DEF_FINISHFUNCTIONSPASS
#include "compiler/transforms/Passes.h.inc"
} // namespace tfm

using namespace mlir;
using namespace tfm;

namespace {

/// Names the first results of a function.
void nameResults(ModuleOp module, ProgramKind kind, ArrayRef<StringRef> names) {
  func::FuncOp func = findProgram(module, kind);
  if (!func)
    return;
  for (auto [i, name] : llvm::enumerate(names.take_front(func.getNumResults())))
    nameResult(func, static_cast<unsigned>(i), name);
}

struct FinishFunctionsPass
    : tfm::impl::FinishFunctionsPassBase<FinishFunctionsPass> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    auto erase = [&](ProgramKind kind) {
      if (func::FuncOp func = findProgram(module, kind))
        func.erase();
    };
    erase(ProgramKind::Loss);
    // Without training there is no optimizer's state that it could use.
    if (!findProgram(module, ProgramKind::Train))
      for (ProgramKind kind :
           {ProgramKind::Update, ProgramKind::Squares,
            ProgramKind::UpdateDecayed, ProgramKind::UpdatePlain})
        erase(kind);
    nameResults(module, ProgramKind::Forward, {TFM_OUT_LOGITS});
    nameResults(module, ProgramKind::Train, {TFM_OUT_LOSS, TFM_OUT_LOSSES});
    nameResults(module, ProgramKind::Evaluate, {TFM_OUT_LOSS, TFM_OUT_LOSSES});
  }
};

} // namespace
