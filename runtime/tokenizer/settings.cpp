//===- settings.cpp - what a folder says beside its tokenizer's files ---===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/support/atomic_file.h"
#include "runtime/support/error.h"
#include "runtime/support/read_json.h"
#include "runtime/tokenizer/vocabulary.h"

#include <algorithm>
#include <charconv>
#include <fmt/format.h>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

using nlohmann::json;

namespace tfm {

namespace {

/// A token that a folder names, as text or with how it is found in a text.
json addedTokenOf(const json &token, int64_t id) {
  json added = {
      {"id", id},        {"content", token},    {"lstrip", false},
      {"rstrip", false}, {"normalized", false}, {"single_word", false}};
  if (token.is_object())
    added.update(token);
  return added;
}

/// The tokens that a folder names beside its files, by their ids.
std::map<int64_t, json> addedBeside(const json &settings,
                                    const std::string &folder) {
  std::map<int64_t, json> added;
  json more =
      objectIn(folder + "/added_tokens.json", "the tokenizer's settings");
  for (const auto &[text, id] : more.items())
    if (id.is_number_unsigned())
      added[id.get<int64_t>()] = addedTokenOf(text, id.get<int64_t>());
  if (json told = settings.value("added_tokens_decoder", json());
      told.is_object())
    for (const auto &[key, token] : told.items()) {
      int64_t id = -1;
      std::from_chars(key.data(), key.data() + key.size(), id);
      if (id >= 0 && token.is_object())
        added[id] = addedTokenOf(token, id);
    }
  return added;
}

} // namespace

TokenizerPtr asFolderSays(const std::string &folder, bool isGpt2,
                          const Tokenizer &tokenizer) {
  json settings =
      objectIn(folder + "/tokenizer_config.json", "the tokenizer's settings");
  auto refuse = [&](const std::string &what) {
    throw NotSupported(
        "{0} has no tokenizer.json, and its other files do not say all of the "
        "tokenizer: {1}. transformers writes one, with "
        "`AutoTokenizer.from_pretrained(\"{0}\").save_pretrained(\"{0}\")`",
        folder, what);
  };
  if (isGpt2) {
    const std::set<json> own = {json(), "GPT2Tokenizer", "GPT2TokenizerFast"};
    if (json its = settings.value("tokenizer_class", json());
        !own.contains(its))
      refuse(fmt::format("tokenizer_class is {}", its.dump()));
    if (settings.value("add_prefix_space", json()) == true)
      refuse("add_prefix_space is true");
  }
  std::map<int64_t, json> added = addedBeside(settings, folder);
  std::optional<int32_t> begin;
  if (isGpt2 && settings.value("add_bos_token", json()) == true) {
    // What begins a text, and what is named with it, is found in texts, too.
    for (const char *name :
         {"bos_token", "eos_token", "unk_token", "pad_token"}) {
      json token = settings.value(name, json());
      if (token.is_object())
        token = token.value("content", json());
      std::optional<int32_t> id = token.is_string()
                                      ? tokenizer.find(token.get<std::string>())
                                      : std::nullopt;
      if (!id)
        continue;
      added.try_emplace(*id, addedTokenOf(token, *id));
      if (!begin)
        begin = id;
    }
  }
  json root = json::parse(tokenizer.json());
  json &listed = root["added_tokens"];
  size_t before = listed.size();
  std::set<json> known;
  for (const json &token : listed)
    known.insert(token.value("content", json()));
  for (auto &[id, token] : added)
    if (known.insert(token["content"]).second)
      listed.push_back(std::move(token));
  if (begin) {
    root["post_processor"] = beginWith(static_cast<uint64_t>(*begin), "begin");
  }
  return begin || listed.size() != before
             ? parseTokenizerJson(root.dump(), folder)
             : nullptr;
}

} // namespace tfm
