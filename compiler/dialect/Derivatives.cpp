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

using Cotangents = SmallVectorImpl<Value>;

constexpr double pi = 3.14159265358979323846;

bool isConstant(Value value) {
  Operation *op = value.getDefiningOp();
  while (isa_and_nonnull<BroadcastOp, ReshapeOp, CastOp>(op))
    op = op->getOperand(0).getDefiningOp();
  return isa_and_nonnull<ConstantOp>(op);
}

/// The cotangents of min and max: all of `c` where `wins`, half where equal.
void shareBetween(TfmBuilder b, CompareKind wins, Value x, Value y, Value c,
                  Cotangents &result) {
  Value zero = b.zeros(c);
  Value atEqual =
      b.select(b.compare(CompareKind::eq, x, y), b.scale(c, 0.5), zero);
  result.assign({b.select(b.compare(wins, x, y), c, atEqual),
                 b.select(b.compare(wins, y, x), c, atEqual)});
}

} // namespace

//===----------------------------------------------------------------------===//
// One operand
//===----------------------------------------------------------------------===//

void NegOp::buildVJP(OpBuilder &builder, ValueRange c, Cotangents &result) {
  TfmBuilder b{builder, getLoc()};
  result.assign({b.neg(c[0])});
}

void AbsOp::buildVJP(OpBuilder &builder, ValueRange c, Cotangents &result) {
  TfmBuilder b{builder, getLoc()};
  Value zero = b.zeros(c[0]);
  Value negative =
      b.select(b.compare(CompareKind::lt, getX(), zero), b.neg(c[0]), zero);
  result.assign(
      {b.select(b.compare(CompareKind::gt, getX(), zero), c[0], negative)});
}

void ExpOp::buildVJP(OpBuilder &builder, ValueRange c, Cotangents &result) {
  TfmBuilder b{builder, getLoc()};
  result.assign({b.mul(c[0], getY())});
}

void LogOp::buildVJP(OpBuilder &builder, ValueRange c, Cotangents &result) {
  TfmBuilder b{builder, getLoc()};
  result.assign({b.div(c[0], getX())});
}

// c / (2 y)
void SqrtOp::buildVJP(OpBuilder &builder, ValueRange c, Cotangents &result) {
  TfmBuilder b{builder, getLoc()};
  result.assign({b.div(b.scale(c[0], 0.5), getY())});
}

// -c y^3 / 2
void RsqrtOp::buildVJP(OpBuilder &builder, ValueRange c, Cotangents &result) {
  TfmBuilder b{builder, getLoc()};
  Value cube = b.mul(b.mul(getY(), getY()), getY());
  result.assign({b.mul(b.scale(c[0], -0.5), cube)});
}

// c (1 - y^2)
void TanhOp::buildVJP(OpBuilder &builder, ValueRange c, Cotangents &result) {
  TfmBuilder b{builder, getLoc()};
  Value one = b.constant(c[0], 1.0);
  result.assign({b.mul(c[0], b.sub(one, b.mul(getY(), getY())))});
}

// c y (1 - y)
void SigmoidOp::buildVJP(OpBuilder &builder, ValueRange c, Cotangents &result) {
  TfmBuilder b{builder, getLoc()};
  Value one = b.constant(c[0], 1.0);
  result.assign({b.mul(c[0], b.mul(getY(), b.sub(one, getY())))});
}

// c 2 / sqrt(pi) e^(-x^2)
void ErfOp::buildVJP(OpBuilder &builder, ValueRange c, Cotangents &result) {
  TfmBuilder b{builder, getLoc()};
  Value bell = b.exp(b.neg(b.mul(getX(), getX())));
  result.assign({b.mul(c[0], b.scale(bell, 2.0 / std::sqrt(pi)))});
}

void SinOp::buildVJP(OpBuilder &builder, ValueRange c, Cotangents &result) {
  TfmBuilder b{builder, getLoc()};
  result.assign({b.mul(c[0], CosOp::create(builder, getLoc(), getX()))});
}

void CosOp::buildVJP(OpBuilder &builder, ValueRange c, Cotangents &result) {
  TfmBuilder b{builder, getLoc()};
  result.assign({b.neg(b.mul(c[0], SinOp::create(builder, getLoc(), getX())))});
}

void ReluOp::buildVJP(OpBuilder &builder, ValueRange c, Cotangents &result) {
  TfmBuilder b{builder, getLoc()};
  Value zero = b.zeros(c[0]);
  result.assign(
      {b.select(b.compare(CompareKind::gt, getY(), zero), c[0], zero)});
}

// c (P(x) + x p(x)), P and p the standard normal's distribution and density
void GeluOp::buildVJP(OpBuilder &builder, ValueRange c, Cotangents &result) {
  TfmBuilder b{builder, getLoc()};
  Value x = getX();
  Value erf =
      ErfOp::create(builder, getLoc(), b.scale(x, 1.0 / std::sqrt(2.0)));
  Value distribution = b.scale(b.plus(erf, 1.0), 0.5);
  Value density =
      b.scale(b.exp(b.scale(b.mul(x, x), -0.5)), 1.0 / std::sqrt(2.0 * pi));
  result.assign({b.mul(c[0], b.add(distribution, b.mul(x, density)))});
}

// With t = tanh(u) and u = k (x + a x^3):
// c ((1 + t) / 2 + x (1 - t^2) / 2 * k (1 + 3 a x^2))
void GeluTanhOp::buildVJP(OpBuilder &builder, ValueRange c,
                          Cotangents &result) {
  TfmBuilder b{builder, getLoc()};
  const double k = std::sqrt(2.0 / pi), a = 0.044715;
  Value x = getX(), square = b.mul(x, x);
  Value u = b.mul(x, b.plus(b.scale(square, k * a), k));
  Value t = TanhOp::create(builder, getLoc(), u);
  Value du = b.plus(b.scale(square, 3.0 * a * k), k);
  Value dt = b.sub(b.constant(t, 1.0), b.mul(t, t));
  Value twice = b.add(b.plus(t, 1.0), b.mul(b.mul(x, dt), du));
  result.assign({b.mul(c[0], b.scale(twice, 0.5))});
}

// c s (1 + x (1 - s)) with s = sigmoid(x)
void SiluOp::buildVJP(OpBuilder &builder, ValueRange c, Cotangents &result) {
  TfmBuilder b{builder, getLoc()};
  Value s = SigmoidOp::create(builder, getLoc(), getX());
  Value rest = b.mul(getX(), b.sub(b.constant(s, 1.0), s));
  result.assign({b.mul(c[0], b.mul(s, b.plus(rest, 1.0)))});
}

void SoftplusOp::buildVJP(OpBuilder &builder, ValueRange c,
                          Cotangents &result) {
  TfmBuilder b{builder, getLoc()};
  result.assign({b.mul(c[0], SigmoidOp::create(builder, getLoc(), getX()))});
}

void StopGradientOp::buildVJP(OpBuilder &, ValueRange, Cotangents &result) {
  result.assign({Value()});
}

void CastOp::buildVJP(OpBuilder &builder, ValueRange c, Cotangents &result) {
  if (!isFloat(getX()) || !isFloat(getY())) {
    result.assign({Value()});
    return;
  }
  TfmBuilder b{builder, getLoc()};
  result.assign({b.cast(c[0], tensorType(getX()).getElementType())});
}

//===----------------------------------------------------------------------===//
// Two operands and more
//===----------------------------------------------------------------------===//

void AddOp::buildVJP(OpBuilder &, ValueRange c, Cotangents &result) {
  result.assign({c[0], c[0]});
}

void SubOp::buildVJP(OpBuilder &builder, ValueRange c, Cotangents &result) {
  TfmBuilder b{builder, getLoc()};
  result.assign({c[0], b.neg(c[0])});
}

void MulOp::buildVJP(OpBuilder &builder, ValueRange c, Cotangents &result) {
  TfmBuilder b{builder, getLoc()};
  result.assign({b.mul(c[0], getB()), b.mul(c[0], getA())});
}

// c / b and -c a / b^2
void DivOp::buildVJP(OpBuilder &builder, ValueRange c, Cotangents &result) {
  TfmBuilder b{builder, getLoc()};
  Value quotient = b.div(c[0], getB());
  result.assign({quotient, b.neg(b.mul(quotient, b.div(getA(), getB())))});
}

// c b a^(b - 1) and c y log(a)
void PowOp::buildVJP(OpBuilder &builder, ValueRange c, Cotangents &result) {
  TfmBuilder b{builder, getLoc()};
  Value base = getA();
  if (std::optional<double> p = floatSplat(getB())) {
    // Spelt out so that a base of 0 or below, which is allowed with a constant
    // integral exponent, meets no logarithm and no 0 ** -1.
    if (*p == 0.0)
      result.assign({Value(), Value()});
    else if (*p == 1.0)
      result.assign({c[0], Value()});
    else if (*p == 2.0)
      result.assign({b.mul(c[0], b.scale(base, 2.0)), Value()});
    else
      result.assign(
          {b.mul(b.scale(c[0], *p), PowOp::create(builder, getLoc(), base,
                                                  b.constant(base, *p - 1.0))),
           Value()});
    return;
  }
  Value less = b.plus(getB(), -1.0);
  Value da =
      b.mul(b.mul(c[0], getB()), PowOp::create(builder, getLoc(), base, less));
  Value db;
  if (!isConstant(getB()))
    db = b.mul(c[0], b.mul(getY(), LogOp::create(builder, getLoc(), base)));
  result.assign({da, db});
}

void MinOp::buildVJP(OpBuilder &builder, ValueRange c, Cotangents &result) {
  shareBetween({builder, getLoc()}, CompareKind::lt, getA(), getB(), c[0],
               result);
}

void MaxOp::buildVJP(OpBuilder &builder, ValueRange c, Cotangents &result) {
  shareBetween({builder, getLoc()}, CompareKind::gt, getA(), getB(), c[0],
               result);
}

void SelectOp::buildVJP(OpBuilder &builder, ValueRange c, Cotangents &result) {
  TfmBuilder b{builder, getLoc()};
  Value zero = b.zeros(c[0]);
  result.assign({Value(), b.select(getCondition(), c[0], zero),
                 b.select(getCondition(), zero, c[0])});
}
