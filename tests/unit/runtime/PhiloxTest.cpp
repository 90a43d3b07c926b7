//===- PhiloxTest.cpp - random numbers and first values -----------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/philox.h"
#include "runtime/device/cpu_device.h"
#include "runtime/training/initialise.h"
#include "tests/unit/runtime/ToyModel.h"

#include <cmath>
#include <gtest/gtest.h>
#include <stdexcept>
#include <vector>

namespace tfm {
namespace {

// The known answers of Random123 1.14.0 (kat_vectors, philox4x32 10).
TEST(Philox, KnownAnswers) {
  EXPECT_EQ(philox(0, {0, 0, 0, 0}),
            (PhiloxBlock{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(
      philox(~uint64_t{0}, {0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}),
      (PhiloxBlock{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox(uint64_t{0x299f31d0} << 32 | 0xa4093822,
                   {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}),
            (PhiloxBlock{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, BelowStaysBelow) {
  EXPECT_EQ(below(~uint64_t{0}, 10), 9u);
  EXPECT_EQ(below(0, 10), 0u);
  EXPECT_LT(unit(~uint64_t{0}), 1.0);
}

std::vector<float> values(tfm_init init, double a, double b, uint64_t stream,
                          size_t count = 100003, uint64_t seed = 1) {
  tfm_parameter parameter = {};
  parameter.init = init;
  parameter.init_args[0] = a;
  parameter.init_args[1] = b;
  parameter.init_stream = stream;
  std::vector<float> out(count);
  initialise(parameter, seed, out);
  return out;
}

struct Moments {
  double mean = 0, deviation = 0, kurtosis = 0;
};

Moments momentsOf(const std::vector<float> &data) {
  Moments moments;
  auto n = static_cast<double>(data.size());
  for (float x : data)
    moments.mean += x / n;
  double square = 0, fourth = 0;
  for (float x : data) {
    double d = x - moments.mean;
    square += d * d / n;
    fourth += d * d * d * d / n;
  }
  moments.deviation = std::sqrt(square);
  moments.kurtosis = fourth / (square * square);
  return moments;
}

// Tolerances are five standard errors of 100,003 draws.
TEST(Initialise, NormalHasItsMoments) {
  Moments moments = momentsOf(values(TFM_INIT_NORMAL, 0.5, 0.02, 7));
  EXPECT_NEAR(moments.mean, 0.5, 5 * 0.02 / std::sqrt(1e5));
  EXPECT_NEAR(moments.deviation, 0.02, 5 * 0.02 / std::sqrt(2e5));
  EXPECT_NEAR(moments.kurtosis, 3.0, 5 * std::sqrt(24 / 1e5));
}

TEST(Initialise, UniformHasItsBoundsAndMoments) {
  std::vector<float> data = values(TFM_INIT_UNIFORM, -1, 3, 7);
  for (float x : data)
    ASSERT_TRUE(x >= -1 && x <= 3);
  Moments moments = momentsOf(data);
  double deviation = 4 / std::sqrt(12);
  EXPECT_NEAR(moments.mean, 1, 5 * deviation / std::sqrt(1e5));
  EXPECT_NEAR(moments.deviation, deviation, 5 * deviation / std::sqrt(2e5));
}

// The standard normal cut at 2 has the deviation 0.87962566.
TEST(Initialise, TruncatedNormalIsCutAtTwoDeviations) {
  std::vector<float> data = values(TFM_INIT_TRUNCATED_NORMAL, 1, 0.5, 7);
  for (float x : data)
    ASSERT_TRUE(x >= 0 && x <= 2);
  Moments moments = momentsOf(data);
  double deviation = 0.5 * 0.87962566;
  EXPECT_NEAR(moments.mean, 1, 5 * deviation / std::sqrt(1e5));
  EXPECT_NEAR(moments.deviation, deviation, 5 * deviation / std::sqrt(2e5));
}

TEST(Initialise, ConstantsAreConstant) {
  EXPECT_EQ(values(TFM_INIT_ZEROS, 0, 0, 1, 3), (std::vector<float>{0, 0, 0}));
  EXPECT_EQ(values(TFM_INIT_ONES, 0, 0, 1, 3), (std::vector<float>{1, 1, 1}));
  EXPECT_EQ(values(TFM_INIT_CONSTANT, 0.25, 0, 1, 2),
            (std::vector<float>{0.25f, 0.25f}));
}

// Zeros are values like others: what is unknown does not get them.
TEST(Initialise, WhatIsUnknownIsAnError) {
  EXPECT_THROW(values(static_cast<tfm_init>(TFM_INIT_CONSTANT + 1), 0, 0, 1, 3),
               std::logic_error);
}

TEST(Initialise, IsTheSameForAnyNumberOfThreads) {
  test::ToyShape shape;
  shape.vocabulary = 15; // 225 elements: not a multiple of four
  test::ToyModel toy(shape, "");
  std::vector<float> expected(225);
  initialise(toy.descriptor().parameters[0], 9, expected);
  for (int threads : {1, 2, 3, 5}) {
    CpuDevice device(threads);
    Model model(toy.descriptor(), device);
    initialise(model, 9);
    std::span<const float> table =
        model.readValue(model.parameters()[0]).values();
    EXPECT_EQ(std::vector<float>(table.begin(), table.end()), expected);
  }
}

TEST(Initialise, DependsOnSeedAndStreamOnly) {
  auto normal = [](uint64_t stream, size_t count, uint64_t seed) {
    return values(TFM_INIT_NORMAL, 0, 1, stream, count, seed);
  };
  std::vector<float> first = normal(1, 10, 1);
  EXPECT_EQ(first, normal(1, 10, 1));
  EXPECT_NE(first, normal(2, 10, 1));
  EXPECT_NE(first, normal(1, 10, 2));
  EXPECT_NE(first, normal(uint64_t{1} << 32 | 1, 10, 1));
}

} // namespace
} // namespace tfm
