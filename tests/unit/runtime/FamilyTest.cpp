//===- FamilyTest.cpp - what the keys of a config.json mean -------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/files/family.h"
#include "runtime/files/hf_config.h"
#include "runtime/support/error.h"
#include "tests/unit/runtime/TemporaryFolder.h"
#include "tests/unit/runtime/ToyModel.h"

#include <gtest/gtest.h>
#include <map>
#include <nlohmann/json.hpp>

using nlohmann::json;

namespace tfm {
namespace {

using test::messageOf;
using test::TemporaryFolder;

using Tables = std::map<std::string, std::string>;

json family(const Tables &tables) {
  return readFamily(
      "own",
      [&](const std::string &name) {
        auto found = tables.find(name);
        if (found == tables.end())
          throw InputError("there is no family `" + name + "`");
        return found->second;
      },
      [](const std::string &name) { return name + ".json"; });
}

json familyOf(const std::string &keys) {
  return family(
      {{"own", R"({"model_type": "own", "model": "own.tfm", "keys": {)" + keys +
                   "}}"}});
}

/// What is read of a configuration, a line each: `width = 8`, `-dtype`, `!x`.
std::string read(const json &table, const std::string &config,
                 const std::vector<std::string> &ignored = {}) {
  std::string text;
  for (const FamilyKey &key :
       readByFamily(table, json::parse(config), ignored)) {
    text += text.empty() ? "" : "; ";
    switch (key.kind) {
    case FamilyKey::Kind::Sets:
      text += key.hyperparameter + " = " + key.text;
      break;
    case FamilyKey::Kind::Required:
      text += key.key + " is " + key.text;
      break;
    case FamilyKey::Kind::Harmless:
      text += "-" + key.key;
      break;
    case FamilyKey::Kind::Refused:
      text += "!" + key.key + ": " + key.reason;
      break;
    }
  }
  return text;
}

TEST(Family, SetsHyperparameters) {
  json table = familyOf(R"("n": {"sets": "width", "default": 768},
      "eps": {"sets": "eps", "default": 10.0},
      "tied": {"sets": "tied", "default": true},
      "kv": {"sets": "kv", "default": null, "type": "integer", "null": "heads"},
      "act": {"sets": "act", "default": "a", "words": {"a": "gelu", "b": "silu"}})");
  // What is absent means what it means to transformers.
  EXPECT_EQ(read(table, "{}"),
            "act = gelu; eps = 10.0; kv = heads; width = 768; tied = true");
  EXPECT_EQ(
      read(table, R"({"n": 8, "eps": 1, "kv": 3, "act": "b", "tied": false})"),
      "act = silu; eps = 1.0; kv = 3; width = 8; tied = false");
  EXPECT_EQ(
      read(table, R"({"n": 0, "eps": "x", "kv": 1.5, "act": "c", "tied": 1})"),
      "!act: it takes one of a, b; !eps: it takes a number; "
      "!kv: it takes an integer of at least 1; "
      "!n: it takes an integer of at least 1; "
      "!tied: it takes true or false");
  // Null is not absent.
  EXPECT_EQ(read(table, R"({"n": null, "kv": null})"),
            "act = gelu; eps = 10.0; kv = heads; "
            "!n: it takes an integer of at least 1; tied = true");
}

TEST(Family, Conditions) {
  json table = familyOf(R"("on": {"sets": "on", "default": false},
      "a": {"sets": "a", "default": 3, "only_if": {"on": true}, "else": "none"},
      "b": {"sets": "b", "default": 4, "only_if": {"on": true}},
      "c": {"must": 5, "only_if": {"on": true}},
      "d": {"sets": "d", "type": "integer", "optional": true})");
  EXPECT_EQ(read(table, R"({"a": 9, "b": 9, "c": 9})"),
            "a = none; -b; -c; on = false");
  EXPECT_EQ(
      read(table, R"({"a": 9, "c": 9, "on": true, "d": 7})"),
      "a = 9; b = 4; !c: this family computes with 5 alone; d = 7; on = true");
}

TEST(Family, PlacesAndAliases) {
  json table = familyOf(R"("in.base": {"sets": "base", "default": 1.0,
                                       "aliases": ["out.base", "base"]})");
  EXPECT_EQ(read(table, "{}"), "base = 1.0");
  EXPECT_EQ(read(table, R"({"in": null, "base": 2})"), "base = 2.0");
  EXPECT_EQ(read(table, R"({"in": {"base": 3}, "out": {}})"), "base = 3.0");
  EXPECT_EQ(read(table, R"({"in": {"base": 3}, "base": 3})"), "base = 3.0");
  EXPECT_EQ(read(table, R"({"in": {"base": 3}, "base": 2})"),
            "!in.base: its other name base is 2: which of the two is meant is "
            "unknown");
  EXPECT_EQ(read(table, R"({"in": 3})"), "base = 1.0; !in: it takes an object");
  EXPECT_EQ(read(table, R"({"in": {"other": 3}})"),
            "base = 1.0; !in.other: this family does not know it");
  // A dot in a name.
  EXPECT_EQ(read(table, R"({"in.base": 3})"),
            "base = 1.0; !in.base: this family does not know it");
  // What is absent is named as the file names the others of its kind.
  json needed = familyOf(R"("new.n": {"sets": "n", "type": "integer",
                                      "aliases": ["old.n", "n"]})");
  EXPECT_EQ(read(needed, R"({"old": {}})"), "!old.n: this family needs it");
  EXPECT_EQ(read(needed, "{}"), "!new.n: this family needs it");
}

TEST(Family, Patterns) {
  json table = familyOf(R"("l": {"sets": "every", "optional": true,
                                 "pattern": {"every": "f", "others": "s"}},
                           "m": {"must": "f", "each": true, "optional": true})");
  EXPECT_EQ(read(table, R"({"l": ["s", "f", "s", "f"]})"), "every = 2");
  EXPECT_EQ(read(table, R"({"l": ["s", "f", "s"]})"), "every = 2");
  EXPECT_EQ(read(table, R"({"l": ["f", "f"]})"), "every = 1");
  EXPECT_EQ(read(table, R"({"l": ["s", "s"]})"), "every = none");
  std::string many = R"(["s")", named;
  for (int i = 2; i <= 30; ++i)
    many += R"(, "f")";
  many += "]";
  for (int i = 2; i <= 13; ++i)
    named += std::to_string(i) + ", ";
  for (const auto &[list, found] :
       std::vector<std::pair<std::string, std::string>>{
           {R"(["f", "s"])", "; \"f\" is entry 1 of the 2 here"},
           {R"(["s", "f", "f"])", "; \"f\" are entries 2, 3 of the 3 here"},
           {many, "; \"f\" are entries " + named + "... of the 30 here"},
           {"[]", ""},
           {"3", ""},
           {R"(["s", "x", 3])", ", and entry 2 of this one is \"x\""},
           {R"([3])", ", and entry 1 of this one is 3"}})
    EXPECT_EQ(read(table, R"({"l": )" + list + "}"),
              "!l: it takes a list where every n-th is \"f\" and all others "
              "are \"s\"" +
                  found);
  EXPECT_EQ(read(table, R"({"m": ["f", "f"]})"), "m is \"f\"");
  EXPECT_EQ(read(table, R"({"m": ["f", "s"]})"),
            "!m: this family computes with \"f\" alone");
}

TEST(Family, FirstOfAList) {
  json table = familyOf(R"("l": {"sets": "whole", "default": null,
                                 "pattern": {"first": "f", "others": "s"}})");
  EXPECT_EQ(read(table, R"({"l": ["f", "f", "s"]})"), "whole = 2");
  EXPECT_EQ(read(table, R"({"l": ["s", "s"]})"), "whole = 0");
  EXPECT_EQ(read(table, R"({"l": ["f", "f"]})"), "whole = none");
  for (const auto &[list, found] :
       std::vector<std::pair<std::string, std::string>>{
           {R"(["s", "f"])", "; \"f\" is entry 2 of the 2 here"},
           {R"(["f", "s", "f"])", "; \"f\" are entries 1, 3 of the 3 here"},
           {"[]", ""},
           {"3", ""},
           {R"(["f", "x"])", ", and entry 2 of this one is \"x\""}})
    EXPECT_EQ(read(table, R"({"l": )" + list + "}"),
              R"(!l: it takes a list where the first are "f" and all others )"
              R"(are "s")" +
                  found);
}

TEST(Family, WordsOfLists) {
  json table = familyOf(R"("l": {"sets": "kind", "default": ["A"],
                                 "words": {"[\"A\"]": "1", "[\"B\"]": "2"}})");
  EXPECT_EQ(read(table, "{}"), "kind = 1");
  EXPECT_EQ(read(table, R"({"l": ["B"]})"), "kind = 2");
  EXPECT_EQ(read(table, R"({"l": ["C"]})"),
            R"(!l: it takes one of ["A"], ["B"])");
}

TEST(Family, UnknownKeys) {
  json table = familyOf(R"("a": {"harmless": "it is"})");
  EXPECT_EQ(read(table, R"({"a": 3, "b": null, "c": false, "d": "", "e": [],
                            "f": {}})"),
            "-a");
  EXPECT_EQ(read(table, R"({"b": 0})"), "!b: this family does not know it");
  EXPECT_EQ(read(table, R"({"b": 0, "c": 1})", {"b"}),
            "-b; !c: this family does not know it");
  // A dot in a name: harmless is harmless.
  json dotted = familyOf(R"("a.b": {"harmless": "it is"}, "c.d": {"must": 1})");
  EXPECT_EQ(read(dotted, R"({"a.b": {"x": 1}})"), "");
  EXPECT_EQ(read(dotted, R"({"c.d": 1})"),
            "!c.d: this family does not know it");
}

TEST(Family, WrongTables) {
  auto message = [](const Tables &tables) {
    return messageOf<InputError>([&] { family(tables); });
  };
  EXPECT_EQ(message({}), "there is no family `own`");
  EXPECT_EQ(message({{"own", "["}}),
            "the family own.json is not a JSON object (it ends too early)");
  EXPECT_EQ(message({{"own", "{}"}}),
            "the family own.json has no `model_type`");
  EXPECT_EQ(message({{"own", R"({"include": ["own"]})"}}),
            "the family own.json includes itself, or others too deeply");
  EXPECT_EQ(message({{"own", R"({"keys": {"a": {"sets": "x", "mist": 1}}})"}}),
            "the family own.json is wrong: `a` has `mist`, which is not known");
  EXPECT_EQ(message({{"own", R"({"keys": {"a": {"sets": 3}}})"}}),
            "the family own.json is wrong: `a` has a `sets` that is not the "
            "name of a hyperparameter");
  EXPECT_EQ(message({{"own", R"({"keys": {"a": {"sets": "x", "must": 3}}})"}}),
            "the family own.json is wrong: `a` needs one of `sets`, `must` and "
            "`harmless`");
  for (const char *bound : {"least", "most"})
    for (const char *value : {"0.5", "1e300", "1.0"})
      EXPECT_EQ(message({{"own", std::string(R"({"keys": {"a": {"sets": "x",
                            "default": 1, ")") +
                                     bound + "\": " + value + "}}}"}}),
                std::string("the family own.json is wrong: `a` has a `") +
                    bound + "` that is not an integer");
}

TEST(Family, IncludesOthers) {
  json table = family({{"own", R"({"model_type": "own", "model": "own.tfm",
                             "include": ["base"],
                             "keys": {"a": {"must": 1}, "b": null}})"},
                       {"base", R"({"words": {"w": {"x": "y"}}, "keys": {
                             "a": {"must": 2}, "b": {"must": 3},
                             "c": {"sets": "c", "default": "x", "words": "w"}}})"}});
  EXPECT_EQ(read(table, R"({"a": 1, "b": 3})"),
            "a is 1; c = y; !b: this family does not know it");
}

// A context that was made shorter, under every name that it has.
TEST(Family, AdaptsTheContext) {
  json record = familyOf(R"("ctx": {"sets": "context", "default": 16,
      "may_be_less": true, "aliases": ["n_ctx", "in.ctx"]},
      "quantization_config": {"harmless": "it is read"})");
  record["hyperparameters"] = {"context"};
  record["ignored"] = json::array();
  record["values"] = json::object();
  json recipe = json::parse(test::sumsRecipe({}, ""));
  recipe["family"] = record;
  test::ToyModel toy({}, recipe.dump());
  tfm_model model = toy.descriptor();
  auto adapted = [&](const char *context, const std::string &config) {
    model.hyperparameters = context;
    TemporaryFolder folder;
    folder.write("config.json", config);
    return json::parse(adaptConfig(folder.path, model)).dump();
  };
  const char *shorter = R"([{"name": "context", "value": 8}])";
  EXPECT_EQ(adapted(shorter, R"({"n_ctx": 16, "in": {"ctx": 16}})"),
            R"({"in":{"ctx":8},"n_ctx":8})");
  EXPECT_EQ(adapted(shorter, R"({"quantization_config": 8})"), R"({"ctx":8})");
  const char *same = R"([{"name": "context", "value": 16}])";
  EXPECT_EQ(adapted(same, "{}"), "{}");
  EXPECT_EQ(adapted(same, R"({"ctx": 32})"), R"({"ctx":16})");
}

// A list of values that are lists.
TEST(Family, Lists) {
  json table = familyOf(R"("sides": {"must": [[128, 128]]})");
  EXPECT_EQ(read(table, R"({"sides": [128, 128]})"), "sides is [[128,128]]");
  for (const char *other : {"128", "[128]", "[64, 128]", "[[128, 128]]"})
    EXPECT_EQ(read(table, std::string(R"({"sides": )") + other + "}"),
              "!sides: this family computes with [128,128] alone")
        << other;
}

/// A model whose file names its family, beside a config.json.
std::string judge(const std::string &config, const std::string &hyperparameters,
                  const std::string &facts = "{}") {
  json record = familyOf(R"("n_head": {"sets": "heads", "default": 2},
      "kv": {"sets": "kv", "default": null, "type": "integer", "null": "heads"},
      "ctx": {"sets": "context", "default": 8, "may_be_less": true},
      "gone": {"sets": "gone", "default": 1},
      "model_type": {"harmless": "it names the family"},
      "free": {"harmless": "why"}, "fixed": {"must": 1})");
  record["hyperparameters"] = {"heads", "kv", "context"};
  record["ignored"] = {"known"};
  record["values"] = {{"heads", 2}};
  TemporaryFolder folder;
  folder.write("config.json", config);
  std::string text;
  auto comparison = compareConfig(
      folder.path, {facts, hyperparameters, "own.tfm", record.dump()});
  for (const ConfigKey &key : comparison->keys)
    text += key.key + " " + key.stored + ", " + key.model + ": " +
            (key.state == ConfigKey::State::Agrees        ? "agrees"
             : key.state == ConfigKey::State::Harmless    ? "harmless"
             : key.state == ConfigKey::State::NotCompared ? "not compared"
                                                          : key.fix) +
            "\n";
  return text;
}

TEST(Family, JudgesEveryKey) {
  const std::string own =
      R"([{"name": "heads", "value": 2}, {"name": "kv", "value": 2},
          {"name": "context", "value": 8}])";
  EXPECT_EQ(judge("{}", own), "");
  EXPECT_EQ(judge(R"({"n_head": 2, "kv": null, "ctx": 16, "free": 3,
                      "fixed": 1, "known": 4, "gone": 1})",
                  own),
            "ctx 16, 8: agrees\nfixed 1, 1: agrees\nfree 3, : harmless\n"
            "gone 1, : not compared\nkv null, 2: agrees\nn_head 2, 2: agrees\n"
            "known 4, : harmless\n");
  EXPECT_EQ(judge(R"({"n_head": 4, "ctx": 4, "fixed": 2, "new": 1})", own),
            "ctx 4, 8: build it with -D context=4\n"
            "fixed 2, : this family computes with 1 alone\n"
            "n_head 4, 2: build it with -D heads=4\n"
            "new 1, : this family does not know it\n");
  // What is absent may differ, too.
  EXPECT_EQ(judge("{}", R"([{"name": "heads", "value": 4},
                            {"name": "context", "value": 8}])"),
            "kv null, none: it is absent, which means heads: build it with "
            "-D kv=heads\n"
            "n_head null, 4: it is absent, which means 2: build it with "
            "-D heads=2\n");
  // Another family.
  EXPECT_EQ(judge(R"({"model_type": "other"})", own),
            "model_type \"other\", own: import that folder, these weights are "
            "of another family\n");
  EXPECT_EQ(judge(R"({"model_type": "own"})", own),
            "model_type \"own\", : harmless\n");
  // A hyperparameter that nothing computes with.
  EXPECT_EQ(judge(R"({"n_head": 2, "n_layer": 1})", own,
                  R"({"attentions": 1, "heads": [4]})"),
            "n_head 2, 4: change it in own.tfm\n"
            "n_layer 1, : this family does not know it\n");
}

} // namespace
} // namespace tfm
