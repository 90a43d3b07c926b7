//===- QuantiseCache.cpp - keys and values in 8 bits ----------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What a token of a long text waits for is the keys and values of those before
// it. They are quantised in `@forward` already, by positions like any other
// value, so that generation with a cache gives the logits of whole sequences.
//
//===----------------------------------------------------------------------===//

#include "compiler/dialect/Programs.h"
#include "compiler/dialect/TfmBuilder.h"
#include "compiler/transforms/Passes.h"
#include "compiler/transforms/ReadRecipe.h"
#include "compiler/transforms/SequenceAxis.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tfm {
#define GEN_PASS_DEF_QUANTISECACHEPASS
#include "compiler/transforms/Passes.h.inc"
} // namespace tfm

using namespace mlir;
using namespace tfm;

namespace {

void quantise(AttentionOp attention) {
  OpBuilder builder(attention);
  TfmBuilder b{builder, attention.getLoc()};
  auto rows = [&](Value x) {
    return b.quantiseRows(b.cast(x, builder.getF32Type()));
  };
  auto [keys, keyScale] = rows(attention.getK());
  auto [values, valueScale] = rows(attention.getV());
  attention.getKMutable().assign(keys);
  attention.getVMutable().assign(values);
  attention.getKeyScaleMutable().assign(keyScale);
  attention.getValueScaleMutable().assign(valueScale);
}

struct QuantiseCachePass : tfm::impl::QuantiseCachePassBase<QuantiseCachePass> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    FailureOr<Type> cache = cacheOfGeneration(module);
    if (failed(cache))
      return signalPassFailure();
    // Of what is decoded in whole sequences there is no cache.
    if (!cache->isInteger(8) || decodeObstacle(module))
      return;
    for (ProgramKind kind : {ProgramKind::Forward, ProgramKind::ForwardBatch}) {
      auto forward = findProgram(module, kind);
      if (!forward)
        continue;
      SmallVector<AttentionOp> ops;
      forward.walk([&](AttentionOp op) {
        if (op.getCausal())
          ops.push_back(op);
      });
      llvm::for_each(ops, quantise);
    }
  }
};

} // namespace
