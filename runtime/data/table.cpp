//===- table.cpp - tables as spreadsheets write them --------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/data/table.h"

#include "runtime/support/error.h"

#include <algorithm>
#include <cctype>

namespace tfm {

std::optional<char> tableSeparator(std::string_view path) {
  std::string ending(
      path.substr(path.size() - std::min<size_t>(path.size(), 4)));
  std::ranges::transform(ending, ending.begin(), [](unsigned char c) {
    return static_cast<char>(std::tolower(c));
  });
  if (ending == ".csv")
    return ',';
  if (ending == ".tsv")
    return '\t';
  return std::nullopt;
}

/// What is done about a quote that was not meant to open a cell.
static const char *const quoteAdvice =
    ": a text that begins with a quote stands between quotes, with each of its "
    "own twice, as in \"\"\"Yes\"\", she said\"";

std::vector<std::string> TableReader::next() {
  while (takeLineEnd())
    ;
  std::vector<std::string> cells;
  begin = current;
  if (rest.empty())
    return cells;
  for (;;) {
    const bool isQuoted = rest.starts_with('"');
    const size_t opened = current;
    cells.push_back(cell());
    if (rest.empty() || takeLineEnd())
      return cells;
    if (rest.front() == separator)
      rest.remove_prefix(1);
    else if (isQuoted)
      fail(opened,
           "a quote opens a cell here, and behind the one that closes it" +
               (current == opened
                    ? ""
                    : ", in line " + std::to_string(current) + ",") +
               " stands something else than a " +
               (separator == ',' ? "comma" : "tab") +
               " or the end of the line" + quoteAdvice);
    else
      fail(current, "a line ends in CR alone: save the file with LF or CR LF "
                    "at the ends of its lines");
  }
}

std::string TableReader::cell() {
  if (!rest.starts_with('"')) {
    const char ends[] = {separator, '\r', '\n'};
    size_t end = std::min(rest.find_first_of({ends, 3}), rest.size());
    std::string text(rest.substr(0, end));
    rest.remove_prefix(end);
    return text;
  }
  const size_t opened = current;
  std::string text;
  for (;;) {
    rest.remove_prefix(1);
    size_t end = rest.find('"');
    if (end == std::string_view::npos)
      fail(opened, std::string("the quote that opens a cell here is never "
                               "closed") +
                       quoteAdvice);
    std::string_view part = rest.substr(0, end);
    current += static_cast<size_t>(std::ranges::count(part, '\n'));
    text += part;
    rest.remove_prefix(end + 1);
    if (!rest.starts_with('"'))
      return text;
    text += '"';
  }
}

bool TableReader::takeLineEnd() {
  // A file may end within a line's end.
  size_t length = rest.starts_with('\n')     ? 1
                  : rest.starts_with("\r\n") ? 2
                  : rest == "\r"             ? 1
                                             : 0;
  rest.remove_prefix(length);
  current += length > 0;
  return length > 0;
}

void TableReader::fail(size_t at, const std::string &what) const {
  throw InputError("{}:{}: {}", path, at, what);
}

} // namespace tfm
