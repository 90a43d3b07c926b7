//===- recipe_table.cpp - every key of a recipe, in words ---------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/recipe_table.h"

#include <cctype>
#include <cmath>
#include <fmt/format.h>

namespace tfm::recipe {

namespace {

std::string takesInteger(const Range &range) {
  if (!std::isinf(range.most))
    return fmt::format("an integer from {:.0f} to {:.0f}", range.least,
                       range.most);
  return range.least <= 0
             ? "an integer that is not negative"
             : fmt::format("an integer of at least {:g}", range.least);
}

std::string takesNumber(const Range &range) {
  if (range.isOpen)
    return "a positive number";
  if (std::isinf(range.most))
    return fmt::format("a number of at least {:g}", range.least);
  if (range.most == belowOne)
    return fmt::format("a number of at least {:g} and less than 1",
                       range.least);
  return fmt::format("a number between {:g} and {:g}", range.least, range.most);
}

/// `a`, `b` or `"1-c"`: what is no name stands in quotes.
std::string takesWord(std::string_view words) {
  std::string all;
  while (!words.empty()) {
    std::string_view word = words.substr(0, words.find(' '));
    words.remove_prefix(std::min(words.size(), word.size() + 1));
    bool isName = std::isalpha(static_cast<unsigned char>(word[0]));
    all += (all.empty()     ? "`"
            : words.empty() ? " or `"
                            : ", `") +
           (isName ? std::string(word) : fmt::format("\"{}\"", word)) + "`";
  }
  return all;
}

} // namespace

std::string takes(const Field &field) {
  std::string none = field.orNone ? ", or none" : "";
  switch (field.type) {
  case Type::Integer:
    return takesInteger(field.range) + none;
  case Type::Number:
    return takesNumber(field.range) + (field.orNone ? " or none" : "");
  case Type::Flag:
    return "true or false";
  case Type::Word:
    return takesWord(field.words) + none;
  case Type::Text:
    return "a string" + none;
  case Type::Texts:
    return "strings";
  case Type::Pairs:
    return "pairs of a pattern and a positive number";
  case Type::Token:
    return "a token's id, its text, or none";
  case Type::Betas:
    return "two numbers of at least 0 and less than 1";
  case Type::Rank:
    return "`rank >= N` or `all`";
  case Type::Form:
  case Type::Json:
    break;
  }
  return "";
}

} // namespace tfm::recipe
