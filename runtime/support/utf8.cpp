//===- utf8.cpp - code points in text -----------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/support/utf8.h"

#include <cstdio>
#include <utf8proc.h>

namespace tfm {

namespace {
constexpr std::string_view replacement = "\xEF\xBF\xBD";
} // namespace

CodePoint decodeUtf8(std::string_view text, size_t at) {
  auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  unsigned char lead = byte(at);
  if (lead < 0x80)
    return {lead, 1, false};
  // The first continuation byte has narrower bounds after some leads: no
  // overlong forms, no surrogates, nothing above U+10FFFF.
  size_t length = 0;
  unsigned char low = 0x80, high = 0xBF;
  int32_t value = 0;
  if (lead >= 0xC2 && lead <= 0xDF) {
    length = 2;
    value = lead & 0x1F;
  } else if (lead >= 0xE0 && lead <= 0xEF) {
    length = 3;
    value = lead & 0x0F;
    if (lead == 0xE0)
      low = 0xA0;
    if (lead == 0xED)
      high = 0x9F;
  } else if (lead >= 0xF0 && lead <= 0xF4) {
    length = 4;
    value = lead & 0x07;
    if (lead == 0xF0)
      low = 0x90;
    if (lead == 0xF4)
      high = 0x8F;
  } else {
    return {-1, 1, false};
  }
  for (size_t i = 1; i < length; ++i) {
    if (at + i >= text.size())
      return {-1, i, true};
    unsigned char next = byte(at + i);
    if (next < low || next > high)
      return {-1, i, false};
    value = value << 6 | (next & 0x3F);
    low = 0x80;
    high = 0xBF;
  }
  return {value, length, false};
}

void appendUtf8(int32_t codePoint, std::string &text) {
  utf8proc_uint8_t bytes[4];
  utf8proc_ssize_t count = utf8proc_encode_char(codePoint, bytes);
  text.append(reinterpret_cast<char *>(bytes), static_cast<size_t>(count));
}

bool isUtf8(std::string_view bytes) {
  for (size_t at = 0; at < bytes.size();) {
    if (static_cast<unsigned char>(bytes[at]) < 0x80) {
      ++at; // most text, without a call
      continue;
    }
    CodePoint next = decodeUtf8(bytes, at);
    if (next.value < 0)
      return false;
    at += next.bytes;
  }
  return true;
}

std::string replaceInvalidUtf8(std::string_view bytes) {
  Utf8Stream stream;
  std::string text = stream.push(bytes);
  return text + stream.finish();
}

size_t countCodePoints(std::string_view text) {
  size_t count = 0;
  for (size_t at = 0; at < text.size(); at += decodeUtf8(text, at).bytes)
    ++count;
  return count;
}

std::string characterName(int32_t codePoint) {
  char number[16];
  std::snprintf(number, sizeof number, "U+%04X",
                static_cast<unsigned>(codePoint));
  switch (utf8proc_category(codePoint)) {
  case UTF8PROC_CATEGORY_CC:
  case UTF8PROC_CATEGORY_CF:
  case UTF8PROC_CATEGORY_CS:
  case UTF8PROC_CATEGORY_CO:
  case UTF8PROC_CATEGORY_CN:
  case UTF8PROC_CATEGORY_ZL:
  case UTF8PROC_CATEGORY_ZP:
  case UTF8PROC_CATEGORY_ZS:
    return number;
  default:
    break;
  }
  std::string text = "'";
  appendUtf8(codePoint, text);
  return text + "' (" + number + ")";
}

std::string printable(std::string_view message) {
  std::string text;
  for (size_t at = 0; at < message.size();) {
    CodePoint next = decodeUtf8(message, at);
    bool isControl =
        next.value < 0x20 || (next.value >= 0x7F && next.value < 0xA0);
    bool isPlain = !isControl || next.value == '\n' || next.value == '\t';
    text += isPlain ? message.substr(at, next.bytes) : replacement;
    at += next.bytes;
  }
  return text;
}

std::string beginningOf(std::string_view text, size_t most) {
  constexpr std::string_view cut = "...";
  if (text.size() <= most)
    return std::string(text);
  size_t end = 0; // of a whole character
  for (size_t next = 0; next <= most - cut.size();
       next += decodeUtf8(text, next).bytes)
    end = next;
  return std::string(text.substr(0, end)).append(cut);
}

bool isSpace(int32_t c) {
  return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20) || c == 0x85 ||
         c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) ||
         c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}

bool isWhiteSpace(int32_t c) { return isSpace(c) && !(c >= 0x1C && c <= 0x1F); }

std::string Utf8Stream::push(std::string_view bytes) {
  pending.append(bytes);
  std::string text;
  size_t at = 0;
  while (at < pending.size()) {
    CodePoint next = decodeUtf8(pending, at);
    if (next.incomplete)
      break;
    if (next.value < 0)
      text.append(replacement);
    else
      text.append(pending, at, next.bytes);
    at += next.bytes;
  }
  pending.erase(0, at);
  return text;
}

std::string Utf8Stream::finish() {
  // `pending` is one unfinished character: a single invalid part.
  std::string text(pending.empty() ? std::string_view() : replacement);
  pending.clear();
  return text;
}

} // namespace tfm
