//===- TfmBuilder.h - short names for ops -----------------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_DIALECT_TFMBUILDER_H
#define TFM_DIALECT_TFMBUILDER_H

#include "compiler/dialect/TfmDialect.h"

#include "mlir/IR/Builders.h"
#include <limits>
#include <utility>

namespace tfm {

/// Builds tfm ops at one location, so that a rewrite reads like its formula.
/// Operands have equal shapes unless said otherwise.
struct TfmBuilder {
  mlir::OpBuilder &builder;
  mlir::Location loc;

  using Value = mlir::Value;

  Value add(Value a, Value b) { return AddOp::create(builder, loc, a, b); }
  Value sub(Value a, Value b) { return SubOp::create(builder, loc, a, b); }
  Value mul(Value a, Value b) { return MulOp::create(builder, loc, a, b); }
  Value div(Value a, Value b) { return DivOp::create(builder, loc, a, b); }
  /// a * b + c, rounded once.
  Value fma(Value a, Value b, Value c) {
    return FmaOp::create(builder, loc, a, b, c);
  }
  Value neg(Value x) { return NegOp::create(builder, loc, x); }
  Value exp(Value x) { return ExpOp::create(builder, loc, x); }

  /// A constant of the shape and element type of `like`.
  Value constant(Value like, double value) {
    return splat(builder, loc, tensorType(like), value);
  }
  Value zeros(Value like) { return constant(like, 0.0); }
  Value scale(Value x, double factor) { return mul(x, constant(x, factor)); }
  Value plus(Value x, double term) { return add(x, constant(x, term)); }

  Value compare(CompareKind kind, Value a, Value b) {
    return CompareOp::create(builder, loc, kind, a, b);
  }
  Value select(Value condition, Value a, Value b) {
    return SelectOp::create(builder, loc, condition, a, b);
  }
  Value cast(Value x, mlir::Type element) {
    if (tensorType(x).getElementType() == element)
      return x;
    auto type = mlir::RankedTensorType::get(tensorType(x).getShape(), element);
    return CastOp::create(builder, loc, type, x);
  }
  Value reshape(Value x, mlir::RankedTensorType type) {
    if (x.getType() == type)
      return x;
    return ReshapeOp::create(builder, loc, type, x);
  }
  Value broadcast(Value x, mlir::RankedTensorType type) {
    if (x.getType() == type)
      return x;
    return BroadcastOp::create(builder, loc, type, x);
  }

  /// The sum over the last axis, repeated along it: [..., n] to [..., n].
  Value rowSum(Value x) {
    mlir::RankedTensorType type = tensorType(x);
    Value sum = ReduceSumOp::create(builder, loc, x, type.getRank() - 1);
    return broadcast(sum, type);
  }
  /// A row of integers of 8 bits for each row of floats, and its scale [...,
  /// 1]: what the row is, times 127 over its largest magnitude, to the nearest.
  /// (Dettmers et al. 2022, "LLM.int8()", section 2.1, "vector-wise".) What is
  /// lost is half a scale in each element. A row of zeros gets a scale that is
  /// no zero; and none is denormal, which kernels take for zero. That of a row
  /// with what is not a number is none.
  std::pair<Value, Value> quantiseRows(Value x) {
    constexpr double largest = 127,
                     smallest = largest * std::numeric_limits<float>::min();
    mlir::RankedTensorType type = tensorType(x);
    Value magnitude = ReduceMaxOp::create(
        builder, loc, AbsOp::create(builder, loc, x), type.getRank() - 1,
        /*keeps_nan=*/true);
    magnitude =
        MaxOp::create(builder, loc, magnitude, constant(magnitude, smallest));
    Value inverse = div(constant(magnitude, largest), magnitude);
    Value scales = scale(magnitude, 1 / largest);
    Value integers =
        cast(mul(x, broadcast(inverse, type)), builder.getI8Type());
    return {integers, scales};
  }
  /// The mean over the last axis, kept with size 1: [..., n] to [..., 1].
  Value rowMean(Value x) {
    mlir::RankedTensorType type = tensorType(x);
    Value sum = ReduceSumOp::create(builder, loc, x, type.getRank() - 1);
    return scale(sum, 1.0 / static_cast<double>(type.getShape().back()));
  }
};

/// Whether a value has a cotangent at all: floats do.
inline bool isFloat(mlir::Value value) {
  auto type = llvm::dyn_cast<mlir::RankedTensorType>(value.getType());
  return type && llvm::isa<mlir::FloatType>(type.getElementType());
}

} // namespace tfm

#endif // TFM_DIALECT_TFMBUILDER_H
