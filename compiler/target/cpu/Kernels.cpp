//===- Kernels.cpp - the kernel of a step ---------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/target/cpu/Kernels.h"

#include "compiler/schedule/Launches.h"
#include "compiler/target/cpu/Attention.h"
#include "compiler/target/cpu/CacheUpdate.h"
#include "compiler/target/cpu/ProductPlan.h"
#include "compiler/target/cpu/RowKernel.h"
#include "compiler/target/emit/ElementEmitter.h"
#include "compiler/target/emit/VerifyElements.h"
#include "runtime/tfm_model.h"

using namespace mlir;
using namespace tfm;
using namespace tfm::sched;

namespace {

/// How elements lie in memory: booleans are bytes.
MemRefType storedType(Value argument) {
  if (!argument)
    return {};
  auto type = cast<MemRefType>(argument.getType());
  Type element = type.getElementType();
  return element.isInteger(1)
             ? MemRefType::get(type.getShape(), memoryType(element),
                               type.getLayout())
             : type;
}

/// Where a result is written; null where it is not.
MemRefType writtenType(Value result) {
  return storedType(writtenArgumentOf(result));
}

} // namespace

/// What both directions of attention share.
template <typename Op>
static AttentionSpec attentionSpec(Op op, LaunchOp launch) {
  AttentionSpec spec;
  static_cast<AttentionRule &>(spec) = ruleOf(op, launch);
  spec.q = storedType(argumentOf(op.getQ()));
  spec.k = storedType(argumentOf(op.getK()));
  spec.v = storedType(argumentOf(op.getV()));
  spec.mask = storedType(argumentOf(op.getMask()));
  spec.distanceBias = storedType(argumentOf(op.getDistanceBias()));
  return spec;
}

/// What only attention itself has, forward.
static AttentionSpec forwardSpec(AttentionOp op, LaunchOp launch) {
  AttentionSpec spec = attentionSpec(op, launch);
  spec.start = storedType(argumentOf(op.getStart()));
  spec.keyScale = storedType(argumentOf(op.getKeyScale()));
  spec.valueScale = storedType(argumentOf(op.getValueScale()));
  spec.out = writtenType(op.getOut());
  spec.lse = writtenType(op.getLse());
  return spec;
}

static Kernel emitAttentionKernel(OpBuilder &builder, ModuleOp module,
                                  StringRef name, LaunchOp launch,
                                  const CpuMachine &machine) {
  if (auto op = dyn_cast<AttentionOp>(launch.getFirstOp()))
    return emitAttention(builder, module, name, forwardSpec(op, launch),
                         machine);
  auto op = cast<AttentionBackwardOp>(launch.getFirstOp());
  AttentionSpec spec = attentionSpec(op, launch);
  spec.out = storedType(argumentOf(op.getOut()));
  spec.lse = storedType(argumentOf(op.getLse()));
  spec.dout = storedType(argumentOf(op.getDout()));
  spec.dq = writtenType(op.getDq());
  spec.dk = writtenType(op.getDk());
  spec.dv = writtenType(op.getDv());
  spec.dmask = writtenType(op.getDmask());
  spec.ddistance = writtenType(op.getDdistance());
  return emitAttentionBackward(builder, module, name, spec, machine);
}

/// A product as its launch has it, without an epilogue.
static MatmulSpec matmulSpec(LaunchOp launch) {
  auto op = cast<MatmulOp>(launch.getFirstOp());
  MatmulSpec spec;
  RankedTensorType result = tensorType(op.getY());
  ArrayRef<int64_t> shape = result.getShape();
  spec.batch.assign(shape.begin(), shape.end() - 2);
  spec.m = shape[shape.size() - 2];
  spec.n = shape.back();
  spec.accumulator = op.getAccumulator();
  spec.transposeA = op.getTransposeA();
  spec.transposeB = op.getTransposeB();
  spec.k = op.getTerms();
  // A and B are the first of what is read, C the first of what is written.
  spec.a = storedType(argumentOf(op.getA()));
  if (auto weights = op.getB().getDefiningOp<DequantiseOp>()) {
    spec.b = storedType(argumentOf(weights.getQ()));
    spec.scale = storedType(argumentOf(weights.getScale()));
    spec.minimum = storedType(argumentOf(weights.getMinimum()));
  } else if (auto weights = op.getB().getDefiningOp<UnpackOp>()) {
    spec.b = storedType(argumentOf(weights.getPanels()));
    spec.inPanels = true;
  } else {
    spec.b = storedType(argumentOf(op.getB()));
  }
  spec.c = writtenType(op.getY());
  for (Value read : launch.getReads().drop_front(spec.operands()))
    spec.reads.push_back(storedType(read));
  for (Value write : launch.getWrites().drop_front(spec.c ? 1 : 0))
    spec.writes.push_back(storedType(write));
  return spec;
}

static Kernel emitMatmulKernel(OpBuilder &builder, ModuleOp module,
                               StringRef name, LaunchOp launch,
                               const CpuMachine &machine) {
  auto op = cast<MatmulOp>(launch.getFirstOp());
  MatmulSpec spec = matmulSpec(launch);
  SmallVector<Value> written;
  for (BlockArgument to : launch.getWriteArgs())
    written.push_back(launch.getWriteOf(to.getArgNumber()).getValue());
  if (written.size() == 1 && written.front() == op.getY())
    return emitMatmul(builder, module, name, spec, machine);

  spec.epilogue = [&, op](OpBuilder &b, Location, EpilogueTile &tile) mutable {
    KernelBuilder k(b, module, machine.lanes);
    SmallVector<Value> pointers;
    for (Value buffer : tile.buffers)
      pointers.push_back(k.pointer(buffer));
    ElementEmitter elements(k, launch, pointers, tile.arguments);
    Value row = k.toI64(tile.row);
    int64_t stride = spec.m;
    for (size_t i = spec.batch.size(); i-- > 0;) {
      row = k.add(row, k.mul(k.toI64(tile.batch[i]), stride));
      stride *= spec.batch[i];
    }
    elements.beginRow(row);
    elements.beginColumns(k.toI64(tile.column), tile.mask,
                          ElementEmitter::anyColumn);
    elements.provide(op.getY(), tile.value);
    SmallVector<Value> values;
    for (Value value : written)
      values.push_back(elements.full(value));
    for (auto [i, value] : llvm::enumerate(values))
      elements.store(static_cast<unsigned>(i), value);
  };
  return emitMatmul(builder, module, name, spec, machine);
}

static Kernel emitLaunch(OpBuilder &builder, ModuleOp module, StringRef name,
                         LaunchOp launch, const CpuMachine &machine) {
  switch (launch.getKind()) {
  case KernelKind::Row:
  case KernelKind::Fold:
    return emitRowKernel(builder, module, name, launch, machine);
  case KernelKind::ScatterAdd:
    return emitScatterAddKernel(builder, module, name, launch, machine.lanes);
  case KernelKind::CacheUpdate:
    return emitCacheUpdateKernel(builder, module, name, launch, machine.lanes);
  case KernelKind::Matmul:
    return emitMatmulKernel(builder, module, name, launch, machine);
  case KernelKind::Attention:
  case KernelKind::AttentionBackward:
    return emitAttentionKernel(builder, module, name, launch, machine);
  case KernelKind::TopK:
    launch.emitError("a CPU has no kernel for it but what tfm-decompose makes");
    return {};
  }
  llvm_unreachable("a kind of kernel without an emitter");
}

Kernel tfm::emitKernel(Operation *step, StringRef name, ModuleOp module,
                       const CpuMachine &machine) {
  if (failed(verifyElements(step)))
    return {};
  OpBuilder builder(module.getContext());
  if (auto copy = dyn_cast<CopyOp>(step))
    return emitCopyKernel(builder, module, name, copy, machine);
  if (auto fill = dyn_cast<FillOp>(step))
    return emitFillKernel(builder, module, name, fill, machine);
  return emitLaunch(builder, module, name, cast<LaunchOp>(step), machine);
}

/// In the words of runtime/tfm_model.h.
static StringRef nameOf(Terms terms) {
  switch (terms) {
  case Terms::F32:
  case Terms::F32TimesBf16:
    return TFM_PRODUCTS_F32;
  case Terms::Bf16Pairs:
    return TFM_PRODUCTS_BF16_PAIRS;
  case Terms::Bf16Tiles:
    return TFM_PRODUCTS_BF16_TILES;
  case Terms::I8Quads:
  case Terms::I8SignedQuads:
    return TFM_PRODUCTS_INT8_QUADS;
  case Terms::I8Pairs:
    return TFM_PRODUCTS_INT8_PAIRS;
  }
  llvm_unreachable("terms that nothing is said of");
}

StringRef tfm::productsOf(Operation *step, const CpuMachine &machine) {
  auto launch = dyn_cast<LaunchOp>(step);
  if (!launch)
    return TFM_PRODUCTS_F32;
  // Of a launch that only moves or casts there is none.
  Operation *first = launch.getFirstOp();
  if (auto op = dyn_cast_or_null<AttentionOp>(first))
    return nameOf(termsOfAttention(forwardSpec(op, launch), machine));
  if (auto op = dyn_cast_or_null<AttentionBackwardOp>(first))
    return nameOf(termsOfAttention(attentionSpec(op, launch), machine));
  if (launch.getKind() != KernelKind::Matmul)
    return TFM_PRODUCTS_F32;
  StringRef ofIntegers = nameOf(integerTerms(machine));
  return std::visit(
      llvm::makeVisitor(
          [&](const GroupedPanelsPlan &) { return ofIntegers; },
          [&](const GroupedPlan &plan) {
            return plan.integers ? ofIntegers : TFM_PRODUCTS_F32;
          },
          [&](const IntegerTilesPlan &) -> StringRef {
            return TFM_PRODUCTS_INT8_TILES;
          },
          [&](const FewRowsPlan &plan) {
            return plan.termsOfA.isInteger(8) ? ofIntegers
                   : plan.termsOfA.isBF16()   ? nameOf(Terms::Bf16Pairs)
                                              : nameOf(Terms::F32);
          },
          [&](const MatmulPlan &plan) { return nameOf(plan.terms); }),
      planProduct(matmulSpec(launch), machine));
}
