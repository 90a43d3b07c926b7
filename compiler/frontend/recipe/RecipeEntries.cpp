//===- RecipeEntries.cpp - entries of blocks and of what they hold --------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/frontend/recipe/Recipe.h"

#include "compiler/frontend/syntax/Habits.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSwitch.h"

#include <cmath>

using namespace tfm;
using namespace tfm::ast;
using llvm::StringRef;
using llvm::Twine;
namespace json = llvm::json;

//===----------------------------------------------------------------------===//
// Forms
//===----------------------------------------------------------------------===//

StringRef tfm::exampleKind(StringRef path) {
  return llvm::StringSwitch<StringRef>(path)
      .Case("data", "text")
      .Case("tokenizer", "chars")
      .Case("train.loss", "cross_entropy")
      .Case("train.optimizer", "adamw")
      .Case("train.schedule", "cosine")
      .Case("train.stop", "early")
      .Cases({"train.validate", "train.checkpoint", "train.sample"}, "every")
      .Default("");
}

std::string tfm::kindsWith(StringRef path, StringRef entry) {
  for (const recipe::Field &field : recipe::fields) {
    if (field.isComputed || StringRef(field.parent()) != path ||
        StringRef(field.name()) != entry || field.kinds.empty())
      continue;
    llvm::SmallVector<StringRef> kinds;
    StringRef(field.kinds).split(kinds, ' ');
    return "`" + llvm::join(kinds, "` or `") + "`";
  }
  return "";
}

RecipeBuilder::Form RecipeBuilder::form(const Expr &expr, StringRef path) {
  Form form;
  form.range = expr.range;
  form.path = path.str();
  if (expr.kind == ExprKind::Call && expr.kids[0]->kind == ExprKind::Name) {
    form.kind = expr.kids[0]->text.str();
    form.range = expr.kids[0]->range;
    form.args = expr.args;
  } else if (expr.kind == ExprKind::Name) {
    form.kind = expr.text.str();
  } else if (expr.kind != ExprKind::Invalid) {
    StringRef name = path.contains('.') ? path.rsplit('.').second : path;
    Diagnostic &d = e.diags.error(802, expr.range,
                                  "`" + name + "` takes something such as `" +
                                      exampleKind(path) + "(...)`");
    if (expr.kind == ExprKind::Binary && expr.text == "//")
      d.help(commentHelp);
    if (expr.kind == ExprKind::Integer && exampleKind(path) == "every")
      d.help("write `" + name + " = every(" + e.sources.text(expr.range) +
             ")`");
    else if (expr.kind == ExprKind::String)
      d.help("write `" + unquote(expr.text) + "` without quotes");
  }
  form.used.resize(form.args.size());
  return form;
}

RecipeBuilder::Form RecipeBuilder::form(const Block &block) {
  Form form;
  form.kind = block.keyword.str();
  form.range = block.range;
  form.path = form.kind;
  for (const Entry &entry : block.entries) {
    Argument arg;
    arg.name = entry.key;
    arg.nameRange = entry.range;
    arg.value = entry.value;
    form.args.push_back(arg);
  }
  form.used.resize(form.args.size());
  return form;
}

RecipeBuilder::Form RecipeBuilder::formOr(const Found &found, StringRef kind,
                                          StringRef path) {
  if (found.expr)
    return form(*found.expr, path);
  Form absent;
  absent.kind = kind.str();
  absent.range = found.range;
  absent.path = path.str();
  return absent;
}

RecipeBuilder::Found RecipeBuilder::find(Form &form, StringRef name,
                                         int position, Wanted wanted) {
  if (!llvm::is_contained(form.known, name))
    form.known.push_back(name.str());
  Found found;
  int index = 0;
  for (auto [i, arg] : llvm::enumerate(form.args)) {
    if (arg.name == name || (arg.name.empty() && index == position)) {
      form.used[i] = true;
      if (found.expr) {
        Diagnostic &d =
            e.diags.error(121, arg.value->range, "`" + name + "` is set twice");
        if (arg.name.empty())
          d.help("a value without a name stands for `" + name +
                 "` here: write the name of what it is to set");
      }
      found = {arg.value, arg.value->range};
    }
    index += arg.name.empty();
  }
  if (Override *define = e.findDefine(form.path + "." + name.str()))
    if (const Expr *expr = e.useDefine(*define, wanted))
      found = {expr, define->range};
  return found;
}

/// "`warmup`, `final`".
static std::string namesOf(llvm::ArrayRef<std::string> names) {
  std::string all;
  for (const std::string &name : names)
    all += (all.empty() ? "`" : ", `") + name + "`";
  return all;
}

void RecipeBuilder::finish(Form &form, StringRef what) {
  e.recipeEntries[form.path] = form.known;
  for (auto [i, arg] : llvm::enumerate(form.args)) {
    if (form.used[i])
      continue;
    if (arg.name.empty()) {
      reportNoPlace(form, *arg.value, what);
      continue;
    }
    Diagnostic &d = e.diags.error(
        801, arg.nameRange, "`" + what + "` has no entry `" + arg.name + "`");
    StringRef habit = entryHabit(form.path, arg.name, form.known);
    if (std::string kinds = kindsWith(form.path, arg.name); !kinds.empty())
      d.help(kinds + " has it");
    else if (!habit.empty())
      d.help(habit);
    else
      e.suggest(d, arg.name, form.known);
    if (d.helps.empty() && !form.known.empty())
      d.help("it has " + namesOf(form.known));
  }
}

void RecipeBuilder::reportNoPlace(const Form &form, const Expr &value,
                                  StringRef what) {
  bool hasPlaces = false;
  size_t before = 0; // other values without a name
  std::vector<std::string> free = form.known;
  for (auto [arg, isUsed] : llvm::zip(form.args, form.used)) {
    hasPlaces |= isUsed && arg.name.empty();
    before += arg.name.empty() && arg.value->range.begin < value.range.begin;
    llvm::erase(free, arg.name);
  }
  Diagnostic &d = e.diags.error(
      801, value.range,
      "`" + what + "` takes no " + (hasPlaces ? "further " : "") + "value" +
          (form.known.empty() ? "" : " without a name"));
  if (!hasPlaces && before < free.size())
    d.help("write what it is: `" + free[before] + " = " +
           e.sources.text(value.range) + "`");
  if (!form.known.empty())
    d.help("it has " + namesOf(form.known));
}

SymbolicValue RecipeBuilder::value(const Found &found) {
  Scope scope;
  scope.unit = e.compilation.mainUnit;
  scope.self = e.root;
  return e.eval(*found.expr, scope);
}

SymbolicValue RecipeBuilder::value(const Found &found, StringRef name,
                                   StringRef expected) {
  Scope scope;
  scope.unit = e.compilation.mainUnit;
  scope.self = e.root;
  if (!e.sources.file(found.range.file).isArgument() ||
      !e.isUnknownWord(*found.expr, scope))
    return e.eval(*found.expr, scope);
  e.diags.error(802, found.range,
                "`" + name + "` takes " + expected + ", not `" +
                    found.expr->text + "`");
  return SymbolicValue();
}

void RecipeBuilder::wrong(const Found &found, StringRef name,
                          StringRef expected, const SymbolicValue &value) {
  if (value.isPoison())
    return;
  bool shows = value.isNumber() || value.is(SymbolicValue::Bool) ||
               value.is(SymbolicValue::String);
  // `1e3` has an integer's value, but is none.
  StringRef text = e.sources.text(found.expr->range);
  if (expected.starts_with("an integer") &&
      found.expr->kind == ExprKind::Float && value.isNumber() &&
      value.number() == std::floor(value.number()) && value.number() >= 1 &&
      value.number() < 1e15) {
    e.diags
        .error(802, found.range,
               "`" + name + "` takes " + expected + ", but " + text +
                   " is a float")
        .help("write `" + Twine(static_cast<int64_t>(value.number())) + "`");
    return;
  }
  e.diags.error(802, found.range,
                "`" + name + "` takes " + expected + ", not " +
                    (shows ? value.show() : value.describe()));
}

//===----------------------------------------------------------------------===//
// Entries
//===----------------------------------------------------------------------===//

/// The row of the table for what the language calls `name` in the form `path`.
static const recipe::Field &fieldOf(StringRef path, StringRef name) {
  for (const recipe::Field &field : recipe::fields)
    if (!field.isComputed && StringRef(field.parent()) == path &&
        StringRef(field.name()) == name)
      return field;
  llvm_unreachable("an entry that is not in runtime/recipe_table.h");
}

static json::Value jsonOf(const recipe::Field &field,
                          const recipe::Default &value) {
  if (std::holds_alternative<std::nullptr_t>(value))
    return nullptr;
  if (const bool *flag = std::get_if<bool>(&value))
    return *flag;
  if (const int64_t *integer = std::get_if<int64_t>(&value))
    return *integer;
  if (const double *number = std::get_if<double>(&value))
    return *number;
  if (const auto *betas = std::get_if<std::array<double, 2>>(&value))
    return json::Array{(*betas)[0], (*betas)[1]};
  if (field.type == recipe::Type::Texts)
    return json::Array();
  return StringRef(std::get<std::string_view>(value));
}

json::Object RecipeBuilder::defaults(StringRef path, StringRef kind) {
  json::Object out;
  for (const recipe::Field &field : recipe::fields) {
    if (StringRef(field.parent()) != path || field.isComputed ||
        field.isOptional)
      continue;
    const recipe::Default &value = recipe::writtenFor(field, kind);
    StringRef key = field.key();
    if (key == "kind")
      out[key] = kind.str();
    else if (!std::holds_alternative<std::monostate>(value))
      out[key] = jsonOf(field, value);
  }
  return out;
}

llvm::SmallVector<StringRef> RecipeBuilder::kindsOf(StringRef path) {
  llvm::SmallVector<StringRef> kinds;
  StringRef words = recipe::find((path + ".kind").str())->words;
  words.split(kinds, ' ');
  // A method of the model is no kind to name.
  llvm::erase(kinds, "own");
  return kinds;
}

int64_t RecipeBuilder::integer(Form &form, StringRef name, int position) {
  const recipe::Field &field = fieldOf(form.path, name);
  return integer(form, name,
                 std::get<int64_t>(recipe::fallbackOf(field, form.kind)), field,
                 position);
}

int64_t RecipeBuilder::integer(Form &form, StringRef name, int64_t absent,
                               const recipe::Field &field, int position) {
  Found found = find(form, name, position);
  if (!found.expr)
    return absent;
  std::string expected = recipe::takes(field);
  SymbolicValue v = value(found, name, expected);
  if (v.is(SymbolicValue::Int) &&
      field.range.has(static_cast<double>(v.dim().value())))
    return v.dim().value();
  wrong(found, name, expected, v);
  return absent;
}

json::Value RecipeBuilder::integerOrNull(Form &form, StringRef name) {
  const recipe::Field &field = fieldOf(form.path, name);
  Found found = find(form, name);
  if (!found.expr)
    return nullptr;
  std::string expected = recipe::takes(field);
  SymbolicValue v = value(found, name, expected);
  if (v.is(SymbolicValue::None))
    return nullptr;
  if (v.is(SymbolicValue::Int) &&
      field.range.has(static_cast<double>(v.dim().value())))
    return v.dim().value();
  wrong(found, name, expected, v);
  return nullptr;
}

double RecipeBuilder::number(Form &form, StringRef name, int position) {
  const recipe::Field &field = fieldOf(form.path, name);
  double absent = std::get<double>(recipe::fallbackOf(field, form.kind));
  Found found = find(form, name, position);
  if (!found.expr)
    return absent;
  std::string expected = "a number";
  SymbolicValue v = value(found, name, expected);
  if (v.isNumber() && field.range.has(v.number()))
    return v.number();
  if (v.isNumber())
    expected = recipe::takes(field);
  wrong(found, name, expected, v);
  return absent;
}

bool RecipeBuilder::flag(Form &form, StringRef name) {
  const recipe::Field &field = fieldOf(form.path, name);
  // Where it may be missing nobody asks for one that is.
  const bool *fallback = std::get_if<bool>(&field.fallback);
  bool absent = fallback && *fallback;
  Found found = find(form, name);
  if (!found.expr)
    return absent;
  std::string expected = recipe::takes(field);
  SymbolicValue v = value(found, name, expected);
  if (v.is(SymbolicValue::Bool))
    return v.flag();
  wrong(found, name, expected, v);
  return absent;
}

json::Value RecipeBuilder::word(Form &form, StringRef name,
                                std::optional<Range> range, StringRef what,
                                int position) {
  const recipe::Field &field = fieldOf(form.path, name);
  StringRef absent = std::get<std::string_view>(field.fallback);
  Found found = find(form, name, position, Wanted::Text);
  json::Value given = text(form, name, absent, position, /*mayBeWord=*/true);
  if (given.getAsString() && recipe::hasWord(field.words, *given.getAsString()))
    return given;
  Diagnostic &d =
      e.diags.error(802, range.value_or(found.range),
                    (what.empty() ? "`" + name + "`" : Twine(what)) + " is " +
                        recipe::takes(field));
  if (std::optional<StringRef> written = given.getAsString()) {
    llvm::SmallVector<StringRef> words;
    StringRef(field.words).split(words, ' ');
    if (StringRef meant = wordHabit(*written, words); !meant.empty())
      d.help("did you mean `" + meant + "`?");
    else
      e.suggest(d, *written,
                std::vector<std::string>(words.begin(), words.end()));
  }
  return absent;
}

json::Value RecipeBuilder::text(Form &form, StringRef name) {
  const recipe::Field &field = fieldOf(form.path, name);
  json::Value absent = jsonOf(field, recipe::writtenFor(field, form.kind));
  json::Value given = text(form, name, absent);
  if (field.orNone || given.getAsString())
    return given;
  wrong(find(form, name), name, "a string", SymbolicValue::none());
  return absent;
}

json::Value RecipeBuilder::text(Form &form, StringRef name, json::Value absent,
                                int position, bool mayBeWord) {
  Found found = find(form, name, position, Wanted::Text);
  if (!found.expr)
    return absent;
  if (found.expr->kind == ExprKind::Name && found.expr->text != "none") {
    // A name as far as the expression goes, in `-D 'train.sample=every(...)'`.
    if (mayBeWord || e.sources.file(found.range.file).isArgument())
      return found.expr->text.str();
    e.diags
        .error(802, found.range,
               "`" + name + "` takes a string, not the name `" +
                   found.expr->text + "`")
        .help("write `" + name + " = \"" + found.expr->text + "\"`");
    return absent;
  }
  SymbolicValue v = value(found);
  if (v.is(SymbolicValue::String))
    return v.text();
  if (v.is(SymbolicValue::None))
    return nullptr;
  wrong(found, name,
        mayBeWord ? recipe::takes(fieldOf(form.path, name)) : "a string", v);
  return absent;
}

std::vector<RecipeBuilder::Marker> RecipeBuilder::texts(Form &form,
                                                        StringRef name) {
  std::vector<Marker> all;
  Found found = find(form, name, -1, Wanted::Texts);
  if (!found.expr)
    return all;
  SymbolicValue v = value(found);
  bool isList = v.is(SymbolicValue::List);
  std::vector<SymbolicValue> items =
      isList ? v.items() : std::vector<SymbolicValue>{v};
  for (auto [i, item] : llvm::enumerate(items)) {
    if (item.is(SymbolicValue::String))
      all.push_back({item.text(), isList && found.expr->kids.size() > i
                                      ? found.expr->kids[i]->range
                                      : found.range});
    else if (!item.is(SymbolicValue::None))
      wrong(found, name, "strings", item);
  }
  return all;
}

bool RecipeBuilder::known(const Form &form, llvm::ArrayRef<StringRef> kinds,
                          StringRef what, StringRef help) {
  if (form.kind.empty())
    return false;
  if (llvm::is_contained(kinds, form.kind))
    return true;
  Diagnostic &d = e.diags.error(805, form.range,
                                "there is no " + what + " `" + form.kind + "`");
  if (!help.empty()) {
    d.help(help.str());
    return false;
  }
  std::vector<std::string> names;
  for (StringRef kind : kinds)
    names.push_back(kind.str());
  e.suggest(d, form.kind, names);
  if (d.helps.empty())
    d.help((names.size() == 1 ? "there is `" : "there are `") +
           llvm::join(names, "`, `") + "`");
  return false;
}
