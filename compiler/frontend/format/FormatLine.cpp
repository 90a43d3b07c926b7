//===- FormatLine.cpp - one statement as lines of text --------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A statement that fits stands on one line. Otherwise its outermost bracket is
// filled from comma to comma, under the column behind the bracket; an
// expression is broken where its weakest operators are.
//
//===----------------------------------------------------------------------===//

#include "compiler/frontend/format/FormatLine.h"
#include "runtime/support/utf8.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSwitch.h"

using namespace tfm;
using llvm::ArrayRef;
using llvm::StringRef;

/// Of what continues a line that was broken outside of brackets.
static constexpr unsigned hangingIndent = 4;

/// What separates elements breaks before any operator does.
static constexpr int commaLevel = 0;
static constexpr int elseLevel = 1;
static constexpr int thenLevel = 2;
/// Operators follow in the order of their precedence.
static constexpr int tightestLevel = thenLevel + tightestPrecedence;

//===----------------------------------------------------------------------===//
// Blanks within a line
//===----------------------------------------------------------------------===//

/// The level at which a line breaks at a binary operator, else -1. A power
/// breaks like a product. `=` and `->` bind nothing.
static int operatorLevel(const Token &token) {
  if (token.is("**"))
    return tightestLevel;
  int precedence = precedenceOf(token);
  return precedence < 0 ? -1 : thenLevel + precedence;
}

/// Words that an operand follows, unless they are names here.
static bool expectsOperand(StringRef word) {
  return llvm::StringSwitch<bool>(word)
      .Cases(
          {"if", "then", "else", "and", "or", "not", "return", "require", "as"},
          true)
      .Default(false);
}

namespace {

/// Goes through a statement and remembers the brackets around.
class Spacer {
public:
  explicit Spacer(llvm::MutableArrayRef<FormatWord> words) : words(words) {}

  void run() {
    for (size_t i = 0; i < words.size(); ++i)
      step(i);
  }

private:
  enum class Bracket { Group, Repeat, Index, Indices, Other };

  const Token &at(size_t i) const { return words[i].token; }

  /// Whether the word is a value or ends one, so that what follows is binary.
  bool endsOperand(size_t i) const {
    const Token &token = at(i);
    switch (token.kind) {
    case TokenKind::Integer:
    case TokenKind::Float:
    case TokenKind::String:
      return true;
    case TokenKind::Name:
      return !isKeyword(i);
    case TokenKind::Punct:
      return (token.is(")") && i != repeatEnd) || token.is("]");
    default:
      return false;
    }
  }

  bool isKeyword(size_t i) const {
    if (at(i).kind != TokenKind::Name || !expectsOperand(at(i).text))
      return false;
    // A member, an argument's name, or the target of an assignment.
    bool isName = (i > 0 && at(i - 1).is(".")) ||
                  (i + 1 < words.size() && at(i + 1).is("="));
    return !isName;
  }

  /// Whether this is the dot behind a number that is itself no member.
  bool isAfterNumber(size_t i) const {
    if (i == 0 || !at(i).is("."))
      return false;
    TokenKind kind = at(i - 1).kind;
    return kind == TokenKind::Float ||
           (kind == TokenKind::Integer && (i < 2 || !at(i - 2).is(".")));
  }

  bool spaceBefore(size_t i) const {
    const Token &token = at(i), &before = at(i - 1);
    // `1 . 5` is no number.
    if (isAfterNumber(i) || (before.is(".") && isAfterNumber(i - 1)))
      return true;
    if (token.is(",") || token.is(")") || token.is("]") || token.is("."))
      return false;
    if (before.is("(") || before.is("[") || before.is("."))
      return false;
    if (i - 1 == sign)
      return false;
    bool inIndex = !open.empty() && open.back() == Bracket::Index;
    if (token.is(":"))
      return inIndex && before.is(",");
    if (before.is(":"))
      return !inIndex;
    if (token.is("(") || token.is("["))
      return !endsOperand(i - 1) || i - 1 == loopVariable;
    return true;
  }

  void step(size_t i) {
    const Token &token = at(i);
    words[i].spaces = i > 0 && spaceBefore(i) ? 1 : 0;
    words[i].breakLevel = -1;
    words[i].isKeyword = isKeyword(i);
    if (token.is("(")) {
      bool repeat =
          i > 0 && at(i - 1).isName("repeat") && (i < 2 || !at(i - 2).is("."));
      open.push_back(repeat ? Bracket::Repeat : Bracket::Group);
    } else if (token.is("[")) {
      bool indices = i == 2 && at(0).isName("const");
      bool index = i > 0 && words[i].spaces == 0 && endsOperand(i - 1);
      open.push_back(indices ? Bracket::Indices
                     : index ? Bracket::Index
                             : Bracket::Other);
    } else if (token.is(")") || token.is("]")) {
      if (!open.empty()) {
        if (open.pop_back_val() == Bracket::Repeat)
          repeatEnd = i;
      }
    } else if (token.isName("as") && i > 0 && i - 1 == repeatEnd) {
      loopVariable = i + 1;
    } else if ((token.is("-") || token.is("+")) &&
               (i == 0 || !endsOperand(i - 1))) {
      sign = i;
    } else if (i > 0 && endsOperand(i - 1)) {
      words[i].breakLevel = operatorLevel(token);
    }
  }

  static constexpr size_t nowhere = ~size_t(0);

  llvm::MutableArrayRef<FormatWord> words;
  llvm::SmallVector<Bracket, 8> open;
  size_t sign = nowhere, repeatEnd = nowhere, loopVariable = nowhere;
};

} // namespace

void tfm::spaceWords(llvm::MutableArrayRef<FormatWord> words) {
  Spacer(words).run();
}

std::string tfm::formatText(const SourceManager &sources, Range range) {
  return sources.text(range).rtrim().str();
}

int tfm::flatColumns(ArrayRef<FormatWord> words) {
  int columns = 0;
  for (size_t i = 0; i < words.size(); ++i) {
    if (i > 0 && !words[i].comments.empty())
      return -1;
    columns += static_cast<int>(countCodePoints(words[i].token.text));
    if (i > 0)
      columns += static_cast<int>(words[i].spaces);
  }
  return columns;
}

//===----------------------------------------------------------------------===//
// Lines
//===----------------------------------------------------------------------===//

namespace {

using Words = ArrayRef<FormatWord>;

class Layout {
public:
  Layout(const SourceManager &sources, std::vector<FormatLine> &lines,
         unsigned indent)
      : sources(sources), lines(lines), indent(indent),
        base(indent + hangingIndent) {
    lines.push_back({std::string(indent, ' '), ""});
  }

  void statement(Words words);

private:
  unsigned column() const { return countCodePoints(lines.back().code); }
  bool isEmpty() const {
    return StringRef(lines.back().code).trim().empty() &&
           lines.back().comment.empty();
  }
  bool fits(Words words, unsigned tail) const {
    int columns = flatColumns(words);
    unsigned space = isEmpty() ? 0 : words.front().spaces;
    return columns >= 0 && column() + space + columns + tail <= formatColumns;
  }
  void newline(const FormatWord &next, unsigned indent);
  void put(const FormatWord &word);
  void putAll(Words words) {
    for (const FormatWord &word : words)
      put(word);
  }
  /// Words at bracket depth 0 that end a part at this level: the comma, the
  /// operator, `then`, or what stands before `else`.
  static std::vector<Words> split(Words words, int level);
  static size_t closing(Words words, size_t open);
  void fill(ArrayRef<Words> parts, unsigned indent, int level, unsigned tail);
  void expression(Words words, unsigned indent, int level, unsigned tail);
  void sequence(Words words, unsigned tail);
  void bracket(Words words, unsigned tail);

  const SourceManager &sources;
  std::vector<FormatLine> &lines;
  /// Of the line where the statement began.
  unsigned indent;
  /// Where a line goes on that a comment ended.
  unsigned base;
};

} // namespace

/// Ends the line before `next`, with the comments that stand there.
void Layout::newline(const FormatWord &next, unsigned to) {
  std::string space(to, ' ');
  for (const Comment &comment : next.comments) {
    if (isEmpty())
      lines.back().code.clear();
    else if (comment.ownLine)
      lines.push_back({"", ""});
    if (lines.back().code.empty())
      lines.back().code = space;
    lines.back().comment = formatText(sources, comment.range);
  }
  if (isEmpty())
    lines.back().code = space;
  else
    lines.push_back({space, ""});
}

void Layout::put(const FormatWord &word) {
  std::string &code = lines.back().code;
  if (!isEmpty())
    code.append(word.spaces, ' ');
  code += word.token.text;
}

size_t Layout::closing(Words words, size_t open) {
  unsigned depth = 0;
  for (size_t i = open; i < words.size(); ++i) {
    const Token &token = words[i].token;
    if (token.is("(") || token.is("["))
      ++depth;
    if ((token.is(")") || token.is("]")) && --depth == 0)
      return i;
  }
  return words.size() - 1;
}

std::vector<Words> Layout::split(Words words, int level) {
  std::vector<Words> parts;
  size_t begin = 0;
  for (size_t i = 0; i < words.size(); ++i) {
    if (words[i].token.is("(") || words[i].token.is("["))
      i = closing(words, i);
    const Token &token = words[i].token;
    bool ends;
    switch (level) {
    case commaLevel:
      ends = token.is(",");
      break;
    case elseLevel:
      ends = i + 1 < words.size() && words[i + 1].token.isName("else") &&
             words[i + 1].isKeyword;
      break;
    case thenLevel:
      ends = token.isName("then") && words[i].isKeyword;
      break;
    default:
      // A line cannot end with `//`: it would begin a comment.
      ends = words[i].breakLevel == level && !token.is("//");
    }
    if (ends && i + 1 < words.size()) {
      parts.push_back(words.slice(begin, i + 1 - begin));
      begin = i + 1;
    }
  }
  parts.push_back(words.drop_front(begin));
  return parts;
}

/// Puts as many parts on a line as fit; the first one begins where we are.
void Layout::fill(ArrayRef<Words> parts, unsigned to, int level,
                  unsigned tail) {
  // Where there are comments each part has its line.
  bool single =
      level == commaLevel && llvm::any_of(parts, [&](Words part) {
        return flatColumns(part) < 0 || (part.data() != parts.front().data() &&
                                         !part.front().comments.empty());
      });
  for (auto [i, part] : llvm::enumerate(parts)) {
    unsigned behind = i + 1 == parts.size() ? tail : 0;
    bool commented = !part.front().comments.empty();
    if (i > 0 && (single || commented || !fits(part, behind)))
      newline(part.front(), to);
    expression(part, to, level + 1, behind);
  }
}

void Layout::expression(Words words, unsigned to, int level, unsigned tail) {
  if (fits(words, tail))
    return putAll(words);
  for (; level <= tightestLevel; ++level) {
    std::vector<Words> parts = split(words, level);
    if (parts.size() > 1)
      return fill(parts, to, level, tail);
  }
  unsigned outer = base;
  base = to;
  sequence(words, tail);
  base = outer;
}

/// Words and brackets that are not separated by operators.
void Layout::sequence(Words words, unsigned tail) {
  for (size_t i = 0; i < words.size(); ++i) {
    if (i > 0 && !words[i].comments.empty())
      newline(words[i], base);
    const Token &token = words[i].token;
    if (!token.is("(") && !token.is("[")) {
      put(words[i]);
      continue;
    }
    size_t end = closing(words, i);
    // What has to stand on the line of the closing bracket.
    Words rest = words.drop_front(end + 1);
    // Arguments are broken rather than results.
    if (rest.empty() || !rest.front().token.is("->"))
      rest = rest.take_until([](const FormatWord &word) {
        return word.token.is("(") || word.token.is("[");
      });
    int behind = rest.empty() ? static_cast<int>(tail)
                              : flatColumns(rest) +
                                    static_cast<int>(rest.front().spaces);
    if (end + 1 + rest.size() == words.size() && !rest.empty())
      behind += static_cast<int>(tail);
    bracket(words.slice(i, end + 1 - i), std::max(behind, 0));
    i = end;
  }
}

/// `(`, the elements, `)`.
void Layout::bracket(Words words, unsigned tail) {
  bool commented = flatColumns(words) < 0;
  if (!commented && (fits(words, tail) || words.size() < 3))
    return putAll(words);
  put(words.front());
  Words inner = words.drop_front().drop_back();
  const FormatWord &close = words.back();
  unsigned lineIndent =
      lines.back().code.size() - StringRef(lines.back().code).ltrim().size();
  unsigned to = column(), hanging = lineIndent + hangingIndent;
  std::vector<Words> parts;
  unsigned widest = 0;
  if (!inner.empty())
    parts = split(inner, commaLevel);
  for (Words part : parts)
    widest = std::max(widest, static_cast<unsigned>(flatColumns(part)));
  if (commented || (to + widest + tail + 1 > formatColumns && hanging < to)) {
    to = hanging;
    if (!inner.empty())
      newline(inner.front(), to);
  }
  if (!parts.empty())
    fill(parts, to, commaLevel, tail + 1);
  if (!close.comments.empty())
    newline(close, lineIndent);
  put(close);
}

void Layout::statement(Words words) {
  if (fits(words, 0))
    return putAll(words);
  // An assigned formula goes on below rather than to the right of its name.
  for (size_t i = 0; i + 1 < words.size(); ++i) {
    if (words[i].token.is("(") || words[i].token.is("["))
      i = closing(words, i);
    if (!words[i].token.is("=") || i + 1 >= words.size())
      continue;
    Words value = words.drop_front(i + 1);
    bool formula = false;
    for (int level = elseLevel; level <= tightestLevel; ++level)
      formula |= split(value, level).size() > 1;
    Words target = words.take_front(i + 1);
    // Names of several values stay together, where there is room for them.
    bool several = split(target, commaLevel).size() > 1;
    int width = flatColumns(target),
        room = static_cast<int>(formatColumns) - static_cast<int>(indent);
    if ((!formula && (!several || width > room)) || width < 0)
      break;
    // What cannot be broken off is the value up to its first bracket.
    Words head = value.take_until([](const FormatWord &word) {
      return word.token.is("(") || word.token.is("[");
    });
    putAll(target);
    if (formula || width + flatColumns(head) + 2 > room)
      newline(value.front(), indent + hangingIndent);
    return expression(value, indent + hangingIndent, commaLevel, 0);
  }
  expression(words, indent + hangingIndent, commaLevel, 0);
}

void tfm::layOut(const SourceManager &sources, Words words, unsigned indent,
                 std::vector<FormatLine> &lines) {
  Layout(sources, lines, indent).statement(words);
}
