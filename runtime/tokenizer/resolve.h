//===- resolve.h - tokenizers at build time -----------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

// For the compiler, which is built without exceptions: plain strings in and
// out, nothing thrown.
//
//===----------------------------------------------------------------------===//

#ifndef TFM_RUNTIME_TOKENIZER_RESOLVE_H
#define TFM_RUNTIME_TOKENIZER_RESOLVE_H

#include <cstdint>
#include <string>

namespace tfm {

struct ResolvedTokenizer {
  /// Empty if all is well; else a sentence that names the file and the fix.
  std::string error;
  /// `tokenizer.size`.
  int64_t size = 0;
  /// For `tokenizer.json` of the recipe. Empty where the binary reads the files
  /// itself (gpt2, bpe_words, huggingface, words).
  std::string json;
};

/// Resolves a `tokenizer` block. `tokenizer` and `data` are these objects of
/// the recipe (JSON; `data` may be empty), `source` is the model's file, beside
/// which files are looked for after the working directory.
/// `chars` with no files takes the characters of `data`, else of its files.
ResolvedTokenizer resolveTokenizer(const std::string &tokenizer,
                                   const std::string &data,
                                   const std::string &source);

} // namespace tfm

#endif // TFM_RUNTIME_TOKENIZER_RESOLVE_H
