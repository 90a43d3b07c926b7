//===- Overrides.cpp - what `-D name=value` sets --------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/frontend/elaborate/Overrides.h"

#include "compiler/frontend/recipe/Recipe.h"
#include "compiler/frontend/syntax/Habits.h"
#include "compiler/frontend/syntax/Parser.h"
#include "llvm/ADT/StringExtras.h"

using namespace tfm;
using namespace tfm::ast;
using llvm::StringRef;
using llvm::Twine;

void Overrides::parse() {
  for (const auto &[key, text] : options.defines) {
    Override define;
    define.key = key;
    define.text = text;
    // A source of its own, so that messages can point into it.
    uint32_t file = sources.addDefine(key + "=" + text);
    auto begin = static_cast<uint32_t>(key.size() + 1);
    define.range = {file, begin, begin + static_cast<uint32_t>(text.size())};
    // What is wrong with it counts where it is no text.
    define.problems = std::make_unique<Diagnostics>(sources);
    define.value =
        parseExpression(sources, file, trees, *define.problems, begin);
    // The last one counts.
    llvm::erase_if(overrides,
                   [&](const Override &other) { return other.key == key; });
    overrides.push_back(std::move(define));
  }
}

Override *Overrides::find(StringRef key) {
  for (Override &define : overrides)
    if (define.key == key)
      return &define;
  return nullptr;
}

const Expr *Overrides::use(Override &define, Wanted wanted) {
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
  std::string literal = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\')
      literal += '\\';
    literal += c;
  }
  quoted.push_back(literal + '"');
  auto expr = std::make_unique<Expr>();
  expr->kind = ExprKind::String;
  expr->range = define.range;
  expr->text = quoted.back();
  trees.storage.push_back(std::move(expr));
  return trees.storage.back().get();
}

void Overrides::readNames(llvm::StringSet<> &read) const {
  for (const auto &expr : trees.storage)
    if (expr->kind == ExprKind::Name)
      read.insert(expr->text);
}

/// What `name` of other libraries is among `entries` of a recipe, else empty.
static StringRef calledHere(StringRef name,
                            llvm::ArrayRef<std::string> entries) {
  for (StringRef habit : {entryHabit(name), argumentHabit(name, entries)})
    if (habit.consume_front("it is called `"))
      return habit.split('`').first;
  return "";
}

void Overrides::reportUnused() {
  for (const Override &define : overrides) {
    if (define.used)
      continue;
    auto [blockName, entry] = StringRef(define.key).split('.');
    if (entry.empty() && !tree.root)
      continue; // that there is no model is told
    if (entry.empty())
      reportNoHyperparameter(define, blockName);
    else if (!compilation.block(blockName) &&
             !recipeEntries.count(blockName.str()))
      reportNoBlock(define, blockName, entry);
    else
      reportNoEntry(define, blockName, entry);
  }
}

Diagnostic &Overrides::error(const Override &define, const Twine &message) {
  Range key{define.range.file, 0, static_cast<uint32_t>(define.key.size())};
  return diags.error(903, key, message);
}

void Overrides::reportNoHyperparameter(const Override &define, StringRef name) {
  std::string model = "`" + tree.root->decl->name.str() + "`";
  Diagnostic &d =
      error(define, model + " has no hyperparameter `" + define.key + "`");
  if (compilation.block(define.key)) {
    d.help("it is a block, whose kind stands in the file; what is in it "
           "is set by `-D " +
           define.key + ".NAME=VALUE`");
    return;
  }
  std::vector<std::string> names;
  for (const auto &[hyperparameter, value] : tree.root->hyperparameters)
    names.push_back(hyperparameter.str());
  // `batch` and `batch_size` are `train.batch`.
  std::vector<std::string> elsewhere;
  for (const auto &[form, entries] : recipeEntries) {
    StringRef own =
        llvm::is_contained(entries, name) ? name : calledHere(name, entries);
    if (llvm::is_contained(entries, own))
      elsewhere.push_back(form + "." + own.str());
  }
  suggest(d, closestName(name, names), elsewhere, names);
}

void Overrides::reportNoBlock(const Override &define, StringRef blockName,
                              StringRef entry) {
  Diagnostic &d = error(define, "the file has no `" + blockName + "` block");
  if (define.key == "train.precision")
    d.help("a build that only generates computes in bf16 with "
           "`-D generate.weights=bf16`");
  else if (tree.root && (blockName == tree.root->decl->name ||
                         tree.root->hyperparameters.count(entry)))
    d.help("a hyperparameter of the model is set by its own name: `-D " +
           entry + "=" + define.text + "`");
}

void Overrides::reportNoEntry(const Override &define, StringRef blockName,
                              StringRef entry) {
  // `train.optimizer.lr` is the entry `lr` of `train.optimizer`.
  auto [form, last] = StringRef(define.key).rsplit('.');
  auto entries = recipeEntries.find(form.str());
  auto [outer, inner] = form.rsplit('.');
  if (entries == recipeEntries.end() && !exampleKind(form).empty()) {
    // Within parentheses a text needs its quotes.
    std::string quote = define.value ? "" : "\"";
    error(define, "`" + outer + "` has no `" + inner + "`, so there is no `" +
                      last + "` of it to set")
        .help("set all of it: `-D '" + form + "=" + exampleKind(form) + "(" +
              last + " = " + quote + define.text + quote + ")'`");
    return;
  }
  if (entries == recipeEntries.end()) {
    form = blockName;
    last = entry;
    entries = recipeEntries.find(form.str());
  }
  Diagnostic &d = error(define, "`" + form + "` has no entry `" + last + "`");
  if (std::string kinds = kindsWith(form, last); !kinds.empty()) {
    d.help(kinds + " has it");
    return;
  }
  std::vector<std::string> names;
  if (entries != recipeEntries.end())
    names = entries->second;
  std::string prefix = form.str() + ".";
  std::string guess = closestName(last, names);
  if (!guess.empty())
    guess = prefix + guess;
  // `train.lr` is `train.optimizer.lr`.
  std::vector<std::string> elsewhere;
  for (const auto &[path, others] : recipeEntries)
    if (StringRef(path).starts_with(prefix) && llvm::is_contained(others, last))
      elsewhere.push_back(path + "." + last.str());
  if (StringRef habit = entryHabit(form, last, names);
      elsewhere.empty() && !habit.empty())
    d.help(habit);
  else
    suggest(d, guess, elsewhere, names);
}

void Overrides::suggest(Diagnostic &d, StringRef guess,
                        llvm::ArrayRef<std::string> elsewhere,
                        llvm::ArrayRef<std::string> names) {
  if (!elsewhere.empty())
    d.help("did you mean `" + llvm::join(elsewhere, "` or `") + "`?");
  else if (!guess.empty())
    d.help("did you mean `" + guess + "`?");
  else if (!names.empty())
    d.help("it has `" + llvm::join(names, "`, `") + "`");
}
