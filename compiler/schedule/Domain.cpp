//===- Domain.cpp - how values sit in an iteration space ------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/schedule/Domain.h"

using namespace mlir;
using namespace tfm;

bool tfm::isViewOp(Operation *op) {
  return isa<ReshapeOp, TransposeOp, SliceOp, BroadcastOp>(op);
}

Value tfm::throughReshapes(Value value) {
  while (auto reshape = value.getDefiningOp<ReshapeOp>())
    value = reshape.getX();
  return value;
}

bool tfm::isSplat(Value value) {
  auto constant = value.getDefiningOp<ConstantOp>();
  auto dense = constant ? dyn_cast<DenseElementsAttr>(constant.getValue())
                        : DenseElementsAttr();
  return dense && dense.isSplat();
}

bool tfm::isWidening(Operation *op) {
  auto cast = dyn_cast<CastOp>(op);
  if (!cast)
    return false;
  Type from = tensorType(cast.getX()).getElementType();
  return from.isBF16() || from.isInteger(8);
}

bool tfm::isPartOfReader(Operation *op) {
  return isa<DequantiseOp, UnpackOp>(op);
}

bool tfm::isFree(Operation *op) {
  return isViewOp(op) || isWidening(op) || isPartOfReader(op) ||
         isa<IotaOp, PositionsOp, CompareOp, AndOp, OrOp, NotOp>(op) ||
         (isa<ConstantOp>(op) && isSplat(op->getResult(0)));
}

Value tfm::viewBase(Value value, const OpSet &materialised) {
  for (Operation *op = value.getDefiningOp();
       op && isViewOp(op) && !materialised.contains(op);
       op = value.getDefiningOp())
    value = op->getOperand(0);
  return value;
}

Passage tfm::passageThrough(Operation *op, Role role, const Domain &domain) {
  Type from = op->getOperand(0).getType(), to = op->getResult(0).getType();
  if (isa<ReshapeOp>(op))
    return role != Role::Other && domain.roleOf(from) == role ? Passage::Same
                                                              : Passage::Memory;
  if (isa<BroadcastOp>(op) && role == Role::Full && domain.cols != 1) {
    ArrayRef<int64_t> small = cast<RankedTensorType>(from).getShape();
    ArrayRef<int64_t> large = cast<RankedTensorType>(to).getShape();
    if (!small.empty() && small.size() == large.size() && small.back() == 1 &&
        small.drop_back() == large.drop_back() &&
        domain.roleOf(from) == Role::Scalar)
      return Passage::RowScalar;
  }
  return Passage::Memory;
}

void tfm::forEachLeaf(Value value, Role role, const Domain &domain,
                      const OpSet &materialised,
                      function_ref<void(const Leaf &)> visit) {
  // Free ops may lead to one of them on many ways.
  llvm::DenseSet<std::pair<Value, int>> seen;
  auto walk = [&](auto &&self, Value value, Role role) -> void {
    if (!seen.insert({value, static_cast<int>(role)}).second)
      return;
    Operation *op = value.getDefiningOp();
    if (!op || !isFree(op) || materialised.contains(op)) {
      visit({value, value, role, role != Role::Other});
      return;
    }
    if (isa<ConstantOp, IotaOp, PositionsOp>(op))
      return;
    if (!isViewOp(op)) {
      for (Value operand : op->getOperands())
        self(self, operand, role);
      return;
    }
    switch (passageThrough(op, role, domain)) {
    case Passage::Same:
      return self(self, op->getOperand(0), role);
    case Passage::RowScalar:
      return self(self, op->getOperand(0), Role::Scalar);
    case Passage::Memory:
      Value base = viewBase(op->getOperand(0), materialised);
      if (!isSplat(base))
        visit({base, value, role, /*inRegister=*/false});
      return;
    }
  };
  walk(walk, value, role);
}

bool tfm::readsAtPoint(Operation *op, unsigned operand) {
  auto row = dyn_cast<RowKernelOpInterface>(op);
  return row && row.readsAtPoint(operand);
}

std::optional<int64_t> tfm::reducedAxis(Operation *op) {
  auto row = dyn_cast_or_null<RowKernelOpInterface>(op);
  return row ? row.getReducedAxis() : std::nullopt;
}

bool tfm::isRowReduction(Operation *op) {
  std::optional<int64_t> axis = reducedAxis(op);
  return axis && *axis == tensorType(op->getOperand(0)).getRank() - 1;
}

bool tfm::isColumnReduction(Operation *op) {
  return reducedAxis(op) && !isRowReduction(op);
}

llvm::DenseMap<Operation *, int> tfm::passesOf(Block &body) {
  llvm::DenseMap<Operation *, int> passes;
  for (Operation &op : body) {
    int pass = 0;
    for (Value operand : op.getOperands())
      if (Operation *def = operand.getDefiningOp())
        pass =
            std::max(pass, passes.lookup(def) + (isRowReduction(def) ? 1 : 0));
    passes[&op] = pass;
  }
  return passes;
}
