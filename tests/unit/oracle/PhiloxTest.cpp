//===- PhiloxTest.cpp - counter-based random numbers --------------------- ===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/oracle/Philox.h"
#include "compiler/oracle/Frame.h"
#include "tests/unit/oracle/Gradients.h"

#include "llvm/Support/FormatVariadic.h"
#include "gtest/gtest.h"

#include <cmath>

using namespace tfm::oracle;

namespace {

using Words = std::array<uint32_t, 4>;

// The known answers that come with Random123, the authors' implementation.
TEST(Philox, KnownAnswers) {
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}),
            (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
                   {0xa4093822, 0x299f31d0}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

// Column 70 is lane 6 of the second group of 64, word 0; column 50 is lane 2 of
// the first, word 3.
TEST(Dropout, CounterOfAnElement) {
  Environment environment;
  environment.seedLow = 11;
  environment.seedHigh = 12;
  environment.counter = 13;
  auto expected = [](uint32_t word, double rate) {
    return word >= static_cast<uint64_t>(rate * 4294967296.0);
  };
  for (double rate : {0.1, 0.5, 0.9}) {
    Words second = philox({22, 5, 3 * 65536 + 7, 13}, {11, 12});
    EXPECT_EQ(keeps(environment, rate, 3, 7, {9, 100}, 5, 70),
              expected(second[0], rate));
    Words first = philox({2, 5, 3 * 65536 + 7, 13}, {11, 12});
    EXPECT_EQ(keeps(environment, rate, 3, 7, {9, 100}, 5, 50),
              expected(first[3], rate));
  }
}

/// What `tfm.uniform` draws of [64, 256] elements.
std::vector<double> drawn(const Environment &environment, int64_t site,
                          int64_t layer) {
  TestModule module(llvm::formatv(R"(
    func.func @f() -> tensor<{0}x64x256xf32> {{
      %y = tfm.repeat {0} carried() stacked() shared() -> (tensor<{0}x64x256xf32>) {{
      ^bb0(%layer: index):
        %u = tfm.uniform layer %layer {{site = {1} : i64} : tensor<64x256xf32>
        tfm.yield %u : tensor<64x256xf32>
      }
      return %y : tensor<{0}x64x256xf32>
    })",
                                  layer + 1, site)
                        .str());
  std::vector<double> all =
      evaluateOrFail(module.function("f"), {}, environment)[0].data;
  return {all.end() - 64 * 256, all.end()};
}

// Of 16,384 numbers the mean of the k-th powers is 1 / (k + 1), and has a
// standard deviation of k / (k + 1) / sqrt(2 k + 1) / 128: five of them.
TEST(Uniform, IsUniform) {
  std::vector<double> all = drawn(Environment(), 0, 0);
  for (double k : {1.0, 2.0, 3.0, 8.0}) {
    double sum = 0;
    for (double u : all) {
      ASSERT_GE(u, 0);
      ASSERT_LT(u, 1);
      sum += std::pow(u, k);
    }
    EXPECT_NEAR(sum / 16384, 1 / (k + 1),
                5 * k / (k + 1) / std::sqrt(2 * k + 1) / 128);
  }
}

// Seeds, steps, sites and layers draw independently: the mean product of two
// centred numbers has a standard deviation of 1 / 12 / 128.
TEST(Uniform, NothingIsDrawnTwice) {
  Environment environment, seed, step;
  seed.seedLow = 1;
  step.counter = 1;
  std::vector<std::vector<double>> draws = {
      drawn(environment, 0, 0), drawn(seed, 0, 0), drawn(step, 0, 0),
      drawn(environment, 1, 0), drawn(environment, 0, 1)};
  for (size_t i = 0; i < draws.size(); ++i)
    for (size_t j = 0; j < i; ++j) {
      double product = 0;
      for (auto [a, b] : llvm::zip_equal(draws[i], draws[j]))
        product += (a - 0.5) * (b - 0.5);
      EXPECT_NEAR(product / 16384, 0, 5.0 / 12 / 128) << i << " and " << j;
    }
}

// 20,000 elements at rate 0.3: the standard deviation of the share is 0.0033.
TEST(Dropout, KeepsTheExpectedShare) {
  Environment environment;
  int64_t kept = 0;
  for (int64_t row = 0; row < 100; ++row)
    for (int64_t column = 0; column < 200; ++column)
      kept += keeps(environment, 0.3, 0, 0, {100, 200}, row, column);
  EXPECT_NEAR(kept / 20000.0, 0.7, 0.0165);
}

TEST(Dropout, MaskFromOutsideWinsPerLayer) {
  Environment environment;
  environment.masks[4] = Tensor({2, 1, 3}, {1, 0, 1, 0, 0, 1});
  EXPECT_TRUE(keeps(environment, 0.5, 4, 0, {1, 3}, 0, 0));
  EXPECT_FALSE(keeps(environment, 0.5, 4, 0, {1, 3}, 0, 1));
  EXPECT_FALSE(keeps(environment, 0.5, 4, 1, {1, 3}, 0, 0));
  EXPECT_TRUE(keeps(environment, 0.5, 4, 1, {1, 3}, 0, 2));
}

} // namespace
