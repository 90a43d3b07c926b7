//===- gguf_tokenizer.cpp - the tokenizer within a gguf file ------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

// The keys are those of
// https://github.com/ggml-org/ggml/blob/master/docs/gguf.md below `tokenizer.`.
// What they leave out, such as the expression by which a text is cut, is known
// by a name in `tokenizer.ggml.pre`.
//
//===----------------------------------------------------------------------===//

#include "runtime/tokenizer/gguf_tokenizer.h"

#include "runtime/support/error.h"
#include "runtime/tokenizer/sentencepiece.h"
#include "runtime/tokenizer/vocabulary.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <set>
#include <span>

using nlohmann::json;
using nlohmann::ordered_json;

namespace tfm {

namespace {

constexpr const char *tokensKey = "tokenizer.ggml.tokens";

/// A way to cut a text before byte-level BPE. The expressions apply one after
/// the other, and what they match stands alone; `gpt2` is the one that
/// `ByteLevel` has.
struct Cut {
  std::vector<std::string_view> names;
  std::vector<std::string_view> expressions = {};
  bool isGpt2 = false;
  bool composes = false;         ///< to NFC, before it
  bool takesWholePieces = false; ///< `ignore_merges`
  bool begins = false;           ///< where `add_bos_token` is absent
};

#define TFM_ENDINGS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define TFM_REST                                                               \
  "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define TFM_CASES(endings, digits)                                             \
  "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*"                \
  "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+" endings                                     \
  "|[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+"               \
  "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*" endings "|" digits                          \
  "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

/// As the tokenizer.json of these models have them.
const std::vector<Cut> &cuts() {
  static constexpr std::string_view upToThreeDigits =
      TFM_ENDINGS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}" TFM_REST;
  static constexpr std::string_view oneDigit =
      TFM_ENDINGS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}" TFM_REST;
  static const std::vector<Cut> all = {
      {.names = {"gpt-2", "phi-2", "olmo", "mpt", "jais", "trillion",
                 "roberta-bpe", "exaone4"},
       .isGpt2 = true},
      {.names = {"smollm", "starcoder", "refact", "command-r", "codeshell",
                 "exaone", "minerva-7b"},
       .expressions = {"\\p{N}"},
       .isGpt2 = true},
      {.names = {"llama-bpe", "llama3", "llama-v3", "falcon3", "lfm2"},
       .expressions = {upToThreeDigits},
       .takesWholePieces = true,
       .begins = true},
      {.names = {"dbrx", "smaug-bpe", "chatglm-bpe"},
       .expressions = {upToThreeDigits}},
      {.names = {"qwen2", "deepseek-r1-qwen", "megrez"},
       .expressions = {oneDigit},
       .composes = true},
      {.names = {"stablelm2", "hunyuan"}, .expressions = {oneDigit}},
      {.names = {"tekken"},
       .expressions = {TFM_CASES("", "\\p{N}")},
       .takesWholePieces = true,
       .begins = true},
      {.names = {"gpt-4o", "llama4"},
       .expressions = {TFM_CASES(TFM_ENDINGS "?", "\\p{N}{1,3}")}},
  };
  return all;
}

#undef TFM_ENDINGS
#undef TFM_REST
#undef TFM_CASES

/// The types of tokens that a text may spell out as a whole.
bool isAdded(int64_t type) {
  return type == SentencePieceModel::Piece::Control ||
         type == SentencePieceModel::Piece::UserDefined;
}

class Tokens {
public:
  explicit Tokens(const GgufReader &file) : file(file) {
    texts = requireList(tokensKey);
    if (texts.size() >= idLimit)
      fail(fmt::format("{} has {} tokens", tokensKey, texts.size()));
    if (std::ranges::any_of(texts,
                            [](const json &text) { return !text.is_string(); }))
      fail(fmt::format("{} has what is no text", tokensKey));
    types = file.list("tokenizer.ggml.token_type");
  }

  [[noreturn]] void fail(const std::string &what) const {
    throw InputError("{}: {}, so its tokenizer cannot be read: name another "
                     "one with --tokenizer",
                     file.path(), what);
  }

  /// As long as that of the tokens, where `isEach`.
  json requireList(const char *key, bool isEach = false) const {
    json list = file.list(key);
    if (!list.is_array() || (isEach && list.size() != texts.size()))
      fail(list.is_array() ? fmt::format("{} has {} entries for {} tokens", key,
                                         list.size(), texts.size())
                           : fmt::format("it has no list {}", key));
    return list;
  }

  int64_t typeOf(size_t id) const {
    return types.is_array() && id < types.size() &&
                   types[id].is_number_integer()
               ? types[id].get<int64_t>()
               : SentencePieceModel::Piece::Normal;
  }
  const std::string &text(size_t id) const {
    return texts[id].get_ref<const std::string &>();
  }
  size_t size() const { return texts.size(); }

private:
  const GgufReader &file;
  json texts, types;
};

json valueOf(const GgufReader &file, const std::string &key) {
  return file.metadata().value("tokenizer." + key, json());
}

bool flagOf(const GgufReader &file, const char *key, bool otherwise) {
  json value = valueOf(file, key);
  return value.is_boolean() ? value.get<bool>() : otherwise;
}

/// The token that begins, ends, ... a text, or nothing.
std::optional<int32_t> tokenOf(const GgufReader &file, const std::string &what,
                               int64_t count) {
  json id = valueOf(file, "ggml." + what + "_token_id");
  if (!id.is_number_integer() || id.get<int64_t>() < 0 ||
      id.get<int64_t>() >= count)
    return std::nullopt;
  return id.get<int32_t>();
}

/// The tokenizer.json that stands for it.
std::string sentencePieces(const GgufReader &file, const Tokens &tokens) {
  SentencePieceModel model;
  model.type = SentencePieceModel::Bpe;
  model.removesSpaces = false;
  model.addsPrefix = flagOf(file, "ggml.add_space_prefix", true);
  json scores = tokens.requireList("tokenizer.ggml.scores", /*isEach=*/true);
  for (size_t id = 0; id < tokens.size(); ++id) {
    // What is no number could not be sorted by.
    if (!scores[id].is_number() || std::isnan(scores[id].get<float>()))
      tokens.fail(fmt::format("the score of token {} is no number", id));
    model.pieces.push_back({tokens.text(id), scores[id].get<float>(),
                            static_cast<uint64_t>(tokens.typeOf(id))});
    model.hasBytes |= tokens.typeOf(id) == SentencePieceModel::Piece::Byte;
  }
  auto count = static_cast<int64_t>(tokens.size());
  // Where it is absent it is that of Llama.
  auto begin = valueOf(file, "ggml.bos_token_id").is_null()
                   ? std::optional<int32_t>(1)
                   : tokenOf(file, "bos", count);
  model.beginId = begin && flagOf(file, "ggml.add_bos_token", true)
                      ? static_cast<uint64_t>(*begin)
                      : tokens.size();
  return sentencePieceJson(model, file.path());
}

/// Likewise.
std::string byteBpe(const GgufReader &file, const Tokens &tokens) {
  json name = valueOf(file, "ggml.pre");
  auto cut = std::ranges::find_if(cuts(), [&](const Cut &each) {
    return name.is_string() &&
           std::ranges::count(each.names, name.get_ref<const std::string &>()) >
               0;
  });
  if (cut == cuts().end())
    throw NotSupported(
        "{}: its tokenizer.ggml.pre is {}, and how that cuts a text is not "
        "known here",
        file.path(),
        name.is_null()
            ? "absent"
            : name.dump(-1, ' ', false, json::error_handler_t::replace));
  ordered_json root = emptyTokenizerJson();
  Vocabulary vocabulary;
  for (size_t id = 0; id < tokens.size(); ++id) {
    vocabulary.set(tokens.text(id), id, file.path());
    if (isAdded(tokens.typeOf(id)))
      root["added_tokens"].push_back(
          addedToken(id, tokens.text(id),
                     /*isSpecial=*/tokens.typeOf(id) ==
                         SentencePieceModel::Piece::Control));
  }
  ordered_json &model = root["model"];
  model["vocab"] = vocabulary.toJson();
  model["merges"] = tokens.requireList("tokenizer.ggml.merges");
  model["ignore_merges"] = cut->takesWholePieces;
  if (cut->composes)
    root["normalizer"] = {{"type", "NFC"}};
  json steps = json::array();
  for (std::string_view expression : cut->expressions)
    steps.push_back({{"type", "Split"},
                     {"pattern", {{"Regex", expression}}},
                     {"behavior", "Isolated"},
                     {"invert", false}});
  steps.push_back({{"type", "ByteLevel"},
                   {"add_prefix_space", false},
                   {"trim_offsets", true},
                   {"use_regex", cut->isGpt2}});
  root["pre_tokenizer"] =
      steps.size() == 1
          ? steps[0]
          : json({{"type", "Sequence"}, {"pretokenizers", steps}});
  root["decoder"] = {{"type", "ByteLevel"},
                     {"add_prefix_space", false},
                     {"trim_offsets", true},
                     {"use_regex", false}};
  auto begin = tokenOf(file, "bos", static_cast<int64_t>(tokens.size()));
  if (begin && flagOf(file, "ggml.add_bos_token", cut->begins))
    root["post_processor"] =
        beginWith(static_cast<uint64_t>(*begin),
                  tokens.text(static_cast<size_t>(*begin)));
  return root.dump(-1, ' ', false, json::error_handler_t::replace);
}

} // namespace

bool hasTokenizer(const GgufReader &file) {
  return file.metadata().contains(tokensKey);
}

int64_t ggufTokens(const GgufReader &file) {
  return static_cast<int64_t>(Tokens(file).size());
}

TokenizerPtr openGgufTokenizer(const GgufReader &file) {
  json kind = valueOf(file, "ggml.model");
  if (kind == "llama")
    return parseTokenizerJson(sentencePieces(file, Tokens(file)), file.path());
  if (kind == "gpt2")
    return parseTokenizerJson(byteBpe(file, Tokens(file)), file.path());
  throw NotSupported(
      "{}: its tokenizer.ggml.model is {}; \"llama\" and \"gpt2\" are read",
      file.path(), kind.dump(-1, ' ', false, json::error_handler_t::replace));
}

ordered_json ggufTokenizerConfig(const GgufReader &file) {
  ordered_json config = ordered_json::object();
  if (json text = valueOf(file, "chat_template"); text.is_string())
    config["chat_template"] = text.get<std::string>();
  if (!hasTokenizer(file))
    return config;
  Tokens tokens(file);
  for (const auto &[key, name] :
       {std::pair("bos", "bos_token"), std::pair("eos", "eos_token"),
        std::pair("unknown", "unk_token"), std::pair("padding", "pad_token")})
    if (auto id = tokenOf(file, key, static_cast<int64_t>(tokens.size())))
      config[name] = tokens.text(static_cast<size_t>(*id));
  return config;
}

std::vector<int32_t> ggufEndTokens(const GgufReader &file) {
  std::set<int32_t> ids;
  for (const char *what : {"eos", "eot", "eom"})
    if (auto id = tokenOf(file, what, idLimit))
      ids.insert(*id);
  if (ids.empty() && valueOf(file, "ggml.model") == "llama")
    ids.insert(2); // Llama's, where the file says nothing
  constexpr std::array<std::string_view, 7> names = {
      "<|eot_id|>",    "<|eom_id|>",    "<|im_end|>",     "<|end|>",
      "<end_of_turn>", "<|endoftext|>", "<|end_of_text|>"};
  try {
    Tokens tokens(file);
    for (size_t id = 0; id < tokens.size(); ++id)
      if (isAdded(tokens.typeOf(id)) &&
          std::ranges::count(names, tokens.text(id)) > 0)
        ids.insert(static_cast<int32_t>(id));
  } catch (const InputError &) {
    // Whoever wants the tokens says so: the user may have named others.
  }
  return {ids.begin(), ids.end()};
}

} // namespace tfm
