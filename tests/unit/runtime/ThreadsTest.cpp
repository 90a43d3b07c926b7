//===- ThreadsTest.cpp - the pool and its barrier -----------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/threads.h"
#include "tests/unit/runtime/TemporaryFolder.h"

#include <cstring>
#include <fstream>
#include <gtest/gtest.h>

namespace tfm {
namespace {

constexpr int rounds = 200;

struct Arena {
  std::atomic<int> calls[8];
  int64_t values[8][rounds];
  bool torn;
};

TEST(ThreadPool, CallsTheFunctionOnceOnEveryThread) {
  for (int count : {1, 2, 3, 8}) {
    ThreadPool pool(count);
    EXPECT_EQ(pool.count(), count);
    Arena arena = {};
    for (int i = 0; i < 1000; ++i)
      pool.run(
          [](void *memory, tfm_thread *thread) {
            ++static_cast<Arena *>(memory)->calls[thread->index];
          },
          &arena);
    for (int i = 0; i < 8; ++i)
      EXPECT_EQ(arena.calls[i], i < count ? 1000 : 0);
  }
}

// Each thread writes its own cell, all meet, each checks the cells of all
// others: a barrier that lets anyone through early is seen at once.
TEST(ThreadPool, BarrierHoldsUntilAllHaveCome) {
  for (int count : {2, 3, 5}) {
    ThreadPool pool(count);
    Arena arena = {};
    pool.run(
        [](void *memory, tfm_thread *thread) {
          auto &arena = *static_cast<Arena *>(memory);
          for (int round = 0; round < rounds; ++round) {
            arena.values[thread->index][round] = round + 1;
            thread->barrier(thread);
            for (int64_t other = 0; other < thread->count; ++other)
              if (arena.values[other][round] != round + 1)
                arena.torn = true;
            thread->barrier(thread);
          }
        },
        &arena);
    EXPECT_FALSE(arena.torn);
  }
}

TEST(ThreadPool, GivesEachThreadItsOwnScratch) {
  ThreadPool pool(4);
  pool.reserveScratch(10000);
  void *scratch[4] = {};
  pool.run(
      [](void *memory, tfm_thread *thread) {
        static_cast<void **>(memory)[thread->index] = thread->scratch;
        std::memset(thread->scratch, static_cast<int>(thread->index), 10000);
        thread->barrier(thread);
      },
      scratch);
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(reinterpret_cast<uintptr_t>(scratch[i]) % 64, 0u);
    for (int j = 0; j < 10000; ++j)
      ASSERT_EQ(static_cast<char *>(scratch[i])[j], i);
  }
}

TEST(AvailableProcessors, AreThoseOfTheQuota) {
  test::TemporaryFolder folder;
  std::string quota = folder / "cpu.max";
  int all = availableProcessors((folder / "none").c_str());
  EXPECT_GE(all, 1);
  auto with = [&](const char *text) {
    std::ofstream(quota) << text;
    return availableProcessors(quota.c_str());
  };
  EXPECT_EQ(with("max 100000\n"), all);
  EXPECT_EQ(with("6400000000 100000\n"), all);
  EXPECT_EQ(with("100000 100000\n"), 1);
  EXPECT_EQ(with("150000 100000\n"), 1);
  EXPECT_EQ(with("50000 100000\n"), 1);
  EXPECT_EQ(with("200000 100000\n"), std::min(all, 2));
  EXPECT_EQ(with("-3 0\n"), all);
  EXPECT_EQ(with(""), all);
}

} // namespace
} // namespace tfm
