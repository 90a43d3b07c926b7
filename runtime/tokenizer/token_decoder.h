//===- token_decoder.h - tokens as text ---------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_RUNTIME_TOKENIZER_TOKEN_DECODER_H
#define TFM_RUNTIME_TOKENIZER_TOKEN_DECODER_H

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tfm {

/// The `decoder` of a tokenizer.json: Sequence, ByteFallback, ByteLevel, Fuse,
/// Metaspace, Replace, Strip (of the beginning) and WordPiece.
class TokenDecoder {
public:
  /// Calls `refuse`, which does not return, with what is not one of these.
  static TokenDecoder
  read(const nlohmann::json &value,
       const std::function<void(const nlohmann::json &)> &refuse);
  /// Appends the bytes of a token, of the first one of a text or a further one.
  void append(std::string_view token, bool isFirst, std::string &bytes) const;

  /// Texts in tokens, and what they become.
  const std::vector<std::pair<std::string, std::string>> &replacements() const {
    return restore;
  }

private:
  void add(const nlohmann::json &value,
           const std::function<void(const nlohmann::json &)> &refuse);

  std::vector<std::pair<std::string, std::string>> restore;
  bool hasBytes = false;  ///< the tokens <0x00>, ... are bytes
  bool byteLevel = false; ///< characters stand for bytes
  std::string strip;      ///< taken from the beginning of a decoded text
  bool partsWords = false;
  std::string prefix; ///< of tokens that go on with a word
  bool cleansUp = false;
};

/// The text with every `from` in it replaced.
std::string replaceAll(std::string_view text, const std::string &from,
                       const std::string &to);

/// Of a Replace of a text by another: both; calls `refuse` for any other.
std::pair<std::string, std::string>
readReplacement(const nlohmann::json &value,
                const std::function<void(const nlohmann::json &)> &refuse);

/// How many times as long a text may become by replacements one after the
/// other.
double
growthOf(const std::vector<std::pair<std::string, std::string>> &replacements);

} // namespace tfm

#endif // TFM_RUNTIME_TOKENIZER_TOKEN_DECODER_H
