//===- LimitsTest.cpp - small files that would take for ever --------------===//
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

/// The codes of the errors of a file; of constants only what `check` computes.
std::vector<ErrorCode> errorsOf(llvm::StringRef text) {
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  SourceManager sources;
  Diagnostics diags(sources);
  FrontendOptions options;
  options.wholeConstants = false;
  auto module =
      compileTextToTfm(context, sources, "limits.tfm", text, options, diags);
  EXPECT_EQ(!module, diags.hasErrors());
  std::vector<ErrorCode> codes;
  for (const Diagnostic &d : diags.errors())
    codes.push_back(d.code);
  return codes;
}

using Codes = std::vector<ErrorCode>;

/// `levels` lines of `line`, in which `$` is the level, from 1, and `%` the one
/// before.
std::string levels(int count, llvm::StringRef line) {
  std::string text;
  for (int i = 1; i <= count; ++i) {
    for (char c : line)
      text += c == '$'   ? std::to_string(i)
              : c == '%' ? std::to_string(i - 1)
                         : std::string(1, c);
    text += '\n';
  }
  return text;
}

/// A model with further members, and `result` of its input `x`.
std::string model(const std::string &members, const std::string &result) {
  return "model M(width = 8) {\n" + members +
         "  forward(x: [B, T, width]) -> [B, T, width] {\n" + result +
         "\n  }\n}\n";
}

TEST(Limits, CallsThatDoubleWithEveryLevel) {
  std::string functions = "function f0(x) { return x + 1 }\n" +
                          levels(40, "function f$(x) { return f%(f%(x)) }");
  EXPECT_EQ(errorsOf(functions + model("", "return f40(x)")), Codes{512});
  EXPECT_EQ(errorsOf(functions + model("a = f40(1)\n", "return x")),
            Codes{512});
}

TEST(Limits, InstancesThatDoubleWithEveryLevel) {
  std::string modules =
      "module A0(w) { param p: [w] = zeros\n"
      "  forward(x: [..]) -> [..] { return x + p } }\n" +
      levels(40, "module A$(w) { a = A%(w)\n  b = A%(w)\n"
                 "  forward(x: [..]) -> [..] { return b(a(x)) } }");
  EXPECT_EQ(errorsOf(modules + model("a = A40(width)\n", "return a(x)")),
            Codes{512});
}

TEST(Limits, ListsThatDoubleWithEveryLevel) {
  std::string numbers = "a0 = [1, 1]\n" + levels(60, "a$ = [a%, a%]");
  EXPECT_EQ(errorsOf(model(numbers, "return x")), Codes{512});
  // Of instances there is one, but it has a name for each way to it.
  std::string layers =
      "a0 = Linear(width, width)\n" + levels(60, "a$ = [a%, a%]");
  EXPECT_EQ(errorsOf(model(layers, "return a60(x)")), Codes{512});
}

TEST(Limits, NumbersOfManyLayers) {
  std::string block = "module L(i) {\n  a0 = i\n" +
                      levels(300, "  a$ = a% + i") +
                      "  forward(x: [..]) -> [..] { return x * a300 } }\n";
  EXPECT_EQ(errorsOf(block +
                     model("h = repeat(65536) as i L(i * i)\n", "return h(x)")),
            Codes{512});
}

TEST(Limits, AxesAndSizesThatGrowWithEveryLine) {
  EXPECT_EQ(
      errorsOf(model("  const c[i: 1, j: 1] = 0\n",
                     "y0 = c + 0.0\n" +
                         levels(40, "y$ = gather(y%, cast(y%, int) * 0)") +
                         "return x")),
      Codes{218});
  EXPECT_EQ(errorsOf(model("", "y0 = range(2000000000)\n" +
                                   levels(40, "y$ = concat(y%, y%, y%, y%)") +
                                   "return x")),
            Codes{218});
}

TEST(Limits, ConstantsWithMoreElementsThanMemory) {
  // One of a layer is small, but there are many layers.
  std::string layer = "module L(i) { const c[j: 3000000] = i * j\n"
                      "  forward(x: [..]) -> [..] { return x + sum(c) } }\n";
  EXPECT_EQ(errorsOf(layer +
                     model("h = repeat(65536) as i L(i * i)\n", "return h(x)")),
            Codes{705});
  // As many as there may be: `check` computes the first of them.
  EXPECT_EQ(errorsOf(model("  const c[i: 300_000_000] = sin(i) ** 2\n",
                           "return x + sum(c)")),
            Codes{});
  EXPECT_EQ(errorsOf(model("  const c[i: 300_000_000] = log(5 - i)\n",
                           "return x + sum(c)")),
            Codes{412});
}

TEST(Limits, IdsOfMoreThanABillionPositions) {
  EXPECT_EQ(errorsOf("model M(context = 2_000_000_000, width = 8) {\n"
                     "  e = Embedding(context + 2, width)\n"
                     "  forward(tokens: int[B, T]) -> [B, T, width] {\n"
                     "    return e(positions(tokens) + 2)\n  }\n}\n"),
            Codes{});
}

// With as many mistakes as are shown nobody looks for the words of another.
TEST(Limits, ThousandsOfMistakes) {
  EXPECT_EQ(
      errorsOf(model(levels(20000, "m$ = undefined%"), "return x")).size(),
      50u);
}

TEST(Limits, PowersOfOne) {
  EXPECT_EQ(
      errorsOf(model(levels(1, "  a0 = 1") + levels(40, "  a$ = a% ** 64 * a%"),
                     "return x * a40")),
      Codes{});
}

} // namespace
