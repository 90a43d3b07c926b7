//===- StructuredGradientTest.cpp - derivatives of all other ops ----------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tests/unit/oracle/Draw.h"

#include "gtest/gtest.h"

#include <limits>

using namespace tfm::oracle;

namespace {

TEST(ReduceMaxGradient, EqualMaximaShare) {
  TestModule test(program("%x: tensor<2x3xf32>",
                          "%y = tfm.reduce_max %x axis 1 : tensor<2x3xf32>",
                          "tensor<2x1xf32>"));
  auto gradients = evaluateOrFail(
      addVJP(test.function("f"), "g"),
      {Tensor({2, 3}, {1, 4, 4, 7, 5, 6}), Tensor({2, 1}, {6.0, 10.0})});
  ASSERT_EQ(gradients.size(), 1u);
  EXPECT_EQ(gradients[0].data, (std::vector<double>{0, 3, 3, 10, 0, 0}));
}

TEST(Cumsum, AddsInBothDirections) {
  TestModule test(program("%x: tensor<2x3xf32>",
                          "%y = tfm.cumsum %x axis 1 : tensor<2x3xf32>",
                          "tensor<2x3xf32>"));
  Tensor x({2, 3}, {1, 2, 4, 8, 16, 32});
  EXPECT_EQ(evaluateOrFail(test.function("f"), {x})[0].data,
            (std::vector<double>{1, 3, 7, 8, 24, 56}));
  auto gradients = evaluateOrFail(addVJP(test.function("f"), "g"), {x, x});
  ASSERT_EQ(gradients.size(), 1u);
  EXPECT_EQ(gradients[0].data, (std::vector<double>{7, 6, 4, 56, 48, 32}));
}

// The first decay multiplies nothing, and one of 0 lets nothing through. Either
// direction is the other one's derivative, and both have the same one for the
// decays where what comes in is the cotangent, too.
TEST(Scan, DecaysInBothDirections) {
  const std::vector<double> forward = {1, 4, 16, 8, 16, 112},
                            back = {29, 14, 4, 8, 176, 32};
  for (auto [from, values, ofX] :
       {std::tuple("", forward, back), {"reverse", back, forward}}) {
    TestModule test(program("%a: tensor<2x3xf32>, %x: tensor<2x3xf32>",
                            std::string("%y = tfm.scan %a, %x axis 1 ") + from +
                                " : tensor<2x3xf32>",
                            "tensor<2x3xf32>"));
    Tensor a({2, 3}, {7, 2, 3, 7, 0, 5}), x({2, 3}, {1, 2, 4, 8, 16, 32});
    EXPECT_EQ(evaluateOrFail(test.function("f"), {a, x})[0].data, values);
    auto gradients = evaluateOrFail(addVJP(test.function("f"), "g"), {a, x, x});
    ASSERT_EQ(gradients.size(), 2u);
    EXPECT_EQ(gradients[0].data,
              (std::vector<double>{0, 14, 16, 0, 1408, 512}));
    EXPECT_EQ(gradients[1].data, ofX);
  }
}

// What comes in is 0, and what goes out has no derivative.
TEST(Shift, GoesBothWays) {
  for (auto [steps, values, gradient] :
       {std::tuple("1", std::vector<double>{0, 1, 2, 0, 8, 16},
                   std::vector<double>{2, 4, 0, 16, 32, 0}),
        {"-2", {4, 0, 0, 32, 0, 0}, {0, 0, 1, 0, 0, 8}},
        {"3", {0, 0, 0, 0, 0, 0}, {0, 0, 0, 0, 0, 0}}}) {
    TestModule test(program("%x: tensor<2x3xf32>",
                            std::string("%y = tfm.shift %x axis 1 by ") +
                                steps + " : tensor<2x3xf32>",
                            "tensor<2x3xf32>"));
    Tensor x({2, 3}, {1, 2, 4, 8, 16, 32});
    EXPECT_EQ(evaluateOrFail(test.function("f"), {x})[0].data, values);
    auto gradients = evaluateOrFail(addVJP(test.function("f"), "g"), {x, x});
    ASSERT_EQ(gradients.size(), 1u);
    EXPECT_EQ(gradients[0].data, gradient);
  }
}

// Of equal elements the first comes first, also where all are minus infinity.
TEST(TopK, TiesGoToTheLowestIndex) {
  TestModule test(R"(
    func.func @f(%x: tensor<3x4xf32>) -> (tensor<3x3xf32>, tensor<3x3xi32>) {
      %v, %i = tfm.top_k %x, 3 : tensor<3x4xf32>
      return %v, %i : tensor<3x3xf32>, tensor<3x3xi32>
    })");
  const double least = -std::numeric_limits<double>::infinity();
  auto results = evaluateOrFail(test.function("f"),
                                {Tensor({3, 4}, {5, 7, 7, 5, 0, least, 0, least,
                                                 least, least, least, least})});
  EXPECT_EQ(results[0].data,
            (std::vector<double>{7, 7, 5, 0, 0, least, least, least, least}));
  EXPECT_EQ(results[1].data, (std::vector<double>{1, 2, 0, 0, 2, 1, 0, 1, 2}));
}

TEST(CrossEntropyGradient, OfItsLogSumExp) {
  expectGradients(program(
      "%logits: tensor<3x7xf32>, %targets: tensor<3xi32> {test.limit = 7}",
      "%l, %lse = tfm.cross_entropy %logits, %targets : tensor<3x7xf32>, "
      "tensor<3xi32>\n%y = tfm.mul %l, %lse : tensor<3xf32>",
      "tensor<3xf32>"));
}

// Every kind of attention once, whatever is drawn in RandomGradientTest.cpp.
struct AttentionCase {
  const char *name;
  const char *attributes;
  int64_t heads = 2, kvHeads = 2, queries = 5, keys = 5, width = 3, value = 3;
  /// The mask's type, or nothing.
  const char *mask = "";
};

class AttentionGradient : public testing::TestWithParam<AttentionCase> {};
TEST_P(AttentionGradient, AgreesWithDifferences) {
  const AttentionCase &c = GetParam();
  std::string q = tensor({2, c.heads, c.queries, c.width}),
              k = tensor({2, c.kvHeads, c.keys, c.width}),
              v = tensor({2, c.kvHeads, c.keys, c.value});
  std::string mask = c.mask, arguments, types = q + ", " + k + ", " + v;
  arguments = format("%q: {0}, %k: {1}, %v: {2}", q, k, v);
  if (!mask.empty()) {
    arguments += ", %m: " + mask;
    types += ", " + mask;
  }
  Environment environment;
  environment.seedLow = 3;
  expectGradients(
      program(arguments,
              format("%y, %lse = tfm.attention %q, %k, %v {0} {1} : {2}",
                     mask.empty() ? "" : "mask %m", c.attributes, types),
              tensor({2, c.heads, c.queries, c.value})),
      1, environment);
}
INSTANTIATE_TEST_SUITE_P(
    All, AttentionGradient,
    testing::Values(
        AttentionCase{"plain", "{scale = 0.7 : f64}"},
        AttentionCase{"causal", "{causal, scale = 0.7 : f64}"},
        AttentionCase{"window",
                      "{causal, scale = 0.7 : f64, window = 2 : i64}"},
        AttentionCase{"softcap",
                      "{causal, scale = 0.7 : f64, softcap = 0.5 : f64}"},
        AttentionCase{"grouped", "{causal, scale = 0.7 : f64}", 6, 2, 3, 3},
        AttentionCase{"cross", "{scale = 0.7 : f64}", 2, 1, 3, 7, 3, 5},
        AttentionCase{"one", "{scale = 1.0 : f64}", 1, 1, 1, 1, 1, 1},
        AttentionCase{
            "dropout",
            "{causal, scale = 0.7 : f64, dropout = 0.3 : f64, site = 2 : i64}"},
        AttentionCase{"bool_mask", "{scale = 0.7 : f64}", 2, 2, 5, 5, 3, 3,
                      "tensor<2x1x5x5xi1>"},
        AttentionCase{"float_mask", "{scale = 0.7 : f64, softcap = 2.0 : f64}",
                      2, 2, 5, 5, 3, 3, "tensor<2x2x5x5xf32>"},
        AttentionCase{"shared_float_mask", "{causal, scale = 0.7 : f64}", 2, 2,
                      5, 5, 3, 3, "tensor<1x2x5x5xf32>"},
        AttentionCase{"everything",
                      "{causal, scale = 0.7 : f64, window = 3 : i64, softcap = "
                      "1.5 : f64, dropout = 0.2 : f64, site = 1 : i64}",
                      4, 2, 5, 5, 2, 3, "tensor<1x1x5x5xf32>"}),
    [](const auto &info) { return std::string(info.param.name); });

} // namespace
