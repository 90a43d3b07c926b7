//===- ParseMember.cpp - members of a module ------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/frontend/syntax/ParserImpl.h"

#include "compiler/frontend/syntax/Habits.h"

using namespace tfm;
using namespace tfm::ast;
using llvm::StringRef;
using llvm::Twine;

static constexpr StringRef memberForms =
    "a member: `name = ...`, `param`, `const`, `require` or `forward(...)`";
/// For `head.weight = wte.weight`.
static constexpr StringRef tieForm =
    "a tie stands where the member is declared: `head = Linear(width, vocab, "
    "bias = false, weight = wte.weight)`";

/// Whether a value is `Repeat(layers)`, behind which a module stands.
static bool isLikeRepeat(const Expr *value) {
  if (!value || value->kind != ExprKind::Call ||
      value->kids[0]->kind != ExprKind::Name)
    return false;
  std::string word = value->kids[0]->text.lower();
  return word == "repeat" || closestName(word, {"repeat"}) == "repeat";
}

void Parser::parseMember(std::vector<Member> &members) {
  Member member;
  member.doc = takeDoc();
  if (tok().is("}") || atEnd())
    return;
  startStatement();
  const Token word = tok();
  member.range = word.range;
  if (word.kind != TokenKind::Name) {
    unexpected(memberForms);
    skipToLine();
    return;
  }
  bool isControl = word.text == "for" || word.text == "while" ||
                   word.text == "if" || word.text == "elif";
  if ((isControl || !tok(1).is("(")) && reportHabit(memberForms)) {
    skipToLine();
    skipIndented(word);
    return;
  }
  bool isKeyword = !tok(1).is("=") && !tok(1).is("(");
  bool parsed = false;
  if (word.text == "require" && !tok(1).is("=")) {
    take();
    member.kind = MemberKind::Require;
    member.value = parseExpr();
    if (consume(","))
      member.condition = parseExpr();
    member.range = word.range.to(list.tokens[at - 1].range);
    parsed = true;
  } else if (word.text == "param" && isKeyword) {
    parsed = parseParam(member);
  } else if (word.text == "const" && isKeyword) {
    parsed = parseConst(member);
  } else if (tok(1).is("=")) {
    member.name = word.text;
    checkDeclared(word);
    take();
    take();
    member.value = parseValue();
    parsed = true;
  } else if (tok(1).is("(")) {
    member.kind = MemberKind::Method;
    member.name = word.text;
    checkDeclared(word);
    member.method = parseMethod(member.doc);
    if (!member.method)
      return;
    members.push_back(std::move(member));
    return;
  } else {
    take();
    Diagnostic &d = unexpected("`=` or `(` after `" + word.text + "`");
    if (word.text == "function")
      d.help(statementHabit("def"));
    else if (word.text == "return")
      d.help("what is computed stands in `forward(...) -> ... { return ... }`");
    else if (tok().is("."))
      d.help(tieForm);
    else if (tok().is(":"))
      d.help("a member is written `" + word.text +
             " = ...`, a parameter `param " + word.text + ": [width] = zeros`");
    skipToLine();
    return;
  }
  if (!parsed) {
    skipToLine();
    return;
  }
  bool valid = !member.value || member.value->kind != ExprKind::Invalid;
  if (valid && !tok().startsLine && !tok().is("}") && !atEnd()) {
    Diagnostic &d = unexpected("the end of the line");
    if (tok().kind == TokenKind::Name && isLikeRepeat(member.value))
      d.help("did you mean `repeat`?");
    skipToLine();
  } else if (!valid && !tok().startsLine) {
    skipToLine();
  }
  members.push_back(std::move(member));
}

bool Parser::parseParam(Member &member) {
  member.kind = MemberKind::Param;
  take();
  Token name;
  if (!parseName(name, "the name of the parameter"))
    return false;
  member.name = name.text;
  member.range = name.range;
  if (!tok().is(":")) {
    bool isNumber = tok().is("=") && (tok(1).kind == TokenKind::Float ||
                                      tok(1).kind == TokenKind::Integer);
    unexpected("`:` and the shape of `" + name.text + "`")
        .help("write `param " + name.text + ": [width] = zeros`" +
              (isNumber ? ", or of one number `param " + name.text +
                              ": [] = " + tok(1).text + "`"
                        : ""));
    return false;
  }
  take();
  if (!tok().is("[") && !(tok().isName("float") && tok(1).is("["))) {
    unexpected("the shape of `" + name.text + "`")
        .help("a shape stands in brackets: `param " + name.text +
              ": [width] = zeros`");
    return false;
  }
  member.type = parseType();
  if (consume("="))
    member.value = parseExpr();
  if (tok().isName("if") && !tok().startsLine) {
    take();
    member.condition = parseExpr();
  }
  while (consume(",")) {
    Token option;
    if (!parseName(option, "`trainable`"))
      return false;
    if (option.text != "trainable" || !tok().is("=")) {
      diags
          .error(116, option.range,
                 "a parameter has no option `" + option.text + "`")
          .help("the only option is `trainable = false`");
      return false;
    }
    take();
    member.trainable = parseExpr();
  }
  return true;
}

bool Parser::parseConst(Member &member) {
  member.kind = MemberKind::Const;
  take();
  Token name;
  if (!parseName(name, "the name of the constant"))
    return false;
  member.name = name.text;
  member.range = name.range;
  if (consume("[")) {
    ++brackets;
    while (!atEnd() && !tok().is("]")) {
      IndexVariable index;
      Token variable;
      if (!parseName(variable, "the name of an index"))
        break;
      index.name = variable.text;
      index.range = variable.range;
      if (!expect(":", "and the number of values of `" + variable.text + "`"))
        break;
      index.extent = parseExpr();
      for (const IndexVariable &other : member.indices)
        if (other.name == index.name)
          reportTwice(121, index.range,
                      "`" + variable.text + "` is declared twice", other.range);
      member.indices.push_back(index);
      if (!consume(","))
        break;
    }
    --brackets;
    if (!expect("]", "to end the indices of `" + name.text + "`"))
      return false;
  }
  if (!consume("=")) {
    Diagnostic &d = unexpected("`=` and the value of `" + name.text + "`");
    if (tok().is("("))
      d.help("indices stand in brackets: `const " + name.text +
             "[i: context, j: width] = ...`");
    return false;
  }
  Range begin = tok().range;
  member.value = parseExpr();
  member.formula = begin.to(list.tokens[at ? at - 1 : 0].range);
  return true;
}

std::unique_ptr<Method> Parser::parseMethod(std::string doc) {
  auto method = std::make_unique<Method>();
  method->doc = std::move(doc);
  size_t head = at;
  while (head > 0 && !list.tokens[head].startsLine)
    --head;
  auto column = [&](const Token &token) {
    return sources.file(file).column(token.range.begin);
  };
  const unsigned indent = column(list.tokens[head]);
  Token name = take();
  method->name = name.text;
  method->range = name.range;
  if (!tok().is("(")) {
    unexpected("`(` and the arguments of `" + name.text + "`");
    skipToLine();
    return nullptr;
  }
  parseParameters(method->parameters, /*areArguments=*/true);
  bool isColon =
      tok().is(":") &&
      (tok(1).is("[") || (tok(1).kind == TokenKind::Name && tok(2).is("[")));
  if (isColon) {
    unexpected("`->` before the result of `" + name.text + "`");
    take();
  }
  if (isColon || consume("->")) {
    if (tok().is("(")) {
      take();
      while (!atEnd() && !tok().is(")")) {
        method->results.push_back(parseType());
        if (!consume(","))
          break;
      }
      expect(")", "to end the results");
    } else {
      method->results.push_back(parseType());
    }
  }
  if (!tok().is("{")) {
    Diagnostic &d = unexpected("`{` to begin the body of `" + name.text + "`");
    bool isIndented = tok().startsLine && tok().kind == TokenKind::Name &&
                      column(tok()) > indent;
    if (!tok().is(":") && !isIndented) {
      skipToLine();
      return nullptr;
    }
    if (tok().is(":"))
      d.help("write `{` instead of `:`, and `}` behind the body");
  }
  // A body behind `:`, or without `{`, can still be read, up to where the
  // module ends or goes on.
  bool isOpen = (consume(":") || tok().startsLine) && !tok().is("{");
  if (!isOpen)
    take();
  unsigned outerBrackets = brackets;
  brackets = 0;
  while (!atEnd() && !tok().is("}")) {
    takeDoc();
    if (tok().is("}") || atEnd())
      break;
    if (isOpen &&
        ((tok().startsLine && (tok(1).is("(") || column(tok()) <= indent)) ||
         (tok().startsColumn && startsItem())))
      break;
    size_t before = at;
    if (!parseStatement(method->body))
      skipToLine();
    if (at == before)
      take();
  }
  brackets = outerBrackets;
  if (!isOpen)
    expect("}", "to end the body of `" + name.text + "`");
  else if (tok().startsLine && column(tok()) == indent)
    consume("}");
  return method;
}

bool Parser::parseStatement(std::vector<Stmt> &body) {
  Stmt stmt;
  startStatement();
  stmt.range = tok().range;
  if (tok().isName("return") && !tok(1).is("=")) {
    stmt.kind = StmtKind::Return;
    take();
    do
      stmt.values.push_back(parseExpr());
    while (consume(","));
  } else if (tok().isName("require") && !tok(1).is("=")) {
    stmt.kind = StmtKind::Require;
    take();
    stmt.values.push_back(parseExpr());
    if (consume(","))
      stmt.values.push_back(parseExpr());
  } else {
    StringRef forms = "a statement: `name = ...` or `return ...`";
    if (reportHabit(forms))
      return false;
    do {
      Token name;
      if (!parseName(name, forms))
        return false;
      stmt.targets.push_back({name.text, name.range});
    } while (consume(","));
    if (stmt.targets.size() == 1 && consume(":"))
      stmt.type = parseType();
    if (!tok().is("=")) {
      StringRef op = tok().text;
      Diagnostic &d =
          unexpected("`=` after `" + stmt.targets.back().name + "`");
      if (tok(1).is("=") && (op == "+" || op == "-" || op == "*" || op == "/"))
        d.help("write `" + stmt.targets[0].name + " = " + stmt.targets[0].name +
               " " + op + " ...`");
      else if (stmt.targets.size() == 1 && tok().is("("))
        d.help("a call alone has no effect: name its result or return it");
      else if (stmt.targets.size() == 1 && !tok().startsLine &&
               closestName(stmt.targets[0].name, {"return"}) == "return")
        d.help("did you mean `return`?");
      else if (stmt.targets.size() == 1 && tok().is("."))
        d.help(tieForm);
      else if (stmt.targets.size() == 1 && assignsPart())
        d.help("no tensor is changed in parts: `where(mask, value, x)` and "
               "`concat` make another one");
      else if (stmt.targets.size() == 1 &&
               llvm::is_contained({"+", "-", "*", "/", "//", "%", "**", "@",
                                   "[", "<", "<=", ">", ">=", "==", "!=", "}"},
                                  op))
        d.help("a value alone has no effect: name it or return it, as in "
               "`return " +
               stmt.targets[0].name +
               (op == "}"   ? "`"
                : op == "[" ? "[...]`"
                            : " " + op + " ...`"));
      return false;
    }
    take();
    stmt.values.push_back(parseValue());
  }
  for (const Expr *value : stmt.values) {
    if (value->kind == ExprKind::Invalid) {
      body.push_back(std::move(stmt));
      return tok().startsLine || tok().is("}");
    }
  }
  stmt.range = stmt.range.to(list.tokens[at - 1].range);
  body.push_back(std::move(stmt));
  if (!tok().startsLine && !tok().is("}") && !atEnd()) {
    Diagnostic &d = unexpected("the end of the line");
    // `x = a +`, and `return` in the next line.
    if (at > 1 && list.tokens[at - 1].isName("return") &&
        list.tokens[at - 1].startsLine)
      d.note("the line before ends with `" + list.tokens[at - 2].text +
             "`, and so goes on here");
    return false;
  }
  return true;
}
