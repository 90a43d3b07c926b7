//===- MemoryTest.cpp - how much memory there is ------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/support/memory.h"
#include "tests/unit/runtime/TemporaryFolder.h"

#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>

namespace tfm {
namespace {

/// What limits a process whose control groups are as the files say.
class Groups {
public:
  explicit Groups(const char *groups) {
    std::ofstream(folder / "groups") << groups;
    std::filesystem::create_directories(folder / "v2/outer/inner");
    std::filesystem::create_directories(folder / "v2/memory/outer");
  }
  uint64_t with(const char *file, const char *text) {
    std::ofstream(folder / "v2" + "/" + file) << text;
    return limit();
  }
  uint64_t limit() { return memoryLimit(folder / "groups", folder / "v2"); }

private:
  test::TemporaryFolder folder;
};

TEST(MemoryLimit, IsThatOfTheContainer) {
  Groups groups("0::/\n");
  uint64_t all = groups.limit();
  auto with = [&](const char *text) { return groups.with("memory.max", text); };
  EXPECT_EQ(with("max\n"), all);
  EXPECT_EQ(with(""), all);
  EXPECT_EQ(with("1000000000000000000\n"), all);
  // Twice, as there may be swap.
  EXPECT_EQ(with("2097152\n") - with("1048576\n"), 1048576u);
  EXPECT_LT(with("1048576\n"), all);
}

// A group has no more than those around it.
TEST(MemoryLimit, IsTheLowestOfTheGroupsAround) {
  Groups groups("0::/outer/inner\n");
  uint64_t all = groups.limit();
  uint64_t inner = groups.with("outer/inner/memory.max", "3145728\n");
  EXPECT_LT(inner, all);
  EXPECT_EQ(inner - groups.with("outer/memory.max", "2097152\n"), 1048576u);
  EXPECT_EQ(inner - groups.with("memory.max", "1048576\n"), 2097152u);
}

// Of the first version each controller has a hierarchy of its own, and that of
// memory may be shared with another; where the process's own group is not
// visible, the root is.
TEST(MemoryLimit, IsThatOfTheFirstVersionToo) {
  for (const char *line : {"3:pids:/outer\n4:cpu,memory:/outer\n",
                           "4:memory:/elsewhere/outer\n"}) {
    Groups groups(line);
    uint64_t all = groups.limit();
    EXPECT_EQ(groups.with("memory.limit_in_bytes", "1048576\n"), all);
    EXPECT_LT(groups.with("memory/memory.limit_in_bytes", "1048576\n"), all);
  }
}

TEST(ByteText, HasTheUnitThatFits) {
  EXPECT_EQ(byteText(1023), "1023 bytes");
  EXPECT_EQ(byteText(1536), "1.5 KiB");
  EXPECT_EQ(byteText(uint64_t{5} << 50), "5120.0 TiB");
}

} // namespace
} // namespace tfm
