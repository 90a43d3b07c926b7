//===- Tokenizers.h - the vocabulary while compiling ------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Files are read by the runtime, so that what compiles can be opened by the
// binary, and has the size that it had here. Nothing throws.
//
//===----------------------------------------------------------------------===//

#ifndef TFM_FRONTEND_RECIPE_TOKENIZERS_H
#define TFM_FRONTEND_RECIPE_TOKENIZERS_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace tfm {

struct DataSpec;
class Tokenizer;

/// What compiling needs to know about a tokenizer.
struct TokenizerInfo {
  /// `chars`, `bytes`, `words`, `bpe_words`, `huggingface`, `gpt2`,
  /// `sentencepiece`, `gguf`.
  std::string kind;
  std::vector<std::string> files;
  /// Where these are.
  std::vector<std::string> paths;
  int64_t size = 0;
  /// `chars`: the alphabet, one UTF-8 character an entry, by id.
  std::vector<std::string> alphabet;
  /// The tokenizer itself, from when it is first needed.
  mutable std::shared_ptr<const Tokenizer> opened;
};

/// The different characters (Unicode code points) of a data source, in their
/// order: the vocabulary that nanoGPT builds. Fails with the file and line of
/// what cannot be read.
llvm::Expected<std::vector<std::string>> learnAlphabet(const DataSpec &data);

/// The characters of `text` in their order; fails when one occurs twice.
llvm::Expected<std::vector<std::string>> orderedAlphabet(llvm::StringRef text);

/// The size of a tokenizer of files; `open`: after all of them have been read
/// and checked. Fails with the file that is at fault.
llvm::Expected<int64_t> tokenizerSize(const TokenizerInfo &tokenizer,
                                      bool open);

/// The id of the one token that a text is; nothing where it is none, or
/// several. Fails with the file that is at fault.
llvm::Expected<std::optional<int64_t>> findToken(const TokenizerInfo &tokenizer,
                                                 llvm::StringRef text);

/// A character tokenizer in Hugging Face `tokenizer.json` form.
std::string charsTokenizerJson(llvm::ArrayRef<std::string> alphabet);

} // namespace tfm

#endif // TFM_FRONTEND_RECIPE_TOKENIZERS_H
