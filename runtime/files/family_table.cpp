//===- family_table.cpp - the table of a family, read and checked ---------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

// The compiler alone does this: a binary has the table that comes of it in its
// recipe.
//
//===----------------------------------------------------------------------===//

#include "runtime/files/family.h"

#include "runtime/support/error.h"
#include "runtime/support/read_json.h"

#include <algorithm>
#include <nlohmann/json.hpp>

using nlohmann::json;

namespace tfm {

namespace {

/// The members of a rule, and what each holds.
struct RuleMember {
  const char *name;
  bool (*fits)(const json &);
  const char *takes;
};

bool isText(const json &value) { return value.is_string(); }
bool isFilled(const json &value) { return value.is_string() && value != ""; }
bool isAny(const json &) { return true; }
bool isTexts(const json &value) {
  return value.is_array() && std::ranges::all_of(value, isText);
}
bool isFlag(const json &value) { return value.is_boolean(); }
bool isMap(const json &value) {
  return value.is_object() && std::ranges::all_of(value, isFilled);
}
bool isObject(const json &value) { return value.is_object(); }
bool isNumber(const json &value) { return value.is_number(); }
bool isType(const json &value) {
  for (const char *type : {"integer", "number", "flag", "text", "texts"})
    if (value == type)
      return true;
  return false;
}

constexpr RuleMember ruleMembers[] = {
    {"sets", isFilled, "the name of a hyperparameter"},
    {"must", isAny, "a value"},
    {"harmless", isFilled, "the reason, in words"},
    {"default", isAny, "a value"},
    {"type", isType, "integer, number, flag, text or texts"},
    {"least", isNumber, "a number"},
    {"most", isNumber, "a number"},
    {"words", isMap, "an object of texts, or the name of one"},
    {"null", isFilled, "a value in the language"},
    {"pattern", isObject, "an object"},
    {"each", isFlag, "true or false"},
    {"length", isFilled, "the key that says how many entries a list has"},
    {"optional", isFlag, "true or false"},
    {"aliases", isTexts, "a list of keys"},
    {"only_if", isObject, "an object of keys and values"},
    {"else", isFilled, "a value in the language"},
    {"may_be_less", isFlag, "true or false"},
    {"reason", isFilled, "the reason, in words"},
};

/// What a key takes whose default this is.
const char *typeOf(const json &value) {
  return value.is_number_integer() ? "integer"
         : value.is_number_float() ? "number"
         : value.is_boolean()      ? "flag"
                                   : "text";
}

/// Checks one rule; returns what is wrong with it, or nothing.
std::string ruleProblem(const json &rule) {
  if (!rule.is_object())
    return "is no object";
  for (const auto &[name, value] : rule.items()) {
    const RuleMember *member =
        std::ranges::find_if(ruleMembers, [&, &name = name](const auto &known) {
          return name == known.name;
        });
    if (member == std::end(ruleMembers))
      return "has `" + name + "`, which is not known";
    if (!member->fits(value))
      return "has a `" + name + "` that is not " + member->takes;
  }
  if (rule.contains("sets") + rule.contains("must") +
          rule.contains("harmless") !=
      1)
    return "needs one of `sets`, `must` and `harmless`";
  std::string type = rule.value("type", typeOf(rule.value("default", json())));
  for (const char *bound : {"least", "most"})
    if (type == "integer" && rule.contains(bound) &&
        !rule[bound].is_number_integer())
      return std::string("has a `") + bound + "` that is not an integer";
  if (rule.contains("pattern")) {
    const json &pattern = rule["pattern"];
    if (!pattern.contains("others") ||
        pattern.contains("every") + pattern.contains("first") != 1)
      return "has a `pattern` without `others`, and `every` or `first`";
  }
  return "";
}

[[noreturn]] void wrongTable(const std::string &file, const std::string &what) {
  throw InputError("the family {} {}", file, what);
}

/// What is wrong with a rule for a tensor of a gguf file, or nothing.
std::string tensorProblem(const json &rule) {
  if (isFilled(rule))
    return "";
  if (!rule.is_object() || !isFilled(rule.value("name", json())))
    return "is no name, and no object with one";
  for (const auto &[name, value] : rule.items())
    if (name == "halves_of"    ? !isFilled(value) && !isTexts(value)
        : name == "transposed" ? !isFlag(value)
        : name == "more"       ? !isNumber(value)
                               : name != "name")
      return "has `" + name + "`, which is not known or of another kind";
  return "";
}

/// Adds what a table says of gguf files.
void addGguf(json &all, const std::string &file, const json &gguf) {
  for (const auto &[member, value] : gguf.items()) {
    json &own = all["gguf"][member];
    const std::string what = "has a `gguf." + member + "` of another kind";
    if (member == "architecture") {
      if (!isFilled(value))
        wrongTable(file, what);
      own = value;
    } else if (member == "harmless" || member == "needed") {
      if (!isTexts(value))
        wrongTable(file, what);
      own = value;
    } else if (member == "keys" || member == "rows" || member == "without" ||
               member == "tensors" || member == "frequencies" ||
               member == "must" || member == "with") {
      if (!value.is_object())
        wrongTable(file, what);
      for (const auto &[name, rule] : value.items()) {
        std::string problem =
            member == "tensors" ? tensorProblem(rule)
            : member == "frequencies"
                ? (rule.is_object() ? "" : "is no object of keys")
            : member == "must" ? (rule.is_object() && rule.contains("is") &&
                                          isFilled(rule.value("reason", json()))
                                      ? ""
                                      : "is no object with `is` and `reason`")
            : isFilled(rule)   ? ""
                               : "is no name of a key";
        if (!problem.empty())
          wrongTable(file,
                     "is wrong: `gguf." + member + "." + name + "` " + problem);
        own[name] = rule;
      }
    } else {
      wrongTable(file, "has `gguf." + member + "`, which is not known");
    }
  }
}

/// Throws where a table has a member that is not known, or of another kind.
void requireMembers(const json &table, const std::string &file) {
  for (const auto &[member, value] : table.items()) {
    bool isTable =
        member == "keys" || member == "generation" || member == "words";
    bool isWord = member == "model_type" || member == "model" ||
                  member == "architecture" || member == "about";
    bool isList = member == "include" || member == "unused";
    bool isFlag = member == "generates";
    if (!isTable && !isWord && !isList && !isFlag && member != "gguf" &&
        member != "part_of")
      wrongTable(file, "has `" + member + "`, which is not known");
    if (isTable || member == "gguf" ? !value.is_object()
        : isWord                    ? !isText(value)
        : isList                    ? !isTexts(value)
        : isFlag                    ? !value.is_boolean()
                                    : !isMap(value))
      wrongTable(file, "has a `" + member + "` of another kind");
  }
}

/// A rule as `readByFamily` takes it: with what only a table says by a name.
json completed(json rule, const std::string &key, const json &allWords,
               const std::string &file) {
  if (rule.is_object() && rule.contains("words") && rule["words"].is_string()) {
    std::string list = rule["words"].get<std::string>();
    if (!allWords.contains(list))
      wrongTable(file, "has no `words." + list + "`");
    rule["words"] = allWords[list];
  }
  if (std::string what = ruleProblem(rule); !what.empty())
    wrongTable(file, "is wrong: `" + key + "` " + what);
  // Other writers of JSON make 10000 of 10000.0.
  if (rule.value("type", "") == "number" &&
      rule.value("default", json()).is_number_integer())
    rule["is_whole"] = true;
  if (rule.contains("sets") && !rule.contains("type"))
    rule["type"] = typeOf(rule.value("default", json()));
  return rule;
}

/// Adds what a table says to `all`, after what it includes.
void addTable(json &all, const std::string &name, int depth,
              const std::function<std::string(const std::string &)> &load,
              const std::function<std::string(const std::string &)> &nameOf) {
  const std::string file = nameOf(name);
  if (depth > 8)
    wrongTable(file, "includes itself, or others too deeply");
  const std::string text = load(name);
  json table = jsonOf(text);
  if (!table.is_object())
    wrongTable(file, isNoObject(text));
  requireMembers(table, file);
  for (const json &other : table.value("include", json::array()))
    addTable(all, other.get<std::string>(), depth + 1, load, nameOf);
  for (const char *member : {"model_type", "model", "architecture", "unused",
                             "part_of", "generates"})
    if (table.contains(member))
      all[member] = table[member];
  addGguf(all, file, table.value("gguf", json::object()));
  const json words = table.value("words", json::object());
  for (const auto &[word, map] : words.items()) {
    if (!isMap(map))
      wrongTable(file, "has `words." + word + "` that is no object of texts");
    all["words"][word] = map;
  }
  for (const char *part : {"keys", "generation"}) {
    const json rules = table.value(part, json::object());
    for (const auto &[key, rule] : rules.items())
      if (rule.is_null())
        all[part].erase(key);
      else
        all[part][key] = completed(rule, key, all["words"], file);
  }
}

} // namespace

json readFamily(const std::string &name,
                const std::function<std::string(const std::string &)> &load,
                const std::function<std::string(const std::string &)> &nameOf) {
  json all = {{"keys", json::object()},
              {"generation", json::object()},
              {"words", json::object()}};
  addTable(all, name, 0, load, nameOf);
  all.erase("words");
  if (!all["gguf"].contains("architecture"))
    all.erase("gguf");
  else
    for (const char *member :
         {"keys", "rows", "without", "tensors", "with", "frequencies", "must"})
      all["gguf"].emplace(member, json::object());
  if (all.contains("gguf"))
    for (const char *member : {"harmless", "needed"})
      all["gguf"].emplace(member, json::array());
  for (const char *member : {"model_type", "model"})
    if (!all.contains(member))
      wrongTable(nameOf(name), std::string("has no `") + member + "`");
  return all;
}

std::vector<std::string> expressionsOf(const json &family) {
  std::vector<std::string> texts;
  for (const auto &[key, rule] : family.at("keys").items()) {
    for (const char *member : {"null", "else"})
      if (rule.contains(member))
        texts.push_back(rule[member].get<std::string>());
    if (rule.contains("words"))
      for (const json &text : rule["words"])
        texts.push_back(text.get<std::string>());
  }
  std::ranges::sort(texts);
  texts.erase(std::ranges::unique(texts).begin(), texts.end());
  return texts;
}

} // namespace tfm
