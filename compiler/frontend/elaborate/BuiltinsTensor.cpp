//===- BuiltinsTensor.cpp - functions on tensors --------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/frontend/elaborate/BuiltinCall.h"

#include "llvm/ADT/StringExtras.h"

#include <cmath>

using namespace tfm;
using namespace tfm::ast;
using llvm::StringRef;
using llvm::Twine;

/// Kernels add it to positions, in 32 bits.
static constexpr int64_t mostWindow = int64_t{1} << 30;

SymbolicValue BuiltinCall::split() {
  auto x = tensor("x");
  if (!x)
    return SymbolicValue();
  auto at = axis(*x);
  if (!at)
    return SymbolicValue();
  const CallArg &parts = *arg("parts");
  Dim extent = x->dims[*at];
  std::vector<Dim> sizes;
  if (parts.value.is(SymbolicValue::Int)) {
    const Dim &count = parts.value.dim();
    if (count.value() < 1 || count.value() > 4096) {
      if (blame.isFirst(parts.value))
        blame.noteOrigins(reporter.error(207, parts.range,
                                         "cannot split into " +
                                             parts.value.show() +
                                             " parts: there are 1 to 4096"),
                          parts.value);
      return SymbolicValue();
    }
    auto size = Dim::divideExact(extent, count);
    if (!size) {
      reporter.error(207, parts.range,
                     "cannot split " + showShape(x->dims, x->elem) + " into " +
                         count.str(true) + " equal parts: " +
                         SymbolicValue::integer(extent).show() +
                         " is not a multiple of " + Twine(count.value()));
      return SymbolicValue();
    }
    sizes.assign(count.value(), *size);
  } else if (parts.value.is(SymbolicValue::List)) {
    Dim total(0);
    for (const SymbolicValue &item : parts.value.items()) {
      if (!item.is(SymbolicValue::Int) || item.dim().value() < 1 ||
          item.dim().value() > extent.value()) {
        if (!item.isPoison())
          reporter.error(207, parts.range,
                         "the sizes of a split are integers from 1 to " +
                             SymbolicValue::integer(extent).show() + ", not " +
                             (item.is(SymbolicValue::Int) ? item.show()
                                                          : item.describe()));
        return SymbolicValue();
      }
      sizes.push_back(item.dim());
      total = total + item.dim();
    }
    if (total != extent) {
      reporter.error(207, parts.range,
                     "the parts have " + SymbolicValue::integer(total).show() +
                         " elements together, but the axis of " +
                         showShape(x->dims, x->elem) + " has " +
                         SymbolicValue::integer(extent).show());
      return SymbolicValue();
    }
  } else {
    wrong(parts, "parts", "a number of parts or a list of sizes");
    return SymbolicValue();
  }
  if (!budget.spend(8 * sizes.size(), range))
    return SymbolicValue();
  std::vector<SymbolicValue> results;
  int64_t start = 0;
  for (const Dim &size : sizes) {
    Dims dims = x->dims;
    dims[*at] = size;
    results.push_back(SymbolicValue::tensor(
        {emitter.slice(x->handle, *at, start, size.value()), x->elem, dims}));
    start += size.value();
  }
  return SymbolicValue::list(std::move(results));
}

SymbolicValue BuiltinCall::concat() {
  std::vector<std::pair<SymbolicValue, Range>> parts;
  const CallArg &first = *arg("a");
  if (!budget.spend(first.value.size(), range))
    return SymbolicValue();
  SymbolicValue axisValue;
  const CallArg *axisArg = nullptr;
  if (first.value.is(SymbolicValue::List)) {
    for (const SymbolicValue &item : first.value.items())
      parts.push_back({item, first.range});
  } else {
    parts.push_back({first.value, first.range});
  }
  for (const CallArg &further : rest) {
    if (further.name == "axis") {
      axisArg = &further;
    } else if (!further.name.empty()) {
      reporter
          .error(402, further.nameRange,
                 "`concat` has no argument `" + further.name + "`")
          .help("it is `concat(a, b, ..., axis = -1)`");
      return SymbolicValue();
    } else {
      parts.push_back({further.value, further.range});
    }
  }
  std::vector<SymbolicTensor> operands;
  for (auto &[value, where] : parts) {
    auto t = tensors.toTensor(value, where, "`concat`");
    if (!t)
      return SymbolicValue();
    operands.push_back(*t);
  }
  if (operands.empty()) {
    reporter.error(208, range, "there is nothing to concatenate");
    return SymbolicValue();
  }
  auto at = tensors.toAxis(axisArg ? &axisArg->value : nullptr,
                           axisArg ? axisArg->expr : nullptr, operands[0],
                           axisArg ? axisArg->range : range);
  if (!at)
    return SymbolicValue();
  Dims dims = operands[0].dims;
  std::vector<Emitter::Handle> handles = {operands[0].handle};
  for (size_t i = 1; i < operands.size(); ++i) {
    const SymbolicTensor &t = operands[i];
    bool fits = t.elem == operands[0].elem && t.dims.size() == dims.size();
    for (size_t a = 0; fits && a < dims.size(); ++a)
      fits = a == static_cast<size_t>(*at) || t.dims[a] == dims[a];
    if (!fits) {
      bool isOneType = t.elem == operands[0].elem;
      Diagnostic &d = reporter.error(
          208, parts[i].second,
          "cannot concatenate " +
              showShape(operands[0].dims, operands[0].elem) + " and " +
              showShape(t.dims, t.elem) + " along axis " + Twine(*at) +
              (isOneType ? ": the other axes differ" : ": the types differ"));
      if (!isOneType) {
        bool isFirst = t.elem == Elem::Float;
        d.help("convert: `" +
               castOf(sources.text(parts[isFirst ? 0 : i].second),
                      isFirst || operands[0].elem == Elem::Float ? "float"
                                                                 : "int") +
               "`");
      }
      return SymbolicValue();
    }
    dims[*at] = dims[*at] + t.dims[*at];
    handles.push_back(t.handle);
  }
  if (handles.size() == 1)
    return SymbolicValue::tensor(operands[0]);
  return SymbolicValue::tensor(
      {emitter.concat(handles, *at), operands[0].elem, dims});
}

SymbolicValue BuiltinCall::gather() {
  auto table = tensor("table");
  auto ids = ints("ids");
  if (!table || !ids)
    return SymbolicValue();
  if (table->dims.empty()) {
    reporter.error(217, arg("table")->range,
                   "the table of `gather` has at least one axis");
    return SymbolicValue();
  }
  Dims dims = ids->dims;
  dims.append(table->dims.begin() + 1, table->dims.end());
  Emitter::Handle rows = emitter.gather(table->handle, ids->handle);
  lookups.add(rows, sources.text(arg("table")->range).str(), table->dims[0],
              arg("ids")->range);
  return SymbolicValue::tensor({rows, table->elem, dims});
}

SymbolicValue BuiltinCall::positions() {
  auto tokens = ints("tokens");
  if (!tokens)
    return SymbolicValue();
  if (tokens->dims.size() != 2) {
    reporter.error(204, arg("tokens")->range,
                   "`positions` takes token ids int[B, T], not " +
                       showShape(tokens->dims, tokens->elem));
    return SymbolicValue();
  }
  return SymbolicValue::tensor(
      {emitter.positions(tokens->handle), Elem::Int, tokens->dims});
}

std::optional<Dim> BuiltinCall::count() {
  const CallArg &given = *arg("count");
  if (!given.value.isNumber()) {
    wrong(given, "count", "a positive integer");
    return std::nullopt;
  }
  std::optional<Dim> n = dimensions.toDimension(given.value, given.range,
                                                "`count` of `" + name + "`");
  if (!n || !dimensions.isTensorInteger(n->value(), given.range))
    return std::nullopt;
  return n;
}

SymbolicValue BuiltinCall::rangeTensor() {
  std::optional<Dim> n = count();
  if (!n)
    return SymbolicValue();
  return SymbolicValue::tensor(
      {emitter.iota(0, {n->value()}), Elem::Int, {*n}});
}

SymbolicValue BuiltinCall::oneHot() {
  auto ids = ints("ids");
  std::optional<Dim> n = ids ? count() : std::nullopt;
  if (!n)
    return SymbolicValue();
  Dims dims = ids->dims;
  dims.push_back(Dim(1));
  SymbolicTensor column = tensors.reshapeTo(*ids, dims);
  dims.back() = *n;
  if (!dimensions.isStorable(dims, range, "the result"))
    return SymbolicValue();
  llvm::SmallVector<int64_t> shape;
  for (const Dim &dim : dims)
    shape.push_back(dim.value());
  SymbolicTensor wide = tensors.broadcastTo(column, dims);
  auto index = emitter.iota(static_cast<int64_t>(dims.size()) - 1, shape);
  auto equal = emitter.compare("eq", wide.handle, index);
  return SymbolicValue::tensor(
      {emitter.cast(equal, Elem::Float), Elem::Float, dims});
}

SymbolicValue BuiltinCall::dropout() {
  auto x = floats("x");
  auto rate = number("rate", 0);
  if (!x || !rate)
    return SymbolicValue();
  if (*rate < 0 || *rate >= 1) {
    reporter.error(412, arg("rate")->range,
                   "the rate of `dropout` is at least 0 and less than 1, not " +
                       arg("rate")->value.show());
    return SymbolicValue();
  }
  if (*rate == 0 || !current.training)
    return SymbolicValue::tensor(*x);
  return SymbolicValue::tensor(
      {emitter.dropout(x->handle, *rate, current.nextSite++), Elem::Float,
       x->dims});
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

std::optional<SymbolicTensor> BuiltinCall::attentionMask(const Dims &scores) {
  std::optional<SymbolicTensor> result;
  for (StringRef which : {"mask", "bias"}) {
    if (!given(which))
      continue;
    auto t = tensor(which);
    if (!t)
      return std::nullopt;
    if (t->elem == Elem::Int || (which == "bias" && t->elem == Elem::Bool)) {
      reporter.error(
          211, arg(which)->range,
          "`" + which + "` of `attention` is " +
              (which == "mask" ? "truth values or floats" : "floats") +
              ", not " + showShape(t->dims, t->elem));
      return std::nullopt;
    }
    auto dims = maskDims(t->dims, scores,
                         [&](const Dim &dim) { return tensors.isOne(dim); });
    if (!dims) {
      Diagnostic &d =
          reporter.error(214, arg(which)->range,
                         "`" + which + "` " + showShape(t->dims, t->elem) +
                             " does not fit the scores " + showShape(scores));
      if (which == "mask" && t->dims == Dims{scores[0], scores[3]})
        d.help("what says of each key whether it counts is given to all heads "
               "and queries: `rearrange(mask, \"B T -> B 1 1 T\")`");
      return std::nullopt;
    }
    SymbolicTensor own = tensors.reshapeTo(*t, *dims);
    // Queries and keys are spelled out; batch and heads may stay 1.
    Dims full = *dims;
    full[2] = scores[2];
    full[3] = scores[3];
    own = tensors.broadcastTo(own, full);
    if (!result) {
      result = own;
      continue;
    }
    Dims both = *tensors.broadcastDims(result->dims, own.dims);
    SymbolicTensor a = tensors.broadcastTo(*result, both),
                   b = tensors.broadcastTo(own, both);
    if (a.elem == Elem::Float)
      result = tensors.binary("add", a, b);
    else
      result = SymbolicTensor{
          emitter.select(
              a.handle, b.handle,
              tensors.splat(-static_cast<double>(INFINITY), Elem::Float, both)
                  .handle),
          Elem::Float, both};
  }
  return result;
}

std::optional<SymbolicTensor>
BuiltinCall::distanceBias(const Dims &scores, bool causal,
                          std::optional<int64_t> window) {
  auto table = floats("distance_bias");
  if (!table)
    return std::nullopt;
  auto refuse = [&](const Twine &why) {
    reporter.error(214, arg("distance_bias")->range,
                   "`distance_bias` of `attention` to the scores " +
                       showShape(scores) + " is [heads, n], not " +
                       showShape(table->dims) + ": " + why);
    return std::nullopt;
  };
  Dims dims = table->dims;
  if (dims.size() == 1)
    dims.insert(dims.begin(), Dim(1));
  if (dims.size() != 2)
    return refuse("it has a column for every distance");
  if (dims[0] != scores[1] && !tensors.isOne(dims[0]))
    return refuse("the heads differ");
  int64_t columns = dims[1].value();
  int64_t reach = std::max(scores[2].value(), causal ? 1 : scores[3].value());
  if (causal && window)
    reach = std::min(reach, *window);
  if (causal && columns < reach)
    return refuse("with `causal` there are the distances 0 to " +
                  Twine(reach - 1));
  if (!causal && (columns % 2 == 0 || columns < 2 * reach - 1))
    return refuse("there are the distances " + Twine(1 - reach) + " to " +
                  Twine(reach - 1) + ", around the column in the middle");
  SymbolicTensor own = tensors.reshapeTo(*table, dims);
  dims[0] = scores[1];
  return tensors.broadcastTo(own, dims);
}

bool BuiltinCall::attentionFits(const SymbolicTensor &q,
                                const SymbolicTensor &k,
                                const SymbolicTensor &v) {
  for (StringRef which : {"q", "k", "v"}) {
    const SymbolicTensor &t = which == "q" ? q : which == "k" ? k : v;
    if (t.dims.size() == 4)
      continue;
    reporter
        .error(214, arg(which)->range,
               "`" + which +
                   "` of `attention` is [B, heads, T, d], but this is " +
                   showShape(t.dims))
        .help("`rearrange(" + which +
              ", \"B T (heads d) -> B heads T d\")` makes heads");
    return false;
  }
  auto mismatch = [&](StringRef which, const Twine &why) {
    reporter.error(214, arg(which)->range,
                   "`attention` of " + showShape(q.dims) + ", " +
                       showShape(k.dims) + " and " + showShape(v.dims) + ": " +
                       why);
    return false;
  };
  if (q.dims[0] != k.dims[0])
    return mismatch("k", "the batches of queries and keys differ");
  if (q.dims[3] != k.dims[3])
    return mismatch("k", "queries and keys differ in width");
  if (k.dims[0] != v.dims[0] || k.dims[1] != v.dims[1] ||
      k.dims[2] != v.dims[2])
    return mismatch("v", "keys and values differ in batch, heads or length");
  if (q.dims[1].value() % k.dims[1].value() != 0)
    return mismatch("k", "the heads of the queries, " +
                             std::to_string(q.dims[1].value()) +
                             ", are no multiple of those of the keys, " +
                             std::to_string(k.dims[1].value()));
  return true;
}

bool BuiltinCall::attentionNumbers(Emitter::Attention &options,
                                   const Dim &width) {
  auto scale =
      number("scale", 1 / std::sqrt(static_cast<double>(width.value())));
  auto window = integer("window", 0);
  auto softcap = number("softcap", 0);
  if (!scale || !window || !softcap)
    return false;
  options.scale = *scale;
  if (given("window")) {
    if (*window < 1 || *window > mostWindow) {
      Diagnostic &d = reporter.error(
          412, arg("window")->range,
          (*window < 1 ? Twine("`window` is at least 1")
                       : "`window` is at most " + Twine(mostWindow)) +
              ", not " + arg("window")->value.show());
      if (*window > mostWindow)
        d.help("without it all positions are seen");
      return false;
    }
    options.window = window;
  }
  if (given("softcap")) {
    // It and its reciprocal multiply scores, in f32.
    if (*softcap <= 0 || *softcap < 1e-30 || *softcap > 1e30) {
      reporter.error(412, arg("softcap")->range,
                     *softcap <= 0 ? "`softcap` is positive"
                                   : "`softcap` is between 1e-30 and 1e30");
      return false;
    }
    options.softcap = softcap;
  }
  return true;
}

bool BuiltinCall::attentionTensors(Emitter::Attention &options,
                                   const Dims &scores) {
  if (given("mask") || given("bias")) {
    auto mask = attentionMask(scores);
    if (!mask)
      return false;
    options.mask = mask->handle;
  }
  if (given("distance_bias")) {
    auto bias = distanceBias(scores, options.causal, options.window);
    if (!bias)
      return false;
    options.distanceBias = bias->handle;
  }
  return true;
}

void BuiltinCall::noteLookingAhead(const Emitter::Attention &options,
                                   const Dims &scores) {
  auto isSequence = [](const Dim &dim) { return dim.str() == "T"; };
  // A mask or bias may hide what is to come.
  if (current.training || current.looksAhead || options.causal ||
      options.mask || options.window || !isSequence(scores[2]) ||
      !isSequence(scores[3]))
    return;
  const Call *caller = reporter.callerOfStd(range);
  current.looksAhead = caller ? caller->range : range;
}

SymbolicValue BuiltinCall::attention() {
  auto q = floats("q"), k = floats("k"), v = floats("v");
  auto causal = flag("causal");
  auto drop = number("dropout", 0);
  if (!q || !k || !v || !causal || !drop || !attentionFits(*q, *k, *v))
    return SymbolicValue();
  if (*drop < 0 || *drop >= 1) {
    reporter.error(412, arg("dropout")->range,
                   "`dropout` is at least 0 and less than 1, not " +
                       arg("dropout")->value.show());
    return SymbolicValue();
  }
  Emitter::Attention options;
  options.q = q->handle;
  options.k = k->handle;
  options.v = v->handle;
  options.causal = *causal;
  const Dims scores = {q->dims[0], q->dims[1], q->dims[2], k->dims[2]};
  if (!attentionNumbers(options, q->dims[3]) ||
      !dimensions.isStorable(scores, range,
                             "attention to all pairs of positions") ||
      !attentionTensors(options, scores))
    return SymbolicValue();
  if (current.training && *drop > 0) {
    options.dropout = *drop;
    options.site = current.nextSite++;
  }
  noteLookingAhead(options, scores);
  current.keepsKeys |= options.causal;
  Dims dims = q->dims;
  dims[3] = v->dims[3];
  tensors.locate(range);
  return SymbolicValue::tensor({emitter.attention(options), Elem::Float, dims});
}

SymbolicValue BuiltinCall::rope() {
  auto x = floats("x");
  auto at = ints("positions");
  auto base = number("base", 10000);
  auto interleaved = flag("interleaved");
  auto amplitude = number("amplitude", 1);
  if (!x || !at || !base || !interleaved || !amplitude)
    return SymbolicValue();
  if (x->dims.size() != 4) {
    reporter.error(215, arg("x")->range,
                   "`rope` rotates [B, heads, T, d], not " +
                       showShape(x->dims));
    return SymbolicValue();
  }
  if (at->dims.size() != 2 || at->dims[0] != x->dims[0] ||
      at->dims[1] != x->dims[2]) {
    reporter.error(215, arg("positions")->range,
                   "the positions of " + showShape(x->dims) + " are int[" +
                       x->dims[0].str(true) + ", " + x->dims[2].str(true) +
                       "], not " + showShape(at->dims, Elem::Int));
    return SymbolicValue();
  }
  auto dims = integer("dims", x->dims[3].value());
  if (!dims)
    return SymbolicValue();
  if (*dims < 2 || *dims % 2 != 0 || *dims > x->dims[3].value()) {
    reporter.error(215, given("dims") ? arg("dims")->range : arg("x")->range,
                   "`rope` rotates an even number of entries, from 2 to " +
                       SymbolicValue::integer(x->dims[3]).show() + ", not " +
                       Twine(*dims));
    return SymbolicValue();
  }
  if (*base <= 0) {
    reporter.error(412, arg("base")->range, "`base` is positive");
    return SymbolicValue();
  }
  Emitter::Rope options;
  options.x = x->handle;
  options.positions = at->handle;
  options.base = *base;
  options.dims = *dims;
  options.interleaved = *interleaved;
  if (given("amplitude"))
    options.amplitude = amplitude;
  if (given("frequencies")) {
    const CallArg &own = *arg("frequencies");
    auto numbers =
        tensors.elements(own.value, own.range, "`frequencies` of `rope`");
    if (!numbers)
      return SymbolicValue();
    const Dims &shape = own.value.constant()->dims;
    if (shape.size() != 1 || shape[0].value() != *dims / 2) {
      reporter.error(215, own.range,
                     "to rotate " + Twine(*dims) + " entries takes [" +
                         Twine(*dims / 2) + "] frequencies, not " +
                         showShape(shape));
      return SymbolicValue();
    }
    options.frequencies = std::move(*numbers);
  }
  return SymbolicValue::tensor({emitter.rope(options), Elem::Float, x->dims});
}

SymbolicValue BuiltinCall::crossEntropy() {
  auto logits = floats("logits");
  auto targets = ints("targets");
  auto smoothing = number("label_smoothing", 0);
  auto ignore = integer("ignore", 0);
  if (!logits || !targets || !smoothing || !ignore ||
      (given("ignore") &&
       !dimensions.isTensorInteger(*ignore, arg("ignore")->range)))
    return SymbolicValue();
  bool fits = logits->dims.size() == targets->dims.size() + 1;
  for (size_t i = 0; fits && i < targets->dims.size(); ++i)
    fits = logits->dims[i] == targets->dims[i];
  if (!fits) {
    reporter.error(220, arg("targets")->range,
                   "targets " + showShape(targets->dims, Elem::Int) +
                       " do not fit logits " + showShape(logits->dims));
    return SymbolicValue();
  }
  if (*smoothing < 0 || *smoothing >= 1) {
    reporter.error(412, arg("label_smoothing")->range,
                   "`label_smoothing` is at least 0 and less than 1");
    return SymbolicValue();
  }
  std::optional<int64_t> skip;
  if (given("ignore"))
    skip = ignore;
  Emitter::Handle losses =
      emitter.crossEntropy(logits->handle, targets->handle, skip, *smoothing);
  lookups.add(losses, "", logits->dims.back(), arg("targets")->range);
  return SymbolicValue::tensor({losses, Elem::Float, targets->dims});
}

SymbolicValue BuiltinCall::mse() {
  Expr expr;
  expr.range = expr.textRange = range;
  SymbolicValue difference =
      operators.tensorArithmetic("-", arg("a")->value, arg("b")->value, expr);
  if (difference.isPoison())
    return difference;
  const SymbolicTensor &d = difference.tensor();
  if (d.elem != Elem::Float || d.dims.empty()) {
    reporter.error(211, range, "`mse` compares tensors of floats");
    return SymbolicValue();
  }
  SymbolicTensor square = tensors.binary("mul", d, d);
  SymbolicTensor sum =
      tensors.reduceSum(square, static_cast<int64_t>(d.dims.size()) - 1);
  double count = static_cast<double>(d.dims.back().value());
  SymbolicTensor mean = tensors.binary(
      "mul", sum, tensors.splat(1 / count, Elem::Float, sum.dims));
  Dims dims = d.dims;
  dims.pop_back();
  return SymbolicValue::tensor(tensors.reshapeTo(mean, dims));
}
