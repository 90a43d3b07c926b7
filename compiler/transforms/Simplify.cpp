//===- Simplify.cpp - shorter programs of the same meaning ----------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/dialect/ReverseSweep.h"
#include "compiler/transforms/Passes.h"
#include "compiler/transforms/SimplifyPatterns.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Dominance.h"
#include "mlir/Transforms/CSE.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

namespace tfm {
#define GEN_PASS_DEF_SIMPLIFYPASS
#include "compiler/transforms/Passes.h.inc"
} // namespace tfm

using namespace mlir;
using namespace tfm;

namespace {

struct SimplifyPass : tfm::impl::SimplifyPassBase<SimplifyPass> {
  LogicalResult initialize(MLIRContext *context) override {
    RewritePatternSet all(context);
    MatmulOp::getCanonicalizationPatterns(all, context);
    populateSimplifyPatterns(all);
    populateSimplifyRepeatPatterns(all);
    patterns = FrozenRewritePatternSet(std::move(all));
    return success();
  }

  void runOnOperation() override {
    GreedyRewriteConfig config;
    config.setRegionSimplificationLevel(GreedySimplifyRegionLevel::Disabled);
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      if (function.isExternal())
        continue;
      // Merging equal ops lets two operands of a repeat be one, and that lets
      // more ops be equal: a second round reaches what a layer's body gains.
      for (int round = 0; round < 2; ++round) {
        if (failed(applyPatternsGreedily(function, patterns, config)))
          return signalPassFailure();
        IRRewriter rewriter(&getContext());
        DominanceInfo dominance(function);
        bool changed = false;
        eliminateCommonSubExpressions(rewriter, dominance, function, &changed);
        function.walk([](Block *block) { eraseDeadOps(*block); });
        if (!changed)
          break;
      }
    }
  }

  FrozenRewritePatternSet patterns;
};

} // namespace
