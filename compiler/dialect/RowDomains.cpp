//===- RowDomains.cpp - what row kernels go over --------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/dialect/TfmDialect.h"

using namespace mlir;
using namespace tfm;

/// A sum over the last axis goes over its rows; one over another axis has
/// everything after that as columns.
static Domain domainOfReduction(Value x, int64_t axis) {
  RankedTensorType type = tensorType(x);
  bool isLast = axis == type.getRank() - 1;
  int64_t cols = 1;
  for (int64_t size : type.getShape().drop_front(isLast ? axis : axis + 1))
    cols *= size;
  return {type.getNumElements() / cols, cols};
}

Role Domain::roleOf(Type type) const {
  auto tensor = cast<RankedTensorType>(type);
  int64_t n = tensor.getNumElements();
  bool wholeRows = rows == 1 || cols == 1 ||
                   (tensor.getRank() > 0 && tensor.getShape().back() == cols);
  if (n == rows * cols && wholeRows)
    return Role::Full;
  return n == rows ? Role::Scalar : Role::Other;
}

Domain tfm::rowsOf(Value value) {
  RankedTensorType type = tensorType(value);
  int64_t cols = type.getRank() ? type.getShape().back() : 1;
  return {type.getNumElements() / cols, cols};
}

Domain tfm::domainOf(Value value) {
  RankedTensorType type = tensorType(value);
  if (type.getRank() == 0 || type.getShape().back() == 1)
    return {1, type.getNumElements()};
  return rowsOf(value);
}

Domain ReduceSumOp::getDomain() { return domainOfReduction(getX(), getAxis()); }
std::optional<int64_t> ReduceSumOp::getReducedAxis() { return getAxis(); }

Domain ReduceMaxOp::getDomain() { return domainOfReduction(getX(), getAxis()); }
std::optional<int64_t> ReduceMaxOp::getReducedAxis() { return getAxis(); }

// One id per row; the row of the table may be anywhere.
bool GatherOp::readsAtPoint(unsigned operand) { return operand == 1; }
Domain GatherOp::getDomain() {
  int64_t rows = tensorType(getIds()).getNumElements();
  return {rows, tensorType(getY()).getNumElements() / rows};
}

// The counters of random numbers go by row and column.
Domain DropoutOp::getDomain() { return rowsOf(getY()); }
Domain UniformOp::getDomain() { return rowsOf(getY()); }
