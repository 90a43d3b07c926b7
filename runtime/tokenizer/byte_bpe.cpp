//===- byte_bpe.cpp - byte-level byte-pair encoding ---------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

// Radford et al. 2019 (GPT-2): text is cut into pieces, the bytes of a piece
// are its first tokens, and the adjacent pair that was learned earliest becomes
// one token until no pair is left.
//
//===----------------------------------------------------------------------===//

#include "runtime/support/error.h"
#include "runtime/support/utf8.h"
#include "runtime/tokenizer/bpe_merges.h"
#include "runtime/tokenizer/byte_characters.h"
#include "runtime/tokenizer/steps.h"

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <unordered_map>
#include <unordered_set>
#include <utf8proc.h>

using nlohmann::json;
using nlohmann::ordered_json;

namespace tfm {

namespace {

class ByteBpe : public VocabularyTokenizer {
public:
  ByteBpe(Vocabulary tokens, const MergeList &pairs,
          const std::vector<AddedToken> &specialTokens,
          const std::string &pattern, const std::string &origin)
      : VocabularyTokenizer(std::move(tokens)), specials(specialTokens),
        pretokenizer(pattern, origin), merges(pairs, vocabulary, origin) {
    for (int byte = 0; byte < 256; ++byte)
      byteIds[byte] = vocabulary.find(ByteCharacters::get().text[byte]);
    for (const AddedToken &special : specials)
      specialIds.insert(special.id);
  }

  void encode(std::string_view text, std::vector<int32_t> &ids) const override {
    std::string normalized;
    if (normalForm) {
      normalized = normalize(text);
      text = normalized;
    }
    Encoder encoder(*this, ids);
    cutAtTokens(text, specials, ids,
                [&](std::string_view plain, size_t) { encoder.plain(plain); });
  }

  void decode(int32_t id, int32_t, std::string &bytes) const override {
    if (!vocabulary.contains(id))
      return;
    std::string_view token = vocabulary.token(id);
    if (specialIds.contains(id))
      bytes += token;
    else
      ByteCharacters::get().append(token, bytes);
  }

  std::string json() const override {
    if (!source.empty())
      return source;
    ordered_json root = emptyTokenizerJson();
    ordered_json byteLevel = {{"type", "ByteLevel"},
                              {"add_prefix_space", false},
                              {"trim_offsets", true},
                              {"use_regex", true}};
    root["pre_tokenizer"] = byteLevel;
    root["decoder"] = byteLevel;
    root["model"]["vocab"] = vocabulary.toJson();
    for (const auto &[left, right, result] : merges.all())
      root["model"]["merges"].push_back(std::string(vocabulary.token(left)) +
                                        " " +
                                        std::string(vocabulary.token(right)));
    for (const AddedToken &special : specials)
      root["added_tokens"].push_back(
          addedToken(static_cast<uint64_t>(special.id), special.text,
                     /*isSpecial=*/true));
    return root.dump();
  }

  std::vector<int32_t> begin() const override { return beginIds; }

  /// Throws InputError where merges are missing.
  void expectMerges(const std::string &origin) const {
    merges.expectComplete(vocabulary, specials, origin);
  }

  /// Set by the reader of tokenizer.json.
  std::string source;
  std::vector<int32_t> beginIds;
  std::optional<utf8proc_option_t> normalForm;
  /// A piece that is a token as a whole is not merged up (Llama 3).
  bool wholePieces = false;

private:
  /// One call of `encode`: remembers pieces that it has met, as most of a text
  /// is made of few words.
  class Encoder {
  public:
    Encoder(const ByteBpe &owner, std::vector<int32_t> &ids)
        : owner(owner), ids(ids) {}

    /// Text without special tokens.
    void plain(std::string_view text) {
      // PCRE2 wants valid UTF-8; other bytes are their own pieces.
      size_t valid = 0;
      while (valid < text.size()) {
        CodePoint character = decodeUtf8(text, valid);
        if (character.value >= 0) {
          valid += character.bytes;
          continue;
        }
        pieces(text.substr(0, valid));
        merge(text.substr(valid, character.bytes));
        text.remove_prefix(valid + character.bytes);
        valid = 0;
      }
      pieces(text);
    }

  private:
    void pieces(std::string_view text) {
      Pretokenizer::Cursor cursor(owner.pretokenizer, text);
      std::string_view piece;
      while (cursor.next(piece)) {
        if (piece.empty())
          continue;
        if (piece.size() > 64) {
          merge(piece);
          continue;
        }
        auto found = known.find(piece);
        if (found == known.end()) {
          auto begin = static_cast<ptrdiff_t>(ids.size());
          merge(piece);
          known.emplace(std::string(piece),
                        std::vector<int32_t>(ids.begin() + begin, ids.end()));
        } else {
          ids.insert(ids.end(), found->second.begin(), found->second.end());
        }
      }
    }

    void merge(std::string_view piece) { owner.mergePiece(piece, ids); }

    const ByteBpe &owner;
    std::vector<int32_t> &ids;
    std::unordered_map<std::string, std::vector<int32_t>, StringHash,
                       std::equal_to<>>
        known;
  };

  void mergePiece(std::string_view piece, std::vector<int32_t> &ids) const {
    if (wholePieces) {
      if (int32_t id = wholeToken(piece); id >= 0) {
        ids.push_back(id);
        return;
      }
    }
    // Of a tokenizer of bytes a piece may be a whole book: no second copy.
    if (merges.all().empty())
      return appendBytes(piece, ids);
    std::vector<int32_t> bytes;
    bytes.reserve(piece.size());
    appendBytes(piece, bytes);
    merges.apply(bytes, ids);
  }

  void appendBytes(std::string_view piece, std::vector<int32_t> &ids) const {
    for (char c : piece) {
      int32_t id = byteIds[static_cast<unsigned char>(c)];
      if (id < 0)
        throw NoToken("the tokenizer has no token for the byte {}",
                      static_cast<unsigned char>(c));
      ids.push_back(id);
    }
  }

  int32_t wholeToken(std::string_view piece) const {
    return vocabulary.find(ByteCharacters::get().of(piece));
  }

  std::string normalize(std::string_view text) const {
    utf8proc_uint8_t *out = nullptr;
    utf8proc_ssize_t size = utf8proc_map(
        reinterpret_cast<const utf8proc_uint8_t *>(text.data()),
        static_cast<utf8proc_ssize_t>(text.size()), &out, *normalForm);
    if (size < 0) // not UTF-8: stays as it is
      return std::string(text);
    std::string result(reinterpret_cast<char *>(out),
                       static_cast<size_t>(size));
    std::free(out);
    return result;
  }

  std::vector<AddedToken> specials;
  std::unordered_set<int32_t> specialIds;
  Pretokenizer pretokenizer;
  BpeMerges merges;
  int32_t byteIds[256];
};

/// The pattern that a tokenizer.json cuts by; throws for forms that would not
/// be cut as Hugging Face does.
std::string findPattern(const json &preTokenizer, const std::string &origin) {
  auto unsupported = [&](const std::string &what) -> std::string {
    throw NotSupported(
        "{}: the pre-tokenizer {} is not supported; byte-level BPE is", origin,
        what);
  };
  if (!preTokenizer.is_object())
    return unsupported("null");
  std::string type = preTokenizer.value("type", "");
  if (type == "ByteLevel") {
    if (preTokenizer.value("add_prefix_space", false))
      return unsupported("with add_prefix_space");
    return preTokenizer.value("use_regex", true) ? gpt2Pattern : "(?s).+";
  }
  if (type == "Sequence" && preTokenizer.contains("pretokenizers")) {
    const json &steps = preTokenizer["pretokenizers"];
    if (steps.is_array() && steps.size() == 2 &&
        stepType(steps[0]) == "Split" && stepType(steps[1]) == "ByteLevel" &&
        !steps[1].value("use_regex", true) &&
        steps[0].value("behavior", "") == "Isolated" &&
        !steps[0].value("invert", false) && steps[0].contains("pattern") &&
        steps[0]["pattern"].is_object() &&
        steps[0]["pattern"].contains("Regex") &&
        steps[0]["pattern"]["Regex"].is_string())
      return steps[0]["pattern"]["Regex"].get<std::string>();
  }
  return unsupported("\"" + type + "\"");
}

std::optional<utf8proc_option_t> readNormalizer(const json &normalizer,
                                                const std::string &origin) {
  if (normalizer.is_null())
    return std::nullopt;
  std::string type = stepType(normalizer);
  const json &steps = member(normalizer, "normalizers");
  if (type == "Sequence" && steps.is_array() && steps.size() <= 1)
    return readNormalizer(steps.empty() ? json() : steps[0], origin);
  if (type == "Sequence" && steps.is_array())
    for (const json &step : steps) // one that is not known is named
      readNormalizer(step, origin);
  auto options = [](int bits) {
    return static_cast<utf8proc_option_t>(UTF8PROC_STABLE | bits);
  };
  if (type == "NFC")
    return options(UTF8PROC_COMPOSE);
  if (type == "NFKC")
    return options(UTF8PROC_COMPOSE | UTF8PROC_COMPAT);
  if (type == "NFD")
    return options(UTF8PROC_DECOMPOSE);
  if (type == "NFKD")
    return options(UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT);
  throw NotSupported("{}: the normalizer \"{}\" is not supported with "
                     "byte-level BPE; NFC, NFD, NFKC and NFKD are, one of them",
                     origin, type);
}

} // namespace

TokenizerPtr makeByteBpeTokenizer(const NamedText &vocabJson,
                                  const NamedText &merges) {
  Vocabulary vocabulary = Vocabulary::fromText(vocabJson);
  std::vector<AddedToken> specials;
  if (int32_t end = vocabulary.find("<|endoftext|>"); end >= 0)
    specials.push_back({"<|endoftext|>", end});
  auto result =
      std::make_unique<ByteBpe>(std::move(vocabulary), parseMerges(merges),
                                specials, gpt2Pattern, merges.origin);
  result->expectMerges(merges.origin);
  return result;
}

TokenizerPtr byteBpeFromJson(const json &root, std::string_view text,
                             const std::string &origin) {
  const json &model = root.at("model");
  Vocabulary vocabulary = Vocabulary::fromJson(member(model, "vocab"), origin);
  std::vector<AddedToken> specials = readAddedTokens(root, vocabulary, origin);
  std::vector<int32_t> begin = readBegin(root, vocabulary, origin);
  auto result = std::make_unique<ByteBpe>(
      std::move(vocabulary), readMerges(model, origin), specials,
      findPattern(member(root, "pre_tokenizer"), origin), origin);
  result->normalForm = readNormalizer(member(root, "normalizer"), origin);
  result->wholePieces = member(model, "ignore_merges") == true;
  if (!result->wholePieces)
    result->expectMerges(origin);
  result->beginIds = std::move(begin);
  result->source = text;
  return result;
}

TokenizerPtr makeBytesTokenizer() {
  Vocabulary vocabulary;
  for (const std::string &character : ByteCharacters::get().text)
    vocabulary.add(character);
  return std::make_unique<ByteBpe>(std::move(vocabulary), MergeList{},
                                   std::vector<AddedToken>{}, "(?s).+",
                                   "bytes");
}

} // namespace tfm
