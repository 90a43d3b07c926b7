//===- DiagnosticsTest.cpp - whether every error is tested ----------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The exact text of errors stands in tests/lit/frontend. These tests count what
// is there: every code, many mistakes, and enough of them where users meet
// them, which is deep inside of a model.
//
//===----------------------------------------------------------------------===//

#include "compiler/frontend/Diagnostics.h"
#include "compiler/frontend/Frontend.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Regex.h"
#include "gtest/gtest.h"

#include <map>

using namespace tfm;
using llvm::StringRef;

namespace {

struct Mistakes {
  int all = 0;
  /// Reached through std, or in a module inside of the model.
  int nested = 0;
  std::map<unsigned, int> byCode;
};

/// Reads the errors that the lit tests expect, with the notes below each.
Mistakes readExpected() {
  Mistakes found;
  llvm::Regex first("^// CHECK(-NEXT)?:(.*): (error|warning)\\[E([0-9]+)\\]: ");
  llvm::Regex instance("^// CHECK-NEXT:note: (in|called from) .*, as [^ ]+\\.");
  llvm::Regex caller("^// CHECK-NEXT:note: called from ");
  std::error_code failure;
  for (llvm::sys::fs::directory_iterator
           it(TFM_ROOT "/tests/lit/frontend", failure),
       end;
       it != end && !failure; it.increment(failure)) {
    if (!StringRef(it->path()).ends_with(".tfm"))
      continue;
    auto buffer = llvm::MemoryBuffer::getFile(it->path());
    if (!buffer) {
      ADD_FAILURE() << it->path();
      continue;
    }
    llvm::SmallVector<StringRef> lines;
    (*buffer)->getBuffer().split(lines, '\n');
    bool counted = true;
    for (StringRef line : lines) {
      llvm::SmallVector<StringRef> parts;
      if (first.match(line, &parts)) {
        unsigned code = 0;
        EXPECT_FALSE(parts[4].getAsInteger(10, code)) << line.str();
        ++found.all;
        ++found.byCode[code];
        counted = parts[2].starts_with("std/");
        found.nested += counted;
      } else if (!counted && (instance.match(line) || caller.match(line))) {
        ++found.nested;
        counted = true;
      }
    }
  }
  EXPECT_FALSE(failure) << failure.message();
  return found;
}

TEST(Diagnostics, ManyMistakesHaveTheirTextTested) {
  Mistakes found = readExpected();
  EXPECT_GE(found.all, 100);
  EXPECT_GE(found.byCode.size(), 80u);
  // A third of them are met where the user did not write the failing line, or
  // in a module inside of the model.
  EXPECT_GE(3 * found.nested, found.all);
}

// But for a bug in the compiler (E0999) and a file that cannot be read (E0910,
// below), which depend on more than the text of a model.
TEST(Diagnostics, EveryCodeHasATest) {
  Mistakes found = readExpected();
  for (ErrorCode code : explainedCodes())
    if (code != 999 && code != 910) {
      EXPECT_GT(found.byCode[code], 0) << "E0" << code;
    }
}

TEST(Diagnostics, ABugIsNoMistake) {
  SourceManager sources;
  Diagnostics diagnostics(sources);
  diagnostics.error(201, {}, "a mistake");
  EXPECT_FALSE(diagnostics.hasBug());
  diagnostics.error(bugCode, {}, "a bug");
  EXPECT_TRUE(diagnostics.hasBug());
}

// Of one place all that is said is the first of a code, but an error is said.
TEST(Diagnostics, AWarningHidesNoError) {
  SourceManager sources;
  Diagnostics diagnostics(sources);
  Range range{0, 3, 5};
  diagnostics.warning(221, range, "a warning");
  diagnostics.warning(221, range, "another");
  EXPECT_FALSE(diagnostics.hasErrors());
  EXPECT_TRUE(diagnostics.hasWarnings());
  diagnostics.error(221, range, "an error");
  diagnostics.warning(221, range, "a warning");
  ASSERT_EQ(diagnostics.errors().size(), 1u);
  EXPECT_EQ(diagnostics.errors().front().message, "an error");
  EXPECT_FALSE(diagnostics.hasWarnings());
}

TEST(Diagnostics, AFileThatCannotBeRead) {
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  SourceManager sources;
  Diagnostics diags(sources);
  EXPECT_FALSE(compileToTfm(context, sources, "nowhere/model.tfm", {}, diags));
  ASSERT_EQ(diags.size(), 1u);
  EXPECT_EQ(diags.errors().front().code, 910u);
  EXPECT_EQ(diags.errors().front().message,
            "cannot read `nowhere/model.tfm`: No such file or directory");
}

/// What is printed about bytes `begin` to `end` of a text, below its first
/// line.
std::string placeOf(StringRef text, size_t begin, size_t end) {
  SourceManager sources;
  Diagnostics diags(sources);
  uint32_t file = sources.add("F", text);
  diags.error(301, {file, uint32_t(begin), uint32_t(end)}, "there is none");
  return StringRef(diags.str()).split('\n').second.str();
}

std::string repeated(StringRef text, size_t count) {
  std::string all;
  while (count-- > 0)
    all += text;
  return all;
}

std::string blanks(size_t count) { return std::string(count, ' '); }

// Up to 120 columns a line is whole; of a longer one the part around the caret
// is shown, as many columns.
TEST(Diagnostics, LongLinesAreShownAroundTheCaret) {
  std::string whole = repeated("x", 118) + "ab";
  EXPECT_EQ(placeOf(whole, 118, 120),
            "    1 | " + whole + "\n      | " + blanks(118) + "^^\n");
  // In the middle of its line, at its beginning and at its end.
  std::string line = repeated("x", 2000) + "abcd" + repeated("y", 3000);
  EXPECT_EQ(placeOf(line, 2000, 2004),
            "    1 | ..." + repeated("x", 55) + "abcd" + repeated("y", 55) +
                "...\n      | " + blanks(58) + "^^^^\n");
  EXPECT_EQ(placeOf("z = 3\n" + line, 6, 7),
            "    2 | " + repeated("x", 114) + "...\n      | ^\n");
  EXPECT_EQ(placeOf(line, line.size() - 1, line.size()),
            "    1 | ..." + repeated("y", 114) + "\n      | " + blanks(116) +
                "^\n");
  // Behind the end of the line.
  EXPECT_EQ(placeOf(line, line.size(), line.size()),
            "    1 | ..." + repeated("y", 114) + "\n      | " + blanks(117) +
                "^\n");
}

TEST(Diagnostics, LongTokensAreShownFromTheirBeginning) {
  std::string line = "y = " + repeated("n", 100000) + " + 1";
  EXPECT_EQ(placeOf(line, 4, 100004), "    1 | y = " + repeated("n", 110) +
                                          "...\n      | " + blanks(4) +
                                          repeated("^", 110) + "\n");
  line = repeated("x", 500) + line;
  EXPECT_EQ(placeOf(line, 504, 100504),
            "    1 | ..." + repeated("x", 10) + "y = " + repeated("n", 100) +
                "...\n      | " + blanks(17) + repeated("^", 100) + "\n");
}

// A tab is one column, a Chinese character two, an accent none.
TEST(Diagnostics, LongLinesAreCutBetweenCharacters) {
  std::string line = repeated("\t", 200) + "ab" + repeated("\t", 200);
  EXPECT_EQ(placeOf(line, 200, 202), "    1 | ..." + blanks(56) + "ab" +
                                         blanks(56) + "...\n      | " +
                                         blanks(59) + "^^\n");
  line = repeated("中", 200) + "ab" + repeated("中", 200);
  EXPECT_EQ(placeOf(line, 600, 602), "    1 | ..." + repeated("中", 28) + "ab" +
                                         repeated("中", 28) + "...\n      | " +
                                         blanks(59) + "^^\n");
  // 57 columns before the caret, which is half of a character.
  line = repeated("中", 200) + "abc" + repeated("中", 200);
  EXPECT_EQ(placeOf(line, 601, 602), "    1 | ..." + repeated("中", 27) +
                                         "abc" + repeated("中", 28) +
                                         "...\n      | " + blanks(58) + "^\n");
  line = repeated("e\u0301", 200) + "ab" + repeated("e\u0301", 200);
  EXPECT_EQ(placeOf(line, 600, 602), "    1 | ..." + repeated("e\u0301", 56) +
                                         "ab" + repeated("e\u0301", 56) +
                                         "...\n      | " + blanks(59) + "^^\n");
}

// Each of them takes a column; what could have begun a character takes one.
TEST(Diagnostics, LongLinesThatAreNotUtf8) {
  std::string unknown = "\xEF\xBF\xBD";
  std::string line = "ab" + repeated("\xA6", 200);
  EXPECT_EQ(placeOf(line, 0, 2),
            "    1 | ab" + repeated(unknown, 112) + "...\n      | ^^\n");
  EXPECT_EQ(placeOf(line, 2, 3),
            "    1 | ab" + repeated(unknown, 112) + "...\n      |   ^\n");
  EXPECT_EQ(placeOf(line, 100, 101), "    1 | ..." + repeated(unknown, 114) +
                                         "...\n      | " + blanks(59) + "^\n");
  line = repeated("\xE4\xB8", 200);
  EXPECT_EQ(placeOf(line, 398, 400), "    1 | ..." + repeated(unknown, 114) +
                                         "\n      | " + blanks(116) + "^\n");
  // Within an accent at the end of its line.
  line = repeated("x", 200) + "\u0301";
  EXPECT_EQ(placeOf(line, 201, 202), "    1 | ..." + repeated("x", 114) +
                                         "\u0301\n      | " + blanks(117) +
                                         "^\n");
}

TEST(Diagnostics, LongNamesAreShortened) {
  SourceManager sources;
  Diagnostics diags(sources);
  std::string name = repeated("n", 149) + repeated("é", 50000);
  uint32_t file = sources.addDefine("width=" + name);
  diags
      .error(301, {file, 6, uint32_t(6 + name.size())},
             "there is no `" + name + "` in `here`")
      .help("`" + repeated("n", 300) + "` is there");
  EXPECT_EQ(diags.str(), "-D width: error[E0301]: there is no `" +
                             repeated("n", 149) + "..." + repeated("é", 37) +
                             "` in `here`\n" +
                             "      | -D width=" + repeated("n", 108) +
                             "...\n      | " + blanks(9) + repeated("^", 108) +
                             "\nhelp: `" + repeated("n", 300) + "` is there\n");
}

} // namespace
