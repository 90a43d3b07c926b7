//===- Builtins.cpp - the functions of the language -----------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/frontend/elaborate/Builtins.h"
#include "compiler/dialect/ScalarFunctions.h"
#include "compiler/frontend/syntax/Habits.h"

#include "llvm/ADT/Sequence.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSwitch.h"

#include <cmath>

using namespace tfm;
using namespace tfm::ast;
using llvm::StringRef;
using llvm::Twine;

//===----------------------------------------------------------------------===//
// The table
//===----------------------------------------------------------------------===//

/// Name and parameters as a person writes them; `=` marks an optional one, a
/// last `..` takes any further arguments.
struct BuiltinInfo {
  StringRef name;
  StringRef parameters;
  Value (BuiltinCall::*run)();
  /// In its place, for one that is in this file alone.
  Value (*function)(BuiltinCall &) = nullptr;
};

static Value topK(BuiltinCall &call);

/// All but those of one number, which the dialect lists.
static const BuiltinInfo table[] = {
    {"stop_gradient", "x", &BuiltinCall::elementwise},
    {"min", "a b= axis=", &BuiltinCall::minMax},
    {"max", "a b= axis=", &BuiltinCall::minMax},
    {"where", "condition a b", &BuiltinCall::where},
    {"cast", "x type", &BuiltinCall::cast},
    {"sum", "x axis=", &BuiltinCall::reduction},
    {"mean", "x axis=", &BuiltinCall::reduction},
    {"var", "x axis=", &BuiltinCall::reduction},
    {"std", "x axis=", &BuiltinCall::reduction},
    {"cumsum", "x axis=", &BuiltinCall::alongAxis},
    {"top_k", "x k axis=", nullptr, topK},
    {"softmax", "x axis=", &BuiltinCall::softmax},
    {"log_softmax", "x axis=", &BuiltinCall::softmax},
    {"normalize", "x eps=", &BuiltinCall::normalize},
    {"rms_normalize", "x eps=", &BuiltinCall::normalize},
    {"rearrange", "x pattern ..", &BuiltinCall::rearrange},
    {"split", "x parts axis=", &BuiltinCall::split},
    {"concat", "a ..", &BuiltinCall::concat},
    {"gather", "table ids", &BuiltinCall::gather},
    {"positions", "tokens", &BuiltinCall::positions},
    {"range", "count", &BuiltinCall::rangeTensor},
    {"one_hot", "ids count", &BuiltinCall::oneHot},
    {"dropout", "x rate", &BuiltinCall::dropout},
    {"attention", "q k v causal= mask= bias= scale= window= softcap= dropout=",
     &BuiltinCall::attention},
    {"rope", "x positions base= dims= interleaved=", &BuiltinCall::rope},
    {"cross_entropy",
     "logits targets ignore= label_smoothing=", &BuiltinCall::crossEntropy},
    {"mse", "a b", &BuiltinCall::mse},
    {"zeros", "", &BuiltinCall::init},
    {"ones", "", &BuiltinCall::init},
    {"normal", "std= mean=", &BuiltinCall::init},
    {"uniform", "low= high=", &BuiltinCall::init},
    {"truncated_normal", "std= mean=", &BuiltinCall::init},
    {"xavier", "gain=", &BuiltinCall::init},
    {"he", "gain=", &BuiltinCall::init},
};

static std::optional<BuiltinInfo> findBuiltin(StringRef name) {
  if (findScalarFunction(name))
    return BuiltinInfo{name, "x", &BuiltinCall::elementwise};
  for (const BuiltinInfo &info : table)
    if (name == info.name)
      return info;
  return std::nullopt;
}

bool Elaborator::isBuiltin(StringRef name) const {
  return findBuiltin(name).has_value();
}

std::vector<std::string> Elaborator::builtinNames() {
  std::vector<std::string> names;
  for (const ScalarFunction &function : scalarFunctions())
    names.push_back(function.name.str());
  for (const BuiltinInfo &info : table)
    names.push_back(info.name.str());
  return names;
}

Value Elaborator::callBuiltin(StringRef name, std::vector<CallArg> &args,
                              Range range, Env &env) {
  std::optional<BuiltinInfo> info = findBuiltin(name);
  llvm::SmallVector<StringRef> words, names;
  llvm::SmallVector<bool> required;
  info->parameters.split(words, ' ', -1, /*KeepEmpty=*/false);
  bool open = false;
  for (StringRef word : words) {
    if (word == "..") {
      open = true;
      continue;
    }
    required.push_back(!word.consume_back("="));
    names.push_back(word);
  }
  std::vector<CallArg> fixed, rest;
  size_t positional = 0;
  for (CallArg &arg : args) {
    bool known = arg.name.empty() ? positional++ < names.size()
                                  : llvm::is_contained(names, arg.name);
    (known || !open ? fixed : rest).push_back(arg);
  }
  if (names.empty() && !open && !args.empty()) {
    error(403, args[0].range,
          "`" + name +
              "` takes no arguments: it is what a parameter starts "
              "from, `param weight: [width] = " +
              name + "`")
        .help(nameHabit("full"));
    return Value();
  }
  auto bound = bindArguments(names, required, fixed, range, name);
  if (!bound)
    return Value();
  // One poisoned argument poisons the result, quietly.
  for (const CallArg &arg : args)
    if (arg.value.isPoison())
      return Value();
  BuiltinCall call{*this, info->name, names, *bound, rest, range, env};
  locate(range);
  return info->function ? info->function(call) : (call.*info->run)();
}

//===----------------------------------------------------------------------===//
// Arguments
//===----------------------------------------------------------------------===//

const CallArg *BuiltinCall::arg(StringRef which) const {
  size_t i = llvm::find(names, which) - names.begin();
  return i < bound.size() ? bound[i] : nullptr;
}

bool BuiltinCall::given(StringRef which) const {
  const CallArg *a = arg(which);
  return a && !(a->value.is(Value::None) && which != "axis");
}

std::optional<Tensor> BuiltinCall::tensor(StringRef which) {
  const CallArg *a = arg(which);
  return e.toTensor(a->value, a->range, "`" + name.str() + "`");
}

std::optional<Tensor> BuiltinCall::floats(StringRef which) {
  auto t = tensor(which);
  if (t && t->elem != Elem::Float) {
    e.error(211, arg(which)->range,
            "`" + name + "` takes floats, not " + showShape(t->dims, t->elem))
        .help("convert: `cast(x, float)`");
    return std::nullopt;
  }
  return t;
}

std::optional<Tensor> BuiltinCall::ints(StringRef which) {
  auto t = tensor(which);
  if (t && t->elem != Elem::Int) {
    e.error(211, arg(which)->range,
            "`" + name + "` takes integers for `" + which + "`, not " +
                showShape(t->dims, t->elem));
    return std::nullopt;
  }
  return t;
}

std::optional<double> BuiltinCall::number(StringRef which, double absent) {
  if (!given(which))
    return absent;
  const CallArg *a = arg(which);
  if (a->value.isNumber())
    return a->value.number();
  wrong(*a, which, "a number");
  return std::nullopt;
}

std::optional<int64_t> BuiltinCall::integer(StringRef which, int64_t absent) {
  if (!given(which))
    return absent;
  const CallArg *a = arg(which);
  if (a->value.is(Value::Int))
    return a->value.dim().value();
  wrong(*a, which, "an integer");
  return std::nullopt;
}

std::optional<bool> BuiltinCall::flag(StringRef which) {
  if (!given(which))
    return false;
  const CallArg *a = arg(which);
  if (a->value.is(Value::Bool))
    return a->value.flag();
  wrong(*a, which, "true or false");
  return std::nullopt;
}

void BuiltinCall::wrong(const CallArg &a, StringRef which, StringRef expected) {
  if (a.value.is(Value::PerLayer)) {
    e.error(605, a.range,
            "`" + which + "` of `" + name +
                "` is fixed while compiling: it may not depend on the layer's "
                "index")
        .help("where it repeats with a period that divides the number of "
              "layers, it may");
    return;
  }
  e.error(404, a.range,
          "`" + which + "` of `" + name + "` takes " + expected + ", not " +
              a.value.describe());
}

std::optional<int64_t> BuiltinCall::axis(const Tensor &x) {
  const CallArg *a = arg("axis");
  return e.toAxis(a ? &a->value : nullptr, a ? a->expr : nullptr, x,
                  a ? a->range : range);
}

std::optional<BuiltinCall::Along> BuiltinCall::along(StringRef which) {
  auto x = floats(which);
  auto at = x ? axis(*x) : std::nullopt;
  if (!at)
    return std::nullopt;
  return Along{*x, *at};
}

//===----------------------------------------------------------------------===//
// Elementwise
//===----------------------------------------------------------------------===//

Value BuiltinCall::elementwiseNumber(const Value &x) {
  if (name == "abs" && x.is(Value::Int))
    return x.dim().value() < 0 ? Value::integer(-x.dim()) : x;
  const ScalarFunction *function = findScalarFunction(name);
  // A number has no gradient to stop.
  double y = function ? function->value(x.number()) : x.number();
  if (std::isfinite(y))
    return Value::real(y);
  e.error(412, arg("x")->range,
          "`" + name + "` has no finite value at " + x.show());
  return Value();
}

Value BuiltinCall::elementwise() {
  const Value &x = arg("x")->value;
  if (x.isNumber()) {
    return elementwiseNumber(x);
  }
  if (x.is(Value::PerLayer)) {
    if (!e.spend(x.size(), range))
      return Value();
    std::vector<Value> items;
    for (const Value &item : x.items()) {
      items.push_back(elementwiseNumber(item));
      if (items.back().isPoison())
        return Value();
    }
    return Value::perLayer(std::move(items), x.owner());
  }
  auto t = floats("x");
  if (!t)
    return Value();
  return Value::tensor(
      {e.emitter.unary(name, t->handle), Elem::Float, t->dims});
}

Value BuiltinCall::minMax() {
  const Value &a = arg("a")->value;
  if (!given("b")) {
    auto all = along("a");
    if (!all)
      return Value();
    auto &[x, at] = *all;
    Dims dims = x.dims;
    dims[at] = Dim(1);
    if (name == "max")
      return Value::tensor(
          {e.emitter.reduceMax(x.handle, at), Elem::Float, dims});
    // min(x) is -max(-x).
    auto negated = e.emitter.unary("neg", x.handle);
    auto most = e.emitter.reduceMax(negated, at);
    return Value::tensor({e.emitter.unary("neg", most), Elem::Float, dims});
  }
  if (const CallArg *extra = arg("axis")) {
    e.error(403, extra->range,
            "`" + name + "` takes two values, or one and an axis");
    return Value();
  }
  const Value &b = arg("b")->value;
  if (a.isNumber() && b.isNumber()) {
    bool first =
        name == "min" ? a.number() <= b.number() : a.number() >= b.number();
    if (a.is(Value::Int) && b.is(Value::Int)) {
      const Dim &x = a.dim(), &y = b.dim();
      int64_t value = (first ? x : y).value();
      if (x.isConstant() && y.isConstant())
        return Value::integer(Dim(value));
      return Value::integer(Dim::opaque(
          name.str() + "(" + x.str() + ", " + y.str() + ")", value));
    }
    return Value::real(first ? a.number() : b.number());
  }
  if (!a.isTensorLike() && !b.isTensorLike()) {
    wrong(*arg(a.isNumber() ? "b" : "a"), a.isNumber() ? "b" : "a",
          "a number or a tensor");
    return Value();
  }
  Expr expr;
  expr.range = expr.textRange = range;
  return e.tensorArithmetic(name, a, b, expr);
}

Value BuiltinCall::where() {
  const Value &condition = arg("condition")->value;
  if (condition.is(Value::Bool))
    return arg(condition.flag() ? "a" : "b")->value;
  auto c = tensor("condition");
  if (!c)
    return Value();
  if (c->elem != Elem::Bool) {
    e.error(211, arg("condition")->range,
            "the condition of `where` is a truth value, not " +
                showShape(c->dims, c->elem));
    return Value();
  }
  const CallArg *a = arg("a"), *b = arg("b");
  std::optional<Tensor> x, y;
  if (a->value.isTensorLike())
    x = tensor("a");
  if (b->value.isTensorLike())
    y = tensor("b");
  // Two numbers: floats, with the condition's shape.
  Tensor shape{nullptr, Elem::Float, c->dims};
  if (a->value.is(Value::Int) && b->value.is(Value::Int))
    shape.elem = Elem::Int;
  if (!a->value.isTensorLike())
    x = e.operandTensor(a->value, y ? &*y : &shape, a->range, "choose from");
  if (!b->value.isTensorLike())
    y = e.operandTensor(b->value, x ? &*x : &shape, b->range, "choose from");
  if (!x || !y)
    return Value();
  if (x->elem != y->elem) {
    e.error(211, range,
            "`where` chooses between " + showShape(x->dims, x->elem) + " and " +
                showShape(y->dims, y->elem));
    return Value();
  }
  auto dims = e.broadcastDims(x->dims, y->dims);
  if (dims)
    dims = e.broadcastDims(*dims, c->dims);
  if (!dims) {
    e.error(201, range,
            "`where` of " + showShape(c->dims, c->elem) + ", " +
                showShape(x->dims) + " and " + showShape(y->dims) +
                ": the shapes do not fit");
    return Value();
  }
  return Value::tensor({e.emitter.select(e.broadcastTo(*c, *dims).handle,
                                         e.broadcastTo(*x, *dims).handle,
                                         e.broadcastTo(*y, *dims).handle),
                        x->elem, *dims});
}

Value BuiltinCall::castNumber(const Value &x, StringRef type) {
  if (type == "float")
    return Value::real(x.number());
  if (type == "bool")
    return Value::boolean(x.number() != 0);
  if (x.is(Value::Int))
    return x;
  if (!(std::abs(x.number()) < 0x1p63)) {
    e.error(413, arg("x")->range, x.show() + " does not fit in 64 bits");
    return Value();
  }
  return Value::integer(Dim(static_cast<int64_t>(x.number())));
}

Value BuiltinCall::cast() {
  const Value &type = arg("type")->value;
  if (!type.is(Value::Type)) {
    wrong(*arg("type"), "type", "`float`, `int` or `bool`");
    return Value();
  }
  const Value &x = arg("x")->value;
  if (x.isNumber())
    return castNumber(x, type.text());
  if (x.is(Value::PerLayer) && type.text() != "bool") {
    if (!e.spend(x.size(), range))
      return Value();
    std::vector<Value> items;
    for (const Value &item : x.items()) {
      items.push_back(castNumber(item, type.text()));
      if (items.back().isPoison())
        return Value();
    }
    return Value::perLayer(std::move(items), x.owner());
  }
  if (x.is(Value::Bool) && type.text() != "bool")
    return type.text() == "int" ? Value::integer(Dim(x.flag() ? 1 : 0))
                                : Value::real(x.flag() ? 1 : 0);
  auto t = tensor("x");
  if (!t)
    return Value();
  Elem elem = type.text() == "float" ? Elem::Float
              : type.text() == "int" ? Elem::Int
                                     : Elem::Bool;
  if (elem == t->elem)
    return Value::tensor(*t);
  return Value::tensor({e.emitter.cast(t->handle, elem), elem, t->dims});
}

//===----------------------------------------------------------------------===//
// Reductions and rows
//===----------------------------------------------------------------------===//

Value BuiltinCall::reduction() {
  auto all = along("x");
  if (!all)
    return Value();
  const auto &[x, at] = *all;
  double count = static_cast<double>(x.dims[at].value());
  auto scaled = [&, at = at](const Tensor &t) {
    Tensor sum = e.reduceSum(t, at);
    return e.binary("mul", sum, e.splat(1 / count, Elem::Float, sum.dims));
  };
  if (name == "sum")
    return Value::tensor(e.reduceSum(x, at));
  Tensor mean = scaled(x);
  if (name == "mean")
    return Value::tensor(mean);
  Tensor centred = e.binary("sub", x, e.broadcastTo(mean, x.dims));
  Tensor variance = scaled(e.binary("mul", centred, centred));
  if (name == "std")
    variance.handle = e.emitter.unary("sqrt", variance.handle);
  return Value::tensor(variance);
}

std::vector<Value> BuiltinCall::alongRows(const Along &all,
                                          Emitter::Integers attributes,
                                          llvm::ArrayRef<Elem> elems,
                                          const Dim &size) {
  // The op works on the last axis.
  llvm::SmallVector<int64_t> order =
      llvm::to_vector(llvm::seq<int64_t>(0, all.x.dims.size()));
  std::swap(order[all.axis], order.back());
  Tensor moved = e.transposeAxes(all.x, order);
  std::vector<Emitter::Handle> handles =
      e.emitter.op(name, {moved.handle}, attributes);
  Dims dims = moved.dims;
  dims.back() = size;
  std::vector<Value> results;
  for (auto [handle, elem] : llvm::zip_equal(handles, elems))
    results.push_back(
        Value::tensor(e.transposeAxes({handle, elem, dims}, order)));
  return results;
}

Value BuiltinCall::refuse(StringRef which, const Twine &message) {
  e.error(412, arg(which)->range, message);
  return Value();
}

Value BuiltinCall::alongAxis() {
  auto all = along("x");
  if (!all)
    return Value();
  const auto &[x, at] = *all;
  return Value::tensor(
      {e.emitter.op(name, {x.handle}, {{"axis", at}})[0], Elem::Float, x.dims});
}

/// [values, indices]
static Value topK(BuiltinCall &call) {
  auto all = call.along("x");
  auto k = call.integer("k", 1);
  if (!all || !k)
    return Value();
  const Dim &size = all->x.dims[all->axis];
  // Kernels look for one after another, and compare indices as floats.
  constexpr int64_t most = 256, longest = int64_t(1) << 24;
  if (*k < 1 || *k > std::min(size.value(), most) || size.value() > longest)
    return call.refuse("k", "`top_k` chooses 1 to " + Twine(most) +
                                " of at most " + Twine(longest) +
                                " elements, not " + Twine(*k) + " of " +
                                Value::integer(size).show());
  return Value::list(call.alongRows(*all, {{"k", *k}}, {Elem::Float, Elem::Int},
                                    call.arg("k")->value.dim()));
}

Value BuiltinCall::softmax() {
  auto all = along("x");
  if (!all)
    return Value();
  return alongRows(*all, {}, {Elem::Float}, all->x.dims[all->axis])[0];
}

Value BuiltinCall::normalize() {
  auto x = floats("x");
  auto eps = number("eps", name == "normalize" ? 1e-5 : 1e-6);
  if (!x || !eps)
    return Value();
  if (x->dims.empty()) {
    e.error(210, arg("x")->range, "a scalar has no axis");
    return Value();
  }
  if (*eps < 0) {
    e.error(412, arg("eps")->range, "`eps` is not negative");
    return Value();
  }
  return Value::tensor({name == "normalize"
                            ? e.emitter.normalize(x->handle, *eps)
                            : e.emitter.rmsNormalize(x->handle, *eps),
                        Elem::Float, x->dims});
}

//===----------------------------------------------------------------------===//
// Initialisers
//===----------------------------------------------------------------------===//

Value BuiltinCall::init() {
  Value value = Value::named(Value::Init, name);
  std::vector<Value> items;
  double defaults[2] = {0, 0};
  if (name == "uniform") {
    defaults[0] = -1;
    defaults[1] = 1;
  } else {
    // The standard deviation or the gain, where there is one.
    defaults[0] = 1;
  }
  for (size_t i = 0; i < names.size(); ++i) {
    auto x = number(names[i], defaults[i]);
    if (!x)
      return Value();
    items.push_back(Value::real(*x));
  }
  if (!items.empty() && name != "uniform" && items[0].number() < 0) {
    e.error(412, bound[0]->range,
            "`" + names[0] + "` of `" + name + "` is not negative");
    return Value();
  }
  // PyTorch has the mean first.
  if (!items.empty() && names[0] == "std" && items[0].number() == 0 &&
      items[1].number() != 0) {
    e.error(412, range,
            "with a standard deviation of 0 every value of `" + name + "` is " +
                items[1].show())
        .help("the standard deviation comes first: `" + name + "(" +
              items[1].show() + ")`");
    return Value();
  }
  if (name == "uniform" && items[0].number() > items[1].number()) {
    e.error(412, range, "`uniform(low, high)` needs low <= high");
    return Value();
  }
  // As the dialect has them: normal(mean, deviation).
  if (name == "normal" || name == "truncated_normal")
    std::swap(items[0], items[1]);
  value.setItems(std::move(items));
  return value;
}
