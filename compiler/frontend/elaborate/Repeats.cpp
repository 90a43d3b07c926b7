//===- Repeats.cpp - repeated layers --------------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/frontend/elaborate/Repeats.h"

#include "compiler/frontend/elaborate/ArgumentBinder.h"
#include "compiler/frontend/elaborate/Expressions.h"
#include "compiler/frontend/elaborate/Instances.h"

using namespace tfm;
using namespace tfm::ast;
using llvm::StringRef;
using llvm::Twine;

/// Dropout's counter has 16 bits for the layer.
static constexpr int64_t maxRepeat = 65536;

namespace {

using LayerArgs = std::vector<CallArg>;

/// `length` layers from `begin` on, of which layer i is like layer i % period.
struct Run {
  size_t begin, length, period;
};

} // namespace

static bool areSame(const LayerArgs &a, const LayerArgs &b) {
  return llvm::equal(a, b, [](const CallArg &x, const CallArg &y) {
    return x.value.sameAs(y.value);
  });
}

/// The smallest p such that layer i + p is like layer i wherever both are
/// there. Compares at most 2 n layers.
static size_t shiftOf(llvm::ArrayRef<LayerArgs> layers) {
  // Of the first i + 1 layers: how many of the first are the last of them, too
  // (Knuth, Morris and Pratt 1977).
  size_t n = layers.size();
  std::vector<size_t> border(n);
  for (size_t i = 1; i < n; ++i) {
    size_t length = border[i - 1];
    while (length > 0 && !areSame(layers[i], layers[length]))
      length = border[length - 1];
    border[i] = length + areSame(layers[i], layers[length]);
  }
  return n - border[n - 1];
}

/// The smallest divisor p of n such that layer i is like layer i % p: if any
/// divisor is a period, the smallest period is one.
static size_t periodOf(llvm::ArrayRef<LayerArgs> layers) {
  size_t shift = shiftOf(layers);
  return layers.size() % shift == 0 ? shift : layers.size();
}

/// Cuts layers that no period divides into runs that have one: whole periods
/// and what is left behind the last, else layers that are alike. One run of
/// them all where most differ from the next, and there are more than `few`.
static std::vector<Run> runsOf(llvm::ArrayRef<LayerArgs> layers, size_t few) {
  size_t n = layers.size(), shift = shiftOf(layers), whole = n / shift * shift;
  if (whole == n && shift < n)
    return {{0, n, shift}};
  std::vector<Run> runs;
  if (whole > shift) {
    runs.push_back({0, whole, shift});
    for (const Run &run : runsOf(layers.drop_front(whole), few))
      runs.push_back({whole + run.begin, run.length, run.period});
    return runs;
  }
  for (size_t i = 0; i < n; ++i)
    if (i > 0 && areSame(layers[i - 1], layers[i]))
      ++runs.back().length;
    else
      runs.push_back({i, 1, 1});
  if (2 * runs.size() > n && runs.size() > few)
    return {{0, n, n}};
  return runs;
}

SymbolicValue Repeats::evalRepeat(const Expr &expr, Scope &scope) {
  const Expr &body = *expr.kids[1];
  if (scope.inMethod) {
    reporter.error(506, expr.range,
                   "a `repeat` stands in the body of a module, not in "
                   "a method");
    return SymbolicValue();
  }
  SymbolicValue count = expressions.eval(*expr.kids[0], scope);
  if (count.isPoison())
    return count;
  if (!count.is(SymbolicValue::Int) || count.dim().value() < 1 ||
      count.dim().value() > maxRepeat) {
    Diagnostic &d = reporter.error(
        601, expr.kids[0]->range,
        "`repeat` takes a count from 1 to " + Twine(maxRepeat) + ", not " +
            (count.is(SymbolicValue::Int) ? count.show() : count.describe()));
    blame.noteOrigins(d, count);
    suggestInteger(d, count);
    return SymbolicValue();
  }
  size_t n = count.dim().value();
  int64_t allLayers = count.dim().value();
  const Node *around = scope.parent ? scope.parent : scope.self;
  for (const Node *node = around; node; node = node->parent)
    if (node->kind == Node::Kind::Repeat)
      allLayers *= node->count.value();
  if (allLayers > maxRepeat) {
    reporter.error(601, expr.kids[0]->range,
                   "with the repeats around it this one makes " +
                       Twine(allLayers) + " layers, more than " +
                       Twine(maxRepeat));
    return SymbolicValue();
  }
  tree.nodes.emplace_back();
  Node &repeat = tree.nodes.back();
  repeat.kind = Node::Kind::Repeat;
  repeat.parent = scope.parent ? scope.parent : scope.self;
  repeat.name = scope.pending;
  repeat.range = expr.range;
  repeat.count = count.dim();
  repeat.unit = scope.unit;

  Scope inner = scope;
  inner.parent = &repeat;
  inner.pending = "*";
  auto adopt = [&](Node &part, const SymbolicValue &value, size_t index,
                   size_t period) {
    Node &layer = *value.node();
    if (!layer.bound) {
      layer.parent = &part;
      layer.bound = true;
      layer.name = period == 1
                       ? "*"
                       : std::to_string(period) + "*+" + std::to_string(index);
    }
    part.bodies.push_back(&layer);
  };
  auto notAModule = [&](const SymbolicValue &value) {
    if (value.isPoison())
      return;
    bool isModule = value.is(SymbolicValue::Module);
    std::string name = isModule ? value.module()->name.str() : "Block";
    reporter
        .error(601, body.range,
               isModule ? "`repeat` repeats an instance, and `" + name +
                              "` alone is a module"
                        : "`repeat` repeats a module, not " + value.describe())
        .help("write `repeat(n) " + name + "(...)`");
  };

  bool isCall = body.kind == ExprKind::Call;
  SymbolicValue callee =
      isCall ? expressions.eval(*body.kids[0], inner) : SymbolicValue();
  if (isCall && callee.isPoison()) {
    expressions.evalArguments(body, inner);
    return SymbolicValue();
  }
  if (!isCall || !callee.is(SymbolicValue::Module)) {
    // An instance that exists already: layers that share their weights.
    SymbolicValue value = isCall ? callee : expressions.eval(body, inner);
    if (!value.is(SymbolicValue::NodeRef) ||
        value.node()->kind != Node::Kind::Module || isCall) {
      notAModule(value);
      return SymbolicValue();
    }
    adopt(repeat, value, 0, 1);
    return SymbolicValue::object(SymbolicValue::NodeRef, &repeat);
  }

  std::vector<LayerArgs> layers;
  if (expr.text.empty()) {
    layers.push_back(expressions.evalArguments(body, inner));
  } else {
    size_t errors = diags.size();
    for (size_t i = 0; i < n; ++i) {
      inner.locals[expr.text] =
          SymbolicValue::integer(Dim(static_cast<int64_t>(i)));
      layers.push_back(expressions.evalArguments(body, inner));
      size_t values = 0;
      for (const CallArg &arg : layers.back())
        values += arg.value.size();
      if (!budget.spend(values, body.range))
        return SymbolicValue();
      if (diags.size() != errors)
        break;
    }
    inner.locals.erase(expr.text);
  }
  size_t period = periodOf(layers);
  std::vector<Run> runs = {{0, n, period}};
  if (period > 1 && period == layers.size()) {
    // No period: numbers become one constant for each layer.
    std::vector<CallArg> &first = layers[0];
    bool numeric = true, hasWhole = false;
    for (size_t a = 0; a < first.size(); ++a) {
      auto all = [&](auto holds) {
        return llvm::all_of(
            layers, [&](const auto &layer) { return holds(layer[a].value); });
      };
      if (all([&](const SymbolicValue &v) { return v.sameAs(first[a].value); }))
        continue;
      numeric &= all([](const SymbolicValue &v) { return v.isNumber(); });
      hasWhole |=
          all([](const SymbolicValue &v) { return v.is(SymbolicValue::Int); });
    }
    // But a period that does not divide, or a change between two layers, is
    // two loops, which know their numbers; and whole numbers, which a window
    // and other sizes are, may change a few times.
    const size_t few = numeric && hasWhole ? 3 : 0;
    if (scope.numbered == &expr)
      runs = runsOf(layers, few);
    if (numeric &&
        (runs.size() == 1 || runs.size() > std::max<size_t>(2, few + 1))) {
      runs = {{0, n, 1}};
      for (size_t a = 0; a < first.size(); ++a) {
        std::vector<SymbolicValue> items;
        bool varies = false;
        for (const auto &layer : layers) {
          items.push_back(layer[a].value);
          varies |= !layer[a].value.sameAs(first[a].value);
        }
        if (varies)
          first[a].value = SymbolicValue::perLayer(std::move(items), &repeat);
      }
    }
  }
  std::vector<SymbolicValue> parts;
  for (const Run &run : runs) {
    Node *part = &repeat;
    if (!parts.empty()) {
      tree.nodes.push_back(repeat);
      part = &tree.nodes.back();
      part->bodies.clear();
    }
    // The last one has what the others leave of the count's formula.
    Dim length(static_cast<int64_t>(run.length));
    part->count =
        &run == &runs.back() ? count.dim() - Dim(int64_t(run.begin)) : length;
    inner.parent = part;
    for (size_t i = 0; i < run.period; ++i) {
      inner.pending = run.period == 1 ? "*"
                                      : std::to_string(run.period) + "*+" +
                                            std::to_string(i);
      SymbolicValue value =
          instances.instantiate(*callee.module(), callee.unit(),
                                layers[run.begin + i], body.range, inner);
      if (!value.is(SymbolicValue::NodeRef))
        return SymbolicValue();
      adopt(*part, value, i, run.period);
    }
    parts.push_back(SymbolicValue::object(SymbolicValue::NodeRef, part));
  }
  return parts.size() == 1 ? parts.front()
                           : SymbolicValue::list(std::move(parts));
}
