//===- Tokenizers.h - the vocabulary while compiling ------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_FRONTEND_TOKENIZERS_H
#define TFM_FRONTEND_TOKENIZERS_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tfm {

/// What compiling needs to know about a tokenizer.
struct TokenizerInfo {
  /// `chars`, `bytes`, `words`, `bpe_words`, `huggingface`, `gpt2`,
  /// `sentencepiece`.
  std::string kind;
  std::vector<std::string> files;
  int64_t size = 0;
  /// `chars`: the alphabet, one UTF-8 character an entry, by id.
  std::vector<std::string> alphabet;
};

/// The characters (Unicode code points) of a text, each once, in the order of
/// their code points: the vocabulary that nanoGPT builds.
std::vector<std::string> collectAlphabet(llvm::StringRef text);

/// The characters of `text` in their order; fails when one occurs twice.
llvm::Expected<std::vector<std::string>> orderedAlphabet(llvm::StringRef text);

/// Number of entries of a JSON object `{"token": id, ...}` without building
/// it: GPT-2's vocabulary takes about a millisecond. Fails when the text is no
/// such object.
llvm::Expected<int64_t> countVocabulary(llvm::StringRef json);

/// Highest id of a `tokenizer.json` (vocabulary and added tokens) plus one.
llvm::Expected<int64_t> countHuggingFace(llvm::StringRef json);

/// Number of pieces of a SentencePiece model (a protobuf).
llvm::Expected<int64_t> countSentencePiece(llvm::StringRef model);

/// A character tokenizer in Hugging Face `tokenizer.json` form.
std::string charsTokenizerJson(llvm::ArrayRef<std::string> alphabet);

} // namespace tfm

#endif // TFM_FRONTEND_TOKENIZERS_H
