//===- token_decoder.cpp - tokens as text -------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/tokenizer/token_decoder.h"

#include "runtime/tokenizer/byte_characters.h"
#include "runtime/tokenizer/steps.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

using nlohmann::json;

namespace tfm {

std::string replaceAll(std::string_view text, const std::string &from,
                       const std::string &to) {
  std::string result;
  for (size_t at = 0; at < text.size();) {
    size_t found = std::min(text.find(from, at), text.size());
    result.append(text, at, found - at);
    if (found < text.size())
      result += to;
    at = found + from.size();
  }
  return result;
}

std::pair<std::string, std::string>
readReplacement(const json &value,
                const std::function<void(const json &)> &refuse) {
  auto pattern = value.find("pattern");
  if (pattern == value.end() || !pattern->is_object() ||
      !pattern->contains("String") || !(*pattern)["String"].is_string() ||
      (*pattern)["String"].get_ref<const std::string &>().empty())
    refuse(value);
  return {(*pattern)["String"].get<std::string>(),
          value.at("content").get<std::string>()};
}

double
growthOf(const std::vector<std::pair<std::string, std::string>> &replacements) {
  double growth = 1;
  for (const auto &[from, to] : replacements)
    growth *= std::max(1.0, static_cast<double>(to.size()) /
                                static_cast<double>(from.size()));
  return growth;
}

/// The byte of `<0xE2>`; -1 for any other token.
static int byteOf(std::string_view token) {
  unsigned byte = 0;
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>')
    return -1;
  const char *first = token.data() + 3;
  const char *end = first + 2;
  if (std::from_chars(first, end, byte, 16).ptr != end)
    return -1;
  return static_cast<int>(byte);
}

/// What English does not part, in the order in which it is joined.
static std::string cleanUp(std::string text) {
  static const std::pair<const char *, const char *> joined[] = {
      {" .", "."},   {" ?", "?"},     {" !", "!"},    {" ,", ","},
      {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},  {" do not", " don't"},
      {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
  for (const auto &[from, to] : joined)
    text = replaceAll(text, from, to);
  return text;
}

TokenDecoder
TokenDecoder::read(const json &value,
                   const std::function<void(const json &)> &refuse) {
  TokenDecoder result;
  result.add(value, refuse);
  return result;
}

void TokenDecoder::add(const json &value,
                       const std::function<void(const json &)> &refuse) {
  std::string type = stepType(value);
  if (type == "Sequence") {
    for (const json &step : value.at("decoders"))
      add(step, refuse);
  } else if (type == "Metaspace") {
    auto space = value.value("replacement", "\xE2\x96\x81");
    if (space.empty())
      refuse(value);
    restore.emplace_back(space, " ");
    const std::string scheme = value.value("prepend_scheme", "always");
    if (scheme != "always" && scheme != "first" && scheme != "never")
      refuse(value);
    if (scheme != "never" && value.value("add_prefix_space", true))
      strip = " ";
  } else if (type == "Replace") {
    restore.push_back(readReplacement(value, refuse));
  } else if (type == "ByteFallback") {
    hasBytes = true;
  } else if (type == "ByteLevel") {
    byteLevel = true;
  } else if (type == "WordPiece") {
    partsWords = true;
    prefix = value.value("prefix", "##");
    cleansUp = value.value("cleanup", true);
  } else if (type == "Strip" && value.value("start", json(0)) == 1 &&
             value.value("stop", json(0)) == 0) {
    strip = value.at("content").get<std::string>();
  } else if (type != "Fuse") {
    refuse(value);
  }
}

void TokenDecoder::append(std::string_view token, bool isFirst,
                          std::string &bytes) const {
  if (hasBytes)
    if (int byte = byteOf(token); byte >= 0) {
      bytes += static_cast<char>(byte);
      return;
    }
  if (byteLevel)
    return ByteCharacters::get().append(token, bytes);
  std::string text(token);
  if (partsWords && !isFirst) {
    if (text.starts_with(prefix))
      text.erase(0, prefix.size());
    else
      text.insert(0, " ");
  }
  if (cleansUp)
    text = cleanUp(std::move(text));
  for (const auto &[from, to] : restore)
    text = replaceAll(text, from, to);
  if (isFirst && !strip.empty() && text.starts_with(strip))
    text.erase(0, strip.size());
  bytes += text;
}

} // namespace tfm
