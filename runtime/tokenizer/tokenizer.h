//===- tokenizer.h - text to token ids and back -------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_RUNTIME_TOKENIZER_TOKENIZER_H
#define TFM_RUNTIME_TOKENIZER_TOKENIZER_H

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tfm {

struct TokenizerSpec;

/// A vocabulary and how text is cut into it. Immutable, safe to share between
/// threads.
class Tokenizer {
public:
  virtual ~Tokenizer() = default;

  /// Ids run from 0 to size() - 1.
  virtual int64_t size() const = 0;
  /// Appends the ids of `text` (UTF-8) to `ids`. Throws InputError naming the
  /// first character that the vocabulary lacks.
  virtual void encode(std::string_view text,
                      std::vector<int32_t> &ids) const = 0;
  /// Appends the bytes of one token behind the token `previous`, or behind
  /// nothing (-1): a word is parted from the one before it. The bytes of a
  /// token need not be whole UTF-8 characters.
  virtual void decode(int32_t id, int32_t previous,
                      std::string &bytes) const = 0;
  /// The id of a token by its own name in the vocabulary, e.g. "<PAD>".
  virtual std::optional<int32_t> find(std::string_view token) const = 0;
  /// The same, or the one token that a text is encoded to, e.g. "\n".
  std::optional<int32_t> findText(std::string_view text) const;
  /// Whether white space alone parts words: of two texts without any between
  /// them the last word and the first are one.
  virtual bool partsAtSpace() const { return false; }
  /// Tokens that a text begins with where its model was trained so: `<s>`.
  virtual std::vector<int32_t> begin() const { return {}; }
  /// In Hugging Face `tokenizer.json` form.
  virtual std::string json() const = 0;

  /// The text of a whole sequence; what is not UTF-8 in it becomes U+FFFD.
  virtual std::string text(const std::vector<int32_t> &ids) const;
  std::vector<int32_t> ids(std::string_view text) const {
    std::vector<int32_t> result;
    encode(text, result);
    return result;
  }
};

using TokenizerPtr = std::unique_ptr<Tokenizer>;

/// Every character (code point) of `characters` is a token, in that order. A
/// repeated character counts once.
TokenizerPtr makeCharsTokenizer(std::string_view characters);
/// The 256 bytes.
TokenizerPtr makeBytesTokenizer();
/// Text that is token ids already, in decimal, between white space or commas:
/// for a model that nobody gave a tokenizer. Ids run from 0 to size - 1. Who
/// gives words is told `forWords`.
TokenizerPtr
makeIdsTokenizer(int64_t size,
                 std::string forWords = "name a tokenizer with --tokenizer");

/// The text of a file, and the file's name in errors.
struct NamedText {
  std::string text;
  std::string origin;
};

/// Words between runs of white space, from a vocab.json; `<UNK>` in it stands
/// for all others.
TokenizerPtr makeWordsTokenizer(const NamedText &vocabJson);
/// Byte-level BPE of GPT-2 (Radford et al. 2019) from its two files.
TokenizerPtr makeByteBpeTokenizer(const NamedText &vocabJson,
                                  const NamedText &merges);
/// Word-level BPE with `</w>` at the end of words (Sennrich et al. 2016), from
/// its two files.
TokenizerPtr makeWordBpeTokenizer(const NamedText &vocabJson,
                                  const NamedText &merges);
/// From the text of a Hugging Face `tokenizer.json`: byte-level BPE, the BPE of
/// characters that Llama, Mistral and Gemma have, BERT's WordPiece, T5's
/// unigram model, and the forms that `json()` of the tokenizers here writes.
/// `origin` is named in errors. Any bytes are safe to pass.
TokenizerPtr parseTokenizerJson(std::string_view text,
                                const std::string &origin);

/// From the bytes of a SentencePiece model of type BPE or unigram.
TokenizerPtr parseSentencePiece(std::string_view bytes,
                                const std::string &origin);

/// Opens a tokenizer by kind; `paths` are where its files really are.
/// Kinds: chars (needs `spec.json`), bytes, words (vocab.json), gpt2
/// (vocab.json, merges.txt), bpe_words (the same), huggingface
/// (tokenizer.json), sentencepiece (a .model file), gguf (a .gguf file). An
/// embedded `spec.json` wins over files.
TokenizerPtr openTokenizer(const TokenizerSpec &spec,
                           const std::vector<std::string> &paths);

/// The tokenizer of a folder as Hugging Face has them, which has been read from
/// vocab.json and merges.txt (`isGpt2`) or tokenizer.model, with what
/// tokenizer_config.json and added_tokens.json say beside those: added tokens,
/// and one that begins a text. Null where they say nothing more. Throws
/// NotSupported for another class than GPT-2's, and where words begin with a
/// space.
TokenizerPtr asFolderSays(const std::string &folder, bool isGpt2,
                          const Tokenizer &tokenizer);

/// The size of that tokenizer. Of the large kinds made of JSON only the ids are
/// read, which takes a tenth of the time but leaves faults for `openTokenizer`
/// to find. Throws InputError.
int64_t tokenizerSize(const TokenizerSpec &spec,
                      const std::vector<std::string> &paths);

} // namespace tfm

#endif // TFM_RUNTIME_TOKENIZER_TOKENIZER_H
