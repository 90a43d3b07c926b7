//===- plain_table.cpp - a vocabulary as files of JSON have it ----------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/tokenizer/plain_table.h"

#include "runtime/support/utf8.h"

namespace tfm {

/// The character of `\uXXXX` behind its `u`; -1 for half of one, and for what
/// is none.
static int32_t escapedCharacter(std::string_view text) {
  uint32_t value = 0;
  if (text.size() < 4)
    return -1;
  const char *end = text.data() + 4;
  if (std::from_chars(text.data(), end, value, 16).ptr != end ||
      (value >= 0xD800 && value < 0xE000))
    return -1;
  return static_cast<int32_t>(value);
}

bool unescape(std::string_view spelt, std::string &text) {
  for (size_t at = 0; at < spelt.size();) {
    size_t begin = at;
    while (at < spelt.size() && spelt[at] != '\\') {
      auto c = static_cast<unsigned char>(spelt[at]);
      if (c < 0x20)
        return false;
      if (c < 0x80) {
        ++at;
        continue;
      }
      CodePoint character = decodeUtf8(spelt, at);
      if (character.value < 0)
        return false;
      at += character.bytes;
    }
    text.append(spelt, begin, at - begin);
    if (at == spelt.size())
      break;
    if (at + 1 == spelt.size())
      return false;
    char kind = spelt[at + 1];
    at += 2;
    if (kind == 'u') {
      int32_t character = escapedCharacter(spelt.substr(at));
      if (character < 0)
        return false;
      appendUtf8(character, text);
      at += 4;
      continue;
    }
    constexpr std::string_view kinds = "\"\\/bfnrt";
    constexpr std::string_view meant = "\"\\/\b\f\n\r\t";
    size_t which = kinds.find(kind);
    if (which == std::string_view::npos)
      return false;
    text += meant[which];
  }
  return true;
}

} // namespace tfm
