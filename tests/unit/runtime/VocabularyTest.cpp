//===- VocabularyTest.cpp - tables of tokens ----------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/tokenizer/vocabulary.h"
#include "runtime/philox.h"
#include "runtime/support/error.h"
#include "runtime/support/read_json.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace tfm {
namespace {

/// A vocabulary, or why there is none.
template <typename Read> std::string outcome(Read read) {
  try {
    return read().toJson().dump(-1, ' ', /*ensure_ascii=*/true);
  } catch (const InputError &error) {
    return error.what();
  }
}

std::string read(const std::string &text) {
  return outcome([&] { return Vocabulary::fromText({text, "F"}); });
}

std::string readByParser(const std::string &text) {
  return outcome(
      [&] { return Vocabulary::fromJson(parseJson(text, "F"), "F"); });
}

TEST(Vocabulary, StringsAreSpeltAsJsonAllows) {
  EXPECT_EQ(
      read(
          R"({"\u0120a": 0, "\"\\\/\b\f\n\r\t": 2, "é€😀": 1, "\ud83d\ude00": 3, "\u0000": 4})"),
      readByParser(
          R"({"Ġa": 0, "\"\\/\b\f\n\r\t": 2, "\u00e9\u20ac😀": 1, "😀": 3, "\u0000": 4})"));
  const std::string wrong = "F is not valid JSON: it goes wrong ";
  EXPECT_EQ(read("{\"a\\x\": 0}"), wrong + "at character 5");
  EXPECT_EQ(read("{\"\\u12\": 0}"), wrong + "at character 7");
  EXPECT_EQ(read("{\"\\ud83d\": 0}"), wrong + "at character 9");
  EXPECT_EQ(read("{\"a\nb\": 0}"), wrong + "in line 1 at character 4");
  EXPECT_EQ(read("{\"a\xff\": 0}"), wrong + "at character 4");
  EXPECT_EQ(read("{\"a\\\": 0}"), "F is not valid JSON: it ends too early");
}

// Tables are read without the parser, which has the last word on all that is
// not plain: damage anywhere means the same whichever way.
TEST(Vocabulary, DamagedTablesAreReadAsTheParserReadsThem) {
  const std::string table =
      "{\"a\": 0,\n \"\\u0120b\": 1, \"c\\n\" : 12, \"\xC3\xA9\": 3,\t\"dd\": "
      "4,\"\": 5}\n";
  const std::string characters = "{}\",: \n\\u0123ab\xC3\xA9\x01";
  size_t valid = 0;
  for (uint32_t i = 0; i < 20'000; ++i) {
    std::string damaged = table;
    for (uint32_t j = 0; j < 1 + i % 3; ++j) {
      PhiloxBlock random = philox(11, {i, j, 0, 0});
      size_t at = random[0] % damaged.size();
      char c = characters[random[1] % characters.size()];
      if (random[2] % 3 == 0)
        damaged.erase(at, 1);
      else if (random[2] % 3 == 1)
        damaged.insert(at, 1, c);
      else
        damaged[at] = c;
    }
    std::string expected = readByParser(damaged);
    ASSERT_EQ(read(damaged), expected) << damaged;
    valid += expected.starts_with("{");
  }
  EXPECT_GT(valid, 1000u);
}

// Brackets within texts are no levels, those behind a quote that ends one are.
TEST(ReadJson, RefusesWhatIsNestedDeeply) {
  auto nested = [](size_t depth) {
    return R"(["\"[{\\", )" + std::string(depth - 1, '[') + R"("]")" +
           std::string(depth, ']');
  };
  EXPECT_TRUE(jsonOf(nested(100)).is_array());
  EXPECT_TRUE(jsonOf(nested(101)).is_discarded());
  EXPECT_TRUE(jsonOf(R"([")" + std::string(500, '[') + R"("])").is_array());
  EXPECT_TRUE(jsonOf("[\"").is_discarded());
  EXPECT_TRUE(jsonOf("[\"\\").is_discarded());
}

TEST(Vocabulary, FindsEveryTokenAndNoOther) {
  Vocabulary vocabulary;
  for (int i = 0; i < 5000; ++i) {
    EXPECT_EQ(vocabulary.add("t" + std::to_string(i)), i);
    EXPECT_EQ(vocabulary.add("t" + std::to_string(i / 2)), i / 2);
  }
  vocabulary.set("far", 9000, "F");
  vocabulary.set("far", 9000, "F");
  EXPECT_EQ(vocabulary.size(), 9001);
  for (int i = 0; i < 5000; ++i) {
    EXPECT_EQ(vocabulary.find("t" + std::to_string(i)), i);
    EXPECT_EQ(vocabulary.token(i), "t" + std::to_string(i));
  }
  EXPECT_EQ(vocabulary.find("far"), 9000);
  EXPECT_EQ(vocabulary.find("t5000"), -1);
  EXPECT_EQ(vocabulary.find(""), -1);
  EXPECT_EQ(vocabulary.token(7000), "");
  EXPECT_THROW(vocabulary.set("far", 8999, "F"), InputError);
  EXPECT_THROW(vocabulary.set("new", 17, "F"), InputError);
}

} // namespace
} // namespace tfm
