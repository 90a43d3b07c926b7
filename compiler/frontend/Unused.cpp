//===- Unused.cpp - warnings of what nothing uses -------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/frontend/Elaborator.h"

#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"

using namespace tfm;
using namespace tfm::ast;
using llvm::StringRef;

//===----------------------------------------------------------------------===//
// Values of a method
//===----------------------------------------------------------------------===//

/// The words of a text: the pattern of `rearrange` may name local values.
static void readWords(StringRef text, llvm::StringSet<> &names) {
  auto inWord = [](char c) { return llvm::isAlnum(c) || c == '_'; };
  while (!text.empty()) {
    StringRef word = text.take_while(inWord);
    if (!word.empty())
      names.insert(word);
    text = text.drop_front(std::max<size_t>(word.size(), 1));
  }
}

/// Adds every name that an expression reads.
static void readNames(const Expr *expr, llvm::StringSet<> &names) {
  if (!expr)
    return;
  if (expr->kind == ExprKind::Name)
    names.insert(expr->text);
  if (expr->kind == ExprKind::String)
    readWords(expr->text, names);
  for (const Expr *kid : expr->kids)
    readNames(kid, names);
  for (const Argument &argument : expr->args)
    readNames(argument.value, names);
  for (const Subscript &subscript : expr->subscripts) {
    readNames(subscript.first, names);
    readNames(subscript.last, names);
  }
}

void Elaborator::warnAboutUnusedValues(const Method &method) {
  // From the end: which names somebody still reads.
  llvm::StringSet<> read;
  for (const TypeExpr &result : method.results)
    for (const ShapeEntry &entry : result.shape)
      readNames(entry.dim, read);
  for (const Stmt &stmt : llvm::reverse(method.body)) {
    if (stmt.kind == StmtKind::Assign) {
      // A shape is a check, and binds dimensions: reason enough for a line. Of
      // several results it is enough that one is used.
      bool isUsed =
          stmt.type.isGiven || llvm::any_of(stmt.targets, [&](const Target &t) {
            return read.contains(t.name) || t.name.starts_with("_");
          });
      if (!isUsed) {
        std::string names;
        for (const Target &target : stmt.targets)
          names += (names.empty() ? "`" : ", `") + target.name.str() + "`";
        diags.warning(307, stmt.targets.front().range,
                      names + (stmt.targets.size() == 1 ? " is" : " are") +
                          " computed here and never used");
      }
      for (const Target &target : stmt.targets)
        read.erase(target.name);
    }
    for (const ShapeEntry &entry : stmt.type.shape)
      readNames(entry.dim, read);
    for (const Expr *value : stmt.values)
      readNames(value, read);
  }
}

//===----------------------------------------------------------------------===//
// Parameters
//===----------------------------------------------------------------------===//

void Elaborator::warnAboutUnusedParameters() {
  llvm::SmallPtrSet<const Node *, 32> reached;
  for (const Param &param : params)
    for (const Node *node = param.owner; param.used && node;
         node = node->parent)
      reached.insert(node);
  for (const Param &param : params) {
    if (param.used || !param.owner)
      continue;
    // The outermost module of which nothing is used.
    const Node *unused = nullptr;
    for (const Node *node = param.owner; node && !reached.contains(node);
         node = node->parent)
      unused = node;
    const Node *holder = unused ? unused->parent : param.owner;
    if (unused && !holder) // The whole model.
      continue;
    while (!holder->decl && holder->parent)
      holder = holder->parent;
    StringRef name = unused ? unused->name : param.name;
    StringRef module = (holder->decl ? holder->decl : root->decl)->name;
    Range range = unused ? unused->range : param.range;
    if (holder->decl)
      for (const Member &member : holder->decl->members)
        if (member.name == name)
          range = member.range;
    Diagnostic &d =
        diags.warning(306, range,
                      "`" + name + "` of `" + module +
                          "` is never used: its parameters are not trained");
    if (d.notes.empty() && holder->parent)
      d.note("in " + module + ", as " + holder->readablePath());
  }
}

void Elaborator::warnAboutUnused() {
  for (const auto &unit : units) {
    if (unit->isStd || !unit->ast)
      continue;
    for (const auto &module : unit->ast->modules)
      for (const Member &member : module->members)
        if (member.method)
          warnAboutUnusedValues(*member.method);
    for (const auto &function : unit->ast->functions)
      warnAboutUnusedValues(*function);
  }
  // A `loss` of the model's own is emitted for training only.
  if (train.present || !findMethod(*root, "loss"))
    warnAboutUnusedParameters();
}
