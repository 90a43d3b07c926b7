//===- UnitReader.cpp - reads files, what they import, and std ------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/frontend/elaborate/UnitReader.h"

#include "compiler/frontend/Embedded.h"
#include "compiler/frontend/elaborate/Consts.h"
#include "compiler/frontend/elaborate/Scope.h"
#include "compiler/frontend/syntax/Parser.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/Support/Path.h"

using namespace tfm;
using namespace tfm::ast;
using llvm::StringRef;
using llvm::Twine;

void UnitReader::readMain(uint32_t mainFile, StringRef path) {
  if (compilation.mainUnit)
    return;
  compilation.mainUnit = addUnit(mainFile, path);
  std::vector<const Unit *> open;
  resolveImports(*compilation.mainUnit, open);
}

Unit *UnitReader::addUnit(uint32_t file, StringRef path) {
  auto unit = std::make_unique<Unit>();
  unit->file = file;
  if (path != "-")
    unit->folder = llvm::sys::path::parent_path(path).str();
  unit->ast = parseFile(sources, file, diags);
  compilation.units.push_back(std::move(unit));
  declare(*compilation.units.back());
  return compilation.units.back().get();
}

void UnitReader::declare(Unit &unit) {
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
    // Functions are declared behind all modules.
    if (range.begin < first.begin)
      std::swap(range, first);
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
    compilation.consts.emplace_back();
    Const &constant = compilation.consts.back();
    constant.unit = &unit;
    constant.decl = member.get();
    unit.constants[member->name] = &constant;
    Scope scope;
    scope.unit = &unit;
    if (member->indices.empty()) {
      diags
          .error(705, member->range,
                 "the constant `" + member->name + "` has no indices")
          .help("write `const " + member->name +
                "[i: 8] = ...`; a number is a member of a module, `" +
                member->name + " = 3`, or a default: `module Block(" +
                member->name + " = 3)`");
      constant.poisoned = true;
      continue;
    }
    consts.declare(constant, *member, scope);
  }
}

void UnitReader::resolveImports(Unit &unit, std::vector<const Unit *> &open) {
  open.push_back(&unit);
  for (const Import &import : unit.ast->imports) {
    if (import.path.empty()) {
      diags.error(901, import.range, "this import names no file");
      continue;
    }
    llvm::SmallString<128> path(import.path);
    if (!llvm::sys::path::is_absolute(path) && !unit.folder.empty()) {
      path = unit.folder;
      llvm::sys::path::append(path, import.path);
    }
    llvm::sys::path::remove_dots(path, /*remove_dot_dot=*/true);
    if (path.empty())
      path = ".";
    // Which would be standard input.
    if (path == "-")
      path = "./-";
    Unit *found = nullptr;
    for (const auto &other : compilation.units)
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

void UnitReader::loadStd() {
  if (compilation.stdLoaded)
    return;
  compilation.stdLoaded = true;
  for (StringRef name : embeddedFileNames()) {
    if (!name.ends_with(".tfm"))
      continue;
    uint32_t file = sources.add("std/" + name.str(), embeddedFile(name));
    Unit *unit = addUnit(file, "-");
    unit->isStd = true;
    compilation.stdUnits.push_back(unit);
  }
}
