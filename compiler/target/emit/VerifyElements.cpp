//===- VerifyElements.cpp - types that there are kernels for --------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/target/emit/VerifyElements.h"

#include "compiler/dialect/TfmDialect.h"

using namespace mlir;
using namespace tfm;

LogicalResult tfm::verifyElements(Operation *step) {
  auto isKnown = [](Type type) {
    auto shaped = dyn_cast<ShapedType>(type);
    Type element = shaped ? shaped.getElementType() : Type();
    return !element || element.isF32() || element.isBF16() ||
           element.isSignlessInteger(32) || element.isSignlessInteger(8) ||
           element.isSignlessInteger(1);
  };
  WalkResult walked = step->walk([&](Operation *op) {
    if (auto product = dyn_cast<MatmulOp>(op);
        product && !product.getAccumulator().isF32() &&
        !product.getAccumulator().isInteger(32)) {
      step->emitError() << "no kernel adds up a matrix product in "
                        << product.getAccumulator();
      return WalkResult::interrupt();
    }
    SmallVector<Type> types(op->getOperandTypes());
    llvm::append_range(types, op->getResultTypes());
    auto unknown = llvm::find_if_not(types, isKnown);
    if (unknown == types.end())
      return WalkResult::advance();
    step->emitError() << "no kernel takes elements of type "
                      << cast<ShapedType>(*unknown).getElementType();
    return WalkResult::interrupt();
  });
  return failure(walked.wasInterrupted());
}
