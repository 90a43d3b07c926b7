//===- SomeRows.cpp - what ops compute of some rows -----------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/transforms/SomeRows.h"

#include "compiler/dialect/TfmBuilder.h"

#include "mlir/Analysis/SliceAnalysis.h"

using namespace mlir;
using namespace tfm;

/// Whether a row of the results depends on where it stands.
static bool dependsOnPlace(Operation *op) {
  return isa<AttentionOp, PositionsOp, DropoutOp>(op);
}

SomeRows::SomeRows(OpBuilder &builder, ArrayRef<int64_t> axes, Value rows)
    : builder(builder), axes(axes), rows(rows),
      count(tensorType(rows).getNumElements()) {
  for (int64_t size : axes) {
    all *= size;
    if (size > 1)
      sizes.push_back(size);
  }
}

bool SomeRows::hasRows(RankedTensorType type) const {
  // No booleans lie in memory.
  return !type.getElementType().isInteger(1) &&
         type.getRank() > static_cast<int64_t>(axes.size()) &&
         type.getShape().take_front(axes.size()) == ArrayRef(axes);
}

RankedTensorType SomeRows::sized(RankedTensorType type,
                                 const Places &places) const {
  SmallVector<int64_t> shape(type.getShape());
  for (auto [place, size] : llvm::zip_equal(places, sizes))
    shape[place.axis] /= size;
  shape[places.back().axis] *= count;
  return type.clone(shape);
}

RankedTensorType SomeRows::tableOf(RankedTensorType type,
                                   ArrayRef<int64_t> axes) {
  SmallVector<int64_t> shape(type.getShape().drop_front(axes.size()));
  shape.insert(shape.begin(), llvm::product_of(axes));
  return type.clone(shape);
}

void SomeRows::take(Value value, Value table) {
  TfmBuilder b{builder, value.getLoc()};
  Places &own = places[value];
  for (auto [axis, size] : llvm::enumerate(axes))
    if (size > 1)
      own.push_back({static_cast<int64_t>(axis), 1});
  Value some = GatherOp::create(builder, b.loc, table, rows);
  values.map(value, b.reshape(some, sized(tensorType(value), own)));
}

/// What an operand without rows is for these rows of the results, where it is
/// repeated along them; null where it differs from row to row.
Value SomeRows::operandFor(Operation *op, Value operand,
                           const Places &rowsOfResults) {
  auto map = cast<AxisMapOpInterface>(op);
  RankedTensorType type = tensorType(operand);
  auto placeOf = [&](const AxisPlace &wanted, int64_t size) {
    for (OpOperand &use : op->getOpOperands())
      for (int64_t axis = 0; use.get() == operand && axis < type.getRank();
           ++axis) {
        AxisPlace place{axis, wanted.inner};
        AxisMap to = map.mapAxis(use.getOperandNumber(), place, size);
        if (to.isKept() && to.place == wanted)
          return place;
      }
    return AxisPlace();
  };
  Places own;
  for (auto [place, size] : llvm::zip_equal(rowsOfResults, sizes))
    own.push_back(placeOf(place, size));
  Value whole = values.lookupOrDefault(operand);
  if (llvm::none_of(own, [](AxisPlace p) { return p.isPresent(); }))
    return whole;
  if (!llvm::all_of(own, [](AxisPlace p) { return p.isPresent(); }))
    return {};
  RankedTensorType some = sized(type, own);
  DenseElementsAttr constant;
  if (auto op = operand.getDefiningOp<ConstantOp>())
    constant = dyn_cast<DenseElementsAttr>(op.getValue());
  if (constant && constant.isSplat())
    return ConstantOp::create(builder, op->getLoc(),
                              constant.resizeSplat(some));
  auto broadcast = whole.getDefiningOp<BroadcastOp>();
  if (!broadcast)
    return {};
  RankedTensorType from = tensorType(broadcast.getX());
  int64_t added = type.getRank() - from.getRank();
  for (const AxisPlace &place : own)
    if (place.axis >= added && from.getDimSize(place.axis - added) != 1)
      return {};
  return BroadcastOp::create(builder, broadcast.getLoc(), some,
                             broadcast.getX());
}

bool SomeRows::clone(Operation *op) {
  auto hasPlaces = [&](Value value) { return places.contains(value); };
  if (llvm::none_of(op->getOperands(), hasPlaces)) {
    builder.clone(*op, values);
    return true;
  }
  auto map = dyn_cast<AxisMapOpInterface>(op);
  if (!map || dependsOnPlace(op))
    return false;
  SmallVector<Places> of;
  for (OpOperand &operand : op->getOpOperands()) {
    if (!hasPlaces(operand.get()))
      continue;
    Places &own = of.emplace_back();
    for (auto [place, size] :
         llvm::zip_equal(places.lookup(operand.get()), sizes)) {
      AxisMap to = map.mapAxis(operand.getOperandNumber(), place, size);
      if (!to.isKept())
        return false;
      own.push_back(to.place);
    }
  }
  if (!llvm::all_equal(of))
    return false;
  IRMapping local;
  for (Value operand : op->getOperands()) {
    Value some = hasPlaces(operand) ? values.lookup(operand)
                                    : operandFor(op, operand, of.front());
    if (!some)
      return false;
    local.map(operand, some);
  }
  Operation *copy = builder.clone(*op, local);
  for (auto [from, to] :
       llvm::zip_equal(op->getResults(), copy->getResults())) {
    to.setType(sized(tensorType(from), of.front()));
    values.map(from, to);
    places[from] = of.front();
  }
  return true;
}

Value SomeRows::compute(Value value) {
  SetVector<Operation *> ops;
  BackwardSliceOptions options;
  options.inclusive = true;
  options.omitBlockArguments = true;
  if (failed(getBackwardSlice(value, &ops, options)))
    return {};
  for (Operation *op : ops)
    if (!clone(op))
      return {};
  return places.contains(value) ? values.lookup(value) : Value();
}
