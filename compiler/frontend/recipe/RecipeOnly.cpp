//===- RecipeOnly.cpp - which parameters are trained ----------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/frontend/recipe/Recipe.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/GlobPattern.h"

using namespace tfm;
using llvm::StringRef;
namespace json = llvm::json;

/// The pattern for the part of a parameter's name that is most like what stands
/// between the stars of `pattern`; empty where none is close.
static std::string closestPattern(StringRef pattern,
                                  const std::deque<Param> &params) {
  llvm::StringMap<std::string> patterns;
  std::vector<std::string> parts;
  for (const Param &param : params) {
    std::string path = param.path();
    llvm::SmallVector<StringRef> names;
    StringRef(path).split(names, '.');
    for (size_t begin = 0; begin < names.size(); ++begin)
      for (size_t end = begin + 1; end <= names.size(); ++end) {
        if (names[begin] == "*" || names[end - 1] == "*")
          continue;
        std::string part =
            llvm::join(llvm::ArrayRef(names).slice(begin, end - begin), ".");
        std::string around =
            (begin ? "*." : "") + part + (end < names.size() ? ".*" : "");
        if (patterns.try_emplace(part, around).second)
          parts.push_back(part);
      }
  }
  StringRef core = pattern.trim("*.");
  // What begins so, somewhere in a name.
  const std::string wider = "*." + core.str() + "*";
  auto glob = llvm::GlobPattern::create(wider);
  if (!glob) {
    llvm::consumeError(glob.takeError());
  } else if (!core.empty()) {
    for (const Param &param : params)
      if (glob->match(param.path()))
        return wider;
  }
  auto found = patterns.find(core);
  // What begins almost so.
  if (found == patterns.end() && !core.empty() && pattern.ends_with("*") &&
      !pattern.ends_with(".*")) {
    std::vector<std::string> beginnings;
    for (StringRef part : parts)
      for (size_t size = core.size() - 1; size <= core.size() + 1; ++size)
        beginnings.push_back(part.take_front(size).str());
    if (std::string near = closestName(core, beginnings); !near.empty())
      return "*." + near + "*";
  }
  if (found == patterns.end())
    found = patterns.find(closestName(core, parts));
  return found == patterns.end() ? "" : found->second;
}

json::Value RecipeBuilder::only(Form &train) {
  std::vector<Marker> patterns = texts(train, "only");
  json::Array out;
  for (const Marker &pattern : patterns)
    out.push_back(pattern.text);
  if (Found given = find(train, "only", -1, Wanted::Texts);
      given.expr && given.expr->kind == ast::ExprKind::List &&
      given.expr->kids.empty())
    e.diags
        .error(814, given.range, "`only` names nothing, so nothing is trained")
        .help("`only = none`, or no `only`, trains all parameters");
  // Of a model with mistakes not every name is known.
  if (patterns.empty() || !e.root || e.diags.hasErrors())
    return out;
  std::vector<llvm::GlobPattern> globs;
  for (const Marker &pattern : patterns) {
    auto glob = llvm::GlobPattern::create(pattern.text);
    if (!glob) {
      e.diags.error(814, pattern.range,
                    "this is no pattern of names: " +
                        llvm::toString(glob.takeError()));
      return out;
    }
    globs.push_back(std::move(*glob));
  }
  // Which pattern names what, and whether any names what is trained.
  std::vector<bool> names(globs.size());
  bool leavesSome = false;
  auto naming = [&](const std::string &name) -> const Marker * {
    const Marker *first = nullptr;
    for (auto [i, glob] : llvm::enumerate(globs))
      if (glob.match(name)) {
        names[i] = true;
        first = first ? first : &patterns[i];
      }
    return first;
  };
  for (Param &param : e.params()) {
    const Marker *named = nullptr;
    std::string one, other;
    for (const std::string &name : layerNames(param.owner, param.name)) {
      const Marker *pattern = naming(name);
      one = !named && pattern ? name : one;
      named = named ? named : pattern;
      if (!pattern)
        other = other.empty() ? name : other;
    }
    bool isAlias = false;
    for (const auto &[node, alias] : param.aliases)
      for (const std::string &name : layerNames(node, alias))
        isAlias |= naming(name) != nullptr;
    if (named && !other.empty() && !isAlias) {
      e.diags
          .error(814, named->range,
                 "`only` names `" + one + "`, but not `" + other +
                     "`: the layers of a repeat are trained alike")
          .help("name them all, or make two repeats of them, which leaves "
                "their names as they are: `[repeat(2) Layer(...), repeat(1) "
                "Layer(...)]`");
      return out;
    }
    param.trainable &= named || isAlias;
    leavesSome |= param.trainable;
  }
  for (auto [i, pattern] : llvm::enumerate(patterns)) {
    if (names[i])
      continue;
    Diagnostic &d =
        e.diags.error(814, pattern.range,
                      "no parameter has a name like \"" + pattern.text + "\"");
    std::string guess = closestPattern(pattern.text, e.params());
    d.help(guess.empty()
               ? "`tfmc report --tensors` lists the names; `*` in a pattern "
                 "stands for any text, dots among it"
               : "did you mean \"" + guess + "\"?");
  }
  if (!leavesSome && !e.diags.hasErrors())
    e.diags.error(814, patterns[0].range,
                  "nothing is left to train: what `only` names says "
                  "`trainable = false`");
  return out;
}
