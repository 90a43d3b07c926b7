//===- TokenizerTest.cpp - text to token ids and back -------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/tokenizer/tokenizer.h"
#include "runtime/generation/generator.h"
#include "runtime/philox.h"
#include "runtime/support/error.h"
#include "runtime/support/utf8.h"
#include "runtime/tokenizer/gguf_tokenizer.h"
#include "runtime/tokenizer/pretokenizer.h"
#include "runtime/tokenizer/sentencepiece.h"
#include "runtime/tokenizer/token_decoder.h"
#include "runtime/tokenizer/train_word_bpe.h"
#include "tests/unit/runtime/TemporaryFolder.h"

#include <fstream>
#include <gtest/gtest.h>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

namespace tfm {
namespace {

using nlohmann::json;
using test::contentOf;
using test::messageOf;

std::string fromHex(const std::string &hex) {
  std::string bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2)
    bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  return bytes;
}

using Merges = std::vector<std::pair<std::string, std::string>>;

NamedText named(const std::string &path) { return {contentOf(path), path}; }

const std::string bytesFixture = TFM_FIXTURES "/bpe/bytes/";
const std::string ggufFixture = TFM_FIXTURES "/gguf/";
const std::string wordFixture = TFM_FIXTURES "/bpe/word/";

void checkByteCases(const Tokenizer &tokenizer) {
  json cases = json::parse(contentOf(bytesFixture + "cases.json"));
  EXPECT_EQ(tokenizer.size(), 1000);
  EXPECT_EQ(cases.at("encode").size(), 211u);
  for (const json &entry : cases.at("encode")) {
    std::string text = fromHex(entry.at("utf8").get<std::string>());
    auto ids = entry.at("ids").get<std::vector<int32_t>>();
    EXPECT_EQ(tokenizer.ids(text), ids) << text;
    EXPECT_EQ(tokenizer.text(ids), entry.at("decoded").get<std::string>());
  }
  for (const json &entry : cases.at("decode")) {
    auto ids = entry.at("ids").get<std::vector<int32_t>>();
    std::string bytes;
    for (int32_t id : ids)
      tokenizer.decode(id, -1, bytes);
    EXPECT_EQ(bytes, fromHex(entry.at("bytes").get<std::string>()));
    EXPECT_EQ(tokenizer.text(ids), entry.at("decoded").get<std::string>());
  }
}

/// What a byte-level BPE without merges has of a text: the pieces in which a
/// pattern cuts it.
std::vector<std::string> piecesOf(const std::string &pattern,
                                  std::string_view text) {
  Pretokenizer cut(pattern, "x.json");
  Pretokenizer::Cursor cursor(cut, text);
  std::vector<std::string> pieces;
  for (std::string_view piece; cursor.next(piece);)
    pieces.emplace_back(piece);
  return pieces;
}

// A folder may say more of a tokenizer than the files that are read.
TEST(Folder, SaysWhatItsFilesDoNot) {
  test::TemporaryFolder folder;
  TokenizerPtr tokenizer = makeByteBpeTokenizer(
      named(bytesFixture + "vocab.json"), named(bytesFixture + "merges.txt"));
  auto open = [&](const std::string &settings, bool isGpt2 = true) {
    folder.write("tokenizer_config.json", settings);
    return asFolderSays(folder.path, isGpt2, *tokenizer);
  };
  auto problem = [&](const std::string &settings) {
    return messageOf<NotSupported>([&] { open(settings); });
  };
  EXPECT_FALSE(open(R"({"tokenizer_class": "GPT2Tokenizer"})"));
  EXPECT_FALSE(open("{}"));
  EXPECT_NE(messageOf<InputError>([&] {
              open(R"({"added_tokens_decoder")");
            }).find("tokenizer_config.json is not a JSON object"),
            std::string::npos);
  EXPECT_FALSE(open(R"({"tokenizer_class": "LlamaTokenizer"})", false));
  EXPECT_NE(problem(R"({"tokenizer_class": "Qwen2Tokenizer"})")
                .find("tokenizer_class is \"Qwen2Tokenizer\""),
            std::string::npos);
  EXPECT_NE(problem(R"({"add_prefix_space": true})").find("add_prefix_space"),
            std::string::npos);
  auto size = static_cast<int32_t>(tokenizer->size());
  std::vector<int32_t> plain = tokenizer->ids("a b");
  for (bool isGpt2 : {false, true}) {
    TokenizerPtr more =
        open(R"({"added_tokens_decoder": {")" + std::to_string(size) +
                 R"(": {"content": "<|im_start|>"}}})",
             isGpt2);
    ASSERT_TRUE(more);
    EXPECT_EQ(more->size(), size + 1);
    std::vector<int32_t> expected{size};
    expected.insert(expected.end(), plain.begin(), plain.end());
    EXPECT_EQ(more->ids("<|im_start|>a b"), expected);
  }
  // As OPT begins a text, and finds that token in it.
  std::string first(tokenizer->find("!") ? "!" : "a");
  TokenizerPtr begins =
      open(R"({"add_bos_token": true, "bos_token": ")" + first + R"("})");
  ASSERT_TRUE(begins);
  EXPECT_EQ(begins->begin(), std::vector<int32_t>{*tokenizer->find(first)});
  EXPECT_EQ(begins->ids("a b"), plain);
  folder.write("added_tokens.json",
               "{\"<new>\": " + std::to_string(size) + "}");
  TokenizerPtr more = open("{}");
  ASSERT_TRUE(more);
  EXPECT_EQ(more->ids("<new>"), std::vector<int32_t>{size});
}

// By what a template says of a name, not by the name; ids without a token and
// what further templates say do not count.
TEST(Begin, IsOfTheIdsOfTheFirstTemplate) {
  nlohmann::json root = nlohmann::json::parse(
      makeByteBpeTokenizer(named(bytesFixture + "vocab.json"),
                           named(bytesFixture + "merges.txt"))
          ->json());
  nlohmann::json first = {
      {"type", "TemplateProcessing"},
      {"single", {{{"SpecialToken", {{"id", "!"}, {"type_id", 0}}}}}},
      {"special_tokens", {{"!", {{"ids", {2, 3}}}}}}};
  root["post_processor"] = {{"type", "Sequence"},
                            {"processors", {first, first}}};
  EXPECT_EQ(parseTokenizerJson(root.dump(), "x")->begin(),
            (std::vector<int32_t>{2, 3}));
  for (int64_t none : {int64_t{4294967297}, int64_t{1000}, int64_t{-1}}) {
    first["special_tokens"]["!"]["ids"][1] = none;
    root["post_processor"] = first;
    EXPECT_NE(messageOf<InputError>([&] {
                parseTokenizerJson(root.dump(), "x");
              }).find("puts the token " + std::to_string(none)),
              std::string::npos);
  }
}

TEST(Normal, FormsOfByteLevelBpeAreOne) {
  nlohmann::json root = nlohmann::json::parse(
      makeByteBpeTokenizer(named(bytesFixture + "vocab.json"),
                           named(bytesFixture + "merges.txt"))
          ->json());
  auto idsWith = [&](const nlohmann::json &normalizer) {
    root["normalizer"] = normalizer;
    std::vector<int32_t> ids;
    parseTokenizerJson(root.dump(), "x")->encode("e\u0301", ids);
    return ids;
  };
  const nlohmann::json composed = {{"type", "NFC"}};
  EXPECT_NE(idsWith(composed), idsWith(nullptr));
  EXPECT_EQ(idsWith({{"type", "Sequence"}, {"normalizers", {composed}}}),
            idsWith(composed));
  EXPECT_EQ(idsWith({{"type", "Sequence"}, {"normalizers", json::array()}}),
            idsWith(nullptr));
  root["normalizer"] = {{"type", "Sequence"},
                        {"normalizers", {composed, {{"type", "Lowercase"}}}}};
  EXPECT_NE(messageOf<NotSupported>([&] {
              parseTokenizerJson(root.dump(), "x");
            }).find("the normalizer \"Lowercase\" is not supported with"),
            std::string::npos);
}

// Models of words are read in the form that this project writes.
TEST(Words, OfOtherFormsAreNotSupported) {
  nlohmann::json root = {
      {"model", {{"type", "WordLevel"}, {"vocab", {{"a", 0}, {"<UNK>", 1}}}}}};
  auto problem = [&] {
    return messageOf<NotSupported>(
        [&] { parseTokenizerJson(root.dump(), "x"); });
  };
  EXPECT_EQ(problem(), "");
  root["pre_tokenizer"] = {{"type", "Whitespace"}};
  EXPECT_NE(problem().find("another pre_tokenizer"), std::string::npos);
  root["pre_tokenizer"] = {{"type", "WhitespaceSplit"}};
  root["decoder"] = {{"type", "WordPiece"}};
  EXPECT_NE(problem().find("another decoder"), std::string::npos);
  root["decoder"] = nullptr;
  root["normalizer"] = {{"type", "Lowercase"}};
  EXPECT_NE(problem().find("a normalizer"), std::string::npos);
  // Those of characters likewise.
  const json written = json::parse(makeCharsTokenizer("ab")->json());
  for (const auto &[part, value, named] :
       std::vector<std::tuple<const char *, json, const char *>>{
           {"normalizer", {{"type", "Lowercase"}}, "a normalizer"},
           {"post_processor",
            {{"type", "TemplateProcessing"}},
            "a post_processor"},
           {"added_tokens", json::array({"a"}), "added_tokens"},
           {"decoder", nullptr, "another decoder"}}) {
    root = written;
    root[part] = value;
    EXPECT_NE(problem().find(named), std::string::npos) << part;
  }
  for (const auto &[part, value] : std::vector<std::pair<const char *, json>>{
           {"pattern", {{"Regex", "."}}},
           {"pattern", {{"String", "(?m)."}}},
           {"behavior", "Removed"},
           {"invert", true}}) {
    root = written;
    root["pre_tokenizer"][part] = value;
    EXPECT_NE(problem().find("another pre_tokenizer"), std::string::npos)
        << part;
  }
}

// The file names the token of what has none.
TEST(Words, TakeTheUnknownTokenOfTheFile) {
  using Ids = std::vector<int32_t>;
  json root = {{"model",
                {{"type", "WordLevel"},
                 {"vocab", {{"[UNK]", 0}, {"a", 1}, {"<UNK>", 2}}},
                 {"unk_token", "[UNK]"}}}};
  TokenizerPtr words = parseTokenizerJson(root.dump(), "x");
  EXPECT_EQ(words->ids("a b"), (Ids{1, 0}));
  EXPECT_EQ(parseTokenizerJson(words->json(), "x")->ids("b"), Ids{0});
  json written = json::parse(makeCharsTokenizer("ab")->json());
  written["model"]["unk_token"] = "b";
  TokenizerPtr characters = parseTokenizerJson(written.dump(), "x");
  EXPECT_EQ(characters->ids("abé"), (Ids{0, 1, 1}));
  written["model"]["unk_token"] = "[UNK]";
  written["model"]["vocab"]["[UNK]"] = 2;
  characters = parseTokenizerJson(written.dump(), "x");
  EXPECT_EQ(characters->ids("aéb"), (Ids{0, 2, 1}));
  EXPECT_EQ(parseTokenizerJson(characters->json(), "x")->ids("é"), Ids{2});
  EXPECT_THROW(characters->ids("a\xff"), InputError);
}

// As Oniguruma reads them, which the tokenizers of the hub are written for.
TEST(Pretokenizer, ReadsPatternsAsTheHubDoes) {
  using Pieces = std::vector<std::string>;
  EXPECT_EQ(piecesOf("\\p{N}{1,3}+", "4567a"), (Pieces{"4567", "a"}));
  EXPECT_EQ(piecesOf("\\p{N}{1,3}", "4567"), (Pieces{"456", "7"}));
  EXPECT_EQ(piecesOf("(ab|[c}]){2}+|.", "abcab}cx"),
            (Pieces{"abcab}", "c", "x"}));
  EXPECT_EQ(piecesOf("\\p{L}+|\\{+", "ab{{"), (Pieces{"ab", "{{"}));
  // That of BLOOM: a class within another adds to it.
  EXPECT_EQ(piecesOf(" ?[^(\\s|[.,!?…。，、।۔،])]+", "a b, (c"),
            (Pieces{"a", " b", ", (", "c"}));
  EXPECT_EQ(piecesOf("^a|.", "a\na"), (Pieces{"a", "\n", "a"}));
  for (const char *pattern : {"[a&&[b]]", "[a[^b]]", "\\h+"})
    EXPECT_THROW(piecesOf(pattern, "a"), NotSupported) << pattern;
}

// A match of nothing cuts, but not where another one ends, as in Hugging Face's
// tokenizers 0.23.
TEST(Pretokenizer, CutsWhereNothingMatches) {
  using Pieces = std::vector<std::string>;
  EXPECT_EQ(piecesOf(R"((?=(\d{3})+(?!\d)))", "1234567"),
            (Pieces{"1", "", "234", "", "567"}));
  EXPECT_EQ(piecesOf("", "aé"), (Pieces{"", "a", "", "é", ""}));
  EXPECT_EQ(piecesOf("\\d*", "a12b"), (Pieces{"", "a", "12", "b", ""}));
  EXPECT_EQ(piecesOf("|a", "aa"), (Pieces{"", "a", "", "a", ""}));
  EXPECT_EQ(piecesOf("$", "a\nb"), (Pieces{"a", "", "\nb", ""}));
  EXPECT_EQ(piecesOf("", ""), Pieces{});
  json root = json::parse(contentOf(bytesFixture + "tokenizer.json"));
  root["normalizer"] = {{"type", "Replace"},
                        {"pattern", {{"Regex", R"((?<=\d)(?=\d))"}}},
                        {"content", " "}};
  root["pre_tokenizer"] = {
      {"type", "Sequence"},
      {"pretokenizers",
       {{{"type", "Digits"}},
        {{"type", "ByteLevel"}, {"add_prefix_space", false}}}}};
  TokenizerPtr tokenizer = parseTokenizerJson(root.dump(), "x");
  EXPECT_EQ(tokenizer->text(tokenizer->ids("a123b")), "a1 2 3b");
}

// Words, spaces, punctuation and scripts as Hugging Face's tokenizers 0.23 have
// them: marks are part of words, what only looks like a space is none.
TEST(Pretokenizer, HasTheClassesOfTheHub) {
  const std::string hindi = "\xE0\xA4\xA8\xE0\xA4\xAE\xE0\xA4\xB8\xE0\xA5\x8D"
                            "\xE0\xA4\xA4\xE0\xA5\x87",
                    accent = "e\xCC\x81", powers = "\xC2\xB2\xC2\xBD",
                    vowel = "\xE1\xA0\x8E", comma = "\xE3\x80\x81",
                    japan = "\xE6\x97\xA5\xE6\x9C\xAC", digits = "3\xD9\xA3",
                    four = "\xE2\x85\xA3";
  const std::string text = hindi + " " + accent + "a x" + powers + vowel + "y" +
                           comma + japan + " a+b=c_d " + digits + four;
  using Pieces = std::vector<std::string>;
  const Pieces words = {hindi, " ",   accent + "a", " ", "x" + powers, vowel,
                        "y",   comma, japan,        " ", "a",          "+",
                        "b",   "=",   "c_d",        " ", digits + four};
  for (const char *pattern : {R"(\w+)", R"(\W+)"})
    EXPECT_EQ(piecesOf(pattern, text), words) << pattern;
  EXPECT_EQ(piecesOf(R"([^\w\s]+)", text),
            (Pieces{hindi + " " + accent + "a x", powers + vowel, "y", comma,
                    japan + " a", "+", "b", "=", "c_d " + digits + four}));
  for (const char *pattern : {R"(\s)", R"(\S+)"})
    EXPECT_EQ(piecesOf(pattern, text),
              (Pieces{hindi, " ", accent + "a", " ",
                      "x" + powers + vowel + "y" + comma + japan, " ",
                      "a+b=c_d", " ", digits + four}))
        << pattern;
  EXPECT_EQ(piecesOf(R"(\p{Han}+)", text),
            (Pieces{hindi + " " + accent + "a x" + powers + vowel + "y" + comma,
                    japan, " a+b=c_d " + digits + four}));
  EXPECT_EQ(piecesOf(R"([\p{Han}\d]+)", text),
            (Pieces{hindi + " " + accent + "a x" + powers + vowel + "y" + comma,
                    japan, " a+b=c_d ", digits, four}));
  EXPECT_EQ(
      piecesOf(R"([[:punct:]]+)", text),
      (Pieces{hindi + " " + accent + "a x" + powers + vowel + "y", comma,
              japan + " a", "+", "b", "=", "c", "_", "d " + digits + four}));
  EXPECT_EQ(piecesOf(R"(a\B)", text), Pieces{text});
  // Letters in a class are letters.
  EXPECT_EQ(piecesOf("'(?i:[sdmt]|ll)|[wS]+| |.", "a's wS\tx"),
            (Pieces{"a", "'s", " ", "wS", "\t", "x"}));
  // Before a count, and among others in a class.
  EXPECT_EQ(piecesOf(R"(\w{3})", accent + "ab"), (Pieces{accent + "a", "b"}));
  EXPECT_EQ(piecesOf(R"([\w{}]+)", accent + "{ }"),
            (Pieces{accent + "{", " ", "}"}));
  EXPECT_EQ(piecesOf(R"([^\S\n]+)", "a \t\n" + vowel + " "),
            (Pieces{"a", " \t", "\n" + vowel, " "}));
  EXPECT_EQ(piecesOf(R"([[:^alpha:]]+)", "a1 b"), (Pieces{"a", "1 ", "b"}));
  for (const char *pattern : {R"([\W])", "[[:^word:]]"})
    EXPECT_THROW(piecesOf(pattern, "a"), NotSupported) << pattern;
}

// More than the stack of compiled patterns holds, and more than anyone waits
// for.
TEST(Pretokenizer, FindsTheEndOrSaysThatItDoesNot) {
  std::string ends(200'000, 'a');
  ends += 'c';
  EXPECT_EQ(piecesOf("(?:a|b)*c", ends), std::vector<std::string>{ends});
  EXPECT_EQ(messageOf<InputError>(
                [] { piecesOf("(a|aa)+[bd]", std::string(60, 'a') + "c"); }),
            "the pattern of the tokenizer finds no end in this text: match "
            "limit exceeded");
}

TEST(ByteBpe, MeetsTheFixtureFromVocabularyAndMerges) {
  TokenizerPtr tokenizer = makeByteBpeTokenizer(
      named(bytesFixture + "vocab.json"), named(bytesFixture + "merges.txt"));
  checkByteCases(*tokenizer);
  // What it writes means the same.
  checkByteCases(*parseTokenizerJson(tokenizer->json(), "written"));
}

TEST(ByteBpe, MeetsTheFixtureFromTokenizerJson) {
  std::string text = contentOf(bytesFixture + "tokenizer.json");
  TokenizerPtr tokenizer = parseTokenizerJson(text, "tokenizer.json");
  checkByteCases(*tokenizer);
  EXPECT_EQ(tokenizer->json(), text);
}

TEST(ByteBpe, MeetsTheTrueVocabularyOfGpt2) {
  std::string folder = TFM_FIXTURES "/../../models/gpt2/";
  TokenizerPtr tokenizer = makeByteBpeTokenizer(named(folder + "vocab.json"),
                                                named(folder + "merges.txt"));
  EXPECT_EQ(tokenizer->size(), 50257);
  json cases =
      json::parse(contentOf(TFM_FIXTURES "/bpe/gpt2_true_vocabulary.json"));
  EXPECT_EQ(cases.at("encode").size(), 211u);
  for (const json &entry : cases.at("encode")) {
    auto text = entry.at("text").get<std::string>();
    EXPECT_EQ(tokenizer->ids(text), entry.at("ids").get<std::vector<int32_t>>())
        << text;
  }
  std::string play =
      contentOf(TFM_FIXTURES "/../../models/tinyshakespeare.txt");
  std::vector<int32_t> ids = tokenizer->ids(play);
  EXPECT_EQ(ids.size(), 338025u); // as nanoGPT's data/shakespeare has it
  EXPECT_EQ(tokenizer->text(ids), play);
}

TEST(ByteBpe, EncodesAnyBytes) {
  TokenizerPtr tokenizer = makeByteBpeTokenizer(
      named(bytesFixture + "vocab.json"), named(bytesFixture + "merges.txt"));
  std::string bytes;
  for (uint32_t i = 0; i < 2000; ++i)
    bytes += static_cast<char>(philox(9, {i, 0, 0, 0})[0]);
  std::string back;
  for (int32_t id : tokenizer->ids(bytes))
    tokenizer->decode(id, -1, back);
  EXPECT_EQ(back, bytes);
}

// Pieces of all lengths against the definition: the pair that was learned
// earliest, leftmost first, until there is none.
TEST(ByteBpe, MergesWhatWasLearnedEarliest) {
  TokenizerPtr tokenizer = makeByteBpeTokenizer(
      named(bytesFixture + "vocab.json"), named(bytesFixture + "merges.txt"));
  std::map<std::pair<std::string, std::string>, size_t> ranks;
  std::istringstream lines(contentOf(bytesFixture + "merges.txt"));
  std::string line;
  std::getline(lines, line); // #version
  for (size_t rank = 0; std::getline(lines, line); ++rank)
    ranks[{line.substr(0, line.find(' ')), line.substr(line.find(' ') + 1)}] =
        rank;
  EXPECT_GT(ranks.size(), 700u);
  for (uint32_t size = 1; size <= 120; ++size) {
    std::string word;
    for (uint32_t i = 0; i < size; ++i)
      word += "ethoanrs"[philox(size, {i, 0, 0, 0})[0] % 8];
    std::vector<std::string> parts;
    for (char c : word)
      parts.emplace_back(1, c);
    while (true) {
      size_t best = ranks.size(), at = 0;
      for (size_t i = 0; i + 1 < parts.size(); ++i)
        if (auto rank = ranks.find({parts[i], parts[i + 1]});
            rank != ranks.end() && rank->second < best) {
          best = rank->second;
          at = i;
        }
      if (best == ranks.size())
        break;
      parts[at] += parts[at + 1];
      parts.erase(parts.begin() + static_cast<ptrdiff_t>(at) + 1);
    }
    std::vector<int32_t> expected;
    for (const std::string &part : parts)
      expected.push_back(tokenizer->find(part).value());
    EXPECT_EQ(tokenizer->ids(word), expected) << word;
  }
}

// Reading on would take all of the stack.
TEST(ByteBpe, RefusesWhatIsNestedDeeply) {
  std::string text = contentOf(bytesFixture + "tokenizer.json");
  text.insert(1, R"("post_processor": {"x": )" + std::string(500'000, '[') +
                     std::string(500'000, ']') + "}, ");
  EXPECT_EQ(messageOf<InputError>([&] { parseTokenizerJson(text, "x.json"); }),
            "x.json is not valid JSON: its brackets are nested more than 100 "
            "deep");
}

// With a list of merges that was cut short texts would fall into bytes.
TEST(ByteBpe, MissesMerges) {
  json root = json::parse(contentOf(bytesFixture + "tokenizer.json"));
  auto problem = [&](const json &file) {
    return messageOf<InputError>(
        [&] { parseTokenizerJson(file.dump(), "x.json"); });
  };
  json &merges = root["model"]["merges"];
  size_t all = merges.size();
  merges.erase(merges.begin() + static_cast<ptrdiff_t>(all) - 90, merges.end());
  EXPECT_EQ(problem(root), ""); // some tokens may come from no merge
  merges.erase(merges.begin() + static_cast<ptrdiff_t>(all) - 120,
               merges.end());
  EXPECT_NE(problem(root).find("x.json: 120 of the 1000 tokens, such as \""),
            std::string::npos)
      << problem(root);
  merges = json::array();
  EXPECT_NE(problem(root).find("merges are missing"), std::string::npos);
  root["model"]["ignore_merges"] = true; // words are looked up as they are
  EXPECT_EQ(problem(root), "");
  NamedText vocabulary = named(bytesFixture + "vocab.json");
  EXPECT_NE(messageOf<InputError>([&] {
              makeByteBpeTokenizer(vocabulary, {"#version: 0.2\n", "m.txt"});
            }).find("m.txt: "),
            std::string::npos);
}

// A single word of a megabyte: quadratic time would be minutes.
TEST(ByteBpe, LongWordsTakeNoLonger) {
  TokenizerPtr tokenizer = makeByteBpeTokenizer(
      named(bytesFixture + "vocab.json"), named(bytesFixture + "merges.txt"));
  std::string word;
  for (uint32_t i = 0; i < 1'000'000; ++i)
    word += static_cast<char>('a' + philox(9, {i, 0, 0, 0})[0] % 26);
  std::vector<int32_t> ids = tokenizer->ids(word);
  EXPECT_EQ(tokenizer->text(ids), word);
}

const std::string llamaFixture = TFM_FIXTURES "/bpe/llama/";

class CharBpe : public testing::TestWithParam<const char *> {};

// The forms that Llama, Mistral and Gemma have, as Hugging Face's tokenizers
// encodes with them.
TEST_P(CharBpe, MeetsTheFixture) {
  std::string path = llamaFixture + GetParam() + ".json";
  TokenizerPtr tokenizer = parseTokenizerJson(contentOf(path), path);
  json cases =
      json::parse(contentOf(llamaFixture + "cases.json")).at(GetParam());
  EXPECT_GT(cases.size(), 150u);
  for (const json &entry : cases) {
    auto text = entry.at("text").get<std::string>();
    auto ids = entry.at("ids").get<std::vector<int32_t>>();
    EXPECT_EQ(tokenizer->ids(text), ids) << text;
    EXPECT_EQ(tokenizer->text(ids), entry.at("decoded").get<std::string>());
  }
  EXPECT_EQ(tokenizer->json(), contentOf(path));
}
INSTANTIATE_TEST_SUITE_P(Forms, CharBpe,
                         testing::Values("legacy", "first", "always", "gemma",
                                         "unknown"),
                         [](const auto &info) {
                           return std::string(info.param);
                         });

TEST(CharBpe, BeginsAsTheFileSays) {
  std::string legacy = contentOf(llamaFixture + "legacy.json");
  TokenizerPtr tokenizer = parseTokenizerJson(legacy, "legacy.json");
  EXPECT_EQ(tokenizer->begin(), (std::vector<int32_t>{1}));
  auto whole = json::parse(contentOf(llamaFixture + "cases.json"))
                   .at("begin")
                   .get<std::vector<int32_t>>();
  EXPECT_EQ(promptTokens(*tokenizer, "To be", tokenizer->begin()), whole);
  EXPECT_EQ(promptTokens(*tokenizer, "", tokenizer->begin()),
            (std::vector<int32_t>{1}));
  EXPECT_EQ(promptTokens(*tokenizer, "<s>To be", tokenizer->begin()).front(),
            1);
  EXPECT_NE(promptTokens(*tokenizer, "<s>To be", tokenizer->begin())[1], 1);
}

// As Hugging Face's tokenizers 0.23 encode: one that is `normalized` is found
// in the text that the normalizer has made, as it makes it itself.
TEST(CharBpe, FindsAddedTokensInNormalizedTexts) {
  TokenizerPtr tokenizer = parseTokenizerJson(R"({
    "added_tokens": [
      {"id": 16, "content": "<tool>", "normalized": true},
      {"id": 17, "content": "<own>", "normalized": false}],
    "normalizer": {"type": "Sequence", "normalizers": [
      {"type": "Prepend", "prepend": "▁"},
      {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]},
    "pre_tokenizer": null, "post_processor": null,
    "decoder": {"type": "Sequence", "decoders": [
      {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
      {"type": "ByteFallback"}, {"type": "Fuse"}]},
    "model": {"type": "BPE", "unk_token": "<unk>", "fuse_unk": true,
      "byte_fallback": true, "merges": [],
      "vocab": {"<unk>": 0, "▁": 1, "W": 2, "e": 3, "<": 4, "t": 5, "o": 6,
        "l": 7, ">": 8, "p": 9, "r": 10, "c": 11, "d": 12, "a": 13, "n": 14,
        "y": 15}}})",
                                              "x.json");
  using Ids = std::vector<int32_t>;
  EXPECT_EQ(tokenizer->ids("We <tool> any"), (Ids{1, 2, 3, 16, 1, 13, 14, 15}));
  EXPECT_EQ(tokenizer->ids("<tool>"), Ids{16});
  EXPECT_EQ(tokenizer->ids("any<tool>an"),
            (Ids{1, 13, 14, 15, 4, 5, 6, 6, 7, 8, 13, 14}));
  EXPECT_EQ(tokenizer->ids("<own><tool> <tool>an<own>an <tool>"),
            (Ids{17, 16, 16, 13, 14, 17, 1, 13, 14, 16}));
}

// One of which the normalizer leaves nothing is found nowhere, and not
// everywhere without end.
TEST(CharBpe, FindsNoAddedTokenThatIsEmptyOnceNormalized) {
  TokenizerPtr tokenizer = parseTokenizerJson(R"({
    "added_tokens": [{"id": 3, "content": "x", "normalized": true}],
    "normalizer": {"type": "Replace", "pattern": {"String": "x"},
                   "content": ""},
    "pre_tokenizer": null, "post_processor": null,
    "decoder": {"type": "Fuse"},
    "model": {"type": "BPE", "unk_token": null, "byte_fallback": true,
      "merges": [], "vocab": {"a": 0, "b": 1, "c": 2}}})",
                                              "x.json");
  EXPECT_EQ(tokenizer->ids("axbxc"), (std::vector<int32_t>{0, 1, 2}));
}

TEST(CharBpe, KeepsAnyBytes) {
  TokenizerPtr tokenizer =
      parseTokenizerJson(contentOf(llamaFixture + "gemma.json"), "gemma.json");
  std::string bytes;
  for (uint32_t i = 0; i < 500; ++i)
    bytes += static_cast<char>(philox(4, {i, 0, 0, 0})[0]);
  std::string back;
  for (int32_t id : tokenizer->ids(bytes))
    tokenizer->decode(id, -1, back);
  EXPECT_EQ(back, bytes);
}

TEST(CharBpe, RefusesWhatItCannotFollow) {
  json root = json::parse(contentOf(llamaFixture + "legacy.json"));
  auto problem = [&](const char *part, json value) {
    json changed = root;
    changed[part] = std::move(value);
    return messageOf<InputError>(
        [&] { parseTokenizerJson(changed.dump(), "x.json"); });
  };
  for (const auto &[part, value] : std::vector<std::pair<const char *, json>>{
           {"normalizer", {{"type", "Lowercase"}}},
           {"normalizer", {{"type", "Replace"}, {"pattern", {{"Regex", "a"}}}}},
           {"pre_tokenizer", {{"type", "Whitespace"}}},
           {"decoder", {{"type", "CTC"}}},
           {"decoder", {{"type", "Strip"}, {"content", " "}, {"start", 1.5}}},
           {"decoder",
            {{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0.5}}},
           {"decoder", nullptr}}) {
    EXPECT_NE(problem(part, value).find("x.json"), std::string::npos)
        << part << value;
  }
  // Each doubles the text: 2^40 times in all.
  json twice = {
      {"type", "Replace"}, {"pattern", {{"String", "a"}}}, {"content", "aa"}};
  json steps = std::vector<json>(40, twice);
  EXPECT_NE(
      problem("normalizer", {{"type", "Sequence"}, {"normalizers", steps}})
          .find("replacements of the normalizer"),
      std::string::npos);
  EXPECT_NE(problem("decoder", {{"type", "Sequence"}, {"decoders", steps}})
                .find("replacements of the decoder"),
            std::string::npos);
  root["model"]["merges"] = json::array();
  EXPECT_NE(problem("version", "1.0").find("merges are missing"),
            std::string::npos);
  root["model"].erase("merges");
  EXPECT_NE(problem("version", "1.0").find("no list of `merges`"),
            std::string::npos);
}

const std::string stepsFixture = TFM_FIXTURES "/bpe/steps/";

/// Knuth's MMIX generator, as tests/fixtures/bpe/steps/make.py has it.
class RandomTexts {
public:
  std::string next() {
    static const char *const words[] = {"the",  "Nile", "king", "un", "ing",
                                        "able", "'s",   "'ll",  " ",  "  ",
                                        "\n",   ". ",   "2024", "#"};
    static const std::pair<int32_t, int32_t> ranges[] = {
        {0x20, 0x7E},       {0x61, 0x7A},       {0x09, 0x0D},
        {0xA0, 0xFF},       {0x100, 0x17F},     {0x300, 0x314},
        {0x3B1, 0x3C9},     {0x410, 0x44F},     {0x4E00, 0x4E40},
        {0xAC00, 0xAC40},   {0x621, 0x64A},     {0x1F600, 0x1F64F},
        {0x2010, 0x2027},   {0xFF01, 0xFF5E},   {0x660, 0x669},
        {0x200B, 0x200F},   {0x1F1E6, 0x1F1FF}, {0xFE0F, 0xFE0F},
        {0x1F3FB, 0x1F3FF}, {0x130, 0x131},     {0xE01, 0xE3A},
        {0x915, 0x94D},     {0xE000, 0xE005},   {0x2028, 0x202F},
        {0x3000, 0x3003},   {0xFFFD, 0xFFFD},   {0x1E900, 0x1E943},
        {0x0, 0x8}};
    std::string text;
    for (uint64_t left = 1 + below(20); left > 0; --left) {
      if (below(2)) {
        text += words[below(std::size(words))];
        continue;
      }
      auto [low, high] = ranges[below(std::size(ranges))];
      appendUtf8(low + static_cast<int32_t>(
                           below(static_cast<uint64_t>(high - low + 1))),
                 text);
    }
    return text;
  }

private:
  uint64_t below(uint64_t bound) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (state >> 33) % bound;
  }
  uint64_t state = 1;
};

/// FNV-1a of the ids of 1000 texts, each with their number before them.
std::string checksumOf(const Tokenizer &tokenizer, RandomTexts &random) {
  uint64_t value = 0xCBF29CE484222325u;
  auto add = [&](uint64_t number) {
    value = (value ^ number) * 0x100000001B3u;
  };
  for (int i = 0; i < 1000; ++i) {
    std::vector<int32_t> ids = tokenizer.ids(random.next());
    add(ids.size());
    for (int32_t id : ids)
      add(static_cast<uint64_t>(id));
  }
  char text[17];
  std::snprintf(text, sizeof text, "%016llx",
                static_cast<unsigned long long>(value));
  return text;
}

class Steps : public testing::TestWithParam<const char *> {};

// Ids are those of Hugging Face's tokenizers, on texts that are hard and on
// 20,000 random ones.
TEST_P(Steps, MeetTheFixture) {
  std::string name = GetParam();
  std::string text = contentOf(stepsFixture + name + ".json");
  TokenizerPtr tokenizer = parseTokenizerJson(text, name);
  EXPECT_EQ(tokenizer->json(), text);
  json cases = json::parse(contentOf(stepsFixture + "cases.json")).at(name);
  EXPECT_GT(cases.at("texts").size(), 200u);
  for (const json &entry : cases.at("texts")) {
    auto spelt = entry.at("text").get<std::string>();
    auto ids = entry.at("ids").get<std::vector<int32_t>>();
    EXPECT_EQ(tokenizer->ids(spelt), ids) << spelt;
    EXPECT_EQ(tokenizer->text(ids), entry.at("decoded").get<std::string>())
        << spelt;
  }
  RandomTexts random;
  for (const json &checksum : cases.at("random"))
    EXPECT_EQ(checksumOf(*tokenizer, random), checksum.get<std::string>());
}
INSTANTIATE_TEST_SUITE_P(All, Steps,
                         testing::Values("bert_uncased", "bert_cased",
                                         "unigram", "t5", "falcon", "smollm",
                                         "prefixed", "merging"),
                         [](const auto &info) {
                           return std::string(info.param);
                         });

TEST(Steps, BeginAsTheFileSays) {
  TokenizerPtr bert = parseTokenizerJson(
      contentOf(stepsFixture + "bert_uncased.json"), "x.json");
  EXPECT_EQ(bert->begin(), (std::vector<int32_t>{2}));
}

// What a step lacks or cannot be is an error that names the file; damage
// anywhere is one, or another tokenizer, and never worse.
TEST(Steps, RefuseWhatTheyCannotFollow) {
  auto problem = [&](const char *name, auto change) {
    json root = json::parse(contentOf(stepsFixture + name));
    change(root);
    return messageOf<InputError>(
        [&] { parseTokenizerJson(root.dump(), "x.json")->ids("a 日"); });
  };
  auto names = [&](const std::string &message) {
    EXPECT_NE(message.find("x.json"), std::string::npos) << message;
  };
  names(problem("t5.json", [](json &root) {
    root["normalizer"]["precompiled_charsmap"] = "AAAA";
  }));
  names(problem("t5.json", [](json &root) {
    root["normalizer"]["precompiled_charsmap"] = "?";
  }));
  names(problem("t5.json",
                [](json &root) { root["model"]["vocab"][3] = {"a"}; }));
  names(
      problem("t5.json", [](json &root) { root["model"]["unk_id"] = 100000; }));
  names(problem("bert_cased.json", [](json &root) {
    root["pre_tokenizer"] = {{"type", "UnicodeScripts"}};
  }));
  names(problem("bert_cased.json",
                [](json &root) { root["decoder"] = {{"type", "CTC"}}; }));
  names(problem("bert_cased.json",
                [](json &root) { root["normalizer"] = {{"type", "Nmt"}}; }));
  json twice = {
      {"type", "Replace"}, {"pattern", {{"String", "a"}}}, {"content", "aa"}};
  names(problem("bert_cased.json", [&](json &root) {
    root["normalizer"] = {{"type", "Sequence"},
                          {"normalizers", std::vector<json>(40, twice)}};
  }));
  // Without one for the unknown, a character that there is none for is named.
  EXPECT_NE(problem("unigram.json",
                    [](json &root) { root["model"]["unk_id"] = nullptr; })
                .find("no token for"),
            std::string::npos);
}

// A token of 50,000 letters, and texts that nearly are it at every place.
TEST(TokenizerJson, LongTokensTakeNoTime) {
  std::string longest(50'000, 'a');
  json unigram = {
      {"decoder", {{"type", "Fuse"}}},
      {"model",
       {{"type", "Unigram"},
        {"unk_id", 0},
        {"vocab",
         json::array({json::array({"<unk>", 0}), json::array({"a", -9}),
                      json::array({longest + "b", -1})})}}}};
  TokenizerPtr tokenizer = parseTokenizerJson(unigram.dump(), "u.json");
  EXPECT_EQ(tokenizer->ids(longest.substr(0, 3000)),
            std::vector<int32_t>(3000, 1));
  EXPECT_EQ(tokenizer->ids("a" + longest + "b"), (std::vector<int32_t>{1, 2}));
  json pieces = {
      {"decoder", {{"type", "WordPiece"}}},
      {"model",
       {{"type", "WordPiece"},
        {"unk_token", "?"},
        {"max_input_chars_per_word", 1'000'000},
        {"vocab",
         {{"?", 0}, {"a", 1}, {"##a", 2}, {"##" + longest + "b", 3}}}}}};
  tokenizer = parseTokenizerJson(pieces.dump(), "w.json");
  std::vector<int32_t> ids(3000, 2);
  ids[0] = 1;
  EXPECT_EQ(tokenizer->ids(longest.substr(0, 3000)), ids);
  EXPECT_EQ(tokenizer->ids("a" + longest + "b"), (std::vector<int32_t>{1, 3}));
}

TEST(TokenizerJson, KnowsHowSpacesArePrepended) {
  for (const char *name : {"t5.json", "unigram.json"}) {
    json root = json::parse(contentOf(stepsFixture + name));
    std::string text = root.dump();
    const std::string key = "\"prepend_scheme\":\"";
    for (const char *step : {"decoder", "pre-tokenizer"}) {
      std::string changed = text;
      size_t at = step == std::string("decoder") ? changed.find(key)
                                                 : changed.rfind(key);
      ASSERT_NE(at, std::string::npos) << name;
      changed.insert(at + key.size(), "x");
      std::string words = messageOf<NotSupported>(
          [&] { parseTokenizerJson(changed, "s.json"); });
      EXPECT_NE(words.find(std::string("s.json: the ") + step),
                std::string::npos)
          << words;
    }
  }
}

TEST(SentencePiece, MeetsTheUnigramFixture) {
  TokenizerPtr model =
      parseSentencePiece(contentOf(stepsFixture + "unigram.model"), "u.model");
  json cases =
      json::parse(contentOf(stepsFixture + "cases.json")).at("unigram");
  for (const json &entry : cases.at("texts"))
    EXPECT_EQ(model->ids(entry.at("text").get<std::string>()),
              entry.at("ids").get<std::vector<int32_t>>());
  RandomTexts random;
  for (const json &checksum : cases.at("random"))
    EXPECT_EQ(checksumOf(*model, random), checksum.get<std::string>());
}

TEST(SentencePiece, MeetsTheFixture) {
  std::string folder = TFM_FIXTURES "/bpe/sentencepiece/";
  std::string bytes = contentOf(folder + "llama.model");
  TokenizerPtr tokenizer = parseSentencePiece(bytes, "llama.model");
  EXPECT_EQ(tokenizer->size(), 600);
  EXPECT_EQ(tokenizer->begin(), (std::vector<int32_t>{1}));
  json cases = json::parse(contentOf(folder + "cases.json"));
  EXPECT_GT(cases.size(), 100u);
  TokenizerPtr again = parseTokenizerJson(tokenizer->json(), "written");
  for (const json &entry : cases) {
    auto text = entry.at("text").get<std::string>();
    auto ids = entry.at("ids").get<std::vector<int32_t>>();
    EXPECT_EQ(tokenizer->ids(text), ids) << text;
    EXPECT_EQ(again->ids(text), ids) << text;
    EXPECT_EQ(tokenizer->text(ids), entry.at("decoded").get<std::string>());
  }
}

using Piece = SentencePieceModel::Piece;

/// A model of these pieces behind `<unk>` and all bytes, whose ids are 1 to
/// 256.
SentencePieceModel modelOf(SentencePieceModel::Type type,
                           const std::vector<Piece> &pieces) {
  SentencePieceModel model;
  model.type = type;
  model.hasBytes = true;
  model.pieces = {{"<unk>", 0, Piece::Unknown}};
  for (int byte = 0; byte < 256; ++byte) {
    char name[8];
    std::snprintf(name, sizeof name, "<0x%02X>", byte);
    model.pieces.push_back({name, 0, Piece::Byte});
  }
  model.pieces.insert(model.pieces.end(), pieces.begin(), pieces.end());
  return model;
}

TokenizerPtr tokenizerOf(const SentencePieceModel &model) {
  return parseTokenizerJson(sentencePieceJson(model, "x.model"), "x.model");
}

// Characters that there is no piece for are bytes, of unigram models, too.
TEST(SentencePiece, ReadsBytesAsText) {
  TokenizerPtr tokenizer = tokenizerOf(
      modelOf(SentencePieceModel::Unigram, {{"▁", -2}, {"▁a", -1}}));
  std::vector<int32_t> ids = tokenizer->ids("a é");
  EXPECT_EQ(ids, (std::vector<int32_t>{258, 257, 1 + 0xC3, 1 + 0xA9}));
  EXPECT_EQ(tokenizer->text(ids), "a é");
}

// What a user has defined is found in the normalised text, where spaces are
// visible: the longest first, and nothing is merged with it.
TEST(SentencePiece, FindsPiecesOfUsersInNormalisedTexts) {
  SentencePieceModel model =
      modelOf(SentencePieceModel::Bpe, {{"\n", 0, Piece::UserDefined},
                                        {"▁▁", 0, Piece::UserDefined},
                                        {"▁▁▁▁", 0, Piece::UserDefined},
                                        {"▁a", -1},
                                        {"▁", -2},
                                        {"a", -3}});
  model.addsPrefix = false;
  model.removesSpaces = false;
  TokenizerPtr tokenizer = tokenizerOf(model);
  for (const auto &[text, ids] : std::map<std::string, std::vector<int32_t>>{
           {" a", {260}},
           {"  a", {258, 262}},
           {"       a", {259, 258, 260}},
           {"a   a\n a", {262, 258, 260, 257, 260}}}) {
    EXPECT_EQ(tokenizer->ids(text), ids) << text;
    EXPECT_EQ(tokenizer->text(ids), text);
  }
}

// A model of those that `remove_extra_whitespaces` is off for.
TEST(SentencePiece, KeepsSpacesWhereTheModelDoes) {
  SentencePieceModel model =
      modelOf(SentencePieceModel::Unigram, {{"▁", -2},
                                            {"▁a", -1},
                                            {"▁▁▁", -2},
                                            {"a", -3},
                                            {"\n", 0, Piece::UserDefined}});
  auto ids = [&](const char *text) {
    TokenizerPtr tokenizer = tokenizerOf(model);
    std::vector<int32_t> result = tokenizer->ids(text);
    if (!model.removesSpaces)
      EXPECT_EQ(tokenizer->text(result), text);
    return result;
  };
  using Ids = std::vector<int32_t>;
  EXPECT_EQ(ids("a  a "), (Ids{258, 258}));
  model.removesSpaces = false;
  EXPECT_EQ(ids("a  a "), (Ids{258, 257, 258, 257}));
  EXPECT_EQ(ids("   a"), (Ids{259, 258}));
  EXPECT_EQ(ids("a\na"), (Ids{258, 261, 260})); // a prefix before the first
  model.addsPrefix = false;
  EXPECT_EQ(ids("a   "), (Ids{260, 259}));
  EXPECT_EQ(ids(" a"), Ids{258});
}

TEST(SentencePiece, RefusesWhatItCannotFollow) {
  std::string folder = TFM_FIXTURES "/bpe/sentencepiece/";
  auto problem = [&](const std::string &bytes) {
    return messageOf<InputError>([&] { parseSentencePiece(bytes, "x.model"); });
  };
  EXPECT_EQ(problem(contentOf(folder + "unigram.model")), "");
  std::string words = contentOf(folder + "unigram.model");
  size_t type = words.find("\x18\x01"); // the type of the model, unigram
  ASSERT_NE(type, std::string::npos);
  words[type + 1] = '\x03';
  EXPECT_NE(problem(words).find("of words or characters"), std::string::npos);
  // Field 24 of how it was trained, `treat_whitespace_as_suffix`.
  const std::string suffix("\x12\x03\xC0\x01\x01", 5);
  EXPECT_NE(problem(contentOf(folder + "unigram.model") + suffix)
                .find("whose words end in their spaces"),
            std::string::npos);
  std::string whole = contentOf(folder + "llama.model");
  EXPECT_NE(problem("").find("x.model"), std::string::npos);
  for (size_t size = 1; size < 300; ++size)
    EXPECT_NE(problem(whole.substr(0, size)), "");
  // Damage anywhere is an error or another vocabulary, never worse.
  for (uint32_t i = 0; i < 300; ++i) {
    PhiloxBlock random = philox(8, {i, 0, 0, 0});
    std::string damaged = whole;
    damaged[random[0] % damaged.size()] = static_cast<char>(random[1]);
    problem(damaged);
  }
}

TEST(ByteBpe, ManySpecialTokensTakeNoLonger) {
  json root = json::parse(contentOf(bytesFixture + "tokenizer.json"));
  for (int i = 0; i < 200; ++i)
    root["added_tokens"].push_back(
        {{"id", 1000 + i}, {"content", "<|" + std::to_string(i) + "|>"}});
  TokenizerPtr tokenizer = parseTokenizerJson(root.dump(), "x");
  std::string text;
  for (int i = 0; i < 20000; ++i)
    text += "to be<|3|>";
  std::vector<int32_t> ids = tokenizer->ids(text);
  EXPECT_EQ(std::count(ids.begin(), ids.end(), 1003), 20000);
  EXPECT_EQ(tokenizer->text(ids), text);
}

// The ids are those of Hugging Face's tokenizers.
TEST(ByteBpe, AddedTokensTakeTheSpaceAroundThem) {
  json root = json::parse(contentOf(bytesFixture + "tokenizer.json"));
  json token = {{"id", 1000}, {"content", "<|x|>"}};
  auto ids = [&](const char *option, const std::string &text) {
    json changed = root, added = token;
    added[option] = true;
    changed["added_tokens"].push_back(added);
    return parseTokenizerJson(changed.dump(), "x.json")->ids(text);
  };
  std::string text = "a \u3000\n<|x|> <|x|> \u00a0b";
  EXPECT_EQ(ids("lstrip", text),
            (std::vector<int32_t>{65, 1000, 1000, 221, 127, 255, 66}));
  EXPECT_EQ(ids("rstrip", text), (std::vector<int32_t>{65, 221, 160, 223, 223,
                                                       199, 1000, 1000, 66}));
  EXPECT_EQ(ids("lstrip", " <|x|> "), (std::vector<int32_t>{1000, 221}));
  EXPECT_EQ(ids("rstrip", " <|x|> "), (std::vector<int32_t>{221, 1000}));
  EXPECT_NE(messageOf<InputError>([&] {
              ids("single_word", text);
            }).find("x.json: the added token \"<|x|>\" has single_word"),
            std::string::npos);
}

TEST(WordBpe, MeetsTheFixture) {
  TokenizerPtr tokenizer = makeWordBpeTokenizer(
      named(wordFixture + "vocab.json"), named(wordFixture + "merges.txt"));
  json cases = json::parse(contentOf(wordFixture + "cases.json"));
  EXPECT_EQ(tokenizer->size(), 276);
  TokenizerPtr again = parseTokenizerJson(tokenizer->json(), "written");
  EXPECT_EQ(again->find("Africa</w>"), tokenizer->find("Africa</w>"));
  EXPECT_EQ(again->json(), tokenizer->json());
  // What Hugging Face's tokenizers, which glue their suffix to the last
  // character, make the same ids of.
  json root = json::parse(tokenizer->json());
  EXPECT_TRUE(root["model"]["end_of_word_suffix"].is_null());
  EXPECT_EQ(root["model"]["vocab"]["Africa\uFFFF"], *again->find("Africa</w>"));
  // As earlier runs wrote it.
  std::string before = replaceAll(tokenizer->json(), "\uFFFF", "</w>");
  root = json::parse(before);
  root["normalizer"] = nullptr;
  root["model"]["end_of_word_suffix"] = "</w>";
  TokenizerPtr earlier = parseTokenizerJson(root.dump(), "earlier");
  EXPECT_EQ(earlier->json(), tokenizer->json());
  root["model"]["vocab"].erase("</w>");
  EXPECT_THROW(parseTokenizerJson(root.dump(), "x"), NotSupported);
  EXPECT_EQ(cases.at("encode").size(), 40u);
  for (const json &entry : cases.at("encode")) {
    std::string text = fromHex(entry.at("utf8").get<std::string>());
    auto ids = entry.at("ids").get<std::vector<int32_t>>();
    EXPECT_EQ(tokenizer->ids(text), ids) << text;
    EXPECT_EQ(again->ids(text), ids) << text;
    EXPECT_EQ(tokenizer->text(ids), entry.at("decoded").get<std::string>());
  }
  for (const json &entry : cases.at("decode"))
    EXPECT_EQ(tokenizer->text(entry.at("ids").get<std::vector<int32_t>>()),
              entry.contains("decoded") ? entry.at("decoded").get<std::string>()
                                        : entry.at("text").get<std::string>());
}

// They go into a tokenizer.json with the model, which is UTF-8.
TEST(WordBpe, RejectsMergesThatAreNotUtf8) {
  try {
    makeWordBpeTokenizer({R"({"<UNK>": 0, "a": 1})", "vocab.json"},
                         {"a b\na \xFF\n", "merges.txt"});
    FAIL();
  } catch (const InputError &error) {
    EXPECT_STREQ(error.what(), "merges.txt:2: not UTF-8 text");
  }
}

// Each of them is needed: the tokens of the vocabulary show which one lacks.
TEST(WordBpe, RejectsMergesThatAreNotThoseOfTheVocabulary) {
  const std::string vocabulary = contentOf(wordFixture + "vocab.json");
  const std::string merges = contentOf(wordFixture + "merges.txt");
  auto problem = [&](const std::string &text) {
    return messageOf<InputError>([&] {
      makeWordBpeTokenizer({vocabulary, "vocab.json"}, {text, "merges.txt"});
    });
  };
  int count = 0;
  for (size_t at = 0; at < merges.size(); ++count) {
    size_t next = merges.find('\n', at) + 1;
    std::string message = problem(merges.substr(0, at) + merges.substr(next));
    EXPECT_NE(message.find("merges.txt: the "), std::string::npos)
        << merges.substr(at, next - at) << message;
    EXPECT_NE(message.find("merges are missing"), std::string::npos);
    at = next;
  }
  EXPECT_EQ(count, 200);
  EXPECT_NE(problem(merges + "Q Q\n")
                .find("the merge \"Q Q\" makes a token that the vocabulary "
                      "lacks"),
            std::string::npos);
}

// A prompt and its continuation are put together as the text of all ids is, and
// nothing follows the last word.
TEST(WordBpe, PartsWordsInFrontOfTheNext) {
  TokenizerPtr tokenizer = makeWordBpeTokenizer(
      named(wordFixture + "vocab.json"), named(wordFixture + "merges.txt"));
  int32_t word = tokenizer->find("Africa</w>").value();
  int32_t part = tokenizer->find("Afri").value();
  auto behind = [&](int32_t previous, int32_t id) {
    std::string bytes;
    tokenizer->decode(id, previous, bytes);
    return bytes;
  };
  EXPECT_EQ(behind(-1, word), "Africa");
  EXPECT_EQ(behind(word, word), " Africa");
  EXPECT_EQ(behind(word, part), " Afri");
  EXPECT_EQ(behind(part, word), "Africa");
  EXPECT_EQ(behind(word, 100000), " <UNK>");
  EXPECT_EQ(behind(100000, part), " Afri");
}

TEST(TrainWordBpe, MeetsTheFixture) {
  TrainedWordBpe trained =
      trainWordBpe(contentOf(wordFixture + "corpus.txt"), 200);
  EXPECT_EQ(trained.mergesText(), contentOf(wordFixture + "merges.txt"));
  EXPECT_EQ(json::parse(trained.vocabJson()),
            json::parse(contentOf(wordFixture + "vocab.json")));
  // The tokens stand in the file by id.
  EXPECT_EQ(trained.tokens.size(), 276u);
  EXPECT_EQ(trained.tokens.back(), "\n");
  TokenizerPtr tokenizer =
      makeWordBpeTokenizer({trained.vocabJson(), "vocab.json"},
                           {trained.mergesText(), "merges.txt"});
  const json cases = json::parse(contentOf(wordFixture + "cases.json"));
  EXPECT_FALSE(cases.at("encode").empty());
  for (const json &entry : cases.at("encode"))
    EXPECT_EQ(tokenizer->ids(fromHex(entry.at("utf8").get<std::string>())),
              entry.at("ids").get<std::vector<int32_t>>());
}

TEST(TrainWordBpe, CountsAndMergesAsTheRuleSays) {
  // `a a` twice in `aaa`, but merged once, from the left.
  EXPECT_EQ(trainWordBpe("aaa", 2).merges, (Merges{{"a", "a"}, {"aa", "a"}}));
  // Ties: what occurs first, although `c d` is the smaller one in no order.
  EXPECT_EQ(trainWordBpe("xy cd cd xy", 1).merges, (Merges{{"x", "y"}}));
  // It ends when every word is one token.
  EXPECT_EQ(trainWordBpe("ab", 100).merges.size(), 2u);
  // Tokens that are spelt alike are the same however they were put together.
  std::vector<std::string> tokens = trainWordBpe("abc abc bcd ab ab", 9).tokens;
  EXPECT_EQ(std::set<std::string>(tokens.begin(), tokens.end()).size(),
            tokens.size());
  EXPECT_THROW(trainWordBpe(" \n", 5), InputError);
  EXPECT_NE(messageOf<InputError>([] {
              trainWordBpe("ab\nc\xff", 5);
            }).find("not UTF-8"),
            std::string::npos);
}

// The obvious way: count all pairs anew for every merge.
Merges slowly(const std::string &text, int64_t count) {
  std::vector<std::vector<std::string>> words;
  std::istringstream stream(text);
  for (std::string word; stream >> word;) {
    words.emplace_back();
    for (char c : word)
      words.back().push_back(std::string(1, c));
    words.back().push_back("</w>");
  }
  Merges merges;
  for (; count > 0; --count) {
    std::map<std::pair<std::string, std::string>, int> counts;
    Merges order;
    for (const auto &word : words)
      for (size_t i = 0; i + 1 < word.size(); ++i)
        if (counts[{word[i], word[i + 1]}]++ == 0)
          order.emplace_back(word[i], word[i + 1]);
    if (order.empty())
      break;
    auto best = *std::max_element(
        order.begin(), order.end(),
        [&](const auto &a, const auto &b) { return counts[a] < counts[b]; });
    merges.push_back(best);
    for (auto &word : words)
      for (size_t i = 0; i + 1 < word.size(); ++i)
        if (word[i] == best.first && word[i + 1] == best.second) {
          word[i] += word[i + 1];
          word.erase(word.begin() + static_cast<ptrdiff_t>(i) + 1);
        }
  }
  return merges;
}

TEST(TrainWordBpe, LearnsWhatCountingAnewLearns) {
  for (uint32_t seed = 0; seed < 20; ++seed) {
    std::string text;
    for (uint32_t i = 0; i < 400; ++i) {
      uint32_t random = philox(seed, {i, 0, 0, 0})[0];
      text += random % 5 == 0 ? ' ' : static_cast<char>('a' + random / 5 % 3);
    }
    EXPECT_EQ(trainWordBpe(text, 80).merges, slowly(text, 80)) << text;
  }
}

TEST(Ids, AreNumbers) {
  TokenizerPtr tokenizer = makeIdsTokenizer(101);
  EXPECT_EQ(tokenizer->size(), 101);
  EXPECT_EQ(tokenizer->ids(" 7, 100\n0"), (std::vector<int32_t>{7, 100, 0}));
  EXPECT_EQ(tokenizer->text({7, 100, 0}), "7 100 0");
  // Those that a run has written are the same.
  TokenizerPtr written = parseTokenizerJson(tokenizer->json(), "x");
  EXPECT_EQ(written->ids(" 7, 100\n0"), (std::vector<int32_t>{7, 100, 0}));
  EXPECT_EQ(written->text({7, 100, 0}), "7 100 0");
  EXPECT_EQ(written->json(), tokenizer->json());
  for (const char *bad : {"101", "-1", "x", "7x", "1.5", "99999999999", "\xff"})
    for (const Tokenizer *ids : {tokenizer.get(), written.get()})
      EXPECT_NE(messageOf<InputError>([&] {
                  ids->ids(bad);
                }).find("numbers from 0 to 100"),
                std::string::npos)
          << bad;
  // What to do instead depends on why text is ids.
  auto advice = [](const Tokenizer &ids) {
    std::string message = messageOf<InputError>([&] { ids.ids("x"); });
    return message.substr(message.find("for words"));
  };
  EXPECT_EQ(advice(*tokenizer), "for words name a tokenizer with --tokenizer");
  EXPECT_EQ(advice(*makeIdsTokenizer(101, "leave out --ids")),
            "for words leave out --ids");
}

TEST(Chars, RoundTrips) {
  std::string text = "h\xc3\xa9llo \xe2\x82\xac\xf0\x9f\x98\x80\n";
  TokenizerPtr tokenizer = makeCharsTokenizer(text);
  EXPECT_EQ(tokenizer->size(), 8); // l occurs twice
  EXPECT_EQ(tokenizer->text(tokenizer->ids(text)), text);
  // As Oniguruma reads it, too, which has no `(?s)`; earlier files had that.
  std::string written = tokenizer->json();
  size_t option = written.find("(?m).");
  ASSERT_NE(option, std::string::npos) << written;
  for (const char *pattern : {"(?m).", "(?s).", ""}) {
    std::string other = written;
    other.replace(option, 5, pattern);
    TokenizerPtr again = parseTokenizerJson(other, "written");
    EXPECT_EQ(again->ids(text), tokenizer->ids(text));
  }
}

TEST(Chars, NamesTheCharacterThatIsMissing) {
  TokenizerPtr tokenizer = makeCharsTokenizer("ab\n");
  auto problem = [&](const std::string &text) {
    return messageOf<InputError>([&] { tokenizer->ids(text); });
  };
  EXPECT_NE(problem("ab\nbax").find("'x' (U+0078), after \"ba\""),
            std::string::npos);
  EXPECT_NE(problem("\xe2\x82\xac").find("U+20AC"), std::string::npos);
  EXPECT_NE(problem("a\x07").find("U+0007"), std::string::npos);
  EXPECT_NE(problem("a\xff").find("not UTF-8"), std::string::npos);
}

TEST(Utf8, MessagesAreSafeForATerminal) {
  EXPECT_EQ(printable("a\tb\nc"), "a\tb\nc");
  EXPECT_EQ(printable("\x1b[31m\x7f\xc2\x9b\xff\xc3\xa9"),
            "\xef\xbf\xbd[31m\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xc3\xa9");
}

TEST(Bytes, RoundTrips) {
  TokenizerPtr tokenizer = makeBytesTokenizer();
  EXPECT_EQ(tokenizer->size(), 256);
  std::string all;
  for (int i = 0; i < 256; ++i)
    all += static_cast<char>(i);
  std::vector<int32_t> ids = tokenizer->ids(all);
  ASSERT_EQ(ids.size(), 256u);
  std::string back;
  for (int i = 0; i < 256; ++i) {
    EXPECT_EQ(ids[i], i);
    tokenizer->decode(ids[i], -1, back);
  }
  EXPECT_EQ(back, all);
  TokenizerPtr again = parseTokenizerJson(tokenizer->json(), "written");
  EXPECT_EQ(again->ids(all), ids);
}

TEST(Words, UnknownWordsNeedUnk) {
  TokenizerPtr tokenizer =
      makeWordsTokenizer({R"({"the": 0, "cat": 1, "<UNK>": 2})", "v"});
  EXPECT_EQ(tokenizer->ids(" the  dog\ncat"), (std::vector<int32_t>{0, 2, 1}));
  EXPECT_EQ(tokenizer->text({0, 1}), "the cat");
  EXPECT_THROW(makeWordsTokenizer({R"({"the": 0})", "v"})->ids("cat"),
               InputError);
  EXPECT_EQ(parseTokenizerJson(tokenizer->json(), "x")->ids("cat"),
            (std::vector<int32_t>{1}));
}

TEST(TokenizerJson, RefusesWhatItCannotFollow) {
  for (const char *text :
       {"", "1", "{}", "{\"model\": 3}", "{\"model\": {\"type\": \"Unigram\"}}",
        "{\"model\": {\"type\": \"BPE\"}}",
        "{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": -1}}}",
        "{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 99999999999}}}",
        "{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0}, \"merges\": "
        "[\"a b\"]}, \"pre_tokenizer\": {\"type\": \"ByteLevel\"}}",
        "{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0}, \"merges\": "
        "[\"a\"]}, \"pre_tokenizer\": {\"type\": \"ByteLevel\"}}",
        "{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0}, \"merges\": "
        "[]}, "
        "\"pre_tokenizer\": {\"type\": \"Metaspace\"}}",
        "{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0}, \"merges\": "
        "[]}, "
        "\"pre_tokenizer\": {\"type\": 5}}"})
    EXPECT_NE(messageOf<InputError>([&] {
                parseTokenizerJson(text, "f.json");
              }).find("f.json"),
              std::string::npos)
        << text;
}

// Patterns of other models are compiled as they stand.
TEST(TokenizerJson, UsesThePatternOfTheFile) {
  json root = json::parse(contentOf(bytesFixture + "tokenizer.json"));
  root["pre_tokenizer"] = {{"type", "Sequence"},
                           {"pretokenizers",
                            {{{"type", "Split"},
                              {"pattern", {{"Regex", "\\d"}}},
                              {"behavior", "Isolated"},
                              {"invert", false}},
                             {{"type", "ByteLevel"},
                              {"add_prefix_space", false},
                              {"use_regex", false}}}}};
  TokenizerPtr tokenizer = parseTokenizerJson(root.dump(), "x");
  // `the` is one token here, and digits never join their neighbours.
  std::vector<int32_t> ids = tokenizer->ids("the1the");
  ASSERT_EQ(ids.size(), 3u);
  EXPECT_EQ(ids[0], ids[2]);
  EXPECT_EQ(tokenizer->text(ids), "the1the");
  // A space before each piece.
  root["pre_tokenizer"]["pretokenizers"][1]["add_prefix_space"] = true;
  tokenizer = parseTokenizerJson(root.dump(), "x");
  EXPECT_EQ(tokenizer->text(tokenizer->ids("the1the")), " the 1 the");
  root["pre_tokenizer"]["pretokenizers"][1]["add_prefix_space"] = false;
  root["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = "(";
  EXPECT_THROW(parseTokenizerJson(root.dump(), "x"), InputError);
}

TEST(Utf8, ReplacesMaximalInvalidParts) {
  // Examples of the Unicode standard, chapter 3.9, tables 3-8 and 3-11.
  const std::string bad = "\xEF\xBF\xBD";
  EXPECT_EQ(replaceInvalidUtf8("\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41"),
            bad + bad + bad + bad + bad + bad + bad + bad + "A");
  EXPECT_EQ(replaceInvalidUtf8("\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41"),
            bad + bad + bad + bad + "A");
  EXPECT_EQ(replaceInvalidUtf8("\xED\xA0\x80"), bad + bad + bad);
  EXPECT_EQ(replaceInvalidUtf8("a\xE2\x82"), "a" + bad);
}

TEST(Utf8, StreamGivesWholeCharacters) {
  std::string text = "a\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80z\xE2\x82";
  for (size_t step : {1u, 2u, 3u, 5u}) {
    Utf8Stream stream;
    std::string all;
    for (size_t at = 0; at < text.size(); at += step) {
      std::string part = stream.push(std::string_view(text).substr(at, step));
      EXPECT_EQ(replaceInvalidUtf8(part), part) << "a split character";
      all += part;
    }
    all += stream.finish();
    EXPECT_EQ(all, replaceInvalidUtf8(text));
  }
}

//===----------------------------------------------------------------------===//
// Within gguf files
//===----------------------------------------------------------------------===//

TEST(GgufTokenizer, GivesTheIdsOfTheTokenizerThatItWasMadeFrom) {
  json files = json::parse(contentOf(ggufFixture + "tokens.json"));
  EXPECT_EQ(files.size(), 7U);
  for (const auto &[name, cases] : files.items()) {
    GgufReader file(ggufFixture + name);
    TokenizerPtr tokenizer = openGgufTokenizer(file);
    EXPECT_EQ(tokenizer->size(), ggufTokens(file)) << name;
    for (const json &each : cases) {
      auto text = each["text"].get<std::string>();
      std::vector<int32_t> ids = tokenizer->ids(text);
      EXPECT_EQ(ids, each["ids"].get<std::vector<int32_t>>())
          << name << ": " << text;
    }
  }
}

TEST(GgufTokenizer, TellsWhatBeginsAndEndsATextAndHowMessagesStand) {
  GgufReader file(ggufFixture + "chat.gguf");
  TokenizerPtr tokenizer = openGgufTokenizer(file);
  // Of this kind texts begin with it where the file says nothing.
  EXPECT_EQ(tokenizer->begin(), (std::vector<int32_t>{0}));
  EXPECT_EQ(ggufEndTokens(file), (std::vector<int32_t>{1, 4}));
  nlohmann::ordered_json config = ggufTokenizerConfig(file);
  EXPECT_EQ(config["bos_token"], "<|begin_of_text|>");
  EXPECT_EQ(config["eos_token"], "<|end_of_text|>");
  EXPECT_TRUE(config["chat_template"].get<std::string>().starts_with(
      "{{ bos_token }}"));
  EXPECT_EQ(
      openGgufTokenizer(GgufReader(ggufFixture + "tokens_gpt-2.gguf"))->begin(),
      std::vector<int32_t>());
  EXPECT_EQ(
      openGgufTokenizer(GgufReader(ggufFixture + "tokens_llama.gguf"))->begin(),
      (std::vector<int32_t>{1}));
}

TEST(GgufTokenizer, RefusesScoresThatAreNoNumbers) {
  test::TemporaryFolder folder;
  std::string bytes = contentOf(ggufFixture + "tokens_llama.gguf");
  const std::string key = "tokenizer.ggml.scores";
  // Behind the key: list, of f32, how many; then the third of them.
  size_t at = bytes.find(key) + key.size() + 4 + 4 + 8 + 8;
  const uint32_t none = 0x7fc00000;
  bytes.replace(at, sizeof none, reinterpret_cast<const char *>(&none),
                sizeof none);
  std::string path = folder.path + "/scores.gguf";
  std::ofstream(path, std::ios::binary) << bytes;
  EXPECT_NE(messageOf<InputError>([&] {
              openGgufTokenizer(GgufReader(path));
            }).find("the score of token 2 is no number"),
            std::string::npos);
}

TEST(GgufTokenizer, RefusesWhatItDoesNotKnow) {
  test::TemporaryFolder folder;
  std::string right = contentOf(ggufFixture + "tokens_llama-bpe.gguf");
  auto changed = [&](const std::string &from, const std::string &to) {
    std::string bytes = right;
    size_t at = bytes.find(from);
    EXPECT_NE(at, std::string::npos);
    bytes.replace(at, from.size(), to);
    std::string path = folder.path + "/changed.gguf";
    std::ofstream(path, std::ios::binary) << bytes;
    return messageOf<InputError>([&] { openGgufTokenizer(GgufReader(path)); });
  };
  EXPECT_NE(changed("llama-bpe", "llama-bpx")
                .find("tokenizer.ggml.pre is \"llama-bpx\""),
            std::string::npos);
  EXPECT_NE(changed("gpt2", "bert").find("tokenizer.ggml.model is \"bert\""),
            std::string::npos);
  EXPECT_NE(changed("ggml.tokens", "ggml.tokenz")
                .find("it has no list tokenizer.ggml.tokens"),
            std::string::npos);
  EXPECT_NE(changed("ggml.merges", "ggml.mergez")
                .find("it has no list tokenizer.ggml.merges"),
            std::string::npos);
}

} // namespace
} // namespace tfm
