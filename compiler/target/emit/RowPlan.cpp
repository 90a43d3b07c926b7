//===- RowPlan.cpp - what a row kernel computes, and when -----------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/target/emit/RowPlan.h"

#include "compiler/dialect/TfmDialect.h"
#include "compiler/schedule/Launches.h"

using namespace mlir;
using namespace tfm;
using namespace tfm::sched;

RowPlan::RowPlan(LaunchOp launch)
    : ops(computedOps(launch)), passes(passesOf(*launch.getBlock())) {
  for (Operation *op : ops) {
    lastPass = std::max(lastPass, passes[op]);
    if (isColumnReduction(op))
      columnReductions.push_back(op);
  }
  for (auto [i, to] : llvm::enumerate(launch.getWriteArgs())) {
    Value value = launch.getWriteOf(to.getArgNumber()).getValue();
    writeOf[value] = static_cast<unsigned>(i);
    if (launch.getAccessOf(to.getArgNumber()) == Access::Point)
      full.insert(value);
  }
  if (!columnReductions.empty()) {
    Operation *first = columnReductions.front();
    chunks = isa<ReduceChunksOp>(first)
                 ? tensorType(first->getResult(0)).getDimSize(0)
                 : 1;
  }
}

bool RowPlan::writesScalar(Operation *op) const {
  return writeOf.contains(op->getResult(0)) && !writesFull(op) &&
         !isColumnReduction(op);
}
