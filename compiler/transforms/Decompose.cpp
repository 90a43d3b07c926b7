//===- Decompose.cpp - composite ops as what kernels are made of ----------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/dialect/TfmBuilder.h"
#include "compiler/transforms/Passes.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/TypeSwitch.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>

namespace tfm {
#define GEN_PASS_DEF_DECOMPOSEPASS
#include "compiler/transforms/Passes.h.inc"
} // namespace tfm

using namespace mlir;
using namespace tfm;

namespace {

/// The maximum of every row, [..., 1]; a finite number also for a row that is
/// minus infinity throughout, so that no difference is NaN.
Value finiteRowMax(TfmBuilder b, Value x) {
  Value max =
      ReduceMaxOp::create(b.builder, b.loc, x, tensorType(x).getRank() - 1);
  Value lowest = b.constant(max, -std::numeric_limits<float>::max());
  return MaxOp::create(b.builder, b.loc, max, lowest);
}

Value rowSum(TfmBuilder b, Value x) {
  return ReduceSumOp::create(b.builder, b.loc, x, tensorType(x).getRank() - 1);
}

void decompose(TfmBuilder b, SoftmaxOp op) {
  RankedTensorType type = tensorType(op.getX());
  Value max = finiteRowMax(b, op.getX());
  Value e = b.exp(b.sub(op.getX(), b.broadcast(max, type)));
  // The sum is at least 1, from the maximum itself, but for an empty row.
  Value sum = rowSum(b, e);
  sum = MaxOp::create(b.builder, b.loc, sum, b.constant(sum, 1.0));
  op.replaceAllUsesWith(b.div(e, b.broadcast(sum, type)));
}

void decompose(TfmBuilder b, LogSoftmaxOp op) {
  RankedTensorType type = tensorType(op.getX());
  Value max =
      ReduceMaxOp::create(b.builder, b.loc, op.getX(), type.getRank() - 1);
  Value centred = b.sub(op.getX(), b.broadcast(max, type));
  Value log = LogOp::create(b.builder, b.loc, rowSum(b, b.exp(centred)));
  op.replaceAllUsesWith(b.sub(centred, b.broadcast(log, type)));
}

void decompose(TfmBuilder b, NormalizeOp op) {
  RankedTensorType type = tensorType(op.getX());
  Value centred = b.sub(op.getX(), b.broadcast(b.rowMean(op.getX()), type));
  Value variance = b.rowMean(b.mul(centred, centred));
  Value r = RsqrtOp::create(b.builder, b.loc,
                            b.plus(variance, op.getEps().convertToDouble()));
  op.replaceAllUsesWith(b.mul(centred, b.broadcast(r, type)));
}

void decompose(TfmBuilder b, RmsNormalizeOp op) {
  RankedTensorType type = tensorType(op.getX());
  Value square = b.rowMean(b.mul(op.getX(), op.getX()));
  Value r = RsqrtOp::create(b.builder, b.loc,
                            b.plus(square, op.getEps().convertToDouble()));
  op.replaceAllUsesWith(b.mul(op.getX(), b.broadcast(r, type)));
}

/// A scan of rows is a kernel's, and one of a single element that element.
/// Whether `op` is, or has become, one of these.
bool isOfRows(TfmBuilder b, ScanOpInterface op) {
  auto axis = static_cast<int64_t>(op.getAxis());
  int64_t last = tensorType(op.getX()).getRank() - 1;
  if (tensorType(op.getX()).getDimSize(axis) == 1)
    return false;
  if (axis == last)
    return true;
  SmallVector<int64_t> toLast, back;
  for (int64_t i = 0; i <= last; ++i) {
    toLast.push_back(i == last ? axis : i < axis ? i : i + 1);
    back.push_back(i == axis ? last : i < axis ? i : i - 1);
  }
  auto rowsOf = [&](Value x) -> Value {
    return TransposeOp::create(b.builder, b.loc, x, toLast);
  };
  Value rows = rowsOf(op.getX()), sums;
  if (Value decay = op.getDecay())
    sums = ScanOp::create(b.builder, b.loc, rowsOf(decay), rows, last,
                          op.getReverse());
  else
    sums = CumsumOp::create(b.builder, b.loc, rows, last, op.getReverse());
  op->getResult(0).replaceAllUsesWith(
      TransposeOp::create(b.builder, b.loc, sums, back).getY());
  op->erase();
  return true;
}

/// By doubling (Hillis and Steele 1986): what a step has added up of s elements
/// before each, the next adds for 2 s. What was added up s before is multiplied
/// by the decays of as many elements since: `decays` has the products from each
/// element on. Those of the derivative, which goes in reverse, have one element
/// more than they need, in front: they are other values than those of the
/// original, which training then need not keep until there.
void decompose(TfmBuilder b, ScanOpInterface op) {
  auto axis = static_cast<int64_t>(op.getAxis());
  RankedTensorType type = tensorType(op.getX());
  int64_t size = type.getDimSize(axis), front = op.getReverse() ? 1 : 0;
  Value sums = op.getX(), decays = op.getDecay();
  auto typeOf = [&](int64_t count) {
    SmallVector<int64_t> shape(type.getShape());
    shape[axis] = count;
    return type.clone(shape);
  };
  auto slice = [&](Value of, int64_t start, int64_t count) -> Value {
    if (std::optional<double> number = floatSplat(of))
      return splat(b.builder, b.loc, typeOf(count), *number);
    return SliceOp::create(b.builder, b.loc, of, axis, start, count);
  };
  auto products = [&](int64_t apart, int64_t count) -> Value {
    if (std::optional<double> number = floatSplat(decays))
      return splat(b.builder, b.loc, typeOf(count), *number * *number);
    return b.mul(slice(decays, 0, count), slice(decays, apart, count));
  };
  if (decays && size > 1)
    decays = slice(decays, 1 - front, size - 1 + front);
  for (int64_t step = 1; step < size; step *= 2) {
    int64_t rest = size - step;
    Value first = slice(sums, 0, rest), last = slice(sums, step, rest);
    Value since = decays ? slice(decays, front, rest) : Value();
    Value longer = !since            ? b.add(first, last)
                   : op.getReverse() ? b.fma(since, last, first)
                                     : b.fma(since, first, last);
    SmallVector<Value> parts;
    if (op.getReverse())
      parts = {longer, slice(sums, rest, step)};
    else
      parts = {slice(sums, 0, step), longer};
    sums = ConcatOp::create(b.builder, b.loc, parts, axis);
    if (int64_t next = rest - step; decays && next > 0)
      decays = products(step, next + front);
  }
  op->getResult(0).replaceAllUsesWith(sums);
}

void decompose(TfmBuilder b, ShiftOp op) {
  auto axis = static_cast<int64_t>(op.getAxis());
  auto steps = static_cast<int64_t>(op.getSteps());
  int64_t size = tensorType(op.getX()).getDimSize(axis);
  int64_t zeros = std::abs(std::clamp(steps, -size, size)), rest = size - zeros;
  if (rest == 0)
    return op.replaceAllUsesWith(b.zeros(op.getX()));
  Value left = SliceOp::create(b.builder, b.loc, op.getX(), axis,
                               steps < 0 ? zeros : 0, rest);
  op.replaceAllUsesWith(PadOp::create(b.builder, b.loc, left, axis,
                                      steps < 0 ? 0 : zeros,
                                      steps < 0 ? zeros : 0)
                            .getY());
}

/// One after another: the largest of the elements that come after the last one
/// in the order of values, largest first, and indices.
void decompose(TfmBuilder b, TopKOp op) {
  Value x = op.getX();
  RankedTensorType type = tensorType(x);
  int64_t axis = type.getRank() - 1, size = type.getShape().back();
  auto ids = type.clone(b.builder.getI32Type());
  Value index = IotaOp::create(b.builder, b.loc, ids, axis);
  Value before = b.neg(b.cast(index, type.getElementType()));
  Value lowest = b.constant(x, -std::numeric_limits<double>::infinity());
  // Whatever x holds, an index lies within the row.
  Value last = b.constant(x, static_cast<double>(1 - size));
  auto largest = [&](Value of) -> Value {
    return ReduceMaxOp::create(b.builder, b.loc, of, axis);
  };
  SmallVector<Value> values, indices;
  for (int64_t i = 0; i < static_cast<int64_t>(op.getK()); ++i) {
    Value left;
    if (i > 0) {
      Value value = b.broadcast(values.back(), type);
      Value after = AndOp::create(
          b.builder, b.loc, b.compare(CompareKind::eq, x, value),
          b.compare(CompareKind::gt, index, b.broadcast(indices.back(), ids)));
      left = OrOp::create(b.builder, b.loc,
                          b.compare(CompareKind::lt, x, value), after);
    }
    values.push_back(largest(left ? b.select(left, x, lowest) : x));
    Value isIt =
        b.compare(CompareKind::eq, x, b.broadcast(values.back(), type));
    if (left)
      isIt = AndOp::create(b.builder, b.loc, left, isIt);
    Value first = largest(b.select(isIt, before, last));
    indices.push_back(b.cast(b.neg(first), b.builder.getI32Type()));
  }
  op.getValues().replaceAllUsesWith(
      ConcatOp::create(b.builder, b.loc, values, axis));
  op.getIndices().replaceAllUsesWith(
      ConcatOp::create(b.builder, b.loc, indices, axis));
}

/// What cross entropy and its derivative share.
template <typename Op> struct CrossEntropyParts {
  TfmBuilder b;
  Op op;
  /// In the type that they are computed with.
  Value logits =
      b.cast(op.getLogits(), tensorType(op.getLse()).getElementType());
  RankedTensorType type = tensorType(logits);
  RankedTensorType rows = tensorType(op.getLse());
  double smoothing = op.getLabelSmoothing().convertToDouble();

  RankedTensorType column(RankedTensorType of) {
    SmallVector<int64_t> shape(of.getShape());
    shape.push_back(1);
    return RankedTensorType::get(shape, of.getElementType());
  }
  /// A value per row, [index...], repeated along the classes.
  Value perClass(Value x) {
    RankedTensorType of = tensorType(x);
    auto to = RankedTensorType::get(type.getShape(), of.getElementType());
    return b.broadcast(b.reshape(x, column(of)), to);
  }
  /// Whether a class is the target of its row.
  Value isTarget() {
    auto ids =
        RankedTensorType::get(type.getShape(), b.builder.getIntegerType(32));
    Value classes = IotaOp::create(b.builder, b.loc, ids, type.getRank() - 1);
    return b.compare(CompareKind::eq, classes, perClass(op.getTargets()));
  }
  /// `x` per row, zero where the target is ignored.
  Value unlessIgnored(Value x) {
    if (!op.getIgnore())
      return x;
    Value ignore =
        b.constant(op.getTargets(), static_cast<int64_t>(*op.getIgnore()));
    Value counts = b.compare(CompareKind::ne, op.getTargets(), ignore);
    return b.select(counts, x, b.zeros(x));
  }
};

void decompose(TfmBuilder b, CrossEntropyOp op) {
  CrossEntropyParts<CrossEntropyOp> parts{b, op};
  Value logits = parts.logits;
  Value max =
      ReduceMaxOp::create(b.builder, b.loc, logits, parts.type.getRank() - 1);
  Value e = b.exp(b.sub(logits, b.broadcast(max, parts.type)));
  Value log = LogOp::create(b.builder, b.loc, rowSum(b, e));
  Value lse = b.reshape(b.add(max, log), parts.rows);
  Value target = rowSum(b, b.select(parts.isTarget(), logits, b.zeros(logits)));
  target = b.reshape(target, parts.rows);
  Value loss;
  if (parts.smoothing == 0.0) {
    loss = b.sub(lse, target);
  } else {
    Value mean = b.reshape(b.rowMean(logits), parts.rows);
    loss = b.sub(b.sub(lse, b.scale(target, 1.0 - parts.smoothing)),
                 b.scale(mean, parts.smoothing));
  }
  op.getLosses().replaceAllUsesWith(parts.unlessIgnored(loss));
  op.getLse().replaceAllUsesWith(lse);
}

void decompose(TfmBuilder b, CrossEntropyBackwardOp op) {
  CrossEntropyParts<CrossEntropyBackwardOp> parts{b, op};
  Value logits = parts.logits;
  Value softmax = b.exp(b.sub(logits, parts.perClass(op.getLse())));
  double other = parts.smoothing / parts.type.getShape().back();
  Value wanted = b.select(parts.isTarget(),
                          b.constant(logits, 1.0 - parts.smoothing + other),
                          b.constant(logits, other));
  Value dlosses = parts.unlessIgnored(op.getDlosses());
  Value dlogits = b.mul(b.sub(softmax, wanted), parts.perClass(dlosses));
  op.replaceAllUsesWith(b.cast(dlogits, op.getType().getElementType()));
}

/// Rotation by an angle t of each pair (u, v), after Su et al. 2021,
/// "RoFormer": (u cos t - v sin t, v cos t + u sin t).
class Rotation {
public:
  Rotation(TfmBuilder b, RopeOp op)
      : b(b), op(op), shape(tensorType(op.getX()).getShape()),
        pairs(op.getDims() / 2) {}

  Value result() {
    makeAngles();
    Value turned = op.getInterleaved() ? interleaved() : halves();
    int64_t dims = op.getDims();
    return dims == shape[3]
               ? turned
               : concat(turned, slice(op.getX(), dims, shape[3] - dims));
  }

private:
  RankedTensorType type(ArrayRef<int64_t> sizes) {
    return tensorType(op.getX()).clone(sizes);
  }
  /// Of and along the last axis.
  Value slice(Value x, int64_t start, int64_t size) {
    return SliceOp::create(b.builder, b.loc, x, tensorType(x).getRank() - 1,
                           start, size);
  }
  Value concat(Value u, Value v) {
    return ConcatOp::create(b.builder, b.loc, ValueRange{u, v},
                            tensorType(u).getRank() - 1);
  }

  void makeAngles() {
    int64_t batch = shape[0], length = shape[2];
    RankedTensorType angles = type({batch, 1, length, pairs});
    const llvm::fltSemantics &semantics =
        cast<FloatType>(angles.getElementType()).getFloatSemantics();
    SmallVector<APFloat> frequencies;
    double base = op.getBase().convertToDouble();
    for (int64_t i = 0; i < pairs; ++i) {
      APFloat frequency(
          op.getFrequencies()
              ? (*op.getFrequencies())[i]
              : std::pow(base, -2.0 * static_cast<double>(i) /
                                   static_cast<double>(op.getDims())));
      bool losesInfo = false;
      frequency.convert(semantics, APFloat::rmNearestTiesToEven, &losesInfo);
      frequencies.push_back(frequency);
    }
    Value frequency = ConstantOp::create(
        b.builder, b.loc,
        DenseElementsAttr::get(type({pairs}), ArrayRef<APFloat>(frequencies)));
    Value position =
        b.reshape(b.cast(op.getPositions(), angles.getElementType()),
                  type({batch, 1, length, 1}));
    Value angle =
        b.mul(b.broadcast(position, angles), b.broadcast(frequency, angles));
    RankedTensorType half = type({batch, shape[1], length, pairs});
    auto scaled = [&](Value x) {
      return op.getAmplitude()
                 ? b.scale(x, op.getAmplitude()->convertToDouble())
                 : x;
    };
    cosine = b.broadcast(scaled(CosOp::create(b.builder, b.loc, angle)), half);
    Value s = SinOp::create(b.builder, b.loc, angle);
    sine = b.broadcast(scaled(op.getInverse() ? b.neg(s) : s), half);
  }

  std::pair<Value, Value> turn(Value u, Value v) {
    return {b.sub(b.mul(u, cosine), b.mul(v, sine)),
            b.add(b.mul(v, cosine), b.mul(u, sine))};
  }

  Value halves() {
    auto [u, v] =
        turn(slice(op.getX(), 0, pairs), slice(op.getX(), pairs, pairs));
    return concat(u, v);
  }

  Value interleaved() {
    Value split = b.reshape(slice(op.getX(), 0, 2 * pairs),
                            type({shape[0], shape[1], shape[2], pairs, 2}));
    RankedTensorType half = type({shape[0], shape[1], shape[2], pairs}),
                     column = type({shape[0], shape[1], shape[2], pairs, 1});
    auto [u, v] = turn(b.reshape(slice(split, 0, 1), half),
                       b.reshape(slice(split, 1, 1), half));
    return b.reshape(concat(b.reshape(u, column), b.reshape(v, column)),
                     type({shape[0], shape[1], shape[2], 2 * pairs}));
  }

  TfmBuilder b;
  RopeOp op;
  ArrayRef<int64_t> shape;
  int64_t pairs;
  Value cosine, sine;
};

void decompose(TfmBuilder b, RopeOp op) {
  op.replaceAllUsesWith(Rotation(b, op).result());
}

struct DecomposePass : tfm::impl::DecomposePassBase<DecomposePass> {
  using DecomposePassBase::DecomposePassBase;

  void runOnOperation() override {
    getOperation().walk([&](Operation *op) {
      OpBuilder builder(op);
      TfmBuilder b{builder, op->getLoc()};
      if (auto scan = dyn_cast<ScanOpInterface>(op);
          scan && scans && isOfRows(b, scan))
        return;
      llvm::TypeSwitch<Operation *>(op)
          .Case<SoftmaxOp, LogSoftmaxOp, NormalizeOp, RmsNormalizeOp, CumsumOp,
                ScanOp, ShiftOp, TopKOp, CrossEntropyOp, CrossEntropyBackwardOp,
                RopeOp>([&](auto composite) {
            decompose(b, composite);
            composite->erase();
          });
    });
  }
};

} // namespace
