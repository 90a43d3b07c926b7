//===- sentencepiece.h - SentencePiece models ---------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_RUNTIME_TOKENIZER_SENTENCEPIECE_H
#define TFM_RUNTIME_TOKENIZER_SENTENCEPIECE_H

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tfm {

/// What a `.model` file says (sentencepiece_model.proto); gguf files say the
/// same.
struct SentencePieceModel {
  enum Type : uint64_t { Unigram = 1, Bpe = 2, Words = 3, Characters = 4 };
  struct Piece {
    enum Type {
      Normal = 1,
      Unknown = 2,
      Control = 3,
      UserDefined = 4,
      Byte = 6
    };
    std::string text;
    float score = 0;
    uint64_t type = Normal;
  };

  std::vector<Piece> pieces;
  Type type = Unigram;
  uint64_t beginId = 1; ///< no piece that is `Control`: nothing begins a text
  bool addsPrefix = true;
  bool removesSpaces = true;
  bool endsInSpaces = false; ///< words have theirs behind them, not before
  std::string_view characterMap;
  bool hasBytes = false;
};

/// The tokenizer.json that stands for a model. Throws InputError for what is
/// not supported.
std::string sentencePieceJson(const SentencePieceModel &model,
                              const std::string &origin);

} // namespace tfm

#endif // TFM_RUNTIME_TOKENIZER_SENTENCEPIECE_H
