//===- vocabulary.cpp - what the tokenizers share -----------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/tokenizer/vocabulary.h"

#include "runtime/error.h"
#include "runtime/tokenizer/utf8.h"

#include <algorithm>
#include <nlohmann/json.hpp>

using nlohmann::json;
using nlohmann::ordered_json;

namespace tfm {

int32_t Vocabulary::add(std::string_view token) {
  auto [place, isNew] =
      ids.try_emplace(std::string(token), static_cast<int32_t>(tokens.size()));
  if (isNew)
    tokens.emplace_back(token);
  return place->second;
}

int32_t Vocabulary::find(std::string_view token) const {
  auto found = ids.find(token);
  return found == ids.end() ? -1 : found->second;
}

void failTooLarge(const std::string &token, const std::string &origin) {
  throw InputError(origin + ": the id of " + token + " is too large");
}

void failNoNumber(const std::string &token, const std::string &origin) {
  throw InputError(origin + ": the id of " + token +
                   " is not a whole number of at least 0");
}

void Vocabulary::set(const std::string &token, uint64_t id,
                     const std::string &origin) {
  if (id >= idLimit)
    failTooLarge("the token \"" + token + "\"", origin);
  if (id >= tokens.size())
    tokens.resize(id + 1);
  int32_t before = find(token);
  if ((before >= 0 && before != static_cast<int32_t>(id)) ||
      (before < 0 && !tokens[id].empty()))
    throw InputError(origin + ": the token \"" + token + "\" and the id " +
                     std::to_string(id) + " are given twice");
  tokens[id] = token;
  ids[token] = static_cast<int32_t>(id);
}

Vocabulary Vocabulary::fromJson(const json &object, const std::string &origin) {
  if (!object.is_object() || object.empty())
    throw InputError(origin + ": the vocabulary is not a table of token to id");
  Vocabulary vocabulary;
  for (const auto &[token, id] : object.items()) {
    if (!id.is_number_unsigned())
      failNoNumber("the token \"" + token + "\"", origin);
    vocabulary.set(token, id.get<uint64_t>(), origin);
  }
  return vocabulary;
}

Vocabulary Vocabulary::fromText(const NamedText &file) {
  return fromJson(parseJson(file.text, file.origin), file.origin);
}

ordered_json Vocabulary::toJson() const {
  ordered_json object = ordered_json::object();
  auto &members = object.get_ref<ordered_json::object_t &>();
  members.reserve(tokens.size());
  // Straight into the ordered map's vector: looking for duplicates would be
  // quadratic, and there are none.
  for (size_t i = 0; i < tokens.size(); ++i)
    if (find(tokens[i]) == static_cast<int32_t>(i))
      members.emplace_back(tokens[i], i);
  return object;
}

MergeList parseMerges(const NamedText &file) {
  std::string_view text = file.text;
  MergeList merges;
  size_t line = 0;
  while (!text.empty()) {
    ++line;
    size_t end = std::min(text.find('\n'), text.size());
    std::string_view row = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (!row.empty() && row.back() == '\r')
      row.remove_suffix(1);
    if (row.empty() || (line == 1 && row.starts_with("#version")))
      continue;
    size_t space = row.find(' ');
    if (space == std::string_view::npos || space == 0 ||
        space + 1 == row.size() ||
        row.find(' ', space + 1) != std::string_view::npos)
      throw InputError(file.origin + ":" + std::to_string(line) +
                       ": a merge is two tokens with one space between them");
    if (!isUtf8(row)) // could not be written as JSON
      throw InputError(file.origin + ":" + std::to_string(line) +
                       ": not UTF-8 text");
    merges.emplace_back(row.substr(0, space), row.substr(space + 1));
  }
  return merges;
}

json parseJson(std::string_view text, const std::string &origin) {
  json value = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (value.is_discarded())
    throw InputError(origin + " is not valid JSON");
  return value;
}

ordered_json emptyTokenizerJson() {
  return {{"version", "1.0"},
          {"truncation", nullptr},
          {"padding", nullptr},
          {"added_tokens", json::array()},
          {"normalizer", nullptr},
          {"pre_tokenizer", nullptr},
          {"post_processor", nullptr},
          {"decoder", nullptr},
          {"model",
           {{"type", "BPE"},
            {"dropout", nullptr},
            {"unk_token", nullptr},
            {"continuing_subword_prefix", nullptr},
            {"end_of_word_suffix", nullptr},
            {"fuse_unk", false},
            {"byte_fallback", false},
            {"vocab", json::object()},
            {"merges", json::array()}}}};
}

ordered_json addedToken(uint64_t id, const std::string &content,
                        bool isSpecial) {
  return {{"id", id},
          {"content", content},
          {"single_word", false},
          {"lstrip", false},
          {"rstrip", false},
          {"normalized", false},
          {"special", isSpecial}};
}

std::optional<int32_t> Tokenizer::findText(std::string_view text) const {
  if (std::optional<int32_t> id = find(text))
    return id;
  try {
    std::vector<int32_t> encoded = ids(text);
    return encoded.size() == 1 ? std::optional(encoded[0]) : std::nullopt;
  } catch (const InputError &) {
    return std::nullopt; // it has characters that the vocabulary lacks
  }
}

std::string Tokenizer::text(const std::vector<int32_t> &ids) const {
  std::string bytes;
  for (size_t i = 0; i < ids.size(); ++i)
    decode(ids[i], i == 0 ? -1 : ids[i - 1], bytes);
  return replaceInvalidUtf8(bytes);
}

} // namespace tfm
