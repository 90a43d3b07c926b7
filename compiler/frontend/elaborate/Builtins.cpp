//===- Builtins.cpp - the functions of the language -----------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/dialect/ScalarFunctions.h"
#include "compiler/frontend/elaborate/BuiltinCall.h"
#include "compiler/frontend/syntax/Habits.h"

#include "llvm/ADT/Sequence.h"
#include "llvm/ADT/SmallVectorExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/MathExtras.h"

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
  SymbolicValue (BuiltinCall::*run)();
  /// In its place, for one that is in this file alone.
  SymbolicValue (*function)(BuiltinCall &) = nullptr;
};

static SymbolicValue topK(BuiltinCall &call);
static SymbolicValue scan(BuiltinCall &call);
static SymbolicValue shift(BuiltinCall &call);
static SymbolicValue randomNumbers(BuiltinCall &call);

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
    {"scan", "a x axis=", nullptr, scan},
    {"shift", "x axis by=", nullptr, shift},
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
    {"random_uniform", "shape low= high=", nullptr, randomNumbers},
    {"random_normal", "shape std= mean=", nullptr, randomNumbers},
    {"attention",
     "q k v causal= mask= bias= distance_bias= scale= window= softcap= "
     "dropout=",
     &BuiltinCall::attention},
    {"rope", "x positions base= dims= interleaved= frequencies= amplitude=",
     &BuiltinCall::rope},
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

bool Builtins::contains(StringRef name) {
  return findBuiltin(name).has_value();
}

bool Builtins::takesAxis(StringRef name) {
  std::optional<BuiltinInfo> info = findBuiltin(name);
  return info && info->parameters.ends_with("axis=");
}

std::vector<std::string> Builtins::all() {
  std::vector<std::string> names;
  for (const ScalarFunction &function : scalarFunctions())
    names.push_back(function.name.str());
  for (const BuiltinInfo &info : table)
    names.push_back(info.name.str());
  return names;
}

SymbolicValue Builtins::call(StringRef name, std::vector<CallArg> &args,
                             Range range, Scope &scope) {
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
    context.reporter
        .error(403, args[0].range,
               "`" + name +
                   "` takes no arguments: it is what a parameter starts "
                   "from, `param weight: [width] = " +
                   name + "`")
        .help(nameHabit("full"));
    return SymbolicValue();
  }
  auto bound = arguments.bind(names, required, fixed, range, name,
                              /*furtherNames=*/{}, open);
  if (!bound)
    return SymbolicValue();
  // One poisoned argument poisons the result, quietly.
  for (const CallArg &arg : args)
    if (arg.value.isPoison())
      return SymbolicValue();
  BuiltinCall call{context, info->name, names, *bound, rest, range, scope};
  context.tensors.locate(range);
  return info->function ? info->function(call) : (call.*info->run)();
}

//===----------------------------------------------------------------------===//
// Arguments
//===----------------------------------------------------------------------===//

const CallArg *BuiltinCall::arg(StringRef which) const {
  size_t i = llvm::find(parameters, which) - parameters.begin();
  return i < bound.size() ? bound[i] : nullptr;
}

bool BuiltinCall::given(StringRef which) const {
  const CallArg *a = arg(which);
  return a && !(a->value.is(SymbolicValue::None) && which != "axis");
}

std::optional<SymbolicTensor> BuiltinCall::tensor(StringRef which) {
  const CallArg *a = arg(which);
  return tensors.toTensor(a->value, a->range, "`" + name.str() + "`");
}

std::optional<SymbolicTensor> BuiltinCall::floats(StringRef which) {
  const CallArg *a = arg(which);
  auto t = tensors.toNumbers(a->value, a->range, "`" + name.str() + "`");
  if (t && t->elem != Elem::Float) {
    reporter
        .error(211, a->range,
               "`" + name + "` takes floats, not " +
                   showShape(t->dims, t->elem))
        .help("convert: `" + castOf(sources.text(a->range), "float") + "`");
    return std::nullopt;
  }
  return t;
}

std::optional<SymbolicTensor> BuiltinCall::ints(StringRef which) {
  auto t = tensor(which);
  if (t && t->elem != Elem::Int) {
    reporter.error(211, arg(which)->range,
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
  if (a->value.is(SymbolicValue::Int))
    return a->value.dim().value();
  wrong(*a, which, "an integer");
  return std::nullopt;
}

std::optional<bool> BuiltinCall::flag(StringRef which) {
  if (!given(which))
    return false;
  const CallArg *a = arg(which);
  if (a->value.is(SymbolicValue::Bool))
    return a->value.flag();
  wrong(*a, which, "true or false");
  return std::nullopt;
}

Diagnostic &BuiltinCall::wrong(const CallArg &a, StringRef which,
                               StringRef expected) {
  if (a.value.is(SymbolicValue::PerLayer))
    return reporter
        .error(
            605, a.range,
            "`" + which + "` of `" + name +
                "` is fixed while compiling: it may not depend on the layer's "
                "index")
        .help(Reporter::choiceByLayer);
  return reporter.error(404, a.range,
                        "`" + which + "` of `" + name + "` takes " + expected +
                            ", not " + a.value.describe());
}

std::optional<int64_t> BuiltinCall::axis(const SymbolicTensor &x) {
  const CallArg *a = arg("axis");
  return tensors.toAxis(a ? &a->value : nullptr, a ? a->expr : nullptr, x,
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

SymbolicValue BuiltinCall::elementwiseNumber(const SymbolicValue &x) {
  if (name == "abs" && x.is(SymbolicValue::Int))
    return x.dim().value() < 0 ? SymbolicValue::integer(-x.dim()) : x;
  // A number has no gradient to stop.
  double y = name == "stop_gradient"
                 ? x.number()
                 : findScalarFunction(name)->value(x.number());
  if (std::isfinite(y))
    return SymbolicValue::real(y);
  reporter.error(412, arg("x")->range,
                 "`" + name + "` has no finite value at " + x.show());
  return SymbolicValue();
}

SymbolicValue BuiltinCall::elementwise() {
  const SymbolicValue &x = arg("x")->value;
  if (x.isNumber()) {
    return elementwiseNumber(x);
  }
  if (x.is(SymbolicValue::PerLayer)) {
    if (!budget.spend(x.size(), range))
      return SymbolicValue();
    std::vector<SymbolicValue> items;
    for (const SymbolicValue &item : x.items()) {
      items.push_back(elementwiseNumber(item));
      if (items.back().isPoison())
        return SymbolicValue();
    }
    return SymbolicValue::perLayer(std::move(items), x.owner());
  }
  auto t = floats("x");
  if (!t)
    return SymbolicValue();
  return SymbolicValue::tensor(
      {emitter.unary(name, t->handle), Elem::Float, t->dims});
}

SymbolicValue BuiltinCall::minMax() {
  const SymbolicValue &a = arg("a")->value;
  if (!given("b")) {
    auto all = along("a");
    if (!all)
      return SymbolicValue();
    auto &[x, at] = *all;
    Dims dims = x.dims;
    dims[at] = Dim(1);
    if (name == "max")
      return SymbolicValue::tensor(
          {emitter.reduceMax(x.handle, at), Elem::Float, dims});
    // min(x) is -max(-x).
    auto negated = emitter.unary("neg", x.handle);
    auto most = emitter.reduceMax(negated, at);
    return SymbolicValue::tensor(
        {emitter.unary("neg", most), Elem::Float, dims});
  }
  if (const CallArg *extra = arg("axis")) {
    reporter.error(403, extra->range,
                   "`" + name + "` takes two values, or one and an axis");
    return SymbolicValue();
  }
  const SymbolicValue &b = arg("b")->value;
  auto isNumeric = [](const SymbolicValue &value) {
    return value.isNumber() || (value.is(SymbolicValue::PerLayer) &&
                                value.items().front().isNumber());
  };
  Expr expr;
  expr.range = expr.textRange = range;
  expr.text = name;
  if (isNumeric(a) && isNumeric(b))
    return budget.spend(a.size() + b.size(), range)
               ? operators.numberArithmetic(name, a, b, expr)
               : SymbolicValue();
  if (!a.isTensorLike() && !b.isTensorLike()) {
    const CallArg &first = *arg(isNumeric(a) ? "b" : "a");
    reporter.error(404, first.range,
                   "`" + name + "` takes numbers or tensors, not " +
                       first.value.describe());
    return SymbolicValue();
  }
  return operators.tensorArithmetic(name, a, b, expr);
}

SymbolicValue BuiltinCall::where() {
  const SymbolicValue &condition = arg("condition")->value;
  if (condition.is(SymbolicValue::Bool))
    return arg(condition.flag() ? "a" : "b")->value;
  auto c = tensor("condition");
  if (!c)
    return SymbolicValue();
  if (c->elem != Elem::Bool) {
    reporter.error(211, arg("condition")->range,
                   "the condition of `where` is a truth value, not " +
                       showShape(c->dims, c->elem));
    return SymbolicValue();
  }
  const CallArg *a = arg("a"), *b = arg("b");
  std::optional<SymbolicTensor> x, y;
  auto both = [&](SymbolicValue::Kind kind) {
    return a->value.is(kind) && b->value.is(kind);
  };
  // Whether it takes its type from the other one.
  auto isNumber = [](const SymbolicValue &value) {
    return value.isNumber() || value.is(SymbolicValue::Bool) ||
           value.is(SymbolicValue::PerLayer);
  };
  bool isOwnA = !isNumber(a->value), isOwnB = !isNumber(b->value);
  if (isOwnA)
    x = tensor("a");
  if (isOwnB)
    y = tensor("b");
  if ((isOwnA && !x) || (isOwnB && !y))
    return SymbolicValue();
  // Two numbers: floats, with the condition's shape.
  SymbolicTensor shape{nullptr, Elem::Float, c->dims};
  if (both(SymbolicValue::Int))
    shape.elem = Elem::Int;
  if (both(SymbolicValue::Bool))
    shape.elem = Elem::Bool;
  constexpr StringRef verb = "choose between";
  if (!isOwnA)
    x = tensors.operandTensor(a->value, y ? &*y : &shape, a->range, verb,
                              sources.text(b->range));
  if (!isOwnB)
    y = tensors.operandTensor(b->value, x ? &*x : &shape, b->range, verb,
                              sources.text(a->range));
  if (!x || !y)
    return SymbolicValue();
  if (x->elem != y->elem) {
    reporter.error(211, range,
                   "`where` chooses between " + showShape(x->dims, x->elem) +
                       " and " + showShape(y->dims, y->elem));
    return SymbolicValue();
  }
  auto values = tensors.broadcastDims(x->dims, y->dims);
  auto dims = values ? tensors.broadcastDims(*values, c->dims) : values;
  if (!dims) {
    auto show = [&](const CallArg *given, bool isOwn, const SymbolicTensor &t) {
      return isOwn ? showShape(t.dims, t.elem)
                   : sources.text(given->range).str();
    };
    Diagnostic &d =
        reporter.error(201, range,
                       "`where` of " + showShape(c->dims, c->elem) + ", " +
                           show(a, isOwnA, *x) + " and " + show(b, isOwnB, *y) +
                           ": the shapes do not fit");
    if (!values)
      tensors.helpWithAxes(d, x->dims, sources.text(a->range), y->dims,
                           sources.text(b->range));
    else if (c->dims.size() < values->size())
      tensors.helpWithAxes(d, c->dims, sources.text(arg("condition")->range),
                           *values, "");
    return SymbolicValue();
  }
  return SymbolicValue::tensor(
      {emitter.select(tensors.broadcastTo(*c, *dims).handle,
                      tensors.broadcastTo(*x, *dims).handle,
                      tensors.broadcastTo(*y, *dims).handle),
       x->elem, *dims});
}

SymbolicValue BuiltinCall::castNumber(const SymbolicValue &x, StringRef type) {
  if (type == "float")
    return SymbolicValue::real(x.number());
  if (type == "bool")
    return SymbolicValue::boolean(x.number() != 0);
  if (x.is(SymbolicValue::Int))
    return x;
  if (!(std::abs(x.number()) < 0x1p63)) {
    reporter.error(413, arg("x")->range, x.show() + " does not fit in 64 bits");
    return SymbolicValue();
  }
  return SymbolicValue::integer(Dim(static_cast<int64_t>(x.number())));
}

SymbolicValue BuiltinCall::cast() {
  const SymbolicValue &type = arg("type")->value;
  if (!type.is(SymbolicValue::Type)) {
    wrong(*arg("type"), "type", "`float`, `int` or `bool`");
    return SymbolicValue();
  }
  const SymbolicValue &x = arg("x")->value;
  if (x.isNumber())
    return castNumber(x, type.text());
  if (x.is(SymbolicValue::PerLayer) && type.text() != "bool") {
    if (!budget.spend(x.size(), range))
      return SymbolicValue();
    std::vector<SymbolicValue> items;
    for (const SymbolicValue &item : x.items()) {
      items.push_back(castNumber(item, type.text()));
      if (items.back().isPoison())
        return SymbolicValue();
    }
    return SymbolicValue::perLayer(std::move(items), x.owner());
  }
  if (x.is(SymbolicValue::Bool) && type.text() != "bool")
    return type.text() == "int" ? SymbolicValue::integer(Dim(x.flag() ? 1 : 0))
                                : SymbolicValue::real(x.flag() ? 1 : 0);
  auto t = tensor("x");
  if (!t)
    return SymbolicValue();
  Elem elem = llvm::StringSwitch<Elem>(type.text())
                  .Case("float", Elem::Float)
                  .Case("int", Elem::Int)
                  .Case("bool", Elem::Bool);
  if (elem == t->elem)
    return SymbolicValue::tensor(*t);
  return SymbolicValue::tensor({emitter.cast(t->handle, elem), elem, t->dims});
}

//===----------------------------------------------------------------------===//
// Reductions and rows
//===----------------------------------------------------------------------===//

SymbolicValue BuiltinCall::reduction() {
  auto all = along("x");
  if (!all)
    return SymbolicValue();
  const auto &[x, at] = *all;
  double count = static_cast<double>(x.dims[at].value());
  auto scaled = [&, at = at](const SymbolicTensor &t) {
    SymbolicTensor sum = tensors.reduceSum(t, at);
    return tensors.binary("mul", sum,
                          tensors.splat(1 / count, Elem::Float, sum.dims));
  };
  if (name == "sum")
    return SymbolicValue::tensor(tensors.reduceSum(x, at));
  SymbolicTensor mean = scaled(x);
  if (name == "mean")
    return SymbolicValue::tensor(mean);
  SymbolicTensor centred =
      tensors.binary("sub", x, tensors.broadcastTo(mean, x.dims));
  SymbolicTensor variance = scaled(tensors.binary("mul", centred, centred));
  if (name == "std")
    variance.handle = rootOrZero(variance);
  return SymbolicValue::tensor(variance);
}

Emitter::Handle BuiltinCall::rootOrZero(const SymbolicTensor &x) {
  auto all = [&](double value) {
    return tensors.splat(value, x.elem, x.dims).handle;
  };
  Emitter::Handle isZero = emitter.compare("eq", x.handle, all(0));
  Emitter::Handle elsewhere = emitter.select(isZero, all(1), x.handle);
  return emitter.select(isZero, all(0), emitter.unary("sqrt", elsewhere));
}

std::vector<SymbolicValue> BuiltinCall::alongRows(const Along &all,
                                                  Emitter::Integers attributes,
                                                  llvm::ArrayRef<Elem> elems,
                                                  const Dim &size) {
  // The op works on the last axis.
  llvm::SmallVector<int64_t> order =
      llvm::to_vector(llvm::seq<int64_t>(0, all.x.dims.size()));
  std::swap(order[all.axis], order.back());
  SymbolicTensor moved = tensors.transposeAxes(all.x, order);
  std::vector<Emitter::Handle> handles =
      emitter.op(name, {moved.handle}, attributes);
  Dims dims = moved.dims;
  dims.back() = size;
  std::vector<SymbolicValue> results;
  for (auto [handle, elem] : llvm::zip_equal(handles, elems))
    results.push_back(SymbolicValue::tensor(
        tensors.transposeAxes({handle, elem, dims}, order)));
  return results;
}

SymbolicValue BuiltinCall::refuse(StringRef which, const Twine &message) {
  reporter.error(412, arg(which)->range, message);
  return SymbolicValue();
}

SymbolicValue BuiltinCall::alongAxis() {
  auto all = along("x");
  if (!all)
    return SymbolicValue();
  const auto &[x, at] = *all;
  return SymbolicValue::tensor(
      {emitter.op(name, {x.handle}, {{"axis", at}})[0], Elem::Float, x.dims});
}

static SymbolicValue scan(BuiltinCall &call) {
  if (const CallArg &x = *call.arg("x");
      x.value.isNumber() && call.arg("a")->value.isTensorLike()) {
    call.wrong(x, "x", "a tensor")
        .help("the decay comes first: `scan(" +
              call.sources.text(x.range).str() + ", " +
              call.sources.text(call.arg("a")->range).str() + ")`");
    return SymbolicValue();
  }
  auto all = call.along("x");
  if (!all)
    return SymbolicValue();
  const SymbolicTensor &x = all->x;
  const CallArg &a = *call.arg("a");
  bool isNumber = a.value.isNumber() || a.value.is(SymbolicValue::PerLayer);
  auto decay = isNumber
                   ? call.tensors.operandTensor(a.value, &x, a.range, call.name)
                   : call.floats("a");
  if (!decay)
    return SymbolicValue();
  auto dims = call.tensors.broadcastDims(decay->dims, x.dims);
  if (!dims || *dims != x.dims) {
    Diagnostic &d = call.reporter.error(
        201, call.range,
        "`scan` cannot repeat a decay of " + showShape(decay->dims) + " to " +
            showShape(x.dims) + ", the shape of what it adds up");
    d.help("it is `scan(a, x)`, where `a` broadcasts to `x`");
    if (decay->dims.size() < x.dims.size())
      call.tensors.helpWithAxes(d, decay->dims, call.sources.text(a.range),
                                x.dims, "");
    return SymbolicValue();
  }
  return SymbolicValue::tensor(
      {call.emitter.op(
           call.name,
           {call.tensors.broadcastTo(*decay, x.dims).handle, x.handle},
           {{"axis", all->axis}})[0],
       Elem::Float, x.dims});
}

static SymbolicValue shift(BuiltinCall &call) {
  // As floats they would choose no rows of a table.
  if (auto ids = call.tensor("x"); ids && ids->elem == Elem::Int) {
    call.reporter
        .error(211, call.arg("x")->range,
               "`shift` takes floats, not " + showShape(ids->dims, ids->elem))
        .help("shift what they choose: `shift(embed(tokens), axis = T)`");
    return SymbolicValue();
  }
  auto all = call.along("x");
  auto steps = call.integer("by", 1);
  if (!all || !steps)
    return SymbolicValue();
  // Beyond the axis there are zeros alone.
  int64_t size = all->x.dims[all->axis].value();
  *steps = std::clamp(*steps, -size, size);
  return SymbolicValue::tensor(
      {call.emitter.op(call.name, {all->x.handle},
                       {{"axis", all->axis}, {"steps", *steps}})[0],
       Elem::Float, all->x.dims});
}

/// [values, indices]
static SymbolicValue topK(BuiltinCall &call) {
  auto all = call.along("x");
  auto k = call.integer("k", 1);
  if (!all || !k)
    return SymbolicValue();
  const Dim &size = all->x.dims[all->axis];
  // Kernels look for one after another, and compare indices as floats.
  constexpr int64_t most = 256, longest = int64_t(1) << 24;
  if (size.value() > longest)
    return call.refuse("x", "`top_k` looks for the largest of at most " +
                                Twine(longest) + " elements, not of " +
                                SymbolicValue::integer(size).show());
  if (*k > size.value())
    return call.refuse(
        "k", "`top_k` cannot choose " + call.arg("k")->value.show() + " of " +
                 SymbolicValue::integer(size).show() + " elements");
  if (*k < 1 || *k > most)
    return call.refuse("k", "`top_k` chooses from 1 to " + Twine(most) +
                                " elements, not " + Twine(*k));
  return SymbolicValue::list(call.alongRows(
      *all, {{"k", *k}}, {Elem::Float, Elem::Int}, call.arg("k")->value.dim()));
}

SymbolicValue BuiltinCall::softmax() {
  auto all = along("x");
  if (!all)
    return SymbolicValue();
  return alongRows(*all, {}, {Elem::Float}, all->x.dims[all->axis])[0];
}

SymbolicValue BuiltinCall::normalize() {
  auto x = floats("x");
  auto eps = number("eps", name == "normalize" ? 1e-5 : 1e-6);
  if (!x || !eps)
    return SymbolicValue();
  if (x->dims.empty()) {
    reporter.error(210, arg("x")->range, "a scalar has no axis");
    return SymbolicValue();
  }
  if (*eps < 0) {
    reporter.error(412, arg("eps")->range, "`eps` is not negative");
    return SymbolicValue();
  }
  return SymbolicValue::tensor({name == "normalize"
                                    ? emitter.normalize(x->handle, *eps)
                                    : emitter.rmsNormalize(x->handle, *eps),
                                Elem::Float, x->dims});
}

//===----------------------------------------------------------------------===//
// Random numbers
//===----------------------------------------------------------------------===//

/// The shape of what is drawn.
static std::optional<Dims> shapeDrawn(BuiltinCall &call) {
  const CallArg &shape = *call.arg("shape");
  if (!shape.value.is(SymbolicValue::List)) {
    Diagnostic &d =
        call.wrong(shape, "shape", "a list of dimensions, such as `[B, T]`");
    if (shape.value.isTensorLike())
      d.help("of the same shape: `" + call.name.str() + "(" +
             showShape(call.tensor("shape")->dims) + ")`");
    return std::nullopt;
  }
  Dims dims;
  for (const SymbolicValue &size : shape.value.items()) {
    auto dim = call.dimensions.toDimension(
        size, shape.range, "a dimension of `" + call.name + "`");
    if (!dim)
      return std::nullopt;
    dims.push_back(*dim);
  }
  if (!call.dimensions.isStorable(dims, call.range, "the result"))
    return std::nullopt;
  return dims;
}

/// A number of the distribution that is drawn from.
static std::optional<double> numberOfDraws(BuiltinCall &call, StringRef which,
                                           double absent) {
  const CallArg *a = call.arg(which);
  if (!call.given(which) || a->value.isNumber())
    return call.number(which, absent);
  bool isOfLayer = a->value.is(SymbolicValue::PerLayer);
  Diagnostic &d =
      isOfLayer ? call.reporter.error(605, a->range,
                                      "`" + which + "` of `" + call.name +
                                          "` is one number for all layers")
                : call.wrong(*a, which, "a number");
  if (isOfLayer || a->value.isTensorLike())
    d.help(call.name == "random_normal"
               ? "compute with what is drawn: `mean + std * random_normal("
                 "shape)`"
               : "compute with what is drawn: `low + (high - low) * "
                 "random_uniform(shape)`");
  return std::nullopt;
}

static SymbolicValue randomNumbers(BuiltinCall &call) {
  Tensors &tensors = call.tensors;
  bool isNormal = call.name == "random_normal";
  StringRef first = call.parameters[1], second = call.parameters[2];
  auto dims = shapeDrawn(call);
  auto a = numberOfDraws(call, first, isNormal ? 1 : 0),
       b = numberOfDraws(call, second, isNormal ? 0 : 1);
  if (!dims || !a || !b)
    return SymbolicValue();
  if (isNormal && *a < 0)
    return call.refuse(first, "`std` of `random_normal` is not negative");
  if (!isNormal && *a > *b)
    return call.refuse(call.given(first) ? first : second,
                       "`random_uniform` needs low <= high");
  if (!call.current.training && !call.current.isAlone) {
    call.reporter
        .error(513, call.range,
               "`" + call.name +
                   "` is for a `loss` of the model's own: this is computed "
                   "for `forward`, too, where nothing is random")
        .help("let the `loss` draw, and hand on what it draws, or whether to: "
              "`if noisy then x + " +
              call.name + "(" + showShape(*dims) + ") else x`");
    return SymbolicValue();
  }
  // Counters serve 64 elements of the last axis.
  Dims drawn = *dims;
  while (!drawn.empty() && drawn.back().value() == 1)
    drawn.pop_back();
  auto shape =
      llvm::map_to_vector(drawn, [](const Dim &dim) { return dim.value(); });
  auto uniform = [&] {
    return SymbolicTensor{call.emitter.uniform(shape, call.current.nextSite++),
                          Elem::Float, drawn};
  };
  auto number = [&](double value) {
    return tensors.splat(value, Elem::Float, drawn);
  };
  auto unary = [&](StringRef op, const SymbolicTensor &x) {
    return SymbolicTensor{call.emitter.unary(op, x.handle), x.elem, x.dims};
  };
  auto scaled = [&](const SymbolicTensor &x, double factor) {
    return factor == 1 ? x : tensors.binary("mul", x, number(factor));
  };
  auto shifted = [&](const SymbolicTensor &x, double term) {
    return term == 0 ? x : tensors.binary("add", x, number(term));
  };
  SymbolicTensor y;
  if (isNormal) {
    // Box and Muller 1958: a Gaussian in the plane has a radius whose square
    // is exponential, and any angle. 1 - u is not 0.
    SymbolicTensor rest = tensors.binary("sub", number(1), uniform());
    SymbolicTensor radius = unary("sqrt", scaled(unary("log", rest), -2));
    SymbolicTensor angle = scaled(uniform(), 2 * llvm::numbers::pi);
    y = tensors.binary("mul", radius, unary("cos", angle));
    y = shifted(scaled(y, *a), *b);
  } else {
    y = shifted(scaled(uniform(), *b - *a), *a);
  }
  return SymbolicValue::tensor(tensors.reshapeTo(y, *dims));
}

//===----------------------------------------------------------------------===//
// Initialisers
//===----------------------------------------------------------------------===//

SymbolicValue BuiltinCall::init() {
  SymbolicValue value = SymbolicValue::named(SymbolicValue::Init, name);
  std::vector<SymbolicValue> items;
  double defaults[2] = {0, 0};
  if (name == "uniform") {
    defaults[0] = -1;
    defaults[1] = 1;
  } else {
    // The standard deviation or the gain, where there is one.
    defaults[0] = 1;
  }
  for (const CallArg *a : bound)
    if (a && (a->value.isTensorLike() || a->value.is(SymbolicValue::List))) {
      wrong(*a, parameters[0], "a number").help(nameHabit("random"));
      return SymbolicValue();
    }
  for (size_t i = 0; i < parameters.size(); ++i) {
    auto x = number(parameters[i], defaults[i]);
    if (!x)
      return SymbolicValue();
    items.push_back(SymbolicValue::real(*x));
  }
  if (!items.empty() && name != "uniform" && items[0].number() < 0) {
    reporter.error(412, bound[0]->range,
                   "`" + parameters[0] + "` of `" + name + "` is not negative");
    return SymbolicValue();
  }
  // PyTorch has the mean first.
  if (!items.empty() && parameters[0] == "std" && items[0].number() == 0 &&
      items[1].number() != 0) {
    reporter
        .error(412, range,
               "with a standard deviation of 0 every value of `" + name +
                   "` is " + items[1].show())
        .help("the standard deviation comes first: `" + name + "(" +
              items[1].show() + ")`");
    return SymbolicValue();
  }
  if (name == "uniform" && items[0].number() > items[1].number()) {
    reporter.error(412, range, "`uniform(low, high)` needs low <= high");
    return SymbolicValue();
  }
  // As the dialect has them: normal(mean, deviation).
  if (name == "normal" || name == "truncated_normal")
    std::swap(items[0], items[1]);
  value.setItems(std::move(items));
  return value;
}
