//===- byte_characters.h - GPT-2's characters for bytes -----------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_RUNTIME_TOKENIZER_BYTE_CHARACTERS_H
#define TFM_RUNTIME_TOKENIZER_BYTE_CHARACTERS_H

#include "runtime/support/utf8.h"

#include <algorithm>
#include <cstdint>
#include <iterator>

namespace tfm {

/// GPT-2's characters for bytes: printable Latin-1 stands for itself, the
/// others are U+0100 onwards in order.
struct ByteCharacters {
  static const ByteCharacters &get() {
    static const ByteCharacters characters;
    return characters;
  }

  std::string text[256];
  int32_t byteOf[0x200]; ///< -1 where the character stands for no byte

  /// The characters for the bytes of a text.
  std::string of(std::string_view bytes) const {
    std::string result;
    for (char c : bytes)
      result += text[static_cast<unsigned char>(c)];
    return result;
  }

  /// Appends a token's bytes; one with characters that stand for no byte (an
  /// added token) is its own text.
  void append(std::string_view token, std::string &bytes) const {
    size_t before = bytes.size();
    for (size_t at = 0; at < token.size();) {
      CodePoint character = decodeUtf8(token, at);
      if (character.value < 0 || character.value >= 0x200 ||
          byteOf[character.value] < 0) {
        bytes.resize(before);
        bytes += token;
        return;
      }
      bytes += static_cast<char>(byteOf[character.value]);
      at += character.bytes;
    }
  }

private:
  ByteCharacters() {
    std::fill(std::begin(byteOf), std::end(byteOf), -1);
    int32_t next = 0x100;
    for (int32_t byte = 0; byte < 256; ++byte) {
      bool plain = (byte >= 0x21 && byte <= 0x7E) ||
                   (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
      int32_t character = plain ? byte : next++;
      appendUtf8(character, text[byte]);
      byteOf[character] = byte;
    }
  }
};

} // namespace tfm

#endif // TFM_RUNTIME_TOKENIZER_BYTE_CHARACTERS_H
