//===- InferTypes.cpp - result types from operands ------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/dialect/TfmDialect.h"

#include "mlir/IR/Builders.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace tfm;

namespace {

using Types = SmallVectorImpl<Type>;

LogicalResult checkAxis(std::optional<Location> loc, int64_t axis,
                        int64_t rank) {
  if (axis >= 0 && axis < rank)
    return success();
  return emitOptionalError(loc, "axis ", axis, " is not in 0 <= axis < ", rank);
}

LogicalResult inferReduced(std::optional<Location> loc, Value x, int64_t axis,
                           Types &types) {
  RankedTensorType type = tensorType(x);
  if (failed(checkAxis(loc, axis, type.getRank())))
    return failure();
  SmallVector<int64_t> shape(type.getShape());
  shape[axis] = 1;
  types.push_back(type.clone(shape));
  return success();
}

} // namespace

LogicalResult CompareOp::inferReturnTypes(MLIRContext *context,
                                          std::optional<Location>,
                                          CompareOp::Adaptor adaptor,
                                          Types &types) {
  types.push_back(RankedTensorType::get(tensorType(adaptor.getA()).getShape(),
                                        IntegerType::get(context, 1)));
  return success();
}

LogicalResult ConstantOp::inferReturnTypes(MLIRContext *,
                                           std::optional<Location>,
                                           ConstantOp::Adaptor adaptor,
                                           Types &types) {
  types.push_back(adaptor.getValue().getType());
  return success();
}

LogicalResult TransposeOp::inferReturnTypes(MLIRContext *,
                                            std::optional<Location> loc,
                                            TransposeOp::Adaptor adaptor,
                                            Types &types) {
  RankedTensorType type = tensorType(adaptor.getX());
  ArrayRef<int64_t> permutation = adaptor.getPermutation();
  if (static_cast<int64_t>(permutation.size()) != type.getRank())
    return emitOptionalError(loc, "the permutation has ", permutation.size(),
                             " axes, the operand ", type.getRank());
  SmallVector<bool> seen(permutation.size(), false);
  SmallVector<int64_t> shape;
  for (int64_t axis : permutation) {
    if (failed(checkAxis(loc, axis, type.getRank())))
      return failure();
    if (seen[axis])
      return emitOptionalError(loc, "axis ", axis, " occurs twice");
    seen[axis] = true;
    shape.push_back(type.getDimSize(axis));
  }
  types.push_back(type.clone(shape));
  return success();
}

LogicalResult SliceOp::inferReturnTypes(MLIRContext *,
                                        std::optional<Location> loc,
                                        SliceOp::Adaptor adaptor,
                                        Types &types) {
  RankedTensorType type = tensorType(adaptor.getX());
  int64_t axis = adaptor.getAxis(), start = adaptor.getStart(),
          size = adaptor.getSize();
  if (failed(checkAxis(loc, axis, type.getRank())))
    return failure();
  if (start < 0 || size < 1 || size > type.getDimSize(axis) ||
      start > type.getDimSize(axis) - size)
    return emitOptionalError(loc, size, " elements from ", start,
                             " on do not lie in an axis of size ",
                             type.getDimSize(axis));
  SmallVector<int64_t> shape(type.getShape());
  shape[axis] = size;
  types.push_back(type.clone(shape));
  return success();
}

LogicalResult PadOp::inferReturnTypes(MLIRContext *,
                                      std::optional<Location> loc,
                                      PadOp::Adaptor adaptor, Types &types) {
  RankedTensorType type = tensorType(adaptor.getX());
  if (failed(checkAxis(loc, adaptor.getAxis(), type.getRank())))
    return failure();
  int64_t low = adaptor.getLow(), high = adaptor.getHigh();
  if (low < 0 || high < 0)
    return emitOptionalError(loc, "padding is negative");
  SmallVector<int64_t> shape(type.getShape());
  int64_t &padded = shape[adaptor.getAxis()];
  if (llvm::AddOverflow(padded, low, padded) ||
      llvm::AddOverflow(padded, high, padded))
    return emitOptionalError(loc, "the padded axis is too long");
  types.push_back(type.clone(shape));
  return success();
}

LogicalResult ConcatOp::inferReturnTypes(MLIRContext *,
                                         std::optional<Location> loc,
                                         ConcatOp::Adaptor adaptor,
                                         Types &types) {
  if (adaptor.getXs().empty())
    return emitOptionalError(loc, "nothing to concatenate");
  RankedTensorType first = tensorType(adaptor.getXs().front());
  int64_t axis = adaptor.getAxis();
  if (failed(checkAxis(loc, axis, first.getRank())))
    return failure();
  SmallVector<int64_t> shape(first.getShape());
  shape[axis] = 0;
  for (Value x : adaptor.getXs()) {
    RankedTensorType type = tensorType(x);
    SmallVector<int64_t> expected(shape);
    if (type.getRank() == first.getRank())
      expected[axis] = type.getDimSize(axis);
    if (type.getShape() != ArrayRef(expected) ||
        type.getElementType() != first.getElementType())
      return emitOptionalError(loc, "operands differ in more than axis ", axis);
    shape[axis] += type.getDimSize(axis);
  }
  types.push_back(first.clone(shape));
  return success();
}

LogicalResult ReduceSumOp::inferReturnTypes(MLIRContext *,
                                            std::optional<Location> loc,
                                            ReduceSumOp::Adaptor adaptor,
                                            Types &types) {
  return inferReduced(loc, adaptor.getX(), adaptor.getAxis(), types);
}

LogicalResult ReduceMaxOp::inferReturnTypes(MLIRContext *,
                                            std::optional<Location> loc,
                                            ReduceMaxOp::Adaptor adaptor,
                                            Types &types) {
  return inferReduced(loc, adaptor.getX(), adaptor.getAxis(), types);
}

LogicalResult TopKOp::inferReturnTypes(MLIRContext *context,
                                       std::optional<Location> loc,
                                       TopKOp::Adaptor adaptor, Types &types) {
  RankedTensorType type = tensorType(adaptor.getX());
  auto k = static_cast<int64_t>(adaptor.getK());
  if (type.getRank() < 1)
    return emitOptionalError(loc, "the operand has no axis");
  int64_t size = type.getShape().back();
  if (k < 1 || k > size)
    return emitOptionalError(loc, "there are not ", k,
                             " elements in an axis of size ", size);
  if (size > mostElements)
    return emitOptionalError(loc, "the axis is too long: ", size);
  SmallVector<int64_t> shape(type.getShape());
  shape.back() = k;
  types.push_back(type.clone(shape));
  types.push_back(RankedTensorType::get(shape, IntegerType::get(context, 32)));
  return success();
}

LogicalResult MatmulOp::inferReturnTypes(MLIRContext *,
                                         std::optional<Location> loc,
                                         MatmulOp::Adaptor adaptor,
                                         Types &types) {
  RankedTensorType a = tensorType(adaptor.getA()),
                   b = tensorType(adaptor.getB());
  int64_t rank = a.getRank();
  if (rank < 2 || b.getRank() != rank)
    return emitOptionalError(loc, "operands of ranks ", rank, " and ",
                             b.getRank(),
                             ": expected equal ranks of 2 or more");
  if (a.getShape().drop_back(2) != b.getShape().drop_back(2))
    return emitOptionalError(loc, "batch axes differ");
  if (a.getElementType() != b.getElementType() &&
      !a.getElementType().isInteger(8) && !b.getElementType().isInteger(8))
    return emitOptionalError(loc, "element types differ");
  int64_t m = a.getDimSize(rank - 2), ka = a.getDimSize(rank - 1);
  if (adaptor.getTransposeA())
    std::swap(m, ka);
  int64_t kb = b.getDimSize(rank - 2), n = b.getDimSize(rank - 1);
  if (adaptor.getTransposeB())
    std::swap(kb, n);
  if (ka != kb)
    return emitOptionalError(loc, "inner axes differ: ", ka, " and ", kb);
  SmallVector<int64_t> shape(a.getShape().drop_back(2));
  shape.append({m, n});
  types.push_back(RankedTensorType::get(shape, adaptor.getAccumulator()));
  return success();
}

LogicalResult GatherOp::inferReturnTypes(MLIRContext *,
                                         std::optional<Location> loc,
                                         GatherOp::Adaptor adaptor,
                                         Types &types) {
  RankedTensorType table = tensorType(adaptor.getTable());
  if (table.getRank() < 1)
    return emitOptionalError(loc, "the table has no axis");
  SmallVector<int64_t> shape(tensorType(adaptor.getIds()).getShape());
  llvm::append_range(shape, table.getShape().drop_front());
  types.push_back(table.clone(shape));
  return success();
}

LogicalResult AttentionOp::inferReturnTypes(MLIRContext *,
                                            std::optional<Location> loc,
                                            AttentionOp::Adaptor adaptor,
                                            Types &types) {
  RankedTensorType q = tensorType(adaptor.getQ()),
                   v = tensorType(adaptor.getV());
  if (q.getRank() != 4 || v.getRank() != 4)
    return emitOptionalError(loc, "expected operands [B, heads, T, d]");
  SmallVector<int64_t> shape(q.getShape());
  shape[3] = v.getDimSize(3);
  types.push_back(q.clone(shape));
  types.push_back(RankedTensorType::get(q.getShape().drop_back(),
                                        arithmeticType(q.getElementType())));
  return success();
}

LogicalResult CrossEntropyOp::inferReturnTypes(MLIRContext *,
                                               std::optional<Location> loc,
                                               CrossEntropyOp::Adaptor adaptor,
                                               Types &types) {
  RankedTensorType logits = tensorType(adaptor.getLogits());
  if (logits.getRank() < 1)
    return emitOptionalError(loc, "logits have no axis");
  auto row = RankedTensorType::get(logits.getShape().drop_back(),
                                   arithmeticType(logits.getElementType()));
  types.append({row, row});
  return success();
}
