//===- Layouts.cpp - in which order values lie in memory ------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/schedule/Layouts.h"

#include "compiler/dialect/TfmDialect.h"

#include "mlir/Dialect/Utils/IndexingUtils.h"

using namespace mlir;
using namespace tfm;
using sched::KernelKind;
using sched::KernelOp;

View tfm::viewInOrder(RankedTensorType type, ArrayRef<int64_t> order,
                      Value buffer) {
  if (order.empty())
    return contiguousView(type, buffer);
  RankedTensorType ordered =
      type.clone(applyPermutation(type.getShape(), order));
  return contiguousView(ordered, buffer)
      .transposed(invertPermutationVector(order));
}

ArrayRef<int64_t> Layouts::orderOf(Value value) const {
  auto it = orders.find(value);
  return it == orders.end() ? ArrayRef<int64_t>() : ArrayRef(it->second);
}

View Layouts::viewOf(Value value) const {
  Operation *op = value.getDefiningOp();
  if (op && isViewOp(op) && !reshapes.contains(op)) {
    View from = viewOf(op->getOperand(0));
    return from.isValid() ? from.through(op) : View();
  }
  if (auto known = arguments.find(value); known != arguments.end())
    return known->second;
  return viewInOrder(tensorType(value), orderOf(value));
}

bool Layouts::stillHolds(Value value, Operation *end) const {
  return llvm::all_of(value.getUses(), [&](OpOperand &use) {
    Operation *user = use.getOwner();
    if (user->getBlock() != end->getBlock() || !user->isBeforeInBlock(end))
      return true;
    if (auto repeat = dyn_cast<RepeatOp>(user)) {
      size_t carried = repeat.getCarried().size(),
             number = use.getOperandNumber();
      if (repeat.changesOperand(number) || value == repeat.getOrder())
        return true; // which is moved to where the loop has it, or of one axis
      bool isStacked = number < carried + repeat.getStacked().size();
      View view = viewOf(value);
      return arguments.at(repeat.getBlock()->getArgument(1 + number)) ==
             (isStacked ? view.dropLeading() : view);
    }
    if (!isViewOp(user) || reshapes.contains(user))
      return true;
    Value next = user->getResult(0);
    return viewOf(next).isValid() && stillHolds(next, end);
  });
}

void Layouts::analyse(Block &block) {
  for (Operation &op : block) {
    if (auto repeat = dyn_cast<RepeatOp>(&op)) {
      for (auto [argument, operand] :
           llvm::zip_equal(repeat.getStackedArgs(), repeat.getStacked()))
        arguments[argument] = viewOf(operand).dropLeading();
      for (BlockArgument argument : repeat.getUpdatedArgs())
        arguments[argument] = contiguousView(tensorType(argument));
      for (auto [argument, operand] :
           llvm::zip_equal(repeat.getSharedArgs(), repeat.getShared()))
        arguments[argument] = viewOf(operand);
      analyse(*repeat.getBlock());
      // Stacked results keep the order that the body has them in.
      ResultRange stacked = repeat.getStackedResults();
      for (auto [result, yielded] : llvm::zip_equal(
               stacked,
               repeat.getYield().getValues().take_back(stacked.size())))
        if (ArrayRef<int64_t> order = orderOf(yielded); !order.empty()) {
          SmallVector<int64_t> axes = {0};
          for (int64_t axis : order)
            axes.push_back(axis + 1);
          orders.try_emplace(result, std::move(axes));
        }
      continue;
    }
    if (auto scan = dyn_cast<ScanOpInterface>(&op)) {
      SmallVector<Operation *> readers(op.getUsers());
      if (!readers.empty() && llvm::all_of(readers, llvm::IsaPred<TransposeOp>))
        orders.try_emplace(scan.getY(),
                           cast<TransposeOp>(readers.front()).getPermutation());
      continue;
    }
    auto reshape = dyn_cast<ReshapeOp>(&op);
    if (!reshape || isSplat(viewBase(reshape.getX(), reshapes)) ||
        viewOf(reshape.getY()).isValid())
      continue;
    auto transpose = reshape.getX().getDefiningOp<TransposeOp>();
    Operation *base = transpose ? transpose.getX().getDefiningOp() : nullptr;
    bool flexible =
        base && !isViewOp(base) && base->getBlock() == &block &&
        !isa<RepeatOp, ConcatOp, GetParamOp, ConstantOp, ScatterAddOp,
             CacheUpdateOp>(base) &&
        transpose.getPermutation().back() ==
            static_cast<int64_t>(transpose.getPermutation().size()) - 1;
    if (flexible && !orders.contains(transpose.getX())) {
      orders[transpose.getX()] =
          SmallVector<int64_t>(transpose.getPermutation());
      if (viewOf(reshape.getY()).isValid() && stillHolds(transpose.getX(), &op))
        continue;
      orders.erase(transpose.getX());
    }
    reshapes.insert(&op);
  }
}

bool tfm::canRead(KernelOp kernel, unsigned input, const View &view) {
  if (kernel.getInputAccess()[input] != sched::Access::Memory)
    return true;
  size_t rank = view.strides.size();
  bool rows = rank < 2 || view.strides[rank - 1] == 1;
  switch (kernel.getKind()) {
  case KernelKind::Row:
    return true;
  case KernelKind::Fold:
  case KernelKind::ScatterAdd:
  case KernelKind::TopK:
    return view.isContiguous();
  case KernelKind::Matmul:
    // Rows of integers are read four elements at a time.
    return rows || (view.strides[rank - 2] == 1 && !view.element.isInteger(8));
  case KernelKind::Attention:
  case KernelKind::AttentionBackward:
  case KernelKind::CacheUpdate:
    return rows;
  }
  llvm_unreachable("a kind of kernel that reads nothing");
}

bool tfm::canWrite(KernelOp kernel, unsigned result, const View &view) {
  Operation *def = kernel.getYield()->getOperand(result).getDefiningOp();
  bool rows = view.strides.empty() || view.strides.back() == 1;
  switch (kernel.getKind()) {
  case KernelKind::Row:
    return !isColumnReduction(def) || view.isContiguous();
  case KernelKind::Fold:
    return true;
  case KernelKind::ScatterAdd:
  case KernelKind::TopK:
    return view.isContiguous();
  case KernelKind::Matmul:
    return !isa_and_nonnull<MatmulOp>(def) || rows;
  case KernelKind::Attention:
  case KernelKind::AttentionBackward:
  case KernelKind::CacheUpdate:
    return rows;
  }
  llvm_unreachable("a kind of kernel that writes nothing");
}
