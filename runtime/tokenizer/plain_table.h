//===- plain_table.h - a vocabulary as files of JSON have it ------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A vocab.json is one table of token to id. Read by itself it takes the tenth
// of the time that a parser needs, and it is the only large file that
// compiling and starting read. Whatever is not as plain as that is left to the
// parser, which also says what is wrong.
//
//===----------------------------------------------------------------------===//

#ifndef TFM_RUNTIME_TOKENIZER_PLAIN_TABLE_H
#define TFM_RUNTIME_TOKENIZER_PLAIN_TABLE_H

#include "runtime/tokenizer/vocabulary.h"

#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>

namespace tfm {

/// Calls `entry(token, id)` for each entry of `{"token": id, ...}`: the token
/// as it is spelt between the quotes, ids below `idLimit`. False where the
/// text is anything else (perhaps after some entries), or `entry` returns it.
template <typename Entry>
bool readPlainTable(std::string_view text, Entry entry) {
  const char *at = text.data();
  const char *const end = at + text.size();
  auto skipSpace = [&] {
    while (at < end &&
           (*at == ' ' || *at == '\n' || *at == '\r' || *at == '\t'))
      ++at;
  };
  auto isNext = [&](char c) {
    skipSpace();
    bool found = at < end && *at == c;
    at += found;
    return found;
  };
  if (!isNext('{'))
    return false;
  do {
    if (!isNext('"'))
      return false;
    const char *begin = at;
    while (at < end && *at != '"') {
      // A branch: the next step must not have to wait for this comparison.
      if (*at == '\\' && at + 1 < end) [[unlikely]]
        ++at;
      ++at;
    }
    if (at == end)
      return false;
    std::string_view token(begin, static_cast<size_t>(at - begin));
    ++at;
    if (!isNext(':'))
      return false;
    skipSpace();
    const char *first = at;
    uint32_t id = 0; // idLimit is far below its largest
    auto [behind, error] = std::from_chars(first, end, id);
    // A number with a leading zero is none of JSON's.
    if (error != std::errc() || id >= idLimit ||
        (*first == '0' && behind != first + 1))
      return false;
    at = behind;
    if (!entry(token, id))
      return false;
  } while (isNext(','));
  bool isWhole = isNext('}');
  skipSpace();
  return isWhole && at == end;
}

/// Appends what a string of JSON means that is spelt so between its quotes.
/// False where it is none, or has a character of two escapes.
bool unescape(std::string_view spelt, std::string &text);

} // namespace tfm

#endif // TFM_RUNTIME_TOKENIZER_PLAIN_TABLE_H
