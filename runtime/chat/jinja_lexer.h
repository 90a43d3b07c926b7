//===- jinja_lexer.h - the words of a chat template ---------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_RUNTIME_CHAT_JINJA_LEXER_H
#define TFM_RUNTIME_CHAT_JINJA_LEXER_H

#include <string>
#include <string_view>
#include <vector>

namespace tfm::jinja {

struct Token {
  enum Kind {
    Data,
    PrintBegin,
    BlockBegin,
    End,
    Name,
    String,
    Number,
    Operator,
    EndOfText
  };
  Kind kind;
  size_t at;
  std::string text;
};

/// Cuts a template into text and what stands in `{{ }}` and `{% %}`, with the
/// settings of transformers (`trim_blocks`, `lstrip_blocks`). The last token is
/// `EndOfText`. Throws PlacedProblem.
std::vector<Token> tokensOf(std::string_view source);

} // namespace tfm::jinja

#endif // TFM_RUNTIME_CHAT_JINJA_LEXER_H
