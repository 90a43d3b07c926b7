//===- TfmDialect.h - the tfm dialect and its operations --------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_DIALECT_TFMDIALECT_H
#define TFM_DIALECT_TFMDIALECT_H

#include "compiler/dialect/AxisMap.h"
#include "compiler/dialect/FlopCount.h"
#include "compiler/dialect/ScalarFunctions.h"

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/ControlFlowInterfaces.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include <optional>

namespace tfm {

/// Cotangents of operands, one each; null where one is zero.
using Cotangents = llvm::SmallVector<mlir::Value>;

/// How a value takes part in a domain: one element per point, one per row, or
/// not directly.
enum class Role { Full, Scalar, Other };

/// The iteration space of a row kernel: `rows` rows of `cols` columns.
struct Domain {
  int64_t rows = 0, cols = 0;
  bool operator==(const Domain &) const = default;

  Role roleOf(mlir::Type type) const;
};

/// The last axis of a value as columns, all others as rows.
Domain rowsOf(mlir::Value value);
/// The same, but one row where the last axis has one element.
Domain domainOf(mlir::Value value);

/// `perElement` for each element of the first operand of `op`; none where that
/// is not of floats.
FlopCount elementFlops(mlir::Operation *op, int64_t perElement);

/// See TfmBase.td.
template <typename OpT>
class CheapToRebuild : public mlir::OpTrait::TraitBase<OpT, CheapToRebuild> {};

} // namespace tfm

#include "compiler/dialect/TfmDialect.h.inc"
#include "compiler/dialect/TfmEnums.h.inc"
#include "compiler/dialect/TfmInterfaces.h.inc"

#define GET_ATTRDEF_CLASSES
#include "compiler/dialect/TfmAttrs.h.inc"

#define GET_OP_CLASSES
#include "compiler/dialect/TfmOps.h.inc"

namespace tfm {

/// A list of op classes.
template <typename... Ops> struct OpList {};
/// Every op of tfm.
using AllOps = OpList<
#define GET_OP_LIST
#include "compiler/dialect/TfmOps.cpp.inc"
    >;

/// Whether an op is one of the table of functions.
template <typename OpT>
inline constexpr bool isScalarFunction =
    requires { OpT::template apply<double>; };

/// The tensor type of a tfm value; every value but a layer index has one.
inline mlir::RankedTensorType tensorType(mlir::Value value) {
  return llvm::cast<mlir::RankedTensorType>(value.getType());
}

/// The type that elements stored as `element` are computed with: f32 for bf16,
/// else their own.
mlir::Type arithmeticType(mlir::Type element);

/// The floating-point operations of one execution of `op`, its regions
/// included (see FlopsOpInterface); none of an op that is not of tfm.
FlopCount flopsOf(mlir::Operation *op);

/// [count, ...] of slices of a type.
mlir::RankedTensorType stackedType(mlir::RankedTensorType slice, int64_t count);

/// A constant of `type` whose every element is `value`, converted to the
/// element type.
mlir::Value splat(mlir::OpBuilder &builder, mlir::Location loc,
                  mlir::RankedTensorType type, double value);

/// What a float mask of attention counts as where it is less, other than minus
/// infinity. Less hides no more, and would leave sums and differences of scores
/// in f32 no digit: with this they have 10 bits behind the point.
inline constexpr double leastMask = -16384;

/// The number that every element of a tensor of floats equals, where it is a
/// constant, or one that is broadcast, reshaped or cast.
std::optional<double> floatSplat(mlir::Value value);
/// Whether that is a constant itself, and not made of one.
bool isFloatConstant(mlir::Value value);

} // namespace tfm

#endif // TFM_DIALECT_TFMDIALECT_H
