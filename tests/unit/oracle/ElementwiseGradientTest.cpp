//===- ElementwiseGradientTest.cpp - derivatives of elementwise ops -------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tests/unit/oracle/Draw.h"

#include "gtest/gtest.h"

using namespace tfm::oracle;

namespace {

// A constant integral exponent allows a negative base, and 0.
TEST(ElementwiseGradient, PowOfAConstant) {
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

TEST(ElementwiseGradient, PowOfAConstantTable) {
  expectGradients(R"(
    func.func @f(%a: tensor<3xf32> {test.positive}) -> tensor<3xf32> {
      %b = tfm.constant dense<[0.5, -1.5, 2.0]> : tensor<3xf32>
      %y = tfm.pow %a, %b : tensor<3xf32>
      return %y : tensor<3xf32>
    })");
}

// What the cast makes of the constant is the exponent: 1 of true, 2 of 2.9.
TEST(ElementwiseGradient, PowOfACastConstant) {
  expectGradients(R"(
    func.func @f(%a: tensor<3xf32>) -> tensor<3xf32> {
      %true = tfm.constant dense<true> : tensor<i1>
      %c = tfm.cast %true : tensor<i1> to tensor<f32>
      %b = tfm.broadcast %c : tensor<f32> to tensor<3xf32>
      %y = tfm.pow %a, %b : tensor<3xf32>
      return %y : tensor<3xf32>
    })");
  expectGradients(R"(
    func.func @f(%a: tensor<3xf32> {test.positive}) -> tensor<3xf32> {
      %c = tfm.constant dense<2.9> : tensor<3xf32>
      %i = tfm.cast %c : tensor<3xf32> to tensor<3xi32>
      %b = tfm.cast %i : tensor<3xi32> to tensor<3xf32>
      %y = tfm.pow %a, %b : tensor<3xf32>
      return %y : tensor<3xf32>
    })");
}

// Exponents that differ: a base of 0 has the derivative that it has with each
// alone, as far as there is one.
TEST(ElementwiseGradient, PowAtZeroWithDifferentExponents) {
  TestModule test(R"(
    func.func @f(%a: tensor<5xf32>, %b: tensor<5xf32>) -> tensor<5xf32> {
      %y = tfm.pow %a, %b : tensor<5xf32>
      return %y : tensor<5xf32>
    })");
  auto gradients = evaluateOrFail(addVJP(test.function("f"), "g"),
                                  {Tensor({5}, {0.0, 0.0, 0.0, 2.0, -3.0}),
                                   Tensor({5}, {0.0, 1.0, 3.0, 0.0, 2.0}),
                                   Tensor({5}, 1.0)});
  ASSERT_EQ(gradients.size(), 2u);
  EXPECT_EQ(gradients[0].data, (std::vector<double>{0, 1, 0, 0, -6}));
  EXPECT_EQ(llvm::ArrayRef(gradients[1].data).take_front(3),
            llvm::ArrayRef<double>({0, 0, 0}));
  EXPECT_EQ(gradients[1].data[3], std::log(2.0));
}

TEST(ElementwiseGradient, PowAtZeroWithAConstantExponent) {
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

// The derivative is zero, not missing: x * stop_gradient(x) has derivative x.
TEST(ElementwiseGradient, StopGradient) {
  for (unsigned seed = 0; seed < 8; ++seed) {
    Draw draw(seed);
    std::string type = tensor(draw.shape(0, 3));
    TestModule test(program("%x: " + type,
                            format("%s = tfm.stop_gradient %x : {0}\n"
                                   "%y = tfm.mul %x, %s : {0}",
                                   type),
                            type));
    ASSERT_TRUE(test.function("f"));
    auto inputs = randomInputs(test.function("f"), draw.random);
    inputs.push_back(Tensor(inputs[0].shape, 2.0));
    auto gradients = evaluateOrFail(addVJP(test.function("f"), "g"), inputs);
    ASSERT_EQ(gradients.size(), 1u);
    for (auto [gradient, x] :
         llvm::zip_equal(gradients[0].data, inputs[0].data))
      EXPECT_EQ(gradient, 2.0 * x);
  }
}

// Where a function has a kink the derivative is the documented one.
TEST(ElementwiseGradient, AtKinks) {
  struct Case {
    const char *op;
    std::vector<double> expected;
  };
  for (const Case &c :
       {Case{"abs", {-1.0, 0.0, 1.0}}, Case{"relu", {0.0, 0.0, 1.0}}}) {
    TestModule test(program("%x: tensor<3xf32>",
                            format("%y = tfm.{0} %x : tensor<3xf32>", c.op),
                            "tensor<3xf32>"));
    auto gradients =
        evaluateOrFail(addVJP(test.function("f"), "g"),
                       {Tensor({3}, {-2.0, 0.0, 2.0}), Tensor({3}, 1.0)});
    ASSERT_EQ(gradients.size(), 1u);
    EXPECT_EQ(gradients[0].data, c.expected) << c.op;
  }
  for (const char *op : {"min", "max"}) {
    TestModule test(program("%a: tensor<1xf32>, %b: tensor<1xf32>",
                            format("%y = tfm.{0} %a, %b : tensor<1xf32>", op),
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
