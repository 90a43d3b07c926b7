//===- RecipeTableTest.cpp - one table of the recipe's keys -------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The table itself, the reader of the JSON beside it, and what docs/ say of it.
//
//===----------------------------------------------------------------------===//

#include "runtime/recipe.h"
#include "runtime/recipe_table.h"
#include "tests/unit/CompleteRecipe.h"

#include <fstream>
#include <gtest/gtest.h>
#include <set>
#include <sstream>

using nlohmann::json;

namespace tfm {
namespace {

using recipe::Field;
using recipe::Type;

std::string textOf(const std::string &page) {
  std::ifstream file(std::string(TFM_FIXTURES) + "/../../docs/" + page);
  std::stringstream text;
  text << file.rdbuf();
  EXPECT_FALSE(text.str().empty()) << page;
  return text.str();
}

std::vector<std::string> linesOf(const std::string &text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);)
    lines.push_back(line);
  return lines;
}

/// The kinds of forms that are told apart by one: "train.optimizer" has adamw.
std::string kindsOf(std::string_view form) {
  const Field *kind = recipe::find(std::string(form) + ".kind");
  return kind ? std::string(kind->words) : "";
}

std::vector<std::string> split(std::string_view words) {
  std::vector<std::string> all;
  std::istringstream stream{std::string(words)};
  for (std::string word; stream >> word;)
    all.push_back(word);
  return all;
}

/// All of a recipe, every form of the first kind that has `field`.
json recipeWith(const Field &field) {
  std::string form(field.parent());
  std::string kind =
      split(field.kinds.empty() ? kindsOf(form) : std::string(field.kinds))
              .empty()
          ? ""
          : split(field.kinds.empty() ? kindsOf(form)
                                      : std::string(field.kinds))[0];
  json text = {{"train",
                {{"validate", json::object()},
                 {"sample", json::object()},
                 {"stop", json::object()},
                 {"schedule", {{"kind", "wsd"}}}}},
               {"data", {{"kind", "text"}}},
               {"tokenizer", {{"kind", "bytes"}}}};
  if (!kind.empty()) {
    json *at = &text;
    std::istringstream parts(form);
    for (std::string part; std::getline(parts, part, '.');)
      at = &(*at)[part];
    (*at)["kind"] = kind;
  }
  return json::parse(test::completeRecipe(text.dump()));
}

/// The object that the field is in.
json &parentOf(json &recipe, const Field &field) {
  json *at = &recipe;
  std::istringstream parts{std::string(field.parent())};
  for (std::string part; std::getline(parts, part, '.');)
    at = &at->at(part);
  return *at;
}

/// What `parseRecipe` says of it; empty where it takes it.
std::string complaint(const json &recipe) {
  try {
    parseRecipe(recipe.dump());
  } catch (const std::logic_error &error) {
    return error.what();
  }
  return "";
}

/// Keys that only the compiler reads.
bool isOfCompiler(const Field &field) {
  static const std::set<std::string_view> paths = {
      "train.optimizer.eps",
      "train.optimizer.eps_placement",
      "train.optimizer.weight_decay",
      "train.optimizer.decay_min_rank",
      "train.optimizer.momentum",
      "train.optimizer.nesterov",
      "train.rates",
      "train.no_decay"};
  return paths.contains(field.path);
}

TEST(RecipeTable, DefaultsAreOfTheirTypeAndInTheirRange) {
  std::set<std::string_view> seen;
  for (const Field &field : recipe::fields) {
    SCOPED_TRACE(field.path);
    EXPECT_TRUE(seen.insert(field.path).second);
    // Parents first.
    EXPECT_TRUE(field.parent().empty() || seen.contains(field.parent()));
    EXPECT_FALSE(field.help.empty());
    for (const std::string &kind : split(field.kinds))
      EXPECT_TRUE(recipe::hasWord(kindsOf(field.parent()), kind)) << kind;
    for (const std::string &kind : split(field.ownKinds))
      EXPECT_TRUE(recipe::hasWord(kindsOf(field.parent()), kind)) << kind;
    for (const recipe::Default &value : {field.fallback, field.ownFallback}) {
      if (std::holds_alternative<std::monostate>(value))
        continue;
      if (std::holds_alternative<std::nullptr_t>(value)) {
        EXPECT_TRUE(field.orNone);
        continue;
      }
      const auto *integer = std::get_if<int64_t>(&value);
      const auto *number = std::get_if<double>(&value);
      const auto *text = std::get_if<std::string_view>(&value);
      switch (field.type) {
      case Type::Integer:
      case Type::Rank:
        ASSERT_TRUE(integer);
        EXPECT_TRUE(field.range.has(static_cast<double>(*integer)));
        break;
      case Type::Number:
        ASSERT_TRUE(number);
        EXPECT_TRUE(field.range.has(*number));
        break;
      case Type::Flag:
        EXPECT_TRUE(std::holds_alternative<bool>(value));
        break;
      case Type::Word:
        ASSERT_TRUE(text);
        EXPECT_TRUE(recipe::hasWord(field.words, *text));
        break;
      case Type::Betas:
        EXPECT_TRUE((std::holds_alternative<std::array<double, 2>>(value)));
        break;
      default:
        EXPECT_TRUE(text);
      }
    }
  }
}

// Nothing is made up for a key that is missing.
TEST(ParseRecipe, NamesWhatIsMissing) {
  for (const Field &field : recipe::fields) {
    if (isOfCompiler(field))
      continue;
    SCOPED_TRACE(field.path);
    json whole = recipeWith(field);
    ASSERT_EQ(complaint(whole), "");
    parentOf(whole, field).erase(std::string(field.key()));
    EXPECT_EQ(complaint(whole), field.isOptional ? ""
                                                 : "the model's recipe: " +
                                                       std::string(field.path) +
                                                       " is missing");
  }
}

TEST(ParseRecipe, NamesWhatIsOfAnotherTypeOrOutOfItsRange) {
  for (const Field &field : recipe::fields) {
    if (isOfCompiler(field))
      continue;
    SCOPED_TRACE(field.path);
    std::vector<json> wrong = {json::array({json::object()})};
    if (field.type != Type::Number && field.type != Type::Integer &&
        field.type != Type::Token)
      wrong.push_back(7);
    if (field.type != Type::Number)
      wrong.push_back(1.5);
    if (field.type != Type::Word && field.type != Type::Text &&
        field.type != Type::Token)
      wrong.push_back("7");
    if (!field.orNone)
      wrong.push_back(nullptr);
    if (field.type == Type::Word)
      wrong.push_back("jax");
    if (field.type == Type::Betas) {
      wrong.push_back(json::array({0.9}));
      wrong.push_back(json::array({0.9, 1.0}));
      wrong.push_back(json::array({0.9, "0.99"}));
    }
    if (field.type == Type::Number || field.type == Type::Integer) {
      if (field.range.isOpen)
        wrong.push_back(0);
      wrong.push_back(field.range.least > 0.5 ? 0 : -1);
      if (field.range.most < recipe::unbounded)
        wrong.push_back(field.range.most <= 1
                            ? json(2)
                            : json(static_cast<int64_t>(field.range.most) + 1));
    }
    for (const json &value : wrong) {
      json whole = recipeWith(field);
      parentOf(whole, field)[std::string(field.key())] = value;
      EXPECT_EQ(
          complaint(whole).rfind(
              "the model's recipe: " + std::string(field.path) + " is ", 0),
          0u)
          << value << ": " << complaint(whole);
    }
  }
}

TEST(ParseRecipe, ReadsDefaultsAsTheStructsHaveThem) {
  json text = {{"train", json::object()}};
  Recipe read = parseRecipe(test::completeRecipe(text.dump()));
  TrainSpec train;
  GenerateSpec generate;
  EXPECT_TRUE(read.hasTrain);
  EXPECT_EQ(read.train.batch, train.batch);
  EXPECT_EQ(read.train.seed, train.seed);
  EXPECT_EQ(read.train.optimizer.beta2, 0.999);
  EXPECT_EQ(read.train.clip, 0);
  EXPECT_EQ(read.train.checkpoint.every, 1000);
  EXPECT_EQ(read.train.validate.every, 0);
  EXPECT_EQ(read.generate.tokens, generate.tokens);
  EXPECT_EQ(read.generate.overflow, "slide");
}

//===----------------------------------------------------------------------===//
// The documentation
//===----------------------------------------------------------------------===//

/// A default in the language.
std::string shown(const Field &field, const recipe::Default &value) {
  if (std::holds_alternative<std::monostate>(value))
    return "";
  if (field.type == Type::Texts || field.type == Type::Pairs)
    return "`none`"; // an empty list
  if (field.type == Type::Rank)
    return "`all`";
  if (field.type == Type::Form &&
      std::holds_alternative<std::string_view>(value))
    return "`every(1000)`";
  json number = test::jsonOf(field, value);
  if (number.is_null())
    return "`none`";
  if (number.is_array())
    return "`(" + number[0].dump() + ", " + number[1].dump() + ")`";
  if (field.type == Type::Word)
    return "`" + number.get<std::string>() + "`";
  return "`" + number.dump() + "`";
}

/// `a`, `b`: all words but the one that nobody writes.
std::string list(std::string_view words) {
  std::string all;
  for (const std::string &word : split(words))
    if (word != "own")
      all += (all.empty() ? "`" : ", `") + word + "`";
  return all;
}

/// What a form begins with.
std::string takesForm(const Field &field) {
  std::string words = kindsOf(field.path);
  if (words.empty())
    words = field.path == "train.stop" ? "early" : "every";
  return list(words) + (field.orNone ? ", or none" : "");
}

/// The entry that a row of docs/language.md is about.
std::string entryOf(const std::string &row) {
  return row.substr(3, row.find('`', 3) - 3);
}

/// The row of docs/language.md, up to what its last cell may go on to say.
std::string row(const Field &field) {
  std::string fallback = shown(field, field.fallback);
  if (field.type == Type::Form && fallback.empty())
    if (const Field *kind = recipe::find(std::string(field.path) + ".kind"))
      fallback = shown(*kind, kind->fallback);
  if (!field.ownKinds.empty())
    fallback +=
        ", " + list(field.ownKinds) + ": " + shown(field, field.ownFallback);
  return "| `" + std::string(field.parent()) + "." + std::string(field.name()) +
         "`" + (field.kinds.empty() ? "" : " of " + list(field.kinds)) + " | " +
         (field.type == Type::Form ? takesForm(field) : recipe::takes(field)) +
         " | " + fallback + " | " + std::string(field.help);
}

/// Whether the language has it as an entry: not the blocks themselves, nor the
/// kind of a form, which is how the form begins.
bool isEntry(const Field &field) {
  return !field.isComputed && !field.parent().empty() &&
         field.key() != "kind" && field.path != "tokenizer.files" &&
         field.path != "data.files";
}

TEST(RecipeTable, IsTheOneOfTheLanguagePage) {
  std::vector<std::string> lines = linesOf(textOf("language.md"));
  std::set<std::string> known;
  for (const Field &field : recipe::fields) {
    if (!isEntry(field))
      continue;
    std::string begin = row(field);
    known.insert(entryOf(begin));
    bool isThere = std::ranges::any_of(lines, [&](const std::string &line) {
      return line.starts_with(begin) && line.ends_with(" |");
    });
    EXPECT_TRUE(isThere) << "docs/language.md has no row for " << field.path
                         << " that begins:\n"
                         << begin;
  }
  for (const std::string &line : lines)
    if (line.starts_with("| `train.") || line.starts_with("| `data.") ||
        line.starts_with("| `generate."))
      EXPECT_TRUE(known.contains(entryOf(line)))
          << "docs/language.md has a row that is not in the table:\n"
          << line;
}

TEST(RecipeTable, ItsOptionsAreOnThePageOfTheCommandLine) {
  std::string page = textOf("cli.md");
  std::vector<std::string> lines = linesOf(page);
  auto has = [&](const std::string &what) {
    return std::ranges::any_of(lines, [&](const std::string &line) {
      return line.starts_with("|") && line.find(what) != std::string::npos;
    });
  };
  for (const Field &field : recipe::fields) {
    if (field.option.empty())
      continue;
    std::string option(field.option);
    bool isTrain = field.path.starts_with("train.");
    EXPECT_TRUE(isTrain ? has("./m train") && has("[" + option + " ")
                        : has("| `" + option))
        << "docs/cli.md lacks " << option << " of " << field.path;
  }
}

/// Every member of `value` that is not in the table, by its path.
void findUnknown(const json &value, const std::string &path,
                 std::vector<std::string> &unknown) {
  for (const auto &[key, member] : value.items()) {
    std::string at = path.empty() ? key : path + "." + key;
    const Field *field = recipe::find(at);
    if (!field)
      unknown.push_back(at);
    else if (field->type == Type::Form && member.is_object())
      findUnknown(member, at, unknown);
  }
}

TEST(RecipeTable, IsTheSchemaOfTheDesignPage) {
  std::string page = textOf("design.md");
  size_t section = page.find("\n## Recipe schema\n");
  ASSERT_NE(section, std::string::npos);
  std::string text =
      page.substr(section, page.find("\n## ", section + 4) - section);
  size_t begin = text.find("```json\n") + 8;
  json schema =
      json::parse(text.substr(begin, text.find("```", begin) - begin));
  EXPECT_EQ(complaint(schema), "");
  std::vector<std::string> unknown;
  findUnknown(schema, "", unknown);
  EXPECT_EQ(unknown, std::vector<std::string>())
      << "docs/design.md has keys that are not in the table";
  for (const Field &field : recipe::fields) {
    std::string key(field.key());
    bool isThere =
        text.find("\"" + key + "\":") != std::string::npos ||
        text.find("`" + key + "`") != std::string::npos ||
        text.find("`" + std::string(field.path) + "`") != std::string::npos;
    EXPECT_TRUE(isThere) << "docs/design.md's schema lacks " << field.path;
  }
}

} // namespace
} // namespace tfm
