//===- SplitSums.cpp - long sums over rows in chunks ----------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/dialect/TfmBuilder.h"
#include "compiler/schedule/Fuse.h"
#include "compiler/schedule/Passes.h"
#include "compiler/target/KernelTarget.h"

namespace tfm::sched {
#define GEN_PASS_DEF_SPLITSUMSPASS
#include "compiler/schedule/Passes.h.inc"
} // namespace tfm::sched

using namespace mlir;
using namespace tfm;
using namespace tfm::sched;

namespace {

/// Whether `op` adds up rows, and not in chunks yet.
bool isSum(Operation *op) {
  return isa_and_nonnull<ReduceSumOp, ReduceMaxOp>(op) && isColumnReduction(op);
}

/// The kernel that adds up `partials`, [chunks, columns], as `sum` would.
Value fold(OpBuilder &b, Operation *sum, Value partials) {
  RankedTensorType type =
      tensorType(partials).clone({1, tensorType(partials).getDimSize(1)});
  MLIRContext *context = b.getContext();
  auto kernel = KernelOp::create(
      b, sum->getLoc(), type, KernelKindAttr::get(context, KernelKind::Fold),
      b.getI64IntegerAttr(1), b.getI64IntegerAttr(type.getNumElements()),
      partials, Value(), AccessesAttr::get(context, {Access::Memory}),
      AccessesAttr::get(context, {Access::Point}), ArrayAttr());
  Block *body = b.createBlock(&kernel.getBody(), {}, partials.getType(),
                              partials.getLoc());
  Operation *total = b.clone(*sum);
  total->setOperands(body->getArguments());
  total->setAttr("axis", b.getI64IntegerAttr(0));
  total->getResult(0).setType(type);
  sched::YieldOp::create(b, sum->getLoc(), total->getResults());
  b.setInsertionPointAfter(kernel);
  return TfmBuilder{b, sum->getLoc()}.reshape(kernel.getResult(0),
                                              tensorType(sum->getResult(0)));
}

void split(KernelOp kernel, int64_t chunks) {
  Operation *yield = kernel.getYield();
  OpBuilder inside(yield);
  SmallVector<std::pair<unsigned, Operation *>> sums;
  SmallVector<Type> types(kernel.getResultTypes());
  for (auto [i, value] : llvm::enumerate(yield->getOperands())) {
    Operation *sum = value.getDefiningOp();
    if (!isSum(sum))
      continue;
    RankedTensorType type = tensorType(sum->getOperand(0));
    int64_t columns = type.getShape().back();
    types[i] = type.clone({chunks, columns});
    inside.setInsertionPoint(sum);
    // Rows may be of one text: an axis before theirs.
    Value rows = TfmBuilder{inside, sum->getLoc()}.reshape(
        sum->getOperand(0),
        type.clone({type.getNumElements() / columns, columns}));
    Value partials = ReduceChunksOp::create(inside, sum->getLoc(), types[i],
                                            rows, isa<ReduceMaxOp>(sum));
    yield->setOperand(i, partials);
    sums.push_back({i, sum});
  }
  OpBuilder b(kernel);
  auto replacement = KernelOp::create(
      b, kernel.getLoc(), types, kernel.getKindAttr(), kernel.getRowsAttr(),
      kernel.getColsAttr(), kernel.getInputs(), kernel.getLayer(),
      kernel.getInputAccessAttr(), kernel.getResultAccessAttr(),
      kernel.getLayoutsAttr());
  replacement.getBody().takeBody(kernel.getBody());
  SmallVector<Value> results(replacement.getResults());
  for (auto [i, sum] : sums) {
    OpBuilder::InsertionGuard guard(b);
    results[i] = fold(b, sum, results[i]);
  }
  kernel.replaceAllUsesWith(results);
  kernel.erase();
  for (auto [i, sum] : sums)
    sum->erase();
}

struct SplitSumsPass : tfm::sched::impl::SplitSumsPassBase<SplitSumsPass> {
  using SplitSumsPassBase::SplitSumsPassBase;

  void runOnOperation() override {
    const KernelTarget *kernels = KernelTarget::find(target, getOperation());
    if (!kernels)
      return signalPassFailure();
    SmallVector<KernelOp> split;
    getOperation().walk([&](KernelOp kernel) {
      if (llvm::any_of(kernel.getBlock()->without_terminator(),
                       [](Operation &op) { return isSum(&op); }) &&
          kernel.getKind() == KernelKind::Row &&
          kernels->chunksOf(kernel.getRows()) > 1)
        split.push_back(kernel);
    });
    for (KernelOp kernel : split)
      ::split(kernel, kernels->chunksOf(kernel.getRows()));
  }
};

} // namespace
