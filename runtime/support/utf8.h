//===- utf8.h - code points in text -------------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_RUNTIME_SUPPORT_UTF8_H
#define TFM_RUNTIME_SUPPORT_UTF8_H

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace tfm {

/// One step through UTF-8.
struct CodePoint {
  /// The character, or -1 where the bytes are not UTF-8.
  int32_t value;
  /// Bytes to step over, at least 1: of an invalid sequence its longest prefix
  /// that could have begun a character (the replacement rule of Unicode,
  /// chapter 3.9, "maximal subpart").
  size_t bytes;
  /// Invalid only because the text ends within a character.
  bool incomplete;
};

/// The code point at `text[at]`; at < text.size().
CodePoint decodeUtf8(std::string_view text, size_t at);

/// Appends the character.
void appendUtf8(int32_t codePoint, std::string &text);

bool isUtf8(std::string_view bytes);

/// Replaces each maximal invalid part by U+FFFD.
std::string replaceInvalidUtf8(std::string_view bytes);

/// Number of code points; an invalid part counts as one.
size_t countCodePoints(std::string_view text);

/// For messages: `'x'`, or `U+0007` for what does not print.
std::string characterName(int32_t codePoint);

/// What a terminal can be given of a message that may hold anything: control
/// characters but new lines and tabs, and what is not UTF-8, become U+FFFD.
std::string printable(std::string_view message);

/// A text for messages, of one with more than `most` bytes the beginning, which
/// then ends in `...`.
std::string beginningOf(std::string_view text, size_t most = 60);

/// White space as Python's str.split() has it.
bool isSpace(int32_t codePoint);
/// White space as Unicode has it: Python's counts four more characters.
bool isWhiteSpace(int32_t codePoint);

/// Bytes of a stream, given out in whole characters.
class Utf8Stream {
public:
  /// Takes more bytes and returns all text that is complete by now.
  std::string push(std::string_view bytes);
  /// What is left at the end, its unfinished character as U+FFFD.
  std::string finish();

private:
  std::string pending;
};

} // namespace tfm

#endif // TFM_RUNTIME_SUPPORT_UTF8_H
