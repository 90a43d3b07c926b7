//===- Lexer.h - source text to tokens --------------------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_FRONTEND_SYNTAX_LEXER_H
#define TFM_FRONTEND_SYNTAX_LEXER_H

#include "compiler/frontend/Diagnostics.h"

#include <optional>

namespace tfm {

enum class TokenKind {
  End,
  Name,    ///< `width`; keywords are names, too: they depend on context
  Integer, ///< `768`, `25_000`
  Float,   ///< `1e-5`, `0.1`
  String,  ///< `"vocab.json"`, with its quotes
  Doc,     ///< `/// text` up to the end of the line
  Punct,   ///< operators and brackets
};

/// A word of the source; its spelling is the text of its range.
struct Token {
  TokenKind kind = TokenKind::End;
  Range range;
  llvm::StringRef text;
  /// Whether a line ended between the token before and this one.
  bool startsLine = false;
  /// Whether it stands in the first column.
  bool startsColumn = false;

  bool is(llvm::StringRef punct) const {
    return kind == TokenKind::Punct && text == punct;
  }
  bool isName(llvm::StringRef name) const {
    return kind == TokenKind::Name && text == name;
  }
};

/// A comment (`//` or `///`), kept for the formatter.
struct Comment {
  Range range;
  /// Whether only white space stands before it on its line.
  bool ownLine = false;
};

struct TokenList {
  /// Ends with one `End` token.
  std::vector<Token> tokens;
  std::vector<Comment> comments;
  /// Where characters were reported and skipped.
  std::vector<uint32_t> errors;
  /// Where a string begins that does not end on its line: what follows is
  /// guesswork.
  std::optional<uint32_t> openString;
};

/// Cuts a file into tokens, from the byte `begin` on. Bytes that start no token
/// are reported (E0101, E0102) and skipped.
TokenList lex(const SourceManager &sources, uint32_t file, Diagnostics &diags,
              uint32_t begin = 0);

/// How strongly a left-associative binary operator binds, from 1 (`or`) to
/// `tightestPrecedence` (`*`), else -1. 3 is that of `not`.
int precedenceOf(const Token &token);
inline constexpr int tightestPrecedence = 6;

/// Whether `//` behind a single blank, which divides, ends a text: what follows
/// may have been meant as a comment.
bool endsInDivision(llvm::StringRef text);

/// What to do then.
inline constexpr llvm::StringLiteral commentHelp =
    "a comment behind code takes two blanks before its `//`";

/// The value of a string token: without quotes, escapes resolved.
std::string unquote(llvm::StringRef literal);

} // namespace tfm

#endif // TFM_FRONTEND_SYNTAX_LEXER_H
