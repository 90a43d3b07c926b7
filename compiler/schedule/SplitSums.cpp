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

#include "llvm/Support/MathExtras.h"
#include <numeric>

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

/// Into how many sums it adds up the rows: one for each index before the axis.
int64_t sumsOf(Operation *sum) {
  return tensorType(sum->getResult(0)).getNumElements() /
         tensorType(sum->getOperand(0)).getShape().back();
}

/// What adds up `partials`, [chunks, columns], as `sum` would: as many of them
/// for each of its results.
Value fold(OpBuilder &b, Operation *sum, Value partials) {
  int64_t sums = sumsOf(sum), chunks = tensorType(partials).getDimSize(0),
          columns = tensorType(partials).getDimSize(1);
  TfmBuilder build{b, sum->getLoc()};
  RankedTensorType result = tensorType(sum->getResult(0));
  if (chunks == sums)
    return build.reshape(partials, result);
  SmallVector<int64_t> shape = {chunks / sums, columns};
  if (sums > 1)
    shape.insert(shape.begin(), sums);
  auto axis = static_cast<int64_t>(shape.size()) - 2;
  partials = build.reshape(partials, result.clone(shape));
  shape[axis] = 1;
  RankedTensorType type = result.clone(shape);
  MLIRContext *context = b.getContext();
  auto kernel = KernelOp::create(
      b, sum->getLoc(), type, KernelKindAttr::get(context, KernelKind::Fold),
      b.getI64IntegerAttr(sums), b.getI64IntegerAttr(columns), partials,
      Value(), AccessesAttr::get(context, {Access::Memory}),
      AccessesAttr::get(context, {Access::Point}), ArrayAttr());
  Block *body = b.createBlock(&kernel.getBody(), {}, partials.getType(),
                              partials.getLoc());
  Operation *total = b.clone(*sum);
  total->setOperands(body->getArguments());
  total->setAttr("axis", b.getI64IntegerAttr(axis));
  total->getResult(0).setType(type);
  sched::YieldOp::create(b, sum->getLoc(), total->getResults());
  b.setInsertionPointAfter(kernel);
  return build.reshape(kernel.getResult(0), result);
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
    // Rows may be of texts: an axis before theirs.
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

/// Into how many chunks the rows of `kernel` are cut: as many as the target
/// wants, and so that none has rows of two sums.
int64_t chunksFor(KernelOp kernel, const KernelTarget &target) {
  int64_t rows = kernel.getRows(), sums = 1;
  for (Operation &op : kernel.getBlock()->without_terminator())
    if (isSum(&op))
      sums = std::lcm(sums, sumsOf(&op));
  int64_t parts = llvm::divideCeil(target.chunksOf(rows), sums);
  return sums * std::min(parts, rows / sums);
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
          chunksFor(kernel, *kernels) > 1)
        split.push_back(kernel);
    });
    for (KernelOp kernel : split)
      ::split(kernel, chunksFor(kernel, *kernels));
  }
};

} // namespace
