//===- KeptValues.cpp - what passes over rows keep for later ones ---------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/target/cpu/KeptValues.h"

#include "compiler/schedule/Launches.h"

using namespace mlir;
using namespace tfm;
using namespace tfm::sched;

KeptValues::KeptValues(LaunchOp launch, int64_t elements) : elements(elements) {
  if (elements == 0 || launch.getKind() != KernelKind::Row)
    return;
  llvm::DenseMap<Operation *, int> passes = passesOf(*launch.getBlock());
  std::multimap<int, Value> wanted; // by pass
  for (Operation &op : *launch.getBlock())
    if (isRowReduction(&op) || isColumnReduction(&op))
      wanted.insert({passes.lookup(&op), op.getOperand(0)});
  for (BlockArgument to : launch.getWriteArgs())
    if (launch.getAccessOf(to.getArgNumber()) == Access::Point) {
      Value value = launch.getWriteOf(to.getArgNumber()).getValue();
      wanted.insert({passes.lookup(value.getDefiningOp()), value});
    }
  for (auto [pass, value] : wanted)
    visit(value, pass);
  firstPass.remove_if(
      [&](auto &entry) { return !again.contains(entry.first); });
}

/// Whether the elements are compared with their largest: computed once more,
/// perhaps with another last bit, none of them need equal it.
static bool meetsItsMaximum(Value value) {
  Value computed = value;
  while (auto view = computed.getDefiningOp<ReshapeOp>())
    computed = view.getX();
  if (computed.getDefiningOp<ReadOp>())
    return false; // loads are the same each time
  auto isUsedBy = [&](auto isIt) {
    return llvm::any_of(value.getUsers(), isIt);
  };
  return isUsedBy([](Operation *op) { return isa<ReduceMaxOp>(op); }) &&
         isUsedBy([](Operation *op) { return isa<CompareOp>(op); });
}

void KeptValues::visit(Value value, int pass) {
  Operation *op = value.getDefiningOp();
  if (!op || isa<ReadOp, BroadcastOp>(op) || isRowReduction(op))
    return;
  // What one pass keeps the next does not look into.
  if (auto known = firstPass.find(value); known != firstPass.end()) {
    if (known->second < pass)
      again.insert(value);
    return;
  }
  if (!seen.insert({value, pass}).second)
    return;
  bool isCostly =
      isa<ScalarFunctionOpInterface>(op) && !op->hasTrait<CheapToRebuild>();
  if ((isCostly || meetsItsMaximum(value)) &&
      tensorType(value).getElementType().isF32())
    firstPass.insert({value, pass});
  for (Value operand : op->getOperands())
    visit(operand, pass);
}
