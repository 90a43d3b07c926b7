//===- Source.h - source text and places in it ------------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_FRONTEND_SOURCE_H
#define TFM_FRONTEND_SOURCE_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace tfm {

/// Bytes `begin <= offset < end` of a file of the `SourceManager`.
struct Range {
  uint32_t file = 0;
  uint32_t begin = 0;
  uint32_t end = 0;

  /// From the start of this range to the end of `other`, in the same file.
  Range to(Range other) const { return {file, begin, other.end}; }
  bool operator==(const Range &other) const = default;
};

/// One source text with its name as the user gave it.
class SourceFile {
public:
  SourceFile(std::string name, std::string text, bool isArgument = false);

  llvm::StringRef name() const { return fileName; }
  llvm::StringRef text() const { return contents; }
  /// Whether this is an argument of the command line, `width=8` of `-D
  /// width=8`, which has no lines.
  bool isArgument() const { return argument; }
  /// Line number of a byte, from 1.
  unsigned line(uint32_t offset) const;
  /// Column of a byte, from 1, counted in Unicode code points.
  unsigned column(uint32_t offset) const;
  /// The text of a line (from 1), without its end.
  llvm::StringRef lineText(unsigned line) const;
  /// Byte where a line (from 1) starts.
  uint32_t lineStart(unsigned line) const { return starts[line - 1]; }

private:
  std::string fileName;
  std::string contents;
  bool argument;
  std::vector<uint32_t> starts;
  /// Bytes that begin no code point, ascending: columns are asked for once for
  /// every op, and a line may be as long as the file.
  std::vector<uint32_t> inner;
};

/// Owns every source text of a compilation. Files are numbered from 0.
class SourceManager {
public:
  /// Adds a text under a name; returns its number. The same text under the same
  /// name is there once.
  uint32_t add(llvm::StringRef name, llvm::StringRef text);
  /// Adds what follows `-D ` on the command line.
  uint32_t addDefine(llvm::StringRef text);
  /// Reads a file (`-` is standard input) and adds it; fails with the system's
  /// message, or where it is not a text, or a very large one.
  llvm::Expected<uint32_t> load(llvm::StringRef path);

  /// Notes a file that the texts name: data, or one of a tokenizer.
  void addNamed(llvm::StringRef path) { named.push_back(path.str()); }
  const std::vector<std::string> &namedFiles() const { return named; }

  const SourceFile &file(uint32_t id) const { return *files[id]; }
  size_t size() const { return files.size(); }
  unsigned line(Range range) const {
    return file(range.file).line(range.begin);
  }
  /// The text that a range covers.
  llvm::StringRef text(Range range) const {
    return file(range.file).text().slice(range.begin, range.end);
  }

private:
  uint32_t add(llvm::StringRef name, llvm::StringRef text, bool isArgument);

  std::vector<std::unique_ptr<SourceFile>> files;
  std::vector<std::string> named;
};

} // namespace tfm

#endif // TFM_FRONTEND_SOURCE_H
