//===- train_word_bpe.h - learns a word-level BPE -----------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_RUNTIME_TOKENIZER_TRAIN_WORD_BPE_H
#define TFM_RUNTIME_TOKENIZER_TRAIN_WORD_BPE_H

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tfm {

/// What `bpe_words` is made of.
struct TrainedWordBpe {
  /// By id: `<PAD>`; the characters, the merged tokens, `</w>` and the letters
  /// and digits of ASCII, sorted by code point; `<UNK>`, `<CLS>`, `<SEP>`,
  /// `<start_of_turn>`, `<end_of_turn>` and the new line.
  std::vector<std::string> tokens;
  /// In the order learned.
  std::vector<std::pair<std::string, std::string>> merges;

  /// The text of vocab.json and of merges.txt.
  std::string vocabJson() const;
  std::string mergesText() const;
};

/// Byte-pair encoding of words (Sennrich, Haddow and Birch 2016): words are cut
/// at white space and end in `</w>`; the most frequent pair of adjacent tokens
/// becomes one token, `merges` times or until no pair is left. Of equally
/// frequent pairs the one that occurs first in the text wins. Takes time in
/// proportion to what changes, not to the text. Throws InputError where the
/// text is not UTF-8 or has no words.
TrainedWordBpe trainWordBpe(std::string_view text, int64_t merges);

} // namespace tfm

#endif // TFM_RUNTIME_TOKENIZER_TRAIN_WORD_BPE_H
