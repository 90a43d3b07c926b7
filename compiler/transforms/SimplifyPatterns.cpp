//===- SimplifyPatterns.cpp - shorter sums, reductions and slices ---------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/transforms/SimplifyPatterns.h"

#include "compiler/dialect/TfmDialect.h"

using namespace mlir;
using namespace tfm;

namespace {

/// The terms of a sum of single-use additions.
void collectTerms(Value value, bool isRoot, SmallVectorImpl<Value> &terms) {
  auto add = value.getDefiningOp<AddOp>();
  if (!add || (!isRoot && !value.hasOneUse())) {
    terms.push_back(value);
    return;
  }
  collectTerms(add.getA(), false, terms);
  collectTerms(add.getB(), false, terms);
}

/// The derivative of a split: slices padded with zeros to the whole, and added.
/// Where they tile the axis the sum is their concatenation.
struct ConcatInsteadOfPads : OpRewritePattern<AddOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(AddOp op,
                                PatternRewriter &rewriter) const override {
    if (op->hasOneUse() && isa<AddOp>(*op->user_begin()))
      return rewriter.notifyMatchFailure(op, "not the end of the sum");
    SmallVector<Value> terms;
    collectTerms(op, true, terms);
    SmallVector<PadOp> pads;
    for (Value term : terms)
      if (auto pad = term.getDefiningOp<PadOp>())
        if (pads.empty() || pads.front().getAxis() == pad.getAxis())
          pads.push_back(pad);
    if (pads.size() < 2)
      return rewriter.notifyMatchFailure(op, "fewer than two padded slices");
    llvm::sort(pads, [](PadOp a, PadOp b) { return a.getLow() < b.getLow(); });
    auto axis = static_cast<int64_t>(pads.front().getAxis());
    int64_t end = 0;
    SmallVector<Value> pieces;
    for (PadOp pad : pads) {
      if (static_cast<int64_t>(pad.getLow()) != end)
        return rewriter.notifyMatchFailure(op,
                                           "the slices leave a gap or overlap");
      end += tensorType(pad.getX()).getDimSize(axis);
      pieces.push_back(pad.getX());
    }
    if (end != tensorType(op.getY()).getDimSize(axis))
      return rewriter.notifyMatchFailure(op, "the slices end before the axis");
    Value sum = ConcatOp::create(rewriter, op.getLoc(), pieces, axis);
    for (Value term : terms)
      if (auto pad = term.getDefiningOp<PadOp>();
          !pad || !llvm::is_contained(pads, pad))
        sum = AddOp::create(rewriter, op.getLoc(), sum, term);
    rewriter.replaceOp(op, sum);
    return success();
  }
};

/// add(scatter_add(0, ids, updates), x) adds to x directly: the gradient of a
/// table that is used elsewhere too.
struct ScatterOntoTerm : OpRewritePattern<AddOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(AddOp op,
                                PatternRewriter &rewriter) const override {
    for (auto [term, other] :
         {std::pair(op.getA(), op.getB()), std::pair(op.getB(), op.getA())}) {
      auto scatter = term.getDefiningOp<ScatterAddOp>();
      if (!scatter || !scatter->hasOneUse() ||
          floatSplat(scatter.getBase()) != 0.0)
        continue;
      rewriter.replaceOpWithNewOp<ScatterAddOp>(op, other, scatter.getIds(),
                                                scatter.getUpdates());
      return success();
    }
    return rewriter.notifyMatchFailure(
        op, "no term is a scatter onto zeros of its own");
  }
};

/// a + -b is a - b, and a - -b is a + b.
template <typename From, typename To>
struct AbsorbNegation : OpRewritePattern<From> {
  using OpRewritePattern<From>::OpRewritePattern;

  LogicalResult matchAndRewrite(From op,
                                PatternRewriter &rewriter) const override {
    auto neg = op.getB().template getDefiningOp<NegOp>();
    Value other = op.getA();
    if (!neg && isa<AddOp>(op)) {
      neg = op.getA().template getDefiningOp<NegOp>();
      other = op.getB();
    }
    if (!neg)
      return rewriter.notifyMatchFailure(op, "no negated operand");
    rewriter.replaceOpWithNewOp<To>(op, other, neg.getX());
    return success();
  }
};

/// (x * a) * b is x * (a b) for constants, so that scales meet.
struct MergeScales : OpRewritePattern<MulOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(MulOp op,
                                PatternRewriter &rewriter) const override {
    std::optional<double> outer = floatSplat(op.getB());
    if (!outer)
      return rewriter.notifyMatchFailure(op, "not a product with a constant");
    RankedTensorType type = tensorType(op.getY());
    if (std::optional<double> value = floatSplat(op.getA())) {
      rewriter.replaceOp(op,
                         splat(rewriter, op.getLoc(), type, *value * *outer));
      return success();
    }
    auto inner = op.getA().getDefiningOp<MulOp>();
    std::optional<double> factor =
        inner ? floatSplat(inner.getB()) : std::nullopt;
    if (!factor || !inner->hasOneUse())
      return rewriter.notifyMatchFailure(
          op, "not a product with another constant that only this reads");
    // Step by step small elements may have a product where this has none.
    auto product = static_cast<float>(*factor * *outer);
    if (!std::isnormal(product) && *factor != 0 && *outer != 0)
      return rewriter.notifyMatchFailure(op, "out of the range of floats");
    rewriter.replaceOpWithNewOp<MulOp>(
        op, inner.getA(), splat(rewriter, op.getLoc(), type, *factor * *outer));
    return success();
  }
};

/// The sum of equal elements is a product, and one element is its own sum and
/// maximum.
template <typename Op> struct ReduceOfRepeated : OpRewritePattern<Op> {
  using OpRewritePattern<Op>::OpRewritePattern;

  LogicalResult matchAndRewrite(Op op,
                                PatternRewriter &rewriter) const override {
    auto axis = static_cast<int64_t>(op.getAxis());
    RankedTensorType type = tensorType(op.getX());
    int64_t size = type.getDimSize(axis);
    if (size == 1) {
      rewriter.replaceOp(op, op.getX());
      return success();
    }
    RankedTensorType reduced = tensorType(op.getY());
    Value once;
    if (std::optional<double> value = floatSplat(op.getX())) {
      once = splat(rewriter, op.getLoc(), reduced, *value);
    } else {
      auto broadcast = op.getX().template getDefiningOp<BroadcastOp>();
      if (!broadcast)
        return rewriter.notifyMatchFailure(
            op, "the elements are not known to be equal");
      RankedTensorType from = tensorType(broadcast.getX());
      int64_t own = axis - (type.getRank() - from.getRank());
      if (own >= 0 && from.getDimSize(own) != 1)
        return rewriter.notifyMatchFailure(op, "not broadcast along this axis");
      once = broadcast.getX();
      if (once.getType() != reduced)
        once = BroadcastOp::create(rewriter, op.getLoc(), reduced, once);
    }
    if constexpr (std::is_same_v<Op, ReduceSumOp>) {
      Value factor = splat(rewriter, op.getLoc(), reduced, size);
      once = MulOp::create(rewriter, op.getLoc(), once, factor);
    }
    rewriter.replaceOp(op, once);
    return success();
  }
};

/// Broadcasts in one go: of a broadcast, and of a reshape that only adds or
/// removes leading axes of size 1.
struct MergeBroadcasts : OpRewritePattern<BroadcastOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(BroadcastOp op,
                                PatternRewriter &rewriter) const override {
    Value source;
    if (auto inner = op.getX().getDefiningOp<BroadcastOp>()) {
      source = inner.getX();
    } else if (auto reshape = op.getX().getDefiningOp<ReshapeOp>()) {
      auto trimmed = [](Value value) {
        return tensorType(value).getShape().drop_while(
            [](int64_t size) { return size == 1; });
      };
      source = reshape.getX();
      if (trimmed(source) != trimmed(op.getX()) ||
          tensorType(source).getRank() > tensorType(op.getY()).getRank())
        return rewriter.notifyMatchFailure(
            op, "the reshape moves more than leading axes of size 1");
    } else {
      return rewriter.notifyMatchFailure(
          op, "neither of a broadcast nor of a reshape");
    }
    rewriter.replaceOpWithNewOp<BroadcastOp>(op, op.getY().getType(), source);
    return success();
  }
};

/// A slice of a slice, of the operand of a concatenation, or of what was
/// padded.
struct MergeSlices : OpRewritePattern<SliceOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(SliceOp op,
                                PatternRewriter &rewriter) const override {
    auto axis = static_cast<int64_t>(op.getAxis());
    auto start = static_cast<int64_t>(op.getStart());
    auto size = static_cast<int64_t>(op.getSize());
    auto replace = [&](Value x, int64_t from) {
      rewriter.replaceOpWithNewOp<SliceOp>(op, x, axis, from, size);
      return success();
    };
    if (auto inner = op.getX().getDefiningOp<SliceOp>();
        inner && static_cast<int64_t>(inner.getAxis()) == axis)
      return replace(inner.getX(), start + inner.getStart());
    if (auto pad = op.getX().getDefiningOp<PadOp>();
        pad && static_cast<int64_t>(pad.getAxis()) == axis) {
      int64_t from = start - static_cast<int64_t>(pad.getLow());
      if (from >= 0 && from + size <= tensorType(pad.getX()).getDimSize(axis))
        return replace(pad.getX(), from);
    }
    if (auto concat = op.getX().getDefiningOp<ConcatOp>();
        concat && static_cast<int64_t>(concat.getAxis()) == axis) {
      int64_t begin = 0;
      for (Value piece : concat.getXs()) {
        int64_t end = begin + tensorType(piece).getDimSize(axis);
        if (start >= begin && start + size <= end)
          return replace(piece, start - begin);
        begin = end;
      }
    }
    return rewriter.notifyMatchFailure(
        op, "crosses the border of what it cuts, or cuts something else");
  }
};

/// The transpose of a product is the product of the transposes, which a matmul
/// reads in place. The gradient of a tied head is one.
struct TransposeOfMatmul : OpRewritePattern<TransposeOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(TransposeOp op,
                                PatternRewriter &rewriter) const override {
    auto matmul = op.getX().getDefiningOp<MatmulOp>();
    if (!matmul || !matmul->hasOneUse())
      return rewriter.notifyMatchFailure(
          op, "not of a product that only this reads");
    ArrayRef<int64_t> permutation = op.getPermutation();
    int64_t rank = permutation.size();
    for (int64_t axis = 0; axis < rank - 2; ++axis)
      if (permutation[axis] != axis)
        return rewriter.notifyMatchFailure(op, "moves a batch axis");
    if (permutation[rank - 1] != rank - 2)
      return rewriter.notifyMatchFailure(op, "does not swap the last two axes");
    rewriter.replaceOpWithNewOp<MatmulOp>(
        op, matmul.getB(), matmul.getA(), !matmul.getTransposeB(),
        !matmul.getTransposeA(), matmul.getAccumulator());
    return success();
  }
};

/// What moves elements of f32 to be rounded moves rounded ones: half as many
/// bytes, and the rounding is done by what makes the elements.
struct RoundBeforeMoving : OpRewritePattern<CastOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(CastOp op,
                                PatternRewriter &rewriter) const override {
    Type element = tensorType(op.getY()).getElementType();
    Operation *moving = op.getX().getDefiningOp();
    if (!element.isBF16() ||
        !isa_and_nonnull<ConcatOp, ReshapeOp, TransposeOp>(moving) ||
        !moving->hasOneUse())
      return rewriter.notifyMatchFailure(op, "rounds nothing that was moved");
    SmallVector<Value> rounded;
    for (Value x : moving->getOperands())
      rounded.push_back(CastOp::create(rewriter, op.getLoc(),
                                       tensorType(x).clone(element), x));
    Operation *moved = rewriter.clone(*moving);
    rewriter.modifyOpInPlace(moved, [&] {
      moved->setOperands(rounded);
      moved->getResult(0).setType(op.getType());
    });
    rewriter.replaceOp(op, moved);
    return success();
  }
};

/// What was widened is moved before: half as many bytes.
struct WidenAfterMoving : RewritePattern {
  explicit WidenAfterMoving(MLIRContext *context)
      : RewritePattern(MatchAnyOpTypeTag(), /*benefit=*/1, context) {}

  LogicalResult matchAndRewrite(Operation *op,
                                PatternRewriter &rewriter) const override {
    if (!isa<ConcatOp, ReshapeOp, TransposeOp, SliceOp>(op))
      return rewriter.notifyMatchFailure(op, "moves nothing");
    SmallVector<Value> narrow;
    for (Value x : op->getOperands()) {
      auto widened = x.getDefiningOp<CastOp>();
      if (!widened || !tensorType(widened.getX()).getElementType().isBF16() ||
          !tensorType(x).getElementType().isF32())
        return rewriter.notifyMatchFailure(op, "of what was f32 before");
      narrow.push_back(widened.getX());
    }
    Value result = op->getResult(0);
    Operation *moved = rewriter.clone(*op);
    rewriter.modifyOpInPlace(moved, [&] {
      moved->setOperands(narrow);
      moved->getResult(0).setType(
          tensorType(result).clone(rewriter.getBF16Type()));
    });
    rewriter.replaceOpWithNewOp<CastOp>(op, result.getType(),
                                        moved->getResult(0));
    return success();
  }
};

} // namespace

void tfm::populateSimplifyPatterns(RewritePatternSet &patterns) {
  patterns.add<ConcatInsteadOfPads, ScatterOntoTerm,
               AbsorbNegation<AddOp, SubOp>, AbsorbNegation<SubOp, AddOp>,
               MergeScales, ReduceOfRepeated<ReduceSumOp>,
               ReduceOfRepeated<ReduceMaxOp>, MergeBroadcasts, MergeSlices,
               TransposeOfMatmul, RoundBeforeMoving, WidenAfterMoving>(
      patterns.getContext());
}
