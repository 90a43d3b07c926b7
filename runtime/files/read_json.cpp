//===- read_json.cpp - JSON that others wrote ---------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/files/read_json.h"

#include <nlohmann/json.hpp>

using nlohmann::json;

namespace tfm {

static constexpr int deepest = 100;

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

json jsonOf(std::string_view text) {
  if (isNestedDeeply(text))
    return json::value_t::discarded;
  return json::parse(text, nullptr, /*allow_exceptions=*/false);
}

} // namespace tfm
