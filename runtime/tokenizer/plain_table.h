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
  size_t at = 0;
  auto skipSpace = [&] {
    while (at < text.size() && (text[at] == ' ' || text[at] == '\n' ||
                                text[at] == '\r' || text[at] == '\t'))
      ++at;
  };
  auto isNext = [&](char c) {
    skipSpace();
    bool found = at < text.size() && text[at] == c;
    at += found;
    return found;
  };
  if (!isNext('{'))
    return false;
  do {
    if (!isNext('"'))
      return false;
    size_t begin = at;
    while (at < text.size() && text[at] != '"')
      at += text[at] == '\\' ? 2 : 1;
    if (at >= text.size())
      return false;
    std::string_view token = text.substr(begin, at - begin);
    ++at;
    if (!isNext(':'))
      return false;
    skipSpace();
    const char *first = text.data() + at;
    uint64_t id = 0;
    auto [end, error] = std::from_chars(first, text.data() + text.size(), id);
    // A number with a leading zero is none of JSON's.
    if (error != std::errc() || id >= idLimit ||
        (*first == '0' && end != first + 1))
      return false;
    at += static_cast<size_t>(end - first);
    if (!entry(token, id))
      return false;
  } while (isNext(','));
  bool isWhole = isNext('}');
  skipSpace();
  return isWhole && at == text.size();
}

/// Sets `token` to what a string of JSON means that is spelt so between its
/// quotes. False where it is none, or has a character of two escapes.
bool unescape(std::string_view spelt, std::string &token);

} // namespace tfm

#endif // TFM_RUNTIME_TOKENIZER_PLAIN_TABLE_H
