//===- vocabulary.cpp - what the tokenizers share -----------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/tokenizer/vocabulary.h"

#include "runtime/support/error.h"
#include "runtime/support/read_json.h"
#include "runtime/support/utf8.h"
#include "runtime/tokenizer/plain_table.h"

#include <algorithm>
#include <array>
#include <bit>
#include <nlohmann/json.hpp>

using nlohmann::json;
using nlohmann::ordered_json;

namespace tfm {

/// A table of so many slots is probed in a few steps for `count` entries: at
/// most four fifths are taken.
static size_t slotsFor(size_t count) {
  return std::bit_ceil(count + count / 4 + 2);
}

static uint32_t halfOf(size_t hash) {
  return static_cast<uint32_t>(hash >> 32);
}

void Vocabulary::insert(size_t hash, int32_t id) {
  size_t at = hash & (slots.size() - 1);
  while (slots[at].id >= 0)
    at = (at + 1) & (slots.size() - 1);
  slots[at] = {halfOf(hash), id};
}

bool Vocabulary::index(size_t count) {
  slots.assign(slotsFor(count), Slot());
  std::array<size_t, batch> hashes;
  for (size_t begin = 0; begin < tokens.size(); begin += batch) {
    size_t end = std::min(begin + batch, tokens.size());
    for (size_t id = begin; id < end; ++id) {
      hashes[id - begin] = StringHash()(token(static_cast<int32_t>(id)));
      __builtin_prefetch(&slots[hashes[id - begin] & (slots.size() - 1)], 1);
    }
    for (size_t id = begin; id < end; ++id) {
      if (!isUsed(id))
        continue;
      if (find(token(static_cast<int32_t>(id)), hashes[id - begin]) >= 0)
        return false;
      insert(hashes[id - begin], static_cast<int32_t>(id));
    }
  }
  return true;
}

void Vocabulary::place(size_t begin, size_t id) {
  if (texts.size() >= unused)
    throw InputError("a vocabulary of more than 4 GiB");
  if (id == tokens.size())
    tokens.emplace_back();
  else if (id > tokens.size())
    tokens.resize(id + 1);
  tokens[id] = {static_cast<uint32_t>(begin),
                static_cast<uint32_t>(texts.size() - begin)};
  ++used;
}

void Vocabulary::put(std::string_view token, size_t id) {
  size_t begin = texts.size();
  texts += token;
  place(begin, id);
  // Twice what is needed: the table is made anew seldom.
  if (slotsFor(used) > slots.size())
    index(2 * used);
  else
    insert(StringHash()(token), static_cast<int32_t>(id));
}

int32_t Vocabulary::add(std::string_view token) {
  int32_t known = find(token);
  if (known < 0)
    put(token, tokens.size());
  return known < 0 ? static_cast<int32_t>(tokens.size()) - 1 : known;
}

int32_t Vocabulary::find(std::string_view token, size_t hash) const {
  for (size_t at = hash & (slots.size() - 1); slots[at].id >= 0;
       at = (at + 1) & (slots.size() - 1))
    if (slots[at].hash == halfOf(hash) && this->token(slots[at].id) == token)
      return slots[at].id;
  return -1;
}

int32_t Vocabulary::find(std::string_view token) const {
  return slots.empty() ? -1 : find(token, StringHash()(token));
}

void Vocabulary::find(std::span<const std::string_view> wanted,
                      int32_t *ids) const {
  if (slots.empty()) {
    std::fill_n(ids, wanted.size(), -1);
    return;
  }
  std::array<size_t, batch> hashes;
  for (size_t i = 0; i < wanted.size(); ++i) {
    hashes[i] = StringHash()(wanted[i]);
    __builtin_prefetch(&slots[hashes[i] & (slots.size() - 1)]);
  }
  // Where the hashes are the same, the texts are: it is there in most cases.
  for (size_t i = 0; i < wanted.size(); ++i) {
    const Slot &slot = slots[hashes[i] & (slots.size() - 1)];
    ids[i] = slot.hash == halfOf(hashes[i]) ? slot.id : -1;
    if (ids[i] >= 0)
      __builtin_prefetch(&tokens[static_cast<size_t>(ids[i])]);
  }
  for (size_t i = 0; i < wanted.size(); ++i)
    if (ids[i] >= 0)
      __builtin_prefetch(token(ids[i]).data());
  for (size_t i = 0; i < wanted.size(); ++i)
    if (ids[i] < 0 || token(ids[i]) != wanted[i])
      ids[i] = find(wanted[i], hashes[i]);
}

void failTooLarge(const std::string &token, const std::string &origin) {
  throw InputError("{}: the id of {} is too large", origin, token);
}

void failNoNumber(const std::string &token, const std::string &origin) {
  throw InputError("{}: the id of {} is not a whole number of at least 0",
                   origin, token);
}

void Vocabulary::set(std::string_view token, uint64_t id,
                     const std::string &origin) {
  auto name = [&] { return "the token \"" + std::string(token) + "\""; };
  if (id >= idLimit)
    failTooLarge(name(), origin);
  int32_t before = find(token);
  if (before == static_cast<int32_t>(id))
    return;
  if (before >= 0 || isUsed(id))
    throw InputError("{}: {} and the id {} are given twice", origin, name(),
                     id);
  put(token, id);
}

Vocabulary Vocabulary::fromJson(const json &object, const std::string &origin) {
  if (!object.is_object() || object.empty())
    throw InputError("{}: the vocabulary is not a table of token to id",
                     origin);
  Vocabulary vocabulary;
  for (const auto &[token, id] : object.items()) {
    if (!id.is_number_unsigned())
      failNoNumber("the token \"" + token + "\"", origin);
    vocabulary.set(token, id.get<uint64_t>(), origin);
  }
  return vocabulary;
}

std::optional<Vocabulary> Vocabulary::fromPlainTable(std::string_view text) {
  Vocabulary vocabulary;
  vocabulary.tokens.reserve(text.size() / 16); // a guess: `"token": 12345, `
  vocabulary.texts.reserve(text.size() / 2);
  auto isNew = [&](std::string_view spelt, uint64_t id) {
    size_t begin = vocabulary.texts.size();
    if (vocabulary.isUsed(id) || !unescape(spelt, vocabulary.texts))
      return false;
    vocabulary.place(begin, id);
    return true;
  };
  if (!readPlainTable(text, isNew) || !vocabulary.index(vocabulary.used))
    return std::nullopt;
  return vocabulary;
}

Vocabulary Vocabulary::fromText(const NamedText &file) {
  if (std::optional<Vocabulary> plain = fromPlainTable(file.text))
    return std::move(*plain);
  return fromJson(parseJson(file.text, file.origin), file.origin);
}

ordered_json Vocabulary::toJson() const {
  ordered_json object = ordered_json::object();
  auto &members = object.get_ref<ordered_json::object_t &>();
  members.reserve(tokens.size());
  // Straight into the ordered map's vector: looking for duplicates would be
  // quadratic, and there are none.
  for (size_t i = 0; i < tokens.size(); ++i)
    if (isUsed(i))
      members.emplace_back(token(static_cast<int32_t>(i)), i);
  return object;
}

std::optional<int32_t> VocabularyTokenizer::find(std::string_view token) const {
  int32_t id = vocabulary.find(token);
  return id < 0 ? std::nullopt : std::optional(id);
}

MergeList parseMerges(const NamedText &file) {
  std::string_view text = file.text;
  MergeList merges;
  merges.reserve(text.size() / 8);
  bool isText = isUtf8(text); // what is not could not be written as JSON
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
      throw InputError(
          "{}:{}: a merge is two tokens with one space between them",
          file.origin, line);
    if (!isText && !isUtf8(row))
      throw InputError("{}:{}: not UTF-8 text", file.origin, line);
    merges.emplace_back(row.substr(0, space), row.substr(space + 1));
  }
  return merges;
}

json parseJson(std::string_view text, const std::string &origin) {
  json value = jsonOf(text);
  if (value.is_discarded())
    refuseJson(origin, text);
  return value;
}

const json &member(const json &object, const char *name) {
  static const json none;
  auto found = object.find(name);
  return found == object.end() ? none : *found;
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

ordered_json beginWith(uint64_t id, const std::string &token) {
  ordered_json first = {{"SpecialToken", {{"id", token}, {"type_id", 0}}}};
  ordered_json text = {{"Sequence", {{"id", "A"}, {"type_id", 0}}}};
  ordered_json both = ordered_json::array({first, text});
  return {{"type", "TemplateProcessing"},
          {"single", both},
          {"pair", both},
          {"special_tokens",
           {{token,
             {{"id", token},
              {"ids", json::array({id})},
              {"tokens", json::array({token})}}}}}};
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
