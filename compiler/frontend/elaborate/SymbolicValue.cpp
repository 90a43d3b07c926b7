//===- SymbolicValue.cpp - what expressions evaluate to -------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/frontend/elaborate/SymbolicValue.h"

#include "compiler/frontend/elaborate/InstanceTree.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

using namespace tfm;
using namespace tfm::ast;
using llvm::StringRef;
using llvm::Twine;

SymbolicValue SymbolicValue::integer(Dim dim) {
  SymbolicValue v(Int);
  v.whole = std::move(dim);
  return v;
}

SymbolicValue SymbolicValue::real(double number) {
  SymbolicValue v(Float);
  v.fraction = number;
  return v;
}

SymbolicValue SymbolicValue::boolean(bool flag) {
  SymbolicValue v(Bool);
  v.truth = flag;
  return v;
}

SymbolicValue SymbolicValue::string(std::string text) {
  SymbolicValue v(String);
  v.name = std::move(text);
  return v;
}

SymbolicValue SymbolicValue::list(std::vector<SymbolicValue> items) {
  SymbolicValue v(List);
  v.setItems(std::move(items));
  return v;
}

void SymbolicValue::setItems(std::vector<SymbolicValue> items) {
  count = 1;
  for (const SymbolicValue &item : items)
    count += item.count;
  elements =
      std::make_shared<const std::vector<SymbolicValue>>(std::move(items));
}

SymbolicValue SymbolicValue::named(Kind kind, llvm::StringRef name) {
  SymbolicValue v(kind);
  v.name = name.str();
  return v;
}

SymbolicValue SymbolicValue::object(Kind kind, const void *object,
                                    const Unit *unit) {
  SymbolicValue v(kind);
  v.target = object;
  v.home = unit;
  return v;
}

SymbolicValue SymbolicValue::tensor(SymbolicTensor tensor) {
  SymbolicValue v(TensorRef);
  v.tensorValue = std::make_shared<const SymbolicTensor>(std::move(tensor));
  return v;
}

SymbolicValue SymbolicValue::perLayer(std::vector<SymbolicValue> items,
                                      Node *repeat) {
  SymbolicValue v(PerLayer);
  v.setItems(std::move(items));
  v.self = repeat;
  return v;
}

bool SymbolicValue::sameAs(const SymbolicValue &other) const {
  if (tag != other.tag)
    return false;
  switch (tag) {
  case Poison:
  case None:
    return true;
  case Int:
    return whole == other.whole;
  case Float:
    return fraction == other.fraction;
  case Bool:
    return truth == other.truth;
  case String:
  case Type:
  case Builtin:
    return name == other.name;
  case Init:
  case List:
  case PerLayer:
    if (name != other.name || elements->size() != other.elements->size())
      return false;
    for (size_t i = 0; i < elements->size(); ++i)
      if (!(*elements)[i].sameAs((*other.elements)[i]))
        return false;
    return true;
  case Method:
    return self == other.self && name == other.name;
  default:
    return target == other.target && tensorValue == other.tensorValue;
  }
}

std::string SymbolicValue::describe() const {
  switch (tag) {
  case Poison:
    return "an unknown value";
  case None:
    return "none";
  case Int:
    return "an integer";
  case Float:
    return "a float";
  case Bool:
    return "a truth value";
  case String:
    return "a string";
  case List:
    return "a list";
  case Type:
    return "a type";
  case Builtin:
  case Function:
  case Method:
    return "a function";
  case Module:
    return "the module `" + module()->name.str() + "` itself";
  case Init:
    return "an initialiser";
  case NodeRef:
    switch (node()->kind) {
    case Node::Kind::Module:
      return "a module (`" + node()->decl->name.str() + "`)";
    case Node::Kind::Repeat:
      return "a repeat of modules";
    case Node::Kind::Layer:
      return "a layer of a repeat";
    case Node::Kind::List:
      return "a list of modules";
    }
    return "a module";
  case ParamRef:
    return "a parameter";
  case ConstRef:
    return "a constant tensor";
  case TensorRef:
    return "a tensor " + showShape(tensor().dims, tensor().elem);
  case PerLayer:
    return items().front().is(Bool) ? "a truth value for each layer"
                                    : "a number for each layer";
  }
  return "a value";
}

/// A text as it is written in a file.
static std::string quote(llvm::StringRef text) {
  std::string quoted = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\')
      quoted += '\\';
    if (c == '\n')
      quoted += "\\n";
    else if (c == '\t')
      quoted += "\\t";
    else
      quoted += c;
  }
  return quoted + '"';
}

std::string SymbolicValue::show() const {
  switch (tag) {
  case Int: {
    std::string formula = whole.str(/*spaced=*/true);
    std::string number = std::to_string(whole.value());
    return formula == number ? number : formula + " = " + number;
  }
  case Float: {
    std::string text;
    llvm::raw_string_ostream(text) << llvm::format("%g", fraction);
    return text;
  }
  case Bool:
    return truth ? "true" : "false";
  case String:
    return quote(name);
  case Builtin:
  case Type:
    return "`" + name + "`";
  default:
    return describe();
  }
}

std::string tfm::showShape(llvm::ArrayRef<Dim> dims, Elem elem) {
  std::string text = elem == Elem::Int    ? "int"
                     : elem == Elem::Bool ? "bool"
                                          : "";
  text += "[";
  for (size_t i = 0; i < dims.size(); ++i)
    text += (i ? ", " : "") + dims[i].str(/*spaced=*/true);
  return text + "]";
}

std::string tfm::showNumbers(llvm::ArrayRef<Dim> dims) {
  std::string text = "[";
  for (size_t i = 0; i < dims.size(); ++i)
    text += (i ? ", " : "") + std::to_string(dims[i].value());
  return text + "]";
}
