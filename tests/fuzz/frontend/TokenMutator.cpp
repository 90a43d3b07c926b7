//===- TokenMutator.cpp - programs that are nearly right -----------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tests/fuzz/frontend/TokenMutator.h"

#include "compiler/frontend/syntax/Lexer.h"

#include <algorithm>

namespace tfm::fuzz {

namespace {

constexpr const char *numbers[] = {"-1",
                                   "0",
                                   "1",
                                   "2",
                                   "3",
                                   "7",
                                   "64",
                                   "1.0",
                                   "0.5",
                                   "65536",
                                   "100000",
                                   "2147483647",
                                   "2147483648",
                                   "4294967296",
                                   "2**31",
                                   "2**62",
                                   "2**63 - 1",
                                   "9223372036854775807",
                                   "9223372036854775808",
                                   "-2**63",
                                   "1e-308",
                                   "4.9e-324",
                                   "1e308",
                                   "-1e308",
                                   "1e400",
                                   "1e-7"};

/// Words that mean something, and that a file may not have yet.
constexpr const char *words[] = {
    "none",      "true",      "false",     "i",       "model",   "module",
    "function",  "const",     "param",     "repeat",  "forward", "return",
    "require",   "if",        "then",      "else",    "and",     "or",
    "not",       "int",       "B",         "T",       "S",       "train",
    "data",      "tokenizer", "generate",  "import",  "softmax", "split",
    "concat",    "rearrange", "attention", "dropout", "gather",  "positions",
    "sum",       "mean",      "max",       "min",     "sqrt",    "exp",
    "log",       "sin",       "cos",       "relu",    "gelu",    "where",
    "rank",      "size",      "weight",    "every",   "steps",   "batch",
    "sequence",  "loss",      "optimizer", "adamw",   "sgd",     "schedule",
    "cosine",    "clip",      "validate",  "sample",  "Linear",  "Embedding",
    "LayerNorm", "RMSNorm",   "Conv1D",    "MLP",     "normal",  "zeros"};

constexpr const char *puncts[] = {"+",  "-",  "*",   "/", "//", "%", "**", "@",
                                  "=",  "==", "!=",  "<", "<=", ">", ">=", "(",
                                  ")",  "[",  "]",   "{", "}",  ",", ".",  ":",
                                  "->", "..", "...", "'", "\n"};

/// A token and what stands before it: blanks, line ends, comments.
struct Piece {
  std::string space, text;
  TokenKind kind = TokenKind::End;
  bool startsLine = false, startsColumn = false;

  bool isNumber() const {
    return kind == TokenKind::Integer || kind == TokenKind::Float;
  }
};

using Pieces = std::vector<Piece>;

struct Span {
  size_t begin = 0, end = 0;
};

Pieces piecesOf(std::string_view text) {
  SourceManager sources;
  Diagnostics diags(sources);
  uint32_t file = sources.add("fuzz.tfm", text);
  Pieces pieces;
  size_t at = 0;
  for (const Token &token : lex(sources, file, diags).tokens) {
    Piece &piece = pieces.emplace_back();
    piece.space = text.substr(at, token.range.begin - at);
    piece.text =
        text.substr(token.range.begin, token.range.end - token.range.begin);
    piece.kind = token.kind;
    piece.startsLine = token.startsLine;
    piece.startsColumn = token.startsColumn;
    at = token.range.end;
  }
  return pieces;
}

std::string textOf(const Pieces &pieces) {
  std::string text;
  for (const Piece &piece : pieces)
    text += piece.space + piece.text;
  return text;
}

/// From where one of `starts` holds up to where the next one does.
template <typename Starts>
Span around(const Pieces &pieces, size_t at, Starts starts) {
  Span span{at, at + 1};
  while (span.begin > 0 && !starts(pieces[span.begin]))
    --span.begin;
  while (span.end < pieces.size() && !starts(pieces[span.end]))
    ++span.end;
  return span;
}

/// What is between the brackets that open at `at`, or else the token itself.
Span bracketed(const Pieces &pieces, size_t at) {
  auto opens = [](const Piece &piece) {
    return piece.text == "(" || piece.text == "[" || piece.text == "{";
  };
  if (!opens(pieces[at]))
    return {at, at + 1};
  int depth = 0;
  for (size_t end = at; end < pieces.size(); ++end) {
    const std::string &text = pieces[end].text;
    depth += opens(pieces[end]);
    depth -= text == ")" || text == "]" || text == "}";
    if (depth == 0)
      return {at, end + 1};
  }
  return {at, at + 1};
}

/// One operand: a name with its members, calls and indices, a number, brackets.
Span operand(const Pieces &pieces, size_t at) {
  Span span = bracketed(pieces, at);
  if (pieces[at].kind != TokenKind::Name)
    return span;
  while (span.end + 1 < pieces.size()) {
    const std::string &text = pieces[span.end].text;
    if (pieces[span.end].startsLine)
      break;
    if (text == ".")
      span.end += 2;
    else if (text == "(" || text == "[")
      span.end = bracketed(pieces, span.end).end;
    else
      break;
  }
  span.end = std::min(span.end, pieces.size());
  return span;
}

/// A part of a program: a token, an operand, brackets, a line, a declaration.
Span part(const Pieces &pieces, Dice &dice) {
  size_t at = dice.below(pieces.size());
  switch (dice.below(8)) {
  case 0:
  case 1:
    return {at, at + 1};
  case 2:
  case 3:
    return operand(pieces, at);
  case 4:
    while (at + 1 < pieces.size() && pieces[at].text != "(" &&
           pieces[at].text != "[" && pieces[at].text != "{")
      ++at;
    return bracketed(pieces, at);
  case 5:
  case 6:
    return around(pieces, at,
                  [](const Piece &piece) { return piece.startsLine; });
  default:
    return around(pieces, at,
                  [](const Piece &piece) { return piece.startsColumn; });
  }
}

Pieces copyOf(const Pieces &pieces, Span span) {
  return {pieces.begin() + static_cast<ptrdiff_t>(span.begin),
          pieces.begin() + static_cast<ptrdiff_t>(span.end)};
}

void replace(Pieces &pieces, Span span, const Pieces &by) {
  auto at = pieces.erase(pieces.begin() + static_cast<ptrdiff_t>(span.begin),
                         pieces.begin() + static_cast<ptrdiff_t>(span.end));
  pieces.insert(at, by.begin(), by.end());
}

/// A place of the same kind of token, so that what comes there may fit.
std::vector<size_t> like(const Pieces &pieces, const Piece &piece) {
  std::vector<size_t> places;
  for (size_t i = 0; i < pieces.size(); ++i)
    if (pieces[i].kind == piece.kind ||
        (pieces[i].isNumber() && piece.isNumber()))
      places.push_back(i);
  return places;
}

void mutateToken(Pieces &pieces, Dice &dice) {
  Piece &piece = dice.pick(pieces);
  if (piece.isNumber() && !dice.oneIn(3))
    piece.text = dice.pick(numbers);
  else if (!dice.oneIn(3))
    piece.text = pieces[dice.pick(like(pieces, piece))].text;
  else if (piece.kind == TokenKind::Name)
    piece.text = dice.oneIn(4) ? dice.pick(numbers) : dice.pick(words);
  else if (piece.kind == TokenKind::Punct)
    piece.text = dice.pick(puncts);
  else
    piece.text = dice.bytes(piece.text, 4);
}

/// Every number of a kind of place is one: a default, an argument.
void mutateNumber(Pieces &pieces, Dice &dice) {
  std::vector<size_t> places;
  for (size_t i = 0; i < pieces.size(); ++i)
    if (pieces[i].isNumber())
      places.push_back(i);
  if (!places.empty())
    pieces[dice.pick(places)].text = dice.pick(numbers);
}

/// One name becomes another, everywhere or (so that the two are exchanged)
/// each the other.
void exchangeNames(Pieces &pieces, Dice &dice) {
  Piece name;
  name.kind = TokenKind::Name;
  std::vector<size_t> places = like(pieces, name);
  if (places.empty())
    return;
  std::string one = pieces[dice.pick(places)].text;
  std::string two = pieces[dice.pick(places)].text;
  bool both = dice.oneIn(2);
  for (size_t i : places)
    if (pieces[i].text == one)
      pieces[i].text = two;
    else if (both && pieces[i].text == two)
      pieces[i].text = one;
}

void mutatePieces(Pieces &pieces, Dice &dice) {
  switch (dice.below(10)) {
  case 0:
    replace(pieces, part(pieces, dice), {});
    break;
  case 1: {
    Span span = part(pieces, dice);
    replace(pieces, {span.end, span.end}, copyOf(pieces, span));
    break;
  }
  case 2: {
    Pieces copy = copyOf(pieces, part(pieces, dice));
    size_t at = dice.below(pieces.size());
    replace(pieces, {at, at}, copy);
    break;
  }
  case 3:
  case 4: {
    Pieces copy = copyOf(pieces, part(pieces, dice));
    replace(pieces, part(pieces, dice), copy);
    break;
  }
  case 5:
    std::swap(dice.pick(pieces).text, dice.pick(pieces).text);
    break;
  case 6:
    exchangeNames(pieces, dice);
    break;
  case 7:
    mutateNumber(pieces, dice);
    break;
  default:
    mutateToken(pieces, dice);
  }
}

} // namespace

std::string mutateProgram(std::string_view text, Dice &dice) {
  if (dice.oneIn(30))
    return dice.bytes(text);
  Pieces pieces = piecesOf(text);
  for (size_t changes = 1 + dice.below(4); changes > 0 && !pieces.empty();
       --changes)
    mutatePieces(pieces, dice);
  return textOf(pieces);
}

std::string crossPrograms(std::string_view text, std::string_view other,
                          Dice &dice) {
  Pieces pieces = piecesOf(text), donors = piecesOf(other);
  Pieces donor = copyOf(donors, part(donors, dice));
  Span span = part(pieces, dice);
  if (dice.oneIn(3))
    span.end = span.begin; // beside what is there
  replace(pieces, span, donor);
  return textOf(pieces);
}

} // namespace tfm::fuzz
