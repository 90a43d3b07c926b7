//===- Format.cpp - the one formatting of .tfm files ----------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The parser tells where statements begin; bodies in braces nest them. Each
// statement is laid out by itself (FormatLine.cpp), then neighbours are
// aligned: the `=` of members and entries, the shapes of parameters, and the
// comments behind code.
//
//===----------------------------------------------------------------------===//

#include "compiler/frontend/format/Format.h"

#include "compiler/frontend/format/FormatLine.h"
#include "compiler/frontend/syntax/Parser.h"
#include "runtime/support/utf8.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/ErrorHandling.h"

using namespace tfm;
using llvm::StringRef;

static constexpr unsigned indentWidth = 2;
static constexpr unsigned commentDistance = 2;

namespace {

/// What a statement shares its columns with.
enum class Align { None, Value, Param };

struct Statement {
  /// Words `begin <= i < end`, the `{` of a body included.
  size_t begin, end;
  /// The `}` of the body; 0 without one.
  size_t close = 0;
  Align align = Align::None;
  /// Whether the body stands on the line of its `{`.
  bool onOneLine = false;

  bool isBlock() const { return close != 0 && !onOneLine; }
};

class Formatter {
public:
  Formatter(const SourceManager &sources, uint32_t file,
            const ast::File &parsed)
      : sources(sources), file(file), starts(parsed.statements) {
    // The end of a file may start an item that is not there.
    std::erase_if(starts, [&](uint32_t start) {
      return start >= sources.file(file).text().size();
    });
  }

  std::string run(const TokenList &list);

private:
  void readWords(const TokenList &list);
  bool isStart(size_t i) const {
    return llvm::binary_search(starts, words[i].token.range.begin);
  }
  size_t closingBrace(size_t open) const;
  std::vector<Statement> statementsOf(size_t begin, size_t end, bool isMembers);
  void align(llvm::ArrayRef<Statement> statements);
  void formatBody(size_t begin, size_t end, unsigned indent, bool isMembers);
  void space(Statement &statement, unsigned indent);
  void format(const Statement &statement, unsigned indent);
  void blankLine();
  /// How the lines before a statement come: without blank ones behind `{`,
  /// with one between items that have bodies, else as in the source.
  enum class Distance { None, AsWritten, Blank };
  void leadingComments(const FormatWord &word, unsigned indent,
                       Distance distance);
  void alignComments();

  const SourceManager &sources;
  uint32_t file;
  std::vector<uint32_t> starts;
  std::vector<FormatWord> words;
  std::vector<FormatLine> lines;
};

} // namespace

void Formatter::readWords(const TokenList &list) {
  StringRef text = sources.file(file).text();
  auto comment = list.comments.begin();
  size_t done = 0;
  auto isBlankBefore = [&](Range range) {
    StringRef between = text.slice(done, range.begin);
    done = range.end;
    return between.count('\n') > 1;
  };
  for (const Token &token : list.tokens) {
    if (token.kind == TokenKind::Doc)
      continue; // a comment, too
    FormatWord word;
    word.token = token;
    for (; comment != list.comments.end() &&
           comment->range.begin < token.range.begin;
         ++comment) {
      word.comments.push_back(*comment);
      word.blankBefore.push_back(isBlankBefore(comment->range));
    }
    word.blankBefore.push_back(isBlankBefore(token.range));
    words.push_back(std::move(word));
  }
}

size_t Formatter::closingBrace(size_t open) const {
  unsigned depth = 0;
  for (size_t i = open; i + 1 < words.size(); ++i) {
    if (words[i].token.is("{"))
      ++depth;
    if (words[i].token.is("}") && --depth == 0)
      return i;
  }
  return words.size() - 1;
}

std::vector<Statement> Formatter::statementsOf(size_t begin, size_t end,
                                               bool isMembers) {
  std::vector<Statement> statements;
  for (size_t i = begin; i < end;) {
    Statement statement{i, i + 1};
    if (words[i].token.is("{"))
      statement.close = closingBrace(i);
    while (!statement.close && statement.end < end && !isStart(statement.end)) {
      if (words[statement.end].token.is("{"))
        statement.close = closingBrace(statement.end);
      ++statement.end;
    }
    if (isMembers && statement.end - i >= 3) {
      if (words[i + 1].token.is("="))
        statement.align = Align::Value;
      else if (words[i].token.isName("param"))
        statement.align = Align::Param;
    }
    i = statement.close ? statement.close + 1 : statement.end;
    statements.push_back(statement);
  }
  return statements;
}

/// Puts the `=` of neighbouring members, and the shapes of neighbouring
/// parameters, below each other. A blank line separates.
void Formatter::align(llvm::ArrayRef<Statement> statements) {
  for (size_t i = 0; i < statements.size();) {
    Align kind = statements[i].align;
    size_t end = i + 1;
    auto blank = [&](const Statement &statement) {
      return llvm::is_contained(words[statement.begin].blankBefore, true);
    };
    while (end < statements.size() && statements[end].align == kind &&
           !blank(statements[end]))
      ++end;
    // The name, and the word before which blanks are put.
    size_t name = kind == Align::Param ? 1 : 0;
    size_t column = kind == Align::Param ? 3 : 1;
    auto width = [&](const Statement &statement) {
      return countCodePoints(words[statement.begin + name].token.text);
    };
    if (kind != Align::None) {
      size_t widest = 0;
      for (size_t j = i; j != end; ++j)
        widest = std::max(widest, width(statements[j]));
      for (size_t j = i; j != end; ++j)
        words[statements[j].begin + column].spaces +=
            widest - width(statements[j]);
    }
    i = end;
  }
}

void Formatter::blankLine() {
  if (!lines.empty() &&
      !(lines.back().code.empty() && lines.back().comment.empty()))
    lines.push_back({"", ""});
}

/// Comments before a statement or a closing brace.
void Formatter::leadingComments(const FormatWord &word, unsigned indent,
                                Distance distance) {
  auto separate = [&](bool blankInSource) {
    if (distance == Distance::Blank ||
        (blankInSource && distance != Distance::None))
      blankLine();
    distance = Distance::AsWritten;
  };
  for (auto [comment, blank] : llvm::zip(word.comments, word.blankBefore)) {
    std::string text = formatText(sources, comment.range);
    if (!comment.ownLine && !lines.empty() && lines.back().comment.empty()) {
      lines.back().comment = text;
      continue;
    }
    separate(blank);
    lines.push_back({std::string(indent, ' '), text});
  }
  bool ends = word.token.is("}") || word.token.kind == TokenKind::End;
  if (!ends)
    separate(word.blankBefore.back());
}

/// Sets the blanks of a statement. A body stays on one line where the source
/// has it so and it fits: `generate { greedy = true, tokens = 4 }`.
void Formatter::space(Statement &statement, unsigned indent) {
  llvm::MutableArrayRef<FormatWord> all(words);
  size_t body = statement.end;
  spaceWords(all.slice(statement.begin, body - statement.begin));
  if (!statement.close)
    return;
  unsigned brackets = 0;
  for (size_t i = body; i <= statement.close; ++i) {
    const Token &token = words[i].token;
    if (token.is(")") || token.is("]"))
      --brackets;
    if (token.is("{") || (token.startsLine && brackets == 0))
      return;
    if (token.is("(") || token.is("["))
      ++brackets;
  }
  for (const Statement &inner :
       statementsOf(body, statement.close, /*isMembers=*/false)) {
    spaceWords(all.slice(inner.begin, inner.end - inner.begin));
    words[inner.begin].spaces = 1;
  }
  words[statement.close].spaces = body < statement.close;
  int columns = flatColumns(
      all.slice(statement.begin, statement.close + 1 - statement.begin));
  statement.onOneLine = columns >= 0 && indent + columns <= formatColumns;
}

void Formatter::format(const Statement &statement, unsigned indent) {
  size_t end = statement.onOneLine ? statement.close + 1 : statement.end;
  llvm::ArrayRef<FormatWord> line =
      llvm::ArrayRef(words).slice(statement.begin, end - statement.begin);
  layOut(sources, line, indent, lines);
  if (!statement.isBlock())
    return;
  // Everything but a method has members or entries.
  bool isMembers = llvm::StringSwitch<bool>(line.front().token.text)
                       .Cases({"model", "module", "train", "generate"},
                              !line[1].token.is("("))
                       .Default(false);
  formatBody(statement.end, statement.close, indent + indentWidth, isMembers);
  leadingComments(words[statement.close], indent + indentWidth,
                  statement.end == statement.close ? Distance::None
                                                   : Distance::AsWritten);
  lines.push_back({std::string(indent, ' ') + "}", ""});
}

void Formatter::formatBody(size_t begin, size_t end, unsigned indent,
                           bool isMembers) {
  std::vector<Statement> statements = statementsOf(begin, end, isMembers);
  for (Statement &statement : statements)
    space(statement, indent);
  align(statements);
  for (auto [i, statement] : llvm::enumerate(statements)) {
    bool isItem = indent == 0;
    Distance distance =
        i == 0 ? Distance::None
        : isItem && (statement.isBlock() || statements[i - 1].isBlock())
            ? Distance::Blank
            : Distance::AsWritten;
    leadingComments(words[statement.begin], indent, distance);
    format(statement, indent);
  }
}

/// Comments behind the code of neighbouring lines stand in one column, where
/// that makes no line too long.
void Formatter::alignComments() {
  auto isBehind = [](const FormatLine &line) {
    return !line.comment.empty() && !StringRef(line.code).trim().empty();
  };
  for (size_t i = 0; i < lines.size();) {
    size_t end = i;
    size_t column = 0, longest = 0;
    for (; end < lines.size() && isBehind(lines[end]); ++end) {
      column = std::max(column, countCodePoints(lines[end].code));
      longest = std::max(longest, countCodePoints(lines[end].comment));
    }
    bool aligned = column + commentDistance + longest <= formatColumns;
    for (; i < end; ++i) {
      size_t own = countCodePoints(lines[i].code);
      lines[i].code.append(commentDistance + (aligned ? column - own : 0), ' ');
    }
    i = end + 1;
  }
}

std::string Formatter::run(const TokenList &list) {
  readWords(list);
  formatBody(0, words.size() - 1, 0, /*isMembers=*/false);
  leadingComments(words.back(), 0,
                  lines.empty() ? Distance::None : Distance::AsWritten);
  alignComments();
  std::string text;
  for (const FormatLine &line : lines)
    text += StringRef(line.code + line.comment).rtrim().str() + "\n";
  return text;
}

/// Blanks and line ends are all that may have changed.
static void checkTokens(const TokenList &before, const SourceManager &sources,
                        StringRef after) {
  SourceManager own;
  Diagnostics diags(own);
  TokenList list = lex(own, own.add("formatted", after), diags);
  bool same =
      llvm::equal(before.tokens, list.tokens,
                  [](const Token &a, const Token &b) {
                    return a.kind == b.kind && a.text.rtrim() == b.text.rtrim();
                  }) &&
      llvm::equal(before.comments, list.comments,
                  [&](const Comment &a, const Comment &b) {
                    return formatText(sources, a.range) ==
                           formatText(own, b.range);
                  });
  if (!same)
    llvm::report_fatal_error("the formatter changed the meaning of a file");
}

std::optional<std::string> tfm::formatFile(const SourceManager &sources,
                                           uint32_t file, Diagnostics &diags) {
  std::unique_ptr<ast::File> parsed = parseFile(sources, file, diags);
  if (diags.hasErrors())
    return std::nullopt;
  TokenList list = lex(sources, file, diags);
  std::string text = Formatter(sources, file, *parsed).run(list);
  checkTokens(list, sources, text);
  return text;
}
