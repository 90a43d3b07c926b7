//===- FormatTest.cpp - tests of the formatter ----------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/frontend/format/Format.h"
#include "compiler/frontend/format/FormatLine.h"
#include "compiler/frontend/syntax/Parser.h"
#include "compiler/frontend/syntax/PrintAst.h"
#include "runtime/support/utf8.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MemoryBuffer.h"
#include "gtest/gtest.h"

#include <filesystem>
#include <random>

using namespace tfm;

namespace {

std::string format(llvm::StringRef text) {
  SourceManager sources;
  Diagnostics diags(sources);
  std::optional<std::string> result =
      formatFile(sources, sources.add("test.tfm", text), diags);
  return result ? *result : diags.str();
}

std::string tree(llvm::StringRef text) {
  SourceManager sources;
  Diagnostics diags(sources);
  auto file = parseFile(sources, sources.add("test.tfm", text), diags);
  return diags.str() + printAst(*file);
}

TEST(Format, BlanksAreOurs) {
  EXPECT_EQ(format("module  M( a=3,b :[ n ] = - 2 ){\n"
                   "n = a+b*-c**2//d\n"
                   "  m=x [ :,0 : 3 , - 1 ] . T\n"
                   "}"),
            "module M(a = 3, b: [n] = -2) {\n"
            "  n = a + b * -c ** 2 // d\n"
            "  m = x[:, 0:3, -1].T\n"
            "}\n");
}

TEST(Format, MembersAndParametersAreAligned) {
  EXPECT_EQ(format("module M {\n"
                   "  first = A()\n"
                   "  x = B()\n"
                   "\n"
                   "  param weight: [n] = ones\n"
                   "  param b: [n] = zeros if bias, trainable=false\n"
                   "  forward(x: [n]) -> [n] {\n"
                   "    longer = x\n"
                   "    y = x\n"
                   "    return y\n"
                   "  }\n"
                   "}\n"),
            "module M {\n"
            "  first = A()\n"
            "  x     = B()\n"
            "\n"
            "  param weight: [n] = ones\n"
            "  param b:      [n] = zeros if bias, trainable = false\n"
            "  forward(x: [n]) -> [n] {\n"
            "    longer = x\n"
            "    y = x\n"
            "    return y\n"
            "  }\n"
            "}\n");
}

TEST(Format, CommentsStayWhereTheyAre) {
  EXPECT_EQ(format("// file\n\n\n\n/// doc\nmodule M { // body\n"
                   "    // own\n"
                   "  a = 3 // three of\n"
                   "  bc = f(1,   // one\n"
                   "    // two\n"
                   "   2)\n\n"
                   "  // last\n"
                   "}\n"
                   "// end"),
            "// file\n\n/// doc\nmodule M {  // body\n"
            "  // own\n"
            "  a  = 3  // three of\n"
            "  bc = f(\n"
            "      1,  // one\n"
            "      // two\n"
            "      2)\n\n"
            "  // last\n"
            "}\n"
            "// end\n");
}

TEST(Format, LongStatementsAreBroken) {
  std::string text = format(
      "module M {\n"
      "  layers = repeat(depth) as i Layer(width, hidden, heads, kv_heads, "
      "head_width, window = if i % 2 == 0 then window else none)\n"
      "  const c[i: n] = if i < n // 2 then i * 1000000000 + 1000000000 else "
      "(i + 1) * 2000000000000000 + 3000000000000000\n"
      "}\n");
  EXPECT_EQ(text,
            "module M {\n"
            "  layers = repeat(depth) as i Layer(width, hidden, heads, "
            "kv_heads, head_width,\n"
            "                                    window = if i % 2 == 0 then "
            "window else none)\n"
            "  const c[i: n] =\n"
            "      if i < n // 2 then i * 1000000000 + 1000000000\n"
            "      else (i + 1) * 2000000000000000 + 3000000000000000\n"
            "}\n");
}

TEST(Format, ValuesOfSeveralLongNamesStandBelow) {
  const char *names = "queries_of_all_the_heads, keys_of_all_the_heads, "
                      "values_of_all_the_heads";
  std::string text =
      format(std::string("function f(x: [n]) -> [n] {\n  ") + names +
             " = split_into_three_of_heads(x, 3)\n" + "  return x\n}\n");
  EXPECT_EQ(text, std::string("function f(x: [n]) -> [n] {\n  ") + names +
                      " =\n      split_into_three_of_heads(x, 3)\n" +
                      "  return x\n}\n");
}

TEST(Format, SeveralNamesStayTogether) {
  std::string text =
      format("function f(x: [B, T, n]) -> [B, T, n] {\n"
             "  queries, keys, values = split(rearrange(x, \"B T (heads d) -> "
             "B heads T d\", heads = 3 * heads), 3, axis = 1)\n"
             "  return queries\n"
             "}\n");
  EXPECT_EQ(text,
            "function f(x: [B, T, n]) -> [B, T, n] {\n"
            "  queries, keys, values = split(rearrange(x, \"B T (heads d) "
            "-> B heads T d\", heads = 3 * heads), 3,\n"
            "                                axis = 1)\n"
            "  return queries\n"
            "}\n");
}

TEST(Format, BodiesOnOneLineStayThere) {
  std::string text = "generate { greedy = true, tokens = 4 }\n";
  EXPECT_EQ(format("generate {greedy=true ,tokens=4}"), text);
  EXPECT_EQ(format("generate {\n greedy=true, tokens=4}"),
            "generate {\n  greedy = true,\n  tokens = 4\n}\n");
  EXPECT_EQ(format("generate {}"), "generate {}\n");
}

TEST(Format, ItemsWithBodiesStandApart) {
  EXPECT_EQ(format("import \"a.tfm\"\nmodule M {\n n = 1\n}\n// N\nmodule N "
                   "{\n n = 1\n}\nmodel = M()"),
            "import \"a.tfm\"\n\nmodule M {\n  n = 1\n}\n\n// N\nmodule N {\n"
            "  n = 1\n}\n\nmodel = M()\n");
}

TEST(Format, WhatDoesNotParseIsNotFormatted) {
  EXPECT_NE(format("module M {").find("error[E0110]"), std::string::npos);
}

TEST(Format, NumbersStayNumbers) {
  for (llvm::StringRef text :
       {"model = f(1 . 5)", "model = f(1. .T)", "model = x.0 . 1",
        "model = f(- .5, - - 1, ... )"}) {
    SourceManager sources;
    Diagnostics diags(sources);
    auto parsed = parseFile(sources, sources.add("t", text), diags);
    if (!diags.hasErrors()) {
      EXPECT_EQ(tree(format(text)), tree(text)) << text.str();
    }
  }
}

std::string textOf(const std::string &path) {
  auto buffer = llvm::MemoryBuffer::getFile(path);
  return buffer ? (*buffer)->getBuffer().str() : std::string();
}

/// Every file of the repository that parses.
std::vector<std::string> shippedFiles() {
  std::vector<std::string> files;
  for (const char *folder : {"models", "compiler", "tests"})
    for (const auto &entry : std::filesystem::recursive_directory_iterator(
             std::string(TFM_ROOT "/") + folder))
      if (entry.path().extension() == ".tfm" &&
          tree(textOf(entry.path())).find("error[") == std::string::npos)
        files.push_back(entry.path().string());
  std::sort(files.begin(), files.end());
  return files;
}

/// The tokens of a text with other blanks between them, line ends inside of
/// brackets and, on demand, comments at line ends; statements begin where they
/// did.
class Respacer {
public:
  Respacer(llvm::StringRef text, unsigned seed, bool comments)
      : sources(), diags(sources), random(seed), comments(comments) {
    file = sources.add("original", text);
    list = lex(sources, file, diags);
  }

  std::string run() {
    std::string out;
    unsigned depth = 0;
    llvm::StringRef text = sources.file(file).text();
    for (size_t i = 0; i < list.tokens.size(); ++i) {
      const Token &token = list.tokens[i];
      uint32_t from = i ? list.tokens[i - 1].range.end : 0;
      llvm::StringRef between = text.slice(from, token.range.begin);
      if (token.is(")") || token.is("]"))
        --depth;
      if (between.contains("//") || between.contains('\n')) {
        // Comments and line ends stay; blanks at both ends do not matter.
        if (!between.contains("//") && depth > 0)
          out += ' ';
        else
          out += between.str() + std::string(random() % 3, ' ');
      } else {
        out += blanks(i, depth);
      }
      out += token.text;
      if (token.is("(") || token.is("["))
        ++depth;
    }
    return out;
  }

private:
  std::string blanks(size_t i, unsigned depth) {
    const Token &token = list.tokens[i];
    if (i == 0 || token.kind == TokenKind::End)
      return "";
    const Token &before = list.tokens[i - 1];
    // `a // b` divides, `a  // b` is a comment.
    if (token.is("//") || before.is("//"))
      return " ";
    // A dot sticks to numbers.
    if (token.is(".") || before.is("."))
      return "";
    if (depth > 0 && random() % 8 == 0)
      return comments && random() % 2 ? "  // comment\n" : "\n";
    bool words =
        before.kind != TokenKind::Punct && token.kind != TokenKind::Punct;
    bool wordBefore = before.kind != TokenKind::Punct;
    // A bracket after a word on the same line calls; elsewhere it groups.
    unsigned count = random() % 4;
    if (words || (wordBefore && token.kind != TokenKind::Punct))
      return std::string(count + 1, ' ');
    // `* *` and `**` differ, and `< =` and `<=`.
    if (before.kind == TokenKind::Punct && token.kind == TokenKind::Punct)
      return list.tokens[i - 1].range.end == token.range.begin
                 ? std::string()
                 : std::string(count + 1, ' ');
    return random() % 5 ? std::string(count, ' ') : "\t";
  }

  SourceManager sources;
  Diagnostics diags;
  std::mt19937 random;
  bool comments;
  uint32_t file = 0;
  TokenList list;
};

class Shipped : public testing::TestWithParam<std::string> {};

TEST_P(Shipped, FormattingKeepsTheMeaningAndEndsAtOnce) {
  std::string text = textOf(GetParam()), before = tree(text);
  std::string once = format(text);
  EXPECT_EQ(tree(once), before);
  EXPECT_EQ(format(once), once);
  llvm::SmallVector<llvm::StringRef> lines;
  llvm::StringRef(once).split(lines, '\n');
  for (llvm::StringRef line : lines)
    if (!line.contains("//") && !line.contains('"')) {
      EXPECT_LE(countCodePoints(line), formatColumns) << line.str();
    }
}

TEST_P(Shipped, OtherBlanksGiveTheSameText) {
  std::string text = textOf(GetParam()), before = tree(text);
  std::string once = format(text);
  for (unsigned seed = 0; seed < 20; ++seed) {
    std::string other = Respacer(text, seed, false).run();
    ASSERT_EQ(tree(other), before) << other;
    EXPECT_EQ(format(other), once) << other;
  }
}

TEST_P(Shipped, CommentsAnywhereAreKept) {
  std::string text = textOf(GetParam()), before = tree(text);
  for (unsigned seed = 0; seed < 20; ++seed) {
    std::string other = Respacer(text, seed, true).run();
    ASSERT_EQ(tree(other), before) << other;
    std::string once = format(other);
    EXPECT_EQ(tree(once), before) << once;
    EXPECT_EQ(format(once), once) << other;
    EXPECT_EQ(llvm::StringRef(once).count("// comment"),
              llvm::StringRef(other).count("// comment"));
  }
}

INSTANTIATE_TEST_SUITE_P(Files, Shipped, testing::ValuesIn(shippedFiles()),
                         [](const auto &info) {
                           std::string name =
                               std::filesystem::relative(info.param, TFM_ROOT);
                           for (char &c : name)
                             if (!llvm::isAlnum(c))
                               c = '_';
                           return name;
                         });

} // namespace
