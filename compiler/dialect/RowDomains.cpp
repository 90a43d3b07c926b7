//===- RowDomains.cpp - what row kernels go over --------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/dialect/TfmDialect.h"

using namespace mlir;
using namespace tfm;

namespace {

/// The last axis as columns, even where it has one element.
RowDomain rowsOf(Value value) {
  RankedTensorType type = tensorType(value);
  int64_t cols = type.getRank() ? type.getShape().back() : 1;
  return {type.getNumElements() / cols, cols};
}

/// A sum over the last axis goes over its rows; one over another axis has
/// everything after that as columns.
RowDomain domainOfReduction(Value x, int64_t axis) {
  RankedTensorType type = tensorType(x);
  bool isLast = axis == type.getRank() - 1;
  int64_t cols = 1;
  for (int64_t size : type.getShape().drop_front(isLast ? axis : axis + 1))
    cols *= size;
  return {type.getNumElements() / cols, cols};
}

} // namespace

RowDomain tfm::rowDomainOf(Value value) {
  RankedTensorType type = tensorType(value);
  if (type.getRank() == 0 || type.getShape().back() == 1)
    return {1, type.getNumElements()};
  return rowsOf(value);
}

RowDomain ReduceSumOp::getRowDomain() {
  return domainOfReduction(getX(), getAxis());
}
std::optional<int64_t> ReduceSumOp::getReducedAxis() { return getAxis(); }

RowDomain ReduceMaxOp::getRowDomain() {
  return domainOfReduction(getX(), getAxis());
}
std::optional<int64_t> ReduceMaxOp::getReducedAxis() { return getAxis(); }

// One id per row; the row of the table may be anywhere.
bool GatherOp::readsAtPoint(unsigned operand) { return operand == 1; }
RowDomain GatherOp::getRowDomain() {
  int64_t rows = tensorType(getIds()).getNumElements();
  return {rows, tensorType(getY()).getNumElements() / rows};
}

// The counters of its random numbers go by row and column.
RowDomain DropoutOp::getRowDomain() { return rowsOf(getY()); }
