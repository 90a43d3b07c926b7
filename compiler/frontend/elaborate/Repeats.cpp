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

/// Whether layers differ in argument `which`.
static bool varies(llvm::ArrayRef<LayerArgs> layers, size_t which) {
  return !llvm::all_of(layers, [&](const LayerArgs &layer) {
    return layer[which].value.sameAs(layers[0][which].value);
  });
}

/// Whether argument `which` has one of two values in each layer, which a choice
/// by the index gives it.
static bool isChoice(llvm::ArrayRef<LayerArgs> layers, size_t which) {
  const SymbolicValue &first = layers[0][which].value;
  const SymbolicValue *other = nullptr;
  for (const LayerArgs &layer : layers) {
    const SymbolicValue &value = layer[which].value;
    if (value.sameAs(first) || (other && value.sameAs(*other)))
      continue;
    if (other)
      return false;
    other = &value;
  }
  return other != nullptr;
}

/// Makes the arguments of the first layer those of all: one that varies becomes
/// a number for each layer of `repeat`.
static void mergeLayers(std::vector<LayerArgs> &layers, Node &repeat) {
  for (size_t a = 0; a < layers[0].size(); ++a) {
    if (!varies(layers, a))
      continue;
    std::vector<SymbolicValue> numbers;
    for (const LayerArgs &layer : layers)
      numbers.push_back(layer[a].value);
    layers[0][a].value = SymbolicValue::perLayer(std::move(numbers), &repeat);
  }
}

/// Cuts layers into the runs that become loops: several only where `mayCut`.
/// Where layers without a period are one run, whose numbers differ, these are
/// merged.
static std::vector<Run> cut(std::vector<LayerArgs> &layers, Node &repeat,
                            bool mayCut) {
  auto n = static_cast<size_t>(repeat.count.value());
  size_t period = periodOf(layers);
  if (period == 1 || period < layers.size())
    return {{0, n, period}};
  bool isNumeric = true, mayBeFixed = false;
  for (size_t a = 0; a < layers[0].size(); ++a) {
    if (!varies(layers, a))
      continue;
    auto all = [&](auto holds) {
      return llvm::all_of(layers, [&](const LayerArgs &layer) {
        return holds(layer[a].value);
      });
    };
    isNumeric &= all([](const SymbolicValue &v) { return v.isNumber(); });
    mayBeFixed |= isChoice(layers, a) || all([](const SymbolicValue &v) {
                    return v.is(SymbolicValue::Int);
                  });
  }
  // Numbers become one constant for each layer. But a period that does not
  // divide, or a change between two layers, is two loops, which know their
  // numbers; and whole numbers, which a window and other sizes are, and what is
  // one of two, as the base of rotations is, may change a few times.
  const size_t few = isNumeric && mayBeFixed ? 3 : 0;
  std::vector<Run> runs =
      mayCut ? runsOf(layers, few) : std::vector<Run>{{0, n, period}};
  bool isCut = runs.size() > 1 && runs.size() <= std::max<size_t>(2, few + 1);
  if (!isNumeric || isCut)
    return runs;
  mergeLayers(layers, repeat);
  return {{0, n, 1}};
}

/// The name of body `index` of a repeat with so many.
static std::string bodyName(size_t index, size_t bodies) {
  return bodies == 1 ? "*"
                     : std::to_string(bodies) + "*+" + std::to_string(index);
}

/// Makes an instance the next one of the `bodies` of `repeat`. One that has
/// been made elsewhere, such as an argument of the module around, stays there.
static void adopt(Node &repeat, Node &layer, size_t bodies) {
  if (layer.parent == &repeat)
    layer.name = bodyName(repeat.bodies.size(), bodies);
  layer.bound = true;
  repeat.bodies.push_back(&layer);
}

/// Where an expression reads a name; null: nowhere.
static const Expr *readOf(const Expr *expr, StringRef name) {
  if (!expr || expr->isName(name))
    return expr;
  llvm::SmallVector<const Expr *> parts(expr->kids.begin(), expr->kids.end());
  for (const Argument &argument : expr->args)
    parts.push_back(argument.value);
  for (const Subscript &subscript : expr->subscripts)
    parts.append({subscript.first, subscript.last});
  for (const Expr *part : parts)
    if (const Expr *found = readOf(part, name))
      return found;
  return nullptr;
}

SymbolicValue Repeats::evalRepeat(const Expr &expr, Scope &scope) {
  if (scope.inMethod) {
    reporter.error(506, expr.range,
                   "a `repeat` stands in the body of a module, not in "
                   "a method");
    return SymbolicValue();
  }
  std::optional<Dim> count = countOf(expr, scope);
  if (!count)
    return SymbolicValue();
  tree.nodes.emplace_back();
  Node &repeat = tree.nodes.back();
  repeat.kind = Node::Kind::Repeat;
  repeat.parent = scope.parent ? scope.parent : scope.self;
  repeat.name = scope.pending;
  repeat.range = expr.range;
  repeat.count = *count;
  repeat.unit = scope.unit;

  Scope inner = scope;
  inner.parent = &repeat;
  inner.pending = "*";
  const Expr &body = *expr.kids[1];
  const Expr &repeated = body.kind == ExprKind::Call ? *body.kids[0] : body;
  const Expr *choice =
      expr.text.empty() ? nullptr : readOf(&repeated, expr.text);
  if (choice) {
    reporter
        .error(601, choice->range,
               "which module `repeat` repeats may not depend on `" + expr.text +
                   "`: its arguments may")
        .help("let one module choose, `repeat(n) as i Block(first = i % 2 == "
              "0)`, or list the layers: `[A(...), B(...)]`");
    return SymbolicValue();
  }
  if (body.kind == ExprKind::Call) {
    SymbolicValue callee = expressions.eval(*body.kids[0], inner);
    if (callee.is(SymbolicValue::Module))
      return repeatModule(expr, callee, inner);
    if (callee.isPoison()) {
      // Mistakes in the arguments are mistakes either way: as of layer 0.
      if (!expr.text.empty())
        inner.locals[expr.text] = SymbolicValue::integer(Dim(0));
      expressions.evalArguments(body, inner);
    }
    reportNoModule(callee, body.range);
    return SymbolicValue();
  }
  // An instance that exists already: layers that share their weights.
  SymbolicValue value = expressions.eval(body, inner);
  if (!value.is(SymbolicValue::NodeRef) ||
      value.node()->kind != Node::Kind::Module) {
    reportNoModule(value, body.range);
    return SymbolicValue();
  }
  adopt(repeat, *value.node(), 1);
  return SymbolicValue::object(SymbolicValue::NodeRef, &repeat);
}

std::optional<Dim> Repeats::countOf(const Expr &expr, Scope &scope) {
  Range range = expr.kids[0]->range;
  SymbolicValue count = expressions.eval(*expr.kids[0], scope);
  if (count.isPoison())
    return std::nullopt;
  if (!count.is(SymbolicValue::Int) || count.dim().value() < 1 ||
      count.dim().value() > maxRepeat) {
    Diagnostic &d = reporter.error(
        601, range,
        "`repeat` takes a count from 1 to " + Twine(maxRepeat) + ", not " +
            (count.is(SymbolicValue::Int) ? count.show() : count.describe()));
    blame.noteOrigins(d, count);
    suggestInteger(d, count);
    return std::nullopt;
  }
  int64_t allLayers = count.dim().value();
  const Node *around = scope.parent ? scope.parent : scope.self;
  for (const Node *node = around; node; node = node->parent)
    if (node->kind == Node::Kind::Repeat)
      allLayers *= node->count.value();
  if (allLayers > maxRepeat) {
    if (!instances.isEndless(expr.range))
      reporter.error(601, range,
                     "with the repeats around it this one makes " +
                         Twine(allLayers) + " layers, more than " +
                         Twine(maxRepeat));
    return std::nullopt;
  }
  return count.dim();
}

void Repeats::reportNoModule(const SymbolicValue &value, Range range) {
  if (value.isPoison())
    return;
  bool isModule = value.is(SymbolicValue::Module);
  std::string name = isModule ? value.module()->name.str() : "Block";
  reporter
      .error(601, range,
             isModule ? "`repeat` repeats an instance, and `" + name +
                            "` alone is a module"
                      : "`repeat` repeats a module, not " + value.describe())
      .help("write `repeat(n) " + name + "(...)`");
}

std::vector<LayerArgs> Repeats::evalLayers(const Expr &expr, Scope &inner) {
  const Expr &body = *expr.kids[1];
  if (expr.text.empty())
    return {expressions.evalArguments(body, inner)};
  std::vector<LayerArgs> layers;
  size_t errors = diags.size();
  for (int64_t i = 0; i < inner.parent->count.value(); ++i) {
    inner.locals[expr.text] = SymbolicValue::integer(Dim(i));
    layers.push_back(expressions.evalArguments(body, inner));
    size_t values = 0;
    for (const CallArg &arg : layers.back())
      values += arg.value.size();
    if (!budget.spend(values, body.range))
      return {};
    if (diags.size() != errors)
      break;
  }
  inner.locals.erase(expr.text);
  return layers;
}

SymbolicValue Repeats::repeatModule(const Expr &expr,
                                    const SymbolicValue &module, Scope &inner) {
  Node &repeat = *inner.parent;
  const Dim count = repeat.count;
  std::vector<LayerArgs> layers = evalLayers(expr, inner);
  if (layers.empty())
    return SymbolicValue();
  std::vector<Run> runs = cut(layers, repeat, inner.numbered == &expr);
  std::vector<SymbolicValue> parts;
  for (const Run &run : runs) {
    Node *part = &repeat;
    if (!parts.empty()) {
      tree.nodes.push_back(repeat);
      part = &tree.nodes.back();
      part->bodies.clear();
    }
    // The last one has what the others leave of the count's formula.
    part->count = &run == &runs.back() ? count - Dim(int64_t(run.begin))
                                       : Dim(int64_t(run.length));
    part->begin = static_cast<int64_t>(run.begin);
    inner.parent = part;
    for (size_t i = 0; i < run.period; ++i) {
      inner.pending = bodyName(i, run.period);
      SymbolicValue value = instances.instantiate(
          *module.module(), module.unit(), layers[run.begin + i],
          expr.kids[1]->range, inner);
      if (!value.is(SymbolicValue::NodeRef))
        return SymbolicValue();
      adopt(*part, *value.node(), run.period);
    }
    parts.push_back(SymbolicValue::object(SymbolicValue::NodeRef, part));
  }
  return parts.size() == 1 ? parts.front()
                           : SymbolicValue::list(std::move(parts));
}
