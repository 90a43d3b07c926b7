//===- Verifiers.cpp - what types alone do not say ------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/dialect/TfmDialect.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/StringSwitch.h"

using namespace mlir;
using namespace tfm;

LogicalResult ParamOp::verify() {
  RankedTensorType type = getTensorType();
  int64_t stacked = getNumStackedDims();
  if (stacked > type.getRank())
    return emitOpError("has ") << stacked << " repeats in its path but only "
                               << type.getRank() << " axes";
  int64_t layers = 1;
  for (int64_t size : type.getShape().take_front(stacked))
    layers *= size;
  if (std::optional<ArrayAttr> names = getNames())
    if (static_cast<int64_t>(names->size()) != layers)
      return emitOpError("names ") << names->size() << " layers of " << layers;
  if (!getDims().empty() &&
      static_cast<int64_t>(getDims().size()) != type.getRank() - stacked)
    return emitOpError("names ")
           << getDims().size() << " dimensions of " << type.getRank() - stacked;
  auto kind = getInit().getAs<StringAttr>("kind");
  if (!kind)
    return emitOpError("has an `init` without a `kind`");
  auto wanted = llvm::StringSwitch<int>(kind.getValue())
                    .Cases({"zeros", "ones"}, 0)
                    .Case("constant", 1)
                    .Cases({"normal", "truncated_normal", "uniform"}, 2)
                    .Default(-1);
  if (wanted < 0)
    return emitOpError("has an `init` of no known kind: ") << kind;
  auto args = getInit().getAs<ArrayAttr>("args");
  if (args && !llvm::all_of(args, llvm::IsaPred<FloatAttr, IntegerAttr>))
    return emitOpError("has an `init` with `args` that are no numbers");
  if (int given = args ? static_cast<int>(args.size()) : 0; given != wanted)
    return emitOpError("has an `init` with ")
           << given << " `args`; " << kind.getValue() << " takes " << wanted;
  return success();
}

LogicalResult GetParamOp::verifySymbolUses(SymbolTableCollection &tables) {
  auto param = tables.lookupNearestSymbolFrom<ParamOp>(*this, getParamAttr());
  if (!param)
    return emitOpError("names no parameter: ") << getParam();
  if (param.getTensorType() != getType())
    return emitOpError("has type ")
           << getType() << " but the parameter " << param.getTensorType();
  if ((*this)->getParentOfType<RepeatOp>())
    return emitOpError("stands inside a repeat");
  return success();
}

LogicalResult IotaOp::verify() {
  int64_t rank = tensorType(getY()).getRank();
  int64_t axis = getAxis();
  if (axis < 0 || axis >= rank)
    return emitOpError("axis ") << axis << " is not in 0 <= axis < " << rank;
  return success();
}

LogicalResult PositionsOp::verify() {
  if (tensorType(getTokens()).getRank() != 2)
    return emitOpError("expected tokens [B, T]");
  return success();
}

LogicalResult BroadcastOp::verify() {
  RankedTensorType from = tensorType(getX()), to = tensorType(getY());
  if (from.getElementType() != to.getElementType())
    return emitOpError("changes the element type");
  if (from.getRank() > to.getRank())
    return emitOpError("lowers the rank");
  ArrayRef<int64_t> tail = to.getShape().take_back(from.getRank());
  for (auto [a, b] : llvm::zip_equal(from.getShape(), tail))
    if (a != b && a != 1)
      return emitOpError("cannot repeat an axis of size ") << a << " to " << b;
  return success();
}

LogicalResult ReshapeOp::verify() {
  RankedTensorType from = tensorType(getX()), to = tensorType(getY());
  if (from.getElementType() != to.getElementType())
    return emitOpError("changes the element type");
  if (from.getNumElements() != to.getNumElements())
    return emitOpError("changes the number of elements");
  return success();
}

LogicalResult ScatterAddOp::verify() {
  SmallVector<int64_t> expected(tensorType(getIds()).getShape());
  if (tensorType(getBase()).getRank() < 1)
    return emitOpError("the table has no axis");
  llvm::append_range(expected, tensorType(getBase()).getShape().drop_front());
  if (tensorType(getUpdates()).getShape() != ArrayRef(expected))
    return emitOpError("updates are not [ids..., table dimensions...]");
  return success();
}

LogicalResult CacheUpdateOp::verify() {
  ArrayRef<int64_t> base = tensorType(getBase()).getShape(),
                    updates = tensorType(getUpdates()).getShape(),
                    positions = tensorType(getPositions()).getShape();
  if (base.size() != 4 || updates.size() != 4 || base[0] != updates[0] ||
      base[1] != updates[1] || base[3] != updates[3] ||
      positions != base.take_front(1))
    return emitOpError("expected base [B, heads, S, d], updates [B, heads, T, "
                       "d], positions [B]");
  return success();
}

/// What attention and its derivative have in common.
template <typename Op> static LogicalResult verifyAttention(Op op) {
  ArrayRef<int64_t> q = tensorType(op.getQ()).getShape(),
                    k = tensorType(op.getK()).getShape(),
                    v = tensorType(op.getV()).getShape();
  if (q.size() != 4 || k.size() != 4 || v.size() != 4 || k[0] != q[0] ||
      v[0] != q[0] || k[3] != q[3] || k[2] != v[2] || k[1] != v[1])
    return op.emitOpError("expected q [B, heads, T, d], k [B, kv_heads, S, d], "
                          "v [B, kv_heads, S, e]");
  if (q[1] % k[1] != 0)
    return op.emitOpError("heads are not a multiple of kv_heads");
  if (op.getMask()) {
    RankedTensorType type = tensorType(op.getMask());
    ArrayRef<int64_t> mask = type.getShape();
    if (mask.size() != 4 || (mask[0] != q[0] && mask[0] != 1) ||
        (mask[1] != q[1] && mask[1] != 1) || mask[2] != q[2] || mask[3] != k[2])
      return op.emitOpError("the mask is not [B or 1, heads or 1, T, S]");
    if (type.getElementType().isInteger(32))
      return op.emitOpError("the mask is neither booleans nor floats");
  }
  if (op.getWindow() && static_cast<int64_t>(*op.getWindow()) < 1)
    return op.emitOpError("the window is not positive");
  if (std::optional<llvm::APFloat> rate = op.getDropout()) {
    if (!(rate->convertToDouble() >= 0.0 && rate->convertToDouble() < 1.0))
      return op.emitOpError("dropout is not in 0 <= rate < 1");
    if (!op.getSite())
      return op.emitOpError("dropout needs a site");
  }
  return success();
}

LogicalResult AttentionOp::verify() { return verifyAttention(*this); }

LogicalResult AttentionBackwardOp::verify() {
  if (failed(verifyAttention(*this)))
    return failure();
  RankedTensorType q = tensorType(getQ());
  SmallVector<int64_t> out(q.getShape());
  if (tensorType(getLse()) != q.clone(q.getShape().drop_back()))
    return emitOpError("lse is not [B, heads, T]");
  out.back() = tensorType(getV()).getShape().back();
  if (tensorType(getOut()) != q.clone(out) ||
      getDout().getType() != q.clone(out))
    return emitOpError("out and dout are not [B, heads, T, e]");
  if (getDq().getType() != q || getDk().getType() != getK().getType() ||
      getDv().getType() != getV().getType())
    return emitOpError("cotangents do not have the types of q, k and v");
  if (getDmask() && (!getMask() || getDmask().getType() != getMask().getType()))
    return emitOpError("dmask does not have the type of a float mask");
  return success();
}

LogicalResult RopeOp::verify() {
  ArrayRef<int64_t> x = tensorType(getX()).getShape();
  ArrayRef<int64_t> positions = tensorType(getPositions()).getShape();
  int64_t dims = getDims();
  if (x.size() != 4 || positions.size() != 2 || positions[0] != x[0] ||
      positions[1] != x[2])
    return emitOpError("expected x [B, heads, T, d] and positions [B, T]");
  if (dims < 2 || dims % 2 != 0 || dims > x[3])
    return emitOpError("dims is not an even number in 2 <= dims <= ") << x[3];
  return success();
}

LogicalResult DropoutOp::verify() {
  double rate = getRate().convertToDouble();
  if (!(rate >= 0.0 && rate < 1.0))
    return emitOpError("rate is not in 0 <= rate < 1");
  return success();
}

template <typename Op> static LogicalResult verifyCrossEntropy(Op op) {
  if (tensorType(op.getTargets()).getShape() !=
      tensorType(op.getLogits()).getShape().drop_back())
    return op.emitOpError(
        "targets do not have the shape of the rows of logits");
  double smoothing = op.getLabelSmoothing().convertToDouble();
  if (!(smoothing >= 0.0 && smoothing <= 1.0))
    return op.emitOpError("label_smoothing is not in 0 <= s <= 1");
  return success();
}

LogicalResult CrossEntropyOp::verify() { return verifyCrossEntropy(*this); }

LogicalResult CrossEntropyBackwardOp::verify() {
  if (tensorType(getLogits()).getRank() < 1)
    return emitOpError("logits have no axis");
  if (tensorType(getLse()).getShape() !=
      tensorType(getLogits()).getShape().drop_back())
    return emitOpError("lse does not have the shape of the rows of logits");
  return verifyCrossEntropy(*this);
}

LogicalResult RepeatOp::verify() {
  Block *block = getBlock();
  int64_t count = getCount();
  if (count < 1)
    return emitOpError("repeats ") << count << " times";
  size_t operands =
      getCarried().size() + getStacked().size() + getShared().size();
  if (block->getNumArguments() != operands + 1 ||
      !block->getArgument(0).getType().isIndex())
    return emitOpError("expected a body with the layer's index and one "
                       "argument per operand");
  for (auto [arg, value] : llvm::zip_equal(getCarriedArgs(), getCarried()))
    if (arg.getType() != value.getType())
      return emitOpError("a carried argument differs from its operand");
  for (auto [arg, value] : llvm::zip_equal(getSharedArgs(), getShared()))
    if (arg.getType() != value.getType())
      return emitOpError("a shared argument differs from its operand");
  auto stack = [&](Type slice) -> Type {
    auto type = cast<RankedTensorType>(slice);
    SmallVector<int64_t> shape = {count};
    llvm::append_range(shape, type.getShape());
    return RankedTensorType::get(shape, type.getElementType());
  };
  for (auto [arg, value] : llvm::zip_equal(getStackedArgs(), getStacked()))
    if (stack(arg.getType()) != value.getType())
      return emitOpError(
          "a stacked operand is not [count, ...] of its argument");
  YieldOp yield = getYield();
  if (yield.getNumOperands() != getNumResults() ||
      getNumResults() < getCarried().size())
    return emitOpError("yields ") << yield.getNumOperands() << " values for "
                                  << getNumResults() << " results";
  for (auto [i, value] : llvm::enumerate(yield.getOperands())) {
    Type expected =
        i < getCarried().size() ? value.getType() : stack(value.getType());
    if (getResult(i).getType() != expected)
      return emitOpError("result ") << i << " does not match what is yielded";
    if (i < getCarried().size() && value.getType() != getCarried()[i].getType())
      return emitOpError("carried value ") << i << " changes its type";
  }
  return success();
}
