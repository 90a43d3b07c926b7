//===- QuantiseActivations.cpp - products of integers ---------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What a weight of 8 bits or 4 meets is brought to 8 bits, too, where the
// processor multiplies those faster than f32: with a scale for each row, its
// largest magnitude being 127 ("vector-wise", Dettmers et al. 2022,
// "LLM.int8()", section 2.1). Sums are exact; what is lost is half a scale in
// each activation.
//
//===----------------------------------------------------------------------===//

#include "compiler/dialect/TfmBuilder.h"
#include "compiler/target/cpu/Passes.h"
#include "compiler/target/cpu/Terms.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"

namespace tfm::cpu {
#define GEN_PASS_DEF_QUANTISEACTIVATIONSPASS
#include "compiler/target/cpu/Passes.h.inc"
} // namespace tfm::cpu

using namespace mlir;
using namespace tfm;

namespace {

bool suits(MatmulOp op) {
  RankedTensorType a = tensorType(op.getA());
  if (a.getElementType().isInteger(8))
    return false;
  // Nothing else multiplies what lies in panels.
  if (op.getB().getDefiningOp<UnpackOp>())
    return true;
  if (op.getTransposeA())
    return false;
  // Each group of weights of 4 bits has sums of its own.
  return op.getB().getDefiningOp<DequantiseOp>() ||
         (tensorType(op.getB()).getElementType().isInteger(8) &&
          a.getShape().back() <= mostQuadTerms);
}

void quantise(MatmulOp op) {
  OpBuilder builder(op);
  TfmBuilder b{builder, op.getLoc()};
  Type f32 = builder.getF32Type();
  Value a = op.getA();
  if (op.getTransposeA()) {
    SmallVector<int64_t> swapped(
        llvm::to_vector(llvm::seq<int64_t>(tensorType(a).getRank())));
    std::swap(swapped.back(), swapped[swapped.size() - 2]);
    a = TransposeOp::create(builder, op.getLoc(), a, swapped);
  }
  auto [integers, scale] = b.quantiseRows(b.cast(a, f32));
  Type accumulator = isa<FloatType>(tensorType(op.getB()).getElementType())
                         ? f32
                         : builder.getI32Type();
  Value sums =
      MatmulOp::create(builder, op.getLoc(), integers, op.getB(),
                       /*transpose_a=*/false, op.getTransposeB(), accumulator);
  RankedTensorType result = tensorType(op.getY());
  Value wide = b.cast(sums, result.getElementType());
  op.replaceAllUsesWith(b.mul(wide, b.broadcast(scale, result)));
  op.erase();
}

struct QuantiseActivationsPass
    : tfm::cpu::impl::QuantiseActivationsPassBase<QuantiseActivationsPass> {
  void runOnOperation() override {
    SmallVector<MatmulOp> products;
    getOperation().walk([&](MatmulOp op) {
      if (suits(op))
        products.push_back(op);
    });
    llvm::for_each(products, quantise);
  }
};

} // namespace
