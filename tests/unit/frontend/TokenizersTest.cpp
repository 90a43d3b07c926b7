//===- TokenizersTest.cpp - tests of vocabularies while compiling ---------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/frontend/Tokenizers.h"
#include "gtest/gtest.h"

using namespace tfm;

namespace {

/// The value, or -1 after an error (which is consumed).
int64_t valueOr(llvm::Expected<int64_t> value) {
  if (value)
    return *value;
  llvm::consumeError(value.takeError());
  return -1;
}

TEST(Tokenizers, AlphabetIsSortedByCodePoint) {
  std::vector<std::string> expected = {"\n", "a", "b", "é", "€", "😀"};
  EXPECT_EQ(collectAlphabet("b€aé\n😀ab"), expected);
  // A character that is cut off by the end of the text is kept as it is.
  EXPECT_EQ(collectAlphabet("a\xE2\x82").size(), 2u);
}

TEST(Tokenizers, WrittenAlphabetKeepsItsOrder) {
  auto alphabet = orderedAlphabet("0123456789+=.#");
  ASSERT_TRUE(bool(alphabet));
  EXPECT_EQ(alphabet->size(), 14u);
  EXPECT_EQ((*alphabet)[13], "#");
  auto twice = orderedAlphabet("aba");
  ASSERT_FALSE(bool(twice));
  EXPECT_EQ(llvm::toString(twice.takeError()), "`a` occurs twice");
}

TEST(Tokenizers, CountsVocabulariesWithoutParsingThem) {
  EXPECT_EQ(valueOr(countVocabulary(R"({"a": 0, "\"}": 1, "b:1,": 2})")), 3);
  for (const char *broken : {"", "[]", "{}", "{\"a\"}", "{\"a\": }",
                             "{\"a\": 1", "{\"a\": 1,", "{\"a", "{\"a\\"})
    EXPECT_EQ(valueOr(countVocabulary(broken)), -1) << broken;
}

TEST(Tokenizers, CountsHuggingFaceFiles) {
  EXPECT_EQ(valueOr(countHuggingFace(
                R"({"model": {"vocab": {"a": 0, "b": 4}},
                    "added_tokens": [{"id": 7, "content": "<s>"}]})")),
            8);
  EXPECT_EQ(valueOr(countHuggingFace(
                R"({"model": {"vocab": [["a", -1.0], ["b", -2.0]]}})")),
            2);
  EXPECT_EQ(valueOr(countHuggingFace("{}")), -1);
  EXPECT_EQ(valueOr(countHuggingFace("not json")), -1);
}

TEST(Tokenizers, CountsSentencePieces) {
  // Two pieces (field 1) and a trainer spec (field 2).
  std::string model("\x0A\x03\x0A\x01"
                    "a"
                    "\x12\x02\x08\x01"
                    "\x0A\x03\x0A\x01"
                    "b",
                    14);
  EXPECT_EQ(valueOr(countSentencePiece(model)), 2);
  EXPECT_EQ(valueOr(countSentencePiece(model.substr(0, 12))), -1);
  EXPECT_EQ(valueOr(countSentencePiece("")), -1);
}

} // namespace
