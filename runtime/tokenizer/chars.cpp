//===- chars.cpp - one token a character, a byte or a word --------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/support/error.h"
#include "runtime/support/utf8.h"
#include "runtime/tokenizer/vocabulary.h"

#include <algorithm>
#include <nlohmann/json.hpp>

using nlohmann::json;
using nlohmann::ordered_json;

namespace tfm {

namespace {

/// The end of a line up to a place in it, for messages.
std::string_view textBefore(std::string_view text, size_t at) {
  size_t begin = at < 20 ? 0 : at - 20;
  while (begin < at && (static_cast<unsigned char>(text[begin]) & 0xC0) == 0x80)
    ++begin;
  std::string_view part = text.substr(begin, at - begin);
  return part.substr(part.rfind('\n') + 1);
}

class Chars : public VocabularyTokenizer {
public:
  Chars(Vocabulary tokens, const std::string &unknownToken,
        const std::string &origin)
      : VocabularyTokenizer(std::move(tokens)), unknownToken(unknownToken),
        unknown(vocabulary.find(unknownToken)) {
    std::fill(std::begin(ascii), std::end(ascii), -1);
    for (int32_t id = 0; id < vocabulary.size(); ++id) {
      std::string_view token = vocabulary.token(id);
      if (token.empty())
        continue;
      CodePoint character = decodeUtf8(token, 0);
      bool isCharacter =
          character.value >= 0 && character.bytes == token.size();
      if (!isCharacter && id != unknown)
        throw InputError("{}: the token \"{}\" is not one character", origin,
                         token);
      if (isCharacter && character.value < 128)
        ascii[character.value] = id;
    }
  }

  void encode(std::string_view text, std::vector<int32_t> &ids) const override {
    // Nothing is reserved: `ids` grows by many short texts, and a vector that
    // is given its exact size for each is copied each time.
    for (size_t at = 0; at < text.size();) {
      CodePoint character = decodeUtf8(text, at);
      int32_t id = character.value >= 0 && character.value < 128
                       ? ascii[character.value]
                       : vocabulary.find(text.substr(at, character.bytes));
      if (id < 0 && character.value >= 0)
        id = unknown;
      if (id < 0)
        missing(text, at, character);
      ids.push_back(id);
      at += character.bytes;
    }
  }

  void decode(int32_t id, int32_t, std::string &bytes) const override {
    if (vocabulary.contains(id))
      bytes += vocabulary.token(id);
  }

  /// As a word-level model whose words are single characters.
  std::string json() const override {
    ordered_json root = emptyTokenizerJson();
    root["pre_tokenizer"] = {{"type", "Split"},
                             // Oniguruma's `.` of any character: `(?s)` is
                             // none of its options.
                             {"pattern", {{"Regex", "(?m)."}}},
                             {"behavior", "Isolated"},
                             {"invert", false}};
    root["decoder"] = {{"type", "Fuse"}};
    root["model"] = {{"type", "WordLevel"},
                     {"vocab", vocabulary.toJson()},
                     {"unk_token", unknownToken}};
    return root.dump();
  }

private:
  [[noreturn]] static void missing(std::string_view text, size_t at,
                                   CodePoint character) {
    if (character.value < 0)
      throw InputError("not UTF-8 text: only a tokenizer of bytes takes it");
    std::string before(textBefore(text, at));
    throw NoToken("the tokenizer has no token for {}{}",
                  characterName(character.value),
                  before.empty() ? "" : ", after \"" + before + "\"");
  }

  std::string unknownToken;
  int32_t unknown;
  int32_t ascii[128];
};

/// Bytes of a word that a message repeats.
constexpr size_t longestQuote = 60;

class Words : public VocabularyTokenizer {
public:
  Words(Vocabulary tokens, const std::string &unknownToken)
      : VocabularyTokenizer(std::move(tokens)), unknownToken(unknownToken),
        unknown(vocabulary.find(unknownToken)) {}

  bool partsAtSpace() const override { return true; }

  void encode(std::string_view text, std::vector<int32_t> &ids) const override {
    size_t at = 0;
    while (at < text.size()) {
      CodePoint character = decodeUtf8(text, at);
      if (isSpace(character.value)) {
        at += character.bytes;
        continue;
      }
      size_t begin = at;
      while (at < text.size()) {
        character = decodeUtf8(text, at);
        if (isSpace(character.value))
          break;
        at += character.bytes;
      }
      std::string_view word = text.substr(begin, at - begin);
      int32_t id = vocabulary.find(word);
      if (id < 0)
        id = unknown;
      if (id < 0)
        throw NoToken("the tokenizer has no token for the word \"{}\", and no "
                      "{} for others",
                      word.substr(0, longestQuote), unknownToken);
      ids.push_back(id);
    }
  }

  void decode(int32_t id, int32_t previous, std::string &bytes) const override {
    if (previous >= 0)
      bytes += ' ';
    if (vocabulary.contains(id))
      bytes += vocabulary.token(id);
  }

  std::string json() const override {
    ordered_json root = emptyTokenizerJson();
    root["pre_tokenizer"] = {{"type", "WhitespaceSplit"}};
    root["model"] = {{"type", "WordLevel"},
                     {"vocab", vocabulary.toJson()},
                     {"unk_token", unknownToken}};
    return root.dump();
  }

private:
  std::string unknownToken;
  int32_t unknown;
};

} // namespace

TokenizerPtr charsTokenizer(Vocabulary vocabulary, const std::string &unknown,
                            const std::string &origin) {
  return std::make_unique<Chars>(std::move(vocabulary), unknown, origin);
}

TokenizerPtr wordsTokenizer(Vocabulary vocabulary, const std::string &unknown) {
  return std::make_unique<Words>(std::move(vocabulary), unknown);
}

TokenizerPtr makeCharsTokenizer(std::string_view characters) {
  Vocabulary vocabulary;
  for (size_t at = 0; at < characters.size();) {
    CodePoint character = decodeUtf8(characters, at);
    vocabulary.add(characters.substr(at, character.bytes));
    at += character.bytes;
  }
  return charsTokenizer(std::move(vocabulary), "<unk>", "the vocabulary");
}

TokenizerPtr makeWordsTokenizer(const NamedText &vocabJson) {
  return wordsTokenizer(Vocabulary::fromText(vocabJson), unknownWord);
}

} // namespace tfm
