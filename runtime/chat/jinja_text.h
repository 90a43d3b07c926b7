//===- jinja_text.h - what Python does with texts ------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Filters and methods have these in common.
//
//===----------------------------------------------------------------------===//

#ifndef TFM_RUNTIME_CHAT_JINJA_TEXT_H
#define TFM_RUNTIME_CHAT_JINJA_TEXT_H

#include "runtime/chat/jinja_value.h"

#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tfm::jinja {

/// Without the characters of `of`, or blanks where that is null, at its ends.
std::string strip(const std::string &text, bool left, bool right,
                  const std::string *of);
/// The characters that an argument has taken off; null for blanks.
const std::string *strippedBy(const Value *argument);

/// With up to `most` of `from` replaced; less than 0: all.
std::string replace(const std::string &text, const std::string &from,
                    const std::string &to, int64_t most);

std::string upper(const std::string &text);
std::string lower(const std::string &text);
std::string title(const std::string &text);
/// The filter, which has its own idea of where a word begins: behind a blank or
/// one of `-({[<`.
std::string titleOfWords(const std::string &text);
std::string capitalize(const std::string &text);

/// A list of these.
Value texts(std::vector<std::string> parts);
/// The parts of a text between separators, or words where there is none.
Value splitAt(const std::string &text, const Value *separator, int64_t most,
              bool fromRight);
/// The lines of a text, which end where Python's do, each with its end if
/// `withEnds`.
std::vector<std::string> linesOf(const std::string &text,
                                 bool withEnds = false);
std::string join(const std::vector<Value> &items, const std::string &between);

/// The items of a dictionary, as pairs.
Value pairs(const Value &dict);

/// The number that a text is, as Python reads it: blanks around it, a sign
/// before it.
template <typename Number>
std::optional<Number> numberIn(const std::string &text) {
  std::string bare = strip(text, true, true, nullptr);
  if (bare.starts_with('+') && !bare.starts_with("+-"))
    bare.erase(0, 1);
  Number number = 0;
  const char *end = bare.data() + bare.size();
  auto read = std::from_chars(bare.data(), end, number);
  return !bare.empty() && read.ec == std::errc() && read.ptr == end
             ? std::optional(number)
             : std::nullopt;
}

} // namespace tfm::jinja

#endif // TFM_RUNTIME_CHAT_JINJA_TEXT_H
