//===- SplitProducts.cpp - long sums of products in two halves ------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/target/emit/SplitProducts.h"
#include "compiler/dialect/TfmDialect.h"
#include "compiler/target/cpu/Passes.h"

#include "mlir/IR/BuiltinOps.h"

namespace tfm::cpu {
#define GEN_PASS_DEF_SPLITPRODUCTSPASS
#include "compiler/target/cpu/Passes.h.inc"
} // namespace tfm::cpu

using namespace mlir;
using namespace tfm;

namespace {

/// Whether both factors are read along the rows that are added up, and are much
/// more than the product: then it is cheaper to write the product of each half
/// and read it once more than to fetch what another thread's cache holds.
bool pays(MatmulOp op) {
  RankedTensorType a = tensorType(op.getA()), b = tensorType(op.getB());
  if (a.getRank() != 2 || !op.getTransposeA() || op.getTransposeB())
    return false;
  int64_t k = a.getDimSize(0), m = a.getDimSize(1), n = b.getDimSize(1);
  return k % 2 == 0 && 4 * m * n <= (m + n) * k;
}

struct SplitProductsPass
    : tfm::cpu::impl::SplitProductsPassBase<SplitProductsPass> {
  void runOnOperation() override {
    SmallVector<MatmulOp> products;
    getOperation().walk([&](MatmulOp op) {
      if (pays(op))
        products.push_back(op);
    });
    for (MatmulOp op : products)
      splitProduct(op, 2);
  }
};

} // namespace
