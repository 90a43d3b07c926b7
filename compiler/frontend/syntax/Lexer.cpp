//===- Lexer.cpp - source text to tokens ----------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/frontend/syntax/Lexer.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/ConvertUTF.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

using namespace tfm;
using llvm::StringRef;

namespace {

/// Longest first: the first that matches is taken.
constexpr StringRef puncts[] = {
    "**", "//", "->", "==", "!=", "<=", ">=", "..", "(",
    ")",  "[",  "]",  "{",  "}",  ",",  ":",  ".",  "=",
    "+",  "-",  "*",  "/",  "%",  "@",  "<",  ">",  "|"};

bool startsName(char c) { return llvm::isAlpha(c) || c == '_'; }
bool continuesName(char c) { return llvm::isAlnum(c) || c == '_'; }

/// The number of a whole character; 0 for one of ASCII.
uint32_t codeOf(StringRef character) {
  auto byte = [&](size_t i) {
    return static_cast<unsigned char>(character[i]);
  };
  if (character.empty() || byte(0) < 0x80)
    return 0;
  // The first byte has as many bits less as there are bytes.
  uint32_t code = byte(0) & (0xFFu >> (character.size() + 1));
  for (size_t i = 1; i < character.size(); ++i)
    code = code << 6 | (byte(i) & 0x3F);
  return code;
}

/// ` (U+00A0)` of a character that may look like another one; nothing of ASCII.
std::string codePoint(uint32_t code) {
  std::string text;
  if (code)
    llvm::raw_string_ostream(text) << llvm::format(" (U+%04X)", code);
  return text;
}

/// What to write instead of a character that word processors and papers have;
/// empty for others.
StringRef plainCharacter(uint32_t code) {
  if (code >= 0x2000 && code <= 0x200A) // blanks of another width
    code = 0x00A0;
  switch (code) {
  case 0x00AB: // « »
  case 0x00BB:
  case 0x2018: // single and double quotes, low and high
  case 0x2019:
  case 0x201A:
  case 0x201C:
  case 0x201D:
  case 0x201E:
    return "strings stand in straight double quotes, `\"`";
  case 0x2010: // hyphens, dashes, the minus sign
  case 0x2011:
  case 0x2012:
  case 0x2013:
  case 0x2014:
  case 0x2212:
    return "write `-`";
  case 0x00B7: // dots and crosses
  case 0x00D7:
  case 0x22C5:
    return "write `*`";
  case 0x00F7:
    return "write `/`";
  case 0x2192:
    return "write `->`";
  case 0x2260:
    return "write `!=`";
  case 0x2264:
    return "write `<=`";
  case 0x2265:
    return "write `>=`";
  case 0x2026:
    return "write `..`";
  case 0x00A0: // more of them, and those of no width
  case 0x200B:
  case 0x202F:
  case 0x3000:
  case 0xFEFF:
    return "it looks like a blank, or like nothing: write a blank";
  default:
    return "";
  }
}

/// Whether a character of no ASCII is a letter, as far as names would have any:
/// neither a sign, a mark nor a picture.
bool isForeignLetter(uint32_t code) {
  return code >= 0xB5 && code != 0xB7 && code != 0xBB && code != 0xD7 &&
         code != 0xF7 && (code < 0x2000 || code > 0x303F) && code < 0xE000;
}

class Lexer {
public:
  Lexer(const SourceManager &sources, uint32_t file, Diagnostics &diags,
        uint32_t begin)
      : file(file), text(sources.file(file).text()), diags(diags), at(begin) {}

  TokenList run() {
    // Some editors begin a file with a byte order mark.
    if (at == 0 && text.starts_with("\xEF\xBB\xBF"))
      at = 3;
    for (;;) {
      skipSpace();
      if (at >= text.size())
        break;
      lexOne();
    }
    emit(TokenKind::End, text.size(), text.size());
    return std::move(out);
  }

private:
  char peek(size_t ahead = 0) const {
    return at + ahead < text.size() ? text[at + ahead] : '\0';
  }

  /// The character that begins here; empty where no whole one does.
  StringRef character() const {
    const auto *bytes = reinterpret_cast<const llvm::UTF8 *>(text.data());
    size_t length = at < text.size() ? llvm::getNumBytesForUTF8(bytes[at]) : 0;
    bool isWhole = length && at + length <= text.size() &&
                   llvm::isLegalUTF8Sequence(bytes + at, bytes + at + length);
    return isWhole ? text.substr(at, length) : StringRef();
  }

  bool atForeignLetter() const { return isForeignLetter(codeOf(character())); }

  void emit(TokenKind kind, size_t begin, size_t end) {
    Token token;
    token.kind = kind;
    token.range = {file, static_cast<uint32_t>(begin),
                   static_cast<uint32_t>(end)};
    token.text = text.slice(begin, end);
    token.startsLine = newLine;
    token.startsColumn = begin == 0 || text[begin - 1] == '\n';
    newLine = false;
    out.tokens.push_back(token);
  }

  void skipSpace() {
    while (at < text.size() && (text[at] == ' ' || text[at] == '\t' ||
                                text[at] == '\r' || text[at] == '\n')) {
      newLine |= text[at] == '\n';
      ++at;
    }
  }

  /// `//` is a comment unless it can only be floor division: an operand stands
  /// before it on the same line and another one follows directly.
  bool startsComment() const {
    if (!text.substr(at).starts_with("//"))
      return false;
    if (newLine || out.tokens.empty())
      return true;
    const Token &last = out.tokens.back();
    bool operandBefore =
        last.kind == TokenKind::Name || last.kind == TokenKind::Integer ||
        last.kind == TokenKind::Float || last.is(")") || last.is("]");
    if (!operandBefore || peek(2) == '/')
      return true;
    // `a // b` divides; `a   // b` is a comment: two blanks or a tab, or
    // words that do not continue an expression.
    size_t gap = at - last.range.end;
    if (gap >= 2 || (gap == 1 && text[at - 1] == '\t'))
      return true;
    size_t next = at + 2;
    while (next < text.size() && text[next] == ' ')
      ++next;
    char c = next < text.size() ? text[next] : '\n';
    if (!(continuesName(c) || c == '(' || c == '-'))
      return true;
    // Two words in a row are prose, unless the second goes on an expression.
    StringRef rest =
        text.substr(next).take_until([](char c) { return c == '\n'; });
    StringRef first = rest.take_while(continuesName);
    rest = rest.drop_front(first.size());
    if (first.empty() || !rest.consume_front(" "))
      return false;
    StringRef second = rest.take_while(continuesName);
    return !second.empty() && startsName(second[0]) && second != "then" &&
           second != "else" && second != "and" && second != "or" &&
           second != "if" && second != "as";
  }

  void lexOne() {
    size_t begin = at;
    char c = text[at];
    if (startsComment()) {
      size_t end = text.find('\n', at);
      at = end == StringRef::npos ? text.size() : end;
      StringRef comment = text.slice(begin, at);
      bool own = newLine || out.tokens.empty();
      out.comments.push_back(
          {{file, static_cast<uint32_t>(begin), static_cast<uint32_t>(at)},
           own});
      if (own && comment.starts_with("///") && !comment.starts_with("////"))
        emit(TokenKind::Doc, begin, at);
      return;
    }
    if (startsName(c) || atForeignLetter())
      return lexName(begin);
    // `.5` is a number, but `layer.0` a member.
    bool afterOperand =
        !out.tokens.empty() && out.tokens.back().range.end == begin &&
        (out.tokens.back().kind == TokenKind::Name ||
         out.tokens.back().kind == TokenKind::Integer ||
         out.tokens.back().is(")") || out.tokens.back().is("]"));
    if (llvm::isDigit(c) ||
        (c == '.' && llvm::isDigit(peek(1)) && !afterOperand))
      return lexNumber(begin);
    for (StringRef quotes : {"\"\"\"", "'''"})
      if (text.substr(at).starts_with(quotes))
        return skipDocstring(quotes);
    if (c == '"')
      return lexString(begin);
    if (c == '\'' && lexSingleQuotes(begin))
      return;
    for (StringRef punct : puncts) {
      if (text.substr(at).starts_with(punct)) {
        at += punct.size();
        emit(TokenKind::Punct, begin, at);
        return;
      }
    }
    // A multi-byte character is reported as one, and so is what continues a
    // byte that begins none.
    StringRef what = character();
    bool isCharacter = !what.empty();
    at += isCharacter ? what.size() : 1;
    while (!isCharacter && at < text.size() &&
           (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80)
      ++at;
    Range range{file, static_cast<uint32_t>(begin), static_cast<uint32_t>(at)};
    uint32_t code = codeOf(what);
    out.errors.push_back(begin);
    Diagnostic &d =
        llvm::isPrint(c) || code
            ? diags.error(101, range,
                          "unexpected character `" + what + "`" +
                              codePoint(code))
            : diags.error(101, range,
                          "unexpected byte 0x" +
                              llvm::utohexstr(static_cast<unsigned char>(c)));
    StringRef plain = plainCharacter(code);
    if (!plain.empty())
      d.help(plain);
    else if (c == ';')
      d.help(
          "statements and entries end with their line; on one line `,` parts "
          "entries");
    else if (c == '#') {
      // What follows is prose.
      d.help("comments start with `//`");
      at = std::min(text.find('\n', at), text.size());
    } else if (c == '\'')
      d.help("strings stand in double quotes");
    else if (c == '^')
      d.help("powers are written `**`");
    else if (c == '!')
      d.help("write `not`");
    else if (c == '?')
      d.help("a choice is written `if condition then a else b`");
    else if (c == '&') {
      d.help("write `and`");
      at += peek() == '&';
    }
  }

  void lexName(size_t begin) {
    bool isForeign = false;
    for (; continuesName(peek()) || atForeignLetter(); at += character().size())
      isForeign |= !continuesName(peek());
    if (isForeign)
      diags
          .error(
              102,
              {file, static_cast<uint32_t>(begin), static_cast<uint32_t>(at)},
              "`" + text.slice(begin, at) + "` is no name")
          .help("names have the letters A to Z and a to z, digits and `_`");
    emit(TokenKind::Name, begin, at);
  }

  void lexNumber(size_t begin) {
    bool isFloat = false;
    auto digits = [&] {
      while (llvm::isDigit(peek()) || (peek() == '_' && llvm::isDigit(peek(1))))
        ++at;
    };
    bool isMember = !out.tokens.empty() && out.tokens.back().is(".") &&
                    out.tokens.back().range.end == begin;
    digits();
    if (isMember)
      return emit(TokenKind::Integer, begin, at);
    // `0..3` is a range of integers, `1.` followed by a name a member.
    if (peek() == '.' && peek(1) != '.' && !startsName(peek(1))) {
      isFloat = true;
      ++at;
      digits();
    }
    if ((peek() == 'e' || peek() == 'E') &&
        (llvm::isDigit(peek(1)) ||
         ((peek(1) == '-' || peek(1) == '+') && llvm::isDigit(peek(2))))) {
      isFloat = true;
      at += 2;
      digits();
    }
    if (startsName(peek())) {
      size_t end = at;
      while (end < text.size() && continuesName(text[end]))
        ++end;
      Range range{file, static_cast<uint32_t>(begin),
                  static_cast<uint32_t>(end)};
      diags
          .error(102, range,
                 "`" + text.slice(begin, end) +
                     "` is neither a number nor a name")
          .help("a name starts with a letter");
      at = end;
      emit(TokenKind::Name, begin, at);
      return;
    }
    emit(isFloat ? TokenKind::Float : TokenKind::Integer, begin, at);
  }

  /// Of the backslash at a place.
  void checkEscape(size_t place) {
    if (StringRef("ntr\"\\").contains(text[place + 1]))
      return;
    size_t end = place + 2;
    while (end < text.size() &&
           (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80)
      ++end; // the whole character
    diags
        .error(105,
               {file, static_cast<uint32_t>(place), static_cast<uint32_t>(end)},
               "`" + text.slice(place, end) + "` stands for nothing")
        .help("there are `\\n`, `\\t`, `\\r`, `\\\"` and `\\\\`, which is a "
              "backslash");
  }

  /// Python's; it is prose.
  void skipDocstring(StringRef quotes) {
    Range range{file, static_cast<uint32_t>(at), static_cast<uint32_t>(at + 3)};
    diags.error(101, range, "unexpected `" + quotes + "`")
        .help("what documents a model, module or method stands before it, each "
              "line behind `///`");
    if (!newLine)
      out.errors.push_back(at); // instead of a value
    size_t end = text.find(quotes, at + quotes.size());
    at = end == StringRef::npos ? text.size() : end + quotes.size();
  }

  /// A string in single quotes, if they end on this line: reported, and read as
  /// one that has none.
  bool lexSingleQuotes(size_t begin) {
    size_t end = text.find_first_of("'\n", begin + 1);
    if (end == StringRef::npos || text[end] != '\'')
      return false;
    diags
        .error(101,
               {file, static_cast<uint32_t>(begin),
                static_cast<uint32_t>(end + 1)},
               "unexpected character `'`")
        .help("strings stand in double quotes");
    at = end + 1;
    emit(TokenKind::String, begin, at);
    out.tokens.back().text = text.slice(begin + 1, end);
    return true;
  }

  void lexString(size_t begin) {
    ++at;
    while (at < text.size() && text[at] != '"' && text[at] != '\n') {
      if (text[at] == '\\' && at + 1 < text.size() && text[at + 1] != '\n')
        checkEscape(at++);
      ++at;
    }
    if (peek() != '"') {
      Range range{file, static_cast<uint32_t>(begin),
                  static_cast<uint32_t>(std::min(at, text.size()))};
      diags.error(103, range, "the string does not end on its line")
          .help("close it with `\"`");
      at = std::min(at, text.size());
      if (!out.openString)
        out.openString = begin;
    } else {
      ++at;
    }
    emit(TokenKind::String, begin, at);
  }

  uint32_t file;
  StringRef text;
  Diagnostics &diags;
  size_t at;
  bool newLine = true;
  TokenList out;
};

} // namespace

TokenList tfm::lex(const SourceManager &sources, uint32_t file,
                   Diagnostics &diags, uint32_t begin) {
  return Lexer(sources, file, diags, begin).run();
}

int tfm::precedenceOf(const Token &token) {
  if (token.kind == TokenKind::Name)
    return token.text == "or" ? 1 : token.text == "and" ? 2 : -1;
  if (token.kind != TokenKind::Punct)
    return -1;
  return llvm::StringSwitch<int>(token.text)
      .Cases({"==", "!=", "<", "<=", ">", ">="}, 4)
      .Cases({"+", "-"}, 5)
      .Cases({"*", "/", "//", "%", "@"}, tightestPrecedence)
      .Default(-1);
}

bool tfm::endsInDivision(StringRef text) {
  text = text.rtrim(' ');
  return text.consume_back("//") && text.ends_with(" ");
}

std::string tfm::unquote(StringRef literal) {
  literal.consume_front("\"");
  std::string value;
  for (size_t i = 0; i < literal.size(); ++i) {
    char c = literal[i];
    if (c == '"')
      break;
    if (c != '\\' || i + 1 >= literal.size()) {
      value += c;
      continue;
    }
    switch (literal[++i]) {
    case 'n':
      value += '\n';
      break;
    case 't':
      value += '\t';
      break;
    case 'r':
      value += '\r';
      break;
    default:
      value += literal[i];
    }
  }
  return value;
}
