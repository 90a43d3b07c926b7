//===- EmulatorTest.cpp - right kernels in the emulator -------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tests/unit/emulator/Emulated.h"

#include "runtime/support/float16.h"

#include <bit>
#include <cmath>

using namespace tfm;
using namespace tfm::emulator;

namespace {

struct Example {
  const char *file;
  Outcome (*run)(Emulated &);
};

class Examples : public testing::TestWithParam<Example> {};

// In any order of threads, and again and again on the same machine.
TEST_P(Examples, RunWithoutAFault) {
  Emulated kernels(GetParam().file);
  for (unsigned seed : {0u, 1u, 2u, 3u}) {
    kernels.machine.setOrder(seed);
    Outcome outcome = GetParam().run(kernels);
    EXPECT_FALSE(outcome.fault) << outcome.fault->text;
    EXPECT_TRUE(outcome.right);
  }
}

INSTANTIATE_TEST_SUITE_P(Emulator, Examples,
                         testing::Values(Example{"row_sum.mlir", runRowSum},
                                         Example{"gemm.mlir", runGemm},
                                         Example{"pipeline.mlir", runPipeline},
                                         Example{"hand_over.mlir", runHandOver},
                                         Example{"warp.mlir", runTranspose}),
                         [](const auto &info) {
                           return std::string(
                               info.param.file,
                               std::strchr(info.param.file, '.') -
                                   info.param.file);
                         });

// Each lane gets what the loops here say.
TEST(Emulator, LanesExchangeRegisters) {
  Emulated kernels("warp.mlir");
  std::vector<int32_t> x(32), y(13 * 32, -77);
  for (int32_t lane = 0; lane < 32; ++lane)
    x[lane] = (lane * 37 % 101) - 40;
  kernels.give("x", x);
  kernels.give("y", y);
  auto fault = kernels.launch("warp", x.data(), y.data());
  ASSERT_FALSE(fault) << fault->text;
  int32_t sum = 0, greatest = x[0], all = 0, negative = 0;
  uint32_t least = x[0];
  for (int32_t lane = 0; lane < 32; ++lane) {
    sum += x[lane];
    greatest = std::max(greatest, x[lane]);
    least = std::min(least, static_cast<uint32_t>(x[lane]));
    all ^= x[lane];
    negative |=
        static_cast<int32_t>(static_cast<uint32_t>(x[lane] < 0) << lane);
  }
  for (int32_t lane = 0; lane < 32; ++lane) {
    int32_t group = lane / 8 * 8, inGroup = lane % 8;
    const int32_t expected[] = {x[lane ^ 5],
                                inGroup >= 3 ? x[lane - 3] : x[lane],
                                inGroup < 5 ? x[lane + 3] : x[lane],
                                x[group + 5],
                                lane >= 1,
                                sum,
                                greatest,
                                static_cast<int32_t>(least),
                                all,
                                negative,
                                negative != 0,
                                negative == 0 || negative == -1,
                                lane == 0};
    for (size_t i = 0; i < std::size(expected); ++i)
      EXPECT_EQ(y[i * 32 + lane], expected[i]) << i << " of lane " << lane;
  }
}

// Threads of a block of three dimensions know where they are; approximations,
// rounding, constants, a number as an argument and memory of their own.
TEST(Emulator, ThreadsComputeAlone) {
  Emulated kernels("scalars.mlir");
  std::vector<float> x(128), y(5 * 128, NAN);
  for (size_t i = 0; i < x.size(); ++i)
    x[i] = 0.37f + static_cast<float>(i) * 0.113f;
  kernels.give("x", x);
  kernels.give("y", y);
  auto fault =
      kernels.launch("scalars", x.data(), y.data(), static_cast<int64_t>(7));
  ASSERT_FALSE(fault) << fault->text;
  for (size_t i = 0; i < x.size(); ++i) {
    EXPECT_NEAR(y[i], std::exp2(x[i]), 1e-6 * y[i]);
    EXPECT_NEAR(y[128 + i], 1 / std::sqrt(x[i]), 1e-6 * y[128 + i]);
    EXPECT_EQ(y[256 + i], fromBFloat16(toBFloat16(x[i])));
    EXPECT_EQ(y[384 + i], fromBFloat16(toBFloat16(1.0f / x[i])));
    EXPECT_EQ(y[512 + i], i % 2 ? 35.0f : 21.0f);
  }
}

// What rounds to bf16 makes one NaN of all, also of those whose lower half
// alone tells them from infinity.
TEST(Emulator, RoundsNanToNan) {
  Emulated kernels("scalars.mlir");
  std::vector<float> x(128, 1.0f), y(5 * 128, NAN);
  for (size_t i = 0; i != 64; ++i)
    x[i] = std::bit_cast<float>(i % 2 ? 0xFF800001u : 0x7FC12345u);
  kernels.give("x", x);
  kernels.give("y", y);
  auto fault =
      kernels.launch("scalars", x.data(), y.data(), static_cast<int64_t>(1));
  ASSERT_FALSE(fault) << fault->text;
  for (size_t i = 0; i != x.size(); ++i)
    EXPECT_EQ(std::bit_cast<uint32_t>(y[256 + i]),
              i < 64 ? 0x7FFF0000u : 0x3F800000u);
}

// What the emulator cannot run it refuses by name and place.
TEST(Emulator, RefusesWhatItDoesNotKnow) {
  Emulated kernels("row_sum.mlir", {{"nvvm.barrier0", "nvvm.cluster.arrive"}});
  EXPECT_FALSE(kernels.program);
  EXPECT_NE(kernels.error.find("row_sum.mlir\":53:"), std::string::npos)
      << kernels.error;
  EXPECT_NE(kernels.error.find(
                "the emulator does not know nvvm.cluster.arrive in this form"),
            std::string::npos)
      << kernels.error;
}

} // namespace
