//===- PagesTest.cpp - the code on the pages on errors --------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/frontend/Frontend.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"
#include "gtest/gtest.h"

using namespace tfm;

namespace {

/// The codes of the errors of a file.
std::vector<ErrorCode> errorsOf(const std::string &text) {
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  SourceManager sources;
  Diagnostics diags(sources);
  compileTextToTfm(context, sources, "page.tfm", text, {}, diags);
  std::vector<ErrorCode> codes;
  for (const Diagnostic &d : diags.errors())
    codes.push_back(d.code);
  return codes;
}

/// The code on the page on `code` behind "Wrong:" or "Right:".
std::string codeOf(ErrorCode code, const std::string &which) {
  llvm::StringRef rest = explanation(code).split("\n" + which + ":\n").second;
  return rest.split("```tfm\n").second.split("\n```").first.str();
}

/// A model with a member.
std::string member(const std::string &code, const std::string &parameters = "",
                   const std::string &result = "x") {
  return "model M(width = 8" + parameters + ") {\n  h = " + code +
         "\n  forward(x: [B, width]) -> [B, width] { return " + result +
         " }\n}\n";
}

/// A model that computes something of its inputs.
std::string value(const std::string &code, const std::string &inputs) {
  return "model M(width = 8, d = 4) {\n  forward(" + inputs +
         ") -> [B, 1] {\n    _y = " + code +
         "\n    return rearrange(0.0 * cast(range(B), float), \"B -> B 1\")\n  "
         "}\n}\n";
}

TEST(Pages, WhoeverShowsWhatIsWrongShowsWhatIsRight) {
  for (ErrorCode code : explainedCodes())
    if (explanation(code).contains("\nWrong:\n"))
      EXPECT_TRUE(explanation(code).contains("\nRight:\n")) << code;
}

TEST(Pages, RightCompilesWhereWrongHasTheError) {
  auto check = [](ErrorCode code, auto inFile) {
    std::string wrong = inFile(codeOf(code, "Wrong"), true);
    std::string right = inFile(codeOf(code, "Right"), false);
    EXPECT_EQ(errorsOf(wrong), std::vector<ErrorCode>{code}) << wrong;
    EXPECT_EQ(errorsOf(right), std::vector<ErrorCode>{}) << right;
  };
  check(211, [](const std::string &code, bool) {
    return value(code, "tokens: int[B, T]");
  });
  check(213, [](const std::string &code, bool isWrong) {
    return member(code, isWrong ? ", extra = 0" : ", extra = 2");
  });
  check(216, [](const std::string &code, bool isWrong) {
    return value(code, isWrong ? "a: [B, 4, T, d], b: [B, 3, d, T]"
                               : "a: [B, 4, T, d], b: [B, 4, d, T]");
  });
  check(602, [](const std::string &code, bool) { return member(code); });
  check(605,
        [](const std::string &code, bool) { return member(code, "", "h(x)"); });
  check(607, [](const std::string &code, bool) {
    return "model M(width = 8) {\n" + code +
           "\nforward(x: [B, width]) -> [B, width] { return q(x) }\n}\n";
  });
}

} // namespace
