//===- UnusedWarnings.cpp - warnings of what nothing uses -----------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/frontend/elaborate/UnusedWarnings.h"

#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/ADT/StringExtras.h"

using namespace tfm;
using namespace tfm::ast;
using llvm::StringRef;
using llvm::Twine;

//===----------------------------------------------------------------------===//
// What a text reads
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

static void readNames(const TypeExpr &type, llvm::StringSet<> &names) {
  for (const ShapeEntry &entry : type.shape)
    readNames(entry.dim, names);
}

static void readNames(llvm::ArrayRef<Parameter> parameters,
                      llvm::StringSet<> &names) {
  for (const Parameter &parameter : parameters) {
    readNames(parameter.type, names);
    readNames(parameter.value, names);
  }
}

static void readNames(const ast::Method &method, llvm::StringSet<> &names) {
  readNames(method.parameters, names);
  for (const TypeExpr &result : method.results)
    readNames(result, names);
  for (const Stmt &stmt : method.body) {
    readNames(stmt.type, names);
    for (const Expr *value : stmt.values)
      readNames(value, names);
  }
}

static void readNames(const Member &member, llvm::StringSet<> &names) {
  readNames(member.value, names);
  readNames(member.condition, names);
  readNames(member.type, names);
  readNames(member.trainable, names);
  for (const IndexVariable &index : member.indices)
    readNames(index.extent, names);
  if (member.method)
    readNames(*member.method, names);
}

static void readNames(const ast::Module &module, llvm::StringSet<> &names) {
  readNames(module.parameters, names);
  for (const Member &member : module.members)
    readNames(member, names);
}

static void readNames(llvm::ArrayRef<Block> blocks, llvm::StringSet<> &names) {
  for (const Block &block : blocks) {
    readNames(block.value, names);
    for (const Entry &entry : block.entries)
      readNames(entry.value, names);
  }
}

static void readNames(const ast::File &file, llvm::StringSet<> &names) {
  for (const auto &module : file.modules)
    readNames(*module, names);
  for (const auto &function : file.functions)
    readNames(*function, names);
  for (const auto &constant : file.constants)
    readNames(*constant, names);
  readNames(file.model, names);
  readNames(file.blocks, names);
}

//===----------------------------------------------------------------------===//
// Values of a method
//===----------------------------------------------------------------------===//

void UnusedWarnings::warnAboutValues(const Method &method) {
  // From the end: which names somebody still reads.
  llvm::StringSet<> read;
  for (const TypeExpr &result : method.results)
    readNames(result, read);
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
    readNames(stmt.type, read);
    for (const Expr *value : stmt.values)
      readNames(value, read);
  }
}

void UnusedWarnings::warnAboutPrompts() {
  const Method *forward = findMethod(*tree.root, "forward");
  if (!forward || !readsPrompts(*forward))
    return;
  llvm::StringSet<> read;
  for (const Stmt &stmt : forward->body)
    for (const Expr *value : stmt.values)
      readNames(value, read);
  for (const Parameter &input : forward->parameters) {
    if (read.contains(input.name))
      continue;
    if (input.name == "source")
      diags.warning(307, input.range,
                    "`source`, the prompt, is never used: answers do not "
                    "depend on it");
    else if (input.name == "present")
      diags
          .warning(307, input.range,
                   "`present` is never used: what fills up a prompt behind its "
                   "end is read like the prompt")
          .help("`rearrange(present, \"B S -> B 1 1 S\")` is the mask of "
                "attention to it; leave it out where nothing needs one");
  }
}

//===----------------------------------------------------------------------===//
// Parameters
//===----------------------------------------------------------------------===//

void UnusedWarnings::warnAboutParameters() {
  llvm::SmallPtrSet<const Node *, 32> reached;
  for (const Param &param : tree.params)
    for (const Node *node = param.owner; param.used && node;
         node = node->parent)
      reached.insert(node);
  for (const Param &param : tree.params) {
    // What nothing holds is no part of the model.
    if (param.used || !param.owner || param.owner->unnamed())
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
    // Of lists and repeats with the number: `h.1`.
    std::string name = param.name;
    if (unused)
      name = unused->readablePath().substr(holder->readablePath().size() + 1);
    StringRef module = (holder->decl ? holder->decl : tree.root->decl)->name;
    Range range = unused ? unused->range : param.range;
    if (holder->decl)
      for (const Member &member : holder->decl->members)
        if (member.name == name)
          range = member.range;
    // Of a standard module where it was made, which is what can be changed.
    bool isOfStd = compilation.isInStd(range.file);
    for (const Node *made = holder;
         made && compilation.isInStd(range.file) && made->parent;
         made = made->parent)
      range = made->range;
    Diagnostic &d =
        diags.warning(306, range,
                      "`" + name + "` of `" + module +
                          "` is never used: its parameters are not trained");
    if (d.notes.empty() && holder->parent)
      d.note("in " + module + ", as " + holder->readablePath());
    // Of one that the user's own line made, which may say so.
    auto chosen = holder->hyperparameters.find(name);
    if (isOfStd && !unused && range == holder->range &&
        chosen != holder->hyperparameters.end() &&
        chosen->second.is(SymbolicValue::Bool))
      d.help("`" + name + " = false` leaves it out");
  }
}

//===----------------------------------------------------------------------===//
// Names
//===----------------------------------------------------------------------===//

void UnusedWarnings::warnAboutNames(const ast::Module &module,
                                    const llvm::StringSet<> &outside) {
  bool isRoot = tree.root && tree.root->decl == &module;
  llvm::StringSet<> names;
  readNames(module, names);
  if (isRoot)
    readNames(compilation.mainUnit->ast->blocks, names);
  auto isUnused = [&](StringRef name) {
    return !names.contains(name) && !outside.contains(name) &&
           !name.starts_with("_");
  };
  // The length of what a model generates; any module may be the model of a file
  // that imports this one.
  bool mayBeModel = isRoot || module.isModel || !tree.root;
  for (const Parameter &parameter : module.parameters)
    if (isUnused(parameter.name) &&
        !(parameter.name == "context" && mayBeModel))
      diags.warning(308, parameter.range,
                    "the hyperparameter `" + parameter.name + "` of `" +
                        module.name +
                        "` is never used: no value of it changes "
                        "anything");
  auto instance = llvm::find_if(
      tree.nodes, [&](const Node &node) { return node.decl == &module; });
  for (const Member &member : module.members) {
    bool isPlain = member.kind == MemberKind::Const;
    // Of instances only their parameters matter, which are told apart above.
    if (member.kind == MemberKind::Value && instance != tree.nodes.end()) {
      auto value = instance->members.find(member.name);
      isPlain = value != instance->members.end() &&
                !value->second.is(SymbolicValue::NodeRef) &&
                !value->second.is(SymbolicValue::ParamRef);
    }
    if (isPlain && isUnused(member.name))
      diags.warning(309, member.range,
                    "`" + member.name + "` of `" + module.name +
                        "` is never used");
    if (member.kind == MemberKind::Method && isUnused(member.name))
      warnAboutMethod(module, member);
  }
}

void UnusedWarnings::warnAboutMethod(const ast::Module &module,
                                     const Member &member) {
  auto &own = compilation.mainUnit->ast->modules;
  bool isOfMain = llvm::any_of(
      own, [&](const auto &other) { return other.get() == &module; });
  // Any module of a file may be the model, or a part, of one that imports it.
  if (!tree.root || !isOfMain || member.name == "forward" ||
      member.name == "loss")
    return;
  Diagnostic &d = diags.warning(
      309, member.range,
      "`" + member.name + "` of `" + module.name +
          "` is never called, and what it computes is not checked");
  std::vector<std::string> missing;
  for (const char *name : {"forward", "loss"})
    if (llvm::none_of(module.members,
                      [&](const Member &other) { return other.name == name; }))
      missing.push_back(name);
  std::string meant = closestName(member.name, missing);
  if (!meant.empty())
    d.help("did you mean `" + meant + "`?");
}

using UnitSet = llvm::SmallPtrSet<const Unit *, 8>;

/// Whether what is looked for is found in a file or what it imports, each of
/// which is looked at once, in the order in which names are looked up.
static bool findIn(const Unit &unit,
                   llvm::function_ref<bool(const Unit &)> isThere,
                   UnitSet &seen) {
  if (!seen.insert(&unit).second)
    return false;
  return isThere(unit) || llvm::any_of(unit.imports, [&](const Unit *import) {
           return findIn(*import, isThere, seen);
         });
}

/// Whether a file, or what it imports, defines one of the names.
static bool definesAny(const Unit &unit, const llvm::StringSet<> &names) {
  auto isRead = [&](const auto &entry) {
    return names.contains(entry.getKey());
  };
  UnitSet seen;
  return findIn(
      unit,
      [&](const Unit &file) {
        return llvm::any_of(file.modules, isRead) ||
               llvm::any_of(file.functions, isRead) ||
               llvm::any_of(file.constants, isRead);
      },
      seen);
}

/// What a name stands for in a file or in what it imports; null: nothing.
static const void *definitionOf(const Unit &unit, StringRef name) {
  const void *found = nullptr;
  UnitSet seen;
  findIn(
      unit,
      [&](const Unit &file) {
        found = file.modules.lookup(name);
        if (!found)
          found = file.functions.lookup(name);
        if (!found)
          found = file.constants.lookup(name);
        return found != nullptr;
      },
      seen);
  return found;
}

void UnusedWarnings::warnAboutDouble(const Unit &unit, StringRef name) {
  const Import *first = nullptr;
  const void *taken = nullptr;
  for (auto [import, imported] : llvm::zip(unit.ast->imports, unit.imports)) {
    const void *found = definitionOf(*imported, name);
    if (taken && found && found != taken)
      diags
          .warning(311, import.range,
                   "`" + import.path + "` defines `" + name +
                       "`, too, but that of `" + first->path + "` is used")
          .help("rename one of them, or import the file first whose `" + name +
                "` is meant");
    if (!taken && found) {
      taken = found;
      first = &import;
    }
  }
}

void UnusedWarnings::warnAboutItems(const Unit &unit) {
  llvm::StringSet<> names;
  readNames(*unit.ast, names);
  for (const auto &name : names)
    if (!unit.modules.lookup(name.getKey()) &&
        !unit.functions.lookup(name.getKey()) &&
        !unit.constants.lookup(name.getKey()))
      warnAboutDouble(unit, name.getKey());
  // Those that the file leaves to its imports.
  llvm::StringSet<> others;
  overrides.readNames(others);
  for (const auto &name : names)
    others.insert(name.getKey());
  auto drop = [&](const auto &own) {
    for (const auto &entry : own)
      others.erase(entry.getKey());
  };
  drop(unit.modules);
  drop(unit.functions);
  drop(unit.constants);
  for (const auto &constant : unit.ast->constants)
    if (!names.contains(constant->name) && !constant->name.starts_with("_"))
      diags.warning(309, constant->range,
                    "`" + constant->name + "` is never used");
  for (auto [import, imported] : llvm::zip(unit.ast->imports, unit.imports))
    if (!definesAny(*imported, others))
      diags.warning(310, import.range,
                    "nothing of `" + import.path + "` is used here");
}

void UnusedWarnings::warnAboutNames() {
  llvm::StringSet<> outside;
  for (const auto &unit : compilation.units) {
    for (const auto &expr : unit->ast->storage)
      if (expr->kind == ExprKind::Member)
        outside.insert(expr->text);
  }
  for (const auto &unit : compilation.units) {
    if (unit->isStd)
      continue;
    for (const auto &module : unit->ast->modules) {
      warnAboutNames(*module, outside);
      for (const Member &member : module->members)
        if (member.method)
          warnAboutValues(*member.method);
    }
    for (const auto &function : unit->ast->functions)
      warnAboutValues(*function);
  }
  // A file without a model may be there for what it defines and imports.
  if (tree.root)
    warnAboutItems(*compilation.mainUnit);
}
