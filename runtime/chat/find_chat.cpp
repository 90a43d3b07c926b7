//===- find_chat.cpp - the chat template of a command ---------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/chat/find_chat.h"

#include "runtime/error.h"
#include "runtime/files/atomic_file.h"
#include "runtime/files/gguf.h"
#include "runtime/files/read_json.h"

#include <filesystem>

namespace tfm {

ChatTemplate findChat(const std::string &named, const std::string &weights,
                      const Recipe &recipe, const std::string &variables) {
  std::optional<ChatTemplate> found;
  std::string without;
  // What stands beside a file is there to be taken instead of its own.
  auto add = [&](const std::filesystem::path &path) {
    if (path.empty() || found)
      return;
    std::filesystem::path parent = path.parent_path();
    bool isFile = !isFolder(path) && fileExists(path.string());
    if (isFile && parent.empty())
      parent = ".";
    if (std::string folder = isFolder(path) ? path.string() : parent.string();
        !folder.empty())
      found = ChatTemplate::ofFolder(folder);
    if (!found && isFile && isGguf(path.string())) {
      found = ChatTemplate::ofGguf(path.string());
      without = ", and " + path.string() + " has none";
    }
  };
  add(named);
  if (isFolder(weights) || isGguf(weights))
    add(weights);
  if (!recipe.tokenizer.files.empty()) {
    add(recipe.tokenizer.files[0]);
    add(std::filesystem::path(recipe.tokenizer.directory) /
        recipe.tokenizer.files[0]);
  }
  if (found) {
    if (!variables.empty())
      found->setVariables(orderedJsonOf(variables));
    return std::move(*found);
  }
  throw InputError("there is no chat template: neither chat_template.jinja nor "
                   "a chat_template in tokenizer_config.json stands beside the "
                   "tokenizer" +
                   without + "; name its folder with --tokenizer");
}

} // namespace tfm
