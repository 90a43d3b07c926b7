//===- RecipeData.cpp - the data, tokenizer and generate blocks -----------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/frontend/recipe/Recipe.h"

#include "runtime/data/texts.h"
#include "runtime/support/error.h"
#include "runtime/support/utf8.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

using namespace tfm;
using namespace tfm::ast;
using llvm::StringRef;
using llvm::Twine;
namespace json = llvm::json;

/// The folder of the main file as an absolute path: where the files that a
/// recipe names were when the model was built.
static std::string absoluteFolder(StringRef folder) {
  llvm::SmallString<128> path(folder.empty() ? "." : folder);
  // Where there is no working directory, the path stays as it is.
  if (std::error_code failure = llvm::sys::fs::make_absolute(path))
    return path.str().str();
  llvm::sys::path::remove_dots(path, /*remove_dot_dot=*/true);
  return path.str().str();
}

/// The files that a name of a recipe stands for: what a pattern matches, where
/// it matches any.
static std::vector<std::string> filesLike(const std::string &path) {
  DataSpec data;
  data.files = {path};
  // The runtime throws.
  try {
    return withMatches(data).files;
  } catch (const InputError &) {
    return {path};
  }
}

std::vector<std::string>
RecipeBuilder::locate(llvm::ArrayRef<std::string> names,
                      llvm::ArrayRef<Range> ranges, bool mayMatch) {
  std::vector<std::string> paths;
  for (auto [i, name] : llvm::enumerate(names)) {
    Range range = ranges[std::min(i, ranges.size() - 1)];
    llvm::SmallString<128> path(name);
    if (!llvm::sys::path::is_absolute(path) &&
        !e.compilation.mainUnit->folder.empty()) {
      path = e.compilation.mainUnit->folder;
      llvm::sys::path::append(path, name);
    }
    // Who reads them finds what it matches.
    if (mayMatch && StringRef(name).find_first_of("*?[") != StringRef::npos) {
      paths.push_back(path.str().str());
      continue;
    }
    llvm::sys::fs::file_status status;
    std::error_code problem = llvm::sys::fs::status(path, status);
    std::string why = problem                               ? problem.message()
                      : llvm::sys::fs::is_directory(status) ? "it is a folder"
                      : !llvm::sys::fs::is_regular_file(status)
                          ? "it is not a regular file"
                          : "";
    if (!why.empty()) {
      e.diags.error(807, range, "cannot read `" + path + "`: " + why)
          .help("the path is relative to the model's file");
      return {};
    }
    paths.push_back(path.str().str());
  }
  return paths;
}

void RecipeBuilder::addFileNames(const Found &found, StringRef name,
                                 std::vector<std::string> &files,
                                 std::vector<Range> *ranges) {
  SymbolicValue v = value(found);
  std::vector<SymbolicValue> items =
      v.is(SymbolicValue::List) ? v.items() : std::vector<SymbolicValue>{v};
  for (auto [i, item] : llvm::enumerate(items)) {
    if (!item.is(SymbolicValue::String)) {
      wrong(found, name, "a file's name in quotes", item);
      continue;
    }
    files.push_back(item.text());
    llvm::SmallString<128> path(item.text());
    llvm::sys::path::make_absolute(
        absoluteFolder(e.compilation.mainUnit->folder), path);
    for (const std::string &file : filesLike(path.str().str()))
      e.sources.addNamed(file);
    bool isList = found.expr->kind == ExprKind::List ||
                  found.expr->kind == ExprKind::Tuple;
    if (ranges)
      ranges->push_back(isList ? found.expr->kids[i]->range : found.range);
  }
}

std::vector<std::string> RecipeBuilder::fileNames(Form &form,
                                                  std::vector<Range> *ranges) {
  std::vector<std::string> files;
  form.known.push_back("files");
  size_t before = e.diags.errors().size();
  auto add = [&](const Found &found) {
    addFileNames(found, form.kind, files, ranges);
  };
  if (Override *define = e.findDefine(form.path + ".files")) {
    for (size_t i = 0; i < form.args.size(); ++i)
      form.used[i] = form.used[i] || form.args[i].name.empty();
    if (const Expr *expr = e.useDefine(*define, Wanted::Texts))
      add({expr, define->range});
    if (files.empty() && e.diags.errors().size() == before)
      e.diags.error(804, define->range, "`" + form.kind + "` needs a file");
    return files;
  }
  for (auto [i, arg] : llvm::enumerate(form.args)) {
    if (!arg.name.empty() && arg.name != "files")
      continue;
    form.used[i] = true;
    // `data/input.txt` without its quotes divides names.
    const Expr *first = arg.value;
    while (first->kind == ExprKind::Member || first->kind == ExprKind::Binary)
      first = first->kids[0];
    Scope scope;
    scope.unit = e.compilation.mainUnit;
    scope.self = e.root;
    if (e.isUnknownWord(*first, scope)) {
      StringRef text = e.sources.text(arg.value->range);
      e.diags
          .error(802, arg.value->range,
                 "`" + form.kind + "` takes a file's name in quotes")
          .help("write `" + form.kind + "(\"" + text + "\")`");
      continue;
    }
    add({arg.value, arg.value->range});
  }
  if (files.empty() && e.diags.errors().size() == before)
    e.diags.error(804, form.range, "`" + form.kind + "` names no file")
        .help("write `" + form.kind +
              (form.kind == "gpt2" || form.kind == "bpe_words"
                   ? "(\"vocab.json\", \"merges.txt\")`"
                   : "(\"file\")`"));
  return files;
}

//===----------------------------------------------------------------------===//
// Data
//===----------------------------------------------------------------------===//

/// What reads the data that is called `kind` elsewhere; empty: nothing is known
/// of it.
static StringRef otherKindOfData(StringRef kind) {
  return llvm::StringSwitch<StringRef>(kind)
      .Cases({"csv", "tsv", "table"},
             "a table of texts is read by `pairs(\"FILE.csv\", prompt = "
             "\"COLUMN\", answer = \"COLUMN\")` or `json(\"FILE.csv\", field "
             "= \"COLUMN\")`; numbers come as `arrays(\"FILE.safetensors\")`")
      .Cases({"jsonl", "chat", "messages"},
             "`json(\"FILE.jsonl\", field = \"NAME\")` reads texts, and the "
             "messages of chats")
      .Cases({"npy", "npz", "numpy", "safetensors", "tensors", "images"},
             "numbers come as `arrays(\"FILE.safetensors\")`, token ids as "
             "`tokens(\"FILE.npy\")`")
      .Default("");
}

std::optional<RecipeBuilder::Form> RecipeBuilder::dataForm(const Block *block) {
  if (!block || !block->value)
    return std::nullopt;
  Form data = form(*block->value, "data");
  if (!known(data, kindsOf("data"), "kind of data", otherKindOfData(data.kind)))
    return std::nullopt;
  return data;
}

std::vector<std::string>
RecipeBuilder::validationFiles(Form &data, std::vector<Range> *ranges) {
  std::vector<std::string> files;
  Found found = find(data, "validation_files", -1, Wanted::Texts);
  if (found.expr && !found.expr->isName("none"))
    addFileNames(found, "validation_files", files, ranges);
  return files;
}

json::Value RecipeBuilder::dataBlock(const Block *block) {
  std::optional<Form> found = dataForm(block);
  if (!found)
    return nullptr;
  Form &data = *found;
  bool generated = data.kind == "sums" || data.kind == "products";
  json::Object out = defaults("data", data.kind);
  if (generated) {
    out["count"] = integer(data, "count", 0);
    out["max"] = integer(data, "max", 1);
  } else {
    json::Array files;
    for (std::string &name : fileNames(data))
      files.push_back(std::move(name));
    out["files"] = std::move(files);
    std::vector<std::string> others = validationFiles(data);
    for (StringRef name : {"validation", "split_seed"})
      if (std::optional<Range> entry = given(data, name);
          entry && !others.empty())
        hasNoEffect(*entry,
                    ("`" + name +
                     "` does nothing: no share is cut off where "
                     "`validation_files` are the data for validation")
                        .str(),
                    "leave one of them out");
    out["validation_files"] = json::Array(others);
  }
  out["directory"] = absoluteFolder(e.compilation.mainUnit->folder);
  if (data.kind == "json")
    out["field"] = text(data, "field");
  if (data.kind == "pairs")
    promptAndAnswer(data, out);
  out["seed"] = integer(data, "seed");
  out["validation"] = number(data, "validation");
  out["split_seed"] = integerOrNull(data, "split_seed");
  out["answer_after"] = text(data, "answer_after");
  out["answers_only"] = answersOnly(data, out["answer_after"]);
  out["begin"] = text(data, "begin");
  out["end"] = text(data, "end");
  out["pad"] = text(data, "pad");
  DataSpec absent;
  absent.kind = data.kind;
  absent = withDefaults(absent);
  const bool isOneText = isStream(absent);
  const bool hasTexts = data.kind != "arrays";
  hasExamples = !isOneText && hasTexts;
  marker(data, "begin", "");
  ending = marker(data, "end", absent.end);
  padding = marker(data, "pad", absent.pad);
  if (!hasExamples)
    ending = padding = std::nullopt;
  for (StringRef name :
       {"seed", "split_seed", "answer_after", "begin", "end", "pad"}) {
    bool isUsed = name == "seed"         ? generated
                  : name == "split_seed" ? !isOneText
                                         : hasExamples;
    if (!hasTexts && !isUsed)
      llvm::erase(data.known, name); // nobody is to be shown it
    if (std::optional<Range> entry = given(data, name); entry && !isUsed)
      hasNoEffect(*entry,
                  ("`" + name + "` does nothing: " +
                   (isOneText        ? "`" + data.kind +
                                           "` is one stream, without "
                                           "examples"
                    : name == "seed" ? "the examples of `" + data.kind +
                                           "` are not made, but read"
                                     : "`arrays` have no texts"))
                      .str(),
                  "leave it out");
  }
  if (!hasTexts)
    llvm::erase(data.known, "answers_only");
  finish(data, data.kind);
  return std::move(out);
}

void RecipeBuilder::promptAndAnswer(Form &data, json::Object &out) {
  for (StringRef name : {"prompt", "answer"})
    out[name] = text(data, name);
  if (out["prompt"] == out["answer"])
    e.diags
        .error(802, find(data, "answer").range,
               "`prompt` and `answer` are the same, " +
                   SymbolicValue::string(out["answer"].getAsString()->str())
                       .show())
        .help("name what holds each: `pairs(..., prompt = \"question\", "
              "answer = \"reply\")`");
}

bool RecipeBuilder::answersOnly(Form &data, const json::Value &answerAfter) {
  if (!flag(data, "answers_only"))
    return false;
  Range range = find(data, "answers_only").range;
  answersAlone = range;
  DataSpec spec;
  spec.kind = data.kind;
  // What documents hold only the binary sees: messages have answers.
  if (spec.kind == "pairs" || spec.kind == "json" ||
      answerAfter.getAsString() || !withDefaults(spec).answerAfter.empty())
    return true;
  Diagnostic &d = e.diags.error(804, range,
                                "`answers_only` needs answers, which `" +
                                    data.kind + "` alone does not have");
  if (spec.kind == "arrays")
    d.help("let the array `targets` have the target that the loss ignores, "
           "where none counts");
  else if (isStream(spec))
    d.help("`" + data.kind + "` is one stream, without examples: take `pairs`");
  else
    d.help("say what they follow, `answer_after = \"...\"`, or take `pairs`");
  return true;
}

std::optional<RecipeBuilder::Marker>
RecipeBuilder::marker(Form &data, StringRef name, StringRef absent) {
  Found found = find(data, name, -1, Wanted::Text);
  json::Value given = text(data, name);
  std::string token = given.getAsString().value_or(absent).str();
  Marker marker{token, found.expr ? found.range : data.range};
  if (token.empty()) {
    if (given.getAsString())
      e.diags
          .error(802, found.range, "`" + name + "` takes one token, not \"\"")
          .help("leave it out where there is none");
    return std::nullopt;
  }
  const TokenizerInfo *info =
      e.block("tokenizer") ? e.resolveTokenizer(marker.range) : nullptr;
  bool isChars = info && !info->alphabet.empty();
  if (!isChars && !(info && info->kind == "bytes")) {
    // Of the others only what reads all of a tokenizer knows the tokens.
    if (info && hasExamples && e.options.openTokenizer &&
        !tokenId(marker, *info, "take a token as its vocabulary has it"))
      return std::nullopt;
    return marker;
  }
  if ((isChars ? countCodePoints(token) : token.size()) != 1) {
    e.diags.error(802, marker.range,
                  "`" + name + "` takes one token, with `" + info->kind +
                      (isChars ? "` one character, not " : "` one byte, not ") +
                      SymbolicValue::string(token).show());
    return std::nullopt;
  }
  if (isChars && !llvm::is_contained(info->alphabet, token)) {
    Diagnostic &d =
        e.diags.error(802, marker.range,
                      "the tokenizer has no character " +
                          SymbolicValue::string(token).show() +
                          ", so it cannot be the data's `" + name + "`");
    if (found.expr)
      d.help("take a character that it has");
    else
      d.help("set `" + name + "`: without it `" + data.kind + "` has that one");
    return std::nullopt;
  }
  return marker;
}

//===----------------------------------------------------------------------===//
// Tokenizer
//===----------------------------------------------------------------------===//

/// The hyperparameter of a file that has its default, or a part of it, at a
/// place.
static StringRef hyperparameterAt(const ast::File &file, Range range) {
  for (const auto &module : file.modules)
    for (const ast::Parameter &parameter : module->parameters)
      if (parameter.value && parameter.value->range.file == range.file &&
          parameter.value->range.begin <= range.begin &&
          range.end <= parameter.value->range.end)
        return parameter.name;
  return "";
}

void RecipeContext::reportNoTokenizer(Range range, StringRef token) {
  // What is missing is missing in the file that is compiled, whoever asks.
  bool isImported = range.file != compilation.mainUnit->file &&
                    !sources.file(range.file).isArgument();
  const Expr *model = compilation.mainUnit->ast->model;
  Diagnostic &d = reporter.error(
      806,
      !isImported ? range
      : model     ? model->range
                  : Range{compilation.mainUnit->file, 0, 0},
      "this file has no `tokenizer`, so " +
          (token.empty()
               ? "its size"
               : "the id of " + SymbolicValue::string(token.str()).show()) +
          " is unknown");
  if (isImported)
    d.note("it is needed in " + reporter.place(range) +
           "; the `tokenizer` of an imported file does not count");
  StringRef name = hyperparameterAt(*compilation.mainUnit->ast, range);
  d.help("add a line such as `tokenizer bytes`, or " +
         (!token.empty() ? "take an id"
          : name.empty()
              ? "set the hyperparameter"
              : "set `" + name.str() + "`, as in `-D " + name.str() + "=256`"));
}

const TokenizerInfo *RecipeContext::resolveTokenizer(Range range,
                                                     StringRef token) {
  if (!tokenizerTried) {
    tokenizerTried = true;
    if (const Block *tokens = block("tokenizer"))
      tokenizer = RecipeBuilder(*this).tokenizer(*tokens);
    else
      reportNoTokenizer(range, token);
  }
  return tokenizer ? &*tokenizer : nullptr;
}

std::optional<DataSpec>
RecipeBuilder::alphabetSource(const Found &from, std::vector<Range> &ranges) {
  DataSpec source;
  source.kind = "text";
  if (!from.expr->isName("data")) {
    SymbolicValue v = value(from);
    if (!v.is(SymbolicValue::String)) {
      wrong(from, "from", "`data` or a file's name", v);
      return std::nullopt;
    }
    ranges = {from.range};
    source.files = locate({v.text()}, ranges, /*mayMatch=*/true);
    return source.files.empty() ? std::nullopt : std::optional(source);
  }
  const Block *data = e.block("data");
  if (!data || !data->value) {
    e.diags.error(806, from.range,
                  "this file has no `data` to take the characters from");
    return std::nullopt;
  }
  std::optional<Form> found = dataForm(data);
  if (!found)
    return std::nullopt;
  Form &form = *found;
  auto entry = [&](StringRef name) {
    return text(form, name).getAsString().value_or("").str();
  };
  if (form.kind == "sums" || form.kind == "products") {
    source.kind = form.kind;
    source.end = entry("end");
    source.pad = entry("pad");
    source = withDefaults(source);
    std::string alphabet =
        form.kind == "sums" ? "0123456789+=" : "0123456789*=";
    for (const std::string &more : {source.end, source.pad, entry("begin")})
      if (!StringRef(alphabet).contains(more))
        alphabet += more;
    e.diags
        .error(806, from.range,
               "the characters of generated data are written out")
        .help("write `tokenizer chars(" +
              SymbolicValue::string(alphabet).show() + ")`");
    return std::nullopt;
  }
  if (form.kind == "tokens" || form.kind == "arrays") {
    e.diags
        .error(806, from.range,
               "`" + form.kind + "` are " +
                   (form.kind == "tokens" ? "ids" : "numbers") +
                   ": there are no characters to take")
        .help(
            "name the tokenizer that made them, or the text that they are of: "
            "`chars(from = \"input.txt\")`");
    return std::nullopt;
  }
  source.kind = form.kind;
  std::vector<std::string> names = fileNames(form, &ranges);
  if (names.empty())
    return std::nullopt;
  llvm::append_range(names, validationFiles(form, &ranges));
  source.files = locate(names, ranges, /*mayMatch=*/true);
  source.field = form.kind == "json" ? entry("field") : "";
  if (form.kind == "pairs") {
    source.prompt = entry("prompt");
    source.answer = entry("answer");
  }
  source.begin = entry("begin");
  source.end = entry("end");
  source.pad = entry("pad");
  return source.files.empty() ? std::nullopt : std::optional(source);
}

/// The same of tokenizers.
static StringRef otherTokenizer(StringRef kind) {
  return llvm::StringSwitch<StringRef>(kind)
      .Cases(
          {"bpe", "json", "hf", "llama", "wordpiece", "unigram", "bert"},
          "`huggingface(\"tokenizer.json\")` reads what is published; "
          "`bpe_words(\"vocab.json\", \"merges.txt\")` what `tfmc tokenizer` "
          "learns from a text")
      .Cases({"tiktoken", "gpt", "gpt3", "gpt4"},
             "GPT-2's is `gpt2(\"vocab.json\", \"merges.txt\")`, others are "
             "read by `huggingface(\"tokenizer.json\")`")
      .Default("");
}

std::optional<TokenizerInfo> RecipeBuilder::tokenizer(const Block &block) {
  if (!block.value)
    return std::nullopt;
  Form form = this->form(*block.value, "tokenizer");
  if (!known(form, kindsOf("tokenizer"), "tokenizer",
             otherTokenizer(form.kind)))
    return std::nullopt;
  TokenizerInfo info;
  info.kind = form.kind;
  size_t before = e.diags.size();
  if (form.kind == "chars") {
    Found from = find(form, "from");
    Found alphabet = find(form, "alphabet", 0, Wanted::Text);
    if (from.expr && alphabet.expr) {
      e.diags
          .error(804, alphabet.range,
                 "`chars` has its characters from here, or `from` elsewhere")
          .help("take one of them out");
      return std::nullopt;
    }
    if (from.expr) {
      std::vector<Range> ranges;
      std::optional<DataSpec> source = alphabetSource(from, ranges);
      if (!source)
        return std::nullopt;
      if (auto alphabet = learnAlphabet(*source)) {
        info.alphabet = std::move(*alphabet);
      } else {
        std::string why = llvm::toString(alphabet.takeError());
        // The file that the message names.
        Range at = ranges[0];
        for (auto [path, range] : llvm::zip(source->files, ranges))
          if (StringRef(why).contains(path))
            at = range;
        e.diags.error(808, at, "there are no characters to learn: " + why);
      }
    } else {
      if (!alphabet.expr || alphabet.expr->isName("data")) {
        e.diags
            .error(804, alphabet.expr ? alphabet.range : form.range,
                   "`chars` needs to know its characters")
            .help("write `chars(from = data)` or `chars(\"abc\")`");
        return std::nullopt;
      }
      SymbolicValue v = value(alphabet);
      if (v.is(SymbolicValue::String)) {
        auto ordered = orderedAlphabet(v.text());
        if (ordered)
          info.alphabet = *ordered;
        else
          e.diags
              .error(808, alphabet.range,
                     "this is no alphabet: " +
                         llvm::toString(ordered.takeError()))
              .help("`chars(from = data)` takes the characters of the data");
      } else {
        wrong(alphabet, "chars", "a string of its characters", v);
      }
    }
    info.size = static_cast<int64_t>(info.alphabet.size());
  } else if (form.kind == "bytes") {
    info.size = 256;
  } else {
    info.files = fileNames(form);
    if (info.files.empty())
      return std::nullopt;
    if (form.kind == "gpt2" || form.kind == "bpe_words") {
      if (info.files.size() != 2) {
        e.diags
            .error(804, form.range,
                   "`" + form.kind + "` takes a vocabulary and its merges")
            .help("write `" + form.kind + "(\"vocab.json\", \"merges.txt\")`");
        return std::nullopt;
      }
    }
    info.paths = locate(info.files, form.range);
    if (info.paths.empty())
      return std::nullopt;
    auto size = tokenizerSize(info, e.options.openTokenizer);
    if (!size) {
      e.diags.error(808, form.range,
                    "this tokenizer cannot be used: " +
                        llvm::toString(size.takeError()));
      return std::nullopt;
    }
    info.size = *size;
  }
  finish(form, form.kind);
  if (e.diags.size() != before)
    return std::nullopt;
  return info;
}

json::Value RecipeBuilder::tokenizerJson() {
  const Block *block = e.block("tokenizer");
  if (!block)
    return nullptr;
  const TokenizerInfo *info = e.resolveTokenizer(block->range);
  if (!info)
    return nullptr;
  json::Object out{
      {"kind", info->kind},
      {"size", info->size},
      {"directory", absoluteFolder(e.compilation.mainUnit->folder)}};
  json::Array files;
  for (const std::string &name : info->files)
    files.push_back(name);
  out["files"] = std::move(files);
  out["json"] = nullptr;
  if (!info->alphabet.empty())
    out["json"] =
        llvm::cantFail(json::parse(charsTokenizerJson(info->alphabet)));
  return std::move(out);
}

//===----------------------------------------------------------------------===//
// Generate
//===----------------------------------------------------------------------===//

json::Value RecipeBuilder::generateBlock(const Block *block) {
  Block absent;
  absent.keyword = "generate";
  Form form = this->form(block ? *block : absent);
  int64_t context = e.contextLength();
  if (!context)
    context = e.train.sequence;
  json::Object out;
  out["temperature"] = number(form, "temperature");
  out["top_k"] = integer(form, "top_k");
  for (StringRef name : {"top_p", "min_p", "typical_p", "repeat_penalty"})
    out[name] = number(form, name);
  out["tokens"] = integer(form, "tokens");
  out["greedy"] = flag(form, "greedy");
  for (StringRef name : {"temperature", "top_k", "top_p", "min_p", "typical_p"})
    if (std::optional<Range> entry = given(form, name);
        entry && out["greedy"] == true)
      hasNoEffect(
          *entry,
          ("`" + name + "` does nothing: with `greedy` the best token is taken")
              .str(),
          "take one of them out");
  out["overflow"] = word(form, "overflow");
  json::Array stops;
  for (const Marker &stop : texts(form, "stop"))
    stops.push_back(stop.text);
  out["stop"] = std::move(stops);
  out["weights"] = word(form, "weights");
  out["cache"] = word(form, "cache");
  if (*out.getString("cache") != StringRef(recipe::text("generate.cache")))
    e.cacheRange = given(form, "cache");
  e.generateBatch = integer(form, "batch");
  const Method *forward = e.root ? findMethod(*e.root, "forward") : nullptr;
  if (e.generateBatch > 1 && forward && readsPrompts(*forward)) {
    hasNoEffect(given(form, "batch").value_or(form.range),
                "`batch` does nothing: an encoder reads one prompt at a time, "
                "so that texts are generated one after the other",
                "leave it out");
    e.generateBatch = 1;
  }
  out["batch"] = e.generateBatch;
  out["context"] = context;
  finish(form, "generate");
  return std::move(out);
}
