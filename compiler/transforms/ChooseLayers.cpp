//===- ChooseLayers.cpp - a repeat over the layers that are chosen --------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/dialect/TfmBuilder.h"
#include "compiler/transforms/Passes.h"

#include "mlir/IR/Matchers.h"

namespace tfm {
#define GEN_PASS_DEF_CHOOSELAYERSPASS
#include "compiler/transforms/Passes.h.inc"
} // namespace tfm

using namespace mlir;
using namespace tfm;

/// With more ids most layers are chosen anyway, and to sort them takes longer.
static constexpr int64_t mostIds = 16;

namespace {

/// What layers of a repeat do something: those whose number is among `ids`.
struct Choice {
  Value ids;     ///< before the repeat, of any shape
  Value numbers; ///< the number of each layer, [layers]
};

} // namespace

static Value throughShapes(Value value) {
  while (isa_and_nonnull<BroadcastOp, ReshapeOp>(value.getDefiningOp()))
    value = value.getDefiningOp()->getOperand(0);
  return value;
}

/// What the frontend writes for `only`: the layer yields
/// `where(max(float(ids == number)) > 0, its result, what it got)`.
static std::optional<Choice> choiceOf(RepeatOp repeat) {
  if (repeat.getOrder() || repeat.getReverse() ||
      repeat.getCarried().size() != 1 || repeat.getNumResults() != 1 ||
      !repeat.getLayer().use_empty())
    return std::nullopt;
  auto select = repeat.getYield().getOperand(0).getDefiningOp<SelectOp>();
  if (!select || select.getB() != repeat.getCarriedArgs()[0])
    return std::nullopt;
  auto isAny = throughShapes(select.getCondition()).getDefiningOp<CompareOp>();
  if (!isAny || isAny.getKind() != CompareKind::gt ||
      !matchPattern(isAny.getB(), m_AnyZeroFloat()))
    return std::nullopt;
  auto most = isAny.getA().getDefiningOp<ReduceMaxOp>();
  auto cast = most ? most.getX().getDefiningOp<CastOp>() : CastOp();
  auto isIt = cast ? cast.getX().getDefiningOp<CompareOp>() : CompareOp();
  if (!isIt || isIt.getKind() != CompareKind::eq)
    return std::nullopt;
  auto operandOf = [&](Value argument, Block::BlockArgListType arguments,
                       OperandRange operands) -> Value {
    for (auto [known, operand] : llvm::zip_equal(arguments, operands))
      if (known == argument)
        return operand;
    return Value();
  };
  Value ids = operandOf(throughShapes(isIt.getA()), repeat.getSharedArgs(),
                        repeat.getShared()),
        numbers = operandOf(throughShapes(isIt.getB()), repeat.getStackedArgs(),
                            repeat.getStacked());
  if (!ids || !numbers || tensorType(numbers).getRank() != 1)
    return std::nullopt;
  return Choice{ids, numbers};
}

/// The layers whose number is among the ids, each once and in their order, and
/// then as many others as there are ids in all.
static Value orderOf(TfmBuilder b, const Choice &choice) {
  RankedTensorType ids = tensorType(choice.ids);
  int64_t layers = tensorType(choice.numbers).getDimSize(0),
          turns = ids.getNumElements();
  RankedTensorType pairs = ids.clone({layers, turns});
  Value isIt = b.compare(
      CompareKind::eq,
      b.broadcast(b.reshape(choice.ids, ids.clone({1, turns})), pairs),
      b.broadcast(b.reshape(choice.numbers, ids.clone({layers, 1})), pairs));
  Value isChosen = ReduceMaxOp::create(b.builder, b.loc,
                                       b.cast(isIt, b.builder.getF32Type()), 1);
  // Of equal elements the first ones are the largest.
  auto largest = TopKOp::create(
      b.builder, b.loc,
      b.reshape(isChosen, tensorType(isChosen).clone({1, layers})), turns);
  return b.reshape(largest.getIndices(), ids.clone({turns}));
}

static void choose(RepeatOp repeat) {
  std::optional<Choice> choice = choiceOf(repeat);
  if (!choice)
    return;
  int64_t turns = tensorType(choice->ids).getNumElements();
  if (turns > mostIds || turns >= static_cast<int64_t>(repeat.getCount()))
    return;
  OpBuilder builder(repeat);
  repeat.getOrderMutable().assign(orderOf({builder, repeat.getLoc()}, *choice));
  repeat.setCount(turns);
}

/// Whether a repeat around this one, or within it, has an order: an operand is
/// found by one number.
static bool isNested(RepeatOp repeat) {
  for (auto outer = repeat->getParentOfType<RepeatOp>(); outer;
       outer = outer->getParentOfType<RepeatOp>())
    if (outer.getOrder())
      return true;
  return repeat
      .walk([](RepeatOp inner) {
        return inner.getOrder() ? WalkResult::interrupt()
                                : WalkResult::advance();
      })
      .wasInterrupted();
}

namespace {

struct ChooseLayersPass : tfm::impl::ChooseLayersPassBase<ChooseLayersPass> {
  void runOnOperation() override {
    getOperation().walk<WalkOrder::PreOrder>([](RepeatOp repeat) {
      if (!isNested(repeat))
        choose(repeat);
    });
  }
};

} // namespace
