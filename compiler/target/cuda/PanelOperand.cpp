//===- PanelOperand.cpp - an operand that the hardware brings -------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/target/cuda/PanelOperand.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "runtime/tfm_model.h"

using namespace mlir;
using namespace tfm;
using namespace tfm::cuda;

static SmallVector<size_t> axesOf(const ProductOperand &from,
                                  ArrayRef<int64_t> batch) {
  SmallVector<size_t> axes;
  for (size_t axis = batch.size(); axis-- > 0;)
    if (batch[axis] > 1 && from.batchStrides[axis] != 0)
      axes.push_back(axis);
  return axes;
}

bool PanelOperand::canBring(const ProductOperand &from,
                            ArrayRef<int64_t> batch) {
  return StagedOperand::canCopy(from) &&
         axesOf(from, batch).size() + 2 <= TFM_MAX_BOXED_RANK;
}

PanelOperand::PanelOperand(BlockBuilder &block, const ProductOperand &from,
                           unsigned argument, ArrayRef<int64_t> batch,
                           int64_t size)
    : block(block), k(block.k), from(from), size(size),
      batchAxes(axesOf(from, batch)) {
  BoxedTensor boxed{argument, {}, {}, {}};
  auto addAxis = [&](int64_t count, int64_t stride, int64_t inBox) {
    boxed.sizes.push_back(count);
    boxed.strides.push_back(stride);
    boxed.box.push_back(inBox);
  };
  if (isAlongTerms()) {
    addAxis(from.terms, 1, elements);
    addAxis(from.outers, from.outerStride, size);
  } else {
    addAxis(from.outers, 1, elements);
    addAxis(from.terms, from.termStride, elements);
  }
  for (size_t axis : batchAxes)
    addAxis(batch[axis], from.batchStrides[axis], 1);
  tensor = block.boxed(boxed);
}

void PanelOperand::bring(Value stage, Value outer, Value term,
                         ArrayRef<Value> indices, Value barrier) {
  for (int64_t panel = 0; panel != panels(); ++panel) {
    SmallVector<Value> first;
    if (isAlongTerms())
      first = {term, outer};
    else
      first = {k.add(outer, panel * elements), term};
    for (size_t axis : batchAxes)
      first.push_back(indices[axis]);
    block.copyBox(k.at(stage, panel * panelBytes(), k.b.getI8Type()), tensor,
                  first, barrier);
  }
}

constexpr int64_t rowBytes = PanelOperand::elements * 2, termsOfStep = 16,
                  stepsOfStage = PanelOperand::elements / termsOfStep;

/// As descriptors have places and strides.
static int64_t encode(int64_t bytes) { return bytes >> 4; }

int64_t PanelOperand::stepBytes() const {
  return termsOfStep * (isAlongTerms() ? 2 : rowBytes);
}

Value PanelOperand::addressOf(Value pointer) {
  return LLVM::PtrToIntOp::create(k.b, k.loc, k.b.getI32Type(), pointer);
}

/// All but the place.
int64_t PanelOperand::layoutBits() const {
  constexpr int64_t swizzledRows = 8, swizzle128 = 1;
  int64_t leading = isAlongTerms() ? 1 : encode(panelBytes());
  return leading << 16 | encode(swizzledRows * rowBytes) << 32 |
         swizzle128 << 62;
}

Value PanelOperand::descriptor(Value stage, Value first, int64_t step) {
  Value at = isAlongTerms() ? k.add(k.mul(first, rowBytes), step * stepBytes())
                            : k.add(k.mul(k.div(first, elements), panelBytes()),
                                    step * stepBytes());
  Value address = addressOf(k.at(stage, at, k.b.getI8Type()));
  address = arith::ExtUIOp::create(k.b, k.loc, k.i64Type, address);
  Value start = k.div(k.rem(address, k.i64(1 << 18)), 16);
  return arith::OrIOp::create(k.b, k.loc, start, k.i64(layoutBits()));
}

Value PanelOperand::startOf(Value stage) {
  auto number = [&](int64_t value) {
    return arith::ConstantIntOp::create(k.b, k.loc, k.b.getI32Type(), value);
  };
  Value address =
      arith::RemUIOp::create(k.b, k.loc, addressOf(stage), number(1 << 18));
  address = arith::DivUIOp::create(k.b, k.loc, address, number(16));
  auto low = static_cast<int32_t>(layoutBits());
  return arith::OrIOp::create(k.b, k.loc, address, number(low));
}

Value PanelOperand::descriptorFrom(Value start, int64_t step) {
  int64_t bytes =
      step / stepsOfStage * stageBytes() + step % stepsOfStage * stepBytes();
  Value low =
      arith::AddIOp::create(k.b, k.loc, start,
                            arith::ConstantIntOp::create(
                                k.b, k.loc, k.b.getI32Type(), encode(bytes)));
  low = arith::ExtUIOp::create(k.b, k.loc, k.i64Type, low);
  return arith::OrIOp::create(k.b, k.loc, low,
                              k.i64(layoutBits() & ~int64_t{0xffffffff}));
}
