//===- Elementwise.cpp - elementwise ops on scalars and vectors -----------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/target/emit/Elementwise.h"

#include "compiler/dialect/TfmDialect.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/TypeSwitch.h"
#include <cmath>
#include <limits>

using namespace mlir;
using namespace tfm;

namespace {

/// A number in a kernel, a scalar or a vector of them: what the formulas of
/// ScalarFunctions.h compute with.
struct Number {
  KernelBuilder &k;
  Value value;

  Number with(Value result) const { return {k, result}; }
  Number constant(double number) const {
    Type type = value.getType();
    TypedAttr attr = k.b.getFloatAttr(getElementTypeOrSelf(type), number);
    if (auto vector = dyn_cast<VectorType>(type))
      attr = DenseElementsAttr::get(vector, Attribute(attr));
    return with(arith::ConstantOp::create(k.b, k.loc, attr));
  }
  template <typename Op> Number apply() const {
    return with(Op::create(k.b, k.loc, value));
  }

  friend Number operator-(Number x) { return x.apply<arith::NegFOp>(); }
  friend Number operator+(Number x, Number y) {
    return x.with(x.k.addf(x.value, y.value));
  }
  friend Number operator*(Number x, Number y) {
    return x.with(x.k.mulf(x.value, y.value));
  }
  friend Number operator/(Number x, Number y) {
    return x.with(x.k.quotient(x.value, y.value));
  }
  friend Number operator+(double x, Number y) { return y.constant(x) + y; }
  friend Number operator+(Number x, double y) { return x + x.constant(y); }
  friend Number operator*(double x, Number y) { return y.constant(x) * y; }
  friend Number operator*(Number x, double y) { return x * x.constant(y); }
  friend Number operator/(double x, Number y) { return y.constant(x) / y; }

  friend Number abs(Number x) { return x.apply<math::AbsFOp>(); }
  friend Number exp(Number x) { return x.apply<math::ExpOp>(); }
  friend Number exp2(Number x) { return x.apply<math::Exp2Op>(); }
  friend Number log(Number x) { return x.apply<math::LogOp>(); }
  friend Number log1p(Number x) { return x.apply<math::Log1pOp>(); }
  friend Number sqrt(Number x) { return x.apply<math::SqrtOp>(); }
  friend Number tanh(Number x) { return x.apply<math::TanhOp>(); }
  friend Number erf(Number x) { return x.apply<math::ErfOp>(); }
  friend Number sin(Number x) { return x.apply<math::SinOp>(); }
  friend Number cos(Number x) { return x.apply<math::CosOp>(); }
  friend Number max(Number x, double y) {
    return x.with(arith::MaximumFOp::create(x.k.b, x.k.loc, x.value,
                                            x.constant(y).value));
  }
};

/// The function that `op` applies, of `x`; null where it is none of the table.
template <typename... Ops>
Value emitScalarFunction(OpList<Ops...>, Operation *op, Number x) {
  Value result;
  auto tryOne = [&]<typename Op>() {
    if constexpr (isScalarFunction<Op>)
      if (isa<Op>(op))
        result = Op::apply(x).value;
  };
  (tryOne.template operator()<Ops>(), ...);
  return result;
}

class Elementwise {
public:
  Elementwise(KernelBuilder &k, Type type) : k(k), type(type) {}

  Value number(double value) {
    Type element = getElementTypeOrSelf(type);
    TypedAttr attr = isa<FloatType>(element)
                         ? TypedAttr(k.b.getFloatAttr(element, value))
                         : TypedAttr(k.b.getIntegerAttr(
                               element, static_cast<int64_t>(value)));
    if (auto vector = dyn_cast<VectorType>(type))
      attr = DenseElementsAttr::get(vector, Attribute(attr));
    return arith::ConstantOp::create(k.b, k.loc, attr);
  }

  /// x ** p by multiplication for a small whole p, else e ** (p * log(|x|))
  /// with the sign that a whole p gives it.
  Value power(Operation *op, Value x, Value p) {
    bool canBeWhole = true;
    if (std::optional<double> exponent = floatSplat(op->getOperand(1))) {
      double magnitude = std::abs(*exponent);
      canBeWhole = magnitude == std::floor(magnitude);
      if (canBeWhole && magnitude <= 64) {
        Value result = number(1);
        Value base = x;
        for (auto n = static_cast<unsigned>(magnitude); n; n >>= 1) {
          if (n & 1)
            result = k.mulf(result, base);
          base = k.mulf(base, base);
        }
        return *exponent < 0 ? k.divf(number(1), result) : result;
      }
      if (magnitude == 0.5) {
        Value root = math::SqrtOp::create(k.b, k.loc, x);
        return *exponent < 0 ? k.divf(number(1), root) : root;
      }
    }
    auto expOf = [&](Value positive) -> Value {
      Value log = math::LogOp::create(k.b, k.loc, positive);
      return math::ExpOp::create(k.b, k.loc, k.mulf(p, log));
    };
    if (!canBeWhole)
      return expOf(x);
    auto compare = [&](arith::CmpFPredicate how, Value a, Value b) -> Value {
      return arith::CmpFOp::create(k.b, k.loc, how, a, b);
    };
    auto select = [&](Value condition, Value a, Value b) -> Value {
      return arith::SelectOp::create(k.b, k.loc, condition, a, b);
    };
    auto isWhole = [&](Value value) {
      Value floor = math::FloorOp::create(k.b, k.loc, value);
      return compare(arith::CmpFPredicate::OEQ, floor, value);
    };
    Value zero = number(0), y = expOf(math::AbsFOp::create(k.b, k.loc, x));
    Value negated = arith::NegFOp::create(k.b, k.loc, y);
    Value ofNegative =
        select(isWhole(k.mulf(p, number(0.5))), y,
               select(isWhole(p), negated,
                      number(std::numeric_limits<double>::quiet_NaN())));
    y = select(compare(arith::CmpFPredicate::OLT, x, zero), ofNegative, y);
    return select(compare(arith::CmpFPredicate::OEQ, p, zero), number(1), y);
  }

  template <typename FloatOp, typename IntOp> Value either(Value a, Value b) {
    if (isa<FloatType>(getElementTypeOrSelf(a.getType())))
      return FloatOp::create(k.b, k.loc, a, b);
    return IntOp::create(k.b, k.loc, a, b);
  }

  /// x / 0 is 0 for integers, also in lanes that nobody asked for: the
  /// processor would end the program.
  Value quotient(Value a, Value b) {
    if (isa<FloatType>(getElementTypeOrSelf(type)))
      return k.divf(a, b);
    Value isZero = compare(CompareKind::eq, b, number(0));
    // The smallest by -1 has no quotient, which ends the program, too.
    Value isMinusOne = compare(CompareKind::eq, b, number(-1));
    Value divisor = k.select(
        arith::OrIOp::create(k.b, k.loc, isZero, isMinusOne), number(1), b);
    Value result = arith::DivSIOp::create(k.b, k.loc, a, divisor);
    Value negated = arith::SubIOp::create(k.b, k.loc, number(0), a);
    return k.select(isZero, number(0), k.select(isMinusOne, negated, result));
  }

  Value compare(CompareKind kind, Value a, Value b) {
    static constexpr arith::CmpFPredicate floats[] = {
        arith::CmpFPredicate::OEQ, arith::CmpFPredicate::UNE,
        arith::CmpFPredicate::OLT, arith::CmpFPredicate::OLE,
        arith::CmpFPredicate::OGT, arith::CmpFPredicate::OGE};
    static constexpr arith::CmpIPredicate ints[] = {
        arith::CmpIPredicate::eq,  arith::CmpIPredicate::ne,
        arith::CmpIPredicate::slt, arith::CmpIPredicate::sle,
        arith::CmpIPredicate::sgt, arith::CmpIPredicate::sge};
    auto index = static_cast<unsigned>(kind);
    if (isa<FloatType>(getElementTypeOrSelf(a.getType())))
      return arith::CmpFOp::create(k.b, k.loc, floats[index], a, b);
    return arith::CmpIOp::create(k.b, k.loc, ints[index], a, b);
  }

  Value convert(Value x) {
    Type from = getElementTypeOrSelf(x.getType()),
         to = getElementTypeOrSelf(type);
    if (from == to)
      return x;
    if (from.isBF16())
      return arith::ExtFOp::create(k.b, k.loc, type, x);
    if (to.isBF16())
      return arith::TruncFOp::create(k.b, k.loc, type, x);
    // As many as there are numbers: one, where the op is evaluated once.
    Type i32 = k.b.getI32Type();
    if (auto vector = dyn_cast<VectorType>(type))
      i32 = VectorType::get(vector.getShape(), i32);
    if (from.isInteger(1)) {
      Value wide = arith::ExtUIOp::create(k.b, k.loc, i32, x);
      return to.isInteger(32) ? wide
                              : arith::SIToFPOp::create(k.b, k.loc, type, wide);
    }
    if (to.isInteger(1)) {
      Value zero =
          arith::ConstantOp::create(k.b, k.loc, k.b.getZeroAttr(x.getType()));
      return compare(CompareKind::ne, x, zero);
    }
    if (to.isInteger(8)) {
      Value nearest = math::RoundEvenOp::create(k.b, k.loc, x);
      nearest = arith::FPToSIOp::create(k.b, k.loc, i32, nearest);
      return arith::TruncIOp::create(k.b, k.loc, type, nearest);
    }
    return isa<FloatType>(from)
               ? Value(arith::FPToSIOp::create(k.b, k.loc, type, x))
               : Value(arith::SIToFPOp::create(k.b, k.loc, type, x));
  }

  Value emit(Operation *op, ValueRange x) {
    if (isa<ScalarFunctionOpInterface>(op))
      return emitScalarFunction(AllOps(), op, {k, x[0]});
    return TypeSwitch<Operation *, Value>(op)
        .Case([&](NegOp) { return arith::NegFOp::create(k.b, k.loc, x[0]); })
        .Case([&](StopGradientOp) { return x[0]; })
        .Case([&](CastOp) { return convert(x[0]); })
        .Case([&](NotOp) {
          return arith::XOrIOp::create(k.b, k.loc, x[0], number(1));
        })
        .Case([&](AddOp) {
          return either<arith::AddFOp, arith::AddIOp>(x[0], x[1]);
        })
        .Case([&](SubOp) {
          return either<arith::SubFOp, arith::SubIOp>(x[0], x[1]);
        })
        .Case([&](MulOp) {
          return either<arith::MulFOp, arith::MulIOp>(x[0], x[1]);
        })
        .Case([&](FmaOp) { return k.fma(x[0], x[1], x[2]); })
        .Case([&](DivOp) { return quotient(x[0], x[1]); })
        .Case([&](MinOp) {
          return either<arith::MinimumFOp, arith::MinSIOp>(x[0], x[1]);
        })
        .Case([&](MaxOp) {
          return either<arith::MaximumFOp, arith::MaxSIOp>(x[0], x[1]);
        })
        .Case([&](PowOp) { return power(op, x[0], x[1]); })
        .Case([&](AndOp) {
          return arith::AndIOp::create(k.b, k.loc, x[0], x[1]);
        })
        .Case(
            [&](OrOp) { return arith::OrIOp::create(k.b, k.loc, x[0], x[1]); })
        .Case([&](CompareOp c) { return compare(c.getKind(), x[0], x[1]); })
        .Case([&](SelectOp) {
          return arith::SelectOp::create(k.b, k.loc, x[0], x[1], x[2]);
        })
        .Default([](Operation *unknown) -> Value {
          llvm::report_fatal_error("no formula is known of " +
                                   unknown->getName().getStringRef());
        });
  }

private:
  KernelBuilder &k;
  Type type;
};

} // namespace

Value tfm::emitElementwise(KernelBuilder &k, Operation *op, ValueRange operands,
                           Type type) {
  return Elementwise(k, type).emit(op, operands);
}
