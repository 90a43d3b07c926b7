//===- find_tokenizer.h - the tokenizer of a command --------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_RUNTIME_FILES_FIND_TOKENIZER_H
#define TFM_RUNTIME_FILES_FIND_TOKENIZER_H

#include "runtime/recipe.h"
#include "runtime/tfm_model.h"
#include "runtime/tokenizer/tokenizer.h"

#include <string>

namespace tfm {

struct TokenizerRequest {
  /// What the user names: a tokenizer.json, a .model, a .gguf or a folder; may
  /// be empty.
  std::string named;
  /// The weights; a folder of theirs may hold their tokenizer.
  std::string weights;
  /// Text is token ids, whatever tokenizer there is.
  bool ids = false;
  /// Where there is no tokenizer, text is token ids.
  bool idsWithout = false;
};

/// The tokenizer that the user names, else the one in the folder of the
/// weights, else the model's own, else that within a gguf file of weights, else
/// token ids where they are allowed. In a folder it is tokenizer.json, or
/// vocab.json with merges.txt. Throws InputError where there is none or its
/// size does not fit the model.
TokenizerPtr findTokenizer(const tfm_model &model, const Recipe &recipe,
                           const TokenizerRequest &request);

/// Token ids that the model takes: those that it has rows for in every table
/// and loss; where it says nothing of them, that its logits tell apart. 0 where
/// it has none of these.
int64_t vocabularyOf(const tfm_model &model);

} // namespace tfm

#endif // TFM_RUNTIME_FILES_FIND_TOKENIZER_H
