//===- Derivatives.cpp - derivatives of elementwise ops -------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// In every formula `c` is the cotangent of the result `y`. Where a derivative
// can be written in terms of `y` instead of `x` it is: `y` is often kept for
// another op anyway.
//
//===----------------------------------------------------------------------===//

#include "compiler/dialect/TfmBuilder.h"

#include <cmath>

using namespace mlir;
using namespace tfm;

namespace {

constexpr double pi = 3.14159265358979323846;

bool isConstant(Value value) {
  Operation *op = value.getDefiningOp();
  while (isa_and_nonnull<BroadcastOp, ReshapeOp, CastOp>(op))
    op = op->getOperand(0).getDefiningOp();
  return isa_and_nonnull<ConstantOp>(op);
}

/// The cotangents of min and max: all of `c` where `wins`, half where equal.
Cotangents shareBetween(TfmBuilder b, CompareKind wins, Value x, Value y,
                        Value c) {
  Value zero = b.zeros(c);
  Value atEqual =
      b.select(b.compare(CompareKind::eq, x, y), b.scale(c, 0.5), zero);
  return Cotangents{b.select(b.compare(wins, x, y), c, atEqual),
                    b.select(b.compare(wins, y, x), c, atEqual)};
}

} // namespace

//===----------------------------------------------------------------------===//
// One operand
//===----------------------------------------------------------------------===//

FailureOr<Cotangents> NegOp::buildVJP(OpBuilder &builder, ValueRange c) {
  TfmBuilder b{builder, getLoc()};
  return Cotangents{b.neg(c[0])};
}

FailureOr<Cotangents> AbsOp::buildVJP(OpBuilder &builder, ValueRange c) {
  TfmBuilder b{builder, getLoc()};
  Value zero = b.zeros(c[0]);
  Value negative =
      b.select(b.compare(CompareKind::lt, getX(), zero), b.neg(c[0]), zero);
  return Cotangents{
      b.select(b.compare(CompareKind::gt, getX(), zero), c[0], negative)};
}

FailureOr<Cotangents> ExpOp::buildVJP(OpBuilder &builder, ValueRange c) {
  TfmBuilder b{builder, getLoc()};
  return Cotangents{b.mul(c[0], getY())};
}

FailureOr<Cotangents> LogOp::buildVJP(OpBuilder &builder, ValueRange c) {
  TfmBuilder b{builder, getLoc()};
  return Cotangents{b.div(c[0], getX())};
}

// c / (2 y)
FailureOr<Cotangents> SqrtOp::buildVJP(OpBuilder &builder, ValueRange c) {
  TfmBuilder b{builder, getLoc()};
  return Cotangents{b.div(b.scale(c[0], 0.5), getY())};
}

// -c y^3 / 2
FailureOr<Cotangents> RsqrtOp::buildVJP(OpBuilder &builder, ValueRange c) {
  TfmBuilder b{builder, getLoc()};
  Value cube = b.mul(b.mul(getY(), getY()), getY());
  return Cotangents{b.mul(b.scale(c[0], -0.5), cube)};
}

// c (1 - y^2)
FailureOr<Cotangents> TanhOp::buildVJP(OpBuilder &builder, ValueRange c) {
  TfmBuilder b{builder, getLoc()};
  Value one = b.constant(c[0], 1.0);
  return Cotangents{b.mul(c[0], b.sub(one, b.mul(getY(), getY())))};
}

// c y (1 - y)
FailureOr<Cotangents> SigmoidOp::buildVJP(OpBuilder &builder, ValueRange c) {
  TfmBuilder b{builder, getLoc()};
  Value one = b.constant(c[0], 1.0);
  return Cotangents{b.mul(c[0], b.mul(getY(), b.sub(one, getY())))};
}

// c 2 / sqrt(pi) e^(-x^2)
FailureOr<Cotangents> ErfOp::buildVJP(OpBuilder &builder, ValueRange c) {
  TfmBuilder b{builder, getLoc()};
  Value bell = b.exp(b.neg(b.mul(getX(), getX())));
  return Cotangents{b.mul(c[0], b.scale(bell, 2.0 / std::sqrt(pi)))};
}

FailureOr<Cotangents> SinOp::buildVJP(OpBuilder &builder, ValueRange c) {
  TfmBuilder b{builder, getLoc()};
  return Cotangents{b.mul(c[0], CosOp::create(builder, getLoc(), getX()))};
}

FailureOr<Cotangents> CosOp::buildVJP(OpBuilder &builder, ValueRange c) {
  TfmBuilder b{builder, getLoc()};
  return Cotangents{
      b.neg(b.mul(c[0], SinOp::create(builder, getLoc(), getX())))};
}

FailureOr<Cotangents> ReluOp::buildVJP(OpBuilder &builder, ValueRange c) {
  TfmBuilder b{builder, getLoc()};
  Value zero = b.zeros(c[0]);
  return Cotangents{
      b.select(b.compare(CompareKind::gt, getY(), zero), c[0], zero)};
}

// 2 c max(x, 0)
FailureOr<Cotangents> ReluSquaredOp::buildVJP(OpBuilder &builder,
                                              ValueRange c) {
  TfmBuilder b{builder, getLoc()};
  Value positive = ReluOp::create(builder, getLoc(), getX());
  return Cotangents{b.mul(c[0], b.scale(positive, 2.0))};
}

// c (P(x) + x p(x)), P and p the standard normal's distribution and density
FailureOr<Cotangents> GeluOp::buildVJP(OpBuilder &builder, ValueRange c) {
  TfmBuilder b{builder, getLoc()};
  Value x = getX();
  Value erf =
      ErfOp::create(builder, getLoc(), b.scale(x, 1.0 / std::sqrt(2.0)));
  Value distribution = b.scale(b.plus(erf, 1.0), 0.5);
  Value density =
      b.scale(b.exp(b.scale(b.mul(x, x), -0.5)), 1.0 / std::sqrt(2.0 * pi));
  return Cotangents{b.mul(c[0], b.add(distribution, b.mul(x, density)))};
}

// With s = sigmoid(v), which is (1 + tanh(v / 2)) / 2, and v = k (x + a x^3):
// c s (1 + x k (1 + 3 a x^2) (1 - s))
FailureOr<Cotangents> GeluTanhOp::buildVJP(OpBuilder &builder, ValueRange c) {
  TfmBuilder b{builder, getLoc()};
  const double k = 2.0 * std::sqrt(2.0 / pi), a = 0.044715;
  Value x = getX(), square = b.mul(x, x);
  Value v = b.mul(x, b.plus(b.scale(square, k * a), k));
  Value s = SigmoidOp::create(builder, getLoc(), v);
  Value slope = b.mul(x, b.plus(b.scale(square, 3.0 * k * a), k));
  Value rest = b.mul(slope, b.sub(b.constant(s, 1.0), s));
  return Cotangents{b.mul(c[0], b.mul(s, b.plus(rest, 1.0)))};
}

// c s (1 + x (1 - s)) with s = sigmoid(x)
FailureOr<Cotangents> SiluOp::buildVJP(OpBuilder &builder, ValueRange c) {
  TfmBuilder b{builder, getLoc()};
  Value s = SigmoidOp::create(builder, getLoc(), getX());
  Value rest = b.mul(getX(), b.sub(b.constant(s, 1.0), s));
  return Cotangents{b.mul(c[0], b.mul(s, b.plus(rest, 1.0)))};
}

FailureOr<Cotangents> SoftplusOp::buildVJP(OpBuilder &builder, ValueRange c) {
  TfmBuilder b{builder, getLoc()};
  return Cotangents{b.mul(c[0], SigmoidOp::create(builder, getLoc(), getX()))};
}

FailureOr<Cotangents> StopGradientOp::buildVJP(OpBuilder &, ValueRange) {
  return Cotangents{Value()};
}

FailureOr<Cotangents> CastOp::buildVJP(OpBuilder &builder, ValueRange c) {
  if (!isFloat(getX()) || !isFloat(getY()))
    return Cotangents{Value()};
  TfmBuilder b{builder, getLoc()};
  return Cotangents{b.cast(c[0], tensorType(getX()).getElementType())};
}

//===----------------------------------------------------------------------===//
// Two operands and more
//===----------------------------------------------------------------------===//

FailureOr<Cotangents> AddOp::buildVJP(OpBuilder &, ValueRange c) {
  return Cotangents{c[0], c[0]};
}

FailureOr<Cotangents> SubOp::buildVJP(OpBuilder &builder, ValueRange c) {
  TfmBuilder b{builder, getLoc()};
  return Cotangents{c[0], b.neg(c[0])};
}

FailureOr<Cotangents> MulOp::buildVJP(OpBuilder &builder, ValueRange c) {
  TfmBuilder b{builder, getLoc()};
  return Cotangents{b.mul(c[0], getB()), b.mul(c[0], getA())};
}

// c / b and -c a / b^2
FailureOr<Cotangents> DivOp::buildVJP(OpBuilder &builder, ValueRange c) {
  TfmBuilder b{builder, getLoc()};
  Value quotient = b.div(c[0], getB());
  return Cotangents{quotient, b.neg(b.mul(quotient, b.div(getA(), getB())))};
}

// c b a^(b - 1) and c y log(a)
FailureOr<Cotangents> PowOp::buildVJP(OpBuilder &builder, ValueRange c) {
  TfmBuilder b{builder, getLoc()};
  Value base = getA();
  if (std::optional<double> p = floatSplat(getB())) {
    // Spelt out so that a base of 0 or below, which is allowed with a constant
    // integral exponent, meets no logarithm and no 0 ** -1.
    if (*p == 0.0)
      return Cotangents{Value(), Value()};
    if (*p == 1.0)
      return Cotangents{c[0], Value()};
    if (*p == 2.0)
      return Cotangents{b.mul(c[0], b.scale(base, 2.0)), Value()};
    Value power =
        PowOp::create(builder, getLoc(), base, b.constant(base, *p - 1.0));
    return Cotangents{b.mul(b.scale(c[0], *p), power), Value()};
  }
  // 0 ** -1 and log(0) are infinite, and what they are times 0 is none: the
  // limit is.
  Value zero = b.zeros(base), less = b.plus(getB(), -1.0);
  Value da =
      b.mul(b.mul(c[0], getB()), PowOp::create(builder, getLoc(), base, less));
  da = b.select(b.compare(CompareKind::eq, getB(), zero), zero, da);
  Value db;
  if (!isConstant(getB())) {
    Value isZero =
        AndOp::create(builder, getLoc(), b.compare(CompareKind::eq, base, zero),
                      b.compare(CompareKind::ge, getB(), zero));
    db = b.mul(getY(), LogOp::create(builder, getLoc(), base));
    db = b.mul(c[0], b.select(isZero, zero, db));
  }
  return Cotangents{da, db};
}

FailureOr<Cotangents> MinOp::buildVJP(OpBuilder &builder, ValueRange c) {
  return shareBetween({builder, getLoc()}, CompareKind::lt, getA(), getB(),
                      c[0]);
}

FailureOr<Cotangents> MaxOp::buildVJP(OpBuilder &builder, ValueRange c) {
  return shareBetween({builder, getLoc()}, CompareKind::gt, getA(), getB(),
                      c[0]);
}

FailureOr<Cotangents> FmaOp::buildVJP(OpBuilder &builder, ValueRange c) {
  TfmBuilder b{builder, getLoc()};
  return Cotangents{b.mul(c[0], getB()), b.mul(c[0], getA()), c[0]};
}

FailureOr<Cotangents> SelectOp::buildVJP(OpBuilder &builder, ValueRange c) {
  TfmBuilder b{builder, getLoc()};
  Value zero = b.zeros(c[0]);
  return Cotangents{Value(), b.select(getCondition(), c[0], zero),
                    b.select(getCondition(), zero, c[0])};
}
