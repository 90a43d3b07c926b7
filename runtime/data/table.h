//===- table.h - tables as spreadsheets write them ----------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_RUNTIME_DATA_TABLE_H
#define TFM_RUNTIME_DATA_TABLE_H

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tfm {

/// What stands between the columns of a table, by how its file's name ends, in
/// letters of either case: a comma (.csv) or a tab (.tsv); nothing of another
/// file.
std::optional<char> tableSeparator(std::string_view path);

/// Reads a table row by row (RFC 4180): what stands between quotes may have
/// separators, line breaks and quotes, each of these written twice; a quote
/// that does not begin a cell is a character like any other. Lines end in LF or
/// CR LF, and empty ones are no rows. It is one of our own, because the small
/// ones there are take no line break between quotes (fast-cpp-csv-parser), or
/// do not say in which line a fault is (libcsv).
class TableReader {
public:
  /// `path` is for messages. Both stay the caller's.
  TableReader(const std::string &path, std::string_view text, char separator)
      : path(path), rest(text), separator(separator) {}

  /// The cells of the next row; none at the end. Throws InputError that names
  /// the file and the line where a quote is not closed, something else than a
  /// separator follows one that closes, or a line ends in CR alone.
  std::vector<std::string> next();

  /// The line in which the last row begins, from 1.
  size_t line() const { return begin; }

private:
  std::string cell();
  /// Takes a line's end, where there is one.
  bool takeLineEnd();
  [[noreturn]] void fail(size_t at, const std::string &what) const;

  const std::string &path;
  std::string_view rest;
  char separator;
  size_t current = 1; ///< line
  size_t begin = 0;
};

} // namespace tfm

#endif // TFM_RUNTIME_DATA_TABLE_H
