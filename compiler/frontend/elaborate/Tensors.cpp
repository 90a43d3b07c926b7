//===- Tensors.cpp - helpers on tensors -----------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/frontend/elaborate/Elaborator.h"

#include "llvm/Support/MathExtras.h"

using namespace tfm;
using namespace tfm::ast;
using llvm::StringRef;
using llvm::Twine;

static llvm::SmallVector<int64_t> numbers(llvm::ArrayRef<Dim> dims) {
  llvm::SmallVector<int64_t> shape;
  for (const Dim &dim : dims)
    shape.push_back(dim.value());
  return shape;
}

std::optional<Tensor> Elaborator::toTensor(const Value &value, Range range,
                                           StringRef what) {
  switch (value.kind()) {
  case Value::Poison:
    return std::nullopt;
  case Value::TensorRef:
    return value.tensor();
  case Value::ParamRef: {
    Param &param = *value.param();
    if (frames.empty() || rootDims.empty()) {
      error(411, range,
            "the value of the parameter `" + param.name +
                "` is not known while compiling");
      return std::nullopt;
    }
    for (const Node *repeat : param.owner->repeats())
      if (!emitter.insideRepeat(repeat)) {
        error(604, range,
              "`" + param.name + "` belongs to one layer of `" +
                  repeat->readablePath() +
                  "` and cannot be used outside of it");
        return std::nullopt;
      }
    param.used = true;
    return Tensor{emitter.param(param), Elem::Float, param.dims};
  }
  case Value::ConstRef: {
    Const &constant = *value.constant();
    if (constant.poisoned || !evaluateConst(constant))
      return std::nullopt;
    return Tensor{
        emitter.constant(constant, sources.text(constant.decl->value->range)),
        Elem::Float, constant.dims};
  }
  case Value::Int:
    if (!isTensorInteger(value.dim().value(), range))
      return std::nullopt;
    return Tensor{emitter.splat(value.number(), Elem::Int, {}), Elem::Int, {}};
  case Value::Float:
    return Tensor{
        emitter.splat(value.number(), Elem::Float, {}), Elem::Float, {}};
  case Value::Bool:
    return Tensor{emitter.splat(value.flag(), Elem::Bool, {}), Elem::Bool, {}};
  case Value::PerLayer: {
    if (!spend(value.size() / 32, range))
      return std::nullopt;
    std::vector<double> list;
    bool whole = true;
    for (const Value &item : value.items()) {
      list.push_back(item.number());
      whole &= item.is(Value::Int);
    }
    if (whole)
      for (const Value &item : value.items())
        if (!isTensorInteger(item.dim().value(), range))
          return std::nullopt;
    Elem elem = whole ? Elem::Int : Elem::Float;
    return Tensor{emitter.perLayer(value.owner(), list, elem), elem, {}};
  }
  default: {
    Diagnostic &d =
        error(506, range, what + " takes a tensor, not " + value.describe());
    if (value.is(Value::Builtin) || value.is(Value::Function))
      d.help("call it: `" + sources.text(range) + "(...)`");
    if (value.is(Value::NodeRef)) {
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

std::optional<Tensor> Elaborator::operandTensor(const Value &value,
                                                const Tensor *other,
                                                Range range, StringRef verb) {
  if (!other)
    return std::nullopt;
  if (value.isNumber() || value.is(Value::Bool)) {
    if (other->elem == Elem::Int && value.is(Value::Float)) {
      error(211, range,
            "cannot " + verb + " integers and the float " + value.show())
          .help("convert the integers: `cast(x, float)`");
      return std::nullopt;
    }
    if (value.is(Value::Bool) != (other->elem == Elem::Bool)) {
      error(211, range,
            "cannot " + verb + " " + showShape(other->dims, other->elem) +
                " and " + value.describe());
      return std::nullopt;
    }
    if (other->elem == Elem::Int && value.is(Value::Int) &&
        !isTensorInteger(value.dim().value(), range))
      return std::nullopt;
    double number =
        value.is(Value::Bool) ? (value.flag() ? 1 : 0) : value.number();
    return splat(number, other->elem, other->dims);
  }
  if (value.is(Value::PerLayer)) {
    if (!spend(value.size() / 32, range))
      return std::nullopt;
    std::vector<double> list;
    for (const Value &item : value.items()) {
      list.push_back(item.number());
      if (other->elem == Elem::Int && !item.is(Value::Int)) {
        error(211, range, "cannot " + verb + " integers and floats");
        return std::nullopt;
      }
      if (other->elem == Elem::Int &&
          !isTensorInteger(item.dim().value(), range))
        return std::nullopt;
    }
    Tensor scalar{
        emitter.perLayer(value.owner(), list, other->elem), other->elem, {}};
    return broadcastTo(scalar, other->dims);
  }
  return toTensor(value, range, "`" + verb.str() + "`");
}

bool Elaborator::isTensorInteger(int64_t value, Range range) {
  if (llvm::isInt<32>(value))
    return true;
  error(413, range,
        Twine(value) + " does not fit in the 32 bits of a tensor's integers");
  return false;
}

Tensor Elaborator::splat(double value, Elem elem, const Dims &dims) {
  return {emitter.splat(value, elem, numbers(dims)), elem, dims};
}

Tensor Elaborator::broadcastTo(const Tensor &tensor, const Dims &dims) {
  return {emitter.broadcast(tensor.handle, numbers(dims)), tensor.elem, dims};
}

Tensor Elaborator::reshapeTo(const Tensor &tensor, const Dims &dims) {
  return {emitter.reshape(tensor.handle, numbers(dims)), tensor.elem, dims};
}

Tensor Elaborator::transposeAxes(const Tensor &tensor,
                                 llvm::ArrayRef<int64_t> order) {
  Dims dims;
  for (int64_t axis : order)
    dims.push_back(tensor.dims[axis]);
  return {emitter.transpose(tensor.handle, order), tensor.elem, dims};
}

Tensor Elaborator::binary(StringRef op, const Tensor &a, const Tensor &b) {
  return {emitter.binary(op, a.handle, b.handle), a.elem, a.dims};
}

Tensor Elaborator::reduceSum(const Tensor &x, int64_t axis) {
  Dims dims = x.dims;
  dims[axis] = Dim(1);
  return {emitter.reduceSum(x.handle, axis), Elem::Float, dims};
}

bool Elaborator::isOne(const Dim &dim) const {
  return dim == 1 && !rootDims.contains(dim.name());
}

std::optional<Dims> Elaborator::broadcastDims(const Dims &a, const Dims &b) {
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

std::optional<int64_t> Elaborator::toAxis(const Value *value, const Expr *expr,
                                          const Tensor &tensor, Range range) {
  auto rank = static_cast<int64_t>(tensor.dims.size());
  if (!value) {
    if (rank > 0)
      return rank - 1;
    error(210, range, "a scalar has no axis");
    return std::nullopt;
  }
  // A name that is unique in the shape.
  std::string name;
  if (expr && expr->kind == ExprKind::Name)
    name = expr->text.str();
  else if (value->is(Value::String))
    name = value->text();
  if (!name.empty()) {
    int64_t found = -1;
    int hits = 0;
    for (int64_t i = 0; i < rank; ++i) {
      bool same = tensor.dims[i].str() == name ||
                  (value->is(Value::Int) && !value->dim().isConstant() &&
                   tensor.dims[i].str() == value->dim().str());
      if (same) {
        found = i;
        ++hits;
      }
    }
    if (hits == 1)
      return found;
    if (hits > 1 || value->is(Value::None) || value->is(Value::String) ||
        !value->is(Value::Int) || !value->dim().isConstant()) {
      if (!value->isPoison())
        error(210, range,
              hits > 1 ? "`" + name + "` names more than one axis of " +
                             showShape(tensor.dims, tensor.elem)
                       : "`" + name + "` names no axis of " +
                             showShape(tensor.dims, tensor.elem))
            .help("count from the end: `axis = -2`");
      return std::nullopt;
    }
  }
  if (value->isPoison())
    return std::nullopt;
  if (!value->is(Value::Int)) {
    error(210, range,
          "an axis is an integer or the name of a dimension, not " +
              value->describe());
    return std::nullopt;
  }
  int64_t axis = value->dim().value();
  if (axis < -rank || axis >= rank) {
    error(210, range,
          "axis " + Twine(axis) + " is outside of " +
              showShape(tensor.dims, tensor.elem));
    return std::nullopt;
  }
  return axis < 0 ? axis + rank : axis;
}
