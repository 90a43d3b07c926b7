//===- Folders.cpp - folders and canonical forms --------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/dialect/TfmDialect.h"

#include "mlir/IR/Matchers.h"
#include "mlir/IR/PatternMatch.h"

using namespace mlir;
using namespace tfm;

namespace {

/// Whether an operand is known to be 0 everywhere.
bool isZero(Attribute attr) {
  return matchPattern(attr, m_AnyZeroFloat()) || matchPattern(attr, m_Zero());
}

/// Whether an operand is known to be 1 everywhere.
bool isOne(Attribute attr) {
  return matchPattern(attr, m_OneFloat()) || matchPattern(attr, m_One());
}

/// matmul(transpose(x), y) of the last two axes sets the flag instead.
struct FoldTransposeIntoMatmul : OpRewritePattern<MatmulOp> {
  using OpRewritePattern::OpRewritePattern;

  static TransposeOp lastTwoSwapped(Value value) {
    auto op = value.getDefiningOp<TransposeOp>();
    if (!op)
      return nullptr;
    ArrayRef<int64_t> permutation = op.getPermutation();
    int64_t rank = permutation.size();
    for (int64_t i = 0; i < rank - 2; ++i)
      if (permutation[i] != i)
        return nullptr;
    return permutation[rank - 2] == rank - 1 ? op : nullptr;
  }

  LogicalResult matchAndRewrite(MatmulOp op,
                                PatternRewriter &rewriter) const override {
    TransposeOp a = lastTwoSwapped(op.getA()), b = lastTwoSwapped(op.getB());
    if (!a && !b)
      return rewriter.notifyMatchFailure(op, "no operand is a transpose");
    rewriter.modifyOpInPlace(op, [&] {
      if (a) {
        op.getAMutable().assign(a.getX());
        op.setTransposeA(!op.getTransposeA());
      }
      if (b) {
        op.getBMutable().assign(b.getX());
        op.setTransposeB(!op.getTransposeB());
      }
    });
    return success();
  }
};

} // namespace

void MatmulOp::getCanonicalizationPatterns(RewritePatternSet &patterns,
                                           MLIRContext *context) {
  patterns.add<FoldTransposeIntoMatmul>(context);
}

OpFoldResult ConstantOp::fold(FoldAdaptor) { return getValue(); }

OpFoldResult NegOp::fold(FoldAdaptor) {
  if (auto inner = getX().getDefiningOp<NegOp>())
    return inner.getX();
  return {};
}

OpFoldResult CastOp::fold(FoldAdaptor) {
  if (getX().getType() == getType())
    return getX();
  // Widened and rounded back.
  auto inner = getX().getDefiningOp<CastOp>();
  if (inner && inner.getX().getType() == getType() &&
      tensorType(inner.getY()).getElementType() ==
          arithmeticType(tensorType(getY()).getElementType()))
    return inner.getX();
  return {};
}

OpFoldResult AddOp::fold(FoldAdaptor adaptor) {
  if (isZero(adaptor.getB()))
    return getA();
  if (isZero(adaptor.getA()))
    return getB();
  return {};
}

OpFoldResult SubOp::fold(FoldAdaptor adaptor) {
  if (isZero(adaptor.getB()))
    return getA();
  return {};
}

OpFoldResult MulOp::fold(FoldAdaptor adaptor) {
  if (isOne(adaptor.getB()))
    return getA();
  if (isOne(adaptor.getA()))
    return getB();
  return {};
}

OpFoldResult DivOp::fold(FoldAdaptor adaptor) {
  if (isOne(adaptor.getB()))
    return getA();
  return {};
}

OpFoldResult BroadcastOp::fold(FoldAdaptor adaptor) {
  if (getX().getType() == getType())
    return getX();
  if (auto dense = dyn_cast_or_null<DenseElementsAttr>(adaptor.getX()))
    if (dense.isSplat())
      return dense.resizeSplat(cast<ShapedType>(getType()));
  return {};
}

OpFoldResult ReshapeOp::fold(FoldAdaptor adaptor) {
  if (getX().getType() == getType())
    return getX();
  if (auto inner = getX().getDefiningOp<ReshapeOp>()) {
    if (inner.getX().getType() == getType())
      return inner.getX();
    getXMutable().assign(inner.getX());
    return getResult();
  }
  if (auto dense = dyn_cast_or_null<DenseElementsAttr>(adaptor.getX()))
    return dense.reshape(cast<ShapedType>(getType()));
  return {};
}

OpFoldResult TransposeOp::fold(FoldAdaptor) {
  ArrayRef<int64_t> permutation = getPermutation();
  if (llvm::equal(permutation, llvm::seq<int64_t>(0, permutation.size())))
    return getX();
  if (auto inner = getX().getDefiningOp<TransposeOp>()) {
    SmallVector<int64_t> both;
    for (int64_t axis : permutation)
      both.push_back(inner.getPermutation()[axis]);
    setPermutation(both);
    getXMutable().assign(inner.getX());
    return getResult();
  }
  return {};
}

OpFoldResult SliceOp::fold(FoldAdaptor) {
  if (getX().getType() == getType())
    return getX();
  return {};
}

OpFoldResult ScanOp::fold(FoldAdaptor adaptor) {
  return isZero(adaptor.getDecay()) ? getX() : Value();
}

LogicalResult ScanOp::canonicalize(ScanOp op, PatternRewriter &rewriter) {
  if (floatSplat(op.getDecay()) != 1.0)
    return rewriter.notifyMatchFailure(op, "the sum before is multiplied");
  rewriter.replaceOpWithNewOp<CumsumOp>(op, op.getX(), op.getAxis(),
                                        op.getReverse());
  return success();
}

OpFoldResult ShiftOp::fold(FoldAdaptor) {
  return getSteps() == 0 ? getX() : Value();
}

OpFoldResult ConcatOp::fold(FoldAdaptor) {
  if (getXs().size() == 1)
    return getXs().front();
  return {};
}
