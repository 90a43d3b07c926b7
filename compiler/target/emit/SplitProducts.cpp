//===- SplitProducts.cpp - a product as a sum of several ------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/target/emit/SplitProducts.h"

#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace tfm;

void tfm::splitProduct(MatmulOp op, int64_t parts) {
  OpBuilder b(op);
  Location loc = op.getLoc();
  auto reshape = [&](Value x, ArrayRef<int64_t> shape) -> Value {
    return ReshapeOp::create(b, loc, tensorType(x).clone(shape), x);
  };
  // A part of each: the first axis is the part's.
  auto cut = [&](Value x, bool termsFirst) -> Value {
    ArrayRef<int64_t> shape = tensorType(x).getShape();
    if (termsFirst)
      return reshape(x, {parts, shape[0] / parts, shape[1]});
    return TransposeOp::create(b, loc,
                               reshape(x, {shape[0], parts, shape[1] / parts}),
                               ArrayRef<int64_t>{1, 0, 2});
  };
  Value products =
      MatmulOp::create(b, loc, cut(op.getA(), op.getTransposeA()),
                       cut(op.getB(), !op.getTransposeB()), op.getTransposeA(),
                       op.getTransposeB(), op.getAccumulator());
  auto part = [&](int64_t number) {
    return reshape(SliceOp::create(b, loc, products, 0, number, 1),
                   op.getType().getShape());
  };
  Value sum = part(0);
  for (int64_t number = 1; number != parts; ++number)
    sum = AddOp::create(b, loc, sum, part(number));
  op.replaceAllUsesWith(sum);
  op.erase();
}
