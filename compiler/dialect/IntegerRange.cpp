//===- IntegerRange.cpp - which integers a tensor may hold ----------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/dialect/IntegerRange.h"

#include "compiler/dialect/Programs.h"
#include "compiler/dialect/TfmDialect.h"
#include "runtime/tfm_model.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/TypeSwitch.h"

#include <algorithm>
#include <cmath>

using namespace mlir;
using namespace tfm;

namespace {

/// Elements beyond 32 bits would have wrapped around.
IntegerRange checked(int64_t low, int64_t high) {
  if (low < IntegerRange::lowest || high > IntegerRange::highest)
    return {};
  return {low, high};
}

IntegerRange unite(IntegerRange a, IntegerRange b) {
  return {std::min(a.low, b.low), std::max(a.high, b.high),
          a.isGiven || b.isGiven};
}

/// Applies a function that is monotone in each operand.
IntegerRange combine(IntegerRange a, IntegerRange b,
                     function_ref<int64_t(int64_t, int64_t)> apply) {
  auto [low, high] = std::minmax({apply(a.low, b.low), apply(a.low, b.high),
                                  apply(a.high, b.low), apply(a.high, b.high)});
  IntegerRange range = checked(low, high);
  range.isGiven = a.isGiven || b.isGiven;
  return range;
}

/// Floats are rounded towards zero, as `tfm.cast` does.
IntegerRange ofConstant(ElementsAttr value) {
  auto dense = dyn_cast<DenseElementsAttr>(value);
  if (!dense)
    return {};
  // Not its elements, of which there may be as many as in any tensor.
  if (dense.isSplat())
    dense =
        dense.resizeSplat(RankedTensorType::get({1}, dense.getElementType()));
  double low = HUGE_VAL, high = -HUGE_VAL;
  bool isNumber = true;
  auto add = [&](double element) {
    isNumber &= !std::isnan(element);
    low = std::min(low, element);
    high = std::max(high, element);
  };
  if (isa<FloatType>(dense.getElementType()))
    for (const APFloat &element : dense.getValues<APFloat>())
      add(element.convertToDouble());
  else
    for (const APInt &element : dense.getValues<APInt>())
      add(static_cast<double>(element.getSExtValue()));
  if (!isNumber || low < static_cast<double>(IntegerRange::lowest) ||
      high > static_cast<double>(IntegerRange::highest))
    return {};
  return {static_cast<int64_t>(low), static_cast<int64_t>(high)};
}

/// Arithmetic of integers.
IntegerRange ofArithmetic(Operation *op, IntegerRange a, IntegerRange b) {
  using Integer = int64_t;
  return llvm::TypeSwitch<Operation *, IntegerRange>(op)
      .Case<AddOp>([&](auto) {
        return combine(a, b, [](Integer x, Integer y) { return x + y; });
      })
      .Case<SubOp>([&](auto) {
        return combine(a, b, [](Integer x, Integer y) { return x - y; });
      })
      .Case<MulOp>([&](auto) {
        return combine(a, b, [](Integer x, Integer y) { return x * y; });
      })
      .Case<MinOp>([&](auto) {
        return combine(a, b,
                       [](Integer x, Integer y) { return std::min(x, y); });
      })
      .Case<MaxOp>([&](auto) {
        return combine(a, b,
                       [](Integer x, Integer y) { return std::max(x, y); });
      })
      .Case<DivOp>([&](auto) {
        // No division makes a number larger; x / 0 is 0.
        if (b.low < 1)
          return unite(unite(a, {-a.high, -a.low}), {0, 0, b.isGiven});
        return combine(a, b, [](Integer x, Integer y) { return x / y; });
      });
}

/// Of `low + width * u`, as far as it is there, where `u` is drawn from 0 to
/// 1 - 2**-24. It is monotone in `u`, also where it is rounded, once or twice.
IntegerRange ofDrawn(Value value) {
  auto take = [&](auto op) -> std::optional<double> {
    std::optional<double> number = op ? floatSplat(op.getB()) : std::nullopt;
    if (number)
      value = op.getA();
    return number;
  };
  double low = take(value.getDefiningOp<AddOp>()).value_or(0.0),
         width = take(value.getDefiningOp<MulOp>()).value_or(1.0);
  if (!value.getDefiningOp<UniformOp>())
    return {};
  SmallVector<double> ends;
  for (double u : {0.0, 1.0 - 0x1p-24}) {
    ends.push_back(static_cast<float>(low + width * u));
    ends.push_back(static_cast<float>(low + static_cast<float>(width * u)));
  }
  auto [least, greatest] = std::minmax_element(ends.begin(), ends.end());
  if (!(*least >= IntegerRange::lowest && *greatest <= IntegerRange::highest))
    return {};
  return {static_cast<int64_t>(*least), static_cast<int64_t>(*greatest)};
}

/// Of `a - a / n * n`, which has the sign of `a`.
IntegerRange ofRemainder(IntegerRange a, int64_t n) {
  return {std::clamp<int64_t>(a.low, 1 - n, 0),
          std::clamp<int64_t>(a.high, 0, n - 1), a.isGiven};
}

} // namespace

// The analysis ends, after work that is linear in the uses of values in the
// module and the elements that its constants store. The range of a value is
// made of those of its sources alone: operands of the op that defines it, or of
// a repeat what is passed to all layers. A source is defined before the value,
// or outside of the repeat that the value is in, so that no value is its own
// source however indirectly; what a repeat carries, which is what it yields,
// has no sources, but any range. So each value is computed once, when all of
// its sources are known, and never again: there are no rounds, and nothing to
// widen. A value is put on the stack once for each of its uses at most, and
// looked at twice, before and after its sources.
IntegerRange IntegerRanges::of(Value value) {
  SmallVector<Value> open = {value};
  while (!open.empty()) {
    Value next = open.back();
    size_t before = open.size();
    if (!known.contains(next)) {
      for (Value source : sourcesOf(next))
        if (!known.contains(source))
          open.push_back(source);
      if (open.size() > before)
        continue;
      IntegerRange range = compute(next);
      known[next] = range;
    }
    open.pop_back();
  }
  return known.at(value);
}

bool IntegerRanges::isFixed(Value value) {
  return fixed && !fixed->of(value).isGiven;
}

SmallVector<Value, 2> IntegerRanges::sourcesOf(Value value) {
  if (isFixed(value))
    return {};
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    auto repeat = dyn_cast<RepeatOp>(argument.getOwner()->getParentOp());
    unsigned number = argument.getArgNumber();
    if (!repeat || number <= repeat.getCarried().size())
      return {};
    return {repeat.getOperand(number - 1)};
  }
  Operation *op = value.getDefiningOp();
  Type element = tensorType(value).getElementType();
  if (element.isInteger(1))
    return {};
  return llvm::TypeSwitch<Operation *, SmallVector<Value, 2>>(op)
      .Case<CastOp, BroadcastOp, ReshapeOp, TransposeOp, SliceOp, ShiftOp,
            ReduceMaxOp>(
          [&](auto) { return SmallVector<Value, 2>{op->getOperand(0)}; })
      .Case<ConcatOp>(
          [&](auto) { return SmallVector<Value, 2>(op->getOperands()); })
      .Case<SelectOp>([&](auto select) {
        return SmallVector<Value, 2>{select.getA(), select.getB()};
      })
      .Case<GatherOp>(
          [&](auto gather) { return SmallVector<Value, 2>{gather.getTable()}; })
      .Case<AddOp, SubOp, MulOp, MinOp, MaxOp, DivOp>([&](auto) {
        // Of floats only constants, and what is drawn: arithmetic rounds.
        return element.isInteger(32) ? SmallVector<Value, 2>(op->getOperands())
                                     : SmallVector<Value, 2>();
      })
      .Default([](Operation *) { return SmallVector<Value, 2>(); });
}

IntegerRange IntegerRanges::compute(Value value) {
  if (isFixed(value))
    return fixed->of(value);
  SmallVector<IntegerRange, 2> ranges;
  for (Value source : sourcesOf(value))
    ranges.push_back(known.at(source));
  auto argument = dyn_cast<BlockArgument>(value);
  if (argument && ranges.empty())
    return ofArgument(argument);
  if (argument)
    return ranges[0];
  if (tensorType(value).getElementType().isInteger(1))
    return {0, 1};
  Operation *op = value.getDefiningOp();
  return llvm::TypeSwitch<Operation *, IntegerRange>(op)
      .Case<ConstantOp>(
          [&](auto constant) { return ofConstant(constant.getValue()); })
      .Case<IotaOp>([&](auto iota) {
        return checked(0, tensorType(value).getDimSize(iota.getAxis()) - 1);
      })
      .Case<PositionsOp>([&](auto) {
        return checked(0, tensorType(value).getShape().back() - 1);
      })
      .Case<TopKOp>([&](auto choice) {
        return value == choice.getIndices()
                   ? checked(0, tensorType(choice.getX()).getShape().back() - 1)
                   : IntegerRange();
      })
      .Case<UniformOp>([&](auto) { return ofDrawn(value); })
      .Case<AddOp, SubOp, MulOp, MinOp, MaxOp, DivOp>([&](auto) {
        if (ranges.empty())
          return ofDrawn(value);
        if (std::optional<int64_t> divisor = divisorOfRemainder(op))
          return ofRemainder(ranges[0], *divisor);
        return ofArithmetic(op, ranges[0], ranges[1]);
      })
      .Case<ShiftOp>([&](auto) { return unite(ranges[0], {0, 0}); })
      .Default([&](Operation *) {
        // One of its sources, whichever.
        if (ranges.empty())
          return IntegerRange();
        IntegerRange range = ranges[0];
        for (IntegerRange further : llvm::drop_begin(ranges))
          range = unite(range, further);
        return range;
      });
}

std::optional<int64_t> IntegerRanges::divisorOfRemainder(Operation *op) {
  auto product =
      isa<SubOp>(op) ? op->getOperand(1).getDefiningOp<MulOp>() : MulOp();
  if (!product)
    return std::nullopt;
  for (int which : {0, 1}) {
    auto quotient = product->getOperand(which).getDefiningOp<DivOp>();
    if (!quotient || quotient->getOperand(0) != op->getOperand(0))
      continue;
    auto by = known.find(quotient->getOperand(1)),
         times = known.find(product->getOperand(1 - which));
    if (by != known.end() && times != known.end() &&
        by->second.low == by->second.high &&
        times->second.low == times->second.high &&
        by->second.low == times->second.low && by->second.low > 0)
      return by->second.low;
  }
  return std::nullopt;
}

IntegerRange IntegerRanges::ofArgument(BlockArgument argument) {
  // What a repeat carries changes from layer to layer.
  auto function = dyn_cast<func::FuncOp>(argument.getOwner()->getParentOp());
  if (!function)
    return {};
  auto bounds = inputs.find(nameOfArgument(function, argument.getArgNumber()));
  return bounds != inputs.end()
             ? bounds->second
             : IntegerRange{IntegerRange::lowest, IntegerRange::highest, true};
}

namespace {

/// Where ids choose rows, of tables and of logits.
class Choices {
public:
  struct Choice {
    Operation *op;
    Value ids;
    int64_t low, high;
    /// The target that a loss leaves out.
    std::optional<int64_t> ignored = {};
  };

  explicit Choices(ModuleOp module) {
    module.walk([&](Operation *op) {
      Choice choice = {};
      if (auto gather = dyn_cast<GatherOp>(op)) {
        choice = {op, gather.getIds(), 0,
                  tensorType(gather.getTable()).getDimSize(0) - 1};
      } else if (auto loss = dyn_cast<CrossEntropyOp>(op)) {
        choice = {op, loss.getTargets(), 0,
                  tensorType(loss.getLogits()).getShape().back() - 1};
        if (auto ignore = loss.getIgnore())
          choice.ignored = static_cast<int64_t>(*ignore);
      }
      if (choice.ids && given.of(choice.ids).isGiven)
        choices.push_back(choice);
    });
  }

  ArrayRef<Choice> all() const { return choices; }

  /// The first that `fits` says no of, for inputs in these ranges.
  Operation *
  firstMisfit(const llvm::StringMap<IntegerRange> &inputs,
              function_ref<bool(const Choice &, const IntegerRange &)> fits) {
    IntegerRanges ranges(inputs, given);
    for (const Choice &choice : choices) {
      IntegerRange range = ranges.of(choice.ids);
      if (!range.isGiven && !fits(choice, range))
        return choice.op;
    }
    return nullptr;
  }

private:
  SmallVector<Choice> choices;
  IntegerRanges given;
};

using Choice = Choices::Choice;

/// Whether there is a row for each of these.
bool hasRows(const Choice &choice, const IntegerRange &range) {
  return range.low >= choice.low && range.high <= choice.high;
}

/// The same, or they lie between the rows and what is left out.
bool hasRowsOrIgnores(const Choice &choice, const IntegerRange &range) {
  int64_t ignored = choice.ignored.value_or(choice.low);
  return range.low >= std::min(choice.low, ignored) &&
         range.high <= std::max(choice.high, ignored);
}

/// The largest count up to `limit` that fits; more are never better.
int64_t mostThatFit(int64_t limit, function_ref<bool(int64_t)> fits) {
  int64_t good = 0;
  for (int64_t bad = limit + 1; bad - good > 1;) {
    int64_t middle = good + (bad - good) / 2;
    (fits(middle) ? good : bad) = middle;
  }
  return good;
}

/// The input of a function whose elements, and nothing computed of them, a
/// value has; null of others.
BlockArgument inputOf(Value value) {
  while (auto *op = value.getDefiningOp()) {
    if (!isa<ReshapeOp, TransposeOp, BroadcastOp, SliceOp>(op))
      return {};
    value = op->getOperand(0);
  }
  auto argument = cast<BlockArgument>(value);
  return isa<func::FuncOp>(argument.getOwner()->getParentOp())
             ? argument
             : BlockArgument();
}

/// Finds what each input of integers may hold.
class InputBounds {
public:
  explicit InputBounds(ModuleOp module) : choices(module) {
    module.walk([&](func::FuncOp function) {
      for (BlockArgument argument : function.getArguments())
        if (tensorType(argument).getElementType().isInteger(32))
          ranges[nameOf(argument)] = {};
    });
  }

  llvm::StringMap<IdBounds> find() {
    llvm::StringMap<IdBounds> bounds;
    for (StringRef name : llvm::to_vector(ranges.keys())) {
      ranges[name] = firstThatFits(name);
      // Others are not to fit beside what nothing does.
      if (ranges[name].low > ranges[name].high) {
        bounds[name].range = ranges[name];
        ranges.erase(name);
      }
    }
    growTogether();
    for (auto &input : ranges)
      if (growAlone(input.second))
        bounds[input.first()] = {input.second, ignoredBy(input.first())};
    return bounds;
  }

private:
  static StringRef nameOf(BlockArgument argument) {
    return nameOfArgument(
        cast<func::FuncOp>(argument.getOwner()->getParentOp()),
        argument.getArgNumber());
  }

  bool fit() { return !choices.firstMisfit(ranges, hasRows); }

  /// The one nearest to 0 that has a row wherever it is all that chooses; an
  /// empty range where there is none.
  IntegerRange firstThatFits(StringRef name) {
    constexpr int64_t farthest = 64;
    for (int64_t distance = 0; distance <= farthest; ++distance)
      for (int64_t id : {distance, -distance})
        if (!choices.firstMisfit({{name, IntegerRange{id, id}}}, hasRows))
          return {id, id};
    return {0, -1};
  }

  /// As many ids as fit of all inputs at once.
  void growTogether() {
    const llvm::StringMap<IntegerRange> first = ranges;
    auto growBy = [&](int64_t count) {
      for (auto &input : ranges) {
        const IntegerRange &begin = first.lookup(input.first());
        input.second.high =
            std::min(begin.low + count - 1, IntegerRange::highest);
      }
      return fit();
    };
    growBy(std::max<int64_t>(mostThatFit(IntegerRange::highest, growBy), 1));
  }

  /// And as many more as fit beside what the others hold by now. False where
  /// any integer does.
  bool growAlone(IntegerRange &range) {
    const IntegerRange begin = range;
    range = {};
    if (fit())
      return false;
    range = begin;
    range.high +=
        mostThatFit(IntegerRange::highest - begin.high, [&](int64_t more) {
          range.high = begin.high + more;
          bool isGood = fit();
          range.high = begin.high;
          return isGood;
        });
    range.low -=
        mostThatFit(begin.low - IntegerRange::lowest, [&](int64_t more) {
          range.low = begin.low - more;
          bool isGood = fit();
          range.low = begin.low;
          return isGood;
        });
    return true;
  }

  /// What every loss leaves out that has this input as its targets, where
  /// nothing else that the input chooses lacks a row for it.
  std::optional<int64_t> ignoredBy(StringRef name) {
    auto isOfInput = [&](const Choice &choice) {
      BlockArgument input = inputOf(choice.ids);
      return input && nameOf(input) == name;
    };
    const IntegerRange range = ranges.lookup(name);
    for (const Choice &loss : choices.all()) {
      if (!loss.ignored || !isOfInput(loss) ||
          (*loss.ignored >= range.low && *loss.ignored <= range.high))
        continue;
      llvm::StringMap<IntegerRange> with = ranges;
      with[name] = {std::min(range.low, *loss.ignored),
                    std::max(range.high, *loss.ignored)};
      if (!choices.firstMisfit(
              with, [&](const Choice &choice, const IntegerRange &ids) {
                return (isOfInput(choice) && choice.ignored == loss.ignored) ||
                       hasRows(choice, ids);
              }))
        return loss.ignored;
    }
    return std::nullopt;
  }

  Choices choices;
  llvm::StringMap<IntegerRange> ranges;
};

} // namespace

int64_t tfm::countTokens(ModuleOp module, int64_t limit, Operation **least) {
  Choices choices(module);
  auto firstMisfit = [&](int64_t count) {
    IntegerRange ids = {0, count - 1};
    return choices.firstMisfit(
        {{TFM_IN_TOKENS, ids}, {TFM_IN_TARGETS, ids}, {TFM_IN_SOURCE, ids}},
        hasRowsOrIgnores);
  };
  int64_t good =
      mostThatFit(limit, [&](int64_t count) { return !firstMisfit(count); });
  if (least)
    *least = good < limit ? firstMisfit(good + 1) : nullptr;
  return good;
}

llvm::StringMap<IdBounds> tfm::boundsOfInputs(ModuleOp module) {
  return InputBounds(module).find();
}
