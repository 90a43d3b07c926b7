//===- Flops.cpp - floating-point operations by the kind of op ------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/report/Flops.h"

#include "compiler/dialect/TfmDialect.h"

#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace tfm;

/// Visits the ops of a region, each with how often it runs.
static void visitOps(Region &region, int64_t executions,
                     llvm::function_ref<void(Operation *, int64_t)> visit) {
  for (Operation &op : region.getOps()) {
    if (auto repeat = dyn_cast<RepeatOp>(op))
      visitOps(repeat.getBody(),
               executions * static_cast<int64_t>(repeat.getCount()), visit);
    else
      visit(&op, executions);
  }
}

void tfm::countFlops(Region &region, int64_t executions,
                     llvm::StringMap<FlopCount> &byKind) {
  visitOps(region, executions, [&](Operation *op, int64_t times) {
    if (FlopCount flops = flopsOf(op))
      byKind[op->getName().stripDialect()] += times * flops;
  });
}

void tfm::countProducts(Region &region, int64_t executions,
                        llvm::StringMap<FlopCount> &byType) {
  visitOps(region, executions, [&](Operation *op, int64_t times) {
    if (isa<MatmulOp, AttentionOp, AttentionBackwardOp>(op))
      byType[dtypeOf(getElementTypeOrSelf(op->getOperand(0)))] +=
          times * flopsOf(op);
  });
}

std::string tfm::dtypeOf(Type element) {
  std::string text;
  llvm::raw_string_ostream(text) << element;
  return text;
}
