//===- cutter.h - cuts a text as a tokenizer.json says ------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_RUNTIME_TOKENIZER_CUTTER_H
#define TFM_RUNTIME_TOKENIZER_CUTTER_H

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace tfm {

/// A part of a text that its model turns into tokens alone.
struct Piece {
  std::string text;
  /// Whether it stands at the beginning of the whole text.
  bool isFirst = false;
};

/// The `pre_tokenizer` of a tokenizer.json, as Hugging Face's tokenizers
/// applies it: Sequence, BertPreTokenizer, ByteLevel, Digits, Metaspace,
/// Punctuation, Split and WhitespaceSplit.
class Cutter {
public:
  /// Throws InputError naming `origin` for what is not one of these.
  static Cutter read(const nlohmann::json &value, const std::string &origin);
  /// Of a text that is UTF-8.
  std::vector<Piece> cut(Piece text) const;
  /// Whether a step turns bytes into characters (ByteLevel).
  bool hasBytes() const { return bytes; }

private:
  void add(const nlohmann::json &value, const std::string &origin);

  /// Each gives what comes of a piece.
  std::vector<std::function<void(Piece, std::vector<Piece> &)>> steps;
  bool bytes = false;
};

} // namespace tfm

#endif // TFM_RUNTIME_TOKENIZER_CUTTER_H
