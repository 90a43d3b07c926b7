//===- BuiltinsTensor.cpp - functions on tensors --------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/frontend/elaborate/Builtins.h"

#include "llvm/ADT/StringExtras.h"

#include <cmath>

using namespace tfm;
using namespace tfm::ast;
using llvm::StringRef;
using llvm::Twine;

Value BuiltinCall::split() {
  auto x = tensor("x");
  if (!x)
    return Value();
  auto at = axis(*x);
  if (!at)
    return Value();
  const CallArg &parts = *arg("parts");
  Dim extent = x->dims[*at];
  std::vector<Dim> sizes;
  if (parts.value.is(Value::Int)) {
    const Dim &count = parts.value.dim();
    if (count.value() < 1 || count.value() > 4096) {
      if (e.isFirstBlame(parts.value))
        e.noteOrigins(e.error(207, parts.range,
                              "cannot split into " + parts.value.show() +
                                  " parts: there are 1 to 4096"),
                      parts.value);
      return Value();
    }
    auto size = Dim::divideExact(extent, count);
    if (!size) {
      e.error(207, parts.range,
              "cannot split " + showShape(x->dims, x->elem) + " into " +
                  count.str(true) +
                  " equal parts: " + Value::integer(extent).show() +
                  " is not a multiple of " + Twine(count.value()));
      return Value();
    }
    sizes.assign(count.value(), *size);
  } else if (parts.value.is(Value::List)) {
    Dim total(0);
    for (const Value &item : parts.value.items()) {
      if (!item.is(Value::Int) || item.dim().value() < 1 ||
          item.dim().value() > extent.value()) {
        if (!item.isPoison())
          e.error(207, parts.range,
                  "the sizes of a split are integers from 1 to " +
                      Value::integer(extent).show() + ", not " +
                      (item.is(Value::Int) ? item.show() : item.describe()));
        return Value();
      }
      sizes.push_back(item.dim());
      total = total + item.dim();
    }
    if (total != extent) {
      e.error(207, parts.range,
              "the parts have " + Value::integer(total).show() +
                  " elements together, but the axis of " +
                  showShape(x->dims, x->elem) + " has " +
                  Value::integer(extent).show());
      return Value();
    }
  } else {
    wrong(parts, "parts", "a number of parts or a list of sizes");
    return Value();
  }
  if (!e.spend(8 * sizes.size(), range))
    return Value();
  std::vector<Value> results;
  int64_t start = 0;
  for (const Dim &size : sizes) {
    Dims dims = x->dims;
    dims[*at] = size;
    results.push_back(Value::tensor(
        {e.emitter.slice(x->handle, *at, start, size.value()), x->elem, dims}));
    start += size.value();
  }
  return Value::list(std::move(results));
}

Value BuiltinCall::concat() {
  std::vector<std::pair<Value, Range>> parts;
  const CallArg &first = *arg("a");
  if (!e.spend(first.value.size(), range))
    return Value();
  Value axisValue;
  const CallArg *axisArg = nullptr;
  if (first.value.is(Value::List)) {
    for (const Value &item : first.value.items())
      parts.push_back({item, first.range});
  } else {
    parts.push_back({first.value, first.range});
  }
  for (const CallArg &further : rest) {
    if (further.name == "axis") {
      axisArg = &further;
    } else if (!further.name.empty()) {
      e.error(402, further.nameRange,
              "`concat` has no argument `" + further.name + "`")
          .help("it is `concat(a, b, ..., axis = -1)`");
      return Value();
    } else {
      parts.push_back({further.value, further.range});
    }
  }
  std::vector<Tensor> tensors;
  for (auto &[value, where] : parts) {
    auto t = e.toTensor(value, where, "`concat`");
    if (!t)
      return Value();
    tensors.push_back(*t);
  }
  if (tensors.empty()) {
    e.error(208, range, "there is nothing to concatenate");
    return Value();
  }
  auto at = e.toAxis(axisArg ? &axisArg->value : nullptr,
                     axisArg ? axisArg->expr : nullptr, tensors[0],
                     axisArg ? axisArg->range : range);
  if (!at)
    return Value();
  Dims dims = tensors[0].dims;
  std::vector<Emitter::Handle> handles = {tensors[0].handle};
  for (size_t i = 1; i < tensors.size(); ++i) {
    const Tensor &t = tensors[i];
    bool fits = t.elem == tensors[0].elem && t.dims.size() == dims.size();
    for (size_t a = 0; fits && a < dims.size(); ++a)
      fits = a == static_cast<size_t>(*at) || t.dims[a] == dims[a];
    if (!fits) {
      e.error(208, parts[i].second,
              "cannot concatenate " +
                  showShape(tensors[0].dims, tensors[0].elem) + " and " +
                  showShape(t.dims, t.elem) + " along axis " + Twine(*at) +
                  ": the other axes differ");
      return Value();
    }
    dims[*at] = dims[*at] + t.dims[*at];
    handles.push_back(t.handle);
  }
  if (handles.size() == 1)
    return Value::tensor(tensors[0]);
  return Value::tensor({e.emitter.concat(handles, *at), tensors[0].elem, dims});
}

Value BuiltinCall::gather() {
  auto table = tensor("table");
  auto ids = ints("ids");
  if (!table || !ids)
    return Value();
  if (table->dims.empty()) {
    e.error(217, arg("table")->range,
            "the table of `gather` has at least one axis");
    return Value();
  }
  Dims dims = ids->dims;
  dims.append(table->dims.begin() + 1, table->dims.end());
  Emitter::Handle rows = e.emitter.gather(table->handle, ids->handle);
  e.addLookup(rows, e.sources.text(arg("table")->range).str(), table->dims[0],
              arg("ids")->range);
  return Value::tensor({rows, table->elem, dims});
}

Value BuiltinCall::positions() {
  auto tokens = ints("tokens");
  if (!tokens)
    return Value();
  if (tokens->dims.size() != 2) {
    e.error(204, arg("tokens")->range,
            "`positions` takes token ids int[B, T], not " +
                showShape(tokens->dims, tokens->elem));
    return Value();
  }
  return Value::tensor(
      {e.emitter.positions(tokens->handle), Elem::Int, tokens->dims});
}

std::optional<Dim> BuiltinCall::count() {
  const CallArg &given = *arg("count");
  if (!given.value.isNumber()) {
    wrong(given, "count", "a positive integer");
    return std::nullopt;
  }
  std::optional<Dim> n =
      e.toDimension(given.value, given.range, "`count` of `" + name + "`");
  if (!n || !e.isTensorInteger(n->value(), given.range))
    return std::nullopt;
  return n;
}

Value BuiltinCall::rangeTensor() {
  std::optional<Dim> n = count();
  if (!n)
    return Value();
  return Value::tensor({e.emitter.iota(0, {n->value()}), Elem::Int, {*n}});
}

Value BuiltinCall::oneHot() {
  auto ids = ints("ids");
  std::optional<Dim> n = ids ? count() : std::nullopt;
  if (!n)
    return Value();
  Dims dims = ids->dims;
  dims.push_back(Dim(1));
  Tensor column = e.reshapeTo(*ids, dims);
  dims.back() = *n;
  if (!e.isStorable(dims, range, "the result"))
    return Value();
  llvm::SmallVector<int64_t> shape;
  for (const Dim &dim : dims)
    shape.push_back(dim.value());
  Tensor wide = e.broadcastTo(column, dims);
  auto index = e.emitter.iota(static_cast<int64_t>(dims.size()) - 1, shape);
  auto equal = e.emitter.compare("eq", wide.handle, index);
  return Value::tensor({e.emitter.cast(equal, Elem::Float), Elem::Float, dims});
}

Value BuiltinCall::dropout() {
  auto x = floats("x");
  auto rate = number("rate", 0);
  if (!x || !rate)
    return Value();
  if (*rate < 0 || *rate >= 1) {
    e.error(412, arg("rate")->range,
            "the rate of `dropout` is at least 0 and less than 1, not " +
                arg("rate")->value.show());
    return Value();
  }
  if (*rate == 0 || !e.training)
    return Value::tensor(*x);
  return Value::tensor({e.emitter.dropout(x->handle, *rate, e.nextSite++),
                        Elem::Float, x->dims});
}

/// Brings a mask or bias to [B or 1, heads or 1, T, S], or nothing.
static std::optional<Dims>
maskDims(const Dims &mask, const Dims &scores,
         llvm::function_ref<bool(const Dim &)> isOne) {
  if (mask.size() > 4)
    return std::nullopt;
  Dims dims(4 - mask.size(), Dim(1));
  dims.append(mask.begin(), mask.end());
  for (size_t i = 0; i < 4; ++i)
    if (dims[i] != scores[i] && !isOne(dims[i]))
      return std::nullopt;
  return dims;
}

std::optional<Tensor> BuiltinCall::attentionMask(const Dims &scores) {
  std::optional<Tensor> result;
  for (StringRef which : {"mask", "bias"}) {
    if (!given(which))
      continue;
    auto t = tensor(which);
    if (!t)
      return std::nullopt;
    if (t->elem == Elem::Int || (which == "bias" && t->elem == Elem::Bool)) {
      e.error(211, arg(which)->range,
              "`" + which + "` of `attention` is " +
                  (which == "mask" ? "truth values or floats" : "floats") +
                  ", not " + showShape(t->dims, t->elem));
      return std::nullopt;
    }
    auto dims =
        maskDims(t->dims, scores, [&](const Dim &dim) { return e.isOne(dim); });
    if (!dims) {
      e.error(214, arg(which)->range,
              "`" + which + "` " + showShape(t->dims, t->elem) +
                  " does not fit the scores " + showShape(scores));
      return std::nullopt;
    }
    Tensor own = e.reshapeTo(*t, *dims);
    // Queries and keys are spelled out; batch and heads may stay 1.
    Dims full = *dims;
    full[2] = scores[2];
    full[3] = scores[3];
    own = e.broadcastTo(own, full);
    if (!result) {
      result = own;
      continue;
    }
    Dims both = *e.broadcastDims(result->dims, own.dims);
    Tensor a = e.broadcastTo(*result, both), b = e.broadcastTo(own, both);
    if (a.elem == Elem::Float)
      result = e.binary("add", a, b);
    else
      result = Tensor{e.emitter.select(a.handle, b.handle,
                                       e.splat(-static_cast<double>(INFINITY),
                                               Elem::Float, both)
                                           .handle),
                      Elem::Float, both};
  }
  return result;
}

Value BuiltinCall::attention() {
  auto q = floats("q"), k = floats("k"), v = floats("v");
  auto causal = flag("causal");
  auto drop = number("dropout", 0);
  if (!q || !k || !v || !causal || !drop)
    return Value();
  for (StringRef which : {"q", "k", "v"}) {
    const Tensor &t = which == "q" ? *q : which == "k" ? *k : *v;
    if (t.dims.size() == 4)
      continue;
    e.error(214, arg(which)->range,
            "`" + which + "` of `attention` is [B, heads, T, d], but this is " +
                showShape(t.dims))
        .help("`rearrange(" + which +
              ", \"B T (heads d) -> B heads T d\")` makes heads");
    return Value();
  }
  auto mismatch = [&](StringRef which, const Twine &why) {
    e.error(214, arg(which)->range,
            "`attention` of " + showShape(q->dims) + ", " + showShape(k->dims) +
                " and " + showShape(v->dims) + ": " + why);
    return Value();
  };
  if (q->dims[0] != k->dims[0])
    return mismatch("k", "the batches of queries and keys differ");
  if (q->dims[3] != k->dims[3])
    return mismatch("k", "queries and keys differ in width");
  if (k->dims[0] != v->dims[0] || k->dims[1] != v->dims[1] ||
      k->dims[2] != v->dims[2])
    return mismatch("v", "keys and values differ in batch, heads or length");
  if (q->dims[1].value() % k->dims[1].value() != 0)
    return mismatch("k", "the heads of the queries are no multiple of those of "
                         "the keys");
  if (*drop < 0 || *drop >= 1) {
    e.error(412, arg("dropout")->range,
            "`dropout` is at least 0 and less than 1, not " +
                arg("dropout")->value.show());
    return Value();
  }
  Emitter::Attention options;
  options.q = q->handle;
  options.k = k->handle;
  options.v = v->handle;
  options.causal = *causal;
  auto scale =
      number("scale", 1 / std::sqrt(static_cast<double>(q->dims[3].value())));
  auto window = integer("window", 0);
  auto softcap = number("softcap", 0);
  if (!scale || !window || !softcap)
    return Value();
  options.scale = *scale;
  if (given("window")) {
    if (*window < 1) {
      e.error(412, arg("window")->range,
              "`window` is at least 1, not " + arg("window")->value.show());
      return Value();
    }
    options.window = window;
  }
  if (given("softcap")) {
    if (*softcap <= 0) {
      e.error(412, arg("softcap")->range, "`softcap` is positive");
      return Value();
    }
    options.softcap = softcap;
  }
  const Dims scores = {q->dims[0], q->dims[1], q->dims[2], k->dims[2]};
  if (!e.isStorable(scores, range, "attention to all pairs of positions"))
    return Value();
  if (given("mask") || given("bias")) {
    auto mask = attentionMask(scores);
    if (!mask)
      return Value();
    options.mask = mask->handle;
  }
  if (e.training && *drop > 0) {
    options.dropout = *drop;
    options.site = e.nextSite++;
  }
  // A mask or bias may hide what is to come.
  auto isSequence = [](const Dim &dim) { return dim.str() == "T"; };
  if (!e.training && !e.looksAhead && !options.causal && !options.mask &&
      !options.window && isSequence(q->dims[2]) && isSequence(k->dims[2])) {
    const Elaborator::Frame *caller = e.callerOfStd(range);
    e.looksAhead = caller ? caller->call : range;
  }
  Dims dims = q->dims;
  dims[3] = v->dims[3];
  e.locate(range);
  return Value::tensor({e.emitter.attention(options), Elem::Float, dims});
}

Value BuiltinCall::rope() {
  auto x = floats("x");
  auto at = ints("positions");
  auto base = number("base", 10000);
  auto interleaved = flag("interleaved");
  if (!x || !at || !base || !interleaved)
    return Value();
  if (x->dims.size() != 4) {
    e.error(215, arg("x")->range,
            "`rope` rotates [B, heads, T, d], not " + showShape(x->dims));
    return Value();
  }
  if (at->dims.size() != 2 || at->dims[0] != x->dims[0] ||
      at->dims[1] != x->dims[2]) {
    e.error(215, arg("positions")->range,
            "the positions of " + showShape(x->dims) + " are int[" +
                x->dims[0].str(true) + ", " + x->dims[2].str(true) + "], not " +
                showShape(at->dims, Elem::Int));
    return Value();
  }
  auto dims = integer("dims", x->dims[3].value());
  if (!dims)
    return Value();
  if (*dims < 2 || *dims % 2 != 0 || *dims > x->dims[3].value()) {
    e.error(215, given("dims") ? arg("dims")->range : arg("x")->range,
            "`rope` rotates an even number of entries, at most " +
                Value::integer(x->dims[3]).show() + ", not " + Twine(*dims));
    return Value();
  }
  if (*base <= 0) {
    e.error(412, arg("base")->range, "`base` is positive");
    return Value();
  }
  return Value::tensor(
      {e.emitter.rope(x->handle, at->handle, *base, *dims, *interleaved),
       Elem::Float, x->dims});
}

Value BuiltinCall::crossEntropy() {
  auto logits = floats("logits");
  auto targets = ints("targets");
  auto smoothing = number("label_smoothing", 0);
  auto ignore = integer("ignore", 0);
  if (!logits || !targets || !smoothing || !ignore ||
      (given("ignore") && !e.isTensorInteger(*ignore, arg("ignore")->range)))
    return Value();
  bool fits = logits->dims.size() == targets->dims.size() + 1;
  for (size_t i = 0; fits && i < targets->dims.size(); ++i)
    fits = logits->dims[i] == targets->dims[i];
  if (!fits) {
    e.error(220, arg("targets")->range,
            "targets " + showShape(targets->dims, Elem::Int) +
                " do not fit logits " + showShape(logits->dims));
    return Value();
  }
  if (*smoothing < 0 || *smoothing >= 1) {
    e.error(412, arg("label_smoothing")->range,
            "`label_smoothing` is at least 0 and less than 1");
    return Value();
  }
  std::optional<int64_t> skip;
  if (given("ignore"))
    skip = ignore;
  Emitter::Handle losses =
      e.emitter.crossEntropy(logits->handle, targets->handle, skip, *smoothing);
  e.addLookup(losses, "", logits->dims.back(), arg("targets")->range);
  return Value::tensor({losses, Elem::Float, targets->dims});
}

Value BuiltinCall::mse() {
  Expr expr;
  expr.range = expr.textRange = range;
  Value difference =
      e.tensorArithmetic("-", arg("a")->value, arg("b")->value, expr);
  if (difference.isPoison())
    return difference;
  const Tensor &d = difference.tensor();
  if (d.elem != Elem::Float || d.dims.empty()) {
    e.error(211, range, "`mse` compares tensors of floats");
    return Value();
  }
  Tensor square = e.binary("mul", d, d);
  Tensor sum = e.reduceSum(square, static_cast<int64_t>(d.dims.size()) - 1);
  double count = static_cast<double>(d.dims.back().value());
  Tensor mean = e.binary("mul", sum, e.splat(1 / count, Elem::Float, sum.dims));
  Dims dims = d.dims;
  dims.pop_back();
  return Value::tensor(e.reshapeTo(mean, dims));
}
