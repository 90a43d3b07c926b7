//===- RecordFacts.cpp - note what a model is -----------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/dialect/Attributes.h"
#include "compiler/transforms/ModelFacts.h"
#include "compiler/transforms/Passes.h"

#include "mlir/IR/BuiltinOps.h"

namespace tfm {
#define GEN_PASS_DEF_RECORDFACTSPASS
#include "compiler/transforms/Passes.h.inc"
} // namespace tfm

using namespace mlir;
using namespace tfm;

namespace {

struct RecordFactsPass : tfm::impl::RecordFactsPassBase<RecordFactsPass> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    module->setAttr(factsAttribute,
                    StringAttr::get(&getContext(), modelFacts(module)));
  }
};

} // namespace
