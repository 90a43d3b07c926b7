//===- KernelLibrary.cpp - the distinct kernels of a schedule -------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/codegen/cpu/KernelLibrary.h"

#include "compiler/codegen/cpu/Attention.h"
#include "compiler/codegen/cpu/CacheUpdate.h"
#include "compiler/codegen/cpu/ElementEmitter.h"
#include "compiler/codegen/cpu/Matmul.h"
#include "compiler/codegen/cpu/RowKernel.h"
#include "compiler/dialect/TfmDialect.h"

using namespace mlir;
using namespace tfm;

namespace {

/// Describes a launch up to the names of its values and the places of its
/// buffers: launches with equal descriptions are computed by one kernel.
class Description {
public:
  explicit Description(const Launch &launch) : os(text) {
    for (auto &[value, view] : launch.reads)
      number(value);
    os << static_cast<int>(launch.group.kind) << ' ' << launch.group.domain.rows
       << 'x' << launch.group.domain.cols << ' ' << launch.chunks << ' '
       << llvm::bit_cast<uint64_t>(launch.fill) << ' ' << launch.accumulate;
    if (launch.fold)
      os << launch.fold->getName();
    for (Operation *op : launch.group.ops)
      describe(op);
    for (auto &[value, view] : launch.reads)
      describe(view);
    os << ">";
    for (auto &[value, view] : launch.writes) {
      // A copy or a fold writes the value that it reads.
      os << (numbers.contains(value) ? numbers.lookup(value) : -1)
         << value.getType();
      describe(view);
    }
  }

  std::string text;

private:
  int number(Value value) {
    return numbers.try_emplace(value, static_cast<int>(numbers.size()))
        .first->second;
  }

  void describe(const View &view) {
    os << view.element << '[';
    llvm::interleave(view.shape, os, "x");
    os << '/';
    llvm::interleave(view.strides, os, ",");
    os << ']';
  }

  void describe(Operation *op) {
    // What it reads first, so that every operand has a number.
    for (Value operand : op->getOperands()) {
      Operation *def = operand.getDefiningOp();
      if (!numbers.contains(operand) && def && isFree(def))
        describe(def);
    }
    os << op->getName() << '(';
    for (Value operand : op->getOperands())
      os << number(operand) << ':' << operand.getType() << ' ';
    os << ')';
    for (NamedAttribute attr : op->getAttrs())
      if (attr.getName() != "tfm.value")
        os << attr.getName() << '=' << attr.getValue();
    if (Attribute properties = op->getPropertiesAsAttribute())
      os << properties;
    for (Value result : op->getResults())
      os << "->" << number(result) << ':' << result.getType();
  }

  llvm::raw_string_ostream os;
  llvm::DenseMap<Value, int> numbers;
};

MemRefType stridedType(const View &view) {
  Type element = memoryType(view.element);
  auto layout = StridedLayoutAttr::get(element.getContext(), 0, view.strides);
  return MemRefType::get(view.shape, element, layout);
}

const View *viewIn(ArrayRef<std::pair<Value, View>> list, Value value) {
  for (auto &[candidate, view] : list)
    if (candidate == value)
      return &view;
  return nullptr;
}

} // namespace

FailureOr<std::string> KernelLibrary::kernelFor(const Launch &launch) {
  std::string description = Description(launch).text;
  auto known = names.find(description);
  if (known != names.end())
    return known->second;
  std::string name = "kernel" + std::to_string(names.size());
  Kernel kernel = emit(launch, name);
  if (!kernel.func)
    return failure();
  scratch = std::max(scratch, kernel.scratch);
  names[description] = name;
  return name;
}

Kernel KernelLibrary::emit(const Launch &launch, StringRef name) {
  OpBuilder builder(module.getContext());
  switch (launch.group.kind) {
  case KernelKind::Row:
    return emitRowKernel(builder, module, name, launch, schedule.materialised,
                         target.lanes);
  case KernelKind::ScatterAdd:
    return emitScatterAddKernel(builder, module, name, launch,
                                schedule.materialised, target.lanes);
  case KernelKind::CacheUpdate:
    return emitCacheUpdateKernel(builder, module, name, launch, target.lanes);
  case KernelKind::Matmul:
    return emitMatmulKernel(launch, name);
  case KernelKind::Attention:
  case KernelKind::AttentionBackward:
    return emitAttentionKernel(launch, name);
  }
  return {};
}

llvm::SmallVector<const View *> tfm::kernelBuffers(const Launch &launch) {
  SmallVector<const View *> order;
  auto all = [&](ArrayRef<std::pair<Value, View>> list,
                 llvm::function_ref<bool(Value)> wanted) {
    for (auto &[value, view] : list)
      if (wanted(value))
        order.push_back(&view);
  };
  auto any = [](Value) { return true; };
  switch (launch.group.kind) {
  case KernelKind::Row:
  case KernelKind::ScatterAdd:
  case KernelKind::CacheUpdate:
    all(launch.reads, any);
    all(launch.writes, any);
    break;
  case KernelKind::Matmul: {
    // A, B, the product where it is kept, then what the epilogue needs.
    auto op = cast<MatmulOp>(launch.group.ops.front());
    Value a = op.getA(), b = op.getB(), y = op.getY();
    order.push_back(viewIn(launch.reads, a));
    order.push_back(viewIn(launch.reads, b));
    all(launch.writes, [&](Value value) { return value == y; });
    all(launch.reads, [&](Value value) { return value != a && value != b; });
    all(launch.writes, [&](Value value) { return value != y; });
    break;
  }
  case KernelKind::Attention:
  case KernelKind::AttentionBackward:
    for (Value operand : launch.group.ops.front()->getOperands())
      if (isa<RankedTensorType>(operand.getType()))
        order.push_back(viewIn(launch.reads, operand));
    all(launch.writes, any);
    break;
  }
  return order;
}

/// The attributes and operands that both directions of attention share.
template <typename Op>
static AttentionSpec attentionSpec(Op op, const Launch &launch) {
  auto type = [&](Value value) {
    const View *view = value ? viewIn(launch.reads, value) : nullptr;
    return view ? stridedType(*view) : MemRefType();
  };
  AttentionSpec spec;
  spec.q = type(op.getQ());
  spec.k = type(op.getK());
  spec.v = type(op.getV());
  spec.mask = type(op.getMask());
  spec.causal = op.getCausal();
  spec.scale = op.getScale().convertToDouble();
  spec.window = op.getWindow();
  if (auto softcap = op.getSoftcap())
    spec.softcap = softcap->convertToDouble();
  if (auto dropout = op.getDropout())
    spec.dropout = dropout->convertToDouble();
  spec.site = op.getSite().value_or(0);
  spec.accumulate = launch.accumulate;
  return spec;
}

Kernel KernelLibrary::emitAttentionKernel(const Launch &launch,
                                          StringRef name) {
  OpBuilder builder(module.getContext());
  auto written = [&](Value value) {
    const View *view = value ? viewIn(launch.writes, value) : nullptr;
    return view ? stridedType(*view) : MemRefType();
  };
  if (auto op = dyn_cast<AttentionOp>(launch.group.ops.front())) {
    AttentionSpec spec = attentionSpec(op, launch);
    spec.out = written(op.getOut());
    spec.lse = written(op.getLse());
    return emitAttention(builder, module, name, spec, target);
  }
  auto op = cast<AttentionBackwardOp>(launch.group.ops.front());
  AttentionSpec spec = attentionSpec(op, launch);
  spec.out = stridedType(*viewIn(launch.reads, op.getOut()));
  spec.lse = stridedType(*viewIn(launch.reads, op.getLse()));
  spec.dout = stridedType(*viewIn(launch.reads, op.getDout()));
  spec.dq = written(op.getDq());
  spec.dk = written(op.getDk());
  spec.dv = written(op.getDv());
  spec.dmask = written(op.getDmask());
  return emitAttentionBackward(builder, module, name, spec, target);
}

Kernel KernelLibrary::emitMatmulKernel(const Launch &launch, StringRef name) {
  auto op = cast<MatmulOp>(launch.group.ops.front());
  MatmulSpec spec;
  RankedTensorType result = tensorType(op.getY());
  ArrayRef<int64_t> shape = result.getShape();
  spec.batch.assign(shape.begin(), shape.end() - 2);
  spec.m = shape[shape.size() - 2];
  spec.n = shape.back();
  spec.transposeA = op.getTransposeA();
  spec.transposeB = op.getTransposeB();
  ArrayRef<int64_t> aShape = tensorType(op.getA()).getShape();
  spec.k = aShape[aShape.size() - (spec.transposeA ? 2 : 1)];
  spec.a = stridedType(*viewIn(launch.reads, op.getA()));
  spec.b = stridedType(*viewIn(launch.reads, op.getB()));
  if (const View *c = viewIn(launch.writes, op.getY()))
    spec.c = stridedType(*c);
  OpBuilder builder(module.getContext());
  if (launch.group.ops.size() == 1)
    return emitMatmul(builder, module, name, spec, target);

  // The epilogue's buffers: everything but A, B and C.
  for (auto &[value, view] : launch.reads)
    if (value != op.getA() && value != op.getB())
      spec.extra.push_back(bufferType(view));
  for (auto &[value, view] : launch.writes)
    if (value != op.getY())
      spec.extra.push_back(bufferType(view));
  spec.epilogue = [&, op](OpBuilder &b, Location, EpilogueTile &tile) mutable {
    KernelBuilder k(b, module, target.lanes);
    SmallVector<Value> pointers;
    size_t extra = spec.c ? 3 : 2;
    auto pointerOf = [&](Value value) {
      size_t argument = value == op.getA()   ? 0
                        : value == op.getB() ? 1
                        : value == op.getY() ? 2
                                             : extra++;
      pointers.push_back(k.pointer(tile.buffers[argument]));
    };
    for (auto &[value, view] : launch.reads)
      pointerOf(value);
    for (auto &[value, view] : launch.writes)
      pointerOf(value);
    ElementEmitter elements(k, launch, schedule.materialised, pointers,
                            tile.arguments);
    Value row = k.toI64(tile.row);
    int64_t stride = spec.m;
    for (size_t i = spec.batch.size(); i-- > 0;) {
      row = k.add(row, k.mul(k.toI64(tile.batch[i]), stride));
      stride *= spec.batch[i];
    }
    elements.beginRow(row);
    elements.beginColumns(k.toI64(tile.column), tile.mask,
                          ElementEmitter::kAnyColumn);
    elements.provide(op.getY(), tile.value);
    SmallVector<Value> values;
    for (auto &[value, view] : launch.writes)
      values.push_back(elements.full(value));
    for (auto [i, value] : llvm::enumerate(values))
      elements.store(i, value);
  };
  return emitMatmul(builder, module, name, spec, target);
}
