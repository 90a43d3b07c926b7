//===- ParserTest.cpp - tests of the lexer and the parser -----------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/frontend/syntax/Parser.h"
#include "compiler/frontend/syntax/PrintAst.h"
#include "llvm/ADT/StringExtras.h"
#include "gtest/gtest.h"

#include <random>

using namespace tfm;
using namespace tfm::ast;

namespace {

struct Parsed {
  SourceManager sources;
  Diagnostics diags{sources};
  std::unique_ptr<ast::File> file;
  explicit Parsed(llvm::StringRef text) {
    uint32_t id = sources.add("test.tfm", text);
    file = parseFile(sources, id, diags);
  }
};

std::string expression(llvm::StringRef text) {
  SourceManager sources;
  Diagnostics diags(sources);
  ast::File owner;
  Expr *expr = parseExpression(sources, sources.add("e", text), owner, diags);
  return expr ? printExpr(*expr) : diags.str();
}

TEST(Parser, PrecedenceIsPythons) {
  EXPECT_EQ(expression("a + b * c"), "(a + (b * c))");
  EXPECT_EQ(expression("a @ b.T + c"), "((a @ b.T) + c)");
  EXPECT_EQ(expression("-a ** 2"), "(- (a ** 2))");
  EXPECT_EQ(expression("a ** -b ** c"), "(a ** (- (b ** c)))");
  EXPECT_EQ(expression("not a == b and c or d"),
            "(((not (a == b)) and c) or d)");
  EXPECT_EQ(expression("a // b % c"), "((a // b) % c)");
  EXPECT_EQ(expression("if i % 2 == 0 then 4096 else none"),
            "(if ((i % 2) == 0) then 4096 else none)");
  EXPECT_EQ(expression("f(x, eps = 1_000)(y)"), "f(x, eps = 1000)(y)");
  EXPECT_EQ(expression("repeat(n) as i Block(w = i)"),
            "repeat(n) as i Block(w = i)");
  EXPECT_EQ(expression("layer.0.attn"), "layer.0.attn");
}

TEST(Parser, DivisionAndCommentsAreToldApart) {
  EXPECT_EQ(expression("a // b"), "(a // b)");
  EXPECT_EQ(expression("a//b"), "(a // b)");
  EXPECT_EQ(expression("a  // b"), "a");
  EXPECT_EQ(expression("a // the value of a"), "a");
  EXPECT_EQ(expression("if a // b then c else d"),
            "(if (a // b) then c else d)");
}

TEST(Parser, KeywordsDependOnContext) {
  Parsed parsed("module M(data = 1) {\n"
                "  model = Linear(4, 4)\n"
                "  self = Linear(4, 4)\n"
                "  param = Linear(4, 4)\n"
                "  train = 3\n"
                "  forward(x: [.., 4]) -> [.., 4] { return model(x) }\n"
                "}\n");
  EXPECT_EQ(parsed.diags.str(), "");
  ASSERT_EQ(parsed.file->modules.size(), 1u);
  EXPECT_EQ(parsed.file->modules[0]->members.size(), 5u);
}

TEST(Parser, ExpressionsGoOnOverLines) {
  Parsed parsed("module M {\n"
                "  forward(x: [B, T]) -> [B, T] {\n"
                "    y = x\n"
                "      + x\n"
                "    z = f(x,\n"
                "          x)\n"
                "    return y +\n"
                "      z\n"
                "  }\n"
                "}\n");
  EXPECT_EQ(parsed.diags.str(), "");
  EXPECT_EQ(parsed.file->modules[0]->members[0].method->body.size(), 3u);
}

TEST(Parser, ReadsFilesOfOtherEditors) {
  Parsed parsed("\xEF\xBB\xBFmodule M {\r\n  n = 4\r\n\tm = \"a\"\r\n}\r\n");
  EXPECT_EQ(parsed.diags.str(), "");
  EXPECT_EQ(parsed.file->modules[0]->members.size(), 2u);
}

// Bytes that are no character, however many of them, are one mistake; what
// stands before them may be one.
TEST(Parser, BytesThatAreNoCharacter) {
  for (size_t count : {0, 1, 3, 70, 5000}) {
    std::string tail(count, '\x87');
    Parsed none("model M(width = 8) { a\xFF" + tail + " }\n");
    EXPECT_NE(none.diags.str().find("unexpected byte 0xFF"), std::string::npos);
    EXPECT_EQ(none.diags.str().find("byte 0x87"), std::string::npos);
    Parsed one("model M(width = 8) { a\xE2\x82\xAC" + tail + " }\n");
    EXPECT_NE(one.diags.str().find("(U+20AC)"), std::string::npos);
    EXPECT_EQ(one.diags.str().find("byte 0x87") != std::string::npos,
              count != 0);
    EXPECT_LE(one.diags.size(), 3u);
  }
}

TEST(Parser, KeepsDocsAndComments) {
  Parsed parsed("/// What it is.\n/// And more.\nmodule M {\n"
                "  // a note\n  n = 4  // behind\n}\n");
  EXPECT_EQ(parsed.diags.str(), "");
  EXPECT_EQ(parsed.file->modules[0]->doc, "What it is.\nAnd more.");
  std::vector<Comment> comments = lex(parsed.sources, 0, parsed.diags).comments;
  ASSERT_EQ(comments.size(), 4u);
  EXPECT_TRUE(comments[2].ownLine);
  EXPECT_FALSE(comments[3].ownLine);
}

TEST(Parser, ReportsSeveralMistakesInOneRun) {
  Parsed parsed("module A {\n"
                "  x = \n"
                "  y = 3 )\n"
                "  z = 4\n"
                "}\n"
                "modul B {\n"
                "}\n"
                "module C(width {\n"
                "  w = width\n"
                "}\n");
  EXPECT_EQ(parsed.diags.size(), 4u) << parsed.diags.str();
  ASSERT_EQ(parsed.file->modules.size(), 2u);
  EXPECT_EQ(parsed.file->modules[1]->name, "C");
}

TEST(Parser, DeepNestingIsAnErrorNotACrash) {
  for (std::string open : {"(", "[", "-", "not ", "f(", "if a then b else ",
                           "2 ** ", "a[", "repeat("}) {
    std::string text = "module M {\n  x = ";
    for (int i = 0; i < 100000; ++i)
      text += open;
    Parsed parsed(text);
    EXPECT_TRUE(parsed.diags.hasErrors());
    EXPECT_LE(parsed.diags.size(), 3u) << parsed.diags.str().substr(0, 500);
  }
  for (std::string part : {" + a", ".b", "(c)", "[0]"}) {
    std::string text = "module M {\n  x = a";
    for (int i = 0; i < 100000; ++i)
      text += part;
    Parsed parsed(text + "\n}\n");
    EXPECT_TRUE(parsed.diags.hasErrors());
  }
}

// Whatever the bytes, the parser ends, and its ranges lie in the text.
TEST(Parser, SurvivesMutilatedPrograms) {
  std::string text =
      "/// doc\nimport \"a.tfm\"\nmodel M(width: int = 4, act = gelu) {\n"
      "  require width % 2 == 0, \"even\"\n"
      "  param w: [width, 2 * width] = normal(0.02) if width > 1, trainable = "
      "false\n"
      "  const pe[t: 8, j: width] = if j % 2 == 0 then sin(t) else 0.0\n"
      "  h = repeat(4) as i Block(width, i)\n"
      "  forward(x: int[B, T], y: [.., width] = none) -> ([B, T], [..]) {\n"
      "    a, b = split(x[0:3, :, -1], 2)\n    return a @ b.T, -a ** 2\n  "
      "}\n}\n"
      "tokenizer chars(\"ab\\\"c\")\ntrain { steps = 10, loss = mse }\n";
  std::mt19937 random(3);
  for (int round = 0; round < 4000; ++round) {
    std::string mutant = text;
    for (int edit = random() % 6; edit >= 0; --edit) {
      size_t at = random() % mutant.size();
      switch (random() % 4) {
      case 0:
        mutant[at] = static_cast<char>(random());
        break;
      case 1:
        mutant.erase(at, random() % 20);
        break;
      case 2:
        mutant.insert(at,
                      mutant.substr(random() % mutant.size(), random() % 30));
        break;
      default:
        mutant.insert(at, 1, "(){}[],:=.\"/\n"[random() % 13]);
      }
      if (mutant.empty())
        mutant = " ";
    }
    Parsed parsed(mutant);
    for (const Diagnostic &d : parsed.diags.errors()) {
      ASSERT_LE(d.range.begin, mutant.size());
      ASSERT_LE(d.range.end, mutant.size());
      ASSERT_LE(d.range.begin, d.range.end);
    }
    parsed.diags.str();
  }
}

} // namespace
