//===- Signatures.cpp - shapes of arguments and results -------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/frontend/elaborate/Signatures.h"

#include "compiler/frontend/elaborate/Dimensions.h"
#include "compiler/frontend/elaborate/Expressions.h"
#include "compiler/frontend/elaborate/Names.h"
#include "compiler/frontend/elaborate/Tensors.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/ADT/StringExtras.h"

using namespace tfm;
using namespace tfm::ast;
using llvm::StringRef;
using llvm::Twine;

/// A capital in a shape is bound by the caller.
static bool isCallerDim(const Expr &expr) {
  return expr.kind == ExprKind::Name && !expr.text.empty() &&
         llvm::isUpper(expr.text[0]);
}

SymbolicValue tfm::asFloat(const SymbolicValue &value) {
  if (value.is(SymbolicValue::Int))
    return SymbolicValue::real(value.number());
  if (!value.is(SymbolicValue::PerLayer))
    return value;
  std::vector<SymbolicValue> items;
  for (const SymbolicValue &item : value.items())
    items.push_back(asFloat(item));
  return SymbolicValue::perLayer(std::move(items), value.owner());
}

bool Signatures::checkShape(const SymbolicTensor &tensor, const TypeExpr &type,
                            Scope &scope, Range range,
                            llvm::function_ref<std::string()> what,
                            ErrorCode code, bool bindDims) {
  auto found = [&] { return showShape(tensor.dims, tensor.elem); };
  StringRef expected = sources.text(type.range);
  Elem elem = elemOf(type.element);
  if (tensor.elem != elem) {
    Diagnostic &d = reporter.error(
        211, range, what() + " is " + expected + ", but this is " + found());
    if (elem == Elem::Int && tensor.elem == Elem::Float)
      d.help("integers are ids or places, such as `tokens` or "
             "`positions(tokens)`; `" +
             castOf(sources.text(range), "int") + "` converts");
    else if (elem == Elem::Float && tensor.elem == Elem::Int &&
             !tensor.dims.empty())
      d.help("`Embedding(entries, width)` gives each id a vector; `" +
             castOf(sources.text(range), "float") + "` converts");
    return false;
  }
  size_t fixed = llvm::count_if(
      type.shape, [](const ShapeEntry &e) { return !e.isEllipsis; });
  bool open = fixed != type.shape.size();
  size_t rank = tensor.dims.size();
  if (open ? rank < fixed : rank != fixed) {
    reporter
        .error(204, range,
               what() + " is " + expected + ", but this is " + found())
        .withLabel(Twine(rank) + (rank == 1 ? " axis" : " axes") +
                   " instead of " + (open ? "at least " : "") + Twine(fixed));
    return false;
  }
  size_t axis = 0;
  for (const ShapeEntry &entry : type.shape) {
    if (entry.isEllipsis) {
      size_t count = rank - fixed;
      Dims some(llvm::ArrayRef(tensor.dims).slice(axis, count));
      axis += count;
      if (bindDims && !scope.ellipsis) {
        scope.ellipsis = some;
      } else if (scope.ellipsis && *scope.ellipsis != some) {
        reporter
            .error(code, range,
                   what() + " is " + expected + ", but this is " + found())
            .withLabel("`..` stands for " + showShape(*scope.ellipsis));
        return false;
      }
      continue;
    }
    const Dim &actual = tensor.dims[axis++];
    const Expr &dim = *entry.dim;
    Dim wanted;
    if (isCallerDim(dim)) {
      auto known = scope.dims.find(dim.text);
      if (known != scope.dims.end()) {
        wanted = known->second;
      } else if (auto value = names.lookup(dim.text, scope);
                 value && value->is(SymbolicValue::Int)) {
        wanted = value->dim();
      } else if (bindDims) {
        scope.dims[dim.text] = actual;
        continue;
      } else {
        reporter
            .error(219, entry.range,
                   "`" + dim.text + "` is bound by no argument")
            .help("a dimension in capitals takes its size from the shape of an "
                  "argument");
        return false;
      }
    } else {
      // A mistake in a signature is the method's, not its caller's.
      bool inSignature = bindDims && !scope.where.empty();
      if (inSignature)
        callStack.push_back({scope.where, scope.self, scope.call});
      llvm::scope_exit restore([&] {
        if (inSignature)
          callStack.pop_back();
        scope.inSignature = false;
      });
      scope.inSignature = true;
      SymbolicValue value = expressions.eval(dim, scope);
      if (value.isPoison())
        return false;
      std::optional<Dim> size = dimensions.toDimension(
          value, entry.range, "a dimension of " + what());
      if (!size)
        return false;
      wanted = *size;
    }
    if (wanted == actual)
      continue;
    std::string name = sources.text(dim.range).str();
    std::string value = SymbolicValue::integer(wanted).show();
    // `width` of the callee may be `2 * width` of the model.
    std::string label;
    if (!wanted.isConstant() && wanted.str(true) == name)
      label = name + " = " + std::to_string(wanted.value());
    else
      label = (scope.self ? "`" + scope.self->decl->name.str() + "` has "
                          : std::string()) +
              (name == value ? value : name + " = " + value);
    // Two modules may use one name for two numbers.
    std::string given = found();
    if (given == expected) {
      Dims dims = tensor.dims;
      dims[axis - 1] = Dim(actual.value());
      given = showShape(dims, tensor.elem);
    }
    Diagnostic &d = reporter.error(
        code, range, what() + " is " + expected + ", but this is " + given);
    d.withLabel(label + ", but here it is " +
                SymbolicValue::integer(actual).show());
    if (code == 205 && scope.self && scope.self->parent && !isCallerDim(dim) &&
        !reporter.callerOfStd(range))
      noteInstance(d, *scope.self, name, actual);
    return false;
  }
  return true;
}

void Signatures::noteInstance(Diagnostic &d, const Node &node, StringRef size,
                              const Dim &actual) {
  StringRef text = sources.text(node.range), module = node.decl->name;
  bool isShort = text.size() <= 60 && !text.contains('\n');
  d.note("`" + (isShort ? text : module) + "` stands in " +
         (node.range.file == d.range.file
              ? "line " + std::to_string(sources.line(node.range))
              : reporter.place(node.range)));
  // Both are there in `Linear` and what is like it.
  auto outputs = node.hyperparameters.find("outputs");
  if (size == "inputs" && outputs != node.hyperparameters.end() &&
      outputs->second.is(SymbolicValue::Int) && outputs->second.dim() == actual)
    d.help("it is `" + module + "(inputs, outputs)`: exchanged they take this");
}

SymbolicValue Signatures::checkValue(const SymbolicValue &value,
                                     const TypeExpr &type, Range range,
                                     llvm::function_ref<std::string()> what) {
  StringRef name = type.element;
  bool fits =
      (name == "int" && value.is(SymbolicValue::Int)) ||
      (name == "float" && value.isNumber()) ||
      (name == "bool" && value.is(SymbolicValue::Bool)) ||
      (name == "string" && value.is(SymbolicValue::String)) ||
      (name == "function" &&
       (value.is(SymbolicValue::Builtin) || value.is(SymbolicValue::Function) ||
        value.is(SymbolicValue::Method) || value.is(SymbolicValue::NodeRef))) ||
      (name == "module" && value.is(SymbolicValue::NodeRef)) ||
      value.is(SymbolicValue::PerLayer);
  if (fits)
    return name == "float" ? asFloat(value) : value;
  Diagnostic &d = reporter.error(
      404, range, what() + " is `" + name + "`, not " + value.describe());
  if ((name == "int" || name == "float") &&
      (value.is(SymbolicValue::TensorRef) || value.is(SymbolicValue::ParamRef)))
    d.help("a tensor has its shape as a type, one of one number `[]`");
  return SymbolicValue();
}

SymbolicValue Signatures::checkArgument(const Parameter &parameter,
                                        SymbolicValue value, Scope &scope,
                                        Range range, StringRef callee) {
  if (value.isPoison() || !parameter.type.isGiven)
    return value;
  auto what = [&] {
    return ("`" + parameter.name + "` of `" + callee + "`").str();
  };
  if (!parameter.type.hasShape)
    return value.is(SymbolicValue::None) && parameter.value
               ? value
               : checkValue(value, parameter.type, range, what);
  // An argument may be left out by `none` where that is its default.
  if (value.is(SymbolicValue::None) && parameter.value)
    return value;
  auto tensor = elemOf(parameter.type.element) == Elem::Float
                    ? tensors.toNumbers(asFloat(value), range, what())
                    : tensors.toTensor(value, range, what());
  if (!tensor)
    return SymbolicValue();
  if (!checkShape(*tensor, parameter.type, scope, range, what, 205,
                  /*bindDims=*/true))
    return SymbolicValue();
  return SymbolicValue::tensor(*tensor);
}

SymbolicValue Signatures::checkResult(SymbolicValue value, const Method &method,
                                      Scope &scope, Range range,
                                      StringRef where) {
  if (method.results.empty() || value.isPoison())
    return value;
  std::vector<SymbolicValue> results;
  bool several = method.results.size() > 1;
  if (several || value.is(SymbolicValue::List)) {
    size_t count = value.is(SymbolicValue::List) ? value.items().size() : 1;
    if (count != method.results.size()) {
      reporter.error(505, range,
                     "`" + where + "` has " + Twine(method.results.size()) +
                         (several ? " results" : " result") +
                         ", but this returns " + Twine(count));
      return SymbolicValue();
    }
    results = value.items();
  } else {
    results = {value};
  }
  bool valid = true;
  for (size_t i = 0; i < results.size(); ++i) {
    const TypeExpr &type = method.results[i];
    if (!type.hasShape)
      continue;
    auto what = [&] { return "the result of `" + where.str() + "`"; };
    if (elemOf(type.element) == Elem::Float)
      results[i] = asFloat(results[i]);
    auto tensor = tensors.toTensor(results[i], range, what());
    if (!tensor || !checkShape(*tensor, type, scope, range, what, 206,
                               /*bindDims=*/false)) {
      valid = false;
      continue;
    }
    // The signature's words are the caller's words for the dimensions, too, but
    // what inference found is in terms of the whole model: keep that.
    results[i] = SymbolicValue::tensor(*tensor);
  }
  if (!valid)
    return SymbolicValue();
  return several ? SymbolicValue::list(std::move(results)) : results[0];
}

SymbolicValue Signatures::promisedResult(const Method &method, Scope &scope) {
  if (method.results.size() != 1 || !method.results[0].hasShape)
    return SymbolicValue();
  Dims dims;
  for (const ShapeEntry &entry : method.results[0].shape) {
    if (entry.isEllipsis) {
      if (!scope.ellipsis)
        return SymbolicValue();
      dims.append(scope.ellipsis->begin(), scope.ellipsis->end());
      continue;
    }
    if (entry.dim->kind == ExprKind::Name &&
        !names.lookup(entry.dim->text, scope))
      return SymbolicValue();
    SymbolicValue value = expressions.eval(*entry.dim, scope);
    if (!value.is(SymbolicValue::Int) || value.dim().value() <= 0)
      return SymbolicValue();
    dims.push_back(value.dim());
  }
  return SymbolicValue::tensor(
      tensors.splat(0, elemOf(method.results[0].element), dims));
}
