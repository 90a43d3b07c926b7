//===- ProductKernel.cpp - what kernels of products share -----------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/target/cpu/ProductKernel.h"
#include "compiler/dialect/TfmDialect.h"
#include "compiler/target/cpu/CpuMachine.h"
#include "runtime/tfm_model.h"

using namespace mlir;
using namespace tfm;

std::optional<Matrix> Matrix::of(MemRefType type, bool transposed) {
  int64_t offset = 0;
  SmallVector<int64_t> all;
  if (failed(type.getStridesAndOffset(all, offset)) || all.size() < 2 ||
      llvm::is_contained(all, ShapedType::kDynamic))
    return std::nullopt;
  Matrix matrix;
  matrix.element = type.getElementType();
  matrix.column = all.pop_back_val();
  matrix.row = all.pop_back_val();
  if (transposed)
    std::swap(matrix.row, matrix.column);
  matrix.batch = all;
  return matrix;
}

/// B as it lies in panels: the strides between outputs that begin a panel, and
/// between terms that begin four.
static std::optional<Matrix> panels(MemRefType type) {
  int64_t offset = 0;
  SmallVector<int64_t> strides;
  if (failed(type.getStridesAndOffset(strides, offset)) || strides.size() < 4 ||
      llvm::is_contained(strides, ShapedType::kDynamic))
    return std::nullopt;
  int64_t outputs = type.getShape().drop_back().back();
  ArrayRef<int64_t> inner = ArrayRef(strides).take_back(4);
  if (inner[3] != 1 || inner[2] != UnpackOp::termsTogether ||
      inner[1] != outputs * UnpackOp::termsTogether || inner[0] % outputs != 0)
    return std::nullopt;
  Matrix matrix;
  matrix.element = type.getElementType();
  matrix.batch.assign(strides.begin(), strides.end() - 4);
  matrix.row = outputs;
  matrix.column = inner[0] / outputs;
  return matrix;
}

std::optional<ProductOperands> ProductOperands::of(const MatmulSpec &spec) {
  std::optional<Matrix> a = Matrix::of(spec.a, spec.transposeA),
                        b = Matrix::of(spec.b, spec.transposeB),
                        c = spec.c ? Matrix::of(spec.c, false) : Matrix(),
                        scale = spec.isGrouped() ? Matrix::of(spec.scale, true)
                                                 : Matrix();
  if (spec.inPanels)
    b = panels(spec.b);
  if (!a || !b || !c || !scale)
    return std::nullopt;
  // Bytes of a row, and its scales and minima, each lie beside each other.
  if (spec.isGrouped() && (!spec.transposeB || b->row != 1 || scale->row != 1 ||
                           spec.minimum != spec.scale))
    return std::nullopt;
  // An axis of one element has no stride that matters.
  if (spec.m == 1 && a->column != 1)
    a->row = 1;
  if (spec.k == 1 && a->row != 1)
    a->column = 1;
  if (spec.k == 1 && b->column != 1 && !spec.inPanels)
    b->row = 1;
  if (spec.n == 1 && b->row != 1 && !spec.inPanels)
    b->column = 1;
  if (spec.n == 1)
    c->column = 1;
  if ((a->column != 1 && a->row != 1) ||
      (!spec.inPanels && b->column != 1 && b->row != 1) ||
      (spec.c && c->column != 1) || (!spec.c && !spec.epilogue))
    return std::nullopt;
  return ProductOperands{*a, *b, *c, *scale};
}

ProductKernel::ProductKernel(OpBuilder &builder, ModuleOp module,
                             const MatmulSpec &spec,
                             const ProductOperands &operands,
                             const CpuMachine &target)
    : spec(spec), a(operands.a), b(operands.b), c(operands.c),
      scale(operands.scale), kb(builder, module, target.lanes), module(module) {
}

Value ProductKernel::begin(StringRef name, int64_t scratchBytes) {
  SmallVector<Type> buffers{spec.a, spec.b};
  if (spec.isGrouped())
    buffers.append({spec.scale, spec.minimum});
  llvm::append_range(buffers, spec.reads);
  if (spec.c)
    buffers.push_back(spec.c);
  llvm::append_range(buffers, spec.writes);
  kernel = beginKernel(kb.b, module, name, buffers, scratchBytes);
  return kb.pointer(KernelArguments(kernel).scratch);
}

void ProductKernel::enterBatch(Value number) {
  aBase = kb.pointer(kernel.getArgument(0));
  bBase = kb.pointer(kernel.getArgument(1));
  if (spec.isGrouped()) {
    scaleBase = kb.pointer(kernel.getArgument(2));
    minimumBase = kb.pointer(kernel.getArgument(3));
  }
  cBase =
      spec.c
          ? kb.pointer(kernel.getArgument(spec.operands() + spec.reads.size()))
          : Value();
  batchIndices.assign(spec.batch.size(), Value());
  for (int64_t axis = spec.batch.size() - 1; axis >= 0; --axis) {
    Value size = kb.i64(spec.batch[axis]);
    Value index = kb.rem(number, size);
    number = kb.div(number, size);
    aBase = kb.at(aBase, kb.mul(index, a.batch[axis]), a.element);
    bBase = kb.at(bBase, kb.mul(index, b.batch[axis]), b.element);
    if (spec.isGrouped()) {
      Value offset = kb.mul(index, scale.batch[axis]);
      scaleBase = kb.at(scaleBase, offset, scale.element);
      minimumBase = kb.at(minimumBase, offset, scale.element);
    }
    if (cBase)
      cBase = kb.at(cBase, kb.mul(index, c.batch[axis]), c.element);
    batchIndices[axis] = kb.toIndex(index);
  }
}

GroupedRows ProductKernel::groupsAt(Value column, Value group) {
  return {b.at(kb, bBase, kb.mul(group, TFM_GROUP_BYTES), column),
          scale.at(kb, scaleBase, group, column),
          scale.at(kb, minimumBase, group, column), b.column, scale.column};
}

void ProductKernel::shareStrips(bool serial, int64_t strips,
                                function_ref<void(Value, Value)> body) {
  auto share = [&](Value thread, Value threads) {
    auto [from, to] =
        kb.share(kb.i64(spec.batches() * strips), thread, threads);
    auto oneBatch = [&, from = from, to = to](Value batch) {
      enterBatch(batch);
      Value first = kb.mul(batch, strips);
      body(kb.max(kb.i64(0), kb.sub(from, first)),
           kb.min(kb.i64(strips), kb.sub(to, first)));
    };
    if (spec.batches() == 1)
      oneBatch(kb.i64(0));
    else
      kb.loop(kb.div(from, strips), kb.div(kb.add(to, strips - 1), strips), 1,
              oneBatch);
  };
  KernelArguments arguments(kernel);
  Value thread = kb.toI64(arguments.thread);
  if (serial)
    kb.ifThen(kb.equal(thread, kb.i64(0)),
              [&] { share(kb.i64(0), kb.i64(1)); });
  else
    share(thread, kb.toI64(arguments.threads));
}

void ProductKernel::storeVector(Value row, Value column, Value value) {
  Value mask;
  if (spec.n % kb.lanes != 0)
    mask = kb.maskOf(kb.sub(kb.i64(spec.n), column));
  if (!spec.epilogue)
    return kb.store(value, c.at(kb, cBase, row, column), mask, c.element);
  EpilogueTile tile{value,
                    batchIndices,
                    kb.toIndex(row),
                    kb.toIndex(column),
                    mask,
                    kernel.getArguments().drop_back(5),
                    KernelArguments(kernel)};
  spec.epilogue(kb.b, kb.loc, tile);
}

Kernel tfm::refuseProduct(ModuleOp module, StringRef name) {
  module.emitError() << "the operands of matrix product '" << name
                     << "' have strides that its kernel cannot read";
  return {};
}
