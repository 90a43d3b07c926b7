//===- Tokenizers.cpp - the vocabulary while compiling --------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/frontend/Tokenizers.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

#include <set>

using namespace tfm;
using llvm::Expected;
using llvm::StringRef;

static llvm::Error failure(const llvm::Twine &message) {
  return llvm::createStringError(message);
}

/// Bytes of the UTF-8 character that starts with `lead`; 1 for stray bytes.
static size_t characterLength(unsigned char lead) {
  return lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : lead >= 0xC0 ? 2 : 1;
}

std::vector<std::string> tfm::collectAlphabet(StringRef text) {
  // ASCII is counted in a table; the rest, if any, in a set. UTF-8 sorts as
  // its code points do.
  bool ascii[128] = {};
  std::set<std::string> rest;
  for (size_t i = 0; i < text.size();) {
    unsigned char c = text[i];
    if (c < 128) {
      ascii[c] = true;
      ++i;
      continue;
    }
    size_t length = std::min(characterLength(c), text.size() - i);
    rest.insert(text.substr(i, length).str());
    i += length;
  }
  std::vector<std::string> alphabet;
  for (unsigned c = 0; c < 128; ++c)
    if (ascii[c])
      alphabet.push_back(std::string(1, static_cast<char>(c)));
  alphabet.insert(alphabet.end(), rest.begin(), rest.end());
  return alphabet;
}

Expected<std::vector<std::string>> tfm::orderedAlphabet(StringRef text) {
  std::vector<std::string> alphabet;
  for (size_t i = 0; i < text.size();) {
    size_t length = std::min(characterLength(text[i]), text.size() - i);
    std::string character = text.substr(i, length).str();
    if (llvm::is_contained(alphabet, character))
      return failure("`" + character + "` occurs twice");
    alphabet.push_back(character);
    i += length;
  }
  if (alphabet.empty())
    return failure("the alphabet is empty");
  return alphabet;
}

Expected<int64_t> tfm::countVocabulary(StringRef json) {
  size_t i = 0, n = json.size();
  auto skipSpace = [&] {
    while (i < n && llvm::isSpace(json[i]))
      ++i;
  };
  skipSpace();
  if (i >= n || json[i] != '{')
    return failure("it is no JSON object of tokens and ids");
  ++i;
  int64_t count = 0;
  for (;;) {
    skipSpace();
    if (i < n && json[i] == '}' && count == 0)
      return failure("it holds no tokens");
    if (i >= n || json[i] != '"')
      return failure("a token is missing after entry " + llvm::Twine(count));
    for (++i; i < n && json[i] != '"'; ++i)
      if (json[i] == '\\')
        ++i;
    ++i;
    skipSpace();
    if (i >= n || json[i] != ':')
      return failure("an id is missing after entry " + llvm::Twine(count));
    ++i;
    skipSpace();
    size_t digits = i;
    while (i < n && llvm::isDigit(json[i]))
      ++i;
    if (i == digits)
      return failure("the id of entry " + llvm::Twine(count) + " is no number");
    ++count;
    skipSpace();
    if (i < n && json[i] == ',') {
      ++i;
      continue;
    }
    if (i < n && json[i] == '}')
      return count;
    return failure("it ends in the middle");
  }
}

Expected<int64_t> tfm::countHuggingFace(StringRef json) {
  Expected<llvm::json::Value> value = llvm::json::parse(json);
  if (!value)
    return value.takeError();
  const llvm::json::Object *top = value->getAsObject();
  const llvm::json::Object *model = top ? top->getObject("model") : nullptr;
  if (!model)
    return failure("it has no `model`");
  int64_t highest = -1;
  if (const llvm::json::Object *vocab = model->getObject("vocab")) {
    for (const auto &[token, id] : *vocab)
      highest = std::max(highest, id.getAsInteger().value_or(-1));
  } else if (const llvm::json::Array *pieces = model->getArray("vocab")) {
    highest = static_cast<int64_t>(pieces->size()) - 1;
  } else {
    return failure("its model has no `vocab`");
  }
  if (const llvm::json::Array *added = top->getArray("added_tokens"))
    for (const llvm::json::Value &token : *added)
      if (const llvm::json::Object *object = token.getAsObject())
        highest = std::max(highest, object->getInteger("id").value_or(-1));
  if (highest < 0)
    return failure("its vocabulary is empty");
  return highest + 1;
}

Expected<int64_t> tfm::countSentencePiece(StringRef model) {
  // ModelProto: field 1, length-delimited, once for each piece.
  size_t i = 0;
  int64_t pieces = 0;
  auto varint = [&]() -> std::optional<uint64_t> {
    uint64_t value = 0;
    for (unsigned shift = 0; i < model.size() && shift < 64; shift += 7) {
      unsigned char byte = model[i++];
      value |= uint64_t(byte & 0x7F) << shift;
      if (!(byte & 0x80))
        return value;
    }
    return std::nullopt;
  };
  while (i < model.size()) {
    std::optional<uint64_t> tag = varint();
    if (!tag)
      return failure("it is no SentencePiece model");
    std::optional<uint64_t> length;
    switch (*tag & 7) {
    case 0:
      length = varint() ? std::optional<uint64_t>(0) : std::nullopt;
      break;
    case 1:
      length = 8;
      break;
    case 2:
      length = varint();
      break;
    case 5:
      length = 4;
      break;
    default:
      break;
    }
    if (!length || *length > model.size() - i)
      return failure("it is no SentencePiece model");
    i += *length;
    if (*tag == ((1 << 3) | 2))
      ++pieces;
  }
  if (pieces == 0)
    return failure("it holds no pieces");
  return pieces;
}

std::string tfm::charsTokenizerJson(llvm::ArrayRef<std::string> alphabet) {
  llvm::json::Object vocab;
  for (auto [id, character] : llvm::enumerate(alphabet))
    vocab[character] = static_cast<int64_t>(id);
  llvm::json::Object tokenizer{
      {"version", "1.0"},
      {"truncation", nullptr},
      {"padding", nullptr},
      {"added_tokens", llvm::json::Array()},
      {"normalizer", nullptr},
      {"pre_tokenizer",
       llvm::json::Object{{"type", "Split"},
                          {"pattern", llvm::json::Object{{"Regex", "(?s)."}}},
                          {"behavior", "Isolated"},
                          {"invert", false}}},
      {"post_processor", nullptr},
      {"decoder", llvm::json::Object{{"type", "Fuse"}}},
      {"model", llvm::json::Object{{"type", "WordLevel"},
                                   {"vocab", std::move(vocab)},
                                   {"unk_token", "<unk>"}}}};
  std::string text;
  llvm::raw_string_ostream(text) << llvm::json::Value(std::move(tokenizer));
  return text;
}
