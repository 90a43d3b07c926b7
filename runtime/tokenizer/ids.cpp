//===- ids.cpp - text that is token ids ---------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/support/error.h"
#include "runtime/support/utf8.h"
#include "runtime/tokenizer/vocabulary.h"

#include <charconv>
#include <nlohmann/json.hpp>
#include <utility>

using nlohmann::ordered_json;

namespace tfm {

namespace {

class Ids : public Tokenizer {
public:
  Ids(int64_t count, std::string forWords)
      : count(count), forWords(std::move(forWords)) {}

  int64_t size() const override { return count; }
  bool partsAtSpace() const override { return true; }

  void encode(std::string_view text, std::vector<int32_t> &ids) const override {
    auto separates = [](char c) {
      return c == ',' || isSpace(static_cast<unsigned char>(c));
    };
    for (size_t at = 0; at < text.size();) {
      if (separates(text[at])) {
        ++at;
        continue;
      }
      size_t begin = at;
      while (at < text.size() && !separates(text[at]))
        ++at;
      std::string_view word = text.substr(begin, at - begin);
      std::optional<int32_t> id = find(word);
      if (!id)
        throw InputError("\"{}\" is not a token id: text is numbers from 0 to "
                         "{} here, as in \"15 7 7\"; for words {}",
                         replaceInvalidUtf8(word), count - 1, forWords);
      ids.push_back(*id);
    }
  }

  void decode(int32_t id, int32_t previous, std::string &bytes) const override {
    if (previous >= 0)
      bytes += ' ';
    bytes += std::to_string(id);
  }

  std::optional<int32_t> find(std::string_view token) const override {
    int32_t id = -1;
    const char *first = token.data();
    const char *end = first + token.size();
    auto [stop, error] = std::from_chars(first, end, id);
    if (error != std::errc() || stop != end || id < 0 || id >= count)
      return std::nullopt;
    return id;
  }

  /// As words between white space.
  std::string json() const override {
    Vocabulary vocabulary;
    for (int64_t id = 0; id < count; ++id)
      vocabulary.add(std::to_string(id));
    return wordsTokenizer(std::move(vocabulary), unknownWord)->json();
  }

private:
  int64_t count;
  std::string forWords;
};

} // namespace

TokenizerPtr makeIdsTokenizer(int64_t size, std::string forWords) {
  return std::make_unique<Ids>(size, std::move(forWords));
}

} // namespace tfm
