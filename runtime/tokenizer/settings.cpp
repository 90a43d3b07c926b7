//===- settings.cpp - what a folder says beside its tokenizer's files ---===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/error.h"
#include "runtime/files/atomic_file.h"
#include "runtime/files/read_json.h"
#include "runtime/tokenizer/tokenizer.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <set>

using nlohmann::json;

namespace tfm {

namespace {

/// A JSON object, empty where the file is none.
json readObject(const std::string &path) {
  if (!fileExists(path))
    return json::object();
  std::string text = readRegularFile(path, "the tokenizer's settings");
  json root = isNestedDeeply(text)
                  ? json()
                  : json::parse(text, nullptr, /*allow_exceptions=*/false);
  return root.is_object() ? root : json::object();
}

/// What transformers does that the files do not say; empty where nothing.
std::string beyondFiles(const std::string &folder, bool isGpt2,
                        const Tokenizer &tokenizer) {
  json settings = readObject(folder + "/tokenizer_config.json");
  if (isGpt2) {
    const std::set<json> own = {json(), "GPT2Tokenizer", "GPT2TokenizerFast"};
    if (json its = settings.value("tokenizer_class", json());
        !own.contains(its))
      return fmt::format("tokenizer_class is {}", its.dump());
    for (const char *name : {"add_bos_token", "add_prefix_space"})
      if (settings.value(name, json()) == true)
        return fmt::format("{} is true", name);
  }
  auto lacks = [&](const json &token) {
    return token.is_string() && !tokenizer.find(token.get<std::string>());
  };
  if (json added = settings.value("added_tokens_decoder", json());
      added.is_object())
    for (const json &token : added)
      if (token.is_object() && lacks(token.value("content", json())))
        return "there is an added token " + token["content"].dump();
  json more = readObject(folder + "/added_tokens.json");
  for (const auto &[token, id] : more.items())
    if (lacks(token))
      return "there is an added token " + json(token).dump();
  return {};
}

} // namespace

void requireAllInFiles(const std::string &folder, bool isGpt2,
                       const Tokenizer &tokenizer) {
  std::string what = beyondFiles(folder, isGpt2, tokenizer);
  if (!what.empty())
    throw NotSupported(fmt::format(
        "{0} has no tokenizer.json, and its other files do not say all of the "
        "tokenizer: {1}. transformers writes one, with "
        "`AutoTokenizer.from_pretrained(\"{0}\").save_pretrained(\"{0}\")`",
        folder, what));
}

} // namespace tfm
