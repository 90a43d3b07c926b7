//===- AxisMaps.cpp - where axes go through every op ----------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/dialect/TfmDialect.h"

using namespace mlir;
using namespace tfm;

namespace {

/// Of ops that are not asked along which axes they could be cut.
constexpr StringRef anyMixing = "an operation that mixes positions";

ArrayRef<int64_t> shapeOf(Value value) { return tensorType(value).getShape(); }

} // namespace

std::optional<AxisPlace> tfm::throughReshape(AxisPlace place, int64_t size,
                                             ArrayRef<int64_t> from,
                                             ArrayRef<int64_t> to) {
  if (!place.isPresent())
    return place;
  // In row-major order only the stride counts.
  int64_t stride = place.inner;
  for (int64_t extent : from.drop_front(place.axis + 1))
    stride *= extent;
  int64_t suffix = 1;
  for (int64_t axis = static_cast<int64_t>(to.size()) - 1; axis >= 0; --axis) {
    int64_t whole = suffix * to[axis];
    if (stride % suffix == 0 && whole % (stride * size) == 0)
      return AxisPlace{axis, stride / suffix};
    suffix = whole;
  }
  return std::nullopt;
}

//===----------------------------------------------------------------------===//
// Shapes
//===----------------------------------------------------------------------===//

AxisMap BroadcastOp::mapAxis(unsigned, AxisPlace place, int64_t) {
  place.axis += tensorType(getY()).getRank() - tensorType(getX()).getRank();
  return AxisMap::kept(place);
}

AxisMap ReshapeOp::mapAxis(unsigned, AxisPlace place, int64_t size) {
  auto to = throughReshape(place, size, shapeOf(getX()), shapeOf(getY()));
  return to ? AxisMap::kept(*to)
            : AxisMap::mixed("positions are merged with other axes");
}

AxisMap TransposeOp::mapAxis(unsigned, AxisPlace place, int64_t) {
  place.axis =
      llvm::find(getPermutation(), place.axis) - getPermutation().begin();
  return AxisMap::kept(place);
}

//===----------------------------------------------------------------------===//
// Matrix product, tables
//===----------------------------------------------------------------------===//

StringRef MatmulOp::getAxisClash() { return "a matrix product over positions"; }

AxisMap MatmulOp::mapAxis(unsigned operand, AxisPlace place, int64_t) {
  int64_t rank = tensorType(getY()).getRank();
  if (place.axis < rank - 2)
    return AxisMap::kept(place);
  bool isB = operand == 1, transposed = isB ? getTransposeB() : getTransposeA();
  // The axis that is not summed over: rows of a, columns of b.
  if (place.axis != (isB == transposed ? rank - 2 : rank - 1))
    return AxisMap::mixed(getAxisClash());
  return AxisMap::kept({isB ? rank - 1 : rank - 2, place.inner});
}

StringRef GatherOp::getAxisClash() {
  return "a gather from values of all positions";
}

AxisMap GatherOp::mapAxis(unsigned operand, AxisPlace place, int64_t) {
  if (operand == 1)
    return AxisMap::kept(place);
  if (place.axis == 0)
    return AxisMap::mixed(getAxisClash());
  place.axis += tensorType(getIds()).getRank() - 1;
  return AxisMap::kept(place);
}

AxisMap ScatterAddOp::mapAxis(unsigned operand, AxisPlace place, int64_t) {
  // Each row of the base stays where it is, and is added to.
  if (operand == 0)
    return AxisMap::kept(place);
  place.axis -= tensorType(getIds()).getRank() - 1;
  return operand == 2 && place.axis > 0 ? AxisMap::kept(place)
                                        : AxisMap::mixed(anyMixing);
}

AxisMap CacheUpdateOp::mapAxis(unsigned operand, AxisPlace place, int64_t) {
  // Of a base that is that of all sequences any row may be one's own.
  bool isOfAll = shapeOf(getBase())[0] != shapeOf(getUpdates())[0];
  if (operand > 0 && place.axis == 0 && isOfAll)
    return AxisMap::mixed(anyMixing);
  // The positions of the updates become others; those of the base stay.
  return operand == 1 ? AxisMap::keptBut(2, place, anyMixing)
                      : AxisMap::kept(place);
}

//===----------------------------------------------------------------------===//
// Attention, rotary embedding
//===----------------------------------------------------------------------===//

AxisMap AttentionOp::mapAxis(unsigned operand, AxisPlace place, int64_t) {
  Value value = getOperand(operand);
  bool isQuery = operand == 0, isMask = operand > 2 && value == getMask();
  if (operand > 2 && value == getDistanceBias())
    return AxisMap::mixed("biases by distance that depend on the tokens");
  // Queries, and masks [B or 1, heads or 1, T, S], are as the result is.
  if (isQuery || isMask)
    return AxisMap::keptBut(3, place, "attention between different sequences");
  if (place.axis == 0) // `start`, too
    return AxisMap::kept(place);
  if (place.axis == 1) {
    // A head of keys serves several heads of queries that follow each other.
    place.inner *= shapeOf(getQ())[1] / shapeOf(getK())[1];
    return AxisMap::kept(place);
  }
  if (place.axis == 2 && !getCausal())
    return AxisMap::mixed("attention that is not causal");
  // Query t sees keys up to t.
  bool isAligned = place.axis == 2 && place.inner == 1 &&
                   shapeOf(getQ())[2] == shapeOf(getK())[2];
  return isAligned ? AxisMap::causal(place)
                   : AxisMap::mixed("attention between different sequences");
}

AxisMap AttentionBackwardOp::mapAxis(unsigned, AxisPlace place, int64_t) {
  // Keys gather cotangents of all queries; a mask of one sequence or head those
  // of all, and biases by distance those of all sequences.
  return place.axis == 0 && !getMask() && !getDistanceBias()
             ? AxisMap::kept(place)
             : AxisMap::mixed(anyMixing);
}

AxisMap RopeOp::mapAxis(unsigned operand, AxisPlace place, int64_t) {
  if (operand == 1) // [B, T] of [B, heads, T, d]
    place.axis *= 2;
  return AxisMap::keptBut(
      3, place,
      "a rotary embedding of something else than [B, heads, T, width]");
}
