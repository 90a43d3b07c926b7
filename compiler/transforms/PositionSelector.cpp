//===- PositionSelector.cpp - some positions of all -----------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/transforms/PositionSelector.h"

#include "compiler/dialect/TfmBuilder.h"
#include "compiler/dialect/TfmDialect.h"

#include "mlir/Dialect/Utils/IndexingUtils.h"

using namespace mlir;
using namespace tfm;

namespace {

/// A shape with the batch and the positions as axes of their own.
struct Opened {
  SmallVector<int64_t> shape;
  int64_t batch = -1, time = -1;
};

Opened open(ArrayRef<int64_t> shape, const SequenceTag &tag, int64_t batch,
            int64_t length) {
  Opened result;
  for (auto [i, size] : llvm::enumerate(shape)) {
    int64_t axis = static_cast<int64_t>(i), rest = size;
    bool hasBatch = tag.batch.axis == axis, hasTime = tag.time.axis == axis;
    auto split = [&](const AxisPlace &place, int64_t extent, int64_t &index) {
      // What is left of it, itself; what is right of it is still to come.
      result.shape.push_back(rest / (extent * place.inner));
      index = static_cast<int64_t>(result.shape.size());
      result.shape.push_back(extent);
      rest = place.inner;
    };
    bool batchFirst =
        hasBatch && (!hasTime || tag.batch.inner > tag.time.inner);
    if (batchFirst)
      split(tag.batch, batch, result.batch);
    if (hasTime)
      split(tag.time, length, result.time);
    if (hasBatch && !batchFirst)
      split(tag.batch, batch, result.batch);
    result.shape.push_back(rest);
  }
  return result;
}

Value transpose(OpBuilder &builder, Location loc, Value value,
                ArrayRef<int64_t> permutation) {
  if (llvm::is_sorted(permutation))
    return value;
  return TransposeOp::create(builder, loc, value, permutation);
}

} // namespace

Value tfm::selectPositions(OpBuilder &builder, Value value, SequenceTag tag,
                           int64_t batch, int64_t length, Value ids) {
  Location loc = value.getLoc();
  TfmBuilder b{builder, loc};
  RankedTensorType type = tensorType(value);
  if (type.getElementType().isInteger(1)) {
    Value number = b.cast(value, builder.getF32Type());
    Value picked = selectPositions(builder, number, tag, batch, length, ids);
    return b.compare(CompareKind::ne, picked, b.zeros(picked));
  }
  int64_t picked = tensorType(ids).getDimSize(1);
  Opened opened = open(type.getShape(), tag, batch, length);
  // Batch and positions in front are the rows of a table.
  SmallVector<int64_t> permutation, shape;
  if (opened.batch >= 0)
    permutation.push_back(opened.batch);
  permutation.push_back(opened.time);
  for (int64_t axis = 0; axis < static_cast<int64_t>(opened.shape.size());
       ++axis)
    if (axis != opened.batch && axis != opened.time)
      permutation.push_back(axis);
  for (int64_t axis : permutation)
    shape.push_back(axis == opened.time ? picked : opened.shape[axis]);
  int64_t rows = (opened.batch >= 0 ? batch : 1) * length;
  Value table = b.reshape(value, type.clone(opened.shape));
  table = transpose(builder, loc, table, permutation);
  table = b.reshape(table, type.clone({rows, type.getNumElements() / rows}));
  if (opened.batch >= 0) {
    RankedTensorType idType = tensorType(ids);
    Value row = IotaOp::create(builder, loc, idType, 0);
    Value stride = ConstantOp::create(
        builder, loc,
        DenseElementsAttr::get(idType, static_cast<int32_t>(length)));
    ids = b.add(ids, b.mul(row, stride));
  }
  Value result = GatherOp::create(builder, loc, table, ids);
  result = b.reshape(result, type.clone(shape));
  result =
      transpose(builder, loc, result, invertPermutationVector(permutation));
  SmallVector<int64_t> final(type.getShape());
  final[tag.time.axis] = final[tag.time.axis] / length * picked;
  return b.reshape(result, type.clone(final));
}

RankedTensorType PositionSelector::sized(RankedTensorType type,
                                         const SequenceTag &tag) const {
  SmallVector<int64_t> shape(type.getShape());
  shape[tag.time.axis] = shape[tag.time.axis] / analysis.length() * count;
  return type.clone(shape);
}

SequenceTag PositionSelector::sizedTag(SequenceTag tag) const {
  if (tag.batch.axis == tag.time.axis && tag.batch.inner > tag.time.inner)
    tag.batch.inner = tag.batch.inner / analysis.length() * count;
  return tag;
}

Value PositionSelector::at(Value value, const SequenceTag &tag) {
  for (auto &[key, result] : known)
    if (key.first == value && key.second == tag)
      return result;
  Value result = compute(value, tag);
  known.push_back({{value, tag}, result});
  return result;
}

Value PositionSelector::compute(Value value, const SequenceTag &tag) {
  RankedTensorType type = tensorType(value), small = sized(type, tag);
  Operation *op = value.getDefiningOp();
  Location loc = value.getLoc();
  TfmBuilder b{builder, loc};
  if (auto constant = dyn_cast_or_null<ConstantOp>(op)) {
    auto dense = dyn_cast<DenseElementsAttr>(constant.getValue());
    if (dense && dense.isSplat())
      return ConstantOp::create(builder, loc, dense.resizeSplat(small));
  } else if (isa_and_nonnull<BroadcastOp>(op)) {
    if (Value result = throughBroadcast(value, tag))
      return result;
  } else if (auto reshape = dyn_cast_or_null<ReshapeOp>(op)) {
    ArrayRef<int64_t> from = tensorType(reshape.getX()).getShape();
    auto batch =
        throughReshape(tag.batch, analysis.batch(), type.getShape(), from);
    auto time =
        throughReshape(tag.time, analysis.length(), type.getShape(), from);
    if (batch && time)
      return b.reshape(at(reshape.getX(), {*batch, *time}), small);
  } else if (auto iota = dyn_cast_or_null<IotaOp>(op)) {
    if (static_cast<int64_t>(iota.getAxis()) != tag.time.axis)
      return IotaOp::create(builder, loc, small, iota.getAxis());
  } else if (op && op->hasTrait<OpTrait::Elementwise>()) {
    IRMapping local;
    for (Value operand : op->getOperands())
      local.map(operand, at(operand, tag));
    Operation *clone = builder.clone(*op, local);
    clone->getResult(0).setType(type.clone(small.getShape()));
    return clone->getResult(0);
  }
  return selectPositions(builder, values.lookup(value), tag, analysis.batch(),
                         analysis.length(), positions);
}

/// Null where the repeated value cannot be cut down before it is repeated.
Value PositionSelector::throughBroadcast(Value value, const SequenceTag &tag) {
  auto broadcast = value.getDefiningOp<BroadcastOp>();
  Location loc = value.getLoc();
  TfmBuilder b{builder, loc};
  RankedTensorType type = tensorType(value), small = sized(type, tag);
  RankedTensorType from = tensorType(broadcast.getX());
  int64_t shift = type.getRank() - from.getRank();
  auto sizeAt = [&](int64_t axis) {
    return axis < shift ? 1 : from.getDimSize(axis - shift);
  };
  auto repeated = [&](int64_t axis) {
    return sizeAt(axis) == 1 && type.getDimSize(axis) != 1;
  };
  Value whole = values.lookup(broadcast.getX());
  if (repeated(tag.time.axis)) {
    // An axis that the batch shares with the positions is repeated with them.
    return BroadcastOp::create(builder, loc, small, whole);
  }
  bool batched = tag.batch.isPresent();
  if (!batched || !repeated(tag.batch.axis)) {
    if (tag.time.axis < shift || (batched && tag.batch.axis < shift))
      return Value();
    SequenceTag inner = tag;
    inner.time.axis -= shift;
    if (batched)
      inner.batch.axis -= shift;
    return BroadcastOp::create(builder, loc, small,
                               at(broadcast.getX(), inner));
  }
  // The same table for all sequences: [T, ...] becomes [B, count, ...].
  if (type.getDimSize(tag.time.axis) != analysis.length() ||
      type.getDimSize(tag.batch.axis) != analysis.batch() ||
      tag.batch.axis > tag.time.axis)
    return Value();
  SmallVector<int64_t> shape(type.getRank(), 1);
  for (int64_t axis = 0; axis < type.getRank(); ++axis) {
    if (axis < tag.time.axis && sizeAt(axis) != 1)
      return Value();
    if (axis > tag.time.axis)
      shape[axis] = sizeAt(axis);
  }
  shape[tag.batch.axis] = analysis.batch();
  shape[tag.time.axis] = count;
  int64_t row = llvm::product_of(ArrayRef(shape).drop_front(tag.time.axis + 1));
  Value table = b.reshape(whole, from.clone({analysis.length(), row}));
  if (type.getElementType().isInteger(1))
    return Value();
  Value rows = GatherOp::create(builder, loc, table, positions);
  return b.broadcast(b.reshape(rows, from.clone(shape)), small);
}

Value PositionSelector::maskAt(Value mask) {
  TfmBuilder b{builder, mask.getLoc()};
  RankedTensorType type = tensorType(mask);
  SequenceTag tag;
  tag.time.axis = 2;
  if (analysis.batch() == 1 || type.getDimSize(0) == analysis.batch()) {
    if (analysis.batch() > 1)
      tag.batch.axis = 0;
    return at(mask, tag);
  }
  // The same for all sequences, which are at different positions.
  SmallVector<int64_t> shape(type.getShape());
  shape[0] = analysis.batch();
  Value whole = b.broadcast(values.lookup(mask), type.clone(shape));
  tag.batch.axis = 0;
  return selectPositions(builder, whole, tag, analysis.batch(),
                         analysis.length(), positions);
}
