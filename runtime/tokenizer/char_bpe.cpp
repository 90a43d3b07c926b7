//===- char_bpe.cpp - byte-pair encoding of characters ------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

// SentencePiece's BPE (Kudo and Richardson 2018) in the form that Hugging Face
// gives it in the tokenizer.json of Llama, Mistral and Gemma: spaces become a
// visible character (U+2581), the first tokens are characters, and a character
// that the vocabulary lacks becomes its bytes, `<0xE2>`.
//
//===----------------------------------------------------------------------===//

#include "runtime/support/error.h"
#include "runtime/support/utf8.h"
#include "runtime/tokenizer/bpe_merges.h"
#include "runtime/tokenizer/steps.h"
#include "runtime/tokenizer/token_decoder.h"

#include <algorithm>
#include <nlohmann/json.hpp>

using nlohmann::json;

namespace tfm {

namespace {

/// How text becomes what is cut, and tokens become text again.
struct Rules {
  std::string prefix;       ///< put before every text
  bool prefixFirst = false; ///< only before what begins the whole text
  bool prefixOnce = false;  ///< not before a text that begins with it
  std::vector<std::pair<std::string, std::string>> replace;
  std::string splitAt; ///< pieces begin with it; empty: one piece
  /// Whether it is a normalizer that changes texts, and not Metaspace.
  bool isNormalizer() const {
    return !prefixOnce && !prefixFirst && (!prefix.empty() || !replace.empty());
  }
  TokenDecoder decoder;
};

class CharBpe : public VocabularyTokenizer {
public:
  CharBpe(Vocabulary tokens, std::vector<AddedToken> addedTokens,
          const MergeList &list, Rules rulesOfFile, std::string text,
          const std::string &origin)
      : VocabularyTokenizer(std::move(tokens)), added(std::move(addedTokens)),
        rules(std::move(rulesOfFile)), merges(list, vocabulary, origin),
        source(std::move(text)) {
    merges.expectComplete(vocabulary, added, origin);
    if (rules.isNormalizer())
      normalized = takeNormalized(added, [&](const std::string &text) {
        return normalize(text, /*offset=*/0);
      });
  }

  void encode(std::string_view text, std::vector<int32_t> &ids) const override {
    cutAtTokens(text, added, ids, [&](std::string_view plain, size_t offset) {
      encodePlain(plain, offset, ids);
    });
  }

  void decode(int32_t id, int32_t previous, std::string &bytes) const override {
    if (!vocabulary.contains(id))
      return;
    rules.decoder.append(vocabulary.token(id), previous < 0, bytes);
  }

  std::vector<int32_t> begin() const override { return beginIds; }
  std::string json() const override { return source; }

  /// Set by the reader of tokenizer.json.
  std::vector<int32_t> beginIds;
  int32_t unknown = -1;
  bool fuseUnknown = false;
  /// Those of bytes that no character has a token for; none without them.
  std::vector<int32_t> byteIds;

private:
  void encodePlain(std::string_view plain, size_t offset,
                   std::vector<int32_t> &ids) const {
    std::string text = normalize(plain, offset);
    cutAtTokens(text, normalized, ids, [&](std::string_view part, size_t) {
      encodePieces(part, ids);
    });
  }

  std::string normalize(std::string_view plain, size_t offset) const {
    std::string text(plain);
    // Metaspace looks for its prefix in the replaced text, a normalizer does
    // not look at all.
    bool wants = !rules.prefix.empty() && !(rules.prefixFirst && offset > 0);
    if (wants && !rules.prefixOnce)
      text.insert(0, rules.prefix);
    for (const auto &[from, to] : rules.replace)
      text = replaceAll(text, from, to);
    if (wants && rules.prefixOnce && !text.starts_with(rules.prefix))
      text.insert(0, rules.prefix);
    return text;
  }

  void encodePieces(std::string_view text, std::vector<int32_t> &ids) const {
    std::vector<int32_t> first;
    for (size_t at = 0; at < text.size();) {
      size_t end = text.size();
      if (!rules.splitAt.empty())
        end = std::min(text.find(rules.splitAt, at + 1), end);
      first.clear();
      characters(text.substr(at, end - at), first);
      merges.apply(first, ids);
      at = end;
    }
  }

  /// The first tokens of a piece.
  void characters(std::string_view text, std::vector<int32_t> &ids) const {
    bool wasUnknown = false;
    for (size_t at = 0; at < text.size();) {
      size_t bytes = decodeUtf8(text, at).bytes;
      std::string_view character = text.substr(at, bytes);
      at += bytes;
      int32_t id = vocabulary.find(character);
      bool isUnknown = id < 0 && byteIds.empty();
      if (id >= 0) {
        ids.push_back(id);
      } else if (!isUnknown) {
        for (char byte : character)
          ids.push_back(byteIds[static_cast<unsigned char>(byte)]);
      } else if (unknown < 0) {
        int32_t value = decodeUtf8(character, 0).value;
        if (value < 0)
          throw InputError("not UTF-8 text, and the tokenizer has no bytes");
        throw NoToken("the tokenizer has no token for {}",
                      characterName(value));
      } else if (!(fuseUnknown && wasUnknown)) {
        ids.push_back(unknown);
      }
      wasUnknown = isUnknown;
    }
  }

  std::vector<AddedToken> added, normalized;
  Rules rules;
  BpeMerges merges;
  std::string source;
};

/// Reads the parts of a tokenizer.json that say how text is cut; what would be
/// done otherwise than Hugging Face does is an error.
class RuleReader {
public:
  RuleReader(const json &root, const std::string &origin)
      : root(root), origin(origin) {}

  Rules read() {
    normalizer(part("normalizer"));
    preTokenizer(part("pre_tokenizer"));
    rules.decoder = TokenDecoder::read(part("decoder"), [&](const json &value) {
      unsupported("decoder", value);
    });
    requireBounded("normalizer", growthOf(rules.replace), origin);
    requireBounded("decoder", growthOf(rules.decoder.replacements()), origin);
    return std::move(rules);
  }

private:
  const json &part(const char *name) const {
    static const json none;
    auto found = root.find(name);
    return found == root.end() ? none : *found;
  }

  [[noreturn]] void unsupported(const char *what, const json &value) const {
    refuseStep(what, value, origin,
               "; those of Llama, Mistral, Gemma and byte-level BPE are");
  }

  void normalizer(const json &value) {
    std::string type = stepType(value);
    if (value.is_null())
      return;
    if (type == "Sequence") {
      for (const json &step : value.at("normalizers"))
        normalizer(step);
    } else if (type == "Prepend" && rules.prefix.empty() &&
               rules.replace.empty()) {
      rules.prefix = value.at("prepend").get<std::string>();
    } else if (type == "Replace") {
      rules.replace.push_back(readReplacement(
          value, [&](const json &whole) { unsupported("normalizer", whole); }));
    } else {
      unsupported("normalizer", value);
    }
  }

  void preTokenizer(const json &value) {
    std::string type = stepType(value);
    if (value.is_null())
      return;
    if (type == "Metaspace" && rules.prefix.empty() && rules.replace.empty()) {
      std::optional<Metaspace> meta = Metaspace::read(value);
      if (!meta)
        unsupported("pre-tokenizer", value);
      if (meta->prepends)
        rules.prefix = meta->space;
      rules.prefixFirst = meta->onlyFirst;
      rules.prefixOnce = true;
      rules.replace.emplace_back(" ", meta->space);
      if (meta->splits)
        rules.splitAt = meta->space;
      return;
    }
    // At spaces that the normalizer has left none of.
    bool replacesSpaces =
        std::ranges::any_of(rules.replace, [](const auto &replacement) {
          return replacement.first == " ";
        });
    if (type == "Split" && replacesSpaces && value.contains("pattern") &&
        value["pattern"] == json{{"String", " "}})
      return;
    unsupported("pre-tokenizer", value);
  }

  const json &root;
  const std::string &origin;
  Rules rules;
};

} // namespace

TokenizerPtr charBpeFromJson(const json &root, std::string_view text,
                             const std::string &origin) {
  const json &model = root.at("model");
  if (member(model, "ignore_merges") == true)
    throw NotSupported(
        "{}: ignore_merges is not supported for a BPE of characters", origin);
  Vocabulary vocabulary = Vocabulary::fromJson(member(model, "vocab"), origin);
  std::vector<AddedToken> added = readAddedTokens(root, vocabulary, origin);
  std::vector<int32_t> begin = readBegin(root, vocabulary, origin);
  int32_t unknown = unknownOf(model, vocabulary);
  std::vector<int32_t> bytes;
  if (model.value("byte_fallback", false))
    bytes = byteTokens(vocabulary);
  auto result = std::make_unique<CharBpe>(
      std::move(vocabulary), std::move(added), readMerges(model, origin),
      RuleReader(root, origin).read(), std::string(text), origin);
  result->beginIds = std::move(begin);
  result->unknown = unknown;
  result->fuseUnknown = model.value("fuse_unk", false);
  result->byteIds = std::move(bytes);
  return result;
}

} // namespace tfm
