//===- vocabulary.h - what the tokenizers share -------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_RUNTIME_TOKENIZER_VOCABULARY_H
#define TFM_RUNTIME_TOKENIZER_VOCABULARY_H

#include "runtime/tokenizer/tokenizer.h"

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tfm {

struct StringHash {
  using is_transparent = void;
  size_t operator()(std::string_view text) const {
    return std::hash<std::string_view>()(text);
  }
};

/// What the last token of a word ends in (`bpe_words`).
inline constexpr std::string_view wordEnd = "</w>";

/// Tokens in the order of their ids. Their texts stand in one string and are
/// found through one table, so that tens of thousands of them are there in a
/// few milliseconds.
class Vocabulary {
public:
  int64_t size() const { return static_cast<int64_t>(tokens.size()); }
  /// Makes room for so many tokens.
  void reserve(size_t count);
  /// The id of a new token; of an old one its id.
  int32_t add(std::string_view token);
  /// Gives a token its id; throws InputError for one that cannot be.
  void set(std::string_view token, uint64_t id, const std::string &origin);
  /// -1 where there is none.
  int32_t find(std::string_view token) const;
  /// Empty for an id that is not used. Valid until another token comes.
  std::string_view token(int32_t id) const {
    const Token &token = tokens[static_cast<size_t>(id)];
    return std::string_view(texts).substr(token.begin, token.size);
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
    size_t begin = 0;
    size_t size = 0;
    bool isUsed = false;
  };
  /// Of the table: an id and one half of its token's hash, whose other half
  /// says where to begin to look. -1: nothing.
  struct Slot {
    uint32_t hash = 0;
    int32_t id = -1;
  };

  /// Puts a token that is not there yet at a place that nothing uses.
  void put(std::string_view token, size_t id);
  void insert(size_t hash, int32_t id);
  /// Makes the table so large that half of it stays free.
  void grow(size_t count);
  /// Reads a table as most files have it; nothing for any other text.
  static std::optional<Vocabulary> fromPlainTable(std::string_view text);

  std::string texts;
  std::vector<Token> tokens;
  size_t used = 0;
  std::vector<Slot> slots; ///< as many as a power of two
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

/// The tokenizer.json that stands for a SentencePiece model (a `.model` file)
/// of type BPE. Throws InputError; any bytes are safe to pass.
std::string sentencePieceJson(std::string_view bytes,
                              const std::string &origin);

/// Hugging Face's tokenizer.json with an empty BPE in it.
nlohmann::ordered_json emptyTokenizerJson();
/// An entry of its `added_tokens`: found in a text as it is spelt.
nlohmann::ordered_json addedToken(uint64_t id, const std::string &content,
                                  bool isSpecial);

/// The tokenizers from parsed files, each made in its own source file. Of
/// `tokenizer.json` both its tree and its text.
TokenizerPtr byteBpeFromJson(const nlohmann::json &root, std::string_view text,
                             const std::string &origin);
TokenizerPtr charBpeFromJson(const nlohmann::json &root, std::string_view text,
                             const std::string &origin);
TokenizerPtr wordBpe(Vocabulary vocabulary, const MergeList &merges);
TokenizerPtr charsTokenizer(Vocabulary vocabulary, const std::string &origin);
TokenizerPtr wordsTokenizer(Vocabulary vocabulary);

} // namespace tfm

#endif // TFM_RUNTIME_TOKENIZER_VOCABULARY_H
