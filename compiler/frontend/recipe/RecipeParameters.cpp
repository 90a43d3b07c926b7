//===- RecipeParameters.cpp - entries about parameters by their names -----===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/frontend/recipe/Recipe.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
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
    // Every second layer, `2*+0`, is a name of reports alone.
    for (StringRef &name : names)
      if (name.contains("*+"))
        name = "*";
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
      if (glob->match(layerNames(param.owner, param.name)[0]))
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

bool RecipeBuilder::eachParameter(
    StringRef entry, llvm::ArrayRef<NameRule> rules,
    llvm::function_ref<void(Param &, const NameRule *)> visit) {
  std::vector<llvm::GlobPattern> globs;
  for (const NameRule &rule : rules) {
    auto glob = llvm::GlobPattern::create(rule.pattern.text);
    if (!glob) {
      e.diags.error(814, rule.pattern.range,
                    "this is no pattern of names: " +
                        llvm::toString(glob.takeError()));
      return false;
    }
    globs.push_back(std::move(*glob));
  }
  std::vector<bool> names(globs.size());
  auto ruleOf = [&](const std::string &name) -> const NameRule * {
    const NameRule *last = nullptr;
    for (auto [i, glob] : llvm::enumerate(globs))
      if (glob.match(name)) {
        names[i] = true;
        last = &rules[i];
      }
    return last;
  };
  for (Param &param : e.params()) {
    // One name of a tied parameter is enough.
    const NameRule *ofAlias = nullptr;
    for (const auto &[node, alias] : param.aliases)
      for (const std::string &name : layerNames(node, alias))
        if (const NameRule *rule = ruleOf(name))
          ofAlias = rule;
    std::vector<std::string> layers = layerNames(param.owner, param.name);
    const NameRule *rule = ruleOf(layers[0]);
    for (const std::string &layer : layers) {
      const NameRule *own = ruleOf(layer);
      bool isAlike = rule && own ? rule->value == own->value : rule == own;
      if (isAlike || ofAlias)
        continue;
      std::string what =
          rule && own
              ? llvm::formatv("says {0} of `{1}`, but {2} of `{3}`",
                              SymbolicValue::real(rule->value).show(),
                              layers[0], SymbolicValue::real(own->value).show(),
                              layer)
                    .str()
              : llvm::formatv("names `{0}`, but not `{1}`",
                              rule ? layers[0] : layer,
                              rule ? layer : layers[0])
                    .str();
      e.diags
          .error(814, (rule ? rule : own)->pattern.range,
                 "`" + entry + "` " + what +
                     ": the layers of a repeat are trained alike")
          .help("name them all, or make two repeats of them, which leaves "
                "their names as they are: `[repeat(2) Layer(...), repeat(1) "
                "Layer(...)]`");
      return false;
    }
    visit(param, rule ? rule : ofAlias);
  }
  for (auto [i, rule] : llvm::enumerate(rules)) {
    if (names[i])
      continue;
    Diagnostic &d = e.diags.error(814, rule.pattern.range,
                                  "no parameter has a name like \"" +
                                      rule.pattern.text + "\"");
    std::string guess = closestPattern(rule.pattern.text, e.params());
    d.help(guess.empty()
               ? "`tfmc report --tensors` lists the names; `*` in a pattern "
                 "stands for any text, dots among it"
               : "did you mean \"" + guess + "\"?");
  }
  return true;
}

void RecipeBuilder::warnOfIdle(llvm::ArrayRef<NameRule> rules,
                               const std::vector<bool> &counts,
                               const char *why) {
  if (e.diags.hasErrors())
    return;
  for (auto [i, rule] : llvm::enumerate(rules))
    if (!counts[i])
      hasNoEffect(rule.pattern.range,
                  "\"" + rule.pattern.text + "\" does nothing: " + why,
                  "leave it out");
}

std::vector<RecipeBuilder::NameRule>
RecipeBuilder::patterns(Form &train, StringRef entry, json::Array &out) {
  std::vector<NameRule> rules;
  for (const Marker &pattern : texts(train, entry)) {
    rules.push_back({pattern, 1});
    out.push_back(pattern.text);
  }
  return rules;
}

json::Array RecipeBuilder::noDecay(Form &train, const json::Object &optimizer) {
  json::Array out;
  std::vector<NameRule> rules = patterns(train, "no_decay", out);
  // Of a model with mistakes not every name is known.
  if (rules.empty() || !e.root || e.diags.hasErrors())
    return out;
  std::optional<int64_t> minRank = optimizer.getInteger("decay_min_rank");
  std::vector<bool> counts(rules.size());
  bool isRead =
      eachParameter("no_decay", rules, [&](Param &param, const NameRule *rule) {
        if (!rule)
          return;
        param.decays = false;
        if (param.trainable &&
            static_cast<int64_t>(param.dims.size()) >= minRank.value_or(0))
          counts[rule - rules.data()] = true;
      });
  if (isRead && *optimizer.getNumber("weight_decay") == 0)
    hasNoEffect(rules[0].pattern.range,
                "`no_decay` does nothing: no `weight_decay` draws weights to 0",
                "the optimizer has it: `adamw(weight_decay = 0.1)`");
  else if (isRead)
    warnOfIdle(rules, counts,
               "what it names is frozen, does not decay anyway (`decay`), or "
               "is named again behind it");
  return out;
}

json::Value RecipeBuilder::only(Form &train) {
  json::Array out;
  std::vector<NameRule> rules = patterns(train, "only", out);
  if (Found given = find(train, "only", -1, Wanted::Texts);
      given.expr && given.expr->kind == ast::ExprKind::List &&
      given.expr->kids.empty())
    e.diags
        .error(814, given.range, "`only` names nothing, so nothing is trained")
        .help("`only = none`, or no `only`, trains all parameters");
  // Of a model with mistakes not every name is known.
  if (rules.empty() || !e.root || e.diags.hasErrors())
    return out;
  bool leavesSome = false;
  bool isRead =
      eachParameter("only", rules, [&](Param &param, const NameRule *rule) {
        param.trainable &= rule != nullptr;
        leavesSome |= param.trainable;
      });
  if (isRead && !leavesSome && !e.diags.hasErrors())
    e.diags.error(814, rules[0].pattern.range,
                  "nothing is left to train: what `only` names says "
                  "`trainable = false`");
  return out;
}

json::Array RecipeBuilder::rates(Form &train) {
  json::Array out;
  Found found = find(train, "rates");
  if (!found.expr)
    return out;
  SymbolicValue given = value(found);
  if (given.isPoison() || given.is(SymbolicValue::None))
    return out;
  auto isPair = [](const SymbolicValue &pair) {
    return pair.is(SymbolicValue::List) && pair.items().size() == 2 &&
           pair.items()[0].is(SymbolicValue::String);
  };
  std::vector<NameRule> rules;
  auto add = [&](const SymbolicValue &pair, Range range) {
    if (pair.isPoison() || (isPair(pair) && pair.items()[1].isPoison()))
      return;
    if (!isPair(pair) || !pair.items()[1].isNumber() ||
        !(pair.items()[1].number() > 0)) {
      Diagnostic &d = e.diags.error(
          802, range,
          "`rates` takes pairs of a pattern and a positive number, not " +
              (isPair(pair) ? pair.items()[1] : pair).show());
      if (isPair(pair) && pair.items()[1].isNumber())
        d.help("`only` says what is trained, and freezes all else");
      else
        d.help("such as `rates = (\"wte.*\", 0.1)`, or `[(\"wte.*\", 0.1), "
               "(\"head.*\", 2)]`");
      return;
    }
    rules.push_back(
        {{pair.items()[0].text(), range}, pair.items()[1].number()});
    out.push_back(json::Array{pair.items()[0].text(), rules.back().value});
  };
  bool isList = given.is(SymbolicValue::List) && !isPair(given);
  if (!isList)
    add(given, found.range);
  else
    for (auto [i, pair] : llvm::enumerate(given.items()))
      add(pair, found.expr->kids.size() > i ? found.expr->kids[i]->range
                                            : found.range);
  if (rules.empty() || !e.root || e.diags.hasErrors())
    return out;
  std::vector<bool> trains(rules.size());
  bool isRead =
      eachParameter("rates", rules, [&](Param &param, const NameRule *rule) {
        if (!rule)
          return;
        param.rate = rule->value;
        if (param.trainable)
          trains[rule - rules.data()] = true;
      });
  if (isRead)
    warnOfIdle(rules, trains,
               "what it names is frozen, or named again behind it");
  return out;
}
