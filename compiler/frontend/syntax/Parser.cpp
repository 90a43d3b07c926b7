//===- Parser.cpp - tokens, items and blocks of a file --------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/frontend/syntax/Parser.h"

#include "compiler/frontend/syntax/Habits.h"
#include "compiler/frontend/syntax/ParserImpl.h"
#include "llvm/ADT/StringSwitch.h"

using namespace tfm;
using namespace tfm::ast;
using llvm::StringRef;
using llvm::Twine;

Parser::Parser(const SourceManager &sources, uint32_t file, ast::File &out,
               Diagnostics &diags, uint32_t begin)
    : sources(sources), file(file), out(out), diags(diags),
      list(lex(sources, file, diags, begin)) {
  auto count = [&](StringRef brace) {
    return llvm::count_if(list.tokens,
                          [&](const Token &token) { return token.is(brace); });
  };
  missesBrace = count("{") > count("}");
}

Token Parser::take() {
  Token token = tok();
  if (at + 1 < list.tokens.size())
    ++at;
  return token;
}

bool Parser::consume(StringRef punct) {
  if (!tok().is(punct))
    return false;
  take();
  return true;
}

std::string Parser::describe(const Token &token) const {
  switch (token.kind) {
  case TokenKind::End:
    return sources.file(file).isArgument() ? "the end of the value"
                                           : "the end of the file";
  case TokenKind::Doc:
    return "a comment";
  case TokenKind::String:
    return "the string " + token.text.str();
  default:
    return "`" + token.text.str() + "`";
  }
}

void Parser::giveUp(const Twine &why) {
  diags.error(112, tok().range, why);
  gaveUp = true;
  at = list.tokens.size() - 1;
}

Diagnostic &Parser::unexpected(const Twine &expected) {
  // What a skipped character or an endless string left behind was reported with
  // it.
  if (gaveUp || (list.openString && *list.openString < tok().range.begin))
    return diags.ignored();
  uint32_t before = at ? list.tokens[at - 1].range.begin : 0;
  for (uint32_t error : list.errors)
    if (before <= error && error < tok().range.begin)
      return diags.ignored();
  Diagnostic &d = diags.error(
      110, tok().range, "expected " + expected + ", found " + describe(tok()));
  if (isInComment() || tok().is("//"))
    d.help(commentHelp);
  else if (tok().isName("if") && !tok().startsLine)
    d.help("a choice is written `if condition then a else b`");
  else if (tok().isName("for") && !tok().startsLine)
    d.help(statementHabit("for"));
  else if (tok().is("|"))
    d.help("write `or`");
  else if (at && list.tokens[at - 1].isName("repeat"))
    d.help("how often it is repeated stands in parentheses: `repeat(layers) "
           "Block(width)`");
  else if (at && list.tokens[at - 1].isName("lambda"))
    d.help(nameHabit("lambda"));
  return d;
}

bool Parser::isInComment() const {
  // On this line; or on the one before, if prose ended it with a sign that
  // joined the lines.
  bool joined = false;
  for (size_t i = at; i-- > 0;) {
    const Token &token = list.tokens[i], &next = list.tokens[i + 1];
    if (next.startsLine) {
      bool isSign = token.kind == TokenKind::Punct && !token.is(")") &&
                    !token.is("]") && !token.is("}");
      if (joined || !isSign)
        return false;
      joined = true;
    }
    if (token.is("//"))
      return next.kind == TokenKind::Name &&
             endsInDivision(
                 sources.file(file).text().take_front(token.range.end));
  }
  return false;
}

bool Parser::expect(StringRef punct, const Twine &where) {
  if (consume(punct))
    return true;
  unexpected("`" + punct + "` " + where);
  return false;
}

void Parser::reportTwice(int code, Range second, const Twine &message,
                         Range first) {
  diags.error(code, second, message)
      .help("the first one stands in line " + Twine(sources.line(first)));
}

bool Parser::reportHabit(const Twine &expected) {
  const Token word = tok();
  // Such words are names like others where a name may stand.
  bool isElse = word.isName("else");
  if (word.kind != TokenKind::Name || tok(1).is("=") || tok(1).is(",") ||
      (tok(1).is(":") && !isElse))
    return false;
  StringRef help = statementHabit(word.text);
  if (help.empty())
    return false;
  unexpected(expected).help(help);
  return true;
}

bool Parser::parseName(Token &name, const Twine &what) {
  if (tok().kind != TokenKind::Name) {
    unexpected(what);
    return false;
  }
  name = take();
  bool declares = llvm::any_of(
      StringRef("=:,)["), [&](char c) { return tok().is(StringRef(&c, 1)); });
  if (declares)
    checkDeclared(name);
  return true;
}

void Parser::checkDeclared(const Token &name) {
  constexpr StringRef words[] = {"if",   "and",   "or",  "not",
                                 "true", "false", "none"};
  if (llvm::is_contained(words, name.text))
    diags
        .error(110, name.range,
               "`" + name.text + "` is no name: expressions are made of it")
        .help("take another one");
}

ast::Expr *Parser::parseValue() {
  // The value may stand on the next line, but another entry may not.
  bool missing = atEnd() || tok().is("}") ||
                 (tok().startsLine && tok().kind == TokenKind::Name &&
                  (tok(1).is("=") || tok(1).is(":") || tok(1).is(",")));
  if (!missing)
    return parseExpr();
  Range sign = list.tokens[at ? at - 1 : 0].range;
  diags.error(110, sign, "expected a value after `=`");
  return make(ExprKind::Invalid, sign);
}

std::string Parser::takeDoc() {
  std::string doc;
  while (tok().kind == TokenKind::Doc) {
    StringRef line = take().text.drop_front(3);
    line.consume_front(" ");
    if (!doc.empty())
      doc += '\n';
    doc += line.rtrim();
  }
  return doc;
}

void Parser::skipToLine() {
  unsigned open = 0;
  bool first = true;
  while (!atEnd()) {
    if (!first && open == 0 && tok().startsLine)
      return;
    if (tok().is("(") || tok().is("[") || tok().is("{"))
      ++open;
    if (tok().is(")") || tok().is("]") || tok().is("}")) {
      if (open == 0 && tok().is("}"))
        return;
      if (open > 0)
        --open;
    }
    take();
    first = false;
  }
}

/// Those that an item of a file begins with.
static constexpr StringRef itemWords[] = {
    "import", "family",    "model", "module", "function",
    "const",  "tokenizer", "data",  "train",  "generate"};

static bool isItemWord(const Token &token) {
  return token.kind == TokenKind::Name &&
         llvm::is_contained(itemWords, token.text);
}

/// Whether the block that a word begins has entries in braces.
static bool hasEntries(const Token &word) {
  return word.isName("train") || word.isName("generate");
}

static bool isBlockWord(const Token &token) {
  return hasEntries(token) || token.isName("tokenizer") || token.isName("data");
}

bool Parser::startsItem() const {
  return tok().startsLine && isItemWord(tok()) &&
         (tok(1).kind == TokenKind::Name || tok(1).is("{") ||
          tok(1).kind == TokenKind::String || tok(1).is("="));
}

bool Parser::startsNextItem() const {
  if (!tok().startsColumn || !startsItem())
    return false;
  // `const` and `data = ...` could be members: they are where no `}` is
  // missing.
  bool isMember = tok().isName("const") || tok(1).is("=");
  return !isMember || missesBrace;
}

bool Parser::skipIndented(const Token &head) {
  if (at == 0 || !list.tokens[at - 1].is(":"))
    return false;
  auto column = [&](const Token &token) {
    return sources.file(file).column(token.range.begin);
  };
  while (!atEnd() && tok().startsLine && !tok().is("}") &&
         column(tok()) > column(head))
    skipToLine();
  return true;
}

void Parser::skipToItem() {
  do
    take();
  while (!atEnd() && !startsItem() && tok().kind != TokenKind::Doc);
}

//===----------------------------------------------------------------------===//
// Items
//===----------------------------------------------------------------------===//

void Parser::parseItems() {
  while (!atEnd()) {
    std::string doc = takeDoc();
    if (atEnd())
      return;
    startStatement();
    if (parseItem(std::move(doc)))
      continue;
    if (isBlockWord(tok()))
      reportBlockHead();
    else if (isItemWord(tok()))
      reportItemHead();
    else
      reportNoItem();
  }
}

bool Parser::parseItem(std::string doc) {
  const Token &word = tok(), &next = tok(1);
  bool isNamed = next.kind == TokenKind::Name;
  if (word.isName("import") && next.kind == TokenKind::String)
    parseImport();
  else if (word.isName("family") && next.kind == TokenKind::String)
    parseFamily();
  else if (word.isName("model") && next.is("="))
    parseModelValue();
  else if ((word.isName("model") || word.isName("module")) && isNamed)
    parseModule(std::move(doc));
  else if (word.isName("function") && isNamed)
    parseFunction(std::move(doc));
  else if (word.isName("const") && isNamed)
    parseConstItem(std::move(doc));
  else if (isBlockWord(word) && (hasEntries(word) ? next.is("{") : isNamed))
    parseBlock();
  else
    return false;
  return true;
}

void Parser::reportBlockHead() {
  const Token word = take();
  bool isData = word.isName("data");
  Diagnostic &d = unexpected(
      hasEntries(word) ? "`{` after `" + word.text + "`"
                       : "a kind after `" + word.text + "`, such as `" +
                             (isData ? "text(\"input.txt\")" : "bytes") + "`");
  if (tok().is("="))
    d.help("`" + word.text + "` stands without `=`");
  else if (tok().kind == TokenKind::String) {
    StringRef inQuotes = StringRef(tok().text).trim('"');
    if (!isData && inQuotes == "bytes")
      d.help("write `tokenizer bytes`, without quotes");
    else if (!inQuotes.empty())
      d.help("write `" + word.text + " " + (isData ? "text" : "huggingface") +
             "(" + tok().text + ")`");
  }
  skipToItem();
}

void Parser::reportItemHead() {
  const Token word = tok();
  bool isLast = tok(1).startsLine || tok(1).kind == TokenKind::End;
  if (!isLast)
    take();
  Diagnostic &d = unexpected("a name after `" + word.text + "`");
  if (word.isName("import")) {
    d.message = "`import` takes a file in quotes";
    d.help("write `import \"other.tfm\"`; the standard modules need none");
  } else if (word.isName("family")) {
    d.message = "`family` takes a name in quotes";
    d.help("write `family \"llama\"`, or the path of a table of your own, "
           "`family \"mine.json\"`");
  }
  skipToItem();
}

void Parser::reportNoItem() {
  const Token word = tok();
  Diagnostic &d =
      unexpected("`import`, `family`, `model`, `module`, `function`, `const`, "
                 "`tokenizer`, `data`, `train` or `generate`");
  bool isName = word.kind == TokenKind::Name;
  StringRef habit = isName ? statementHabit(word.text) : "";
  if (!habit.empty()) {
    d.help(habit);
    skipToLine();
    if (skipIndented(word))
      return;
  } else if (isName) {
    std::string guess =
        closestName(word.text, std::vector<std::string>(std::begin(itemWords),
                                                        std::end(itemWords)));
    if (!guess.empty())
      d.help("did you mean `" + guess + "`?");
  }
  skipToItem();
}

void Parser::parseModelValue() {
  const Token word = take();
  take();
  if (out.model)
    reportTwice(120, word.range, "a file has one model", out.modelRange);
  out.items.push_back({ItemKind::Model, 0});
  out.modelRange = word.range;
  out.model = parseExpr();
  if (!tok().startsLine && !atEnd()) {
    unexpected("the end of the line");
    skipToItem();
  }
}

void Parser::parseFunction(std::string doc) {
  take();
  if (auto function = parseMethod(std::move(doc))) {
    out.items.push_back({ItemKind::Function, out.functions.size()});
    out.functions.push_back(std::move(function));
  }
}

void Parser::parseConstItem(std::string doc) {
  auto member = std::make_unique<Member>();
  member->doc = std::move(doc);
  if (parseConst(*member)) {
    out.items.push_back({ItemKind::Const, out.constants.size()});
    out.constants.push_back(std::move(member));
  } else {
    skipToItem();
  }
}

void Parser::parseImport() {
  take();
  Token path = take();
  Import import;
  import.path = unquote(path.text);
  import.range = path.range;
  out.items.push_back({ItemKind::Import, out.imports.size()});
  out.imports.push_back(import);
}

void Parser::parseFamily() {
  const Token word = take();
  Token name = take();
  ast::Family family;
  family.name = unquote(name.text);
  family.range = name.range;
  if (tok().isName("ignoring") && !tok().startsLine) {
    do {
      take();
      if (tok().kind != TokenKind::String) {
        unexpected("a key of the config.json in quotes");
        skipToItem();
        break;
      }
      family.ignored.push_back(unquote(take().text));
    } while (tok().is(","));
  }
  if (out.family) {
    reportTwice(120, word.range, "a file has one family", out.family->range);
    return;
  }
  out.items.push_back({ItemKind::Family, 0});
  out.family = std::move(family);
}

void Parser::parseModule(std::string doc) {
  auto module = std::make_unique<Module>();
  module->isModel = take().isName("model");
  module->doc = std::move(doc);
  Token name = take();
  module->name = name.text;
  module->range = name.range;
  if (tok().is("("))
    parseParameters(module->parameters, /*areArguments=*/false);
  Range begin = tok().range;
  if (!expect("{", "to begin the body of `" + name.text + "`")) {
    skipToItem();
  } else {
    while (!atEnd() && !tok().is("}")) {
      size_t before = at;
      if (startsNextItem())
        break;
      parseMember(module->members);
      if (at == before)
        take();
    }
    if (!consume("}"))
      unexpected("`}` to end the body of `" + name.text + "`")
          .note("the body of `" + name.text + "` begins in line " +
                Twine(sources.line(begin)));
  }
  out.items.push_back({ItemKind::Module, out.modules.size()});
  out.modules.push_back(std::move(module));
}

void Parser::parseParameters(std::vector<Parameter> &parameters,
                             bool areArguments) {
  take();
  ++brackets;
  while (!atEnd() && !tok().is(")")) {
    Parameter parameter;
    parameter.doc = takeDoc();
    Token name;
    if (!parseName(name, areArguments ? "the name of an argument"
                                      : "the name of a hyperparameter"))
      break;
    parameter.name = name.text;
    parameter.range = name.range;
    // What has no shape can be no tensor of that name, either.
    if (areArguments && name.text == "self" && !tok().is(":")) {
      diags
          .error(110, name.range,
                 "expected the name of an argument, found `self`")
          .help("leave it out: members are named directly, `attn(x)`");
      if (!consume(","))
        break;
      continue;
    }
    if (consume(":"))
      parameter.type = parseType();
    if (consume("="))
      parameter.value = parseExpr();
    for (const Parameter &other : parameters)
      if (other.name == parameter.name)
        reportTwice(121, name.range, "`" + name.text + "` is declared twice",
                    other.range);
    parameters.push_back(std::move(parameter));
    takeDoc();
    if (!consume(","))
      break;
  }
  takeDoc();
  --brackets;
  if (!consume(")")) {
    // Two names in a row lack a comma between them.
    StringRef what = areArguments ? "arguments" : "hyperparameters";
    bool lacksComma = tok().kind == TokenKind::Name && !startsItem();
    Diagnostic &d = unexpected(
        (lacksComma ? "`,` or `)` in the list of " : "`)` to end the ") + what);
    if (tok().is("==") && !parameters.empty())
      d.help("a default is written `" + parameters.back().name + " = ...`");
    // The body, if there is one, can still be read.
    while (!atEnd() && !tok().is("{") && !startsItem())
      take();
  }
}

TypeExpr Parser::parseType() {
  if (tok().is("["))
    return parseShape();
  TypeExpr type;
  type.range = tok().range;
  if (tok().kind != TokenKind::Name) {
    Diagnostic &d =
        unexpected("a type: `[B, T]`, `int[B, T]`, `float`, `int`, ...");
    if (tok().is("("))
      d.help("a shape stands in brackets: `[B, T, width]`");
    else if (tok().kind != TokenKind::Punct && tok().kind != TokenKind::End)
      d.help("a default is written `= " + tok().text + "`");
    return type;
  }
  const Token name = take();
  if (tok().is("[")) {
    type = parseShape();
    type.range = name.range.to(type.range);
  }
  if (tok().is("(")) {
    unexpected("`[` and the shape after `" + name.text + "`")
        .help("a shape stands in brackets: `" + name.text + "[B, T]`");
    parseSequence(")", ExprKind::Tuple);
    return type;
  }
  type.isGiven = true;
  type.element = name.text;
  bool known = llvm::StringSwitch<bool>(name.text)
                   .Cases({"int", "float", "bool"}, true)
                   .Cases({"string", "function", "module"}, !type.hasShape)
                   .Default(false);
  if (!known)
    diags.error(114, name.range, "`" + name.text + "` is not a type")
        .help(type.hasShape
                  ? "tensors are `[..]` (floats), `int[..]` or `bool[..]`"
                  : "types are `int`, `float`, `bool`, `string`, `function`, "
                    "`module`, and shapes such as `[B, T, width]`");
  return type;
}

TypeExpr Parser::parseShape() {
  TypeExpr type;
  type.isGiven = type.hasShape = true;
  Range begin = take().range;
  ++brackets;
  bool ellipsis = false;
  while (!atEnd() && !tok().is("]")) {
    ShapeEntry entry;
    entry.range = tok().range;
    if (tok().is("..")) {
      take();
      consume("."); // `...` is read as `..`
      entry.isEllipsis = true;
      if (ellipsis)
        diags.error(115, entry.range, "a shape has at most one `..`");
      ellipsis = true;
    } else {
      entry.dim = parseExpr();
      entry.range = entry.dim->range;
    }
    type.shape.push_back(entry);
    if (!consume(","))
      break;
  }
  --brackets;
  expect("]", "to end the shape");
  type.range = begin.to(list.tokens[at ? at - 1 : 0].range);
  return type;
}

//===----------------------------------------------------------------------===//
// Blocks
//===----------------------------------------------------------------------===//

void Parser::parseBlock() {
  Block block;
  Token keyword = take();
  block.keyword = keyword.text;
  block.range = keyword.range;
  for (const Block &other : out.blocks)
    if (other.keyword == block.keyword)
      reportTwice(120, keyword.range, "a file has one `" + keyword.text + "`",
                  other.range);
  if (!tok().is("{")) {
    block.value = parsePostfix();
  } else {
    take();
    while (!atEnd() && !tok().is("}")) {
      takeDoc();
      if (tok().is("}"))
        break;
      startStatement();
      Entry entry;
      Token key;
      size_t before = at;
      if (!parseName(key,
                     "an entry `name = value` of `" + keyword.text + "`")) {
        skipToLine();
        if (at == before)
          take();
        continue;
      }
      entry.key = key.text;
      entry.range = key.range;
      if (!tok().is("=")) {
        Diagnostic &d = unexpected("`=` and the value of `" + key.text + "`");
        if (tok().is("."))
          d.help("what belongs to `" + key.text +
                 "` stands in its parentheses: `optimizer = adamw(lr = 1e-3)`");
        skipToLine();
        continue;
      }
      take();
      entry.value = parseValue();
      for (const Entry &other : block.entries)
        if (other.key == entry.key)
          reportTwice(121, key.range, "`" + key.text + "` is set twice",
                      other.range);
      block.entries.push_back(entry);
      if (!consume(",") && !tok().startsLine && !tok().is("}")) {
        if (entry.value->kind != ExprKind::Invalid)
          unexpected("`,` or the end of the line");
        skipToLine();
      }
    }
    expect("}", "to end `" + keyword.text + "`");
  }
  out.items.push_back({ItemKind::Block, out.blocks.size()});
  out.blocks.push_back(std::move(block));
}

std::unique_ptr<ast::File> tfm::parseFile(const SourceManager &sources,
                                          uint32_t file, Diagnostics &diags) {
  auto out = std::make_unique<ast::File>();
  out->id = file;
  Parser parser(sources, file, *out, diags);
  parser.parseItems();
  return out;
}

ast::Expr *tfm::parseExpression(const SourceManager &sources, uint32_t file,
                                ast::File &owner, Diagnostics &diags,
                                uint32_t begin) {
  size_t before = diags.size();
  Parser parser(sources, file, owner, diags, begin);
  ast::Expr *expr = parser.parseOnlyExpr();
  return diags.size() == before ? expr : nullptr;
}
