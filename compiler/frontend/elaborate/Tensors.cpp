//===- Tensors.cpp - ops on tensors with their symbolic shapes ------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/frontend/elaborate/Tensors.h"

#include "compiler/frontend/elaborate/CallerDims.h"
#include "compiler/frontend/elaborate/Consts.h"

#include "llvm/ADT/StringExtras.h"

using namespace tfm;
using namespace tfm::ast;
using llvm::StringRef;
using llvm::Twine;

void Tensors::locate(Range range) {
  // Inside of a function of a file, the module that calls it.
  const Node *node = nullptr;
  for (auto frame = callStack.rbegin(); frame != callStack.rend() && !node;
       ++frame)
    node = frame->node;
  emitter.at(node, sources.file(range.file), range.begin);
}

static llvm::SmallVector<int64_t> numbers(llvm::ArrayRef<Dim> dims) {
  llvm::SmallVector<int64_t> shape;
  for (const Dim &dim : dims)
    shape.push_back(dim.value());
  return shape;
}

std::optional<SymbolicTensor> Tensors::toTensor(const SymbolicValue &value,
                                                Range range, StringRef what) {
  switch (value.kind()) {
  case SymbolicValue::Poison:
    return std::nullopt;
  case SymbolicValue::TensorRef:
    return value.tensor();
  case SymbolicValue::ParamRef: {
    Param &param = *value.param();
    if (callStack.empty() || callerDims.isEmpty()) {
      reporter.error(411, range,
                     "the value of the parameter `" + param.name +
                         "` is not known while compiling");
      return std::nullopt;
    }
    if (const Node *unnamed = param.owner->unnamed()) {
      StringRef text = sources.text(unnamed->range);
      reporter
          .error(607, unnamed->range,
                 "no member holds what is made here, so its `" + param.name +
                     "` has no name")
          .help("make it a member, `name = " + text +
                "`, and use it by its name");
      return std::nullopt;
    }
    for (const Node *repeat : param.owner->repeats())
      if (!emitter.insideRepeat(repeat)) {
        reporter.error(604, range,
                       "`" + param.name + "` belongs to one layer of `" +
                           repeat->readablePath() +
                           "` and cannot be used outside of it");
        return std::nullopt;
      }
    param.used = true;
    return SymbolicTensor{emitter.param(param), Elem::Float, param.dims};
  }
  case SymbolicValue::ConstRef: {
    Const &constant = *value.constant();
    if (constant.poisoned || !consts.evaluate(constant))
      return std::nullopt;
    return SymbolicTensor{
        emitter.constant(constant, sources.text(constant.decl->formula)),
        constant.elem, constant.dims};
  }
  case SymbolicValue::Int:
    if (!dimensions.isTensorInteger(value.dim().value(), range))
      return std::nullopt;
    return SymbolicTensor{
        emitter.splat(value.number(), Elem::Int, {}), Elem::Int, {}};
  case SymbolicValue::Float:
    return SymbolicTensor{
        emitter.splat(value.number(), Elem::Float, {}), Elem::Float, {}};
  case SymbolicValue::Bool:
    return SymbolicTensor{
        emitter.splat(value.flag(), Elem::Bool, {}), Elem::Bool, {}};
  case SymbolicValue::PerLayer: {
    if (!budget.spend(value.size() / 32, range))
      return std::nullopt;
    std::vector<double> list;
    for (const SymbolicValue &item : value.items())
      list.push_back(item.number());
    auto all = [&](SymbolicValue::Kind kind) {
      return llvm::all_of(value.items(), [&](const SymbolicValue &item) {
        return item.is(kind);
      });
    };
    bool whole = all(SymbolicValue::Int);
    if (whole)
      for (const SymbolicValue &item : value.items())
        if (!dimensions.isTensorInteger(item.dim().value(), range))
          return std::nullopt;
    Elem elem = whole                      ? Elem::Int
                : all(SymbolicValue::Bool) ? Elem::Bool
                                           : Elem::Float;
    return SymbolicTensor{
        emitter.perLayer(value.owner(), list, elem), elem, {}};
  }
  default: {
    Diagnostic &d = reporter.error(
        506, range, what + " takes a tensor, not " + value.describe());
    if (value.is(SymbolicValue::Builtin) || value.is(SymbolicValue::Function))
      d.help("call it: `" + sources.text(range) + "(...)`");
    if (value.is(SymbolicValue::List))
      d.help(severalValuesHelp);
    if (value.is(SymbolicValue::NodeRef)) {
      StringRef text = sources.text(range);
      bool hasWeight = value.node()->members.count("weight");
      std::string named =
          hasWeight ? ", or name its parameter: `" + text.str() + ".weight`"
                    : std::string();
      d.help("call it: `" + text + "(x)`" + named);
    }
    return std::nullopt;
  }
  }
}

std::optional<SymbolicTensor> Tensors::toNumbers(const SymbolicValue &value,
                                                 Range range, StringRef what) {
  auto tensor = toTensor(value, range, what);
  if (tensor && tensor->elem == Elem::Bool && value.is(SymbolicValue::ConstRef))
    return SymbolicTensor{emitter.cast(tensor->handle, Elem::Float),
                          Elem::Float, tensor->dims};
  return tensor;
}

std::optional<SymbolicTensor>
Tensors::operandTensor(const SymbolicValue &value, const SymbolicTensor *other,
                       Range range, StringRef verb, StringRef otherText) {
  if (!other)
    return std::nullopt;
  if (value.isNumber() || value.is(SymbolicValue::Bool)) {
    if (other->elem == Elem::Int && value.is(SymbolicValue::Float)) {
      reporter
          .error(211, range,
                 "cannot " + verb + " integers and the float " + value.show())
          .help("convert the integers: `" + castOf(otherText, "float") + "`");
      return std::nullopt;
    }
    if (value.is(SymbolicValue::Bool) != (other->elem == Elem::Bool)) {
      reporter.error(211, range,
                     "cannot " + verb + " " +
                         showShape(other->dims, other->elem) + " and " +
                         value.describe());
      return std::nullopt;
    }
    if (other->elem == Elem::Int && value.is(SymbolicValue::Int) &&
        !dimensions.isTensorInteger(value.dim().value(), range))
      return std::nullopt;
    double number =
        value.is(SymbolicValue::Bool) ? (value.flag() ? 1 : 0) : value.number();
    if (other->elem == Elem::Float && std::isfinite(number) &&
        !std::isfinite(static_cast<float>(number))) {
      reporter.error(413, range,
                     value.show() + " is beyond the floats of tensors, of 32 "
                                    "bits: up to 3.4e38");
      return std::nullopt;
    }
    return splat(number, other->elem, other->dims);
  }
  if (value.is(SymbolicValue::PerLayer)) {
    if (!budget.spend(value.size() / 32, range))
      return std::nullopt;
    std::vector<double> list;
    for (const SymbolicValue &item : value.items()) {
      list.push_back(item.number());
      if (item.is(SymbolicValue::Bool) != (other->elem == Elem::Bool)) {
        reporter.error(211, range,
                       "cannot " + verb + " " +
                           showShape(other->dims, other->elem) + " and " +
                           value.describe());
        return std::nullopt;
      }
      if (other->elem == Elem::Int && !item.is(SymbolicValue::Int)) {
        reporter.error(211, range, "cannot " + verb + " integers and floats");
        return std::nullopt;
      }
      if (other->elem == Elem::Int &&
          !dimensions.isTensorInteger(item.dim().value(), range))
        return std::nullopt;
    }
    SymbolicTensor scalar{
        emitter.perLayer(value.owner(), list, other->elem), other->elem, {}};
    return broadcastTo(scalar, other->dims);
  }
  return toTensor(value, range, "`" + verb.str() + "`");
}

SymbolicTensor Tensors::splat(double value, Elem elem, const Dims &dims) {
  return {emitter.splat(value, elem, numbers(dims)), elem, dims};
}

SymbolicTensor Tensors::broadcastTo(const SymbolicTensor &tensor,
                                    const Dims &dims) {
  return {emitter.broadcast(tensor.handle, numbers(dims)), tensor.elem, dims};
}

SymbolicTensor Tensors::reshapeTo(const SymbolicTensor &tensor,
                                  const Dims &dims) {
  return {emitter.reshape(tensor.handle, numbers(dims)), tensor.elem, dims};
}

SymbolicTensor Tensors::transposeAxes(const SymbolicTensor &tensor,
                                      llvm::ArrayRef<int64_t> order) {
  Dims dims;
  for (int64_t axis : order)
    dims.push_back(tensor.dims[axis]);
  return {emitter.transpose(tensor.handle, order), tensor.elem, dims};
}

SymbolicTensor Tensors::binary(StringRef op, const SymbolicTensor &a,
                               const SymbolicTensor &b) {
  return {emitter.binary(op, a.handle, b.handle), a.elem, a.dims};
}

SymbolicTensor Tensors::reduceSum(const SymbolicTensor &x, int64_t axis) {
  Dims dims = x.dims;
  dims[axis] = Dim(1);
  return {emitter.reduceSum(x.handle, axis), Elem::Float, dims};
}

bool Tensors::isOne(const Dim &dim) const {
  return dim == 1 && !callerDims.contains(dim.name());
}

std::optional<std::vector<double>>
Tensors::elements(const SymbolicValue &value, Range range, StringRef what) {
  if (value.isPoison())
    return std::nullopt;
  if (!value.is(SymbolicValue::ConstRef)) {
    reporter.error(411, range,
                   what + " takes a `const`, not " + value.describe());
    return std::nullopt;
  }
  Const &constant = *value.constant();
  if (constant.poisoned || !consts.evaluate(constant))
    return std::nullopt;
  if (constant.perLayer) {
    reporter.error(605, range, what + " may not depend on the layer's index");
    return std::nullopt;
  }
  std::vector<double> numbers(constant.values.begin(), constant.values.end());
  int64_t all = 1;
  for (const Dim &dim : constant.dims)
    all *= dim.value();
  numbers.resize(static_cast<size_t>(all));
  return numbers;
}

/// Where the axes of `narrow` stand among those of `wide`, in their order and
/// by their names; none where that is not one way alone.
static std::optional<llvm::SmallVector<size_t>> placesOf(const Dims &narrow,
                                                         const Dims &wide) {
  auto isSame = [](const Dim &x, const Dim &y) { return x.str() == y.str(); };
  // What is found from the left, and from the right.
  llvm::SmallVector<size_t> first, last;
  for (size_t i = 0; i < wide.size() && first.size() < narrow.size(); ++i)
    if (isSame(wide[i], narrow[first.size()]))
      first.push_back(i);
  for (size_t i = wide.size(); i > 0 && last.size() < narrow.size(); --i)
    if (isSame(wide[i - 1], narrow[narrow.size() - 1 - last.size()]))
      last.push_back(i - 1);
  std::reverse(last.begin(), last.end());
  if (first.size() < narrow.size() || first != last)
    return std::nullopt;
  return first;
}

void Tensors::helpWithAxes(Diagnostic &d, const Dims &a, StringRef aText,
                           const Dims &b, StringRef bText) const {
  bool isLeft = a.size() < b.size();
  const Dims &narrow = isLeft ? a : b, &wide = isLeft ? b : a;
  auto places = placesOf(narrow, wide);
  if (!places || narrow.empty())
    return;
  std::string from, to;
  for (size_t axis = 0, next = 0; axis < wide.size(); ++axis) {
    std::string name = "1";
    if (next < places->size() && (*places)[next] == axis) {
      // A letter for what is no name, or one that stands there twice.
      name = wide[axis].str();
      auto isNamePart = [](char c) { return llvm::isAlpha(c) || c == '_'; };
      bool isTwice = llvm::count_if(narrow, [&](const Dim &dim) {
                       return dim.str() == name;
                     }) > 1;
      if (isTwice || !llvm::all_of(name, isNamePart))
        name = std::string(1, static_cast<char>('a' + next));
      from += (next++ ? " " : "") + name;
    }
    to += (axis ? " " : "") + name;
  }
  d.help("axes are aligned at the last one: `rearrange(" +
         (isLeft ? aText : bText) + ", \"" + from + " -> " + to +
         "\")` gives it those of the other");
}

std::optional<Dims> Tensors::broadcastDims(const Dims &a, const Dims &b) const {
  Dims out;
  size_t rank = std::max(a.size(), b.size());
  for (size_t i = 0; i < rank; ++i) {
    // Aligned at the last axis.
    const Dim *x = i + a.size() >= rank ? &a[i + a.size() - rank] : nullptr;
    const Dim *y = i + b.size() >= rank ? &b[i + b.size() - rank] : nullptr;
    if (!x || !y) {
      out.push_back(x ? *x : *y);
    } else if (*x == *y) {
      // A name says more than a number.
      out.push_back(x->isConstant() ? *y : *x);
    } else if (isOne(*x)) {
      out.push_back(*y);
    } else if (isOne(*y)) {
      out.push_back(*x);
    } else {
      return std::nullopt;
    }
  }
  return out;
}

std::optional<int64_t> Tensors::toAxis(const SymbolicValue *value,
                                       const Expr *expr,
                                       const SymbolicTensor &tensor,
                                       Range range) {
  auto rank = static_cast<int64_t>(tensor.dims.size());
  if (!value) {
    if (rank > 0)
      return rank - 1;
    reporter.error(210, range, "a scalar has no axis");
    return std::nullopt;
  }
  // A name that is unique in the shape.
  std::string name;
  if (expr && expr->kind == ExprKind::Name)
    name = expr->text.str();
  else if (value->is(SymbolicValue::String))
    name = value->text();
  if (!name.empty()) {
    int64_t found = -1;
    int hits = 0;
    // A dimension (a capital) is never the number of an axis, also where its
    // size is known. A hyperparameter may be: `axis = dim`.
    const bool isDimension = name.front() >= 'A' && name.front() <= 'Z';
    for (int64_t i = 0; i < rank; ++i) {
      bool same = tensor.dims[i].str() == name ||
                  (value->is(SymbolicValue::Int) &&
                   (isDimension || !value->dim().isConstant()) &&
                   tensor.dims[i].str() == value->dim().str());
      if (same) {
        found = i;
        ++hits;
      }
    }
    if (hits == 1)
      return found;
    if (hits > 1 || value->is(SymbolicValue::None) ||
        value->is(SymbolicValue::String) || !value->is(SymbolicValue::Int) ||
        isDimension || !value->dim().isConstant()) {
      if (value->isPoison())
        return std::nullopt;
      Diagnostic &d = reporter.error(
          210, range,
          "`" + name + "` names " + (hits > 1 ? "more than one" : "no") +
              " axis of " + showShape(tensor.dims, tensor.elem));
      // `T - 1` may be what is meant.
      const Dim *near = llvm::find_if(
          tensor.dims, [&](const Dim &dim) { return dim.mentions(name); });
      if (hits == 0 && near != tensor.dims.end())
        d.help("that of " + near->str(/*spaced=*/true) +
               " is `axis = " + Twine(near - tensor.dims.end()) + "`");
      else if (hits > 1)
        d.help("the last of them is `axis = " + Twine(found) + "`");
      else
        d.help("count from the end: `axis = -1` is the last axis");
      return std::nullopt;
    }
  }
  if (value->isPoison())
    return std::nullopt;
  if (!value->is(SymbolicValue::Int)) {
    Diagnostic &d = reporter.error(
        210, range,
        "an axis is an integer or the name of a dimension, not " +
            value->describe());
    if (value->is(SymbolicValue::List))
      d.help("take one after the other, `sum(sum(x, axis = 1), axis = 2)`, or "
             "make one of them: `rearrange(x, \"B T w -> B (T w)\")`");
    return std::nullopt;
  }
  int64_t axis = value->dim().value();
  if (axis < -rank || axis >= rank) {
    reporter.error(210, range,
                   "axis " + Twine(axis) + " is outside of " +
                       showShape(tensor.dims, tensor.elem));
    return std::nullopt;
  }
  return axis < 0 ? axis + rank : axis;
}
