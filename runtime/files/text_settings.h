//===- text_settings.h - what weights know of texts -------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Published weights come with files that say at which tokens a text ends and
// how the messages of a conversation are written. A training that begins with
// them keeps these files in its run directory.
//
//===----------------------------------------------------------------------===//

#ifndef TFM_RUNTIME_FILES_TEXT_SETTINGS_H
#define TFM_RUNTIME_FILES_TEXT_SETTINGS_H

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace tfm {

inline constexpr int64_t maxVocabulary = std::numeric_limits<int32_t>::max();

/// The folder whose tokenizer belongs to weights: they are it, or in it.
std::string folderOfWeights(const std::string &weights);

/// The tokens that end a text, of a Hugging Face folder, a run directory, a
/// file in one of these or a gguf file; ids of `vocabulary` and more are left
/// out. Without them a text would not end where it should, so what cannot be
/// read throws InputError.
std::vector<int32_t> endTokensOf(const std::string &weights,
                                 int64_t vocabulary = maxVocabulary);

/// The token that answers begin with where an encoder reads prompts, if such a
/// folder says so. Throws InputError.
std::optional<int32_t> answerBeginOf(const std::string &weights,
                                     int64_t vocabulary);

/// All that `weights`, as above, say of texts beside the tokenizer: the content
/// of the `textFiles` that a run which begins with them has. Throws InputError.
std::map<std::string, std::string>
textSettingsOf(const std::string &weights, int64_t vocabulary = maxVocabulary);

/// Says in them that answers begin with this token.
void setAnswerBegin(std::map<std::string, std::string> &settings,
                    int32_t begin);

/// Says in them that these tokens end a text, if nothing is said.
void addEndTokens(std::map<std::string, std::string> &settings,
                  const std::vector<int32_t> &ids);

} // namespace tfm

#endif // TFM_RUNTIME_FILES_TEXT_SETTINGS_H
