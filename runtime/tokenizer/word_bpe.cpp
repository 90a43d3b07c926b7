//===- word_bpe.cpp - byte-pair encoding of words -----------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

// Sennrich, Haddow and Birch 2016: a word is its characters followed by `</w>`;
// the merges are applied one after the other, each everywhere in the word.
//
//===----------------------------------------------------------------------===//

#include "runtime/support/error.h"
#include "runtime/support/utf8.h"
#include "runtime/tokenizer/bpe_merges.h"
#include "runtime/tokenizer/token_decoder.h"

#include <map>
#include <nlohmann/json.hpp>
#include <unordered_map>
#include <unordered_set>

using nlohmann::json;
using nlohmann::ordered_json;

namespace tfm {

namespace {

/// What a tokenizer.json has instead of `</w>`: a word is cut into characters
/// there, and this is one that no text has.
const std::string endMark = "\xEF\xBF\xBF";

/// The tokens as `spell` spells them, under their ids.
template <typename Spell>
Vocabulary mapTokens(const Vocabulary &tokens, Spell spell,
                     const std::string &origin) {
  Vocabulary result;
  for (int32_t id = 0; id < tokens.size(); ++id)
    if (std::string_view token = tokens.token(id); tokens.find(token) == id)
      result.set(spell(token), static_cast<uint64_t>(id), origin);
  return result;
}

class WordBpe : public VocabularyTokenizer {
public:
  WordBpe(Vocabulary tokens, const MergeList &pairs)
      : VocabularyTokenizer(std::move(tokens)),
        merges(pairs.begin(), pairs.end()),
        unknown(vocabulary.find(unknownWord)) {
    for (size_t i = 0; i < merges.size(); ++i)
      ranks.try_emplace(merges[i], i);
  }

  bool partsAtSpace() const override { return true; }

  void encode(std::string_view text, std::vector<int32_t> &ids) const override {
    std::unordered_map<std::string, std::vector<int32_t>, StringHash,
                       std::equal_to<>>
        known;
    size_t at = 0;
    while (at < text.size()) {
      if (CodePoint c = decodeUtf8(text, at); isSpace(c.value)) {
        at += c.bytes;
        continue;
      }
      size_t begin = at;
      while (at < text.size()) {
        CodePoint c = decodeUtf8(text, at);
        if (isSpace(c.value))
          break;
        at += c.bytes;
      }
      std::string_view word = text.substr(begin, at - begin);
      auto found = known.find(word);
      if (found == known.end())
        found = known.emplace(std::string(word), encodeWord(word)).first;
      ids.insert(ids.end(), found->second.begin(), found->second.end());
    }
  }

  /// A token that ends in `</w>` ends a word, and so does an id that is none.
  void decode(int32_t id, int32_t previous, std::string &bytes) const override {
    if (previous >= 0 && endsWord(previous))
      bytes += ' ';
    if (!vocabulary.contains(id)) {
      bytes += unknownWord;
      return;
    }
    std::string_view token = vocabulary.token(id);
    if (!endsWord(id)) {
      bytes += token;
      return;
    }
    for (size_t at = 0; at < token.size();) {
      size_t next = std::min(token.find(wordEnd, at), token.size());
      bytes.append(token, at, next - at);
      at = next + wordEnd.size();
    }
  }

  std::string text(const std::vector<int32_t> &ids) const override {
    std::string all = Tokenizer::text(ids);
    size_t begin = 0, end = 0;
    bool any = false;
    for (size_t at = 0; at < all.size();) {
      CodePoint c = decodeUtf8(all, at);
      if (!isSpace(c.value)) {
        begin = any ? begin : at;
        end = at + c.bytes;
        any = true;
      }
      at += c.bytes;
    }
    return all.substr(begin, end - begin);
  }

  /// As Hugging Face's tokenizers give the same ids: their own suffix of words
  /// is part of a last character, and no token.
  std::string json() const override {
    auto marked = [](std::string_view token) {
      return replaceAll(token, std::string(wordEnd), endMark);
    };
    ordered_json root = emptyTokenizerJson();
    root["normalizer"] = endsOfWords();
    root["pre_tokenizer"] = {{"type", "WhitespaceSplit"}};
    root["decoder"] = {{"type", "BPEDecoder"}, {"suffix", endMark}};
    ordered_json &model = root["model"];
    model["unk_token"] = unknownWord;
    model["vocab"] = mapTokens(vocabulary, marked, "").toJson();
    for (const auto &[left, right] : merges)
      model["merges"].push_back({marked(left), marked(right)});
    return root.dump();
  }

private:
  bool endsWord(int32_t id) const {
    return !vocabulary.contains(id) || vocabulary.token(id).ends_with(wordEnd);
  }

  std::vector<int32_t> encodeWord(std::string_view word) const {
    std::vector<std::string> parts;
    for (size_t at = 0; at < word.size();) {
      CodePoint c = decodeUtf8(word, at);
      parts.emplace_back(word.substr(at, c.bytes));
      at += c.bytes;
    }
    parts.emplace_back(wordEnd);
    // Merges in the order learned, so only those after the last one applied
    // are looked for: a pair that a later merge forms comes too late.
    size_t from = 0;
    while (true) {
      size_t rank = merges.size();
      for (size_t i = 0; i + 1 < parts.size(); ++i) {
        auto found = ranks.find({parts[i], parts[i + 1]});
        if (found != ranks.end() && found->second >= from)
          rank = std::min(rank, found->second);
      }
      if (rank == merges.size())
        break;
      std::vector<std::string> merged;
      for (size_t i = 0; i < parts.size(); ++i) {
        if (i + 1 < parts.size() && parts[i] == merges[rank].first &&
            parts[i + 1] == merges[rank].second) {
          merged.push_back(parts[i] + parts[i + 1]);
          ++i;
        } else {
          merged.push_back(parts[i]);
        }
      }
      parts.swap(merged);
      from = rank + 1;
    }
    std::vector<int32_t> ids;
    for (const std::string &part : parts) {
      int32_t id = vocabulary.find(part);
      if (id < 0)
        id = unknown;
      if (id < 0)
        throw NoToken(
            "the tokenizer has no token for \"{}\", and no <UNK> for others",
            part);
      ids.push_back(id);
    }
    return ids;
  }

  std::vector<std::pair<std::string, std::string>> merges;
  std::map<std::pair<std::string, std::string>, size_t> ranks;
  int32_t unknown;
};

/// What words begin as: a character, or their end.
bool isFirst(std::string_view part) {
  return part == wordEnd ||
         (!part.empty() && decodeUtf8(part, 0).bytes == part.size());
}

/// Throws InputError naming `origin` for merges that are not those of the
/// vocabulary: with one too few, texts would silently become other tokens.
void expectComplete(const Vocabulary &vocabulary, const MergeList &merges,
                    const std::string &origin) {
  auto quoted = [](std::string_view token) {
    return "\"" + std::string(token) + "\"";
  };
  const char *help = ": merges are missing. Copy or download it again";
  std::unordered_set<std::string> made;
  for (const auto &[left, right] : merges) {
    std::string merge = std::string(left) + " " + std::string(right);
    for (std::string_view part : {left, right})
      if (!isFirst(part) && !made.contains(std::string(part)))
        throw InputError(
            "{}: the merge {} joins {}, which comes from no merge before it{}",
            origin, quoted(merge), quoted(part), help);
    std::string result = std::string(left).append(right);
    if (vocabulary.find(result) < 0)
      throw InputError(
          "{}: the merge {} makes a token that the vocabulary lacks: "
          "vocabulary and merges must be of the same tokenizer",
          origin, quoted(merge));
    made.insert(std::move(result));
  }
  // Every merge joins two tokens of the vocabulary; others that no merge makes
  // are special ones.
  for (int32_t id = 0; id < vocabulary.size(); ++id) {
    std::string_view token = vocabulary.token(id);
    bool isSpecial =
        token.starts_with("<") && token.ends_with(">") && token != wordEnd;
    if (token.empty() || isFirst(token) || isSpecial ||
        made.contains(std::string(token)))
      continue;
    for (size_t at = 1; at < token.size(); ++at)
      if (vocabulary.find(token.substr(0, at)) >= 0 &&
          vocabulary.find(token.substr(at)) >= 0)
        throw InputError("{}: the token {} comes from no merge, though {} and "
                         "{} would make it{}",
                         origin, quoted(token), quoted(token.substr(0, at)),
                         quoted(token.substr(at)), help);
  }
}

} // namespace

json endsOfWords() {
  auto replace = [](const char *pattern, const std::string &content) {
    return json{{"type", "Replace"},
                {"pattern", {{"Regex", pattern}}},
                {"content", content}};
  };
  // These part words, too (isSpace), but not for others.
  return {{"type", "Sequence"},
          {"normalizers",
           {replace("[\\x1C-\\x1F]", " "),
            replace("(?<=\\S)(?=\\s|\\z)", endMark)}}};
}

TokenizerPtr wordBpeFromJson(const json &model, const std::string &origin) {
  auto spelt = [](std::string_view token) {
    return replaceAll(token, endMark, std::string(wordEnd));
  };
  Vocabulary vocabulary = mapTokens(
      Vocabulary::fromJson(member(model, "vocab"), origin), spelt, origin);
  if (vocabulary.find(wordEnd) < 0)
    throw NotSupported(
        "{}: a model of parts of words without a token </w> is not supported",
        origin);
  const MergeList list = readMerges(model, origin);
  std::vector<std::pair<std::string, std::string>> texts;
  for (const auto &[left, right] : list)
    texts.emplace_back(spelt(left), spelt(right));
  return std::make_unique<WordBpe>(std::move(vocabulary),
                                   MergeList(texts.begin(), texts.end()));
}

TokenizerPtr makeWordBpeTokenizer(const NamedText &vocabJson,
                                  const NamedText &merges) {
  Vocabulary vocabulary = Vocabulary::fromText(vocabJson);
  MergeList list = parseMerges(merges);
  expectComplete(vocabulary, list, merges.origin);
  return std::make_unique<WordBpe>(std::move(vocabulary), list);
}

} // namespace tfm
