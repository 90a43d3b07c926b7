//===- ParserImpl.h - the recursive descent parser --------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_FRONTEND_SYNTAX_PARSERIMPL_H
#define TFM_FRONTEND_SYNTAX_PARSERIMPL_H

#include "compiler/frontend/syntax/Parser.h"

namespace tfm {

/// Recursive descent over the tokens of one file. Expressions are in
/// `ParseExpr.cpp`, members of modules and what stands in methods in
/// `ParseMember.cpp`, all else in `Parser.cpp`.
class Parser {
public:
  Parser(const SourceManager &sources, uint32_t file, ast::File &out,
         Diagnostics &diags, uint32_t begin = 0);

  void parseItems();
  ast::Expr *parseExpr();
  /// The whole input as one expression.
  ast::Expr *parseOnlyExpr();

private:
  // Tokens.
  const Token &tok(size_t ahead = 0) const {
    return list.tokens[std::min(at + ahead, list.tokens.size() - 1)];
  }
  Token take();
  bool consume(llvm::StringRef punct);
  bool atEnd() const { return tok().kind == TokenKind::End; }
  /// Reports E0110 unless the token is there.
  bool expect(llvm::StringRef punct, const llvm::Twine &where);
  /// "expected X, found Y" at the current token.
  Diagnostic &unexpected(const llvm::Twine &expected);
  /// Reports E0112 at the current token and skips the rest of the text: nothing
  /// sensible follows.
  void giveUp(const llvm::Twine &why);
  std::string describe(const Token &token) const;
  /// Reports what is there although `first` is.
  void reportTwice(int code, Range second, const llvm::Twine &message,
                   Range first);
  /// Whether what is next is a statement of another language; reports E0110
  /// with what to write instead.
  bool reportHabit(const llvm::Twine &expected);
  /// Whether `//` was most likely meant to begin a comment, but divides.
  bool isInComment() const;

  // Expressions.
  ast::Expr *make(ast::ExprKind kind, Range range);
  ast::Expr *parseBinary(int minimum);
  ast::Expr *parseUnary();
  ast::Expr *parsePower();
  ast::Expr *parsePostfix();
  ast::Expr *parsePrimary();
  ast::Expr *parseIf();
  ast::Expr *parseRepeat();
  /// From the current token to the `)` of the call that it is in.
  Range restOfCall() const;
  /// Whether an index begins here that something is assigned to, `[...] =`.
  bool assignsPart() const;
  ast::Expr *parseSequence(llvm::StringRef close, ast::ExprKind kind);
  void parseArguments(std::vector<ast::Argument> &args);
  void parseSubscripts(std::vector<ast::Subscript> &subscripts);
  bool atBinaryOperator(int &precedence) const;

  // Declarations.
  void startStatement() { out.statements.push_back(tok().range.begin); }
  /// What follows `=`.
  ast::Expr *parseValue();
  std::string takeDoc();
  bool parseName(Token &name, const llvm::Twine &what);
  /// Reports a name that is declared and could never be read.
  void checkDeclared(const Token &name);
  ast::TypeExpr parseType();
  ast::TypeExpr parseShape();
  void parseParameters(std::vector<ast::Parameter> &out, bool areArguments);
  /// False where none begins.
  bool parseItem(std::string doc);
  void parseImport();
  void parseFamily();
  /// `model = ...`
  void parseModelValue();
  void parseModule(std::string doc);
  void parseFunction(std::string doc);
  void parseConstItem(std::string doc);
  void parseMember(std::vector<ast::Member> &members);
  bool parseParam(ast::Member &member);
  bool parseConst(ast::Member &member);
  std::unique_ptr<ast::Method> parseMethod(std::string doc);
  bool parseStatement(std::vector<ast::Stmt> &body);
  void parseBlock();

  // No item: behind the first word of a block or of another item something else
  // follows, or the word begins none. Each reports it and skips to the next.
  void reportBlockHead();
  void reportItemHead();
  void reportNoItem();

  // Recovery: skips to the start of a line at bracket depth 0, a closing
  // brace, or the end.
  void skipToLine();
  void skipToItem();
  /// The body of Python's `def name():` and the like, which begins with `head`
  /// and whose first line was skipped; false where it is none.
  bool skipIndented(const Token &head);
  bool startsItem() const;
  /// In the body of a module: whether its `}` is missing, as what starts in the
  /// first column is the next item.
  bool startsNextItem() const;

  const SourceManager &sources;
  uint32_t file;
  ast::File &out;
  Diagnostics &diags;
  TokenList list;
  size_t at = 0;
  unsigned depth = 0;
  /// Whether the file has more `{` than `}`.
  bool missesBrace = false;
  /// Whether the rest of the text was skipped.
  bool gaveUp = false;
  /// Inside brackets line ends mean nothing.
  unsigned brackets = 0;

  friend struct DepthGuard;
};

} // namespace tfm

#endif // TFM_FRONTEND_SYNTAX_PARSERIMPL_H
