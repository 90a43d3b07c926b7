//===- PeakTest.cpp - the loops that measure the machine ------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/device/peak.h"

#include "runtime/tfm_model.h"
#include "gtest/gtest.h"

#include <stdexcept>
#include <string_view>
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
  EXPECT_GT(meter.reading(), 0);
  EXPECT_LE(meter.reading(), meter.bandwidth());
  EXPECT_GT(PeakMeter(pool, {}, /*reading=*/1 << 16).reading(), 0);
  ASSERT_GT(meter.flops(), 0);
  ASSERT_GT(meter.bandwidth(), 0);
  PeakMeter::Share share = meter.share(1.0, meter.bandwidth() / 4, 2.0);
  EXPECT_TRUE(share.ofPeak);
  EXPECT_DOUBLE_EQ(share.value, 0.5);
  share = meter.share(0.25, meter.bandwidth(), 2.0);
  EXPECT_FALSE(share.ofPeak);
  EXPECT_DOUBLE_EQ(share.value, 0.5);
}

// Each kind of products has a peak of its own, where the machine computes them;
// f32 is measured once, and first.
TEST(Peak, EveryKindOfProductsHasItsOwn) {
  ThreadPool pool(1);
  std::vector<std::string_view> kinds = {TFM_PRODUCTS_F32};
  for (std::string_view kind :
       {TFM_PRODUCTS_BF16_PAIRS, TFM_PRODUCTS_BF16_TILES,
        TFM_PRODUCTS_INT8_QUADS, TFM_PRODUCTS_INT8_TILES}) {
    if (MultiplyAdds run = multiplyAdds(kind)) {
      EXPECT_GT(run(), 0) << kind;
      kinds.push_back(kind);
      continue;
    }
    EXPECT_THROW(PeakMeter(pool, {kind}), std::logic_error);
  }
  std::vector<std::string_view> twice = kinds;
  twice.insert(twice.end(), kinds.rbegin(), kinds.rend());
  PeakMeter meter(pool, twice);
  ASSERT_EQ(meter.peaks().size(), kinds.size());
  for (size_t i = 0; i < kinds.size(); ++i) {
    EXPECT_EQ(meter.peaks()[i].products, kinds[i]);
    EXPECT_GT(meter.flops(kinds[i]), 0);
  }
  EXPECT_EQ(meter.flops(), meter.flops(TFM_PRODUCTS_F32));
}

} // namespace
