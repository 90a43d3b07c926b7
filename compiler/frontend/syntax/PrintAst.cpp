//===- PrintAst.cpp - the syntax tree as text -----------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/frontend/syntax/PrintAst.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/raw_ostream.h"

using namespace tfm;
using namespace tfm::ast;

template <typename Range, typename Print>
static std::string list(const Range &range, Print print) {
  std::vector<std::string> parts;
  parts.reserve(llvm::range_size(range));
  for (const auto &element : range)
    parts.push_back(print(element));
  return llvm::join(parts, ", ");
}

static std::string printPointer(const Expr *expr) {
  return expr ? printExpr(*expr) : "";
}

static std::string printSubscript(const Subscript &subscript) {
  std::string text = printPointer(subscript.first);
  if (subscript.isSlice)
    text += ":" + printPointer(subscript.last);
  return text;
}

static std::string printArgument(const Argument &argument) {
  std::string name = argument.name.empty() ? "" : argument.name.str() + " = ";
  return name + printExpr(*argument.value);
}

std::string tfm::printExpr(const Expr &expr) {
  auto kid = [&](size_t i) { return printExpr(*expr.kids[i]); };
  std::string text = expr.text.str();
  switch (expr.kind) {
  case ExprKind::Integer:
    return std::to_string(expr.integer);
  case ExprKind::Float: {
    std::string digits;
    llvm::raw_string_ostream(digits) << expr.number;
    return digits;
  }
  case ExprKind::String:
  case ExprKind::Name:
    return text;
  case ExprKind::Member:
    return kid(0) + "." + text;
  case ExprKind::Call:
    return kid(0) + "(" + list(expr.args, printArgument) + ")";
  case ExprKind::Index:
    return kid(0) + "[" + list(expr.subscripts, printSubscript) + "]";
  case ExprKind::Unary:
    return "(" + text + " " + kid(0) + ")";
  case ExprKind::Binary:
    return "(" + kid(0) + " " + text + " " + kid(1) + ")";
  case ExprKind::If:
    return "(if " + kid(0) + " then " + kid(1) + " else " + kid(2) + ")";
  case ExprKind::List:
    return "[" + list(expr.kids, printPointer) + "]";
  case ExprKind::Tuple:
    return "(" + list(expr.kids, printPointer) + ",)";
  case ExprKind::Repeat:
    return "repeat(" + kid(0) + ")" + (text.empty() ? "" : " as " + text) +
           " " + kid(1);
  case ExprKind::Invalid:
    break;
  }
  return "<invalid>";
}

static std::string printType(const TypeExpr &type) {
  if (!type.hasShape)
    return type.element.str();
  return type.element.str() + "[" +
         list(type.shape,
              [](const ShapeEntry &entry) {
                return entry.isEllipsis ? ".." : printPointer(entry.dim);
              }) +
         "]";
}

static std::string printParameter(const Parameter &parameter) {
  std::string text = parameter.name.str();
  if (parameter.type.isGiven)
    text += ": " + printType(parameter.type);
  if (parameter.value)
    text += " = " + printExpr(*parameter.value);
  return text;
}

namespace {

class Printer {
public:
  void file(const File &file);
  std::string text;

private:
  void line(unsigned indent, const std::string &what) {
    text += std::string(2 * size_t(indent), ' ') + what + "\n";
  }
  void method(const Method &method, unsigned indent);
  void member(const Member &member, unsigned indent);
  void module(const Module &module);
  void block(const Block &block);
};

} // namespace

void Printer::method(const Method &method, unsigned indent) {
  std::string results = list(method.results, printType);
  line(indent, "method " + method.name.str() + "(" +
                   list(method.parameters, printParameter) + ")" +
                   (results.empty() ? "" : " -> " + results));
  for (const Stmt &stmt : method.body) {
    std::string values = list(stmt.values, printPointer);
    switch (stmt.kind) {
    case StmtKind::Return:
      line(indent + 1, "return " + values);
      break;
    case StmtKind::Require:
      line(indent + 1, "require " + values);
      break;
    case StmtKind::Assign:
      line(indent + 1,
           list(stmt.targets,
                [](const Target &target) { return target.name.str(); }) +
               (stmt.type.isGiven ? ": " + printType(stmt.type)
                                  : std::string()) +
               " = " + values);
      break;
    }
  }
}

void Printer::member(const Member &member, unsigned indent) {
  std::string name = member.name.str(), value = printPointer(member.value);
  std::string condition = printPointer(member.condition);
  switch (member.kind) {
  case MemberKind::Value:
    return line(indent, "value " + name + " = " + value);
  case MemberKind::Require:
    return line(indent, "require " + value +
                            (condition.empty() ? "" : ", " + condition));
  case MemberKind::Const:
    return line(indent, "const " + name + "[" +
                            list(member.indices,
                                 [](const IndexVariable &index) {
                                   return index.name.str() + ": " +
                                          printPointer(index.extent);
                                 }) +
                            "] = " + value);
  case MemberKind::Param:
    if (!value.empty())
      value = " = " + value;
    if (!condition.empty())
      condition = " if " + condition;
    if (member.trainable)
      condition += ", trainable = " + printExpr(*member.trainable);
    return line(indent, "param " + name + ": " + printType(member.type) +
                            value + condition);
  case MemberKind::Method:
    return method(*member.method, indent);
  }
}

void Printer::module(const Module &module) {
  line(0, (module.isModel ? "model " : "module ") + module.name.str() + "(" +
              list(module.parameters, printParameter) + ")");
  for (const Member &entry : module.members)
    member(entry, 1);
}

void Printer::block(const Block &block) {
  line(0, block.keyword.str() +
              (block.value ? " " + printExpr(*block.value) : ""));
  for (const Entry &entry : block.entries)
    line(1, entry.key.str() + " = " + printPointer(entry.value));
}

void Printer::file(const File &file) {
  for (const Item &item : file.items) {
    switch (item.kind) {
    case ItemKind::Import:
      line(0, "import \"" + file.imports[item.index].path + "\"");
      break;
    case ItemKind::Family: {
      std::string text = "family \"" + file.family->name + "\"";
      for (const std::string &key : file.family->ignored)
        text +=
            (&key == &file.family->ignored.front() ? " ignoring \"" : ", \"") +
            key + "\"";
      line(0, text);
      break;
    }
    case ItemKind::Module:
      module(*file.modules[item.index]);
      break;
    case ItemKind::Function:
      method(*file.functions[item.index], 0);
      break;
    case ItemKind::Const:
      member(*file.constants[item.index], 0);
      break;
    case ItemKind::Model:
      line(0, "model = " + printPointer(file.model));
      break;
    case ItemKind::Block:
      block(file.blocks[item.index]);
      break;
    }
  }
}

std::string tfm::printAst(const File &file) {
  Printer printer;
  printer.file(file);
  return std::move(printer.text);
}
