//===- View.cpp - strided windows on buffers ------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/schedule/View.h"

#include "compiler/dialect/TfmDialect.h"

using namespace mlir;
using namespace tfm;

int64_t tfm::elementBytes(Type element) {
  if (element.isInteger(1))
    return 1;
  unsigned bits = element.isIntOrFloat() ? element.getIntOrFloatBitWidth() : 0;
  if (bits == 0 || bits % 8 != 0)
    llvm::report_fatal_error("a type of elements that is no whole bytes");
  return bits / 8;
}

View tfm::contiguousView(RankedTensorType type, Value buffer) {
  View view;
  view.buffer = buffer;
  view.element = type.getElementType();
  view.shape.assign(type.getShape().begin(), type.getShape().end());
  view.strides.assign(view.shape.size(), 1);
  for (int64_t i = static_cast<int64_t>(view.shape.size()) - 2; i >= 0; --i)
    view.strides[i] = view.strides[i + 1] * view.shape[i + 1];
  return view;
}

View tfm::viewOf(MemRefType type) {
  View view;
  view.element = type.getElementType();
  view.shape.assign(type.getShape().begin(), type.getShape().end());
  int64_t offset;
  SmallVector<int64_t> strides;
  if (failed(type.getStridesAndOffset(strides, offset)) || offset != 0)
    llvm::report_fatal_error("a view of memory without strides");
  view.strides.assign(strides.begin(), strides.end());
  return view;
}

MemRefType View::memref() const {
  return MemRefType::get(
      shape, element, StridedLayoutAttr::get(element.getContext(), 0, strides));
}

int64_t View::spanBytes() const {
  int64_t span = 1;
  for (auto [size, stride] : llvm::zip_equal(shape, strides))
    span += (size - 1) * stride;
  return span * elementBytes(element);
}

View View::through(Operation *op) const {
  if (auto reshape = dyn_cast<ReshapeOp>(op))
    return reshaped(tensorType(reshape.getY()).getShape());
  if (auto transpose = dyn_cast<TransposeOp>(op))
    return transposed(transpose.getPermutation());
  if (auto slice = dyn_cast<SliceOp>(op))
    return sliced(slice.getAxis(), slice.getStart(), slice.getSize());
  return broadcastTo(tensorType(cast<BroadcastOp>(op).getY()).getShape());
}

bool View::coincidesWith(const View &other) const {
  View one = *this, two = other;
  for (View *view : {&one, &two})
    for (auto [size, stride] : llvm::zip_equal(view->shape, view->strides))
      if (size == 1)
        stride = 0;
  size_t depth = std::max(one.loopSteps.size(), two.loopSteps.size());
  one.loopSteps.resize(depth, 0);
  two.loopSteps.resize(depth, 0);
  return one == two;
}

int64_t View::numElements() const {
  int64_t n = 1;
  for (int64_t size : shape)
    n *= size;
  return n;
}

bool View::isContiguous() const {
  int64_t expected = 1;
  for (int64_t i = static_cast<int64_t>(shape.size()) - 1; i >= 0; --i) {
    if (shape[i] != 1 && strides[i] != expected)
      return false;
    expected *= shape[i];
  }
  return true;
}

View View::transposed(ArrayRef<int64_t> permutation) const {
  View result = *this;
  for (auto [i, axis] : llvm::enumerate(permutation)) {
    result.shape[i] = shape[axis];
    result.strides[i] = strides[axis];
  }
  return result;
}

View View::sliced(int64_t axis, int64_t start, int64_t size) const {
  View result = *this;
  result.offset += start * strides[axis] * elementBytes(element);
  result.shape[axis] = size;
  return result;
}

View View::dropLeading() const {
  View result = *this;
  result.shape.erase(result.shape.begin());
  result.strides.erase(result.strides.begin());
  return result;
}

View View::perLayer(unsigned depth) const {
  View result = dropLeading();
  result.loopSteps.resize(std::max<size_t>(loopSteps.size(), depth + 1), 0);
  result.loopSteps[depth] += strides.front() * elementBytes(element);
  return result;
}

View View::atRow(Value number) const {
  assert(!row && "a view with a row has one more");
  View result = dropLeading();
  result.row = number;
  result.rowStep = strides.front() * elementBytes(element);
  return result;
}

View View::broadcastTo(ArrayRef<int64_t> to) const {
  View result = *this;
  result.shape.assign(to.begin(), to.end());
  result.strides.assign(to.size(), 0);
  size_t missing = to.size() - shape.size();
  for (size_t i = 0; i < shape.size(); ++i)
    if (shape[i] == to[missing + i])
      result.strides[missing + i] = strides[i];
  return result;
}

View View::reshaped(ArrayRef<int64_t> to) const {
  // Walk both shapes from the back in runs of axes with equal products; the old
  // axes of a run must be mergeable into one, which the new axes then split.
  View result = *this;
  result.shape.assign(to.begin(), to.end());
  result.strides.assign(to.size(), 0);
  int64_t from = static_cast<int64_t>(shape.size()) - 1;
  int64_t out = static_cast<int64_t>(to.size()) - 1;
  auto skipOnes = [&] {
    while (from >= 0 && shape[from] == 1)
      --from;
    while (out >= 0 && to[out] == 1)
      --out;
  };
  for (skipOnes(); from >= 0 && out >= 0; skipOnes()) {
    int64_t step = strides[from];
    int64_t have = shape[from--];
    int64_t first = out;
    int64_t want = to[out--];
    while (have != want) {
      if (have > want) {
        if (out < 0)
          return View();
        want *= to[out--];
        continue;
      }
      while (from >= 0 && shape[from] == 1)
        --from;
      if (from < 0 || strides[from] != step * have)
        return View();
      have *= shape[from--];
    }
    for (int64_t i = first; i > out; --i) {
      result.strides[i] = step;
      step *= to[i];
    }
  }
  if (from >= 0 || out >= 0)
    return View();
  return result;
}
