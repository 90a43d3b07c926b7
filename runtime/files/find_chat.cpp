//===- find_chat.cpp - the chat template of a command ---------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/files/find_chat.h"

#include "runtime/files/run_folder.h"
#include "runtime/formats/gguf.h"
#include "runtime/support/atomic_file.h"
#include "runtime/support/error.h"
#include "runtime/support/progress.h"
#include "runtime/support/read_json.h"
#include "runtime/support/utf8.h"

#include <algorithm>
#include <filesystem>

namespace tfm {

/// Whether a folder has a tokenizer that another model's template may not suit:
/// a run has that of the model that it is of.
static bool hasOwnTokenizer(const std::string &folder) {
  if (holdsCheckpoint(folder) || !runAround(folder).empty())
    return false;
  return std::ranges::any_of(
      std::initializer_list<const char *>{"tokenizer.json", "tokenizer.model",
                                          "vocab.json"},
      [&](const char *name) { return fileExists(folder + "/" + name); });
}

ChatTemplate findChat(const std::string &named, const std::string &weights,
                      const Recipe &recipe, const std::string &variables,
                      bool speaks, std::string *place) {
  std::optional<ChatTemplate> found;
  std::string without, passed, foundIn;
  // What stands beside a file is there to be taken instead of its own.
  auto add = [&](const std::filesystem::path &path) {
    if (path.empty() || found)
      return;
    std::filesystem::path parent = path.parent_path();
    bool isFile = !isFolder(path) && fileExists(path.string());
    if (isFile && parent.empty())
      parent = ".";
    std::string folder = isFolder(path) ? path.string() : parent.string();
    if (!folder.empty())
      found = ChatTemplate::ofFolder(folder);
    foundIn = folder;
    if (!found && isFile && isGguf(path.string())) {
      found = ChatTemplate::ofGguf(path.string());
      foundIn = path.string();
      without = ", and " + path.string() + " has none";
    }
    if (found && !passed.empty() && speaks)
      say("note: " + printable(passed) +
          " has a tokenizer and no chat template: that of " +
          printable(folder) + " is taken\n");
    if (!found && passed.empty() && hasOwnTokenizer(folder))
      passed = folder;
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
    if (place)
      *place = foundIn;
    if (!variables.empty())
      found->setVariables(orderedJsonOf(variables));
    return std::move(*found);
  }
  throw InputError("there is no chat template: neither chat_template.jinja nor "
                   "a chat_template in tokenizer_config.json stands beside the "
                   "tokenizer{}; name its folder with --tokenizer",
                   without);
}

} // namespace tfm
