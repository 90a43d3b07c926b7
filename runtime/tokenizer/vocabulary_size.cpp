//===- vocabulary_size.cpp - how many tokens a vocabulary has -----------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/support/error.h"
#include "runtime/support/read_json.h"
#include "runtime/tokenizer/plain_table.h"

#include <algorithm>
#include <nlohmann/json.hpp>

using nlohmann::json;

namespace tfm {

namespace {

/// Follows the parser through a file and looks at the ids alone: those of the
/// table at the top, or of `model.vocab` and `added_tokens`.
class IdReader : public nlohmann::json_sax<json> {
public:
  IdReader(bool isTable, const std::string &origin)
      : isTable(isTable), origin(origin) {}

  bool key(std::string &name) override {
    if (depth <= 2)
      keys[depth] = name;
    token = name;
    return true;
  }
  bool start_object(size_t) override { return open(); }
  bool start_array(size_t) override {
    // An entry of a unigram model: a token and its score.
    if (depth == 3 && !isTable && keys[1] == "model" && keys[2] == "vocab")
      size = std::max(size, ++entries);
    if (depth < 2)
      keys[depth + 1].clear();
    return open();
  }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool number_unsigned(uint64_t value) override {
    if (isId()) {
      if (value >= idLimit)
        failTooLarge(name(), origin);
      size = std::max(size, static_cast<int64_t>(value) + 1);
    }
    return true;
  }
  bool number_integer(int64_t) override { return other(); }
  bool number_float(double, const std::string &) override { return other(); }
  bool string(std::string &) override { return other(); }
  bool boolean(bool) override { return other(); }
  bool null() override { return other(); }
  bool binary(json::binary_t &) override { return other(); }
  bool parse_error(size_t, const std::string &,
                   const json::exception &) override {
    return false;
  }

  int64_t size = 0;

private:
  bool isId() const {
    if (isTable)
      return depth == 1;
    return depth == 3 && ((keys[1] == "model" && keys[2] == "vocab") ||
                          (keys[1] == "added_tokens" && token == "id"));
  }
  /// Of an added token the content may come later.
  std::string name() const {
    return isTable || keys[1] == "model" ? "the token \"" + token + "\""
                                         : "an added token";
  }
  bool open() {
    ++depth;
    return true;
  }
  bool close() {
    --depth;
    return true;
  }
  /// A value that is no id. What else is wrong with it, opening will tell.
  bool other() const {
    if (isId())
      failNoNumber(name(), origin);
    return true;
  }

  bool isTable;
  const std::string &origin;
  int depth = 0;
  /// The members that lead to a value, by depth.
  std::string keys[3];
  std::string token;
  int64_t entries = 0;
};

} // namespace

int64_t vocabularySize(std::string_view text, bool isTable,
                       const std::string &origin) {
  if (isTable) {
    int64_t size = 0;
    bool isPlain = readPlainTable(text, [&](std::string_view, uint64_t id) {
      size = std::max(size, static_cast<int64_t>(id) + 1);
      return true;
    });
    if (isPlain)
      return size;
  }
  IdReader reader(isTable, origin);
  if (!json::sax_parse(text, &reader))
    refuseJson(origin, text);
  if (reader.size == 0)
    throw InputError("{}: the vocabulary is not a table of token to id",
                     origin);
  return reader.size;
}

} // namespace tfm
