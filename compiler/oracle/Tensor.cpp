//===- Tensor.cpp - a dense array of doubles ------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/oracle/Tensor.h"

#include <cassert>

using namespace tfm::oracle;

int64_t tfm::oracle::numElements(llvm::ArrayRef<int64_t> shape) {
  int64_t result = 1;
  for (int64_t size : shape)
    result *= size;
  return result;
}

Tensor::Tensor(llvm::ArrayRef<int64_t> shape, double value)
    : shape(shape.begin(), shape.end()), data(numElements(shape), value) {}

Tensor::Tensor(llvm::ArrayRef<int64_t> shape, std::vector<double> data)
    : shape(shape.begin(), shape.end()), data(std::move(data)) {
  assert(numElements(shape) == size() && "data does not fit the shape");
}

int64_t Tensor::offset(llvm::ArrayRef<int64_t> index) const {
  assert(index.size() == shape.size() && "one number per axis");
  int64_t result = 0;
  for (size_t axis = 0; axis < shape.size(); ++axis)
    result = result * shape[axis] + index[axis];
  return result;
}

void tfm::oracle::forEachIndex(
    llvm::ArrayRef<int64_t> shape,
    llvm::function_ref<void(llvm::ArrayRef<int64_t>)> visit) {
  std::vector<int64_t> index(shape.size(), 0);
  for (int64_t left = numElements(shape); left > 0; --left) {
    visit(index);
    for (size_t axis = shape.size(); axis-- > 0;) {
      if (++index[axis] < shape[axis])
        break;
      index[axis] = 0;
    }
  }
}
