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

#include "runtime/chat/jinja_lexer.h"
#include "runtime/chat/jinja_syntax.h"

#include <algorithm>
#include <charconv>

namespace tfm::jinja {

namespace {

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

  Value number(std::string text) const {
    std::erase(text, '_');
    const char *last = text.data() + text.size();
    if (text.find_first_of(".eE") == std::string::npos) {
      int64_t whole = 0;
      if (std::from_chars(text.data(), last, whole).ec != std::errc())
        fail("this number is too large");
      return Value::number(whole);
    }
    double real = 0;
    if (std::from_chars(text.data(), last, real).ec != std::errc())
      fail("this number is too large, or too near to 0");
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
  return Parser(tokensOf(source)).run();
}

} // namespace tfm::jinja
