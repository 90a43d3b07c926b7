//===- find_chat.h - the chat template of a command ----------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_RUNTIME_FILES_FIND_CHAT_H
#define TFM_RUNTIME_FILES_FIND_CHAT_H

#include "runtime/chat/chat_template.h"
#include "runtime/recipe.h"

namespace tfm {

/// The chat template that stands beside the tokenizer: the one that the user
/// names (`named`, may be empty), that of the weights, or the model's own; or
/// within these, in gguf files. `variables` are those of `faultOfVariables`, or
/// empty. Where a folder with a tokenizer has none, and that of another is
/// taken, a note says so if this process `speaks`. `place` becomes the folder
/// or gguf file that has it. Throws InputError where there is none.
ChatTemplate findChat(const std::string &named, const std::string &weights,
                      const Recipe &recipe, const std::string &variables,
                      bool speaks, std::string *place = nullptr);

} // namespace tfm

#endif // TFM_RUNTIME_FILES_FIND_CHAT_H
