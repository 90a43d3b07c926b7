//===- vocabulary.h - what the tokenizers share -------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_RUNTIME_TOKENIZER_VOCABULARY_H
#define TFM_RUNTIME_TOKENIZER_VOCABULARY_H

#include "runtime/tokenizer/tokenizer.h"

#include <cstring>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tfm {

/// A hash of tokens and words, which are a few bytes long: without a call.
struct StringHash {
  using is_transparent = void;
  size_t operator()(std::string_view text) const {
    const char *bytes = text.data();
    uint64_t hash = text.size();
    size_t left = text.size();
    for (; left > 8; left -= 8, bytes += 8)
      hash = mix(hash ^ load<uint64_t>(bytes));
    if (left >= 4)
      hash ^= load<uint32_t>(bytes) | uint64_t{load<uint32_t>(bytes + left - 4)}
                                          << 32;
    else if (left > 0)
      hash ^= load<uint8_t>(bytes) |
              uint64_t{load<uint8_t>(bytes + left / 2)} << 8 |
              uint64_t{load<uint8_t>(bytes + left - 1)} << 16;
    return mix(hash);
  }

private:
  template <typename Word> static Word load(const char *bytes) {
    Word word;
    std::memcpy(&word, bytes, sizeof word);
    return word;
  }
  /// Both halves of a product, so that all bits count for the low ones.
  static uint64_t mix(uint64_t value) {
    value = (value ^ value >> 32) * 0x9E3779B97F4A7C15u;
    value = (value ^ value >> 29) * 0xBF58476D1CE4E5B9u;
    return value ^ value >> 32;
  }
};

/// What the last token of a word ends in (`bpe_words`).
inline constexpr std::string_view wordEnd = "</w>";
/// What a word that has no token becomes, where no file says otherwise.
inline constexpr const char *unknownWord = "<UNK>";

/// Tokens in the order of their ids. Their texts stand in one string and are
/// found through one table, so that tens of thousands of them are there in a
/// few milliseconds.
class Vocabulary {
public:
  int64_t size() const { return static_cast<int64_t>(tokens.size()); }
  /// The id of a new token; of an old one its id.
  int32_t add(std::string_view token);
  /// Gives a token its id; throws InputError for one that cannot be.
  void set(std::string_view token, uint64_t id, const std::string &origin);
  /// -1 where there is none.
  int32_t find(std::string_view token) const;
  /// `find` for so many tokens at once, at most `batch`: while one is compared,
  /// what the next ones need is on its way from memory.
  void find(std::span<const std::string_view> wanted, int32_t *ids) const;
  static constexpr size_t batch = 64;
  /// Empty for an id that is not used. Valid until another token comes.
  std::string_view token(int32_t id) const {
    auto index = static_cast<size_t>(id);
    if (!isUsed(index))
      return {};
    return std::string_view(texts).substr(tokens[index].begin,
                                          tokens[index].size);
  }
  bool contains(int32_t id) const { return id >= 0 && id < size(); }
  /// Reads `{"token": id, ...}`; throws InputError. Ids may leave gaps.
  static Vocabulary fromJson(const nlohmann::json &object,
                             const std::string &origin);
  /// The same from the text of a file.
  static Vocabulary fromText(const NamedText &file);
  /// The same back.
  nlohmann::ordered_json toJson() const;

private:
  struct Token {
    uint32_t begin = unused;
    uint32_t size = 0;
  };
  static constexpr uint32_t unused = UINT32_MAX;
  /// Of the table: an id and one half of its token's hash, whose other half
  /// says where to begin to look. -1: nothing.
  struct Slot {
    uint32_t hash = 0;
    int32_t id = -1;
  };

  bool isUsed(size_t id) const {
    return id < tokens.size() && tokens[id].begin != unused;
  }
  int32_t find(std::string_view token, size_t hash) const;
  /// Gives what stands behind `begin` of the texts to an id that is not used.
  void place(size_t begin, size_t id);
  /// Puts a token that is not there yet at an id that is not used.
  void put(std::string_view token, size_t id);
  void insert(size_t hash, int32_t id);
  /// Makes the table anew, for so many tokens. False where two are the same.
  bool index(size_t count);
  /// Reads a table as most files have it; nothing for any other text.
  static std::optional<Vocabulary> fromPlainTable(std::string_view text);

  std::string texts; ///< less than 4 GiB
  std::vector<Token> tokens;
  size_t used = 0;
  std::vector<Slot> slots; ///< as many as a power of two
};

/// A tokenizer whose ids are those of a vocabulary.
class VocabularyTokenizer : public Tokenizer {
public:
  explicit VocabularyTokenizer(Vocabulary tokens = {})
      : vocabulary(std::move(tokens)) {}

  int64_t size() const override { return vocabulary.size(); }
  std::optional<int32_t> find(std::string_view token) const override;

protected:
  Vocabulary vocabulary;
};

/// Two tokens that become one, as views of the file that they are read from.
using MergeList = std::vector<std::pair<std::string_view, std::string_view>>;

/// Ids are below this: far more than any vocabulary has, and little enough to
/// allocate.
inline constexpr uint64_t idLimit = 1 << 21;
/// What is wrong with the id of `the token "a"`.
[[noreturn]] void failTooLarge(const std::string &token,
                               const std::string &origin);
[[noreturn]] void failNoNumber(const std::string &token,
                               const std::string &origin);

/// One more than the highest id of a vocab.json (`isTable`) or of a
/// tokenizer.json: the size of the tokenizer in a tenth of the time that it
/// takes to open it, as nothing is checked but the JSON and the ids. Throws
/// InputError.
int64_t vocabularySize(std::string_view text, bool isTable,
                       const std::string &origin);

/// The pairs of a merges.txt in order; a first line that begins with #version
/// is skipped. Throws InputError for what is not UTF-8, too.
MergeList parseMerges(const NamedText &file);

/// Parses JSON; throws InputError naming `origin`.
nlohmann::json parseJson(std::string_view text, const std::string &origin);

/// A member of an object; null where it has none of that name.
const nlohmann::json &member(const nlohmann::json &object, const char *name);

/// The tokenizer.json that stands for a SentencePiece model (a `.model` file).
/// Throws InputError; any bytes are safe to pass.
std::string sentencePieceJson(std::string_view bytes,
                              const std::string &origin);

/// Hugging Face's tokenizer.json with an empty BPE in it.
nlohmann::ordered_json emptyTokenizerJson();
/// An entry of its `added_tokens`: found in a text as it is spelt.
nlohmann::ordered_json addedToken(uint64_t id, const std::string &content,
                                  bool isSpecial);

/// A `post_processor` that puts a token before every text.
nlohmann::ordered_json beginWith(uint64_t id, const std::string &token);

/// The tokenizers from parsed files, each made in its own source file. Of
/// `tokenizer.json` both its tree and its text.
TokenizerPtr byteBpeFromJson(const nlohmann::json &root, std::string_view text,
                             const std::string &origin);
TokenizerPtr charBpeFromJson(const nlohmann::json &root, std::string_view text,
                             const std::string &origin);
TokenizerPtr pipelineFromJson(const nlohmann::json &root, std::string_view text,
                              const std::string &origin);
/// Of the model alone; its tokens may have `</w>` as earlier files do.
TokenizerPtr wordBpeFromJson(const nlohmann::json &model,
                             const std::string &origin);
/// The normalizer of its tokenizer.json, which puts an end behind each word.
nlohmann::json endsOfWords();
/// `unknown` is the token of what has none, where the vocabulary has it.
TokenizerPtr charsTokenizer(Vocabulary vocabulary, const std::string &unknown,
                            const std::string &origin);
TokenizerPtr wordsTokenizer(Vocabulary vocabulary, const std::string &unknown);

} // namespace tfm

#endif // TFM_RUNTIME_TOKENIZER_VOCABULARY_H
