//===- ChooseLayers.cpp - a repeat over the layers that are chosen --------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/transforms/ChooseLayers.h"

#include "compiler/dialect/Programs.h"
#include "compiler/dialect/TfmBuilder.h"
#include "compiler/transforms/Passes.h"
#include "compiler/transforms/SomeRows.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Matchers.h"
#include "llvm/Support/MathExtras.h"

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
  Value ids;     ///< before the repeat, [rows..., k]
  Value numbers; ///< the number of each layer, [layers]
  Value result;  ///< in the layer, of the rows that chose it

  int64_t layers() const { return tensorType(numbers).getDimSize(0); }
  int64_t numIds() const { return tensorType(ids).getNumElements(); }
  ArrayRef<int64_t> rowAxes() const {
    return tensorType(ids).getShape().drop_back();
  }
  int64_t rows() const { return numIds() / tensorType(ids).getShape().back(); }
};

} // namespace

static Value throughShapes(Value value) {
  while (isa_and_nonnull<BroadcastOp, ReshapeOp>(value.getDefiningOp()))
    value = value.getDefiningOp()->getOperand(0);
  return value;
}

/// What a repeat gives its body as `argument`, of all layers where it is one
/// of those that have a part of their own; null where the layers make it.
static Value operandOf(RepeatOp repeat, Value argument) {
  for (auto [arguments, operands] :
       {std::pair(repeat.getSharedArgs(), repeat.getShared()),
        std::pair(repeat.getStackedArgs(), repeat.getStacked())})
    for (auto [known, operand] : llvm::zip_equal(arguments, operands))
      if (known == argument)
        return operand;
  return Value();
}

/// Whether each layer has a number of its own.
static bool areDistinct(Value numbers) {
  const auto layers = static_cast<size_t>(tensorType(numbers).getNumElements());
  // Of a repeat within another one each layer of that has its own numbers.
  while (auto argument = dyn_cast_or_null<BlockArgument>(numbers)) {
    auto outer = dyn_cast<RepeatOp>(argument.getOwner()->getParentOp());
    numbers = outer ? operandOf(outer, argument) : Value();
  }
  auto constant = numbers ? numbers.getDefiningOp<ConstantOp>() : ConstantOp();
  if (!constant)
    return false;
  llvm::SmallDenseSet<int64_t> seen;
  for (auto [i, number] :
       llvm::enumerate(cast<DenseIntElementsAttr>(constant.getValue())
                           .getValues<APInt>())) {
    if (i % layers == 0)
      seen.clear();
    if (!seen.insert(number.getSExtValue()).second)
      return false;
  }
  return true;
}

/// Whether `condition`, which is that of the row throughout what belongs to a
/// row, comes from `isAny`, [rows..., 1].
static bool isOfRows(Value condition, Value isAny, ArrayRef<int64_t> rows) {
  auto hasOneOfEach = [&](Value value) {
    ArrayRef<int64_t> shape = tensorType(value).getShape();
    return shape.take_front(rows.size()) == rows &&
           llvm::all_of(shape.drop_front(rows.size()),
                        [](int64_t size) { return size == 1; });
  };
  ArrayRef<int64_t> shape = tensorType(condition).getShape();
  if (shape.take_front(rows.size()) != rows)
    return false;
  while (condition != isAny) {
    Operation *op = condition.getDefiningOp();
    Value from = op->getOperand(0);
    bool isSame = isa<BroadcastOp>(op) ? tensorType(from).getRank() ==
                                             tensorType(condition).getRank()
                                       : hasOneOfEach(condition);
    if (!isSame || !hasOneOfEach(from))
      return false;
    condition = from;
  }
  return true;
}

/// What the frontend writes for `only`: the layer yields
/// `where(max(float(ids == number)) > 0, its result, what it got)`, where of
/// one id there is no maximum. A model may write the like by itself, and mean
/// something else.
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
  Value found = isAny.getA();
  auto most = found.getDefiningOp<ReduceMaxOp>();
  if (most)
    found = most.getX();
  auto cast = found.getDefiningOp<CastOp>();
  auto isIt = cast ? cast.getX().getDefiningOp<CompareOp>() : CompareOp();
  if (!isIt || isIt.getKind() != CompareKind::eq)
    return std::nullopt;
  Value number = throughShapes(isIt.getB());
  Value ids = operandOf(repeat, throughShapes(isIt.getA())),
        numbers = operandOf(repeat, number);
  if (!ids || !numbers || tensorType(numbers).getRank() != 1 ||
      tensorType(number).getRank() != 0 || !areDistinct(numbers))
    return std::nullopt;
  Choice choice{ids, numbers, select.getA()};
  RankedTensorType type = tensorType(ids);
  bool isOfLast =
      most ? static_cast<int64_t>(most.getAxis()) == type.getRank() - 1
           : type.getShape().back() == 1;
  if (tensorType(isIt.getA()).getShape() != type.getShape() || !isOfLast ||
      !isOfRows(select.getCondition(), isAny, choice.rowAxes()))
    return std::nullopt;
  return choice;
}

bool tfm::choosesLayers(ModuleOp module) {
  return module
      .walk([](RepeatOp repeat) {
        return choiceOf(repeat) ? WalkResult::interrupt()
                                : WalkResult::advance();
      })
      .wasInterrupted();
}

/// The layers whose number is among the ids, each once and in their order, and
/// then as many others as there are ids in all.
static Value orderOf(TfmBuilder b, const Choice &choice) {
  RankedTensorType ids = tensorType(choice.ids);
  int64_t layers = choice.layers(), turns = choice.numIds();
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

/// Rows that chose the same layer, some at a time.
struct Groups {
  Value order; ///< the layer of each group, [groups]
  Value rows;  ///< its rows, and then the number of all, [groups, together]

  /// How many there may be, whatever is chosen.
  static int64_t most(const Choice &choice, int64_t together) {
    int64_t layers = choice.layers();
    return std::min((choice.numIds() + layers * (together - 1)) / together,
                    layers * static_cast<int64_t>(
                                 llvm::divideCeil(choice.rows(), together)));
  }
};

/// The groups of the first layer that is chosen, those of the next one, and so
/// on. What is left over are groups of the last one, without rows.
static Groups groupsOf(TfmBuilder b, const Choice &choice, int64_t together) {
  int64_t layers = choice.layers(), rows = choice.rows(),
          perRow = choice.numIds() / rows,
          groups = Groups::most(choice, together);
  Type f32 = b.builder.getF32Type(), i32 = b.builder.getI32Type();
  auto floats = [&](ArrayRef<int64_t> shape) {
    return RankedTensorType::get(shape, f32);
  };
  auto repeated = [&](Value x, ArrayRef<int64_t> from, ArrayRef<int64_t> to) {
    RankedTensorType type = tensorType(x);
    return b.broadcast(b.reshape(x, type.clone(from)), type.clone(to));
  };
  auto sum = [&](Value x, int64_t axis) -> Value {
    return ReduceSumOp::create(b.builder, b.loc, x, axis);
  };
  auto largest = [&](Value x, int64_t axis) -> Value {
    return ReduceMaxOp::create(b.builder, b.loc, x, axis);
  };
  auto cumulative = [&](Value x) -> Value {
    return CumsumOp::create(b.builder, b.loc, x, 1);
  };
  auto count = [&](ArrayRef<int64_t> shape, int64_t axis) {
    Value ids = IotaOp::create(b.builder, b.loc,
                               RankedTensorType::get(shape, i32), axis);
    return b.cast(ids, f32);
  };
  auto atMost = [&](Value x, Value y) {
    return b.cast(b.compare(CompareKind::le, x, y), f32);
  };

  // How many rows up to each chose a layer.
  int64_t pairs[] = {layers, rows, perRow};
  Value isIt =
      b.compare(CompareKind::eq, repeated(choice.ids, {1, rows, perRow}, pairs),
                repeated(choice.numbers, {layers, 1, 1}, pairs));
  Value isChosen =
      b.reshape(largest(b.cast(isIt, f32), 2), floats({layers, rows}));
  Value upTo = cumulative(isChosen);
  // How many groups each has, and where they begin.
  Value chosen = b.reshape(sum(isChosen, 1), floats({1, layers}));
  Value full = b.cast(b.plus(chosen, together - 1), i32);
  Value own = b.cast(b.div(full, b.constant(full, together)), f32);
  Value end = cumulative(own), begin = b.sub(end, own);
  // The layer of each group is behind those whose groups all come before.
  Value group = count({groups, 1}, 0);
  Value before = sum(atMost(repeated(end, {1, layers}, {groups, layers}),
                            b.broadcast(group, floats({groups, layers}))),
                     1);
  Value isAny = MinOp::create(b.builder, b.loc, own, b.constant(own, 1));
  Value last = largest(b.mul(isAny, count({1, layers}, 1)), 1);
  Value layer = MinOp::create(b.builder, b.loc, before,
                              b.broadcast(last, floats({groups, 1})));
  Value order =
      b.reshape(b.cast(layer, i32), RankedTensorType::get({groups}, i32));
  auto ofLayer = [&](Value table) -> Value {
    return GatherOp::create(b.builder, b.loc, table, order);
  };
  // A row is where as many as come before it in the layer have been seen.
  Value first = ofLayer(b.reshape(begin, floats({layers, 1})));
  int64_t slots[] = {groups, together}, all[] = {groups, together, rows};
  Value slot =
      b.add(b.broadcast(b.scale(b.sub(group, first), together), floats(slots)),
            count(slots, 1));
  Value seen = sum(atMost(repeated(ofLayer(upTo), {groups, 1, rows}, all),
                          repeated(slot, {groups, together, 1}, all)),
                   2);
  return {order,
          b.reshape(b.cast(seen, i32), RankedTensorType::get(slots, i32))};
}

/// Each turn is of `together` rows that chose a layer. What has all rows has
/// them on one axis in it. False where its rows cannot be had one by one.
static bool group(RepeatOp repeat, const Choice &choice, int64_t together) {
  OpBuilder builder(repeat);
  Location loc = repeat.getLoc();
  TfmBuilder b{builder, loc};
  int64_t rows = choice.rows(), groups = Groups::most(choice, together);
  if (!isFloat(repeat.getCarried()[0]))
    return false;

  auto body = std::make_unique<Block>();
  auto argument = [&](Type type) { return body->addArgument(type, loc); };
  argument(builder.getIndexType());
  auto tableOf = [&](Value value) {
    return SomeRows::tableOf(tensorType(value), choice.rowAxes());
  };
  RankedTensorType all = tableOf(repeat.getCarried()[0]);
  Value state = argument(all);
  Value own = argument(RankedTensorType::get({together}, builder.getI32Type()));
  builder.setInsertionPointToStart(body.get());
  // Of what is no row, any will do: it is written nowhere.
  SomeRows chosen(builder, choice.rowAxes(),
                  MinOp::create(builder, loc, own, b.constant(own, rows - 1)));
  chosen.take(repeat.getCarriedArgs()[0], state);
  for (Value arg : repeat.getStackedArgs())
    chosen.use(arg, argument(arg.getType()));
  for (Value arg : repeat.getSharedArgs())
    if (chosen.hasRows(tensorType(arg)))
      chosen.take(arg, argument(tableOf(arg)));
    else
      chosen.use(arg, argument(arg.getType()));
  Value result = chosen.compute(choice.result);
  if (!result)
    return false;
  int64_t width = all.getNumElements() / rows;
  Value next = CacheUpdateOp::create(
      builder, loc, b.reshape(state, all.clone({1, 1, rows, width})),
      b.reshape(result, all.clone({together, 1, 1, width})), own);
  YieldOp::create(builder, loc, b.reshape(next, all));

  builder.setInsertionPoint(repeat);
  Groups of = groupsOf(b, choice, together);
  auto onOneAxis = [&](Value value) {
    return b.reshape(value, tableOf(value));
  };
  SmallVector<Value> stacked = {of.rows}, shared;
  llvm::append_range(stacked, repeat.getStacked());
  for (Value value : repeat.getShared())
    shared.push_back(chosen.hasRows(tensorType(value)) ? onOneAxis(value)
                                                       : value);
  auto grouped = RepeatOp::create(builder, loc, all, groups, /*reverse=*/false,
                                  onOneAxis(repeat.getCarried()[0]), stacked,
                                  shared, of.order, repeat.getStacked().size());
  grouped->setDiscardableAttrs(repeat->getDiscardableAttrDictionary());
  grouped.getBody().push_back(body.release());
  repeat.getResult(0).replaceAllUsesWith(
      b.reshape(grouped.getResult(0), tensorType(repeat.getResult(0))));
  repeat.erase();
  return true;
}

/// Whether there was something to choose, and a repeat goes over that now.
static bool choose(RepeatOp repeat, bool trained) {
  std::optional<Choice> choice = choiceOf(repeat);
  if (!choice)
    return false;
  int64_t turns = choice->numIds(), layers = choice->layers();
  if (turns <= mostIds) {
    if (turns >= layers || trained)
      return false;
    OpBuilder builder(repeat);
    repeat.getOrderMutable().assign(
        orderOf({builder, repeat.getLoc()}, *choice));
    repeat.setChosen(repeat.getStacked().size());
    repeat.setCount(turns);
    return true;
  }
  // What groups of so many rows cost: rows that are missing count as there, and
  // a group about as much as eight rows more.
  constexpr int64_t fewest = 8, most = 256, aside = 8;
  auto cost = [&](int64_t together) {
    return (together + aside) * Groups::most(*choice, together);
  };
  int64_t together = fewest;
  for (int64_t more = 2 * fewest; more <= most; more *= 2)
    if (cost(more) < cost(together))
      together = more;
  return cost(together) <= layers * choice->rows() &&
         group(repeat, *choice, together);
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
  using ChooseLayersPassBase::ChooseLayersPassBase;

  void runOnOperation() override {
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (!trained || programKind(function.getSymName()) == ProgramKind::Loss)
        function.walk<WalkOrder::PreOrder>([&](RepeatOp repeat) {
          // It may be gone then, with those within it.
          return !isNested(repeat) && choose(repeat, trained)
                     ? WalkResult::skip()
                     : WalkResult::advance();
        });
  }
};

} // namespace
