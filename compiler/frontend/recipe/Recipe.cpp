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

#include <limits>

using namespace tfm;
using namespace tfm::ast;
using llvm::StringRef;
using llvm::Twine;
namespace json = llvm::json;

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
  refuseExtents(train);
  if (json::Value family = familyJson(); family.getAsObject())
    e.recipe["family"] = std::move(family);
}

/// Where the last of some entries stands in a block that has one of them.
static Range lastOf(const Block &block, llvm::ArrayRef<StringRef> keys) {
  Range last = block.range;
  for (const Entry &entry : block.entries)
    if (llvm::is_contained(keys, entry.key))
      last = entry.range;
  return last;
}

/// The entry of `train` that says how many there are of a dimension.
static StringRef extentEntry(StringRef dim) {
  return dim == "B" ? "batch" : dim == "T" ? "sequence" : dim;
}

void RecipeBuilder::refuseExtents(const Block *train) {
  const Block *generate = e.block("generate");
  if (!e.options.recipeDecides || (!train && !generate))
    return;
  auto refuse = [&](StringRef dim, const Twine &entry) {
    Override *define = e.findDefine(dim);
    if (!define)
      return;
    e.useDefine(*define, Wanted::Value);
    e.diags
        .error(904, define->range,
               "in a program `" + entry + "` says how large `" + dim + "` is")
        .help("write `-D " + entry + "=" + define->text + "`");
  };
  refuse("B", train ? "train.batch" : "generate.batch");
  if (train || e.contextLength() > 0)
    refuse("T", train ? "train.sequence" : "context");
  for (const auto &dim : e.train.dims)
    refuse(dim.first(), "train." + dim.first());
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
  json::Object out;
  e.train.batch = integer(train, "batch");
  out["batch"] = e.train.batch;
  e.train.sequence = sequence(train);
  out["sequence"] = e.train.sequence;
  out["accumulate"] = integer(train, "accumulate");
  out["sum"] = word(train, "sum");
  if (std::optional<Range> sum = given(train, "sum");
      sum && out["sum"] == "tree" && out["accumulate"] == 1)
    hasNoEffect(*sum, "`sum` does nothing: an update is one step",
                "it is of several: `accumulate = 8`");
  bool hasEnd = end(train, block, out);
  out["seed"] = integer(train, "seed");
  e.train.lossRange = block.range;
  out["loss"] = loss(find(train, "loss"));
  if (e.root && findMethod(*e.root, "loss"))
    (*out["loss"].getAsObject())["kind"] = "own";
  out["optimizer"] = optimizer(find(train, "optimizer"));
  out["schedule"] =
      schedule(find(train, "schedule"), out["steps"].getAsInteger(),
               out.getObject("optimizer")->getNumber("lr"));
  out["clip"] = clip(find(train, "clip"));
  out["only"] = only(train);
  if (json::Array pairs = rates(train); !pairs.empty())
    out["rates"] = std::move(pairs);
  if (json::Array names = noDecay(train, *out.getObject("optimizer"));
      !names.empty())
    out["no_decay"] = std::move(names);
  out["shuffle"] = flag(train, "shuffle");
  out["precision"] = word(train, "precision");
  out["validate"] = every(find(train, "validate"), "validate");
  out["checkpoint"] = every(find(train, "checkpoint"), "checkpoint");
  out["sample"] = every(find(train, "sample"), "sample");
  const Method *forward = e.root ? findMethod(*e.root, "forward") : nullptr;
  if (e.train.sampleRange && e.hasArrays() && forward &&
      !takesTokensAlone(*forward)) {
    hasNoEffect(*e.train.sampleRange,
                "`sample` does nothing: no text continues what arrays fill",
                "leave it out");
    out["sample"] = nullptr;
    e.train.sampleRange = std::nullopt;
  }
  bool isValidated = out.getObject("validate");
  out["stop"] = stop(find(train, "stop"), isValidated);
  extents(train, out);
  finish(train, "train");
  for (auto [i, arg] : llvm::enumerate(train.args))
    hasEnd |= !train.used[i] && meansEnd(arg.name, train.known);
  if (!hasEnd)
    e.diags.error(804, block.range, "`train` says nothing of its end")
        .help("set `steps = 1000` or `epochs = 10`");
  return std::move(out);
}

int64_t RecipeBuilder::sequence(Form &train) {
  int64_t context = e.contextLength();
  Found found = find(train, "sequence");
  int64_t length = integer(train, "sequence", context ? context : defaultLength,
                           recipe::field("train.sequence"), /*position=*/-1);
  if (context && length > context)
    e.diags
        .error(803, found.expr ? found.range : train.range,
               "`sequence` = " + Twine(length) +
                   " is longer than the model's context = " + Twine(context))
        .help("set `context` to at least " + Twine(length) +
              ", or `sequence` to at most " + Twine(context));
  return length;
}

bool RecipeBuilder::end(Form &train, const Block &block, json::Object &out) {
  size_t errorsBefore = e.diags.errors().size();
  json::Value steps = integerOrNull(train, "steps");
  json::Value epochs = integerOrNull(train, "epochs");
  bool hasEnd = steps.getAsInteger() || epochs.getAsInteger() ||
                e.diags.errors().size() != errorsBefore;
  if (steps.getAsInteger() && epochs.getAsInteger()) {
    // What the command line says of the end replaces what the file says.
    Override *bySteps = e.findDefine("train.steps"),
             *byEpochs = e.findDefine("train.epochs");
    if (bySteps && !byEpochs)
      epochs = nullptr;
    else if (byEpochs && !bySteps)
      steps = nullptr;
    else
      e.diags
          .error(804,
                 bySteps ? bySteps->range : lastOf(block, {"steps", "epochs"}),
                 "`train` ends by `steps` and by `epochs`")
          .help("take one of them out");
  }
  out["steps"] = std::move(steps);
  out["epochs"] = std::move(epochs);
  return hasEnd;
}

json::Value RecipeBuilder::clip(const Found &found) {
  if (!found.expr)
    return nullptr;
  SymbolicValue v = value(found, "clip", "a number or none");
  static constexpr recipe::Field field = recipe::field("train.clip");
  if (v.isNumber() && field.range.has(v.number()))
    return v.number();
  if (!v.is(SymbolicValue::None))
    wrong(found, "clip", recipe::takes(field), v);
  return nullptr;
}

json::Value RecipeBuilder::stop(const Found &found, bool isValidated) {
  if (!found.expr || found.expr->isName("none"))
    return nullptr;
  Form early = form(*found.expr, "train.stop");
  if (!known(early, {"early"}, "rule to stop"))
    return nullptr;
  int64_t patience = integer(early, "patience", 0);
  double least = number(early, "min_delta", 1);
  finish(early, "early");
  if (!isValidated)
    hasNoEffect(found.range, "`stop` ends no training that is not validated",
                "say how often: `validate = every(250)`");
  return json::Object{{"patience", patience}, {"min_delta", least}};
}

void RecipeBuilder::extents(Form &train, json::Object &out) {
  constexpr recipe::Field extentField = {.path = "train.*",
                                         .type = recipe::Type::Integer,
                                         .help = "the size of a dimension",
                                         .range = recipe::atLeastOne};
  for (auto [i, arg] : llvm::enumerate(train.args)) {
    if (arg.name.size() != 1 || !llvm::isUpper(arg.name[0]))
      continue;
    if (arg.name == "B" || arg.name == "T") {
      train.used[i] = true;
      e.diags
          .error(801, arg.nameRange,
                 "`train` has no entry `" + arg.name + "`: `" +
                     extentEntry(arg.name) + "` is that dimension")
          .help("write `" + extentEntry(arg.name) + " = ...`");
      continue;
    }
    int64_t extent = integer(train, arg.name, 1, extentField, /*position=*/-1);
    train.known.pop_back();
    e.train.dims[arg.name] = extent;
    e.train.dimRanges[arg.name] = arg.nameRange;
    out[arg.name] = extent;
  }
}

json::Value RecipeBuilder::loss(const Found &found) {
  StringRef absent = recipe::text("train.loss.kind");
  json::Object out = defaults("train.loss", absent);
  bool isOwn = e.root && findMethod(*e.root, "loss");
  if (found.expr)
    e.train.lossRange = found.range;
  Form loss = formOr(found, absent, "train.loss");
  if (!known(loss, kindsOf("train.loss"), "loss"))
    return std::move(out);
  out["kind"] = e.train.lossKind = loss.kind;
  if (isOwn && loss.kind == "mse")
    hasNoEffect(found.range,
                "the model has a `loss` of its own, which replaces `mse`",
                "leave it out");
  size_t before = e.diags.errors().size();
  if (loss.kind == "cross_entropy") {
    Found ignore = find(loss, "ignore", -1, Wanted::TextOrId);
    if (ignore.expr) {
      SymbolicValue v = value(ignore);
      if (v.is(SymbolicValue::Int)) {
        if (e.isTensorInteger(v.dim().value(), ignore.range))
          e.train.ignore = v.dim().value();
      } else if (v.is(SymbolicValue::String)) {
        if (const TokenizerInfo *info =
                e.resolveTokenizer(ignore.range, v.text()))
          e.train.ignore = tokenId({v.text(), ignore.range}, *info,
                                   "take a token as its vocabulary has it, or "
                                   "an id");
      } else if (!v.is(SymbolicValue::None)) {
        wrong(ignore, "ignore", "a token's id, its text, or none", v);
      }
      if (e.train.ignore)
        out["ignore"] = *e.train.ignore;
      bool isToken = e.train.ignore && *e.train.ignore >= 0;
      if (isToken && ending && padding && ending->text == padding->text)
        e.diags
            .warning(811, padding->range,
                     "`end` and `pad` are one token, which the loss leaves "
                     "out: the model does not learn where an example ends")
            .help("take another token for `pad`");
      const TokenizerInfo *info = e.train.ignore && e.block("tokenizer")
                                      ? e.resolveTokenizer(ignore.range)
                                      : nullptr;
      // One below 0 fills the windows behind examples, where no token counts.
      if (info && (*e.train.ignore >= info->size ||
                   (*e.train.ignore < 0 && !hasExamples)))
        hasNoEffect(ignore.range,
                    "nothing is ignored: no token has the id " +
                        std::to_string(*e.train.ignore),
                    "ids are from 0 to " + std::to_string(info->size - 1) +
                        "; `ignore = none` says that all count");
    } else if (!isOwn)
      warnAboutPadding();
    e.train.labelSmoothing = number(loss, "label_smoothing");
    out["label_smoothing"] = e.train.labelSmoothing;
    if (isOwn && e.train.labelSmoothing > 0)
      hasNoEffect(given(loss, "label_smoothing").value_or(found.range),
                  "the model has a `loss` of its own, which "
                  "`label_smoothing` does not change",
                  "write `cross_entropy(..., label_smoothing = 0.1)` there");
  }
  if (answersAlone && !e.train.ignore && e.diags.errors().size() == before)
    e.diags
        .error(804, *answersAlone,
               "`answers_only` needs a target that the loss leaves out, which "
               "then stands before the answers")
        .help("write `loss = cross_entropy(ignore = -100)` in `train`: no "
              "token has that id");
  finish(loss, loss.kind);
  return std::move(out);
}

std::optional<int64_t> RecipeBuilder::tokenId(const Marker &token,
                                              const TokenizerInfo &info,
                                              StringRef help) {
  auto id = findToken(info, token.text);
  if (!id) {
    e.diags.error(808, token.range,
                  "this tokenizer cannot be used: " +
                      llvm::toString(id.takeError()));
    return std::nullopt;
  }
  std::string quoted = SymbolicValue::string(token.text).show();
  if (!*id && !info.alphabet.empty())
    e.diags.error(802, token.range, "the tokenizer has no character " + quoted);
  else if (!*id)
    e.diags
        .error(802, token.range,
               quoted + " is not one token of the tokenizer `" + info.kind +
                   "`")
        .help(help.str());
  return *id;
}

std::optional<Range> RecipeBuilder::given(const Form &form, StringRef name) {
  if (Override *define = e.findDefine(form.path + "." + name.str()))
    return define->range;
  for (const auto &arg : form.args)
    if (arg.name == name && !arg.value->isName("none"))
      return arg.value->range;
  return std::nullopt;
}

void RecipeBuilder::hasNoEffect(Range range, const std::string &what,
                                const std::string &help) {
  e.diags.warning(813, range, what).help(help);
}

void RecipeBuilder::warnAboutPadding() {
  if (!padding)
    return;
  std::string quoted = SymbolicValue::string(padding->text).show();
  Diagnostic &d = e.diags.warning(
      811, padding->range,
      "padding is trained on: the loss counts " + quoted +
          " behind examples that are shorter, as it does any other token");
  d.help("leave it out with `loss = cross_entropy(ignore = " + quoted +
         ")`; `ignore = none` says that it is meant");
}

json::Value RecipeBuilder::optimizer(const Found &found) {
  StringRef absent = recipe::text("train.optimizer.kind");
  Form form = formOr(found, absent, "train.optimizer");
  if (!known(form, kindsOf("train.optimizer"), "optimizer"))
    return defaults("train.optimizer", absent);
  json::Object out = defaults("train.optimizer", form.kind);
  out["lr"] = number(form, "lr", 0);
  out["weight_decay"] = number(form, "weight_decay");
  Found decay = find(form, "decay");
  if (decay.expr) {
    const Expr &rule = *decay.expr;
    bool isRule = rule.kind == ExprKind::Binary &&
                  rule.kids[0]->isName("rank") &&
                  rule.kids[1]->kind == ExprKind::Integer &&
                  (rule.text == ">=" || rule.text == ">");
    if (isRule)
      // No tensor has the largest rank, let alone one above.
      out["decay_min_rank"] =
          rule.text == ">" &&
                  rule.kids[1]->integer < std::numeric_limits<int64_t>::max()
              ? rule.kids[1]->integer + 1
              : rule.kids[1]->integer;
    else if (!rule.isName("all"))
      e.diags.error(802, decay.range, "`decay` is a rule about a tensor's rank")
          .help("write `decay = rank >= 2`, or `decay = all`");
  }
  if (form.kind == "sgd") {
    out["momentum"] = number(form, "momentum");
    out["nesterov"] = flag(form, "nesterov");
    if (std::optional<Range> nesterov = given(form, "nesterov");
        nesterov && out["nesterov"] == true && out["momentum"] == 0.0)
      hasNoEffect(*nesterov, "`nesterov` does nothing without `momentum`",
                  "set it: `momentum = 0.9`");
  } else {
    Found betas = find(form, "betas");
    if (betas.expr) {
      SymbolicValue v = value(betas);
      bool valid =
          v.is(SymbolicValue::List) && v.items().size() == 2 &&
          llvm::all_of(v.items(), [](const SymbolicValue &beta) {
            return beta.isNumber() && beta.number() >= 0 && beta.number() < 1;
          });
      if (valid)
        out["betas"] =
            json::Array{v.items()[0].number(), v.items()[1].number()};
      else if (v.is(SymbolicValue::List) && v.items().size() == 2)
        for (const SymbolicValue &beta : v.items()) {
          if (beta.isNumber() && beta.number() >= 0 && beta.number() < 1)
            continue;
          wrong(betas, "betas",
                recipe::takes(recipe::field("train.optimizer.betas")), beta);
          break;
        }
      else
        wrong(betas, "betas", "two numbers, such as (0.9, 0.99)", v);
    }
    out["eps"] = number(form, "eps");
    out["eps_placement"] = word(form, "eps_placement");
  }
  finish(form, form.kind);
  return std::move(out);
}

json::Value RecipeBuilder::schedule(const Found &found,
                                    std::optional<int64_t> steps,
                                    std::optional<double> lr) {
  StringRef absent = recipe::text("train.schedule.kind");
  Form form = formOr(found, absent, "train.schedule");
  if (!known(form, kindsOf("train.schedule"), "schedule"))
    return defaults("train.schedule", absent);
  json::Object out = defaults("train.schedule", form.kind);
  Found length = find(form, "warmup");
  int64_t warmup = integer(form, "warmup");
  out["warmup"] = warmup;
  if (steps && warmup >= *steps)
    e.diags
        .warning(809, length.range,
                 "the learning rate never reaches `lr`: it rises for " +
                     Twine(warmup) + " updates (`warmup`), and training has " +
                     Twine(*steps) + " (`steps`)")
        .help("a warmup is most often a tenth of the steps, or less");
  if (form.kind != "constant" && form.kind != "inverse_sqrt")
    out["final"] = number(form, "final");
  if (std::optional<double> last = out.getNumber("final");
      last && lr && *last > *lr)
    e.diags
        .warning(809, find(form, "final").range,
                 "training ends with a larger learning rate than it begins "
                 "with: `final` is larger than `lr`")
        .help("`final` is a learning rate, and no share of `lr`");
  if (form.kind == "wsd" || form.kind == "cosine") {
    Found given = find(form, "decay");
    int64_t decay = integer(form, "decay");
    out["decay"] = decay;
    if (form.kind == "cosine" && given.expr && warmup > 0 && warmup >= decay &&
        !(steps && warmup >= *steps))
      e.diags
          .warning(809, given.range,
                   "the learning rate never reaches `lr`: it rises for " +
                       Twine(warmup) +
                       " updates (`warmup`), and is `final` from update " +
                       Twine(decay) + " on (`decay`)")
          .help("`decay` counts from the first update, too");
  }
  if (form.kind == "wsd")
    out["shape"] = word(form, "shape");
  if (Found fromZero = find(form, "warmup_from_zero"); fromZero.expr) {
    out["warmup_from_zero"] = flag(form, "warmup_from_zero");
    if (warmup == 0 && out["warmup_from_zero"] == true)
      hasNoEffect(fromZero.range,
                  "`warmup_from_zero` does nothing without `warmup`",
                  "say how many updates it has: `warmup = 100`");
  }
  // Where the file has none, another kind is what has other entries.
  if (found.expr)
    finish(form, form.kind);
  return std::move(out);
}

json::Value RecipeBuilder::every(const Found &found, StringRef name) {
  std::string path = ("train." + name).str();
  const auto *absent =
      std::get_if<std::string_view>(&recipe::find(path)->fallback);
  if (found.expr ? found.expr->isName("none") : !absent)
    return nullptr;
  Form form = formOr(found, absent ? StringRef(*absent) : "", path);
  if (!known(form, {"every"}, "rhythm"))
    return nullptr;
  json::Object out = defaults(path, form.kind);
  out["every"] = integer(form, "n", 0);
  out["unit"] = word(form, "unit", found.range, "the unit of `every`", 1);
  if (name == "checkpoint") {
    out["keep"] = integer(form, "keep");
  } else if (name == "validate") {
    out["batches"] = integer(form, "batches");
  } else if (name == "sample") {
    out["prompt"] = text(form, "prompt");
    checkPrompt(find(form, "prompt", -1, Wanted::Text),
                out["prompt"].getAsString().value_or(""));
    e.train.sampleRange = form.range;
    e.train.samplePrompt = out["prompt"].getAsString().value_or("");
    out["tokens"] = integer(form, "tokens");
  }
  if (found.expr)
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
