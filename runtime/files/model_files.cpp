//===- model_files.cpp - the files of a published model -----------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/files/model_files.h"

#include "runtime/support/atomic_file.h"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <string_view>

namespace tfm {

namespace {

constexpr std::string_view indexName = "model.safetensors.index.json";

/// Whether a path leads to a file of a folder whose name is one of these.
bool isIn(const std::string &path, const std::string &folder,
          const std::function<bool(const std::string &)> &isOne) {
  // What cannot be listed cannot be read from either, but by its name.
  std::error_code error;
  for (auto entry = std::filesystem::directory_iterator(folder, error);
       !error && entry != std::filesystem::directory_iterator();
       entry.increment(error))
    if (isOne(entry->path().filename().string()) &&
        isSameFile(path, entry->path().string()))
      return true;
  return false;
}

/// A name as all parts of one model have it, `m-#####-of-00003.gguf`; empty
/// where it is not that of a part.
std::string nameOfParts(std::string name) {
  constexpr std::string_view ending = "-#####-of-#####.gguf";
  if (name.size() < ending.size())
    return "";
  const size_t begin = name.size() - ending.size();
  for (size_t i = 0; i < ending.size(); ++i)
    if (ending[i] == '#' ? name[begin + i] < '0' || name[begin + i] > '9'
                         : ending[i] != name[begin + i])
      return "";
  return name.replace(begin + 1, 5, "#####");
}

} // namespace

bool isReadOf(const std::string &path, const std::string &named) {
  if (isSameFile(path, named))
    return true;
  if (isFolder(named)) {
    const bool hasShards = fileExists(named + "/" + std::string(indexName));
    return isIn(path, named, [&](const std::string &name) {
      return name == "config.json" || name == "model.safetensors" ||
             name == indexName ||
             (hasShards && name.ends_with(".safetensors")) ||
             std::ranges::find(companions, name) != std::end(companions);
    });
  }
  if (named.ends_with(indexName))
    return isReadOf(path, folderOf(named));
  const std::string parts =
      nameOfParts(std::filesystem::path(named).filename().string());
  return !parts.empty() &&
         isIn(path, folderOf(named), [&](const std::string &name) {
           return nameOfParts(name) == parts;
         });
}

} // namespace tfm
