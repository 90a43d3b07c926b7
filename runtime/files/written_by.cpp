//===- written_by.cpp - which command wrote a file of tensors -----------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/files/written_by.h"

#include "runtime/formats/safetensors.h"
#include "runtime/support/atomic_file.h"
#include "runtime/support/error.h"

namespace tfm {

/// Whether a file looks as an earlier version wrote it, which did not say what
/// command that was.
static bool isOfEarlierVersion(const TensorHeader &file,
                               const std::string &command) {
  const bool isExport = file.metadata.contains("format");
  if (command == "export")
    return file.metadata.contains("tfm.exported") ||
           (isExport && file.metadata.contains("model"));
  return !isExport && file.metadata.contains("model") &&
         file.tensors.contains("logits") == (command == "logits");
}

bool isWrittenBy(const std::string &path, const std::string &command) {
  try {
    const SafetensorsReader file(path);
    const auto &metadata = file.header().metadata;
    auto found = metadata.find(writtenByKey);
    if (found != metadata.end())
      return found->second == command;
    return isOfEarlierVersion(file.header(), command);
  } catch (const InputError &) {
    return false; // there is none, or one of another kind
  }
}

void requireNoOtherKind(const std::string &path) {
  for (const char *ending : {".gguf", ".npy", ".npz", ".bin", ".pt", ".pth",
                             ".h5", ".json", ".jsonl", ".csv"})
    if (path.ends_with(ending))
      throw InputError("{}: what is written is no {} file, but a safetensors "
                       "one: name it .safetensors",
                       path, ending);
}

void requireWrittenBy(const std::string &path, const std::string &command,
                      const std::string &advice) {
  if (isRegularFile(path) && !readFile(path, "the file", 1).empty() &&
      !isWrittenBy(path, command))
    throw InputError(
        "{} is not known to be written by `{}`, and would be lost: {}", path,
        command, advice);
}

} // namespace tfm
