//===- Recipe.cpp - the train block ---------------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/frontend/recipe/Recipe.h"

#include "compiler/frontend/syntax/Habits.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/ADT/StringSwitch.h"

#include <cmath>
#include <limits>

using namespace tfm;
using namespace tfm::ast;
using llvm::StringRef;
using llvm::Twine;
namespace json = llvm::json;

static constexpr double infinity = std::numeric_limits<double>::infinity();

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
  form.known.push_back(name.str());
  Found found;
  int index = 0;
  for (auto [i, arg] : llvm::enumerate(form.args)) {
    if (arg.name == name || (arg.name.empty() && index == position)) {
      form.used[i] = true;
      if (found.expr)
        e.diags.error(121, arg.value->range, "`" + name + "` is set twice");
      found = {arg.value, arg.value->range};
    }
    index += arg.name.empty();
  }
  if (Override *define = e.findDefine(form.path + "." + name.str()))
    if (const Expr *expr = e.useDefine(*define, wanted))
      found = {expr, define->range};
  return found;
}

void RecipeBuilder::finish(Form &form, StringRef what) {
  e.recipeEntries[form.path] = form.known;
  for (auto [i, arg] : llvm::enumerate(form.args)) {
    if (form.used[i])
      continue;
    if (arg.name.empty()) {
      e.diags.error(801, arg.value->range,
                    "`" + what + "` takes no further value");
      continue;
    }
    Diagnostic &d = e.diags.error(
        801, arg.nameRange, "`" + what + "` has no entry `" + arg.name + "`");
    StringRef habit = entryHabit(arg.name);
    bool isOwn =
        form.path == "train" || form.path == "generate" || form.path == "data";
    if (isOwn && !habit.empty())
      d.help(habit);
    else
      e.suggest(d, arg.name, form.known);
    if (d.helps.empty()) {
      std::string all;
      for (const std::string &name : form.known)
        all += (all.empty() ? "`" : ", `") + name + "`";
      if (!all.empty())
        d.help("it has " + all);
    }
  }
}

Value RecipeBuilder::value(const Found &found) {
  Scope scope;
  scope.unit = e.program.mainUnit;
  scope.self = e.root;
  return e.eval(*found.expr, scope);
}

Value RecipeBuilder::value(const Found &found, StringRef name,
                           StringRef expected) {
  Scope scope;
  scope.unit = e.program.mainUnit;
  scope.self = e.root;
  if (!e.sources.file(found.range.file).isArgument() ||
      !e.isUnknownWord(*found.expr, scope))
    return e.eval(*found.expr, scope);
  e.diags.error(802, found.range,
                "`" + name + "` takes " + expected + ", not `" +
                    found.expr->text + "`");
  return Value();
}

void RecipeBuilder::wrong(const Found &found, StringRef name,
                          StringRef expected, const Value &value) {
  if (value.isPoison())
    return;
  bool shows =
      value.isNumber() || value.is(Value::Bool) || value.is(Value::String);
  // `1e3` has an integer's value, but is none.
  StringRef text = e.sources.text(found.expr->range);
  if (expected.starts_with("an integer") &&
      found.expr->kind == ExprKind::Float && value.isNumber() &&
      value.number() == std::floor(value.number()) && value.number() < 1e15) {
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

static std::string integerOfAtLeast(int64_t least) {
  return least <= 0 ? std::string("an integer that is not negative")
                    : "an integer of at least " + std::to_string(least);
}

int64_t RecipeBuilder::integer(Form &form, StringRef name, int64_t absent,
                               int64_t least, int position) {
  Found found = find(form, name, position);
  if (!found.expr)
    return absent;
  std::string expected = integerOfAtLeast(least);
  Value v = value(found, name, expected);
  if (v.is(Value::Int) && v.dim().value() >= least)
    return v.dim().value();
  wrong(found, name, expected, v);
  return absent;
}

json::Value RecipeBuilder::integerOrNull(Form &form, StringRef name,
                                         int64_t least, int position) {
  Found found = find(form, name, position);
  if (!found.expr)
    return nullptr;
  std::string expected = integerOfAtLeast(least) + ", or none";
  Value v = value(found, name, expected);
  if (v.is(Value::None))
    return nullptr;
  if (v.is(Value::Int) && v.dim().value() >= least)
    return v.dim().value();
  wrong(found, name, expected, v);
  return nullptr;
}

double RecipeBuilder::number(Form &form, StringRef name, double absent,
                             double least, double most, int position) {
  Found found = find(form, name, position);
  if (!found.expr)
    return absent;
  std::string expected = "a number";
  Value v = value(found, name, expected);
  if (v.isNumber() && v.number() >= least && v.number() <= most)
    return v.number();
  if (v.isNumber())
    expected +=
        std::isinf(most) ? " of at least " + Value::real(least).show()
        : most == belowOne
            ? " of at least " + Value::real(least).show() + " and less than 1"
            : " between " + Value::real(least).show() + " and " +
                  Value::real(most).show();
  wrong(found, name, expected, v);
  return absent;
}

bool RecipeBuilder::flag(Form &form, StringRef name, bool absent) {
  Found found = find(form, name);
  if (!found.expr)
    return absent;
  StringRef expected = "true or false";
  Value v = value(found, name, expected);
  if (v.is(Value::Bool))
    return v.flag();
  wrong(found, name, expected, v);
  return absent;
}

json::Value RecipeBuilder::word(Form &form, StringRef name, StringRef absent,
                                int position) {
  return text(form, name, absent, position, /*mayBeWord=*/true);
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
  Value v = value(found);
  if (v.is(Value::String))
    return v.text();
  if (v.is(Value::None))
    return nullptr;
  wrong(found, name, "a string", v);
  return absent;
}

bool RecipeBuilder::known(const Form &form, llvm::ArrayRef<StringRef> kinds,
                          StringRef what) {
  if (form.kind.empty())
    return false;
  if (llvm::is_contained(kinds, form.kind))
    return true;
  Diagnostic &d = e.diags.error(805, form.range,
                                "there is no " + what + " `" + form.kind + "`");
  std::vector<std::string> names;
  for (StringRef kind : kinds)
    names.push_back(kind.str());
  e.suggest(d, form.kind, names);
  if (d.helps.empty())
    d.help("there are `" + llvm::join(names, "`, `") + "`");
  return false;
}

//===----------------------------------------------------------------------===//
// The whole
//===----------------------------------------------------------------------===//

void RecipeBuilder::build() {
  e.recipe["data"] = dataBlock(e.block("data"));
  const Block *train = e.block("train");
  e.train.present = train != nullptr;
  e.recipe["train"] = train ? trainBlock(*train) : json::Value(nullptr);
  e.recipe["tokenizer"] = tokenizerJson();
  e.recipe["generate"] = generateBlock(e.block("generate"));
}

/// Whether an entry that `train` has not was to be `steps` or `epochs`.
static bool meansEnd(StringRef key, llvm::ArrayRef<std::string> known) {
  StringRef habit = entryHabit(key);
  if (!habit.empty())
    return habit.contains("`steps`") || habit.contains("`epochs`");
  std::string guess = closestName(key, known);
  return guess == "steps" || guess == "epochs";
}

json::Value RecipeBuilder::trainBlock(const Block &block) {
  Form train = form(block);
  int64_t context = e.contextLength();
  json::Object out;
  e.train.batch = integer(train, "batch", 1, 1);
  out["batch"] = e.train.batch;
  Found length = find(train, "sequence");
  e.train.sequence =
      integer(train, "sequence", context ? context : defaultLength, 1);
  train.known.pop_back();
  out["sequence"] = e.train.sequence;
  if (context && e.train.sequence > context)
    e.diags
        .error(803, length.expr ? length.range : block.range,
               "`sequence` = " + Twine(e.train.sequence) +
                   " is longer than the model's context = " + Twine(context))
        .help("set `context` to at least " + Twine(e.train.sequence) +
              ", or `sequence` to at most " + Twine(context));
  out["accumulate"] = integer(train, "accumulate", 1, 1);
  json::Value steps = integerOrNull(train, "steps", 1);
  json::Value epochs = integerOrNull(train, "epochs", 1);
  const Entry *given = nullptr;
  for (const Entry &entry : block.entries) {
    if (entry.key != "steps" && entry.key != "epochs")
      continue;
    if (given && given->key != entry.key)
      e.diags.error(804, entry.range, "`train` ends by `steps` and by `epochs`")
          .help("take one of them out");
    given = &entry;
  }
  bool hasEnd = steps.getAsInteger() || epochs.getAsInteger() || given;
  // What the command line says of the end replaces what the file says.
  if (e.findDefine("train.steps"))
    epochs = nullptr;
  else if (e.findDefine("train.epochs"))
    steps = nullptr;
  out["steps"] = std::move(steps);
  out["epochs"] = std::move(epochs);
  out["seed"] = integer(train, "seed", 1337, 0);
  e.train.lossRange = block.range;
  out["loss"] = loss(find(train, "loss"));
  if (e.root && findMethod(*e.root, "loss"))
    (*out["loss"].getAsObject())["kind"] = "own";
  out["optimizer"] = optimizer(find(train, "optimizer"));
  out["schedule"] =
      schedule(find(train, "schedule"), out["steps"].getAsInteger());
  Found clip = find(train, "clip");
  out["clip"] = nullptr;
  if (clip.expr) {
    Value v = value(clip, "clip", "a number or none");
    if (v.isNumber() && v.number() > 0)
      out["clip"] = v.number();
    else if (!v.is(Value::None))
      wrong(clip, "clip", "a positive number or none", v);
  }
  out["shuffle"] = flag(train, "shuffle", true);
  out["validate"] = every(find(train, "validate"), "validate");
  out["checkpoint"] = every(find(train, "checkpoint"), "checkpoint");
  out["sample"] = every(find(train, "sample"), "sample");
  Found stop = find(train, "stop");
  out["stop"] = nullptr;
  if (stop.expr && stop.expr->isName("none")) {
    // Nothing stops it early.
  } else if (stop.expr) {
    Form early = form(*stop.expr, "train.stop");
    if (known(early, {"early"}, "rule to stop")) {
      int64_t patience = integer(early, "patience", 5, 1, 0);
      double least = number(early, "min_delta", 0, 0, infinity, 1);
      out["stop"] = json::Object{{"patience", patience}, {"min_delta", least}};
      finish(early, "early");
    }
  }
  // Further dimensions of the caller: `S = 32`.
  for (auto [i, arg] : llvm::enumerate(train.args)) {
    if (arg.name.size() != 1 || !llvm::isUpper(arg.name[0]))
      continue;
    int64_t extent = integer(train, arg.name, 1, 1);
    train.known.pop_back();
    e.train.dims[arg.name] = extent;
    out[arg.name] = extent;
  }
  finish(train, "train");
  for (auto [i, arg] : llvm::enumerate(train.args))
    hasEnd |= !train.used[i] && meansEnd(arg.name, train.known);
  if (!hasEnd)
    e.diags.error(804, block.range, "`train` says nothing of its end")
        .help("set `steps = 1000` or `epochs = 10`");
  return std::move(out);
}

json::Value RecipeBuilder::loss(const Found &found) {
  json::Object out{
      {"kind", "cross_entropy"}, {"ignore", nullptr}, {"label_smoothing", 0.0}};
  bool isOwn = e.root && findMethod(*e.root, "loss");
  if (found.expr)
    e.train.lossRange = found.range;
  Form loss = formOr(found, "cross_entropy", "train.loss");
  if (!known(loss, {"cross_entropy", "mse"}, "loss"))
    return std::move(out);
  out["kind"] = e.train.lossKind = loss.kind;
  if (loss.kind == "cross_entropy") {
    Found ignore = find(loss, "ignore", -1, Wanted::TextOrId);
    if (ignore.expr) {
      Value v = value(ignore);
      if (v.is(Value::Int)) {
        if (e.isTensorInteger(v.dim().value(), ignore.range))
          e.train.ignore = v.dim().value();
      } else if (v.is(Value::String)) {
        // A token by its text.
        const TokenizerInfo *info = e.resolveTokenizer(ignore.range);
        auto place = info ? llvm::find(info->alphabet, v.text())
                          : std::vector<std::string>::const_iterator();
        if (info && place != info->alphabet.end())
          e.train.ignore = place - info->alphabet.begin();
        else if (info)
          e.diags.error(802, ignore.range,
                        info->alphabet.empty()
                            ? "the tokenizer `" + info->kind +
                                  "` knows tokens by id here: give the number"
                            : "the tokenizer has no character " + v.show());
      } else if (!v.is(Value::None)) {
        wrong(ignore, "ignore", "a token's id, its text, or none", v);
      }
      if (e.train.ignore)
        out["ignore"] = *e.train.ignore;
    } else if (!isOwn)
      warnAboutPadding();
    e.train.labelSmoothing = number(loss, "label_smoothing", 0, 0, belowOne);
    out["label_smoothing"] = e.train.labelSmoothing;
  }
  finish(loss, loss.kind);
  return std::move(out);
}

void RecipeBuilder::warnAboutPadding() {
  if (!padding)
    return;
  const TokenizerInfo *info =
      e.block("tokenizer") ? e.resolveTokenizer(padding->range) : nullptr;
  std::string quoted = Value::string(padding->text).show();
  // Where only the binary knows its id, the user has to look it up.
  std::string id =
      info && !info->alphabet.empty() ? quoted
      : info && info->kind == "bytes"
          ? std::to_string(static_cast<unsigned char>(padding->text.front()))
          : "";
  Diagnostic &d = e.diags.warning(
      811, padding->range,
      "padding is trained on: the loss counts " + quoted +
          " behind examples that are shorter, as it does any other token");
  d.help("leave it out with " +
         (id.empty() ? "`loss = cross_entropy(ignore = ...)` and its id"
                     : "`loss = cross_entropy(ignore = " + id + ")`") +
         "; `ignore = none` says that it is meant");
}

json::Value RecipeBuilder::optimizer(const Found &found) {
  json::Object out{{"kind", "adamw"},
                   {"lr", 1e-3},
                   {"betas", json::Array{0.9, 0.999}},
                   {"eps", 1e-8},
                   {"eps_placement", "torch"},
                   {"weight_decay", 0.01},
                   {"decay_min_rank", 0},
                   {"momentum", 0.0},
                   {"nesterov", false}};
  Form form = formOr(found, "adamw", "train.optimizer");
  if (!known(form, {"adamw", "adam", "sgd"}, "optimizer"))
    return std::move(out);
  out["kind"] = form.kind;
  out["lr"] =
      number(form, "lr", form.kind == "sgd" ? 1e-2 : 1e-3, 0, infinity, 0);
  out["weight_decay"] = number(form, "weight_decay",
                               form.kind == "adamw" ? 0.01 : 0.0, 0, infinity);
  Found decay = find(form, "decay");
  if (decay.expr) {
    const Expr &rule = *decay.expr;
    bool isRule = rule.kind == ExprKind::Binary &&
                  rule.kids[0]->isName("rank") &&
                  rule.kids[1]->kind == ExprKind::Integer &&
                  (rule.text == ">=" || rule.text == ">");
    if (isRule)
      out["decay_min_rank"] =
          rule.kids[1]->integer + (rule.text == ">" ? 1 : 0);
    else if (!rule.isName("all"))
      e.diags.error(802, decay.range, "`decay` is a rule about a tensor's rank")
          .help("write `decay = rank >= 2`, or `decay = all`");
  }
  if (form.kind == "sgd") {
    out["momentum"] = number(form, "momentum", 0, 0, 1);
    out["nesterov"] = flag(form, "nesterov", false);
  } else {
    Found betas = find(form, "betas");
    if (betas.expr) {
      Value v = value(betas);
      bool valid =
          v.is(Value::List) && v.items().size() == 2 &&
          llvm::all_of(v.items(), [](const Value &beta) {
            return beta.isNumber() && beta.number() >= 0 && beta.number() < 1;
          });
      if (valid)
        out["betas"] =
            json::Array{v.items()[0].number(), v.items()[1].number()};
      else if (v.is(Value::List) && v.items().size() == 2)
        for (const Value &beta : v.items()) {
          if (beta.isNumber() && beta.number() >= 0 && beta.number() < 1)
            continue;
          wrong(betas, "betas", "two numbers of at least 0 and less than 1",
                beta);
          break;
        }
      else
        wrong(betas, "betas", "two numbers, such as (0.9, 0.99)", v);
    }
    out["eps"] = number(form, "eps", 1e-8, 0, infinity);
    Found given = find(form, "eps_placement", -1, Wanted::Text);
    form.known.pop_back();
    json::Value placement = word(form, "eps_placement", "torch");
    if (placement != json::Value("torch") && placement != json::Value("keras"))
      e.diags.error(802, given.range, "`eps_placement` is `torch` or `keras`");
    else
      out["eps_placement"] = placement;
  }
  finish(form, form.kind);
  return std::move(out);
}

json::Value RecipeBuilder::schedule(const Found &found,
                                    std::optional<int64_t> steps) {
  json::Object out{
      {"kind", "constant"}, {"warmup", 0}, {"final", 0.0}, {"decay", 0}};
  if (!found.expr)
    return std::move(out);
  Form form = this->form(*found.expr, "train.schedule");
  if (!known(form, {"constant", "linear", "cosine", "wsd"}, "schedule"))
    return std::move(out);
  out["kind"] = form.kind;
  Found length = find(form, "warmup");
  form.known.pop_back();
  int64_t warmup = integer(form, "warmup", 0, 0);
  out["warmup"] = warmup;
  if (steps && warmup >= *steps)
    e.diags
        .warning(809, length.range,
                 "the learning rate never reaches `lr`: it rises for " +
                     Twine(warmup) + " updates (`warmup`), and training has " +
                     Twine(*steps) + " (`steps`)")
        .help("a warmup is most often a tenth of the steps, or less");
  if (form.kind != "constant")
    out["final"] = number(form, "final", 0, 0, infinity);
  if (form.kind == "wsd" || form.kind == "cosine")
    out["decay"] = integer(form, "decay", 0, 0);
  if (form.kind == "wsd") {
    Found shape = find(form, "shape", -1, Wanted::Text);
    json::Value name = word(form, "shape", "linear");
    form.known.pop_back();
    if (name != json::Value("linear") && name != json::Value("cosine") &&
        name != json::Value("1-sqrt")) {
      e.diags.error(802, shape.range,
                    "`shape` is `linear`, `cosine` or `\"1-sqrt\"`");
      name = "linear";
    }
    out["shape"] = name;
  }
  if (find(form, "warmup_from_zero").expr) {
    form.known.pop_back();
    out["warmup_from_zero"] =
        flag(form, "warmup_from_zero", form.kind != "cosine");
  }
  finish(form, form.kind);
  return std::move(out);
}

json::Value RecipeBuilder::every(const Found &found, StringRef name) {
  bool isCheckpoint = name == "checkpoint";
  json::Object out{{"every", 1000}, {"unit", "steps"}};
  if (!found.expr) {
    if (!isCheckpoint)
      return nullptr;
    out["keep"] = 1;
    return std::move(out);
  }
  if (found.expr->isName("none"))
    return nullptr;
  Form form = this->form(*found.expr, ("train." + name).str());
  if (!known(form, {"every"}, "rhythm"))
    return nullptr;
  out["every"] = integer(form, "n", 1000, 1, 0);
  json::Value unit = word(form, "unit", "steps", 1);
  if (unit != json::Value("steps") && unit != json::Value("epochs"))
    e.diags.error(802, found.range,
                  "the unit of `every` is `steps` or `epochs`");
  else
    out["unit"] = unit;
  if (isCheckpoint) {
    out["keep"] = integer(form, "keep", 1, 1);
  } else if (name == "validate") {
    out["batches"] = integer(form, "batches", 20, 1);
  } else if (name == "sample") {
    out["prompt"] = text(form, "prompt", "");
    checkPrompt(find(form, "prompt", -1, Wanted::Text),
                out["prompt"].getAsString().value_or(""));
    form.known.pop_back();
    e.train.sampleRange = form.range;
    e.train.samplePrompt = out["prompt"].getAsString().value_or("");
    out["tokens"] = integer(form, "tokens", 100, 1);
  }
  finish(form, "every");
  return std::move(out);
}

void RecipeBuilder::checkPrompt(const Found &found, StringRef prompt) {
  // The other tokenizers have bytes to fall back on, or an unknown token.
  if (prompt.empty() || !e.block("tokenizer"))
    return;
  const TokenizerInfo *info = e.resolveTokenizer(found.range);
  if (!info || info->alphabet.empty())
    return;
  llvm::StringSet<> alphabet;
  alphabet.insert_range(info->alphabet);
  while (!prompt.empty()) {
    size_t length = 1;
    while (length < prompt.size() &&
           (static_cast<unsigned char>(prompt[length]) & 0xC0) == 0x80)
      ++length;
    StringRef character = prompt.take_front(length);
    if (!alphabet.contains(character)) {
      e.diags
          .error(802, found.range,
                 "the tokenizer has no character `" + character +
                     "`, so no sample can begin with this prompt")
          .help("take characters of the text, or no prompt");
      return;
    }
    prompt = prompt.drop_front(length);
  }
}
