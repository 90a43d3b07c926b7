//===- LegalizeForKernels.cpp - ops that kernels compute ------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/dialect/TfmDialect.h"
#include "compiler/transforms/Passes.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/TypeSwitch.h"

namespace tfm {
#define GEN_PASS_DEF_LEGALIZEFORKERNELSPASS
#include "compiler/transforms/Passes.h.inc"
} // namespace tfm

using namespace mlir;
using namespace tfm;

namespace {

/// Puts `value` in the place of what `op` computes.
void replace(Operation *op, Value value) {
  op->getResult(0).replaceAllUsesWith(value);
  op->erase();
}

/// pad(x) is concat(zeros, x, zeros).
void legalize(OpBuilder &b, PadOp op) {
  Location loc = op.getLoc();
  SmallVector<Value> parts;
  auto zeros = [&](int64_t size) {
    if (size == 0)
      return;
    SmallVector<int64_t> shape(tensorType(op.getX()).getShape());
    shape[op.getAxis()] = size;
    parts.push_back(splat(b, loc, tensorType(op.getX()).clone(shape), 0));
  };
  zeros(op.getLow());
  parts.push_back(op.getX());
  zeros(op.getHigh());
  replace(op, ConcatOp::create(b, loc, parts, op.getAxis()));
}

/// Reductions of up to this many terms that a kernel would not find in one row,
/// nor in rows of its own, are written out.
constexpr int64_t fewTerms = 16;
/// Ops that may be written out for them.
constexpr int64_t mostWritten = 64;
/// Columns from which on reducing rows is worth more than gathering terms.
constexpr int64_t fewestColumns = 8;

/// Parts of a value at single indices of an axis. What is computed for them
/// alone is computed of parts, and never lies in memory as a whole.
class Parts {
public:
  Parts(OpBuilder &b, Value whole, int64_t axis) : b(b), axis(axis) {
    int64_t terms = tensorType(whole).getDimSize(axis);
    isWritten = terms * opsOf(whole) <= mostWritten;
    for (int64_t i = 0; i < terms; ++i)
      parts.push_back(at(whole, i));
  }

  /// All of them in one, as a tree.
  Value combined(function_ref<Value(Value, Value)> combine) {
    for (; parts.size() > 1;) {
      SmallVector<Value> next;
      for (size_t i = 0; i + 1 < parts.size(); i += 2)
        next.push_back(combine(parts[i], parts[i + 1]));
      if (parts.size() % 2)
        next.push_back(parts.back());
      parts = std::move(next);
    }
    return parts.front();
  }

private:
  static bool isOwn(Value value) {
    Operation *op = value.getDefiningOp();
    return op && op->hasTrait<OpTrait::Elementwise>() && value.hasOneUse();
  }
  static int64_t opsOf(Value value) {
    if (!isOwn(value))
      return 0;
    int64_t ops = 1;
    for (Value operand : value.getDefiningOp()->getOperands())
      ops += opsOf(operand);
    return ops;
  }

  Value at(Value value, int64_t index) {
    Operation *op = value.getDefiningOp();
    SmallVector<int64_t> shape(tensorType(value).getShape());
    shape[axis] = 1;
    RankedTensorType type = tensorType(value).clone(shape);
    if (isWritten && isOwn(value)) {
      IRMapping parts;
      for (Value operand : op->getOperands())
        if (!parts.contains(operand))
          parts.map(operand, at(operand, index));
      Operation *part = b.clone(*op, parts);
      part->getResult(0).setType(type);
      return part->getResult(0);
    }
    if (auto broadcast = dyn_cast_or_null<BroadcastOp>(op)) {
      // What is repeated may have fewer axes: the last ones.
      RankedTensorType repeated = tensorType(broadcast.getX());
      int64_t own = axis - tensorType(value).getRank() + repeated.getRank();
      if (own < 0 || repeated.getDimSize(own) == 1)
        return BroadcastOp::create(b, value.getLoc(), type, broadcast.getX());
    }
    return SliceOp::create(b, value.getLoc(), value, axis, index, 1);
  }

  OpBuilder &b;
  int64_t axis;
  bool isWritten;
  SmallVector<Value> parts;
};

/// A reduction within rows or over them is a kernel's. Of any other axis, few
/// terms are combined one by one; many are the rows of a matrix for each index
/// before them, or go to the last axis of the transpose.
template <typename ReduceOp> void legalizeReduction(OpBuilder &b, ReduceOp op) {
  Location loc = op.getLoc();
  RankedTensorType type = tensorType(op.getX());
  int64_t axis = op.getAxis(), rank = type.getRank();
  int64_t terms = type.getDimSize(axis), outer = 1, inner = 1;
  for (int64_t size : type.getShape().take_front(axis))
    outer *= size;
  for (int64_t size : type.getShape().drop_front(axis + 1))
    inner *= size;
  if (axis == rank - 1)
    return;
  auto reduced = [&](Value x, int64_t axis) -> Value {
    auto result = ReduceOp::create(b, loc, x, axis);
    if constexpr (std::is_same_v<ReduceOp, ReduceMaxOp>)
      result.setKeepsNan(op.getKeepsNan());
    return result;
  };
  auto replaceBy = [&](Value result) {
    replace(op, ReshapeOp::create(b, loc, op.getType(), result));
  };
  if (outer > 1 && inner > 1 && terms <= fewTerms)
    return replaceBy(
        Parts(b, op.getX(), axis).combined([&](Value x, Value y) -> Value {
          if constexpr (std::is_same_v<ReduceOp, ReduceMaxOp>)
            return MaxOp::create(b, loc, x, y);
          else
            return AddOp::create(b, loc, x, y);
        }));
  if (outer == 1 || inner >= fewestColumns) {
    if (rank - axis <= 2)
      return;
    SmallVector<int64_t> shape(type.getShape().take_front(axis + 1));
    if (outer == 1)
      shape = {terms};
    shape.push_back(inner);
    auto rows = tensorType(op.getX()).clone(shape);
    Value x = ReshapeOp::create(b, loc, rows, op.getX());
    return replaceBy(reduced(x, rows.getRank() - 2));
  }
  SmallVector<int64_t> permutation;
  for (int64_t i = 0; i < rank; ++i)
    if (i != axis)
      permutation.push_back(i);
  permutation.push_back(axis);
  Value transposed = TransposeOp::create(b, loc, op.getX(), permutation);
  replaceBy(reduced(transposed, rank - 1));
}

/// Rows of several axes are rows of one.
void legalize(OpBuilder &b, GatherOp op) {
  RankedTensorType table = tensorType(op.getTable());
  if (table.getRank() <= 2)
    return;
  int64_t entries = table.getDimSize(0);
  auto matrix = tensorType(op.getTable())
                    .clone({entries, table.getNumElements() / entries});
  Value rows = GatherOp::create(
      b, op.getLoc(), ReshapeOp::create(b, op.getLoc(), matrix, op.getTable()),
      op.getIds());
  replace(op, ReshapeOp::create(b, op.getLoc(), op.getType(), rows));
}

/// Kernels add a float mask as it is: it gets no less than `leastMask` here.
template <typename Attention>
void legalizeAttention(OpBuilder &b, Attention op) {
  Value mask = op.getMask();
  if (!mask || !isa<FloatType>(tensorType(mask).getElementType()))
    return;
  Location loc = op.getLoc();
  RankedTensorType type = tensorType(mask);
  Value isNothing = CompareOp::create(b, loc, CompareKind::eq, mask,
                                      splat(b, loc, type, -INFINITY));
  Value limited = MaxOp::create(b, loc, mask, splat(b, loc, type, leastMask));
  op.getMaskMutable().assign(
      SelectOp::create(b, loc, isNothing, mask, limited));
}

struct LegalizeForKernelsPass
    : tfm::impl::LegalizeForKernelsPassBase<LegalizeForKernelsPass> {
  void runOnOperation() override {
    getOperation().walk([](Operation *op) {
      OpBuilder b(op);
      llvm::TypeSwitch<Operation *>(op)
          .Case<PadOp, GatherOp>([&](auto each) { legalize(b, each); })
          .Case<ReduceSumOp, ReduceMaxOp>(
              [&](auto reduction) { legalizeReduction(b, reduction); })
          .Case<AttentionOp, AttentionBackwardOp>(
              [&](auto attention) { legalizeAttention(b, attention); });
    });
  }
};

} // namespace
