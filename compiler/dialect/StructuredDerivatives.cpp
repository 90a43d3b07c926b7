//===- StructuredDerivatives.cpp - derivatives of all but elementwise ops -===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// In every formula `c` is the cotangent of the result `y`.
//
//===----------------------------------------------------------------------===//

#include "compiler/dialect/TfmBuilder.h"

#include "mlir/Dialect/Utils/IndexingUtils.h"

using namespace mlir;
using namespace tfm;

namespace {

/// Sums `c` over the axes along which a broadcast from `type` repeated.
/// Neighbouring axes are summed as one: [B, T, n] to [n] is one sum over rows.
Value sumToShape(TfmBuilder b, Value c, RankedTensorType type) {
  ArrayRef<int64_t> to = tensorType(c).getShape();
  int64_t missing = static_cast<int64_t>(to.size()) - type.getRank();
  SmallVector<int64_t> shape;
  SmallVector<bool> summed;
  for (auto [axis, size] : llvm::enumerate(to)) {
    if (size == 1)
      continue;
    int64_t own = static_cast<int64_t>(axis) - missing;
    bool repeated = own < 0 || type.getDimSize(own) == 1;
    if (!summed.empty() && summed.back() == repeated)
      shape.back() *= size;
    else {
      shape.push_back(size);
      summed.push_back(repeated);
    }
  }
  c = b.reshape(c, RankedTensorType::get(shape, type.getElementType()));
  for (auto [axis, repeated] : llvm::enumerate(summed))
    if (repeated)
      c = ReduceSumOp::create(b.builder, b.loc, c, axis);
  return b.reshape(c, type);
}

} // namespace

//===----------------------------------------------------------------------===//
// Shapes
//===----------------------------------------------------------------------===//

FailureOr<Cotangents> BroadcastOp::buildVJP(OpBuilder &builder, ValueRange c) {
  return Cotangents{sumToShape({builder, getLoc()}, c[0], tensorType(getX()))};
}

FailureOr<Cotangents> ReshapeOp::buildVJP(OpBuilder &builder, ValueRange c) {
  TfmBuilder b{builder, getLoc()};
  return Cotangents{b.reshape(c[0], tensorType(getX()))};
}

FailureOr<Cotangents> TransposeOp::buildVJP(OpBuilder &builder, ValueRange c) {
  return Cotangents{TransposeOp::create(
      builder, getLoc(), c[0], invertPermutationVector(getPermutation()))};
}

FailureOr<Cotangents> SliceOp::buildVJP(OpBuilder &builder, ValueRange c) {
  int64_t axis = getAxis(), start = getStart();
  int64_t after = tensorType(getX()).getDimSize(axis) - start - getSize();
  return Cotangents{PadOp::create(builder, getLoc(), c[0], axis, start, after)};
}

FailureOr<Cotangents> PadOp::buildVJP(OpBuilder &builder, ValueRange c) {
  int64_t axis = getAxis();
  return Cotangents{SliceOp::create(builder, getLoc(), c[0], axis, getLow(),
                                    tensorType(getX()).getDimSize(axis))};
}

FailureOr<Cotangents> ConcatOp::buildVJP(OpBuilder &builder, ValueRange c) {
  int64_t start = 0, axis = getAxis();
  Cotangents result;
  for (Value x : getXs()) {
    int64_t size = tensorType(x).getDimSize(axis);
    result.push_back(
        SliceOp::create(builder, getLoc(), c[0], axis, start, size));
    start += size;
  }
  return result;
}

//===----------------------------------------------------------------------===//
// Reductions and normalisations
//===----------------------------------------------------------------------===//

FailureOr<Cotangents> ReduceSumOp::buildVJP(OpBuilder &builder, ValueRange c) {
  TfmBuilder b{builder, getLoc()};
  return Cotangents{b.broadcast(c[0], tensorType(getX()))};
}

FailureOr<Cotangents> ReduceMaxOp::buildVJP(OpBuilder &builder, ValueRange c) {
  TfmBuilder b{builder, getLoc()};
  RankedTensorType type = tensorType(getX());
  // Of x again: where a reversed layer computes x once more, perhaps with
  // another last bit, no element need equal the maximum of before.
  Value largest = ReduceMaxOp::create(builder, getLoc(), getX(), getAxis());
  Value isMax = b.compare(CompareKind::eq, getX(), b.broadcast(largest, type));
  Value count = ReduceSumOp::create(
      builder, getLoc(), b.cast(isMax, type.getElementType()), getAxis());
  Value share = b.broadcast(b.div(c[0], count), type);
  return Cotangents{b.select(isMax, share, b.zeros(getX()))};
}

// y (c - sum(c y))
FailureOr<Cotangents> SoftmaxOp::buildVJP(OpBuilder &builder, ValueRange c) {
  TfmBuilder b{builder, getLoc()};
  Value sum = b.rowSum(b.mul(c[0], getY()));
  return Cotangents{b.mul(getY(), b.sub(c[0], sum))};
}

// c - e^y sum(c)
FailureOr<Cotangents> LogSoftmaxOp::buildVJP(OpBuilder &builder, ValueRange c) {
  TfmBuilder b{builder, getLoc()};
  return Cotangents{b.sub(c[0], b.mul(b.exp(getY()), b.rowSum(c[0])))};
}

// With r = 1 / sqrt(var(x) + eps): r (c - mean(c) - y mean(c y)). The
// statistics are computed again from x, which costs a pass over a row but
// saves storing them.
FailureOr<Cotangents> NormalizeOp::buildVJP(OpBuilder &builder, ValueRange c) {
  TfmBuilder b{builder, getLoc()};
  RankedTensorType type = tensorType(getX());
  Value centred = b.sub(getX(), b.broadcast(b.rowMean(getX()), type));
  Value variance = b.rowMean(b.mul(centred, centred));
  Value r = RsqrtOp::create(builder, getLoc(),
                            b.plus(variance, getEps().convertToDouble()));
  Value meanC = b.broadcast(b.rowMean(c[0]), type);
  Value meanCY = b.broadcast(b.rowMean(b.mul(c[0], getY())), type);
  Value inner = b.sub(b.sub(c[0], meanC), b.mul(getY(), meanCY));
  return Cotangents{b.mul(b.broadcast(r, type), inner)};
}

// With r = 1 / sqrt(mean(x^2) + eps): r (c - y mean(c y))
FailureOr<Cotangents> RmsNormalizeOp::buildVJP(OpBuilder &builder,
                                               ValueRange c) {
  TfmBuilder b{builder, getLoc()};
  RankedTensorType type = tensorType(getX());
  Value square = b.rowMean(b.mul(getX(), getX()));
  Value r = RsqrtOp::create(builder, getLoc(),
                            b.plus(square, getEps().convertToDouble()));
  Value meanCY = b.broadcast(b.rowMean(b.mul(c[0], getY())), type);
  Value inner = b.sub(c[0], b.mul(getY(), meanCY));
  return Cotangents{b.mul(b.broadcast(r, type), inner)};
}

// The sum of the cotangents of all sums that an element is in.
FailureOr<Cotangents> CumsumOp::buildVJP(OpBuilder &builder, ValueRange c) {
  return Cotangents{
      CumsumOp::create(builder, getLoc(), c[0], getAxis(), !getReverse())};
}

// The cotangent of a sum reaches the next one, too: what goes along the axis
// the other way is dx, and a decay meets it beside the sum that it multiplied,
// which lies a step before. In reverse the two are the other way round.
FailureOr<Cotangents> ScanOp::buildVJP(OpBuilder &builder, ValueRange c) {
  TfmBuilder b{builder, getLoc()};
  Value dx = ScanOp::create(builder, getLoc(), getDecay(), c[0], getAxis(),
                            !getReverse());
  Value before = ShiftOp::create(builder, getLoc(), getReverse() ? dx : getY(),
                                 getAxis(), 1);
  return Cotangents{b.mul(getReverse() ? getY() : dx, before), dx};
}

// Where an element went its cotangent comes from.
FailureOr<Cotangents> ShiftOp::buildVJP(OpBuilder &builder, ValueRange c) {
  return Cotangents{
      ShiftOp::create(builder, getLoc(), c[0], getAxis(), -getSteps())};
}

// Each cotangent goes to the element that was chosen.
FailureOr<Cotangents> TopKOp::buildVJP(OpBuilder &builder, ValueRange c) {
  if (!c[0])
    return Cotangents{Value()};
  TfmBuilder b{builder, getLoc()};
  RankedTensorType type = tensorType(getX());
  int64_t axis = type.getRank() - 1;
  auto ids = RankedTensorType::get(type.getShape(), builder.getI32Type());
  Value element = IotaOp::create(builder, getLoc(), ids, axis);
  auto chosen = [&](Value x, int64_t i, RankedTensorType to) {
    return b.broadcast(SliceOp::create(builder, getLoc(), x, axis, i, 1), to);
  };
  Value result = b.zeros(getX());
  for (int64_t i = 0; i < static_cast<int64_t>(getK()); ++i)
    result = b.select(
        b.compare(CompareKind::eq, element, chosen(getIndices(), i, ids)),
        chosen(c[0], i, type), result);
  return Cotangents{result};
}

//===----------------------------------------------------------------------===//
// Matrix product, embedding
//===----------------------------------------------------------------------===//

// With A and B the operands after their transposition: dA = c B^T and
// dB = A^T c, transposed again for an operand that was.
FailureOr<Cotangents> MatmulOp::buildVJP(OpBuilder &builder, ValueRange c) {
  Value a = getA(), b = getB();
  bool ta = getTransposeA(), tb = getTransposeB();
  auto product = [&](Value x, Value y, bool tx, bool ty) -> Value {
    return MatmulOp::create(builder, getLoc(), x, y, tx, ty, getAccumulator());
  };
  return Cotangents{
      ta ? product(b, c[0], tb, true) : product(c[0], b, false, !tb),
      tb ? product(c[0], a, true, ta) : product(a, c[0], !ta, false)};
}

FailureOr<Cotangents> GatherOp::buildVJP(OpBuilder &builder, ValueRange c) {
  TfmBuilder b{builder, getLoc()};
  return Cotangents{ScatterAddOp::create(builder, getLoc(), b.zeros(getTable()),
                                         getIds(), c[0]),
                    Value()};
}

FailureOr<Cotangents> ScatterAddOp::buildVJP(OpBuilder &builder, ValueRange c) {
  return Cotangents{c[0], Value(),
                    GatherOp::create(builder, getLoc(), c[0], getIds())};
}

// What is written gets the cotangent of where it goes, which what was there
// before has no part in.
FailureOr<Cotangents> CacheUpdateOp::buildVJP(OpBuilder &builder,
                                              ValueRange c) {
  if (getRing())
    return emitOpError("a ring has no derivative");
  TfmBuilder b{builder, getLoc()};
  RankedTensorType base = tensorType(getBase()),
                   type = tensorType(getUpdates());
  int64_t sequences = base.getDimSize(0), heads = type.getDimSize(1),
          size = base.getDimSize(2), width = type.getDimSize(3);
  auto ids =
      RankedTensorType::get(type.getShape().drop_back(), builder.getI32Type());
  // Along an axis of one element there is nothing to count.
  auto plusCount = [&](Value x, int64_t axis, int64_t step) {
    if (ids.getDimSize(axis) == 1)
      return x;
    Value count = IotaOp::create(builder, getLoc(), ids, axis);
    return b.add(x, step == 1 ? count : b.scale(count, step));
  };
  Value position = b.broadcast(
      b.reshape(getPositions(), ids.clone({type.getDimSize(0), 1, 1})), ids);
  position = plusCount(position, 2, 1);
  Value first = b.zeros(position), last = b.constant(position, size - 1);
  Value isInside = AndOp::create(builder, getLoc(),
                                 b.compare(CompareKind::le, first, position),
                                 b.compare(CompareKind::le, position, last));
  Value inside =
      MaxOp::create(builder, getLoc(),
                    MinOp::create(builder, getLoc(), position, last), first);
  Value row = plusCount(inside, 1, size);
  if (sequences > 1)
    row = plusCount(row, 0, heads * size);
  Value rows = GatherOp::create(
      builder, getLoc(),
      b.reshape(c[0], base.clone({sequences * heads * size, width})), row);
  auto bits = type.clone(builder.getI1Type());
  SmallVector<int64_t> column(type.getShape());
  column.back() = 1;
  isInside = b.broadcast(b.reshape(isInside, bits.clone(column)), bits);
  Value zeros = b.zeros(getUpdates());
  return Cotangents{
      CacheUpdateOp::create(builder, getLoc(), c[0], zeros, getPositions()),
      b.select(isInside, rows, zeros), Value()};
}

//===----------------------------------------------------------------------===//
// Attention, rotary embedding, dropout
//===----------------------------------------------------------------------===//

FailureOr<Cotangents> AttentionOp::buildVJP(OpBuilder &builder, ValueRange c) {
  // The language cannot mention `lse`; it is there for the derivative alone.
  if (c[1])
    return emitOpError("`lse` has no derivative");
  if (getStart())
    return emitOpError("attention to a cache has no derivative");
  if (getKeyScale())
    return emitOpError("attention to integers has no derivative");
  Type maskType, distanceType;
  if (getMask() && isFloat(getMask()))
    maskType = getMask().getType();
  if (getDistanceBias())
    distanceType = getDistanceBias().getType();
  auto backward = AttentionBackwardOp::create(
      builder, getLoc(), getQ().getType(), getK().getType(), getV().getType(),
      maskType, distanceType, getQ(), getK(), getV(), getOut(), getLse(), c[0],
      getMask(), getLayer(), getDistanceBias(), /*inner=*/Value(),
      getCausalAttr(), getScaleAttr(), getWindowAttr(), getSoftcapAttr(),
      getDropoutAttr(), getSiteAttr());
  Cotangents result{backward.getDq(), backward.getDk(), backward.getDv()};
  if (getMask())
    result.push_back(backward.getDmask());
  if (getLayer())
    result.push_back(Value());
  if (getDistanceBias())
    result.push_back(backward.getDdistance());
  return result;
}

FailureOr<Cotangents> RopeOp::buildVJP(OpBuilder &builder, ValueRange c) {
  Value back = RopeOp::create(
      builder, getLoc(), c[0], getPositions(), getBaseAttr(), getDimsAttr(),
      getInterleavedAttr(), getInverse() ? UnitAttr() : builder.getUnitAttr(),
      getFrequenciesAttr(), getAmplitudeAttr());
  return Cotangents{back, Value()};
}

FailureOr<Cotangents> DropoutOp::buildVJP(OpBuilder &builder, ValueRange c) {
  Cotangents result{DropoutOp::create(builder, getLoc(), c[0], getLayer(),
                                      getRateAttr(), getSiteAttr())};
  if (getLayer())
    result.push_back(Value());
  return result;
}

//===----------------------------------------------------------------------===//
// Cross entropy
//===----------------------------------------------------------------------===//

FailureOr<Cotangents> CrossEntropyOp::buildVJP(OpBuilder &builder,
                                               ValueRange c) {
  TfmBuilder b{builder, getLoc()};
  Value dlogits;
  if (c[0])
    dlogits = CrossEntropyBackwardOp::create(
        builder, getLoc(), getLogits(), getTargets(), getLse(), c[0],
        getIgnoreAttr(), getLabelSmoothingAttr());
  if (c[1]) {
    // The derivative of lse is the softmax.
    RankedTensorType type = tensorType(getLogits());
    SmallVector<int64_t> column(type.getShape());
    column.back() = 1;
    auto columnType = RankedTensorType::get(column, type.getElementType());
    auto perRow = [&](Value x) {
      return b.broadcast(b.reshape(x, columnType), type);
    };
    Value softmax = b.exp(b.sub(getLogits(), perRow(getLse())));
    Value term = b.mul(softmax, perRow(c[1]));
    dlogits = dlogits ? b.add(dlogits, term) : term;
  }
  return Cotangents{dlogits, Value()};
}
