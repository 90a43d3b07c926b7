//===- jinja_parser.cpp - reads a chat template -------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

// The grammar is Jinja's (https://jinja.palletsprojects.com), as far as chat
// templates use it: docs/cli.md lists what there is.
//
//===----------------------------------------------------------------------===//

#include "runtime/chat/jinja_syntax.h"
#include "runtime/tokenizer/utf8.h"

#include <algorithm>
#include <charconv>

namespace tfm::jinja {

namespace {

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

bool isNameStart(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
bool isDigit(char c) { return c >= '0' && c <= '9'; }
bool isBlank(char c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\v' ||
         c == '\f';
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
        while (!data.empty() && isBlank(data.back()))
          data.remove_suffix(1);
      } else if (sign != '+' && source[open + 1] != '{') {
        // Blanks between the beginning of the line and a block.
        size_t line = data.rfind('\n') + 1;
        bool startsLine = line > 0 || lineStarts;
        std::string_view blanks = data.substr(line);
        if (startsLine && std::ranges::all_of(blanks, isBlank))
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
      while (at < source.size() && isBlank(source[at]))
        ++at;
    else if (trims && source.substr(at).starts_with("\r\n"))
      at += 2;
    else if (trims && at < source.size() && source[at] == '\n')
      ++at;
    lineStarts = at > 0 && source[at - 1] == '\n';
  }

  void comment(size_t open) {
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
      while (i < source.size() && isBlank(source[i]))
        ++i;
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
        close(end, sign == '-', !isPrint && sign != '+');
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
      while (i < source.size() && (isBlank(source[i]) || source[i] == '-'))
        ++i;
      if (!source.substr(i).starts_with("endraw"))
        continue;
      size_t end = source.find("%}", i);
      if (end == std::string_view::npos)
        break;
      at = from;
      addData(tag);
      close(end + 2, source[end - 1] == '-', true);
      return;
    }
    fail(open, "`raw` has no `endraw`");
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
      size_t end = i;
      while (end < source.size() && isDigit(source[end]))
        ++end;
      if (end + 1 < source.size() && source[end] == '.' &&
          isDigit(source[end + 1])) {
        ++end;
        while (end < source.size() && isDigit(source[end]))
          ++end;
      }
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

class Parser {
public:
  explicit Parser(std::vector<Token> tokens) : tokens(std::move(tokens)) {}

  Statements run() {
    Statements result = statements({});
    return result;
  }

private:
  static constexpr int deepest = 100;

  const Token &now() const { return tokens[at]; }
  const Token &ahead(size_t count) const {
    return tokens[std::min(at + count, tokens.size() - 1)];
  }
  [[noreturn]] void fail(const std::string &message) const {
    throw PlacedProblem{now().at, message};
  }
  bool isOperator(std::string_view text) const {
    return now().kind == Token::Operator && now().text == text;
  }
  bool isName(std::string_view text) const {
    return now().kind == Token::Name && now().text == text;
  }
  bool skipOperator(std::string_view text) {
    bool found = isOperator(text);
    at += found;
    return found;
  }
  bool skipName(std::string_view text) {
    bool found = isName(text);
    at += found;
    return found;
  }
  void expect(std::string_view text) {
    if (!skipOperator(text))
      fail("expected `" + std::string(text) + "`" + instead());
  }
  std::string instead() const {
    switch (now().kind) {
    case Token::End:
      return " before the end of the tag";
    case Token::EndOfText:
      return " before the end of the template";
    case Token::String:
      return ", not a text";
    default:
      return ", not `" + now().text + "`";
    }
  }
  std::string name() {
    if (now().kind != Token::Name)
      fail("expected a name" + instead());
    return tokens[at++].text;
  }
  void end() {
    if (now().kind != Token::End)
      fail("expected the end of the tag" + instead());
    ++at;
  }

  struct Depth {
    explicit Depth(Parser &parser) : parser(parser) {
      if (++parser.depth > deepest)
        parser.fail("this is nested too deeply");
    }
    ~Depth() { --parser.depth; }
    Parser &parser;
  };

  //===--------------------------------------------------------------------===//
  // Statements
  //===--------------------------------------------------------------------===//

  /// Up to a block that begins with one of `ends`, which is left there.
  Statements statements(const std::vector<std::string_view> &ends) {
    Depth guard(*this);
    Statements result;
    while (true) {
      switch (now().kind) {
      case Token::EndOfText:
        if (!ends.empty())
          fail("`" + std::string(ends.back()) + "` is missing");
        return result;
      case Token::Data: {
        Statement text;
        text.at = now().at;
        text.text = tokens[at++].text;
        result.push_back(std::move(text));
        break;
      }
      case Token::PrintBegin: {
        Statement print;
        print.kind = Statement::Print;
        print.at = tokens[at++].at;
        print.expressions.push_back(tuple());
        end();
        result.push_back(std::move(print));
        break;
      }
      case Token::BlockBegin:
        if (ahead(1).kind == Token::Name &&
            std::ranges::find(ends, ahead(1).text) != ends.end())
          return result;
        block(result);
        break;
      default:
        fail("this is no template");
      }
    }
  }

  /// Enters a block that `statements` has stopped at.
  std::string enter() {
    ++at;
    return name();
  }

  void block(Statements &result) {
    Statement statement;
    statement.at = now().at;
    std::string word = enter();
    if (word == "if") {
      ifBlock(statement);
    } else if (word == "for") {
      forBlock(statement);
    } else if (word == "set") {
      setBlock(statement);
    } else if (word == "macro") {
      macroBlock(statement);
    } else if (word == "break" || word == "continue") {
      statement.kind = word == "break" ? Statement::Break : Statement::Continue;
      if (loops == 0)
        throw PlacedProblem{statement.at, "`" + word + "` stands in no loop"};
      end();
    } else if (word == "generation") {
      statement.kind = Statement::Scope;
      end();
      statement.bodies.push_back(statements({"endgeneration"}));
      enter();
      end();
    } else {
      throw PlacedProblem{statement.at,
                          "the block `" + word + "` is not supported"};
    }
    result.push_back(std::move(statement));
  }

  void ifBlock(Statement &statement) {
    statement.kind = Statement::If;
    statement.expressions.push_back(tuple());
    end();
    while (true) {
      statement.bodies.push_back(statements({"elif", "else", "endif"}));
      std::string word = enter();
      if (word == "elif") {
        statement.expressions.push_back(tuple());
        end();
        continue;
      }
      end();
      if (word == "endif")
        return;
      statement.bodies.push_back(statements({"endif"}));
      enter();
      end();
      return;
    }
  }

  void forBlock(Statement &statement) {
    statement.kind = Statement::For;
    bool inParentheses = skipOperator("(");
    do
      statement.words.push_back(name());
    while (skipOperator(","));
    if (inParentheses)
      expect(")");
    if (!skipName("in"))
      fail("expected `in`" + instead());
    statement.expressions.push_back(tuple(/*withIf=*/false));
    if (skipName("if"))
      statement.expressions.push_back(expression());
    if (isName("recursive"))
      fail("recursive loops are not supported");
    end();
    ++loops;
    statement.bodies.push_back(statements({"else", "endfor"}));
    --loops;
    if (enter() == "else") {
      end();
      statement.bodies.push_back(statements({"endfor"}));
      enter();
    }
    end();
  }

  void setBlock(Statement &statement) {
    do
      statement.words.push_back(name());
    while (skipOperator(","));
    if (statement.words.size() == 1 && skipOperator("."))
      statement.text = name();
    if (skipOperator("=")) {
      statement.kind = Statement::Set;
      statement.expressions.push_back(tuple());
      end();
      return;
    }
    if (statement.words.size() != 1 || !statement.text.empty())
      fail("expected `=`" + instead());
    statement.kind = Statement::Block;
    end();
    statement.bodies.push_back(statements({"endset"}));
    enter();
    end();
  }

  void macroBlock(Statement &statement) {
    statement.kind = Statement::Macro;
    statement.text = name();
    expect("(");
    while (!skipOperator(")")) {
      if (!statement.words.empty())
        expect(",");
      statement.words.push_back(name());
      if (skipOperator("="))
        statement.expressions.push_back(expression());
      else if (!statement.expressions.empty())
        fail("a parameter without a default follows one that has one");
    }
    end();
    int around = std::exchange(loops, 0);
    statement.bodies.push_back(statements({"endmacro"}));
    loops = around;
    enter();
    if (now().kind == Token::Name)
      ++at; // the macro's name again
    end();
  }

  //===--------------------------------------------------------------------===//
  // Expressions, from weak to strong
  //===--------------------------------------------------------------------===//

  ExpressionPtr make(Expression::Kind kind, size_t place) const {
    auto result = std::make_unique<Expression>();
    result->kind = kind;
    result->at = place;
    return result;
  }

  ExpressionPtr binary(std::string word, size_t place, ExpressionPtr left,
                       ExpressionPtr right) const {
    ExpressionPtr result = make(Expression::Binary, place);
    result->text = std::move(word);
    result->kids.push_back(std::move(left));
    result->kids.push_back(std::move(right));
    return result;
  }

  /// `a, b` without parentheses is a tuple, too.
  ExpressionPtr tuple(bool withIf = true) {
    size_t place = now().at;
    ExpressionPtr first = withIf ? expression() : orExpression();
    if (!isOperator(","))
      return first;
    ExpressionPtr result = make(Expression::List, place);
    result->flag = true;
    result->kids.push_back(std::move(first));
    while (skipOperator(",") && now().kind != Token::End)
      result->kids.push_back(withIf ? expression() : orExpression());
    return result;
  }

  ExpressionPtr expression() {
    Depth guard(*this);
    ExpressionPtr result = orExpression();
    while (isName("if")) {
      ExpressionPtr choose = make(Expression::Choose, tokens[at++].at);
      choose->kids.push_back(std::move(result));
      choose->kids.push_back(orExpression());
      if (skipName("else"))
        choose->kids.push_back(expression());
      result = std::move(choose);
    }
    return result;
  }

  ExpressionPtr orExpression() {
    ExpressionPtr left = andExpression();
    while (isName("or")) {
      size_t place = tokens[at++].at;
      left = binary("or", place, std::move(left), andExpression());
    }
    return left;
  }

  ExpressionPtr andExpression() {
    ExpressionPtr left = notExpression();
    while (isName("and")) {
      size_t place = tokens[at++].at;
      left = binary("and", place, std::move(left), notExpression());
    }
    return left;
  }

  ExpressionPtr notExpression() {
    if (!isName("not"))
      return comparison();
    Depth guard(*this);
    ExpressionPtr result = make(Expression::Unary, tokens[at++].at);
    result->text = "not";
    result->kids.push_back(notExpression());
    return result;
  }

  ExpressionPtr comparison() {
    ExpressionPtr left = sum();
    ExpressionPtr chain;
    while (true) {
      std::string word;
      size_t place = now().at;
      for (const char *known : {"==", "!=", "<=", ">=", "<", ">"})
        if (word.empty() && skipOperator(known))
          word = known;
      if (word.empty() && skipName("in"))
        word = "in";
      if (word.empty() && isName("not") && ahead(1).kind == Token::Name &&
          ahead(1).text == "in") {
        at += 2;
        word = "not in";
      }
      if (word.empty())
        return chain ? std::move(chain) : std::move(left);
      if (!chain) {
        chain = make(Expression::Compare, place);
        chain->kids.push_back(std::move(left));
      }
      chain->words.push_back(word);
      chain->kids.push_back(sum());
    }
  }

  ExpressionPtr sum() {
    ExpressionPtr left = joined();
    while (isOperator("+") || isOperator("-")) {
      const Token &word = tokens[at++];
      left = binary(word.text, word.at, std::move(left), joined());
    }
    return left;
  }

  ExpressionPtr joined() {
    ExpressionPtr left = product();
    while (isOperator("~")) {
      size_t place = tokens[at++].at;
      left = binary("~", place, std::move(left), product());
    }
    return left;
  }

  ExpressionPtr product() {
    ExpressionPtr left = power();
    while (isOperator("*") || isOperator("/") || isOperator("//") ||
           isOperator("%")) {
      const Token &word = tokens[at++];
      left = binary(word.text, word.at, std::move(left), power());
    }
    return left;
  }

  ExpressionPtr power() {
    ExpressionPtr left = unary(true);
    while (isOperator("**")) {
      size_t place = tokens[at++].at;
      left = binary("**", place, std::move(left), unary(true));
    }
    return left;
  }

  ExpressionPtr unary(bool withFilters) {
    Depth guard(*this);
    ExpressionPtr result;
    if (isOperator("-") || isOperator("+")) {
      result = make(Expression::Unary, now().at);
      result->text = tokens[at++].text;
      result->kids.push_back(unary(false));
    } else {
      result = primary();
    }
    result = postfix(std::move(result));
    return withFilters ? filters(std::move(result)) : std::move(result);
  }

  ExpressionPtr primary() {
    const Token &token = now();
    ExpressionPtr result = make(Expression::Literal, token.at);
    switch (token.kind) {
    case Token::Name:
      ++at;
      if (token.text == "true" || token.text == "True") {
        result->value = Value::boolean(true);
      } else if (token.text == "false" || token.text == "False") {
        result->value = Value::boolean(false);
      } else if (token.text == "none" || token.text == "None") {
        result->value = Value::none();
      } else {
        result->kind = Expression::Name;
        result->text = token.text;
      }
      return result;
    case Token::String: {
      std::string text;
      while (now().kind == Token::String)
        text += tokens[at++].text;
      result->value = Value::string(std::move(text));
      return result;
    }
    case Token::Number:
      result->value = number(tokens[at].text);
      ++at;
      return result;
    case Token::Operator:
      if (skipOperator("("))
        return inParentheses(token.at);
      if (skipOperator("["))
        return items(Expression::List, "]", token.at);
      if (skipOperator("{"))
        return items(Expression::Dict, "}", token.at);
      [[fallthrough]];
    default:
      fail("expected an expression" + instead());
    }
  }

  Value number(const std::string &text) const {
    const char *last = text.data() + text.size();
    if (text.find('.') == std::string::npos) {
      int64_t whole = 0;
      if (std::from_chars(text.data(), last, whole).ec != std::errc())
        fail("this number is too large");
      return Value::number(whole);
    }
    double real = 0;
    if (std::from_chars(text.data(), last, real).ec != std::errc())
      fail("this number is too large");
    return Value::number(real);
  }

  ExpressionPtr inParentheses(size_t place) {
    if (isOperator(")")) {
      ExpressionPtr result = items(Expression::List, ")", place);
      result->flag = true;
      return result;
    }
    ExpressionPtr first = expression();
    if (!isOperator(",")) {
      expect(")");
      return first;
    }
    ++at;
    ExpressionPtr result = items(Expression::List, ")", place);
    result->flag = true;
    result->kids.insert(result->kids.begin(), std::move(first));
    return result;
  }

  /// The rest of a list or dictionary.
  ExpressionPtr items(Expression::Kind kind, std::string_view close,
                      size_t place) {
    ExpressionPtr result = make(kind, place);
    while (!skipOperator(close)) {
      result->kids.push_back(expression());
      if (kind == Expression::Dict) {
        expect(":");
        result->kids.push_back(expression());
      }
      if (!isOperator(close))
        expect(",");
    }
    return result;
  }

  ExpressionPtr postfix(ExpressionPtr result) {
    while (true) {
      size_t place = now().at;
      if (skipOperator(".")) {
        ExpressionPtr member = make(Expression::Member, place);
        if (now().kind == Token::Number) {
          member->kind = Expression::Subscript;
          member->kids.push_back(std::move(result));
          ExpressionPtr index = make(Expression::Literal, now().at);
          index->value = number(tokens[at++].text);
          member->kids.push_back(std::move(index));
        } else {
          member->text = name();
          member->kids.push_back(std::move(result));
        }
        result = std::move(member);
      } else if (skipOperator("[")) {
        result = subscript(std::move(result), place);
      } else if (skipOperator("(")) {
        result = call(Expression::Call, std::move(result), place);
      } else {
        return result;
      }
    }
  }

  ExpressionPtr subscript(ExpressionPtr object, size_t place) {
    ExpressionPtr result = make(Expression::Subscript, place);
    result->kids.push_back(std::move(object));
    auto bound = [&]() -> ExpressionPtr {
      return isOperator(":") || isOperator("]") ? nullptr : expression();
    };
    result->kids.push_back(bound());
    if (isOperator(":")) {
      result->kind = Expression::Slice;
      while (result->kids.size() < 4)
        result->kids.push_back(skipOperator(":") ? bound() : nullptr);
    } else if (!result->kids.back()) {
      fail("expected an index" + instead());
    }
    expect("]");
    return result;
  }

  /// The arguments of a call behind its `(`.
  ExpressionPtr call(Expression::Kind kind, ExpressionPtr callee,
                     size_t place) {
    ExpressionPtr result = make(kind, place);
    result->kids.push_back(std::move(callee));
    while (!skipOperator(")")) {
      if (isOperator("*") || isOperator("**"))
        fail("arguments from a list are not supported");
      bool isNamed = now().kind == Token::Name &&
                     ahead(1).kind == Token::Operator && ahead(1).text == "=";
      if (isNamed) {
        result->words.push_back(name());
        ++at;
      } else if (!result->words.empty()) {
        fail("an argument without a name follows one that has one");
      }
      result->kids.push_back(expression());
      if (!isOperator(")"))
        expect(",");
    }
    return result;
  }

  ExpressionPtr filters(ExpressionPtr result) {
    while (true) {
      size_t place = now().at;
      if (skipOperator("|")) {
        std::string word = name();
        if (skipOperator("(")) {
          result = call(Expression::Filter, std::move(result), place);
        } else {
          ExpressionPtr filter = make(Expression::Filter, place);
          filter->kids.push_back(std::move(result));
          result = std::move(filter);
        }
        result->text = word;
      } else if (skipName("is")) {
        result = test(std::move(result), place);
      } else if (skipOperator("(")) {
        result = call(Expression::Call, std::move(result), place);
      } else {
        return result;
      }
    }
  }

  ExpressionPtr test(ExpressionPtr object, size_t place) {
    bool negated = skipName("not");
    std::string word = name();
    ExpressionPtr result;
    if (skipOperator("(")) {
      result = call(Expression::Test, std::move(object), place);
    } else {
      result = make(Expression::Test, place);
      result->kids.push_back(std::move(object));
      bool isArgument = now().kind == Token::String ||
                        now().kind == Token::Number || isOperator("[") ||
                        isOperator("{") ||
                        (now().kind == Token::Name && !isName("else") &&
                         !isName("or") && !isName("and") && !isName("if") &&
                         !isName("is") && !isName("not") && !isName("in"));
      if (isArgument)
        result->kids.push_back(postfix(primary()));
    }
    result->text = word;
    result->flag = negated;
    return result;
  }

  std::vector<Token> tokens;
  size_t at = 0;
  int depth = 0;
  int loops = 0;
};

} // namespace

Statements parse(std::string_view source) {
  return Parser(Lexer(source).run()).run();
}

} // namespace tfm::jinja
