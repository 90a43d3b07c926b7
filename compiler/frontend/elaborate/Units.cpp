//===- Units.cpp - files, imports, overrides ------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/frontend/elaborate/Elaborator.h"

#include "compiler/frontend/Embedded.h"
#include "compiler/frontend/recipe/Recipe.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Path.h"

using namespace tfm;
using namespace tfm::ast;
using llvm::StringRef;
using llvm::Twine;

bool Elaborator::readSources(uint32_t mainFile, StringRef path) {
  if (!program.mainUnit) {
    program.mainUnit = addUnit(mainFile, path);
    std::vector<const Unit *> open;
    resolveImports(*program.mainUnit, open);
  }
  parseDefines();
  // Elaborating half-understood text would only repeat what was said.
  return !diags.hasErrors();
}

Unit *Elaborator::addUnit(uint32_t file, StringRef path) {
  auto unit = std::make_unique<Unit>();
  unit->file = file;
  if (path != "-")
    unit->folder = llvm::sys::path::parent_path(path).str();
  unit->ast = parseFile(sources, file, diags);
  program.units.push_back(std::move(unit));
  declare(*program.units.back());
  return program.units.back().get();
}

void Elaborator::declare(Unit &unit) {
  auto twice = [&](StringRef name, Range range) {
    if (!unit.modules.contains(name) && !unit.functions.contains(name) &&
        !unit.constants.contains(name))
      return false;
    Range first;
    if (const ast::Module *module = unit.modules.lookup(name))
      first = module->range;
    else if (const ast::Method *function = unit.functions.lookup(name))
      first = function->range;
    else
      first = unit.constants.lookup(name)->decl->range;
    diags.error(905, range, "`" + name + "` is defined twice in this file")
        .help("the first one stands in line " +
              llvm::Twine(sources.line(first)));
    return true;
  };
  for (const auto &module : unit.ast->modules)
    if (!twice(module->name, module->range))
      unit.modules[module->name] = module.get();
  for (const auto &function : unit.ast->functions)
    if (!twice(function->name, function->range))
      unit.functions[function->name] = function.get();
  for (const auto &member : unit.ast->constants) {
    if (twice(member->name, member->range))
      continue;
    program.consts.emplace_back();
    Const &constant = program.consts.back();
    constant.unit = &unit;
    constant.decl = member.get();
    unit.constants[member->name] = &constant;
    Env env;
    env.unit = &unit;
    if (member->indices.empty()) {
      diags
          .error(705, member->range,
                 "the constant `" + member->name + "` has no indices")
          .help("write `const " + member->name + "[i: 8] = ...`");
      constant.poisoned = true;
      continue;
    }
    declareConst(constant, *member, env);
  }
}

void Elaborator::resolveImports(Unit &unit, std::vector<const Unit *> &open) {
  open.push_back(&unit);
  for (const Import &import : unit.ast->imports) {
    llvm::SmallString<128> path(import.path);
    if (!llvm::sys::path::is_absolute(path) && !unit.folder.empty()) {
      path = unit.folder;
      llvm::sys::path::append(path, import.path);
    }
    llvm::sys::path::remove_dots(path, /*remove_dot_dot=*/true);
    // Which would be standard input.
    if (path == "-")
      path = "./-";
    Unit *found = nullptr;
    for (const auto &other : program.units)
      if (sources.file(other->file).name() == path)
        found = other.get();
    if (found && llvm::is_contained(open, found)) {
      diags.error(902, import.range,
                  "`" + import.path + "` imports itself" +
                      (found == &unit
                           ? Twine()
                           : ", through " + sources.file(unit.file).name()));
      continue;
    }
    if (!found) {
      llvm::Expected<uint32_t> file = sources.load(path);
      if (!file) {
        std::string why = llvm::toString(file.takeError());
        diags.error(901, import.range, "cannot read `" + path + "`: " + why)
            .help("the path is relative to the file that imports it");
        continue;
      }
      found = addUnit(*file, path);
      resolveImports(*found, open);
    }
    unit.imports.push_back(found);
  }
  open.pop_back();
}

void Elaborator::loadStd() {
  if (program.stdLoaded)
    return;
  program.stdLoaded = true;
  for (StringRef name : embeddedFileNames()) {
    if (!name.ends_with(".tfm"))
      continue;
    uint32_t file = sources.add("std/" + name.str(), embeddedFile(name));
    Unit *unit = addUnit(file, "-");
    unit->isStd = true;
    program.stdUnits.push_back(unit);
  }
}

//===----------------------------------------------------------------------===//
// -D name=value
//===----------------------------------------------------------------------===//

void Elaborator::parseDefines() {
  for (const auto &[key, text] : options.defines) {
    Define define;
    define.key = key;
    define.text = text;
    // A source of its own, so that messages can point into it.
    uint32_t file = sources.addDefine(key + "=" + text);
    auto begin = static_cast<uint32_t>(key.size() + 1);
    define.range = {file, begin, begin + static_cast<uint32_t>(text.size())};
    // What is wrong with it counts where it is no text.
    define.problems = std::make_unique<Diagnostics>(sources);
    define.value =
        parseExpression(sources, file, defineTrees, *define.problems, begin);
    // The last one counts.
    llvm::erase_if(defines,
                   [&](const Define &other) { return other.key == key; });
    defines.push_back(std::move(define));
  }
}

Elaborator::Define *Elaborator::findDefine(StringRef key) {
  for (Define &define : defines)
    if (define.key == key)
      return &define;
  return nullptr;
}

const Expr *Elaborator::useDefine(Define &define, Wanted wanted) {
  define.used = true;
  StringRef text = define.text;
  int64_t id;
  if (wanted == Wanted::Value || text.starts_with("\"") || text == "none" ||
      (wanted == Wanted::Texts &&
       (text.starts_with("[") || text.starts_with("("))) ||
      (wanted == Wanted::TextOrId && !text.getAsInteger(10, id))) {
    diags.add(*define.problems);
    return define.value;
  }
  std::string quoted = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\')
      quoted += '\\';
    quoted += c;
  }
  quotedDefines.push_back(quoted + '"');
  auto expr = std::make_unique<Expr>();
  expr->kind = ExprKind::String;
  expr->range = define.range;
  expr->text = quotedDefines.back();
  defineTrees.storage.push_back(std::move(expr));
  return defineTrees.storage.back().get();
}

void Elaborator::reportUnusedDefines() {
  for (const Define &define : defines) {
    if (define.used)
      continue;
    // What could have been meant, and where.
    std::vector<std::string> names;
    std::string prefix;
    auto [blockName, entry] = StringRef(define.key).split('.');
    Range name{define.range.file, 0, static_cast<uint32_t>(define.key.size())};
    Diagnostic *d;
    if (entry.empty()) {
      std::string model =
          root ? "`" + root->decl->name.str() + "`" : std::string("the model");
      d = &diags.error(903, name,
                       model + " has no hyperparameter `" + define.key + "`");
      if (root)
        for (const auto &[name, value] : root->hyperparameters)
          names.push_back(name.str());
    } else if (!block(blockName) && !recipeEntries.count(blockName.str())) {
      diags.error(903, name, "the file has no `" + blockName + "` block");
      continue;
    } else {
      // `train.optimizer.lr` is the entry `lr` of `train.optimizer`.
      auto [form, last] = StringRef(define.key).rsplit('.');
      auto entries = recipeEntries.find(form.str());
      auto [outer, inner] = form.rsplit('.');
      if (entries == recipeEntries.end() && !exampleKind(form).empty()) {
        // Within parentheses a text needs its quotes.
        std::string quote = define.value ? "" : "\"";
        diags
            .error(903, name,
                   "`" + outer + "` has no `" + inner + "`, so there is no `" +
                       last + "` of it to set")
            .help("set all of it: `-D '" + form + "=" + exampleKind(form) +
                  "(" + last + " = " + quote + define.text + quote + ")'`");
        continue;
      }
      if (entries == recipeEntries.end()) {
        form = blockName;
        last = entry;
        entries = recipeEntries.find(form.str());
      }
      d = &diags.error(903, name, "`" + form + "` has no entry `" + last + "`");
      prefix = form.str() + ".";
      if (entries != recipeEntries.end())
        names = entries->second;
      entry = last;
    }
    std::string guess = closestName(entry.empty() ? blockName : entry, names);
    // `train.lr` is `train.optimizer.lr`.
    for (const auto &[form, entries] : recipeEntries)
      if (!entry.empty() && StringRef(form).starts_with(prefix) &&
          llvm::is_contained(entries, entry)) {
        prefix = form + ".";
        guess = entry.str();
        break;
      }
    if (!guess.empty())
      d->help("did you mean `" + prefix + guess + "`?");
    else if (!names.empty())
      d->help("it has `" + llvm::join(names, "`, `") + "`");
  }
}

const Block *Elaborator::block(StringRef keyword) const {
  for (const Block &block : program.mainUnit->ast->blocks)
    if (block.keyword == keyword)
      return &block;
  return nullptr;
}
