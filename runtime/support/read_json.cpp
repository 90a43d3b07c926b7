//===- read_json.cpp - JSON that others wrote ---------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/support/read_json.h"

#include "runtime/support/atomic_file.h"
#include "runtime/support/error.h"

#include <algorithm>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

using nlohmann::json;
using nlohmann::ordered_json;

namespace tfm {

static constexpr int deepest = 100;

std::string_view withoutByteOrderMark(std::string_view text) {
  constexpr std::string_view mark = "\xEF\xBB\xBF";
  return text.starts_with(mark) ? text.substr(mark.size()) : text;
}

bool isNestedDeeply(std::string_view text) {
  int depth = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (c == '"') {
      while (++i < text.size() && text[i] != '"')
        i += text[i] == '\\';
    } else if (c == '[' || c == '{') {
      if (++depth > deepest)
        return true;
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return false;
}

template <typename Json> static Json parsed(std::string_view text) {
  if (isNestedDeeply(text))
    return Json::value_t::discarded;
  return Json::parse(text, nullptr, /*allow_exceptions=*/false);
}

json jsonOf(std::string_view text) { return parsed<json>(text); }

std::string jsonText(const json &value) {
  return value.dump(-1, ' ', /*ensure_ascii=*/false,
                    json::error_handler_t::replace);
}
ordered_json orderedJsonOf(std::string_view text) {
  return parsed<ordered_json>(text);
}

ordered_json objectIn(const std::string &path, std::string_view purpose) {
  if (!folderHas(path))
    return ordered_json::object();
  const std::string text = readRegularFile(path, purpose);
  ordered_json object = orderedJsonOf(text);
  if (!object.is_object())
    throw InputError("{} {}: copy or download it again", path,
                     isNoObject(text));
  return object;
}

std::string faultOfJson(std::string_view text) {
  if (isNestedDeeply(text))
    return fmt::format("its brackets are nested more than {} deep", deepest);
  size_t at = text.size();
  try {
    (void)json::parse(text);
  } catch (const json::parse_error &error) {
    at = error.byte > 0 ? error.byte - 1 : 0;
  } catch (const json::out_of_range &) {
    return "a number in it is too large: none is read beyond 1.8e308";
  }
  size_t last = text.find_last_not_of(" \t\r\n");
  if (last == std::string_view::npos || at > last)
    return "it ends too early";
  std::string_view before = text.substr(0, at);
  auto line = 1 + std::ranges::count(before, '\n');
  size_t character = at - (before.rfind('\n') + 1) + 1;
  if (text.substr(0, last).find('\n') == std::string_view::npos)
    return fmt::format("it goes wrong at character {}", character);
  return fmt::format("it goes wrong in line {} at character {}", line,
                     character);
}

std::string isNoObject(std::string_view text) {
  auto what = [&]() -> std::string {
    switch (jsonOf(text).type()) {
    case json::value_t::discarded:
      return text.empty() ? "it is empty" : faultOfJson(text);
    case json::value_t::array:
      return "it is an array";
    case json::value_t::string:
      return "it is a string";
    case json::value_t::boolean:
      return "it is a truth value";
    case json::value_t::null:
      return "it is null";
    default:
      return "it is a number";
    }
  };
  return "is not a JSON object (" + what() + ")";
}

void refuseJson(const std::string &origin, std::string_view text) {
  throw InputError("{} is not valid JSON: {}", origin, faultOfJson(text));
}

json &placeOf(json &object, const std::string &key) {
  json *at = &object;
  for (size_t begin = 0, end = 0; end != key.size(); begin = end + 1) {
    end = std::min(key.find('.', begin), key.size());
    if (!at->is_object())
      *at = json::object();
    at = &(*at)[key.substr(begin, end - begin)];
  }
  return *at;
}

} // namespace tfm
