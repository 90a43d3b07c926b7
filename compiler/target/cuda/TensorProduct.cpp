//===- TensorProduct.cpp - matrix products on tensor cores ----------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/target/cuda/ProductKernel.h"

using namespace mlir;
using namespace tfm;
using namespace tfm::cuda;

namespace {

/// A warp has `partRows` rows and `partColumns` columns of a tile, in fragments
/// of 16 by 8 (PTX ISA, "Matrix Fragments for mma.m16n8k16"): of each a thread
/// has the elements 2 (lane % 4) and the one after it of the rows lane / 4 and
/// lane / 4 + 8.
class TensorProduct final : public ProductKernel {
public:
  TensorProduct(ModuleOp module, StringRef name, ProductLaunch product,
                const ProductTile &tile)
      : ProductKernel(module, name, product, tile, Units::Tensor) {}

private:
  static constexpr int64_t fragmentRows = 16, fragmentColumns = 8,
                           fragmentTerms = 16, ofFragment = 4;

  int64_t rowFragments() const { return tile.partRows / fragmentRows; }
  int64_t columnFragments() const { return tile.partColumns / fragmentColumns; }
  int64_t sums() const override {
    return rowFragments() * columnFragments() * ofFragment;
  }

  void beginSteps() override {
    int64_t perRow = tile.columns / tile.partColumns;
    part = k.div(block.warp(), perRow);
    column = k.mul(k.rem(block.warp(), k.i64(perRow)), tile.partColumns);
    a->beginFragments(k.mul(part, tile.partRows), rowFragments(),
                      /*isB=*/false);
    b->beginFragments(column, tile.partColumns / fragmentTerms, /*isB=*/true);
  }

  SmallVector<Value> multiply(Value stageA, Value stageB,
                              ValueRange before) override {
    SmallVector<Value> next(before);
    for (int64_t step = 0; step != tile.depth / fragmentTerms; ++step) {
      SmallVector<SmallVector<Value>> x, y;
      for (int64_t i = 0; i != rowFragments(); ++i)
        x.push_back(a->fragment(stageA, i, step));
      for (int64_t j = 0; j != columnFragments() / 2; ++j)
        y.push_back(b->fragment(stageB, j, step));
      for (int64_t i = 0; i != rowFragments(); ++i)
        for (int64_t j = 0; j != columnFragments(); ++j)
          block.multiplyFragments(
              x[i], ArrayRef(y[j / 2]).slice(j % 2 * 2, 2),
              MutableArrayRef(next).slice(
                  (i * columnFragments() + j) * ofFragment, ofFragment));
    }
    return next;
  }

  int64_t partRowsOfBand(int64_t bytes) const override {
    int64_t rows = tile.partRows;
    while (rows > fragmentRows &&
           tile.rows / tile.partRows * rows * bandStride() * 4 > bytes)
      rows /= 2;
    return rows;
  }

  void storeBand(int64_t band, ValueRange sums) override {
    Value row = k.add(k.mul(part, bandPartRows), k.div(block.lane(), 4));
    Value inRow = k.add(column, k.mul(k.rem(block.lane(), k.i64(4)), 2));
    Value to = k.at(memory, k.add(k.mul(row, bandStride()), inRow));
    int64_t fragments = bandPartRows / fragmentRows;
    for (int64_t i = 0; i != fragments; ++i)
      for (int64_t j = 0; j != columnFragments(); ++j)
        for (int64_t half = 0; half != 2; ++half)
          block.storeVector(
              sums.slice(((band * fragments + i) * columnFragments() + j) *
                                 ofFragment +
                             half * 2,
                         2),
              k.at(to, (i * fragmentRows + half * 8) * bandStride() +
                           j * fragmentColumns));
  }

  Value rowOf(Value band, Value inBand) override {
    Value ofPart = k.mul(k.div(inBand, bandPartRows), tile.partRows);
    return k.add(k.add(ofPart, k.mul(band, bandPartRows)),
                 k.rem(inBand, k.i64(bandPartRows)));
  }

  /// This warp's number down the tile, and its first column.
  Value part, column;
};

} // namespace

void cuda::emitTensorProduct(ModuleOp module, StringRef name,
                             ProductLaunch product, const ProductTile &tile) {
  TensorProduct(module, name, product, tile).emit();
}
