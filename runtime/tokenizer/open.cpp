//===- open.cpp - a tokenizer from its files ----------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/recipe.h"
#include "runtime/support/atomic_file.h"
#include "runtime/support/error.h"
#include "runtime/tokenizer/bpe_merges.h"
#include "runtime/tokenizer/gguf_tokenizer.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

using nlohmann::json;

namespace tfm {

namespace {

std::string typeOf(const json &object) {
  if (!object.is_object())
    return "";
  const json &type = member(object, "type");
  return type.is_string() ? type.get<std::string>() : "";
}

/// Whether a byte-level BPE cuts or normalises text in more ways than those
/// that have a tokenizer of their own.
bool isCutInSteps(const json &root) {
  const json &cut = member(root, "pre_tokenizer");
  std::string type = typeOf(cut);
  if (type == "ByteLevel")
    return member(cut, "add_prefix_space") == true;
  if (type != "Sequence" || !member(cut, "pretokenizers").is_array())
    return false;
  const json &steps = cut["pretokenizers"];
  bool hasBytes = std::ranges::any_of(
      steps, [](const json &step) { return typeOf(step) == "ByteLevel"; });
  bool isPlain = steps.size() == 2 && typeOf(steps[0]) == "Split" &&
                 typeOf(steps[1]) == "ByteLevel" &&
                 member(steps[0], "behavior") == "Isolated" &&
                 member(steps[0], "invert") != true &&
                 member(steps[1], "add_prefix_space") != true &&
                 member(steps[1], "use_regex") == false;
  return hasBytes && !isPlain;
}

/// Whether each character is a piece: by the pattern of our runs, of earlier
/// ones, or the one that finds nothing at every place.
bool cutsCharacters(const json &cut) {
  const json &pattern = member(cut, "pattern");
  return typeOf(cut) == "Split" && member(cut, "behavior") == "Isolated" &&
         member(cut, "invert") != true &&
         std::ranges::any_of(std::array{"(?m).", "(?s).", ""},
                             [&](const char *each) {
                               return pattern == json{{"Regex", each}};
                             });
}

/// Of models of words, of characters, and of parts of words that end in `</w>`,
/// those that this project writes are read: anything else that comes before or
/// behind them would be left out.
void requireOwnForm(const json &root, bool isOfCharacters, const char *decoder,
                    const json &normalizer, const std::string &origin) {
  std::string cut = typeOf(member(root, "pre_tokenizer"));
  const char *other =
      member(root, "normalizer") != normalizer    ? "a normalizer"
      : !member(root, "post_processor").is_null() ? "a post_processor"
      : !member(root, "added_tokens").empty()     ? "added_tokens"
      : !cut.empty() && cut != "WhitespaceSplit" && !isOfCharacters
          ? "another pre_tokenizer than WhitespaceSplit, or for characters a "
            "Split at (?m)."
      : typeOf(member(root, "decoder")) != decoder
          ? "another decoder than that of our runs"
          : nullptr;
  if (other)
    throw NotSupported("{}: a model of whole words, of characters, or of parts "
                       "that end in </w>, is not supported with {}",
                       origin, other);
}

/// Whether the words are ids, as a run whose data were ids has them.
bool areIds(const Vocabulary &words) {
  for (int64_t id = 0; id < words.size(); ++id)
    if (words.token(static_cast<int32_t>(id)) != std::to_string(id))
      return false;
  return true;
}

} // namespace

TokenizerPtr parseTokenizerJson(std::string_view text,
                                const std::string &origin) {
  json root = parseJson(text, origin);
  if (!root.is_object() || !member(root, "model").is_object())
    throw InputError("{} is not a tokenizer.json: it has no model", origin);
  const json &model = root["model"];
  std::string type = typeOf(model);
  try {
    if (type == "WordLevel") {
      Vocabulary words = Vocabulary::fromJson(member(model, "vocab"), origin);
      const json &named = member(model, "unk_token");
      std::string unknown =
          named.is_string() ? named.get<std::string>() : unknownWord;
      bool isOfCharacters = cutsCharacters(member(root, "pre_tokenizer"));
      requireOwnForm(root, isOfCharacters, isOfCharacters ? "Fuse" : "",
                     /*normalizer=*/nullptr, origin);
      if (isOfCharacters)
        return charsTokenizer(std::move(words), unknown, origin);
      if (areIds(words))
        return makeIdsTokenizer(words.size());
      return wordsTokenizer(std::move(words), unknown);
    }
    if (type == "WordPiece" || type == "Unigram")
      return pipelineFromJson(root, text, origin);
    if (type != "BPE" && !(type.empty() && model.contains("merges")))
      throw NotSupported("{}: the model type \"{}\" is not supported; BPE, "
                         "WordPiece, Unigram and WordLevel are",
                         origin, type);
    const json ends = endsOfWords();
    bool isMarked = member(root, "normalizer") == ends;
    if (isMarked || member(model, "end_of_word_suffix") == wordEnd) {
      requireOwnForm(root, /*isOfCharacters=*/false, "BPEDecoder",
                     isMarked ? ends : nullptr, origin);
      return wordBpeFromJson(model, origin);
    }
    // Cut into characters, not into bytes.
    const json &cut = member(root, "pre_tokenizer");
    if (member(model, "byte_fallback") == true || typeOf(cut) == "Metaspace" ||
        (cut.is_null() && !member(root, "normalizer").is_null()))
      return charBpeFromJson(root, text, origin);
    if (isCutInSteps(root))
      return pipelineFromJson(root, text, origin);
    return byteBpeFromJson(root, text, origin);
  } catch (const json::exception &) {
    throw InputError("{} is not a tokenizer.json that can be used", origin);
  }
}

TokenizerPtr parseSentencePiece(std::string_view bytes,
                                const std::string &origin) {
  return parseTokenizerJson(sentencePieceJson(bytes, origin), origin);
}

TokenizerPtr openTokenizer(const TokenizerSpec &spec,
                           const std::vector<std::string> &paths) {
  auto file = [&](size_t i) {
    return NamedText{readRegularFile(paths[i], "the tokenizer"), paths[i]};
  };
  auto need = [&](size_t count) {
    if (paths.size() != count)
      throw InputError("the tokenizer {} needs {} file(s), not {}", spec.kind,
                       count, paths.size());
  };
  if (!spec.json.empty())
    return parseTokenizerJson(spec.json, "the model's tokenizer");
  if (spec.kind == "bytes")
    return makeBytesTokenizer();
  if (spec.kind == "gpt2") {
    need(2);
    return makeByteBpeTokenizer(file(0), file(1));
  }
  if (spec.kind == "bpe_words") {
    need(2);
    return makeWordBpeTokenizer(file(0), file(1));
  }
  if (spec.kind == "huggingface") {
    need(1);
    return parseTokenizerJson(file(0).text, paths[0]);
  }
  if (spec.kind == "words") {
    need(1);
    return makeWordsTokenizer(file(0));
  }
  if (spec.kind == "sentencepiece") {
    need(1);
    return parseSentencePiece(file(0).text, paths[0]);
  }
  if (spec.kind == "gguf") {
    need(1);
    return openGgufTokenizer(GgufReader(paths[0]));
  }
  throw InputError("the tokenizer \"{}\" is not supported", spec.kind);
}

int64_t tokenizerSize(const TokenizerSpec &spec,
                      const std::vector<std::string> &paths) {
  if (spec.kind == "gguf" && spec.json.empty() && paths.size() == 1)
    return ggufTokens(GgufReader(paths[0]));
  bool isTable =
      spec.kind == "words" || spec.kind == "gpt2" || spec.kind == "bpe_words";
  if (paths.empty() || !spec.json.empty() ||
      (!isTable && spec.kind != "huggingface"))
    return openTokenizer(spec, paths)->size();
  return vocabularySize(readRegularFile(paths[0], "the tokenizer"), isTable,
                        paths[0]);
}

} // namespace tfm
