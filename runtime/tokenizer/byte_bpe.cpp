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

#include "runtime/error.h"
#include "runtime/tokenizer/pretokenizer.h"
#include "runtime/tokenizer/utf8.h"
#include "runtime/tokenizer/vocabulary.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <queue>
#include <utf8proc.h>

using nlohmann::json;
using nlohmann::ordered_json;

namespace tfm {

namespace {

/// GPT-2's characters for bytes: printable Latin-1 stands for itself, the
/// others are U+0100 onwards in order.
struct ByteCharacters {
  std::string text[256];
  int32_t byteOf[0x200]; ///< -1 where the character stands for no byte

  ByteCharacters() {
    std::fill(std::begin(byteOf), std::end(byteOf), -1);
    int32_t next = 0x100;
    for (int32_t byte = 0; byte < 256; ++byte) {
      bool plain = (byte >= 0x21 && byte <= 0x7E) ||
                   (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
      int32_t character = plain ? byte : next++;
      appendUtf8(character, text[byte]);
      byteOf[character] = byte;
    }
  }
};

struct Merge {
  int32_t rank;
  int32_t result;
};

uint64_t pairKey(int32_t left, int32_t right) {
  return uint64_t{static_cast<uint32_t>(left)} << 32 |
         static_cast<uint32_t>(right);
}

struct KeyHash {
  size_t operator()(uint64_t key) const {
    return static_cast<size_t>((key * 0x9E3779B97F4A7C15u) >> 16);
  }
};

class ByteBpe : public Tokenizer {
public:
  ByteBpe(Vocabulary tokens,
          const std::vector<std::pair<std::string, std::string>> &pairs,
          const std::vector<std::string> &specialTokens,
          const std::string &pattern, const std::string &origin)
      : vocabulary(std::move(tokens)), mergeList(pairs),
        specials(specialTokens), pretokenizer(pattern, origin) {
    ByteCharacters characters;
    for (int byte = 0; byte < 256; ++byte)
      byteIds[byte] = vocabulary.find(characters.text[byte]);
    bytesOf.resize(static_cast<size_t>(vocabulary.size()));
    for (int32_t id = 0; id < vocabulary.size(); ++id)
      bytesOf[id] = tokenBytes(vocabulary.token(id), characters);
    for (const std::string &special : specials)
      if (int32_t id = vocabulary.find(special); id >= 0)
        bytesOf[id] = special;
    // Longest first, so that of two that begin alike the longer is found.
    std::sort(specials.begin(), specials.end(),
              [](const std::string &a, const std::string &b) {
                return a.size() > b.size();
              });
    merges.reserve(pairs.size());
    for (size_t rank = 0; rank < pairs.size(); ++rank) {
      const auto &[left, right] = pairs[rank];
      int32_t leftId = vocabulary.find(left);
      int32_t rightId = vocabulary.find(right);
      int32_t result = vocabulary.find(left + right);
      if (leftId < 0 || rightId < 0 || result < 0)
        throw InputError(origin + ": the merge \"" + left + " " + right +
                         "\" uses a token that the vocabulary lacks");
      merges.try_emplace(pairKey(leftId, rightId),
                         Merge{static_cast<int32_t>(rank), result});
    }
  }

  int64_t size() const override { return vocabulary.size(); }

  void encode(std::string_view text, std::vector<int32_t> &ids) const override {
    std::string normalized;
    if (normalForm) {
      normalized = normalize(text);
      text = normalized;
    }
    Encoder encoder(*this, ids);
    while (!text.empty()) {
      auto [at, special] = nextSpecial(text);
      encoder.plain(text.substr(0, at));
      if (special.empty())
        return;
      ids.push_back(vocabulary.find(special));
      text.remove_prefix(at + special.size());
    }
  }

  void decode(int32_t id, bool, std::string &bytes) const override {
    if (vocabulary.contains(id))
      bytes += bytesOf[static_cast<size_t>(id)];
  }

  std::optional<int32_t> find(std::string_view token) const override {
    int32_t id = vocabulary.find(token);
    return id < 0 ? std::nullopt : std::optional(id);
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
    for (const auto &[left, right] : mergeList)
      root["model"]["merges"].push_back(left + " " + right);
    for (const std::string &special : specials)
      root["added_tokens"].push_back({{"id", vocabulary.find(special)},
                                      {"content", special},
                                      {"single_word", false},
                                      {"lstrip", false},
                                      {"rstrip", false},
                                      {"normalized", false},
                                      {"special", true}});
    return root.dump();
  }

  /// Set by the reader of tokenizer.json.
  std::string source;
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

  const Merge *findMerge(int32_t left, int32_t right) const {
    auto found = merges.find(pairKey(left, right));
    return found == merges.end() ? nullptr : &found->second;
  }

  /// Merges one piece and appends its ids. A queue of candidate pairs over a
  /// doubly linked list: n log n also for a piece as long as the text.
  void mergePiece(std::string_view piece, std::vector<int32_t> &ids) const {
    if (wholePieces) {
      if (int32_t id = wholeToken(piece); id >= 0) {
        ids.push_back(id);
        return;
      }
    }
    struct Node {
      int32_t id, previous, next;
    };
    std::vector<Node> nodes;
    nodes.reserve(piece.size());
    for (char c : piece) {
      int32_t id = byteIds[static_cast<unsigned char>(c)];
      if (id < 0)
        throw InputError("the tokenizer has no token for the byte " +
                         std::to_string(static_cast<unsigned char>(c)));
      auto here = static_cast<int32_t>(nodes.size());
      nodes.push_back({id, here - 1, here + 1});
    }
    if (nodes.empty())
      return;
    nodes.back().next = -1;

    struct Candidate {
      int32_t rank, at, left, right, result;
      bool operator>(const Candidate &other) const {
        return rank != other.rank ? rank > other.rank : at > other.at;
      }
    };
    std::vector<Candidate> storage;
    storage.reserve(nodes.size());
    std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>>
        queue(std::greater<>(), std::move(storage));
    auto offer = [&](int32_t at) {
      if (at < 0 || nodes[at].next < 0)
        return;
      int32_t right = nodes[nodes[at].next].id;
      if (const Merge *merge = findMerge(nodes[at].id, right))
        queue.push({merge->rank, at, nodes[at].id, right, merge->result});
    };
    for (size_t i = 0; i + 1 < nodes.size(); ++i)
      offer(static_cast<int32_t>(i));
    while (!queue.empty()) {
      Candidate best = queue.top();
      queue.pop();
      Node &node = nodes[best.at];
      // Stale: one of the two has been merged with another meanwhile.
      if (node.id != best.left || node.next < 0 ||
          nodes[node.next].id != best.right)
        continue;
      int32_t gone = node.next;
      node.id = best.result;
      node.next = nodes[gone].next;
      nodes[gone].id = -1;
      if (node.next >= 0)
        nodes[node.next].previous = best.at;
      offer(node.previous);
      offer(best.at);
    }
    for (int32_t at = 0; at >= 0; at = nodes[at].next)
      ids.push_back(nodes[at].id);
  }

  int32_t wholeToken(std::string_view piece) const {
    static const ByteCharacters characters;
    std::string token;
    for (char c : piece)
      token += characters.text[static_cast<unsigned char>(c)];
    return vocabulary.find(token);
  }

  /// A token's bytes; one with characters that stand for no byte (an added
  /// token) is its own text.
  static std::string tokenBytes(const std::string &token,
                                const ByteCharacters &characters) {
    std::string bytes;
    for (size_t at = 0; at < token.size();) {
      CodePoint character = decodeUtf8(token, at);
      if (character.value < 0 || character.value >= 0x200 ||
          characters.byteOf[character.value] < 0)
        return token;
      bytes += static_cast<char>(characters.byteOf[character.value]);
      at += character.bytes;
    }
    return bytes;
  }

  /// Where the first special token stands and which it is.
  std::pair<size_t, std::string_view> nextSpecial(std::string_view text) const {
    size_t best = text.size();
    std::string_view which;
    for (const std::string &special : specials) {
      size_t at = text.substr(0, std::min(text.size(), best + special.size()))
                      .find(special);
      if (at < best) {
        best = at;
        which = special;
      }
    }
    return {best, which};
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

  Vocabulary vocabulary;
  std::vector<std::pair<std::string, std::string>> mergeList;
  std::vector<std::string> specials;
  Pretokenizer pretokenizer;
  std::unordered_map<uint64_t, Merge, KeyHash> merges;
  std::vector<std::string> bytesOf;
  int32_t byteIds[256];
};

/// The pattern that a tokenizer.json cuts by; throws for forms that would not
/// be cut as Hugging Face does.
std::string findPattern(const json &preTokenizer, const std::string &origin) {
  auto unsupported = [&](const std::string &what) -> std::string {
    throw InputError(origin + ": the pre-tokenizer " + what +
                     " is not supported; byte-level BPE is");
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
    if (steps.is_array() && steps.size() == 2 && steps[0].is_object() &&
        steps[0].value("type", "") == "Split" && steps[1].is_object() &&
        steps[1].value("type", "") == "ByteLevel" &&
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

std::vector<std::pair<std::string, std::string>>
readMerges(const json &list, const std::string &origin) {
  if (!list.is_array())
    throw InputError(origin + ": `merges` is not a list");
  std::vector<std::pair<std::string, std::string>> merges;
  for (const json &entry : list) {
    if (entry.is_array() && entry.size() == 2 && entry[0].is_string() &&
        entry[1].is_string()) {
      merges.emplace_back(entry[0].get<std::string>(),
                          entry[1].get<std::string>());
      continue;
    }
    std::string text = entry.is_string() ? entry.get<std::string>() : "";
    size_t space = text.find(' ');
    if (space == std::string::npos)
      throw InputError(origin + ": a merge is two tokens");
    merges.emplace_back(text.substr(0, space), text.substr(space + 1));
  }
  return merges;
}

std::optional<utf8proc_option_t> readNormalizer(const json &normalizer,
                                                const std::string &origin) {
  if (normalizer.is_null())
    return std::nullopt;
  std::string type = normalizer.is_object() ? normalizer.value("type", "") : "";
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
  throw InputError(origin + ": the normalizer \"" + type +
                   "\" is not supported; NFC, NFD, NFKC and NFKD are");
}

} // namespace

TokenizerPtr makeByteBpeTokenizer(std::string_view vocabJson,
                                  std::string_view merges) {
  Vocabulary vocabulary =
      Vocabulary::fromJson(parseJson(vocabJson, "vocab.json"), "vocab.json");
  std::vector<std::string> specials;
  if (vocabulary.find("<|endoftext|>") >= 0)
    specials.push_back("<|endoftext|>");
  return std::make_unique<ByteBpe>(std::move(vocabulary),
                                   parseMerges(merges, "merges.txt"), specials,
                                   gpt2Pattern, "vocab.json");
}

TokenizerPtr byteBpeFromJson(const json &root, std::string_view text,
                             const std::string &origin) {
  const json &model = root.at("model");
  Vocabulary vocabulary = Vocabulary::fromJson(
      model.contains("vocab") ? model["vocab"] : json(), origin);
  std::vector<std::string> specials;
  if (root.contains("added_tokens") && root["added_tokens"].is_array())
    for (const json &added : root["added_tokens"]) {
      if (!added.is_object() || !added.contains("content") ||
          !added["content"].is_string() || !added.contains("id") ||
          !added["id"].is_number_unsigned())
        throw InputError(origin + ": an added token needs an id and a content");
      auto content = added["content"].get<std::string>();
      if (content.empty())
        throw InputError(origin + ": an added token is empty");
      vocabulary.set(content, added["id"].get<uint64_t>(), origin);
      specials.push_back(content);
    }
  json none;
  auto result = std::make_unique<ByteBpe>(
      std::move(vocabulary),
      readMerges(model.contains("merges") ? model["merges"] : none, origin),
      specials,
      findPattern(root.contains("pre_tokenizer") ? root["pre_tokenizer"] : none,
                  origin),
      origin);
  result->normalForm = readNormalizer(
      root.contains("normalizer") ? root["normalizer"] : none, origin);
  result->wholePieces = model.contains("ignore_merges") &&
                        model["ignore_merges"].is_boolean() &&
                        model["ignore_merges"].get<bool>();
  result->source = text;
  return result;
}

TokenizerPtr makeBytesTokenizer() {
  ByteCharacters characters;
  Vocabulary vocabulary;
  for (const std::string &character : characters.text)
    vocabulary.add(character);
  return std::make_unique<ByteBpe>(
      std::move(vocabulary), std::vector<std::pair<std::string, std::string>>{},
      std::vector<std::string>{}, "(?s).+", "bytes");
}

} // namespace tfm
