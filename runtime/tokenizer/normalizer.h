//===- normalizer.h - what is done to a text before it is cut -----------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_RUNTIME_TOKENIZER_NORMALIZER_H
#define TFM_RUNTIME_TOKENIZER_NORMALIZER_H

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace tfm {

/// The `normalizer` of a tokenizer.json, as Hugging Face's tokenizers applies
/// it: Sequence, Lowercase, Prepend, Replace, Strip, StripAccents, NFC, NFD,
/// NFKC, NFKD, BertNormalizer and Precompiled (SentencePiece's table).
class Normalizer {
public:
  /// Throws InputError naming `origin` for what is not one of these.
  static Normalizer read(const nlohmann::json &value,
                         const std::string &origin);
  /// Of a text that is UTF-8.
  std::string apply(std::string_view text) const;
  /// Whether it leaves every text as it is.
  bool isNothing() const { return steps.empty(); }

private:
  std::vector<std::function<std::string(std::string)>> steps;
};

/// Of Unicode's categories P, and the punctuation of ASCII.
bool isPunctuation(int32_t codePoint);
/// Of Unicode's categories N.
bool isNumeric(int32_t codePoint);

/// Base64 (RFC 4648), in which a tokenizer.json holds bytes. `decode` throws
/// InputError naming `origin`.
std::string encodeBase64(std::string_view bytes);
std::string decodeBase64(std::string_view text, const std::string &origin);

} // namespace tfm

#endif // TFM_RUNTIME_TOKENIZER_NORMALIZER_H
