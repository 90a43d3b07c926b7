//===- TokenizersTest.cpp - tests of vocabularies while compiling ---------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/frontend/recipe/Tokenizers.h"
#include "runtime/recipe.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "gtest/gtest.h"

#include <fstream>

using namespace tfm;

namespace {

/// A folder that goes away with the test.
class Folder {
public:
  Folder() {
    EXPECT_FALSE(llvm::sys::fs::createUniqueDirectory("tokenizers", path));
  }
  ~Folder() { llvm::sys::fs::remove_directories(path); }

  std::string write(llvm::StringRef name, llvm::StringRef text) const {
    std::string file = (path + "/" + name).str();
    std::ofstream(file, std::ios::binary) << text.str();
    return file;
  }

private:
  llvm::SmallString<128> path;
};

template <typename T> std::string messageOf(llvm::Expected<T> value) {
  return value ? "no error" : llvm::toString(value.takeError());
}

/// The characters that a data source of one file is made of, or the error with
/// the file as `F`.
std::string alphabetOf(const char *kind, llvm::StringRef text,
                       const char *end = "", const char *pad = "") {
  Folder folder;
  DataSpec data;
  data.kind = kind;
  data.files = {folder.write("data", text)};
  data.field = "x";
  data.end = end;
  data.pad = pad;
  auto alphabet = learnAlphabet(data);
  if (alphabet)
    return llvm::join(*alphabet, "");
  std::string message = llvm::toString(alphabet.takeError());
  size_t at = message.find(data.files[0]);
  EXPECT_NE(at, std::string::npos) << message;
  return message.replace(at, data.files[0].size(), "F");
}

TEST(Tokenizers, AlphabetIsSortedByCodePoint) {
  EXPECT_EQ(alphabetOf("text", "b€aé\n😀ab"), "\nabé€😀");
}

// Only what training reads is learnt: not quotes, escapes, tabs and new lines
// that the file is made of.
TEST(Tokenizers, AlphabetIsThatOfTheTexts) {
  EXPECT_EQ(alphabetOf("json", R"({"x": "ab cd", "y": "z"}
{"x": "da"})"),
            " abcd");
  EXPECT_EQ(alphabetOf("json", R"([{"x": "a\nb"}, {"x": "\u00e9"}])"), "\nabé");
  EXPECT_EQ(alphabetOf("lines", "ab\r\nba\n"), "ab");
  EXPECT_EQ(alphabetOf("lines", "ab\n", ".", "#"), "#.ab");
  EXPECT_EQ(alphabetOf("pairs", "1+1=\t2\n"), "+12=");
  EXPECT_EQ(alphabetOf("pairs", R"({"prompt": "q", "answer": "a"})"), "aq");
}

TEST(Tokenizers, DataThatCannotBeReadHasNoAlphabet) {
  EXPECT_EQ(alphabetOf("text", "good\nbad \xff\n"),
            "the data file F:2: not UTF-8 text: only a tokenizer of bytes "
            "takes it");
  EXPECT_EQ(alphabetOf("text", "cut \xE2\x82"),
            "the data file F:1: not UTF-8 text: only a tokenizer of bytes "
            "takes it");
  EXPECT_EQ(alphabetOf("lines", "good\nbad \xff\n"),
            "F:2: not UTF-8 text: only a tokenizer of bytes takes it");
  EXPECT_EQ(alphabetOf("json", "{\"x\": \"a\"}\n{\"z\": \"a\"}\n"),
            "F:2: there is no text in the field \"x\", but in \"z\": json(..., "
            "field = \"z\")");
  EXPECT_EQ(alphabetOf("json", R"({"id": 3, "messages": []})"),
            "F:1: there is no text in the field \"x\", but in \"messages\": "
            "json(..., field = \"messages\")");
  EXPECT_EQ(alphabetOf("pairs", R"({"question": "q", "answer": "a"})"),
            "F:1: there is no text in the field \"prompt\", but in "
            "\"question\": pairs(..., prompt = \"question\")");
  EXPECT_EQ(alphabetOf("json", "{\"x\": null}\n"),
            "F:1: the field \"x\" is no text, but null");
  EXPECT_EQ(alphabetOf("json", "{\"x\": \"a"),
            "F:1: not valid JSON: it ends too early");
  EXPECT_EQ(alphabetOf("pairs", "no tab\n"),
            "F:1: a pair is a prompt, a tab and an answer");
}

TEST(Tokenizers, WrittenAlphabetKeepsItsOrder) {
  auto alphabet = orderedAlphabet("0123456789+=.#");
  ASSERT_TRUE(bool(alphabet));
  EXPECT_EQ(alphabet->size(), 14u);
  EXPECT_EQ((*alphabet)[13], "#");
  EXPECT_EQ(messageOf(orderedAlphabet("aba")), "`a` occurs twice");
  EXPECT_EQ(messageOf(orderedAlphabet("a\xff")), "it is not UTF-8 text");
  EXPECT_EQ(messageOf(orderedAlphabet("")), "the alphabet is empty");
}

/// The size of a tokenizer of these files, or what is wrong with them, with
/// `F/` as the folder.
std::string sizeOf(const char *kind, std::vector<std::string> texts,
                   bool open = true) {
  Folder folder;
  TokenizerInfo info;
  info.kind = kind;
  std::vector<std::string> &paths = info.paths;
  for (auto [i, text] : llvm::enumerate(texts))
    paths.push_back(folder.write(std::to_string(i), text));
  auto size = tokenizerSize(info, open);
  if (size)
    return std::to_string(*size);
  std::string message = llvm::toString(size.takeError());
  std::string prefix = llvm::sys::path::parent_path(paths[0]).str();
  for (size_t at; (at = message.find(prefix)) != std::string::npos;)
    message.replace(at, prefix.size(), "F");
  return message;
}

const char *const shortForm =
    R"({"model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": ["a b"]},
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false},
        "added_tokens": [{"id": 7, "content": "<s>"}]})";

TEST(Tokenizers, SizeIsThatOfTheOpenedTokenizer) {
  for (bool open : {false, true}) {
    EXPECT_EQ(sizeOf("huggingface", {shortForm}, open), "8");
    EXPECT_EQ(sizeOf("gpt2", {R"({"a": 0, "b": 1, "ab": 4})", "a b\n"}, open),
              "5");
    for (const char *table :
         {R"({"\"}": 0, "b:1,": 1})", "{\"a\":0,\n \"b\" :\t1 }\n\n"})
      EXPECT_EQ(sizeOf("words", {table}, open), "2");
    EXPECT_EQ(sizeOf("bpe_words", {R"({"a": 0, "</w>": 1})", ""}, open), "2");
    EXPECT_EQ(sizeOf("bytes", {}, open), "256");
  }
}

// Whichever way they are read.
TEST(Tokenizers, IdsThatNoVocabularyHas) {
  for (bool open : {false, true}) {
    SCOPED_TRACE(open);
    for (const char *id : {"-3", "1.5", "\"1\"", "null", "true"})
      EXPECT_EQ(sizeOf("words", {std::string("{\"a\": ") + id + "}"}, open),
                "F/0: the id of the token \"a\" is not a whole number of at "
                "least 0");
    for (const char *id : {"100000000", "1099511627776", "2097152"})
      EXPECT_EQ(sizeOf("words", {std::string("{\"a\": ") + id + "}"}, open),
                "F/0: the id of the token \"a\" is too large");
    EXPECT_EQ(sizeOf("huggingface",
                     {R"({"model": {"type": "BPE", "vocab": {"a": -1}}})"},
                     open),
              "F/0: the id of the token \"a\" is not a whole number of at "
              "least 0");
    const std::string broken = "F/0 is not valid JSON: ";
    for (const char *cut : {"", "{\"a\": 1", "{\"a\": 1,", "{\"a", "{\"a\\"})
      EXPECT_EQ(sizeOf("words", {cut}, open), broken + "it ends too early");
    for (auto [wrong, character] : {std::pair("{\"a\"}", 5),
                                    {"{\"a\": }", 7},
                                    {"{\"a\": 01}", 8},
                                    {"{\"a\": 1} x", 10}})
      EXPECT_EQ(sizeOf("words", {wrong}, open),
                broken + "it goes wrong at character " +
                    std::to_string(character));
    EXPECT_EQ(sizeOf("words", {"{}"}, open),
              "F/0: the vocabulary is not a table of token to id");
    // A parser that calls itself for every bracket has no stack for this.
    std::string deep(300000, '[');
    const std::string tooDeep =
        broken + "its brackets are nested more than 100 deep";
    EXPECT_EQ(sizeOf("words", {deep}, open), tooDeep);
    EXPECT_EQ(sizeOf("huggingface", {deep}, open), tooDeep);
  }
}

TEST(Tokenizers, OpeningFindsWhatTheSizeDoesNotNeed) {
  EXPECT_EQ(sizeOf("words", {R"({"a": 0, "b": 0})"}),
            "F/0: the token \"b\" and the id 0 are given twice");
  EXPECT_EQ(sizeOf("gpt2", {R"({"a": 0, "b": 1})", "a b\n"}),
            "F/1: the merge \"a b\" uses a token that the vocabulary lacks: "
            "vocabulary and merges must be of the same tokenizer");
  EXPECT_EQ(sizeOf("gpt2", {R"({"a": 0})", "#version: 0.2\na  b\n"}),
            "F/1:2: a merge is two tokens with one space between them");
  std::string noMerges(shortForm);
  noMerges.replace(noMerges.find("merges"), 6, "others");
  EXPECT_EQ(sizeOf("huggingface", {noMerges}),
            "F/0: its model has no list of `merges`. Copy or download it "
            "again");
  EXPECT_EQ(sizeOf("huggingface", {"{}"}),
            "F/0 is not a tokenizer.json: it has no model");
}

TEST(Tokenizers, CharactersAreWrittenInTheirOrder) {
  EXPECT_NE(charsTokenizerJson({"b", "a", "é"})
                .find(R"("vocab":{"b":0,"a":1,"é":2})"),
            std::string::npos);
}

} // namespace
