//===- jinja_lexer.cpp - the words of a chat template -------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/chat/jinja_lexer.h"

#include "runtime/chat/jinja_syntax.h"
#include "runtime/support/utf8.h"

#include <charconv>
#include <utility>

namespace tfm::jinja {

namespace {

bool isNameStart(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
bool isDigit(char c) { return c >= '0' && c <= '9'; }

/// The bytes of the white space that a text begins with, as Python counts it.
size_t blanksBefore(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    CodePoint c = decodeUtf8(text, at);
    if (!isSpace(c.value))
      break;
    at += c.bytes;
  }
  return at;
}

/// A text without that at its end.
std::string_view withoutBlanksBehind(std::string_view text) {
  while (!text.empty()) {
    size_t last = text.size() - 1;
    while (last > 0 && (static_cast<unsigned char>(text[last]) & 0xC0) == 0x80)
      --last;
    if (blanksBefore(text.substr(last)) != text.size() - last)
      break;
    text = text.substr(0, last);
  }
  return text;
}

/// Cuts a template into text and what stands in `{{ }}` and `{% %}`.
class Lexer {
public:
  explicit Lexer(std::string_view text) : source(text) {
    // One new line at the end is not part of a template.
    if (source.ends_with('\n'))
      source.remove_suffix(1);
    if (source.ends_with('\r'))
      source.remove_suffix(1);
  }

  std::vector<Token> run() {
    while (at < source.size()) {
      size_t open = findOpen(at);
      addData(open);
      if (open == source.size())
        break;
      char kind = source[open + 1];
      if (kind == '#')
        comment(open);
      else
        inside(open, kind);
    }
    tokens.push_back({Token::EndOfText, source.size(), ""});
    return std::move(tokens);
  }

private:
  [[noreturn]] static void fail(size_t at, const std::string &message) {
    throw PlacedProblem{at, message};
  }

  size_t findOpen(size_t from) const {
    for (size_t i = from; i + 1 < source.size(); ++i)
      if (source[i] == '{' && (source[i + 1] == '{' || source[i + 1] == '%' ||
                               source[i + 1] == '#'))
        return i;
    return source.size();
  }

  /// The text up to a tag, of which blanks may belong to the tag.
  void addData(size_t open) {
    std::string_view data = source.substr(at, open - at);
    if (open < source.size()) {
      char sign = open + 2 < source.size() ? source[open + 2] : ' ';
      if (sign == '-') {
        data = withoutBlanksBehind(data);
      } else if (sign != '+' && source[open + 1] != '{') {
        // Blanks between the beginning of the line and a block.
        size_t line = data.rfind('\n') + 1;
        bool startsLine = line > 0 || lineStarts;
        std::string_view blanks = data.substr(line);
        if (startsLine && blanksBefore(blanks) == blanks.size())
          data = data.substr(0, line);
      }
    }
    if (!data.empty()) {
      std::string text;
      for (size_t i = 0; i < data.size(); ++i)
        if (!(data[i] == '\r' && i + 1 < data.size() && data[i + 1] == '\n'))
          text += data[i];
      tokens.push_back({Token::Data, at, text});
    }
    at = open;
  }

  /// Steps over the end of a tag and what belongs to it.
  void close(size_t end, bool stripsAll, bool trims) {
    at = end;
    if (stripsAll)
      at += blanksBefore(source.substr(at));
    else if (trims && source.substr(at).starts_with("\r\n"))
      at += 2;
    else if (trims && at < source.size() && source[at] == '\n')
      ++at;
    lineStarts = at > 0 && source[at - 1] == '\n';
  }

  void comment(size_t open) {
    // With nothing in it there is nothing to end.
    if (std::string_view rest = source.substr(open);
        rest == "{#" || rest == "{#-") {
      at = source.size();
      return;
    }
    size_t end = source.find("#}", open + 2);
    if (end == std::string_view::npos)
      fail(open, "this comment has no end: `#}`");
    char sign = end > open + 2 ? source[end - 1] : ' ';
    close(end + 2, sign == '-', sign != '+');
  }

  void inside(size_t open, char kind) {
    bool isPrint = kind == '{';
    tokens.push_back(
        {isPrint ? Token::PrintBegin : Token::BlockBegin, open, ""});
    size_t first = tokens.size();
    std::string_view mark = isPrint ? "}}" : "%}";
    size_t i = open + 2;
    if (i < source.size() && (source[i] == '-' || source[i] == '+'))
      ++i;
    // Braces of a dictionary may stand before the end of an expression.
    int depth = 0;
    while (true) {
      i += blanksBefore(source.substr(i));
      if (i == source.size())
        fail(open, isPrint ? "this expression has no end: `}}`"
                           : "this block has no end: `%}`");
      std::string_view rest = source.substr(i);
      bool signs = (rest[0] == '-' || rest[0] == '+') &&
                   rest.substr(1).starts_with(mark);
      if (depth == 0 && (signs || rest.starts_with(mark))) {
        tokens.push_back({Token::End, i, ""});
        char sign = signs ? rest[0] : ' ';
        size_t end = i + mark.size() + (signs ? 1 : 0);
        bool isRaw = !isPrint && tokens.size() == first + 2 &&
                     tokens[first].text == "raw";
        // The line of `raw` ends in its text.
        close(end, sign == '-', !isPrint && !isRaw && sign != '+');
        if (isRaw)
          raw(open);
        return;
      }
      i = one(i, depth);
    }
  }

  /// What stands between `raw` and `endraw` is text.
  void raw(size_t open) {
    tokens.resize(tokens.size() - 3);
    size_t from = at;
    for (size_t tag = source.find("{%", at); tag != std::string_view::npos;
         tag = source.find("{%", tag + 2)) {
      size_t i = tag + 2;
      if (i < source.size() && (source[i] == '-' || source[i] == '+'))
        ++i;
      i += blanksBefore(source.substr(i));
      if (!source.substr(i).starts_with("endraw"))
        continue;
      size_t end = source.find("%}", i);
      if (end == std::string_view::npos)
        break;
      at = from;
      addData(tag);
      close(end + 2, source[end - 1] == '-', source[end - 1] != '+');
      return;
    }
    fail(open, "`raw` has no `endraw`");
  }

  char character(size_t i) const {
    return i < source.size() ? source[i] : '\0';
  }

  /// Where digits end that begin at `i`: 1_000 are some.
  size_t digits(size_t i) const {
    while (isDigit(character(i)) ||
           (character(i) == '_' && isDigit(character(i + 1))))
      ++i;
    return i;
  }

  /// One token of an expression; returns where it ends.
  size_t one(size_t i, int &depth) {
    char c = source[i];
    if (isNameStart(c)) {
      size_t end = i;
      while (end < source.size() &&
             (isNameStart(source[end]) || isDigit(source[end])))
        ++end;
      add(Token::Name, i, end);
      return end;
    }
    if (isDigit(c)) {
      size_t end = digits(i);
      if (character(end) == '.' && isDigit(character(end + 1)))
        end = digits(end + 1);
      size_t power = end + 1;
      power += character(power) == '+' || character(power) == '-';
      if ((character(end) == 'e' || character(end) == 'E') &&
          isDigit(character(power)))
        end = digits(power);
      add(Token::Number, i, end);
      return end;
    }
    if (c == '"' || c == '\'')
      return string(i);
    for (std::string_view two : {"==", "!=", "<=", ">=", "//", "**"})
      if (source.substr(i).starts_with(two)) {
        add(Token::Operator, i, i + 2);
        return i + 2;
      }
    if (std::string_view("+-*/%~<>=.,:|()[]{}").find(c) ==
        std::string_view::npos)
      fail(i,
           "no expression has " + characterName(decodeUtf8(source, i).value));
    depth += c == '{' || c == '[' || c == '(';
    depth -= c == '}' || c == ']' || c == ')';
    add(Token::Operator, i, i + 1);
    return i + 1;
  }

  size_t string(size_t open) {
    std::string text;
    size_t i = open + 1;
    for (; i < source.size() && source[i] != source[open]; ++i) {
      if (source[i] != '\\' || i + 1 == source.size()) {
        text += source[i];
        continue;
      }
      char c = source[++i];
      auto hexadecimal = [&](size_t digits) {
        uint32_t value = 0;
        std::string_view part = source.substr(i + 1, digits);
        auto read =
            std::from_chars(part.data(), part.data() + part.size(), value, 16);
        if (part.size() != digits || read.ptr != part.data() + digits ||
            value > 0x10FFFF || (value >= 0xD800 && value < 0xE000))
          fail(i, "this is no character");
        appendUtf8(static_cast<int32_t>(value), text);
        i += digits;
      };
      switch (c) {
      case 'n':
        text += '\n';
        break;
      case 't':
        text += '\t';
        break;
      case 'r':
        text += '\r';
        break;
      case '\n':
        break;
      case 'x':
        hexadecimal(2);
        break;
      case 'u':
        hexadecimal(4);
        break;
      case 'U':
        hexadecimal(8);
        break;
      default:
        if (c != '\\' && c != '\'' && c != '"')
          text += '\\'; // as Python leaves what means nothing
        text += c;
      }
    }
    if (i >= source.size())
      fail(open, "this text has no end");
    tokens.push_back({Token::String, open, text});
    return i + 1;
  }

  void add(Token::Kind kind, size_t from, size_t to) {
    tokens.push_back({kind, from, std::string(source.substr(from, to - from))});
  }

  std::string_view source;
  size_t at = 0;
  bool lineStarts = true;
  std::vector<Token> tokens;
};

} // namespace

std::vector<Token> tokensOf(std::string_view source) {
  return Lexer(source).run();
}

} // namespace tfm::jinja
