//===- PeakTest.cpp - the loops that measure the machine ------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/device/peak.h"

#include "gtest/gtest.h"

#include <vector>

using namespace tfm;

namespace {

// Every float is visited exactly once, also where the count does not divide by
// what the loops take at a time.
TEST(Peak, PassesVisitEveryFloatOnce) {
  for (size_t count : {size_t{0}, size_t{1}, size_t{255}, size_t{256},
                       size_t{1000}, size_t{4099}}) {
    std::vector<float> data(count + 2, 0.0f);
    addToAll(data.data() + 1, count);
    EXPECT_EQ(data.front(), 0.0f);
    EXPECT_EQ(data.back(), 0.0f);
    for (size_t i = 1; i <= count; ++i)
      EXPECT_EQ(data[i], 1.0f) << "float " << i << " of " << count;
    for (size_t i = 0; i < count; ++i)
      data[i + 1] = static_cast<float>(i % 7);
    float sum = 0;
    for (size_t i = 0; i < count; ++i)
      sum += data[i + 1]; // whole numbers: exact in any order
    EXPECT_EQ(readAll(data.data() + 1, count), sum);
  }
}

// A share says which of the two limits is nearer.
TEST(Peak, ShareIsOfTheNearerLimit) {
  ThreadPool pool(1);
  PeakMeter meter(pool);
  ASSERT_GT(meter.flops(), 0);
  ASSERT_GT(meter.bandwidth(), 0);
  PeakMeter::Share share =
      meter.share(meter.flops(), meter.bandwidth() / 4, 2.0);
  EXPECT_TRUE(share.ofPeak);
  EXPECT_DOUBLE_EQ(share.value, 0.5);
  share = meter.share(meter.flops() / 4, meter.bandwidth(), 2.0);
  EXPECT_FALSE(share.ofPeak);
  EXPECT_DOUBLE_EQ(share.value, 0.5);
}

} // namespace
