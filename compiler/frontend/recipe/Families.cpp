//===- Families.cpp - the tables of families ------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/frontend/recipe/Families.h"

#include "compiler/frontend/Embedded.h"
#include "compiler/frontend/recipe/Reading.h"
#include "compiler/frontend/recipe/Recipe.h"
#include "compiler/frontend/syntax/Parser.h"
#include "runtime/files/family.h"
#include "runtime/support/atomic_file.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/Support/Path.h"

#include <nlohmann/json.hpp>

using namespace tfm;
using namespace tfm::ast;
using llvm::Expected;
using llvm::StringRef;
using llvm::Twine;

//===----------------------------------------------------------------------===//
// Where they are
//===----------------------------------------------------------------------===//

std::vector<std::string> tfm::embeddedFamilies() {
  std::vector<std::string> names;
  // What only others include is no type of models, and some share one.
  for (StringRef file : familyFileNames())
    if (familyFile(file).contains("\n  \"model_type\": ") &&
        file.consume_back(".json"))
      names.push_back(file.str());
  return names;
}

std::map<std::string, std::string> tfm::familiesByType() {
  std::map<std::string, std::string> families;
  for (const std::string &name : embeddedFamilies()) {
    families[name] = name;
    StringRef text = familyFile(name + ".json");
    if (!text.contains("\n  \"part_of\": "))
      continue;
    const auto table = nlohmann::json::parse(text.str());
    for (const auto &[whole, key] : table.at("part_of").items())
      families[whole] = name;
  }
  return families;
}

/// `name.json` beside a table that is a file; empty where that is one of the
/// compiler's.
static std::string besideTable(StringRef table, StringRef file) {
  if (!table.ends_with(".json"))
    return "";
  llvm::SmallString<128> path(llvm::sys::path::parent_path(table));
  llvm::sys::path::append(path, file);
  return path.str().str();
}

Expected<nlohmann::json> tfm::readFamilyTable(StringRef name,
                                              std::vector<std::string> *files) {
  std::string first = llvm::sys::path::stem(name).str();
  auto pathOf = [&](const std::string &table) {
    if (table == first)
      return name.ends_with(".json") ? name.str() : std::string();
    std::string path = besideTable(name, table + ".json");
    return !path.empty() && fileExists(path) ? path : std::string();
  };
  auto nameOf = [&](const std::string &table) {
    std::string path = pathOf(table);
    return path.empty() ? table + ".json" : path;
  };
  auto load = [&](const std::string &table) {
    if (std::string path = pathOf(table); !path.empty()) {
      if (files)
        files->push_back(path);
      return readRegularFile(path, "the table of a family");
    }
    StringRef text = familyFile(table + ".json");
    if (text.data() == nullptr)
      throw InputError("there is no family `" + table + "`");
    return text.str();
  };
  Expected<nlohmann::json> all =
      reading([&] { return readFamily(first, load, nameOf); });
  if (all && files && (*all)["model"].is_string())
    if (std::string path =
            besideTable(name, (*all)["model"].get<std::string>());
        !path.empty())
      files->push_back(path);
  return all;
}

Expected<std::string> tfm::readFamilyModel(StringRef name, StringRef model) {
  StringRef text = familyFile(model);
  // One of the user's own may share a model with one of the compiler's.
  if (std::string path = besideTable(name, model);
      !path.empty() && (text.data() == nullptr || fileExists(path)))
    return reading(
        [&] { return readRegularFile(path, "the model of a family"); });
  if (text.data() == nullptr)
    return llvm::createStringError("the family " + name.str() + " has no " +
                                   model.str());
  return text.str();
}

//===----------------------------------------------------------------------===//
// The table of a file
//===----------------------------------------------------------------------===//

/// Whether every name of an expression means something.
static bool isMeaningful(const Expr &expr, RecipeContext &e,
                         const Scope &scope) {
  if (expr.kind == ExprKind::Invalid || e.isUnknownWord(expr, scope))
    return false;
  auto isSo = [&](const Expr *part) { return isMeaningful(*part, e, scope); };
  return llvm::all_of(expr.kids, isSo) &&
         llvm::all_of(expr.args,
                      [&](const Argument &arg) { return isSo(arg.value); });
}

/// A value as binaries have those of hyperparameters.
static llvm::json::Value valueJson(const SymbolicValue &value) {
  switch (value.kind()) {
  case SymbolicValue::Int:
    return value.dim().value();
  case SymbolicValue::Float:
    return value.number();
  case SymbolicValue::Bool:
    return value.flag();
  case SymbolicValue::String:
  case SymbolicValue::Builtin:
    return value.text();
  case SymbolicValue::Function:
    return value.function()->name;
  default:
    return nullptr;
  }
}

/// In the recipe: `{"name", "model_type", "architecture", "ignored", "keys",
/// "unused", "part_of", "gguf", "hyperparameters", "values"}`, where `values`
/// has what expressions of the table come to in this model.
llvm::json::Value RecipeBuilder::familyJson() {
  const auto &given = e.compilation.mainUnit->ast->family;
  if (!given || !e.root)
    return nullptr;
  std::string path = given->name;
  if (StringRef(path).ends_with(".json")) {
    llvm::SmallString<128> beside(e.compilation.mainUnit->folder);
    llvm::sys::path::append(beside, path);
    if (!llvm::sys::path::is_absolute(path))
      path = beside.str().str();
  }
  std::vector<std::string> files;
  Expected<nlohmann::json> table = readFamilyTable(path, &files);
  for (const std::string &file : files)
    e.sources.addNamed(file);
  if (!table) {
    Diagnostic &d =
        e.diags.error(812, given->range, llvm::toString(table.takeError()));
    if (!StringRef(path).ends_with(".json"))
      e.suggest(d, path, embeddedFamilies());
    return nullptr;
  }
  Scope scope;
  scope.unit = e.compilation.mainUnit;
  scope.self = e.root;
  llvm::json::Object values;
  for (const std::string &text : expressionsOf(*table)) {
    Diagnostics problems(e.sources);
    uint32_t file = e.sources.add("the family " + given->name, text);
    ast::File owner;
    const Expr *expr = parseExpression(e.sources, file, owner, problems);
    // A hyperparameter may have gone: then nobody knows.
    if (!expr || problems.hasErrors() || !isMeaningful(*expr, e, scope))
      continue;
    // Nor of what this model makes no value of: `width / heads`, where heads
    // are as wide as another key says. (Errors of budgets end everything.)
    size_t before = e.diags.size();
    SymbolicValue value = e.eval(*expr, scope);
    if (e.diags.size() > before && e.diags.errors().back().code != 512)
      e.diags.dropBehind(before);
    else
      values[text] = valueJson(value);
  }
  llvm::json::Array hyperparameters, ignored;
  for (const auto &[name, value] : e.root->hyperparameters)
    hyperparameters.push_back(name);
  for (const std::string &key : given->ignored)
    ignored.push_back(key);
  llvm::json::Object out{
      {"name", given->name},
      {"model_type", (*table)["model_type"].get<std::string>()},
      {"hyperparameters", std::move(hyperparameters)},
      {"ignored", std::move(ignored)},
      {"values", std::move(values)}};
  if (auto name = table->find("architecture"); name != table->end())
    out["architecture"] = name->get<std::string>();
  for (const char *member : {"keys", "unused", "part_of", "gguf"})
    if (auto found = table->find(member); found != table->end())
      out[member] = llvm::cantFail(llvm::json::parse(found->dump()));
  return std::move(out);
}
