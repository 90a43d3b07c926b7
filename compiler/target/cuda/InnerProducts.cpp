//===- InnerProducts.cpp - what attention's derivative reads often --------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/dialect/TfmDialect.h"
#include "compiler/target/cuda/Passes.h"

namespace tfm::cuda {
#define GEN_PASS_DEF_INNERPRODUCTSPASS
#include "compiler/target/cuda/Passes.h.inc"
} // namespace tfm::cuda

using namespace mlir;
using namespace tfm;

namespace {

struct InnerProductsPass
    : tfm::cuda::impl::InnerProductsPassBase<InnerProductsPass> {
  void runOnOperation() override {
    getOperation().walk([](AttentionBackwardOp op) {
      if (op.getInner())
        return;
      OpBuilder b(op);
      Location loc = op.getLoc();
      RankedTensorType type =
          tensorType(op.getOut())
              .clone(tensorType(op.getLse()).getElementType());
      auto wide = [&](Value x) -> Value {
        return x.getType() == type ? x : CastOp::create(b, loc, type, x);
      };
      Value products =
          MulOp::create(b, loc, wide(op.getOut()), wide(op.getDout()));
      Value sums = ReduceSumOp::create(b, loc, products, type.getRank() - 1);
      op.getInnerMutable().assign(
          ReshapeOp::create(b, loc, op.getLse().getType(), sums));
    });
  }
};

} // namespace
