//===- ElementwiseGradientTest.cpp - derivatives of elementwise ops ------ ===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tests/unit/oracle/Gradients.h"

#include "gtest/gtest.h"

using namespace tfm::oracle;

namespace {

/// `@f` of one op on arguments of one type; `$` stands for that type.
std::string program(const std::string &arguments, const std::string &op,
                    const std::string &type) {
  std::string text = "func.func @f(" + arguments + ") -> $ {\n  " + op +
                     "\n  return %y : $\n}\n";
  for (size_t at; (at = text.find('$')) != std::string::npos;)
    text.replace(at, 1, type);
  return text;
}

class ElementwiseGradient : public testing::TestWithParam<const char *> {
protected:
  /// Checks on scalars and on random shapes of ranks 1 to 3.
  void check(const std::string &arguments, const std::string &op) {
    std::mt19937 random(7);
    for (int64_t rank = 0; rank <= 3; ++rank) {
      std::string type =
          "tensor<" + spell(randomShape(random, rank), "f32") + ">";
      expectGradients(program(arguments, op, type), rank);
    }
  }
};

class UnaryGradient : public ElementwiseGradient {};
TEST_P(UnaryGradient, AgreesWithDifferences) {
  check("%x: $", std::string("%y = tfm.") + GetParam() + " %x : $");
}
INSTANTIATE_TEST_SUITE_P(AnySign, UnaryGradient,
                         testing::Values("neg", "abs", "exp", "tanh", "sigmoid",
                                         "erf", "sin", "cos", "relu", "gelu",
                                         "gelu_tanh", "silu", "softplus"));

class PositiveGradient : public ElementwiseGradient {};
TEST_P(PositiveGradient, AgreesWithDifferences) {
  check("%x: $ {test.positive}",
        std::string("%y = tfm.") + GetParam() + " %x : $");
}
INSTANTIATE_TEST_SUITE_P(Positive, PositiveGradient,
                         testing::Values("log", "sqrt", "rsqrt"));

class BinaryGradient : public ElementwiseGradient {};
TEST_P(BinaryGradient, AgreesWithDifferences) {
  check("%a: $, %b: $ {test.positive}",
        std::string("%y = tfm.") + GetParam() + " %a, %b : $");
}
INSTANTIATE_TEST_SUITE_P(All, BinaryGradient,
                         testing::Values("add", "sub", "mul", "div", "min",
                                         "max"));

TEST_F(ElementwiseGradient, SameOperandTwice) {
  check("%a: $", "%y = tfm.mul %a, %a : $");
}

TEST_F(ElementwiseGradient, PowOfAVariable) {
  check("%a: $ {test.positive}, %b: $", "%y = tfm.pow %a, %b : $");
}

// A constant integral exponent allows a negative base, and 0.
TEST_F(ElementwiseGradient, PowOfAConstant) {
  for (const char *power : {"-1.0", "0.0", "1.0", "2.0", "3.0"})
    expectGradients(std::string(R"(
      func.func @f(%a: tensor<2x5xf32>) -> tensor<2x5xf32> {
        %c = tfm.constant dense<)") +
                    power + R"(> : tensor<f32>
        %b = tfm.broadcast %c : tensor<f32> to tensor<2x5xf32>
        %y = tfm.pow %a, %b : tensor<2x5xf32>
        return %y : tensor<2x5xf32>
      })");
}

TEST_F(ElementwiseGradient, PowOfAConstantTable) {
  expectGradients(R"(
    func.func @f(%a: tensor<3xf32> {test.positive}) -> tensor<3xf32> {
      %b = tfm.constant dense<[0.5, -1.5, 2.0]> : tensor<3xf32>
      %y = tfm.pow %a, %b : tensor<3xf32>
      return %y : tensor<3xf32>
    })");
}

TEST_F(ElementwiseGradient, PowAtZeroWithAConstantExponent) {
  TestModule test(R"(
    func.func @f(%a: tensor<2xf32>) -> tensor<2xf32> {
      %b = tfm.constant dense<2.0> : tensor<2xf32>
      %y = tfm.pow %a, %b : tensor<2xf32>
      return %y : tensor<2xf32>
    })");
  auto gradients = evaluateOrFail(addVJP(test.function("f"), "g"),
                                  {Tensor({2}, {0.0, -3.0}), Tensor({2}, 1.0)});
  ASSERT_EQ(gradients.size(), 1u);
  EXPECT_EQ(gradients[0].data, (std::vector<double>{0.0, -6.0}));
}

TEST_F(ElementwiseGradient, Select) {
  expectGradients(R"(
    func.func @f(%c: tensor<3x1x7xi1>, %a: tensor<3x1x7xf32>,
                 %b: tensor<3x1x7xf32>) -> tensor<3x1x7xf32> {
      %s = tfm.select %c, %a, %b : tensor<3x1x7xi1>, tensor<3x1x7xf32>
      %y = tfm.mul %s, %a : tensor<3x1x7xf32>
      return %y : tensor<3x1x7xf32>
    })");
}

TEST_F(ElementwiseGradient, CastBetweenFloats) {
  expectGradients(R"(
    func.func @f(%a: tensor<7xf32>) -> tensor<7xf64> {
      %b = tfm.exp %a : tensor<7xf32>
      %y = tfm.cast %b : tensor<7xf32> to tensor<7xf64>
      return %y : tensor<7xf64>
    })");
}

// The derivative is zero, not missing: x * stop_gradient(x) has derivative x.
TEST_F(ElementwiseGradient, StopGradient) {
  TestModule test(R"(
    func.func @f(%x: tensor<3xf32>) -> tensor<3xf32> {
      %s = tfm.stop_gradient %x : tensor<3xf32>
      %y = tfm.mul %x, %s : tensor<3xf32>
      return %y : tensor<3xf32>
    })");
  auto gradients =
      evaluateOrFail(addVJP(test.function("f"), "g"),
                     {Tensor({3}, {2.0, -3.0, 0.5}), Tensor({3}, 1.0)});
  ASSERT_EQ(gradients.size(), 1u);
  EXPECT_EQ(gradients[0].data, (std::vector<double>{2.0, -3.0, 0.5}));
}

// Where a function has a kink the derivative is the documented one.
TEST_F(ElementwiseGradient, AtKinks) {
  struct Case {
    const char *op;
    std::vector<double> expected;
  };
  for (const Case &c :
       {Case{"abs", {-1.0, 0.0, 1.0}}, Case{"relu", {0.0, 0.0, 1.0}}}) {
    TestModule test(program(
        "%x: $", std::string("%y = tfm.") + c.op + " %x : $", "tensor<3xf32>"));
    auto gradients =
        evaluateOrFail(addVJP(test.function("f"), "g"),
                       {Tensor({3}, {-2.0, 0.0, 2.0}), Tensor({3}, 1.0)});
    ASSERT_EQ(gradients.size(), 1u);
    EXPECT_EQ(gradients[0].data, c.expected) << c.op;
  }
  for (const char *op : {"min", "max"}) {
    TestModule test(program("%a: $, %b: $",
                            std::string("%y = tfm.") + op + " %a, %b : $",
                            "tensor<1xf32>"));
    auto gradients =
        evaluateOrFail(addVJP(test.function("f"), "g"),
                       {Tensor({1}, 2.0), Tensor({1}, 2.0), Tensor({1}, 6.0)});
    ASSERT_EQ(gradients.size(), 2u);
    EXPECT_EQ(gradients[0].data[0], 3.0) << op;
    EXPECT_EQ(gradients[1].data[0], 3.0) << op;
  }
}

} // namespace
