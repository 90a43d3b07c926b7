//===- gguf_tokenizer.h - the tokenizer within a gguf file --------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_RUNTIME_TOKENIZER_GGUF_TOKENIZER_H
#define TFM_RUNTIME_TOKENIZER_GGUF_TOKENIZER_H

#include "runtime/formats/gguf.h"
#include "runtime/tokenizer/tokenizer.h"

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace tfm {

/// Whether a file has the tokens of its model (`tokenizer.ggml.tokens`).
bool hasTokenizer(const GgufReader &file);
/// How many tokens that are.
int64_t ggufTokens(const GgufReader &file);

/// The tokenizer of a file: byte-level BPE, cut as `tokenizer.ggml.pre` says,
/// or the BPE of characters that SentencePiece has. Throws NotSupported for
/// another one, and InputError.
TokenizerPtr openGgufTokenizer(const GgufReader &file);

/// What a tokenizer_config.json would say: `chat_template`, `bos_token`,
/// `eos_token`, ...
nlohmann::ordered_json ggufTokenizerConfig(const GgufReader &file);

/// The tokens that end a text: those that the file names, and those that end a
/// message by their name, as llama.cpp takes them; where its list of tokens
/// cannot be read those alone that it names.
std::vector<int32_t> ggufEndTokens(const GgufReader &file);

} // namespace tfm

#endif // TFM_RUNTIME_TOKENIZER_GGUF_TOKENIZER_H
