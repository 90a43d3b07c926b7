//===- ShareExponentials.cpp - a softmax from its sum's own terms ---------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/dialect/TfmBuilder.h"
#include "compiler/schedule/Passes.h"
#include "compiler/schedule/SchedDialect.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

namespace tfm::sched {
#define GEN_PASS_DEF_SHAREEXPONENTIALSPASS
#include "compiler/schedule/Passes.h.inc"
} // namespace tfm::sched

using namespace mlir;
using namespace tfm;
using namespace tfm::sched;

namespace {

/// The numbers of which each row of `value` repeats its own, if it does.
Value repeatedInRows(Value value) {
  auto broadcast = value.getDefiningOp<BroadcastOp>();
  if (!broadcast)
    return Value();
  Value rows = broadcast->getOperand(0);
  SmallVector<int64_t> shape(tensorType(value).getShape());
  shape.back() = 1;
  return tensorType(rows).getShape() == ArrayRef(shape) ? throughReshapes(rows)
                                                        : Value();
}

/// The exponential of `x` less `max` that the sum `total` over rows adds up.
ExpOp termOf(Value total, Value x, Value max) {
  auto sum = total.getDefiningOp<ReduceSumOp>();
  auto term = sum ? sum.getX().getDefiningOp<ExpOp>() : ExpOp();
  auto shifted = term ? term.getX().getDefiningOp<SubOp>() : SubOp();
  bool isIt =
      shifted && shifted.getA() == x && repeatedInRows(shifted.getB()) == max &&
      static_cast<int64_t>(sum.getAxis()) == tensorType(x).getRank() - 1;
  return isIt ? term : ExpOp();
}

/// exp(x - (max + log(sum(exp(x - max))))) = exp(x - max) / sum(...).
struct ExponentialOfItsSum : OpRewritePattern<ExpOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(ExpOp exp,
                                PatternRewriter &rewriter) const override {
    auto less = exp.getX().getDefiningOp<SubOp>();
    Value lse = less ? repeatedInRows(less.getB()) : Value();
    auto logOfSum = lse ? lse.getDefiningOp<AddOp>() : AddOp();
    if (!logOfSum)
      return failure();
    std::pair<Value, Value> orders[] = {{logOfSum.getA(), logOfSum.getB()},
                                        {logOfSum.getB(), logOfSum.getA()}};
    for (auto [max, other] : orders) {
      auto log = throughReshapes(other).getDefiningOp<LogOp>();
      Value total = log ? throughReshapes(log.getX()) : Value();
      ExpOp term =
          log ? termOf(total, less.getA(), throughReshapes(max)) : ExpOp();
      if (!term)
        continue;
      TfmBuilder b{rewriter, exp.getLoc()};
      Value factor = b.div(b.constant(total, 1.0), total);
      rewriter.replaceOp(
          exp, b.mul(term, b.broadcast(factor, tensorType(term.getResult()))));
      return success();
    }
    return failure();
  }
};

struct ShareExponentialsPass
    : tfm::sched::impl::ShareExponentialsPassBase<ShareExponentialsPass> {
  LogicalResult initialize(MLIRContext *context) override {
    RewritePatternSet set(context);
    set.add<ExponentialOfItsSum>(context);
    patterns = std::move(set);
    return success();
  }

  void runOnOperation() override {
    getOperation().walk([&](KernelOp kernel) {
      auto isLog = [](Operation &op) { return isa<LogOp>(op); };
      if (llvm::any_of(*kernel.getBlock(), isLog) &&
          failed(applyPatternsGreedily(kernel, patterns)))
        signalPassFailure();
    });
  }

  FrozenRewritePatternSet patterns;
};

} // namespace
