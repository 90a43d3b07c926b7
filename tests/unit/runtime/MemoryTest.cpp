//===- MemoryTest.cpp - how much memory there is ------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/device/memory.h"
#include "tests/unit/runtime/TemporaryFolder.h"

#include <algorithm>
#include <fstream>
#include <gtest/gtest.h>

namespace tfm {
namespace {

TEST(MemoryLimit, IsThatOfTheContainer) {
  test::TemporaryFolder folder;
  std::string quota = folder / "memory.max";
  uint64_t all = memoryLimit((folder / "none").c_str());
  auto with = [&](const char *text) {
    std::ofstream(quota) << text;
    return memoryLimit(quota.c_str());
  };
  EXPECT_EQ(with("max\n"), all);
  EXPECT_EQ(with(""), all);
  EXPECT_EQ(with("1000000000000000000\n"), all);
  // Twice, as there may be swap.
  EXPECT_EQ(with("2097152\n") - with("1048576\n"), 1048576u);
  EXPECT_LT(with("1048576\n"), all);
}

TEST(ByteText, HasTheUnitThatFits) {
  EXPECT_EQ(byteText(1023), "1023 bytes");
  EXPECT_EQ(byteText(1536), "1.5 KiB");
  EXPECT_EQ(byteText(uint64_t{5} << 50), "5120.0 TiB");
}

} // namespace
} // namespace tfm
