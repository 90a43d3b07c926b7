//===- FormatLine.h - one statement as lines of text ------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_FRONTEND_FORMAT_FORMATLINE_H
#define TFM_FRONTEND_FORMAT_FORMATLINE_H

#include "compiler/frontend/syntax/Lexer.h"

#include "llvm/ADT/ArrayRef.h"

#include <string>
#include <vector>

namespace tfm {

/// No line of code is longer where it can be broken.
inline constexpr unsigned formatColumns = 100;

/// A token with what stands around it.
struct FormatWord {
  Token token;
  /// Comments between the token before and this one.
  std::vector<Comment> comments;
  /// For each of the comments, and then for the token: whether a blank line
  /// stands before it.
  std::vector<bool> blankBefore;
  /// Blanks before it within a line.
  unsigned spaces = 0;
  /// Of a binary operator: how strongly it binds. Lines may end behind it.
  int breakLevel = -1;
  /// `if`, `then`, `return`, ... where it is no name.
  bool isKeyword = false;
};

/// A line of the result.
struct FormatLine {
  std::string code;
  /// A comment behind the code, or the whole line's.
  std::string comment;
};

/// Sets what is said of the words of one statement above, but for comments.
void spaceWords(llvm::MutableArrayRef<FormatWord> words);

/// Text of a token, or of a comment without the blanks at its end.
std::string formatText(const SourceManager &sources, Range range);

/// Columns of the words on one line; negative where a comment stands between
/// them.
int flatColumns(llvm::ArrayRef<FormatWord> words);

/// Appends the words as lines, the first one indented by `indent`. Comments
/// before the first word are not written.
void layOut(const SourceManager &sources, llvm::ArrayRef<FormatWord> words,
            unsigned indent, std::vector<FormatLine> &lines);

} // namespace tfm

#endif // TFM_FRONTEND_FORMAT_FORMATLINE_H
