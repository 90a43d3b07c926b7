//===- Names.cpp - the meaning of names -----------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/frontend/elaborate/Names.h"

#include "compiler/frontend/elaborate/Builtins.h"
#include "compiler/frontend/elaborate/UnitReader.h"
#include "llvm/ADT/SmallPtrSet.h"

using namespace tfm;
using namespace tfm::ast;
using llvm::StringRef;
using llvm::Twine;

/// What a file declares or imports under a name.
static std::optional<SymbolicValue>
lookupUnit(StringRef name, const Unit &unit,
           llvm::SmallPtrSetImpl<const Unit *> &seen) {
  if (!seen.insert(&unit).second)
    return std::nullopt;
  if (const ast::Module *module = unit.modules.lookup(name))
    return SymbolicValue::object(SymbolicValue::Module, module, &unit);
  if (const ast::Method *function = unit.functions.lookup(name))
    return SymbolicValue::object(SymbolicValue::Function, function, &unit);
  if (Const *constant = unit.constants.lookup(name))
    return SymbolicValue::object(SymbolicValue::ConstRef, constant);
  for (const Unit *import : unit.imports)
    if (auto value = lookupUnit(name, *import, seen))
      return value;
  return std::nullopt;
}

std::optional<SymbolicValue> Names::lookup(StringRef name, const Scope &scope) {
  auto local = scope.locals.find(name);
  if (local != scope.locals.end())
    return local->second;
  auto dim = scope.dims.find(name);
  if (dim != scope.dims.end())
    return SymbolicValue::integer(dim->second);
  if (scope.binding) {
    auto it = scope.binding->find(name);
    if (it != scope.binding->end())
      return it->second;
  }
  if (scope.self) {
    auto member = scope.self->members.find(name);
    if (member != scope.self->members.end())
      return member->second;
    auto hyper = scope.self->hyperparameters.find(name);
    if (hyper != scope.self->hyperparameters.end())
      return hyper->second;
    if (scope.self->decl)
      if (const Method *method = findMethod(*scope.self, name)) {
        SymbolicValue value = SymbolicValue::object(SymbolicValue::Method,
                                                    method, scope.self->unit);
        value.setText(name);
        value.setOwner(scope.self);
        return value;
      }
  }
  if (scope.unit) {
    llvm::SmallPtrSet<const Unit *, 8> seen;
    if (auto value = lookupUnit(name, *scope.unit, seen))
      return value;
  }
  units.loadStd();
  for (const Unit *unit : compilation.stdUnits) {
    llvm::SmallPtrSet<const Unit *, 8> seen;
    if (auto value = lookupUnit(name, *unit, seen))
      return value;
  }
  if (Builtins::contains(name))
    return SymbolicValue::named(SymbolicValue::Builtin, name);
  return std::nullopt;
}

bool Names::hidesHyperparameter(StringRef name, const Scope &scope) {
  if (!scope.self || scope.locals.contains(name) || scope.dims.contains(name) ||
      (scope.binding && scope.binding->count(name)))
    return false;
  auto member = scope.self->members.find(name);
  auto hyper = scope.self->hyperparameters.find(name);
  // `base = base` makes a member of a module that was handed in.
  return member != scope.self->members.end() &&
         hyper != scope.self->hyperparameters.end() &&
         member->second.is(SymbolicValue::NodeRef) &&
         !hyper->second.is(SymbolicValue::NodeRef);
}

std::vector<std::string> Names::namesOfModule(const Scope &scope) {
  std::vector<std::string> names;
  for (const auto &entry : scope.locals)
    names.push_back(entry.getKey().str());
  for (const auto &entry : scope.dims)
    names.push_back(entry.getKey().str());
  if (scope.binding)
    for (const auto &[name, value] : *scope.binding)
      names.push_back(name.str());
  if (scope.self) {
    for (const auto &[name, value] : scope.self->members)
      names.push_back(name.str());
    for (const auto &[name, value] : scope.self->hyperparameters)
      names.push_back(name.str());
  }
  return names;
}

std::vector<std::string> Names::namesInScope(const Scope &scope) const {
  std::vector<std::string> names = namesOfModule(scope);
  auto addUnitNames = [&](const Unit &unit) {
    for (const auto &entry : unit.modules)
      names.push_back(entry.getKey().str());
    for (const auto &entry : unit.functions)
      names.push_back(entry.getKey().str());
    for (const auto &entry : unit.constants)
      names.push_back(entry.getKey().str());
  };
  if (scope.unit) {
    addUnitNames(*scope.unit);
    for (const Unit *import : scope.unit->imports)
      addUnitNames(*import);
  }
  for (const Unit *unit : compilation.stdUnits)
    addUnitNames(*unit);
  llvm::sort(names);
  return names;
}

bool Names::isUnknownWord(const Expr &expr, const Scope &scope) {
  return expr.kind == ExprKind::Name && expr.text != "true" &&
         expr.text != "false" && expr.text != "none" &&
         !lookup(expr.text, scope);
}
