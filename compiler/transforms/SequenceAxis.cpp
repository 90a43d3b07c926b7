//===- SequenceAxis.cpp - where positions are in every tensor -------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/transforms/SequenceAxis.h"

#include "compiler/dialect/Programs.h"
#include "compiler/dialect/TfmDialect.h"
#include "compiler/transforms/ReadRecipe.h"
#include "compiler/transforms/SplitEncoder.h"
#include "runtime/tfm_model.h"

using namespace mlir;
using namespace tfm;

std::string DecodeObstacle::str() const {
  if (line == 0)
    return reason;
  return file + ":" + std::to_string(line) + ": " + reason;
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
      obstacle.reason += ", in " + readablePath(path.getName().getValue());
    analysis.problem = std::move(obstacle);
    return false;
  }

private:
  const SequenceTag *find(Value value) const { return analysis.find(value); }
  void set(Value value, SequenceTag tag) { analysis.tags[value] = tag; }

  /// Where the axes of the inputs are in the results of `op`, as its axis map
  /// says for every operand that has them.
  bool map(Operation *op) {
    auto axes = dyn_cast<AxisMapOpInterface>(op);
    if (!axes)
      return fail(op, "an operation that mixes positions");
    SmallVector<SequenceTag> places;
    for (OpOperand &operand : op->getOpOperands()) {
      const SequenceTag *tag = find(operand.get());
      if (!tag)
        continue;
      SequenceTag &own = places.emplace_back();
      unsigned number = operand.getOperandNumber();
      if (tag->batch.isPresent()) {
        AxisMap batch = axes.mapAxis(number, tag->batch, analysis.sizes[0]);
        if (!batch.isKept())
          return fail(op, batch.isMixed() ? batch.reason
                                          : "an operation that mixes examples");
        own.batch = batch.place;
      }
      AxisMap time = axes.mapAxis(number, tag->time, analysis.sizes[1]);
      bool isCausal = time.kind == AxisMap::Kind::Causal;
      if (time.isMixed() || (isCausal && !canKeep(op, *tag, analysis.batch())))
        return fail(op, reasonOf(time));
      if (isCausal)
        analysis.causal.insert(op);
      own.time = time.place;
    }
    if (!llvm::all_equal(places))
      return fail(op, axes.getAxisClash());
    for (Value value : op->getResults())
      set(value, places.front());
    return true;
  }

  static StringRef reasonOf(const AxisMap &map) {
    return map.isMixed() ? map.reason : "an operation that mixes positions";
  }

  /// Sequences are at different positions: one product for all of them cannot
  /// multiply each by its own.
  bool multipliesByPosition(MatmulOp op) {
    int64_t rank = tensorType(op.getY()).getRank();
    for (int side = 0; side < 2; ++side) {
      const SequenceTag *tag = find(op->getOperand(side));
      if (tag && tag->time.axis < rank - 2 && tag->batch.axis >= rank - 2 &&
          !find(op->getOperand(1 - side)))
        return true;
    }
    return false;
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
    return map(op);
  }

  bool attention(AttentionOp op) {
    const SequenceTag *q = find(op.getQ()), *k = find(op.getK()),
                      *v = find(op.getV());
    const SequenceTag *mask = op.getMask() ? find(op.getMask()) : nullptr;
    bool placed = q && *q == plain(1);
    bool isOwn = placed && k && v && *k == plain(1) && *v == plain(1);
    if (isOwn && !op.getCausal())
      return fail(op, "attention that is not causal");
    if (placed && mask && !(*mask == plain(1)))
      return fail(op, "a mask that depends on the tokens it lets be seen");
    if (placed && !k && !v && !op.getCausal() && !op.getWindow() &&
        !op.getDistanceBias()) {
      // Over what is the same for all inputs.
    } else if (!isOwn) {
      return fail(op, "attention between different sequences");
    }
    return map(op);
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
      // Of a slice for each layer the leading axis is gone.
      SequenceTag own = *tag;
      if (own.time.axis == 0 || own.batch.axis == 0)
        return fail(op, "layers that go over positions");
      --own.time.axis;
      if (own.batch.isPresent())
        --own.batch.axis;
      set(arg, own);
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
    if (isa<PositionsOp>(op) && !(*find(op->getOperand(0)) == plain()))
      return fail(op, "positions of something else than tokens [B, T]");
    if (auto matmul = dyn_cast<MatmulOp>(op);
        matmul && multipliesByPosition(matmul))
      return fail(op, "a product with a matrix of its own for every position");
    if (auto ropeOp = dyn_cast<RopeOp>(op))
      return rope(ropeOp);
    if (auto attentionOp = dyn_cast<AttentionOp>(op))
      return attention(attentionOp);
    return map(op);
  }

  SequenceAnalysis &analysis;
};

} // namespace tfm

/// What a program reads besides what is an encoder's. Arrays fill that, too:
/// there is no encoder then that reads a prompt.
static SmallVector<BlockArgument> inputsOf(func::FuncOp forward) {
  const bool hasArrays = readsArrays(forward->getParentOfType<ModuleOp>());
  return llvm::filter_to_vector(forward.getArguments(), [=](BlockArgument a) {
    return hasArrays || !isOfEncoder(a);
  });
}

/// The type of tokens [B, T]; null where a program reads something else, too.
static RankedTensorType tokensAlone(func::FuncOp forward) {
  SmallVector<BlockArgument> inputs = inputsOf(forward);
  // Of several that are alike arrays fill each with its own.
  if (readsArrays(forward->getParentOfType<ModuleOp>()) &&
      (inputs.size() != 1 || nameOfArgument(forward, 0) != TFM_IN_TOKENS))
    return {};
  auto type = inputs.empty()
                  ? RankedTensorType()
                  : dyn_cast<RankedTensorType>(inputs.front().getType());
  bool isTokens = type && type.getRank() == 2 &&
                  type.getElementType().isInteger(32) &&
                  llvm::all_equal(TypeRange(ValueRange(inputs)));
  return isTokens ? type : RankedTensorType();
}

SequenceAnalysis::SequenceAnalysis(func::FuncOp forward) {
  TagRules rules(*this);
  Block &block = forward.getBody().front();
  RankedTensorType input = tokensAlone(forward);
  if (!input) {
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
  for (BlockArgument arg : inputsOf(forward))
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

bool tfm::generates(func::FuncOp forward) {
  RankedTensorType tokens = tokensAlone(forward);
  if (!tokens || forward.getNumResults() == 0)
    return false;
  auto logits = cast<RankedTensorType>(forward.getResultTypes().front());
  return logits.getRank() == 3 && logits.getDimSize(2) > 1 &&
         logits.getDimSize(2) >=
             knownTokens(forward->getParentOfType<ModuleOp>()) &&
         logits.getElementType().isF32() &&
         logits.getShape().drop_back() == tokens.getShape();
}

std::optional<DecodeObstacle> tfm::decodeObstacle(ModuleOp module) {
  for (ProgramKind kind : {ProgramKind::Forward, ProgramKind::ForwardBatch})
    if (auto forward = findProgram(module, kind))
      if (auto obstacle = SequenceAnalysis(forward).obstacle())
        return obstacle;
  return std::nullopt;
}
