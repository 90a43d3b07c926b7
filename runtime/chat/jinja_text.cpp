//===- jinja_text.cpp - what Python does with texts ----------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/chat/jinja_text.h"

#include "runtime/support/utf8.h"

#include <algorithm>
#include <utf8proc.h>

namespace tfm::jinja {

/// Whether a character is one of those that `strip` takes off.
static bool isStripped(std::string_view character, const std::string *of) {
  if (of)
    return of->find(character) != std::string::npos;
  return isSpace(decodeUtf8(character, 0).value);
}

std::string strip(const std::string &text, bool left, bool right,
                  const std::string *of) {
  std::vector<std::string> characters = charactersOf(text);
  size_t begin = 0, end = characters.size();
  while (left && begin < end && isStripped(characters[begin], of))
    ++begin;
  while (right && end > begin && isStripped(characters[end - 1], of))
    --end;
  std::string result;
  for (size_t i = begin; i < end; ++i)
    result += characters[i];
  return result;
}

const std::string *strippedBy(const Value *argument) {
  return argument && !argument->is(Value::None) ? &argument->asText("`chars`")
                                                : nullptr;
}

/// The text with each character mapped, told whether a word begins there.
template <typename Map>
static std::string mapped(const std::string &text, Map map) {
  std::string result;
  bool inWord = false;
  for (const std::string &character : charactersOf(text)) {
    int32_t c = decodeUtf8(character, 0).value;
    if (c < 0) {
      result += character;
      continue;
    }
    appendUtf8(map(c, inWord), result);
    utf8proc_category_t category = utf8proc_category(c);
    inWord =
        category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO;
  }
  return result;
}

std::string replace(const std::string &text, const std::string &from,
                    const std::string &to, int64_t most) {
  std::string result;
  size_t at = 0;
  if (from.empty()) { // before every character and behind the last
    for (const std::string &character : charactersOf(text)) {
      if (most != 0) {
        result += to;
        --most;
      }
      result += character;
      requireRoom(result.size());
    }
    return most != 0 ? result + to : result;
  }
  for (size_t found = text.find(from); found != std::string::npos && most != 0;
       found = text.find(from, at), --most) {
    result.append(text, at, found - at);
    result += to;
    requireRoom(result.size());
    at = found + from.size();
  }
  return result + text.substr(at);
}

// Of two characters the other form is two, too.
std::string upper(const std::string &text) {
  return mapped(replace(text, "\u00DF", "SS", -1),
                [](int32_t c, bool) { return utf8proc_toupper(c); });
}
std::string lower(const std::string &text) {
  return mapped(replace(text, "\u0130", "i\u0307", -1),
                [](int32_t c, bool) { return utf8proc_tolower(c); });
}
std::string title(const std::string &text) {
  return mapped(text, [](int32_t c, bool inWord) {
    return inWord ? utf8proc_tolower(c) : utf8proc_totitle(c);
  });
}
std::string titleOfWords(const std::string &text) {
  bool begins = true;
  return mapped(text, [&](int32_t c, bool) {
    bool isFirst = begins;
    begins = isSpace(c) ||
             (c < 0x80 && std::string_view("-({[<").find(
                              static_cast<char>(c)) != std::string_view::npos);
    return isFirst ? utf8proc_toupper(c) : utf8proc_tolower(c);
  });
}
std::string capitalize(const std::string &text) {
  bool isFirst = true;
  return mapped(text, [&](int32_t c, bool) {
    return std::exchange(isFirst, false) ? utf8proc_totitle(c)
                                         : utf8proc_tolower(c);
  });
}

Value texts(std::vector<std::string> parts) {
  std::vector<Value> items;
  for (std::string &part : parts)
    items.push_back(Value::string(std::move(part)));
  return Value::array(std::move(items));
}

Value splitAt(const std::string &text, const Value *separator, int64_t most,
              bool fromRight) {
  std::vector<std::string> parts;
  if (!separator || separator->is(Value::None)) {
    std::vector<std::string> characters = charactersOf(text);
    for (size_t i = 0; i < characters.size();) {
      if (isStripped(characters[i], nullptr)) {
        ++i;
        continue;
      }
      std::string &word = parts.emplace_back();
      bool isLast = most >= 0 && static_cast<int64_t>(parts.size()) > most;
      while (i < characters.size() &&
             (isLast || !isStripped(characters[i], nullptr)))
        word += characters[i++];
      if (isLast)
        word = strip(word, false, true, nullptr);
    }
    return texts(std::move(parts));
  }
  const std::string &mark = separator->asText("the separator of `split`");
  if (mark.empty())
    throw Problem{"the separator of `split` is empty"};
  std::string_view rest = text;
  while (most < 0 || static_cast<int64_t>(parts.size()) < most) {
    size_t found = fromRight ? rest.rfind(mark) : rest.find(mark);
    if (found == std::string::npos)
      break;
    if (fromRight) {
      parts.emplace_back(rest.substr(found + mark.size()));
      rest.remove_suffix(rest.size() - found);
    } else {
      parts.emplace_back(rest.substr(0, found));
      rest.remove_prefix(found + mark.size());
    }
  }
  parts.emplace_back(rest);
  if (fromRight)
    std::ranges::reverse(parts);
  return texts(std::move(parts));
}

std::vector<std::string> linesOf(const std::string &text, bool withEnds) {
  std::vector<std::string> lines;
  bool isOpen = false, isReturn = false;
  for (const std::string &character : charactersOf(text)) {
    int32_t c = decodeUtf8(character, 0).value;
    bool isPair = std::exchange(isReturn, c == '\r') && c == '\n';
    bool ends = (c >= '\n' && c <= '\r') || (c >= 0x1C && c <= 0x1E) ||
                c == 0x85 || c == 0x2028 || c == 0x2029;
    if (!isPair && !std::exchange(isOpen, !ends))
      lines.emplace_back();
    if (withEnds || !ends)
      lines.back() += character;
  }
  return lines;
}

std::string join(const std::vector<Value> &items, const std::string &between) {
  std::string result;
  for (size_t i = 0; i < items.size(); ++i) {
    result += (i ? between : "") + items[i].str();
    requireRoom(result.size());
  }
  return result;
}

Value pairs(const Value &dict) {
  std::vector<Value> items;
  if (dict.is(Value::Undefined))
    return Value::array({});
  if (!dict.is(Value::Dict))
    throw Problem{std::string("a dictionary has items, not ") +
                  dict.describe()};
  for (const auto &[key, member] : *dict.dict) {
    Value pair = Value::array({key, member});
    pair.isTuple = true;
    items.push_back(std::move(pair));
  }
  return Value::array(std::move(items));
}

} // namespace tfm::jinja
