//===- IntegerRangeTest.cpp - which integers a tensor may hold ------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/dialect/IntegerRange.h"

#include "compiler/dialect/TfmDialect.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "tests/unit/oracle/Gradients.h"

#include "gtest/gtest.h"

using namespace tfm;
using namespace tfm::oracle;

namespace {

using Bounds = std::pair<int64_t, int64_t>;
const Bounds anything = {IntegerRange::lowest, IntegerRange::highest};

/// The range of the first value that `@f` returns.
Bounds boundsOf(llvm::StringRef text) {
  TestModule test(text);
  EXPECT_TRUE(test.module);
  mlir::Operation *end = test.function("f").front().getTerminator();
  IntegerRange range = IntegerRanges().of(end->getOperand(0));
  return {range.low, range.high};
}

// As many elements as there are positions in a long context: one is looked at.
TEST(IntegerRange, ASplatIsReadOnce) {
  EXPECT_EQ(boundsOf(R"(
    func.func @f() -> tensor<1x1099511627776xi32> {
      %two = tfm.constant dense<2> : tensor<1x1099511627776xi32>
      return %two : tensor<1x1099511627776xi32>
    })"),
            (Bounds{2, 2}));
}

// The stack of the processor holds some ten thousand calls.
TEST(IntegerRange, AChainMayBeAsLongAsAFile) {
  constexpr int length = 200'000;
  std::string text = "func.func @f(%x: tensor<2x8xi32>) -> tensor<2x8xi32> {\n"
                     "%one = tfm.constant dense<1> : tensor<2x8xi32>\n"
                     "%v0 = tfm.positions %x : tensor<2x8xi32>\n";
  for (int i = 0; i < length; ++i)
    text += "%v" + std::to_string(i + 1) + " = tfm.add %v" + std::to_string(i) +
            ", %one : tensor<2x8xi32>\n";
  text += "return %v" + std::to_string(length) + " : tensor<2x8xi32>\n}";
  EXPECT_EQ(boundsOf(text), (Bounds{length, length + 7}));
}

// Each value twice an operand of the next: 2 to the 60th ways lead to the
// first.
TEST(IntegerRange, AValueIsComputedOnceHoweverOftenItIsUsed) {
  std::string text = "func.func @f(%x: tensor<2x8xi32>) -> tensor<2x8xi32> {\n"
                     "%v0 = tfm.positions %x : tensor<2x8xi32>\n";
  for (int i = 0; i < 60; ++i)
    text += "%v" + std::to_string(i + 1) + " = tfm.max %v" + std::to_string(i) +
            ", %v" + std::to_string(i) + " : tensor<2x8xi32>\n";
  EXPECT_EQ(boundsOf(text + "return %v60 : tensor<2x8xi32>\n}"),
            (Bounds{0, 7}));
}

// What is carried grows with every layer of a repeat within a repeat; what is
// passed to all layers stays what it was.
TEST(IntegerRange, WhatARepeatCarriesMayBeAnything) {
  auto nest = [](llvm::StringRef yielded) {
    return R"(
    func.func @f(%x: tensor<2x8xi32>) -> tensor<2x8xi32> {
      %at = tfm.positions %x : tensor<2x8xi32>
      %one = tfm.constant dense<1> : tensor<2x8xi32>
      %y = tfm.repeat 65536 carried(%at : tensor<2x8xi32>) stacked() shared(%one : tensor<2x8xi32>) -> (tensor<2x8xi32>) {
      ^bb0(%layer: index, %h: tensor<2x8xi32>, %step: tensor<2x8xi32>):
        %z = tfm.repeat 65536 carried(%h : tensor<2x8xi32>) stacked() shared(%step : tensor<2x8xi32>) -> (tensor<2x8xi32>) {
        ^bb0(%inner: index, %g: tensor<2x8xi32>, %by: tensor<2x8xi32>):
          %more = tfm.add %g, %by : tensor<2x8xi32>
          tfm.yield )" +
           yielded.str() + R"( : tensor<2x8xi32>
        }
        tfm.yield %z : tensor<2x8xi32>
      }
      return %y : tensor<2x8xi32>
    })";
  };
  EXPECT_EQ(boundsOf(nest("%more")), anything);
  // Of the innermost body: `more` may be anything, what is added is 1.
  TestModule test(nest("%more"));
  IntegerRanges ranges;
  bool found = false;
  test.function("f").walk([&](AddOp add) {
    found = true;
    EXPECT_EQ(ranges.of(add.getB()).low, 1);
    EXPECT_EQ(ranges.of(add.getB()).high, 1);
    EXPECT_EQ(ranges.of(add.getA()).low, IntegerRange::lowest);
  });
  EXPECT_TRUE(found);
}

// Wherever the largest elements are, they are in the axis.
TEST(IntegerRange, WhatIsChosenIsInTheAxis) {
  EXPECT_EQ(boundsOf(R"(
    func.func @f(%x: tensor<2x9xf32>) -> tensor<2x3xi32> {
      %v, %i = tfm.top_k %x, 3 : tensor<2x9xf32>
      return %i : tensor<2x3xi32>
    })"),
            (Bounds{0, 8}));
  EXPECT_EQ(boundsOf(R"(
    func.func @f(%x: tensor<2x9xf32>) -> tensor<2x3xi32> {
      %v, %i = tfm.top_k %x, 3 : tensor<2x9xf32>
      %c = tfm.cast %v : tensor<2x3xf32> to tensor<2x3xi32>
      return %c : tensor<2x3xi32>
    })"),
            anything);
}

// u is below 1, and so is what it is multiplied by below that; where something
// is added it may be rounded to it.
TEST(IntegerRange, WhatIsDrawnIsBounded) {
  auto drawn = [](const std::string &ops, const char *result) {
    return boundsOf("func.func @f() -> tensor<4xi32> {\n"
                    "%u = tfm.uniform {site = 0 : i64} : tensor<4xf32>\n" +
                    ops + "%i = tfm.cast " + result +
                    " : tensor<4xf32> to tensor<4xi32>\n"
                    "return %i : tensor<4xi32>\n}");
  };
  auto constant = [](const char *name, const char *value) {
    return std::string(name) + " = tfm.constant dense<" + value +
           "> : tensor<4xf32>\n";
  };
  const std::string wide = constant("%w", "10.0") +
                           "%x = tfm.mul %u, %w : tensor<4xf32>\n",
                    sum = "%y = tfm.add %x, %l : tensor<4xf32>\n";
  EXPECT_EQ(drawn("", "%u"), (Bounds{0, 0}));
  EXPECT_EQ(drawn(wide, "%x"), (Bounds{0, 9}));
  EXPECT_EQ(drawn(wide + constant("%l", "-3.5") + sum, "%y"), (Bounds{-3, 6}));
  EXPECT_EQ(drawn(wide + constant("%l", "1000000.0") + sum, "%y"),
            (Bounds{1000000, 1000010}));
  EXPECT_EQ(
      drawn(constant("%w", "-1.0e10") + "%x = tfm.mul %u, %w : tensor<4xf32>\n",
            "%x"),
      anything);
  EXPECT_EQ(drawn(wide + "%y = tfm.sin %x : tensor<4xf32>\n", "%y"), anything);
}

// x / 0 is 0, and what is divided by a number that may be negative changes its
// sign.
TEST(IntegerRange, DivisorsMayBeZero) {
  auto quotient = [](const char *divisor) {
    return boundsOf(std::string(R"(
    func.func @f(%x: tensor<2x8xi32>) -> tensor<2x8xi32> {
      %one = tfm.constant dense<1> : tensor<2x8xi32>
      %two = tfm.constant dense<2> : tensor<2x8xi32>
      %at = tfm.positions %x : tensor<2x8xi32>
      %a = tfm.add %at, %two : tensor<2x8xi32>
      %b = tfm.)") + divisor +
                    R"( : tensor<2x8xi32>
      %q = tfm.div %a, %b : tensor<2x8xi32>
      return %q : tensor<2x8xi32>
    })");
  };
  EXPECT_EQ(quotient("add %at, %one"), (Bounds{0, 9})); // 2 / 8 to 9 / 1
  EXPECT_EQ(quotient("max %at, %at"), (Bounds{-9, 9})); // of 0 to 7
  EXPECT_EQ(quotient("sub %at, %two"), (Bounds{-9, 9}));
}

// What a quotient leaves is less than the divisor, in whatever order its
// product is written, and has the sign of what is divided.
TEST(IntegerRange, Remainders) {
  auto remainder =
      [](const char *from, const char *product) {
        return boundsOf(std::string(R"(
    func.func @f(%x: tensor<2x8xi32>) -> tensor<2x8xi32> {
      %five = tfm.constant dense<5> : tensor<2x8xi32>
      %again = tfm.constant dense<5> : tensor<2x8xi32>
      %three = tfm.constant dense<3> : tensor<2x8xi32>
      %at = tfm.positions %x : tensor<2x8xi32>
      %below = tfm.sub %at, %three : tensor<2x8xi32>
      %q = tfm.div )") + from +
                        R"(, %five : tensor<2x8xi32>
      %p = tfm.mul )" + product +
                        R"( : tensor<2x8xi32>
      %r = tfm.sub )" + from +
                        R"(, %p : tensor<2x8xi32>
      return %r : tensor<2x8xi32>
    })");
      };
  EXPECT_EQ(remainder("%x", "%q, %again"), (Bounds{-4, 4}));
  EXPECT_EQ(remainder("%at", "%five, %q"), (Bounds{0, 4}));
  EXPECT_EQ(remainder("%below", "%q, %five"), (Bounds{-3, 4}));
  // These are none.
  EXPECT_EQ(remainder("%at", "%q, %three"), (Bounds{-3, 7}));
  EXPECT_EQ(remainder("%at", "%at, %five"), (Bounds{-35, 7}));
}

// Zeros come in where there was nothing before.
TEST(IntegerRange, ShiftsBringZeros) {
  EXPECT_EQ(boundsOf(R"(
    func.func @f(%x: tensor<2x8xi32>) -> tensor<2x8xi32> {
      %three = tfm.constant dense<3> : tensor<2x8xi32>
      %at = tfm.positions %x : tensor<2x8xi32>
      %later = tfm.add %at, %three : tensor<2x8xi32>
      %floats = tfm.cast %later : tensor<2x8xi32> to tensor<2x8xf32>
      %before = tfm.shift %floats axis 1 by 1 : tensor<2x8xf32>
      %i = tfm.cast %before : tensor<2x8xf32> to tensor<2x8xi32>
      return %i : tensor<2x8xi32>
    })"),
            (Bounds{0, 10}));
}

// What is no number becomes some integer or other.
TEST(IntegerRange, OfConstantsThatAreNoNumbers) {
  auto integers = [](const char *values) {
    return boundsOf(std::string(R"(
    func.func @f() -> tensor<2xi32> {
      %x = tfm.constant dense<)") +
                    values + R"(> : tensor<2xf32>
      %i = tfm.cast %x : tensor<2xf32> to tensor<2xi32>
      return %i : tensor<2xi32>
    })");
  };
  EXPECT_EQ(integers("[-1.5, 2.75]"), (Bounds{-1, 2}));
  EXPECT_EQ(integers("[1.0, 0x7FC00000]"), anything);
}

// A quotient depends on what a function is given where the divisor does.
TEST(IntegerRange, QuotientsOfWhatIsGivenAreGiven) {
  TestModule test(R"(
    func.func @f(%x: tensor<2x8xi32>) -> tensor<2x8xi32> {
      %at = tfm.positions %x : tensor<2x8xi32>
      %q = tfm.div %at, %x : tensor<2x8xi32>
      return %q : tensor<2x8xi32>
    })");
  ASSERT_TRUE(test.module);
  mlir::Operation *end = test.function("f").front().getTerminator();
  EXPECT_TRUE(IntegerRanges().of(end->getOperand(0)).isGiven);
}

// How many token ids there are rows for: what depends on them, and what does
// not.
TEST(IntegerRange, TokensAreCountedByTheTablesThatTheyReach) {
  TestModule test(R"(
    func.func @f(%tokens: tensor<2x4xi32> {tfm.name = "tokens"}, %table: tensor<10x3xf32>, %places: tensor<4x3xf32>)
        -> (tensor<2x4x3xf32>, tensor<2x4x3xf32>) {
      %three = tfm.constant dense<3> : tensor<2x4xi32>
      %ids = tfm.add %tokens, %three : tensor<2x4xi32>
      %rows = tfm.gather %table, %ids : tensor<10x3xf32>, tensor<2x4xi32>
      %at = tfm.positions %tokens : tensor<2x4xi32>
      %where = tfm.gather %places, %at : tensor<4x3xf32>, tensor<2x4xi32>
      return %rows, %where : tensor<2x4x3xf32>, tensor<2x4x3xf32>
    })");
  ASSERT_TRUE(test.module);
  EXPECT_EQ(countTokens(*test.module), 7);
  // No more than are asked for.
  EXPECT_EQ(countTokens(*test.module, 7), 7);
  EXPECT_EQ(countTokens(*test.module, 6), 6);
}

// A target that the loss ignores needs no logit, also where it is negative.
TEST(IntegerRange, IgnoredTargetsNeedNoLogit) {
  auto count = [](const char *attributes) {
    TestModule test(std::string(R"(
    func.func @f(%logits: tensor<2x10xf32>, %targets: tensor<2xi32> {tfm.name = "targets"})
        -> tensor<2xf32> {
      %one = tfm.constant dense<1> : tensor<2xi32>
      %before = tfm.sub %targets, %one : tensor<2xi32>
      %losses, %lse = tfm.cross_entropy %logits, %before )") +
                    attributes + R"( : tensor<2x10xf32>, tensor<2xi32>
      return %losses : tensor<2xf32>
    })");
    EXPECT_TRUE(test.module);
    return countTokens(*test.module);
  };
  EXPECT_EQ(count("{ignore = -1 : i64}"), 11);
  EXPECT_EQ(count(""), 0);
}

} // namespace
