//===- SimplifyRepeats.cpp - removes what nothing depends on in repeats ---===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/dialect/TfmDialect.h"
#include "compiler/transforms/SimplifyPatterns.h"

#include "mlir/Transforms/GreedyPatternRewriteDriver.h"
#include "llvm/ADT/BitVector.h"
#include "llvm/Support/ErrorHandling.h"

using namespace mlir;
using namespace tfm;

namespace {

/// What of a repeat's body its used results depend on.
struct Liveness {
  explicit Liveness(RepeatOp op) : yields(op->getNumResults()) {
    Block *body = op.getBlock();
    YieldOp yield = op.getYield();
    for (OpResult result : op->getResults())
      if (!result.use_empty())
        mark(yield, result.getResultNumber());
    size_t numCarried = op.getCarried().size();
    unsigned updatedEnd =
        1 + numCarried + static_cast<unsigned>(op.getStacked().size());
    auto firstUpdated = updatedEnd - static_cast<unsigned>(op.getUpdated());
    while (!worklist.empty()) {
      Value value = worklist.pop_back_val();
      if (!values.insert(value).second)
        continue;
      if (auto arg = dyn_cast<BlockArgument>(value)) {
        // A carried argument is what the layer before yielded, and an updated
        // one may be.
        unsigned number = arg.getArgNumber();
        if (number >= 1 && number <= numCarried)
          mark(yield, number - 1);
        else if (number >= firstUpdated && number < updatedEnd)
          mark(yield, numCarried + number - firstUpdated);
        continue;
      }
      llvm::append_range(worklist, value.getDefiningOp()->getOperands());
    }
    arguments.resize(body->getNumArguments());
    for (BlockArgument arg : body->getArguments())
      arguments[arg.getArgNumber()] = values.contains(arg);
  }

  llvm::BitVector yields, arguments;
  llvm::DenseSet<Value> values;

private:
  void mark(YieldOp yield, unsigned number) {
    if (yields[number])
      return;
    yields.set(number);
    worklist.push_back(yield.getOperand(number));
  }

  SmallVector<Value> worklist;
};

/// Removes carried values, stacked results and operands that no used result
/// depends on.
struct PruneRepeat : OpRewritePattern<RepeatOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(RepeatOp op,
                                PatternRewriter &rewriter) const override {
    Liveness live(op);
    size_t numCarried = op.getCarried().size();
    size_t numStacked = op.getStacked().size();
    llvm::BitVector keep = live.arguments;
    keep.set(0);
    for (size_t i = 0; i < numCarried; ++i)
      keep[1 + i] = live.yields[i];
    auto updated = static_cast<size_t>(op.getUpdated());
    for (size_t i = 0; i < updated; ++i)
      keep[1 + numCarried + numStacked - updated + i] =
          live.yields[numCarried + i];
    if (keep.all() && live.yields.all())
      return rewriter.notifyMatchFailure(op, "everything is used");
    if (live.yields.none())
      return rewriter.notifyMatchFailure(op, "dead as a whole: the driver's");

    int64_t numChosen = 0;
    for (size_t i = 0; i < numStacked; ++i)
      numChosen += op.isChosen(i) && keep[1 + numCarried + i];
    int64_t numUpdated = 0;
    for (size_t i = 0; i < updated; ++i)
      numUpdated += live.yields[numCarried + i];

    SmallVector<Value> carried, stacked, shared;
    for (auto [i, operand] : llvm::enumerate(op->getOperands())) {
      if (i + 1 == keep.size())
        break; // the order, which has no argument
      if (!keep[1 + i])
        continue;
      auto &list = i < numCarried                ? carried
                   : i < numCarried + numStacked ? stacked
                                                 : shared;
      list.push_back(operand);
    }
    SmallVector<Type> types;
    for (OpResult result : op->getResults())
      if (live.yields[result.getResultNumber()])
        types.push_back(result.getType());
    auto pruned = RepeatOp::create(rewriter, op.getLoc(), types, op.getCount(),
                                   op.getReverse(), carried, stacked, shared,
                                   op.getOrder(), numChosen, numUpdated);
    pruned->setDiscardableAttrs(op->getDiscardableAttrDictionary());

    YieldOp yield = op.getYield();
    rewriter.modifyOpInPlace(yield, [&] {
      for (size_t i = op->getNumResults(); i-- > 0;)
        if (!live.yields[i])
          yield->eraseOperand(i);
    });
    Block *body = op.getBlock();
    for (Operation &inner : llvm::make_early_inc_range(llvm::reverse(*body)))
      if (&inner != yield && llvm::none_of(inner.getResults(), [&](Value x) {
            return live.values.contains(x);
          }))
        rewriter.eraseOp(&inner);
    llvm::BitVector unused = keep;
    body->eraseArguments(unused.flip());
    rewriter.inlineRegionBefore(op.getBody(), pruned.getBody(),
                                pruned.getBody().end());
    unsigned next = 0;
    for (OpResult result : op->getResults())
      if (live.yields[result.getResultNumber()])
        rewriter.replaceAllUsesWith(result, pruned.getResult(next++));
    rewriter.eraseOp(op);
    return success();
  }
};

/// Inside a layer: equal operands become one argument, splat constants and
/// counting tensors are made where they are used, and a carried value that no
/// layer changes is its operand. Leaves unused arguments to PruneRepeat.
struct SimplifyRepeatArguments : OpRewritePattern<RepeatOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(RepeatOp op,
                                PatternRewriter &rewriter) const override {
    bool changed = false;
    auto replace = [&](Value from, Value to) {
      if (from.use_empty())
        return;
      rewriter.replaceAllUsesWith(from, to);
      changed = true;
    };

    auto mergeEqual = [&](OperandRange operands, ValueRange arguments) {
      llvm::DenseMap<Value, Value> first;
      for (auto [operand, arg] : llvm::zip_equal(operands, arguments)) {
        auto [found, isNew] = first.try_emplace(operand, arg);
        if (!isNew)
          replace(arg, found->second);
      }
    };
    auto numStacked = op.getStacked().size();
    auto byLayer = numStacked - static_cast<size_t>(op.getChosen());
    auto readOnly = numStacked - static_cast<size_t>(op.getUpdated()) - byLayer;
    mergeEqual(op.getStacked().take_front(byLayer),
               op.getStackedArgs().take_front(byLayer));
    mergeEqual(op.getStacked().slice(byLayer, readOnly),
               op.getStackedArgs().slice(byLayer, readOnly));
    mergeEqual(op.getShared(), op.getSharedArgs());

    for (auto [operand, arg] :
         llvm::zip_equal(op.getShared(), op.getSharedArgs())) {
      Operation *source = operand.getDefiningOp();
      if (arg.use_empty() || !isMadeAnywhere(source))
        continue;
      OpBuilder::InsertionGuard guard(rewriter);
      rewriter.setInsertionPointToStart(op.getBlock());
      replace(arg, rewriter.clone(*source)->getResult(0));
    }

    YieldOp yield = op.getYield();
    llvm::DenseMap<Value, Value> stackedOnce;
    for (size_t i = op->getNumResults() - op.getStackedResults().size();
         i < op->getNumResults(); ++i) {
      auto [found, isNew] =
          stackedOnce.try_emplace(yield.getOperand(i), op.getResult(i));
      if (!isNew)
        replace(op.getResult(i), found->second);
    }
    for (auto [operand, arg, result, next] :
         llvm::zip(op.getCarried(), op.getCarriedArgs(), op.getCarriedResults(),
                   yield.getOperands()))
      if (next == arg)
        replace(result, operand);
    return success(changed);
  }

  static bool isMadeAnywhere(Operation *op) {
    auto constant = dyn_cast_or_null<ConstantOp>(op);
    return isa_and_nonnull<IotaOp>(op) ||
           (constant && isa<SplatElementsAttr>(constant.getValue()));
  }
};

} // namespace

void tfm::populateSimplifyRepeatPatterns(RewritePatternSet &patterns) {
  patterns.add<PruneRepeat, SimplifyRepeatArguments>(patterns.getContext());
}

void tfm::removeUnused(func::FuncOp function) {
  RewritePatternSet patterns(function.getContext());
  patterns.add<PruneRepeat>(function.getContext());
  GreedyRewriteConfig config;
  config.setRegionSimplificationLevel(GreedySimplifyRegionLevel::Disabled);
  config.enableFolding(false);
  config.enableConstantCSE(false);
  config.setMaxIterations(GreedyRewriteConfig::kNoLimit);
  if (failed(applyPatternsGreedily(function, std::move(patterns), config)))
    llvm::report_fatal_error("what is not used cannot be removed");
}
