//===- ParseExpr.cpp - expressions ----------------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/frontend/syntax/ParserImpl.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <cmath>
#include <cstdlib>

using namespace tfm;
using namespace tfm::ast;
using llvm::StringRef;

/// Deeper trees would make the compiler's own recursion dangerous.
static constexpr unsigned maxDepth = 200;

namespace tfm {
/// Counts the nesting of expressions; `tooDeep` after the limit, reported once
/// per place.
struct DepthGuard {
  explicit DepthGuard(Parser &parser) : parser(parser) { ++parser.depth; }
  ~DepthGuard() { --parser.depth; }
  bool tooDeep() {
    if (parser.depth <= maxDepth)
      return false;
    parser.giveUp("this expression is nested more than " +
                  llvm::Twine(maxDepth) + " levels deep");
    return true;
  }
  Parser &parser;
};
} // namespace tfm

Expr *Parser::make(ExprKind kind, Range range) {
  out.storage.push_back(std::make_unique<Expr>());
  Expr *expr = out.storage.back().get();
  expr->kind = kind;
  expr->range = range;
  return expr;
}

Expr *Parser::parseExpr() {
  DepthGuard guard(*this);
  if (guard.tooDeep())
    return make(ExprKind::Invalid, tok().range);
  if (tok().isName("if"))
    return parseIf();
  return parseBinary(0);
}

Expr *Parser::parseOnlyExpr() {
  Expr *expr = parseExpr();
  if (!atEnd() && !diags.hasErrors())
    unexpected("the end of the value")
        .help("`-D` takes one value, and `tfmc report --sweep` several, each "
              "between commas: `width=64,96,128`; numbers that are one value "
              "stand in parentheses: `betas=(0.9, 0.99)`");
  return expr;
}

Expr *Parser::parseIf() {
  Range begin = take().range;
  Expr *condition = parseExpr();
  if (!tok().isName("then")) {
    unexpected("`then` after the condition of `if`")
        .help("a choice is written `if condition then a else b`");
    return make(ExprKind::Invalid, begin);
  }
  take();
  Expr *yes = parseExpr();
  if (!tok().isName("else")) {
    unexpected("`else`: both branches of an `if` have a value");
    return make(ExprKind::Invalid, begin);
  }
  take();
  Expr *no = parseExpr();
  Expr *expr = make(ExprKind::If, begin.to(no->range));
  expr->kids = {condition, yes, no};
  return expr;
}

bool Parser::atBinaryOperator(int &precedence) const {
  precedence = precedenceOf(tok());
  return precedence >= 0;
}

Expr *Parser::parseBinary(int minimum) {
  Expr *left;
  if (tok().isName("not") && minimum <= 3) {
    DepthGuard guard(*this);
    if (guard.tooDeep())
      return make(ExprKind::Invalid, tok().range);
    Range begin = take().range;
    Expr *operand = parseBinary(3);
    left = make(ExprKind::Unary, begin.to(operand->range));
    left->text = "not";
    left->textRange = begin;
    left->kids = {operand};
  } else {
    left = parseUnary();
  }
  int precedence;
  // Left-associative chains make deep trees, too.
  unsigned chain = 0;
  while (atBinaryOperator(precedence) && precedence >= minimum) {
    if (++chain > maxDepth * 5) {
      giveUp("this expression has too many operators");
      break;
    }
    Token op = take();
    Expr *right = tok().isName("if") ? parseIf() : parseBinary(precedence + 1);
    Expr *expr = make(ExprKind::Binary, left->range.to(right->range));
    expr->text = op.text;
    expr->textRange = op.range;
    expr->kids = {left, right};
    // `a < b < c` compares a truth value: almost surely not what is meant.
    if (precedence == 4 && left->kind == ExprKind::Binary &&
        precedenceOf({TokenKind::Punct, left->textRange, left->text}) == 4 &&
        left->range.begin == expr->range.begin && !left->isGrouped)
      diags.error(113, op.range, "comparisons cannot be chained")
          .help("write `a < b and b < c`");
    left = expr;
  }
  return left;
}

Expr *Parser::parseUnary() {
  if (tok().is("-") || tok().is("+")) {
    DepthGuard guard(*this);
    if (guard.tooDeep())
      return make(ExprKind::Invalid, tok().range);
    Token op = take();
    Expr *operand = parseUnary();
    Expr *expr = make(ExprKind::Unary, op.range.to(operand->range));
    expr->text = op.text;
    expr->textRange = op.range;
    expr->kids = {operand};
    return expr;
  }
  return parsePower();
}

Expr *Parser::parsePower() {
  Expr *base = parsePostfix();
  if (!tok().is("**"))
    return base;
  DepthGuard guard(*this);
  if (guard.tooDeep())
    return make(ExprKind::Invalid, tok().range);
  Token op = take();
  // Right-associative; the exponent may carry a sign.
  Expr *exponent = parseUnary();
  Expr *expr = make(ExprKind::Binary, base->range.to(exponent->range));
  expr->text = op.text;
  expr->textRange = op.range;
  expr->kids = {base, exponent};
  return expr;
}

Expr *Parser::parsePostfix() {
  Expr *expr = parsePrimary();
  unsigned chain = 0;
  for (;;) {
    const Token &next = tok();
    bool sameLine = brackets > 0 || !next.startsLine;
    if (++chain > maxDepth * 5) {
      giveUp("this expression has too many parts");
      return expr;
    }
    if (next.is(".")) {
      take();
      if (tok().kind != TokenKind::Name && tok().kind != TokenKind::Integer) {
        unexpected("a member's name after `.`");
        return expr;
      }
      Token name = take();
      Expr *member = make(ExprKind::Member, expr->range.to(name.range));
      member->text = name.text;
      member->textRange = name.range;
      member->kids = {expr};
      expr = member;
    } else if (next.is("(") && sameLine) {
      Expr *call = make(ExprKind::Call, expr->range);
      call->kids = {expr};
      parseArguments(call->args);
      call->range = expr->range.to(list.tokens[at - 1].range);
      expr = call;
    } else if (next.is("[") && sameLine) {
      Expr *index = make(ExprKind::Index, expr->range);
      index->kids = {expr};
      parseSubscripts(index->subscripts);
      index->range = expr->range.to(list.tokens[at - 1].range);
      expr = index;
    } else {
      return expr;
    }
  }
}

void Parser::parseArguments(std::vector<Argument> &args) {
  Range begin = take().range;
  ++brackets;
  while (!atEnd() && !tok().is(")")) {
    Argument arg;
    if (tok().kind == TokenKind::Name && tok(1).is("=")) {
      Token name = take();
      take();
      arg.name = name.text;
      arg.nameRange = name.range;
    }
    size_t before = at;
    arg.value = parseExpr();
    args.push_back(arg);
    if (!consume(",") && !tok().is(")")) {
      --brackets;
      if (arg.value->kind != ExprKind::Invalid || at != before) {
        unsigned line = sources.line(begin), here = sources.line(tok().range);
        Diagnostic &d = unexpected("`,` or `)` in the list of arguments");
        if (line != here)
          d.note("the list begins in line " + llvm::Twine(line));
      }
      return;
    }
  }
  --brackets;
  expect(")", "to end the list of arguments");
}

void Parser::parseSubscripts(std::vector<Subscript> &subscripts) {
  take();
  ++brackets;
  if (tok().is("]"))
    unexpected("an index")
        .help("`x[:, 0:3, -1]` cuts and picks along the axes; all of x is `x` "
              "alone");
  while (!atEnd() && !tok().is("]")) {
    Subscript subscript;
    if (tok().is("..")) {
      unexpected("an index")
          .help("each axis has its place in an index: `x[:, :, 0]`");
      break;
    }
    if (!tok().is(":"))
      subscript.first = parseExpr();
    if (consume(":")) {
      subscript.isSlice = true;
      if (!tok().is("]") && !tok().is(",") && !tok().is(":"))
        subscript.last = parseExpr();
      if (tok().is(":")) {
        unexpected("`,` or `]`")
            .help(
                "slices have no step; `rearrange(x, \"B (n two) -> B n two\", "
                "two = 2)` makes pairs, of which an index takes one");
        break;
      }
    }
    subscripts.push_back(subscript);
    if (!consume(","))
      break;
  }
  --brackets;
  expect("]", "to end the index");
}

Expr *Parser::parseSequence(StringRef close, ExprKind kind) {
  Range begin = take().range;
  Expr *list = make(kind, begin);
  ++brackets;
  bool comma = false;
  while (!atEnd() && !tok().is(close)) {
    list->kids.push_back(parseExpr());
    if (!consume(","))
      break;
    comma = true;
  }
  --brackets;
  expect(close, kind == ExprKind::List ? "to end the list"
                                       : "to close the parenthesis");
  list->range = begin.to(this->list.tokens[at ? at - 1 : 0].range);
  if (kind == ExprKind::Tuple && list->kids.size() == 1 && !comma) {
    // Parentheses only group, and carets leave them out. A mark keeps `(a < b)
    // == c` apart from a chained comparison.
    Expr *inner = list->kids[0];
    if (inner->kind == ExprKind::Binary)
      inner->isGrouped = true;
    return inner;
  }
  return list;
}

bool Parser::assignsPart() const {
  if (!tok().is("["))
    return false;
  size_t ahead = 0;
  for (unsigned open = 0; tok(ahead).kind != TokenKind::End; ++ahead)
    if (tok(ahead).is("["))
      ++open;
    else if (tok(ahead).is("]") && --open == 0)
      return tok(ahead + 1).is("=");
  return false;
}

Range Parser::restOfCall() const {
  size_t ahead = 0;
  for (unsigned open = 0; tok(ahead).kind != TokenKind::End; ++ahead)
    if (tok(ahead).is("("))
      ++open;
    else if (tok(ahead).is(")") && open-- == 0)
      break;
  return tok().range.to(tok(ahead).range);
}

/// A call whose pattern makes a new axis of a number, with a name for that:
/// `(x, "T w -> T 2 w")` as `(x, "T w -> T n w", n = 2)`.
static std::string withNamedSize(StringRef call) {
  auto [before, made] = call.split("->");
  auto [axes, behind] = made.split('"');
  // A letter that nothing has.
  StringRef letters = "nmrkpqsz";
  letters = letters.drop_while([&](char c) { return call.contains(c); });
  StringRef name = letters.take_front();
  if (name.empty() || behind != ")")
    return call.str();
  llvm::SmallVector<StringRef> words;
  axes.split(words, ' ');
  for (StringRef &word : words) {
    int64_t size;
    if (word.getAsInteger(10, size) || size < 2)
      continue;
    word = name;
    return (before + "->" + llvm::join(words, " ") + "\", " + name + " = " +
            llvm::Twine(size) + ")")
        .str();
  }
  return call.str();
}

Expr *Parser::parseRepeat() {
  DepthGuard guard(*this);
  if (guard.tooDeep())
    return make(ExprKind::Invalid, tok().range);
  Range begin = take().range;
  take();
  ++brackets;
  Expr *count = parseExpr();
  --brackets;
  bool isCall = tok().is(",");
  if (!tok().is(")")) {
    Diagnostic &d = unexpected("`)` after the count of `repeat`");
    if (isCall && tok(1).kind == TokenKind::String)
      d.help("a tensor is repeated by `rearrange" +
             withNamedSize(sources.text(begin.to(restOfCall()))
                               .drop_front(StringRef("repeat").size())) +
             "`");
    else
      d.help("write `repeat(n) Block(...)`");
  }
  if (!consume(")") && isCall)
    return make(ExprKind::Invalid, begin);
  Expr *repeat = make(ExprKind::Repeat, begin);
  if (tok().isName("as")) {
    take();
    Token name;
    if (parseName(name, "the name of the layer's index after `as`")) {
      repeat->text = name.text;
      repeat->textRange = name.range;
    }
  }
  Expr *body = parsePostfix();
  repeat->kids = {count, body};
  repeat->range = begin.to(body->range);
  return repeat;
}

Expr *Parser::parsePrimary() {
  const Token token = tok();
  switch (token.kind) {
  case TokenKind::Integer: {
    take();
    Expr *expr = make(ExprKind::Integer, token.range);
    std::string digits = token.text.str();
    llvm::erase(digits, '_');
    if (StringRef(digits).getAsInteger(10, expr->integer)) {
      diags.error(104, token.range,
                  "`" + token.text + "` does not fit in 64 bits");
      expr->kind = ExprKind::Invalid;
    }
    expr->number = static_cast<double>(expr->integer);
    return expr;
  }
  case TokenKind::Float: {
    take();
    Expr *expr = make(ExprKind::Float, token.range);
    std::string digits = token.text.str();
    llvm::erase(digits, '_');
    expr->number = std::strtod(digits.c_str(), nullptr);
    if (!std::isfinite(expr->number)) {
      diags.error(104, token.range,
                  "`" + token.text + "` is larger than any float");
      expr->kind = ExprKind::Invalid;
    }
    return expr;
  }
  case TokenKind::String: {
    take();
    Expr *expr = make(ExprKind::String, token.range);
    expr->text = token.text;
    return expr;
  }
  case TokenKind::Name: {
    if (token.text == "repeat" && tok(1).is("("))
      return parseRepeat();
    if (token.text == "if")
      return parseIf();
    take();
    Expr *expr = make(ExprKind::Name, token.range);
    expr->text = token.text;
    expr->textRange = token.range;
    return expr;
  }
  case TokenKind::Punct:
    if (token.text == "(")
      return parseSequence(")", ExprKind::Tuple);
    if (token.text == "[")
      return parseSequence("]", ExprKind::List);
    break;
  default:
    break;
  }
  unexpected("an expression");
  return make(ExprKind::Invalid, token.range);
}
