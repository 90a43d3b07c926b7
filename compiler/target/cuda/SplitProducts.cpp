//===- SplitProducts.cpp - products with too few tiles --------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/target/emit/SplitProducts.h"

#include "compiler/target/cuda/Passes.h"
#include "compiler/target/cuda/ProductTile.h"
#include "compiler/target/cuda/RowProduct.h"

#include <cmath>

namespace tfm::cuda {
#define GEN_PASS_DEF_SPLITPRODUCTSPASS
#include "compiler/target/cuda/Passes.h.inc"
} // namespace tfm::cuda

using namespace mlir;
using namespace tfm;
using namespace tfm::cuda;

namespace {

/// Into how many parts its terms are best cut.
int64_t partsOf(MatmulOp op) {
  RankedTensorType a = tensorType(op.getA()), b = tensorType(op.getB());
  auto isFloat = [](RankedTensorType type) {
    return type.getElementType().isF32() || type.getElementType().isBF16();
  };
  if (a.getRank() != 2 || !isFloat(a) || !isFloat(b) ||
      op.getB().getDefiningOp<DequantiseOp>())
    return 1;
  bool transposed = op.getTransposeA();
  ProductShape shape{.batches = 1,
                     .m = a.getDimSize(transposed ? 1 : 0),
                     .n = b.getDimSize(op.getTransposeB() ? 0 : 1),
                     .terms = a.getDimSize(transposed ? 0 : 1)};
  if (shape.m <= mostRows)
    return 1;
  bool tensor = a.getElementType().isBF16() || b.getElementType().isBF16();
  Units units = tensor ? Units::Tensor : Units::F32;
  auto secondsOn = [&](const Gpu &gpu, int64_t parts) {
    ProductShape part = shape;
    part.batches = parts;
    part.terms /= parts;
    auto product = [&](Units by) {
      return secondsOf(chooseTile(by, part, gpu), by, part, gpu);
    };
    double least = product(units);
    if (tensor && &gpu == &h100)
      least = std::min(least, product(Units::Warpgroup));
    if (parts == 1)
      return least;
    // Results of the parts are written and read once more, by one more kernel.
    auto bytes = static_cast<double>(2 * 4 * parts * shape.m * shape.n);
    return least + gpu.launch + bytes / gpu.bandwidth;
  };
  // One cut for all GPUs: it decides the order of the sum.
  auto seconds = [&](int64_t parts) {
    return std::sqrt(secondsOn(a100, parts) * secondsOn(h100, parts));
  };
  // Fewer terms in a part fill no pipeline; what is to be gained is no less
  // than what estimates are off by.
  constexpr int64_t most = 16, leastTerms = 256;
  constexpr double gain = 0.85;
  int64_t best = 1;
  double least = gain * seconds(1);
  for (int64_t parts = 2; parts <= most; parts *= 2)
    if (shape.terms % (parts * 32) == 0 && shape.terms / parts >= leastTerms &&
        seconds(parts) < least) {
      best = parts;
      least = seconds(parts);
    }
  return best;
}

struct SplitProductsPass
    : tfm::cuda::impl::SplitProductsPassBase<SplitProductsPass> {
  void runOnOperation() override {
    SmallVector<std::pair<MatmulOp, int64_t>> products;
    getOperation().walk([&](MatmulOp op) {
      if (int64_t parts = partsOf(op); parts > 1)
        products.push_back({op, parts});
    });
    for (auto [op, parts] : products)
      splitProduct(op, parts);
  }
};

} // namespace
