//===- model_files.h - the files of a published model -------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_RUNTIME_FILES_MODEL_FILES_H
#define TFM_RUNTIME_FILES_MODEL_FILES_H

#include <string>

namespace tfm {

/// What a folder has beside weights and their configuration: what belongs to a
/// tokenizer, and how texts are generated.
inline constexpr const char *companions[] = {
    "tokenizer.json",    "tokenizer.model",       "vocab.json",
    "merges.txt",        "tokenizer_config.json", "special_tokens_map.json",
    "added_tokens.json", "chat_template.jinja",   "vocab.txt",
    "spiece.model",      "generation_config.json"};

/// Whether writing `path` would destroy what is read, or may be, where `named`
/// is a file or a folder that a command was given: that file itself, what a
/// folder has of a model, by itself or its index, and all parts of a gguf file.
/// Throws InputError where the system cannot tell.
bool isReadOf(const std::string &path, const std::string &named);

} // namespace tfm

#endif // TFM_RUNTIME_FILES_MODEL_FILES_H
