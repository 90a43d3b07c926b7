//===- ElementEmitter.cpp - the value of an expression at a point ---------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/codegen/cpu/ElementEmitter.h"

#include "compiler/codegen/cpu/Elementwise.h"
#include "compiler/codegen/cpu/VectorHelpers.h"
#include "compiler/codegen/schedule/Fuse.h"
#include "compiler/dialect/TfmDialect.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace tfm;

namespace {

/// Runs of axes that one stride walks, without those of size 1.
SmallVector<std::pair<int64_t, int64_t>> mergeAxes(ArrayRef<int64_t> shape,
                                                   ArrayRef<int64_t> strides) {
  SmallVector<std::pair<int64_t, int64_t>> axes;
  for (auto [size, stride] : llvm::zip_equal(shape, strides)) {
    if (size == 1)
      continue;
    if (!axes.empty() && axes.back().second == size * stride)
      axes.back() = {axes.back().first * size, stride};
    else
      axes.push_back({size, stride});
  }
  return axes;
}

} // namespace

ElementEmitter::ElementEmitter(KernelBuilder &k, const Launch &launch,
                               const OpSet &materialised, ValueRange buffers,
                               const KernelArguments &arguments)
    : k(k), launch(launch), materialised(materialised), arguments(arguments) {
  const Domain &domain = launch.group.domain;
  for (Operation *op : launch.group.ops)
    members.insert(op);
  // A copy walks its views in whatever shape serves best.
  auto roleOf = [&](Value value) {
    return launch.group.ops.empty() && !launch.writes.empty()
               ? Role::Full
               : domain.roleOf(value.getType());
  };
  unsigned next = 0;
  for (auto &[value, view] : launch.reads)
    reads[value] = makeAccess(buffers[next++], view, roleOf(value));
  for (auto &[value, view] : launch.writes)
    writes.push_back(makeAccess(buffers[next++], view, roleOf(value)));
}

ElementEmitter::Access
ElementEmitter::makeAccess(Value pointer, const View &view, Role role) const {
  Access access;
  access.pointer = pointer;
  access.view = view;
  const Domain &domain = launch.group.domain;
  if (role == Role::Other)
    return access;
  if (role == Role::Scalar || domain.cols == 1) {
    access.leading = mergeAxes(view.shape, view.strides);
    return access;
  }
  View flat = view;
  if (view.shape.empty() || view.shape.back() != domain.cols)
    flat = view.reshaped({domain.rows, domain.cols});
  if (!flat.isValid()) {
    access.perElement = true;
    return access;
  }
  access.columnStride = flat.strides.back();
  access.leading = mergeAxes(ArrayRef(flat.shape).drop_back(),
                             ArrayRef(flat.strides).drop_back());
  return access;
}

void ElementEmitter::beginRow(Value newRow) {
  row = newRow;
  rowValues.clear();
  rowOffsets.clear();
  chunkValues.clear();
  keepMasks.clear();
  columnValues = nullptr;
}

void ElementEmitter::beginColumns(Value newColumn, Value newMask, int64_t chunk,
                                  Operation *loop) {
  column = newColumn;
  mask = newMask;
  columnLoop = loop;
  // In a loop over columns every turn starts anew.
  if (chunk < 0)
    chunkValues[chunk].clear();
  columnValues = &chunkValues[chunk];
  columnInBlock = chunk == kAnyColumn ? -1
                  : chunk < 0         ? (-1 - chunk) * k.lanes
                                      : chunk % 64;
  block = chunk < 0 ? -1 : chunk / 64;
  if (chunk == -1)
    keepMasks.clear();
}

void ElementEmitter::provide(Value value, Value vector) {
  (*columnValues)[value] = vector;
}
void ElementEmitter::provideScalar(Value value, Value scalarValue) {
  rowValues[value] = scalarValue;
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

Type ElementEmitter::typeOf(Type element, bool vector) const {
  return vector ? Type(VectorType::get({k.lanes}, element)) : element;
}

Value ElementEmitter::fromMemory(Value value, Type element) {
  if (!element.isInteger(1))
    return value;
  Value zero =
      arith::ConstantOp::create(k.b, k.loc, k.b.getZeroAttr(value.getType()));
  return arith::CmpIOp::create(k.b, k.loc, arith::CmpIPredicate::ne, value,
                               zero);
}

static Value address(KernelBuilder &k, Value pointer, Type element,
                     Value offset) {
  Type stored = memoryType(element);
  Type result = k.ptrType;
  if (auto vector = dyn_cast<VectorType>(offset.getType()))
    result = VectorType::get(vector.getShape(), k.ptrType);
  return LLVM::GEPOp::create(k.b, k.loc, result, stored, pointer,
                             ValueRange{offset});
}

static unsigned alignmentOf(Type element) {
  return element.isInteger(1) ? 1 : 4;
}

Value ElementEmitter::rowOffset(const Access &access) {
  auto it = rowOffsets.find(&access);
  if (it != rowOffsets.end())
    return it->second;
  OpBuilder::InsertionGuard guard(k.b);
  if (columnLoop)
    k.b.setInsertionPoint(columnLoop);
  Value offset = k.i64(0);
  if (access.leading.size() == 1) {
    offset = k.mul(row, access.leading.front().second);
  } else {
    Value rest = row;
    for (size_t i = access.leading.size(); i-- > 0;) {
      auto [size, stride] = access.leading[i];
      Value index = i == 0 ? rest : k.rem(rest, k.i64(size));
      if (stride != 0)
        offset = k.add(offset, k.mul(index, stride));
      if (i != 0)
        rest = k.div(rest, size);
    }
  }
  return rowOffsets[&access] = offset;
}

/// Numbers of the current columns within their row, i64.
Value ElementEmitter::columnNumbers() {
  auto type = VectorType::get({k.lanes}, k.i64Type);
  SmallVector<int64_t> numbers(k.lanes);
  for (int64_t i = 0; i < k.lanes; ++i)
    numbers[i] = i;
  Value iota = arith::ConstantOp::create(
      k.b, k.loc, DenseElementsAttr::get(type, ArrayRef<int64_t>(numbers)));
  return k.add(vector::BroadcastOp::create(k.b, k.loc, type, column), iota);
}

/// Offsets of single elements of a view that no stride can walk.
Value ElementEmitter::elementIndex(const Access &access) {
  auto type = VectorType::get({k.lanes}, k.i64Type);
  auto splat = [&](int64_t value) -> Value {
    return arith::ConstantOp::create(k.b, k.loc,
                                     DenseElementsAttr::get(type, value));
  };
  Value first = k.mul(row, launch.group.domain.cols);
  Value rest = k.add(columnNumbers(),
                     vector::BroadcastOp::create(k.b, k.loc, type, first));
  Value offset = splat(0);
  for (size_t i = access.view.shape.size(); i-- > 0;) {
    Value size = splat(access.view.shape[i]);
    Value index = arith::RemUIOp::create(k.b, k.loc, rest, size);
    offset = k.add(offset, k.mul(index, splat(access.view.strides[i])));
    rest = arith::DivUIOp::create(k.b, k.loc, rest, size);
  }
  return offset;
}

/// `lanes` elements from `offset`, `stride` apart.
Value ElementEmitter::loadAt(const Access &access, Value offset,
                             int64_t stride) {
  Type element = access.view.element;
  auto type = VectorType::get({k.lanes}, memoryType(element));
  unsigned alignment = alignmentOf(element);
  if (stride == 1) {
    Value pointer = address(k, access.pointer, element, offset);
    if (!mask)
      return fromMemory(
          LLVM::LoadOp::create(k.b, k.loc, type, pointer, alignment), element);
    Value zero = arith::ConstantOp::create(k.b, k.loc, k.b.getZeroAttr(type));
    return fromMemory(LLVM::MaskedLoadOp::create(k.b, k.loc, type, pointer,
                                                 mask, zero, alignment),
                      element);
  }
  auto indexType = VectorType::get({k.lanes}, k.i64Type);
  Value offsets = offset;
  if (!isa<VectorType>(offset.getType())) {
    SmallVector<int64_t> steps(k.lanes);
    for (int64_t i = 0; i < k.lanes; ++i)
      steps[i] = i * stride;
    Value iota = arith::ConstantOp::create(
        k.b, k.loc,
        DenseElementsAttr::get(indexType, ArrayRef<int64_t>(steps)));
    offsets =
        k.add(vector::BroadcastOp::create(k.b, k.loc, indexType, offset), iota);
  }
  Value all = mask;
  if (!all)
    all = arith::ConstantOp::create(k.b, k.loc,
                                    DenseElementsAttr::get(k.maskType, true));
  Value zero = arith::ConstantOp::create(k.b, k.loc, k.b.getZeroAttr(type));
  Value pointers = address(k, access.pointer, element, offsets);
  return fromMemory(LLVM::masked_gather::create(k.b, k.loc, type, pointers, all,
                                                ValueRange{zero}, alignment),
                    element);
}

Value ElementEmitter::loadFull(const Access &access) {
  if (access.perElement)
    return loadAt(access, elementIndex(access), 0);
  if (access.columnStride == 0) {
    Value one = loadRowScalar(access);
    return vector::BroadcastOp::create(k.b, k.loc, typeOf(one.getType(), true),
                                       one);
  }
  Value offset = k.add(rowOffset(access), k.mul(column, access.columnStride));
  return loadAt(access, offset, access.columnStride);
}

Value ElementEmitter::loadRowScalar(const Access &access) {
  OpBuilder::InsertionGuard guard(k.b);
  Value offset = rowOffset(access);
  if (columnLoop)
    k.b.setInsertionPoint(columnLoop);
  Type element = access.view.element;
  Value pointer = address(k, access.pointer, element, offset);
  return fromMemory(LLVM::LoadOp::create(k.b, k.loc, memoryType(element),
                                         pointer, alignmentOf(element)),
                    element);
}

void ElementEmitter::store(unsigned index, Value vector) {
  const Access &access = writes[index];
  Type element = access.view.element;
  unsigned alignment = alignmentOf(element);
  if (element.isInteger(1))
    vector = arith::ExtUIOp::create(k.b, k.loc, typeOf(k.b.getI8Type(), true),
                                    vector);
  Value offsets;
  if (access.perElement) {
    offsets = elementIndex(access);
  } else {
    Value offset = rowOffset(access);
    if (launch.group.domain.cols != 1)
      offset = k.add(offset, k.mul(column, access.columnStride));
    if (access.columnStride == 1 || launch.group.domain.cols == 1) {
      Value pointer = address(k, access.pointer, element, offset);
      if (mask)
        LLVM::MaskedStoreOp::create(k.b, k.loc, vector, pointer, mask,
                                    alignment);
      else
        LLVM::StoreOp::create(k.b, k.loc, vector, pointer, alignment);
      return;
    }
    auto type = VectorType::get({k.lanes}, k.i64Type);
    SmallVector<int64_t> steps(k.lanes);
    for (int64_t i = 0; i < k.lanes; ++i)
      steps[i] = i * access.columnStride;
    Value iota = arith::ConstantOp::create(
        k.b, k.loc, DenseElementsAttr::get(type, ArrayRef<int64_t>(steps)));
    offsets =
        k.add(vector::BroadcastOp::create(k.b, k.loc, type, offset), iota);
  }
  Value all = mask;
  if (!all)
    all = arith::ConstantOp::create(k.b, k.loc,
                                    DenseElementsAttr::get(k.maskType, true));
  LLVM::masked_scatter::create(k.b, k.loc, vector,
                               address(k, access.pointer, element, offsets),
                               all, alignment);
}

void ElementEmitter::storeScalar(unsigned index, Value scalarValue) {
  const Access &access = writes[index];
  Type element = access.view.element;
  if (element.isInteger(1))
    scalarValue =
        arith::ExtUIOp::create(k.b, k.loc, k.b.getI8Type(), scalarValue);
  LLVM::StoreOp::create(k.b, k.loc, scalarValue,
                        address(k, access.pointer, element, rowOffset(access)),
                        alignmentOf(element));
}

Value ElementEmitter::masked(Value vector, double other) {
  if (!mask)
    return vector;
  return arith::SelectOp::create(k.b, k.loc, mask, vector, k.splat(other));
}

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

Value ElementEmitter::constant(DenseElementsAttr value, bool vector) {
  Type type = typeOf(value.getElementType(), vector);
  Attribute one = value.getSplatValue<Attribute>();
  if (auto vectorType = dyn_cast<VectorType>(type))
    one = DenseElementsAttr::get(vectorType, one);
  return arith::ConstantOp::create(k.b, k.loc, cast<TypedAttr>(one));
}

/// The index along `axis` of a tensor at the current point, i32.
Value ElementEmitter::indexAlong(RankedTensorType type, int64_t axis,
                                 bool vector) {
  const Domain &domain = launch.group.domain;
  int64_t inner = 1;
  for (int64_t size : type.getShape().drop_front(axis + 1))
    inner *= size;
  int64_t size = type.getDimSize(axis);
  bool lastIsColumn = vector && type.getShape().back() == domain.cols;
  if (!vector || (lastIsColumn && axis != type.getRank() - 1)) {
    // Constant within the row.
    if (vector)
      inner /= domain.cols;
    Value index = k.rem(k.div(row, inner), k.i64(size));
    Value narrow = arith::TruncIOp::create(k.b, k.loc, k.b.getI32Type(), index);
    if (!vector)
      return narrow;
    return vector::BroadcastOp::create(k.b, k.loc,
                                       typeOf(k.b.getI32Type(), true), narrow);
  }
  Value numbers = columnNumbers();
  if (!lastIsColumn) {
    auto i64s = VectorType::get({k.lanes}, k.i64Type);
    auto splat = [&](int64_t value) -> Value {
      return arith::ConstantOp::create(k.b, k.loc,
                                       DenseElementsAttr::get(i64s, value));
    };
    Value first =
        vector::BroadcastOp::create(k.b, k.loc, i64s, k.mul(row, domain.cols));
    numbers =
        arith::DivUIOp::create(k.b, k.loc, k.add(numbers, first), splat(inner));
    numbers = arith::RemUIOp::create(k.b, k.loc, numbers, splat(size));
  }
  return arith::TruncIOp::create(k.b, k.loc, typeOf(k.b.getI32Type(), true),
                                 numbers);
}

/// An index tensor: along its own axis, or positions along the sequence.
Value ElementEmitter::index(Operation *op, bool vector) {
  RankedTensorType type = tensorType(op->getResult(0));
  auto iota = dyn_cast<IotaOp>(op);
  return indexAlong(type, iota ? iota.getAxis() : type.getRank() - 1, vector);
}

Value ElementEmitter::gatherRow(Operation *op) {
  auto gather = cast<GatherOp>(op);
  const Access &table = reads.find(gather.getTable())->second;
  Value id =
      arith::ExtSIOp::create(k.b, k.loc, k.i64Type, scalar(gather.getIds()));
  Value offset = k.mul(id, table.view.strides.front());
  int64_t stride = table.view.shape.size() > 1 ? table.view.strides.back() : 1;
  return loadAt(table, k.add(offset, k.mul(column, stride)), stride);
}

Value ElementEmitter::dropout(Operation *op) {
  auto dropout = cast<DropoutOp>(op);
  double rate = dropout.getRate().convertToDouble();
  Value x = full(dropout.getX());
  // One counter serves 64 columns, so their masks are made together.
  auto makeMasks = [&] {
    DropoutKey key =
        dropoutKey(k.b, k.loc, arguments.rng,
                   dropout.getLayer() ? arguments.layer : k.toIndex(k.i64(0)),
                   dropout.getSite(), rate, launch.accumulate);
    return dropoutKeep64(k.b, k.loc, key, k.toIndex(row),
                         k.toIndex(k.div(column, 64)), k.lanes);
  };
  Value keep;
  if (columnInBlock >= 0) {
    SmallVector<Value> &masks = keepMasks[{op, block}];
    if (masks.empty())
      masks = makeMasks();
    keep = masks[columnInBlock / k.lanes];
  } else {
    SmallVector<Value> masks = makeMasks();
    Value number = k.div(k.rem(column, k.i64(64)), k.lanes);
    keep = masks[0];
    for (size_t i = 1; i < masks.size(); ++i)
      keep = k.select(k.equal(number, k.i64(i)), masks[i], keep);
  }
  Value scaled = k.mulf(x, k.splat(1.0 / (1.0 - rate)));
  return arith::SelectOp::create(k.b, k.loc, keep, scaled, k.splat(0.0));
}

Value ElementEmitter::compute(Operation *op, bool vector) {
  if (vector) {
    if (isa<GatherOp>(op))
      return gatherRow(op);
    if (isa<DropoutOp>(op))
      return dropout(op);
  }
  SmallVector<Value> operands;
  for (Value operand : op->getOperands())
    operands.push_back(vector ? full(operand) : scalar(operand));
  Type element = tensorType(op->getResult(0)).getElementType();
  return emitElementwise(k, op, operands, typeOf(element, vector));
}

Value ElementEmitter::full(Value value) {
  if (Value known = columnValues->lookup(value))
    return known;
  auto remember = [&](Value result) { return (*columnValues)[value] = result; };
  Operation *op = value.getDefiningOp();
  // A row's scalar in a place for a vector.
  if (Value known = rowValues.lookup(value))
    return remember(vector::BroadcastOp::create(
        k.b, k.loc, typeOf(known.getType(), true), known));
  if (auto it = reads.find(value);
      it != reads.end() && !(op && members.contains(op)))
    return remember(loadFull(it->second));
  if (auto constantOp = dyn_cast<ConstantOp>(op))
    return remember(
        constant(cast<DenseElementsAttr>(constantOp.getValue()), true));
  if (isa<IotaOp, PositionsOp>(op))
    return remember(index(op, /*vector=*/true));
  if (members.contains(op) || !isViewOp(op))
    return remember(compute(op, /*vector=*/true));
  switch (passageThrough(op, Role::Full, launch.group.domain)) {
  case Passage::Same:
    return remember(full(op->getOperand(0)));
  case Passage::RowScalar: {
    Value one = scalar(op->getOperand(0));
    return remember(vector::BroadcastOp::create(
        k.b, k.loc, typeOf(one.getType(), true), one));
  }
  case Passage::Memory:
    break;
  }
  auto splat =
      viewBase(op->getOperand(0), materialised).getDefiningOp<ConstantOp>();
  return remember(constant(cast<DenseElementsAttr>(splat.getValue()), true));
}

Value ElementEmitter::scalar(Value value) {
  if (Value known = rowValues.lookup(value))
    return known;
  OpBuilder::InsertionGuard guard(k.b);
  if (columnLoop)
    k.b.setInsertionPoint(columnLoop);
  auto remember = [&](Value result) { return rowValues[value] = result; };
  Operation *op = value.getDefiningOp();
  if (auto it = reads.find(value);
      it != reads.end() && !(op && members.contains(op)))
    return remember(loadRowScalar(it->second));
  if (auto constantOp = dyn_cast<ConstantOp>(op))
    return remember(
        constant(cast<DenseElementsAttr>(constantOp.getValue()), false));
  if (isa<IotaOp, PositionsOp>(op))
    return remember(index(op, /*vector=*/false));
  if (members.contains(op) || !isViewOp(op))
    return remember(compute(op, /*vector=*/false));
  // In rows of one element, an element is its row's scalar.
  const Domain &domain = launch.group.domain;
  Role role = domain.cols == 1 ? Role::Full : Role::Scalar;
  if (passageThrough(op, role, domain) == Passage::Same)
    return remember(scalar(op->getOperand(0)));
  auto splat =
      viewBase(op->getOperand(0), materialised).getDefiningOp<ConstantOp>();
  return remember(constant(cast<DenseElementsAttr>(splat.getValue()), false));
}
