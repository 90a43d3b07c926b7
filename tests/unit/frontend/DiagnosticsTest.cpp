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

} // namespace
