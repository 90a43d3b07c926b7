//===- SequenceAxis.cpp - where positions are in every tensor -------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/transforms/SequenceAxis.h"

#include "compiler/dialect/TfmDialect.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace tfm;

std::string DecodeObstacle::str() const {
  if (line == 0)
    return reason;
  return file + ":" + std::to_string(line) + ": " + reason;
}

std::optional<AxisPlace> tfm::throughReshape(AxisPlace place, int64_t size,
                                             ArrayRef<int64_t> from,
                                             ArrayRef<int64_t> to) {
  if (!place.isPresent())
    return place;
  // In row-major order only the stride counts.
  int64_t stride = place.inner;
  for (int64_t extent : from.drop_front(place.axis + 1))
    stride *= extent;
  int64_t suffix = 1;
  for (int64_t axis = static_cast<int64_t>(to.size()) - 1; axis >= 0; --axis) {
    int64_t whole = suffix * to[axis];
    if (stride % suffix == 0 && whole % (stride * size) == 0)
      return AxisPlace{axis, stride / suffix};
    suffix = whole;
  }
  return std::nullopt;
}

namespace tfm {

/// The rule of every op.
class TagRules {
public:
  explicit TagRules(SequenceAnalysis &analysis) : analysis(analysis) {}

  bool visitBlock(Block &block) {
    for (Operation &op : block.without_terminator())
      if (!visit(&op))
        return false;
    return true;
  }

  bool fail(Operation *op, const Twine &reason) {
    DecodeObstacle obstacle;
    obstacle.reason = reason.str();
    if (auto file = op->getLoc()->findInstanceOf<FileLineColLoc>()) {
      obstacle.file = file.getFilename().str();
      obstacle.line = file.getLine();
    }
    // A line of a shared module is not enough to know which member it is.
    auto path = op->getLoc()->findInstanceOf<NameLoc>();
    if (path && !path.getName().empty())
      obstacle.reason += (", in " + path.getName().getValue()).str();
    analysis.problem = std::move(obstacle);
    return false;
  }

private:
  /// Where an axis that is at a place of the operand is in the result; nothing
  /// where the op mixes along it.
  using Rule = llvm::function_ref<std::optional<AxisPlace>(AxisPlace, int64_t)>;

  const SequenceTag *find(Value value) const { return analysis.find(value); }
  void set(Value value, SequenceTag tag) { analysis.tags[value] = tag; }

  /// Applies `rule` to both axes of `from`.
  std::optional<SequenceTag> moved(const SequenceTag &from, Rule rule) {
    SequenceTag result;
    if (from.batch.isPresent()) {
      auto batch = rule(from.batch, analysis.sizes[0]);
      if (!batch)
        return std::nullopt;
      result.batch = *batch;
    }
    auto time = rule(from.time, analysis.sizes[1]);
    if (!time)
      return std::nullopt;
    result.time = *time;
    return result;
  }

  bool move(Operation *op, StringRef reason, Rule rule) {
    auto tag = moved(*find(op->getOperand(0)), rule);
    if (!tag)
      return fail(op, reason);
    set(op->getResult(0), *tag);
    return true;
  }

  /// All operands that depend on the inputs do so at the same places.
  bool alike(Operation *op) {
    const SequenceTag *tag = nullptr;
    for (Value operand : op->getOperands()) {
      const SequenceTag *own = find(operand);
      if (own && tag && !(*own == *tag))
        return fail(op, "values of different positions are combined");
      tag = own ? own : tag;
    }
    SequenceTag result = *tag;
    for (Value value : op->getResults())
      set(value, result);
    return true;
  }

  bool keepsAxis(Operation *op, int64_t mixed, StringRef reason) {
    return move(op, reason, [&](AxisPlace place, int64_t) {
      return place.axis == mixed ? std::optional<AxisPlace>() : place;
    });
  }

  bool matmul(MatmulOp op) {
    int64_t rank = tensorType(op.getY()).getRank();
    std::optional<SequenceTag> result;
    for (int side = 0; side < 2; ++side) {
      const SequenceTag *tag = find(op->getOperand(side));
      if (!tag)
        continue;
      // Sequences are at different positions: one product for all of them
      // cannot multiply each by its own.
      if (tag->time.axis < rank - 2 && tag->batch.axis >= rank - 2 &&
          !find(op->getOperand(1 - side)))
        return fail(op,
                    "a product with a matrix of its own for every position");
      bool transposed = side ? op.getTransposeB() : op.getTransposeA();
      // The axis that is not summed over: rows of a, columns of b.
      int64_t kept = (side == 0) == transposed ? rank - 1 : rank - 2;
      auto own = moved(
          *tag, [&](AxisPlace place, int64_t) -> std::optional<AxisPlace> {
            if (place.axis < rank - 2)
              return place;
            if (place.axis != kept)
              return std::nullopt;
            return AxisPlace{side ? rank - 1 : rank - 2, place.inner};
          });
      if (!own ||
          (result && (!(*result == *own) || own->time.axis >= rank - 2)))
        return fail(op, "a matrix product over positions");
      result = own;
    }
    set(op.getY(), *result);
    return true;
  }

  bool gather(GatherOp op) {
    const SequenceTag *table = find(op.getTable()), *ids = find(op.getIds());
    if (!table) {
      set(op.getY(), SequenceTag(*ids));
      return true;
    }
    if (ids)
      return fail(op, "a gather from values of all positions");
    int64_t shift = tensorType(op.getIds()).getRank() - 1;
    return move(op, "a gather from values of all positions",
                [&](AxisPlace place, int64_t) -> std::optional<AxisPlace> {
                  if (place.axis == 0)
                    return std::nullopt;
                  return AxisPlace{place.axis + shift, place.inner};
                });
  }

  /// The tag of a tensor [B, T, ...] with `between` axes after B.
  SequenceTag plain(int64_t between = 0) const {
    SequenceTag tag;
    if (analysis.sizes[0] > 1)
      tag.batch.axis = 0;
    tag.time.axis = 1 + between;
    return tag;
  }

  bool rope(RopeOp op) {
    const SequenceTag *x = find(op.getX()),
                      *positions = find(op.getPositions());
    if (!x || !(*x == plain(1)) || (positions && !(*positions == plain())))
      return fail(
          op, "a rotary embedding of something else than [B, heads, T, width]");
    set(op.getY(), plain(1));
    return true;
  }

  bool attention(AttentionOp op) {
    const SequenceTag *q = find(op.getQ()), *k = find(op.getK()),
                      *v = find(op.getV());
    const SequenceTag *mask = op.getMask() ? find(op.getMask()) : nullptr;
    bool placed = q && *q == plain(1) && (!mask || *mask == plain(1));
    if (placed && !k && !v && !op.getCausal() && !op.getWindow()) {
      // Over what is the same for all inputs.
    } else if (!placed || !k || !v || !(*k == plain(1)) || !(*v == plain(1))) {
      return fail(op, "attention between different sequences");
    } else if (!op.getCausal()) {
      return fail(op, "attention that is not causal");
    }
    set(op.getOut(), plain(1));
    set(op.getLse(), plain(1));
    return true;
  }

  bool repeat(RepeatOp op) {
    auto bind = [&](Value arg, Value operand) {
      if (const SequenceTag *tag = find(operand))
        set(arg, SequenceTag(*tag));
    };
    for (auto [arg, operand] :
         llvm::zip_equal(op.getCarriedArgs(), op.getCarried()))
      bind(arg, operand);
    for (auto [arg, operand] :
         llvm::zip_equal(op.getSharedArgs(), op.getShared()))
      bind(arg, operand);
    for (auto [arg, operand] :
         llvm::zip_equal(op.getStackedArgs(), op.getStacked())) {
      const SequenceTag *tag = find(operand);
      if (!tag)
        continue;
      auto own =
          moved(*tag, [](AxisPlace place, int64_t) -> std::optional<AxisPlace> {
            if (place.axis == 0)
              return std::nullopt;
            return AxisPlace{place.axis - 1, place.inner};
          });
      if (!own)
        return fail(op, "layers that go over positions");
      set(arg, *own);
    }
    if (!visitBlock(*op.getBlock()))
      return false;
    size_t carried = op.getCarried().size();
    for (auto [i, value] : llvm::enumerate(op.getYield().getValues())) {
      const SequenceTag *tag = find(value);
      if (i < carried) {
        const SequenceTag *arg = find(op.getCarriedArgs()[i]);
        if (!tag != !arg || (tag && !(*tag == *arg)))
          return fail(op, "layers that carry positions to other places");
        if (tag)
          set(op.getResult(i), SequenceTag(*tag));
      } else if (tag) {
        SequenceTag stacked = *tag;
        ++stacked.time.axis;
        if (stacked.batch.isPresent())
          ++stacked.batch.axis;
        set(op.getResult(i), stacked);
      }
    }
    return true;
  }

  bool visit(Operation *op) {
    if (auto loop = dyn_cast<RepeatOp>(op))
      return repeat(loop);
    if (llvm::none_of(op->getOperands(),
                      [&](Value value) { return find(value); }))
      return true;
    if (op->hasTrait<OpTrait::Elementwise>())
      return alike(op);
    auto shape = [](Value value) { return tensorType(value).getShape(); };
    return llvm::TypeSwitch<Operation *, bool>(op)
        .Case<DropoutOp>([&](auto) { return alike(op); })
        .Case<PositionsOp>([&](auto) {
          if (!(*find(op->getOperand(0)) == plain()))
            return fail(op, "positions of something else than tokens [B, T]");
          return alike(op);
        })
        .Case<ReshapeOp>([&](ReshapeOp reshape) {
          return move(op, "positions are merged with other axes",
                      [&](AxisPlace place, int64_t size) {
                        return throughReshape(place, size,
                                              shape(reshape.getX()),
                                              shape(reshape.getY()));
                      });
        })
        .Case<TransposeOp>([&](TransposeOp transpose) {
          return move(op, "", [&](AxisPlace place, int64_t) {
            auto at = llvm::find(transpose.getPermutation(), place.axis);
            return AxisPlace{at - transpose.getPermutation().begin(),
                             place.inner};
          });
        })
        .Case<BroadcastOp>([&](BroadcastOp broadcast) {
          int64_t shift = tensorType(broadcast.getY()).getRank() -
                          tensorType(broadcast.getX()).getRank();
          return move(op, "", [&](AxisPlace place, int64_t) {
            return AxisPlace{place.axis + shift, place.inner};
          });
        })
        .Case<SliceOp>([&](SliceOp slice) {
          return keepsAxis(op, slice.getAxis(), "a slice of the positions");
        })
        .Case<PadOp>([&](PadOp pad) {
          return keepsAxis(op, pad.getAxis(), "positions are padded");
        })
        .Case<ConcatOp>([&](ConcatOp concat) {
          int64_t axis = concat.getAxis();
          for (Value x : concat.getXs())
            if (const SequenceTag *tag = find(x))
              if (tag->time.axis == axis || tag->batch.axis == axis)
                return fail(op, "a concatenation along the positions");
          return alike(op);
        })
        .Case<ReduceSumOp, ReduceMaxOp>([&](auto reduce) {
          return keepsAxis(op, reduce.getAxis(),
                           "a reduction over the positions");
        })
        .Case<SoftmaxOp, LogSoftmaxOp, NormalizeOp, RmsNormalizeOp>(
            [&](auto row) {
              return keepsAxis(op, tensorType(row.getX()).getRank() - 1,
                               "a softmax or normalisation over the positions");
            })
        .Case<MatmulOp>([&](MatmulOp matmulOp) { return matmul(matmulOp); })
        .Case<GatherOp>([&](GatherOp gatherOp) { return gather(gatherOp); })
        .Case<RopeOp>([&](RopeOp ropeOp) { return rope(ropeOp); })
        .Case<AttentionOp>(
            [&](AttentionOp attentionOp) { return attention(attentionOp); })
        .Default([&](Operation *) {
          return fail(op, "an operation that mixes positions");
        });
  }

  SequenceAnalysis &analysis;
};

} // namespace tfm

SequenceAnalysis::SequenceAnalysis(func::FuncOp forward) {
  TagRules rules(*this);
  Block &block = forward.getBody().front();
  auto input = block.getNumArguments()
                   ? dyn_cast<RankedTensorType>(block.getArgument(0).getType())
                   : RankedTensorType();
  bool tokens = input && input.getRank() == 2 &&
                input.getElementType().isInteger(32) &&
                llvm::all_equal(block.getArgumentTypes());
  if (!tokens) {
    rules.fail(forward, "an input other than tokens [B, T]");
    return;
  }
  sizes[0] = input.getDimSize(0);
  sizes[1] = input.getDimSize(1);
  if (sizes[1] < 2) {
    rules.fail(forward, "a context of one token");
    return;
  }
  SequenceTag tag;
  if (sizes[0] > 1)
    tag.batch.axis = 0;
  tag.time.axis = 1;
  for (BlockArgument arg : block.getArguments())
    tags[arg] = tag;
  if (!rules.visitBlock(block))
    return;
  Operation *terminator = block.getTerminator();
  Value logits = terminator->getOperand(0);
  const SequenceTag *result = find(logits);
  if (!result || !(*result == tag) || tensorType(logits).getRank() != 3)
    rules.fail(forward,
               "a result other than one row of logits for every token [B, T]");
}
