//===- Source.cpp - source text and places in it --------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/frontend/Source.h"

#include "runtime/support/utf8.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/Support/FileSystem.h"

#include <algorithm>

using namespace tfm;

/// Far more than any model has, and less than places in it (32 bits) reach.
static constexpr size_t largestFile = 16 << 20;

SourceFile::SourceFile(std::string name, std::string text, bool isArgument)
    : fileName(std::move(name)), contents(std::move(text)),
      argument(isArgument) {
  starts.push_back(0);
  for (uint32_t i = 0; i < contents.size();) {
    if (contents[i] == '\n')
      starts.push_back(i + 1);
    uint32_t next = i + decodeUtf8(contents, i).bytes;
    while (++i < next)
      inner.push_back(i);
  }
}

unsigned SourceFile::line(uint32_t offset) const {
  return std::upper_bound(starts.begin(), starts.end(), offset) -
         starts.begin();
}

unsigned SourceFile::column(uint32_t offset) const {
  uint32_t start = starts[line(offset) - 1];
  auto innerBefore = [&](uint32_t at) {
    return std::lower_bound(inner.begin(), inner.end(), at) - inner.begin();
  };
  return offset - start - (innerBefore(offset) - innerBefore(start)) + 1;
}

llvm::StringRef SourceFile::lineText(unsigned line) const {
  uint32_t start = starts[line - 1];
  size_t end = line < starts.size() ? starts[line] - 1 : contents.size();
  return text().slice(start, end).rtrim("\r\n");
}

uint32_t SourceManager::add(llvm::StringRef name, llvm::StringRef text,
                            bool isArgument) {
  for (auto [id, known] : llvm::enumerate(files))
    if (known->name() == name && known->text() == text)
      return id;
  files.push_back(
      std::make_unique<SourceFile>(name.str(), text.str(), isArgument));
  return files.size() - 1;
}

uint32_t SourceManager::add(llvm::StringRef name, llvm::StringRef text) {
  return add(name, text, /*isArgument=*/false);
}

uint32_t SourceManager::addDefine(llvm::StringRef text) {
  return add("-D " + text.str(), text, /*isArgument=*/true);
}

/// The bytes of a file, or the first of them where they are too many: some
/// devices never end.
static llvm::Expected<std::string> readText(llvm::StringRef path) {
  llvm::sys::fs::file_t file = llvm::sys::fs::getStdinHandle();
  if (path != "-") {
    auto opened = llvm::sys::fs::openNativeFileForRead(path);
    if (!opened)
      return opened.takeError();
    file = *opened;
  }
  llvm::scope_exit close([&] {
    if (path != "-")
      llvm::sys::fs::closeFile(file);
  });
  std::string text;
  char chunk[1 << 14];
  while (text.size() <= largestFile) {
    llvm::Expected<size_t> count = llvm::sys::fs::readNativeFile(file, chunk);
    if (!count)
      return count.takeError();
    if (*count == 0)
      break;
    text.append(chunk, *count);
  }
  return text;
}

llvm::Expected<uint32_t> SourceManager::load(llvm::StringRef path) {
  llvm::Expected<std::string> read = readText(path);
  if (!read)
    return read.takeError();
  std::string text = std::move(*read);
  // Programs and weights; no text has such a byte, whatever its encoding.
  if (llvm::StringRef(text).contains('\0'))
    return llvm::createStringError("this is not a text file");
  if (text.size() > largestFile)
    return llvm::createStringError("this is no model: it has more than 16 MiB");
  // Old editors ended lines with a carriage return alone.
  for (size_t i = 0; i < text.size(); ++i)
    if (text[i] == '\r' && (i + 1 == text.size() || text[i + 1] != '\n'))
      text[i] = '\n';
  return add(path == "-" ? "<stdin>" : path, text);
}
