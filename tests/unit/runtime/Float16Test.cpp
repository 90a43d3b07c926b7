//===- Float16Test.cpp - numbers of 16 bits -----------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Every pattern of 16 bits, and every place between two of them where rounding
// changes its mind.
//
//===----------------------------------------------------------------------===//

#include "runtime/support/float16.h"

#include <cmath>
#include <gtest/gtest.h>
#include <limits>

namespace tfm {
namespace {

struct Format {
  const char *name;
  uint16_t (*to)(float);
  float (*from)(uint16_t);
  int exponentBits, mantissaBits;
  float largest;

  /// The value of a pattern, by the definition of the format; in double
  /// precision, which has all of them.
  double meaning(uint16_t pattern) const {
    int bias = (1 << (exponentBits - 1)) - 1;
    int exponent = (pattern & 0x7fff) >> mantissaBits;
    int mantissa = pattern & ((1 << mantissaBits) - 1);
    double value = exponent == 0 ? std::ldexp(mantissa, 1 - bias - mantissaBits)
                                 : std::ldexp(mantissa + (1 << mantissaBits),
                                              exponent - bias - mantissaBits);
    return pattern & 0x8000 ? -value : value;
  }
  uint16_t infinity() const {
    return static_cast<uint16_t>(((1 << exponentBits) - 1) << mantissaBits);
  }
};

class Float16 : public testing::TestWithParam<Format> {};

TEST_P(Float16, EveryPatternIsASingleAndComesBack) {
  const Format &format = GetParam();
  for (uint32_t i = 0; i < 65536; ++i) {
    auto pattern = static_cast<uint16_t>(i);
    float value = format.from(pattern);
    if ((pattern & 0x7fff) > format.infinity()) {
      EXPECT_TRUE(std::isnan(value)) << i;
      EXPECT_TRUE(std::isnan(format.from(format.to(value)))) << i;
      continue;
    }
    if ((pattern & 0x7fff) == format.infinity())
      EXPECT_TRUE(std::isinf(value)) << i;
    else
      EXPECT_EQ(value, format.meaning(pattern)) << i;
    EXPECT_EQ(std::signbit(value), (pattern & 0x8000) != 0) << i;
    ASSERT_EQ(format.to(value), pattern) << i;
  }
}

// Between two neighbours all singles go to the nearer one, and the one in the
// middle to the one with an even pattern; the step behind the largest number
// ends at infinity.
TEST_P(Float16, RoundsToTheNearestAndOfTwoToTheEvenOne) {
  const Format &format = GetParam();
  for (uint16_t below = 0; below < format.infinity(); ++below) {
    auto above = static_cast<uint16_t>(below + 1);
    auto middle =
        static_cast<float>((format.meaning(below) + format.meaning(above)) / 2);
    // Of the smallest numbers in single precision the middle has no bits left
    // to be told apart by, but those of both formats are larger.
    ASSERT_EQ(2 * static_cast<double>(middle),
              format.meaning(below) + format.meaning(above));
    uint16_t even = below % 2 == 0 ? below : above;
    float less = std::nextafter(middle, 0.0f);
    float more = std::nextafter(middle, INFINITY);
    ASSERT_EQ(format.to(middle), even) << below;
    ASSERT_EQ(format.to(less), below) << below;
    ASSERT_EQ(format.to(more), above) << below;
    ASSERT_EQ(format.to(-middle), even | 0x8000) << below;
    ASSERT_EQ(format.to(-less), below | 0x8000) << below;
    ASSERT_EQ(format.to(-more), above | 0x8000) << below;
  }
}

TEST_P(Float16, TheLargestIsTheOneBeforeInfinity) {
  const Format &format = GetParam();
  EXPECT_EQ(format.from(static_cast<uint16_t>(format.infinity() - 1)),
            format.largest);
  EXPECT_EQ(format.to(INFINITY), format.infinity());
  EXPECT_EQ(format.to(std::numeric_limits<float>::max()), format.infinity());
  EXPECT_EQ(format.to(std::numeric_limits<float>::denorm_min()), 0);
}

INSTANTIATE_TEST_SUITE_P(
    All, Float16,
    testing::Values(Format{"bfloat16", toBFloat16, fromBFloat16, 8, 7,
                           largestBFloat16},
                    Format{"half", toHalf, fromHalf, 5, 10, largestHalf}),
    [](const auto &info) { return std::string(info.param.name); });

} // namespace
} // namespace tfm
