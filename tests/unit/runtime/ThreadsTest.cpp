//===- ThreadsTest.cpp - the pool and its pieces ------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/device/threads.h"
#include "tests/unit/runtime/TemporaryFolder.h"

#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <new>
#include <random>
#include <sched.h>
#include <sys/mman.h>

namespace tfm {
namespace {

/// An arena of its own pages, so that touching it after its end is seen.
template <typename T> class Pages {
public:
  Pages()
      : memory(mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {
    if (memory == MAP_FAILED)
      throw std::bad_alloc();
  }
  ~Pages() { munmap(memory, sizeof(T)); }
  Pages(const Pages &) = delete;
  Pages &operator=(const Pages &) = delete;
  T *operator->() const { return static_cast<T *>(memory); }
  T &operator*() const { return *operator->(); }

private:
  void *memory;
};

constexpr int mostThreads = 64, mostLaunches = 50;

/// How often each piece was computed, and what follows all of them (`finish`,
/// in every second launch), and how many were too early: while one of the
/// launch before was not finished.
struct Pieces {
  std::atomic<int> computed[mostLaunches][mostThreads];
  std::atomic<int> followed[mostLaunches];
  std::atomic<int> early;
};

/// Now and then off the processor for a while, as on a busy machine.
void stumble(std::minstd_rand &random) {
  switch (random() % 64) {
  case 0:
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 500));
    break;
  case 1:
  case 2:
  case 3:
    sched_yield();
    break;
  default:
    break;
  }
}

template <int launches, bool stumbles>
void computePieces(void *memory, tfm_thread *thread) {
  thread_local std::minstd_rand random(
      std::hash<std::thread::id>()(std::this_thread::get_id()));
  for (int launch = 0; launch < launches; ++launch) {
    if (stumbles)
      stumble(random);
    for (int64_t piece; (piece = thread->claim(thread)) >= 0;) {
      auto &arena = *static_cast<Pieces *>(memory);
      auto expectComputed = [&](int launch) {
        for (int64_t other = 0; other < thread->count; ++other)
          arena.early += arena.computed[launch][other] != 1;
      };
      if (launch > 0) {
        expectComputed(launch - 1);
        arena.early += arena.followed[launch - 1] != (launch - 1) % 2;
      }
      if (stumbles)
        stumble(random);
      ++arena.computed[launch][piece];
      if (launch % 2 == 1 && thread->finish(thread)) {
        expectComputed(launch);
        if (stumbles)
          stumble(random);
        ++arena.followed[launch];
      }
    }
  }
}

void expectOnce(const Pieces &arena, int launches, int count) {
  EXPECT_EQ(arena.early, 0);
  for (int launch = 0; launch < launches; ++launch)
    ASSERT_EQ(arena.followed[launch], launch % 2)
        << "behind launch " << launch << " by " << count << " threads";
  for (int launch = 0; launch < mostLaunches; ++launch)
    for (int piece = 0; piece < mostThreads; ++piece)
      ASSERT_EQ(arena.computed[launch][piece],
                launch < launches && piece < count ? 1 : 0)
          << "piece " << piece << " of launch " << launch << " by " << count
          << " threads";
}

/// Calls of different functions after each other, each with an arena that is
/// gone when it has returned.
template <bool stumbles> void callAndExpectOnce(int count, int times) {
  ThreadPool pool(count);
  EXPECT_EQ(pool.count(), count);
  for (int i = 0; i < times; ++i) {
    Pages<Pieces> few, many;
    pool.run(computePieces<1, stumbles>, &*few);
    expectOnce(*few, 1, count);
    if (i % 16 == 0)
      pool.reserveScratch(static_cast<size_t>(i) * 4096);
    pool.run(computePieces<mostLaunches, stumbles>, &*many);
    expectOnce(*many, mostLaunches, count);
  }
}

TEST(ThreadPool, ComputesEveryPieceOnceLaunchAfterLaunch) {
  for (int count : {1, 2, 3, 8})
    callAndExpectOnce<false>(count, 200);
  callAndExpectOnce<false>(mostThreads, 5);
}

TEST(ThreadPool, ComputesEveryPieceOnceOnABusyMachine) {
  std::atomic<bool> isOver{false};
  std::vector<std::thread> others(std::thread::hardware_concurrency());
  for (std::thread &other : others)
    other = std::thread([&] {
      while (!isOver)
        ;
    });
  for (int count : {1, 2, 3, 8})
    callAndExpectOnce<true>(count, 20);
  callAndExpectOnce<true>(mostThreads, 2);
  isOver = true;
  for (std::thread &other : others)
    other.join();
}

/// Whether something happens within ten seconds.
template <typename Condition> bool comes(Condition isSo) {
  auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (!isSo() && std::chrono::steady_clock::now() < end)
    std::this_thread::yield();
  return isSo();
}

/// What a thread does that comes late, and when it may go on.
struct Late {
  std::atomic<bool> isInside{false}, mayGoOn{false}, wasToldTo{false},
      hasLeft{false};
  std::atomic<int> pieces{0};
};

// A call waits for no thread that holds none of its pieces; that one finds
// nothing to do when it is back, however many calls later, and only `drain`
// waits until it has left.
TEST(ThreadPool, WaitsForNobodyWhoHoldsNoPiece) {
  ThreadPool pool(2);
  Late late;
  auto stayAway = [](void *memory, tfm_thread *thread) {
    auto &late = *static_cast<Late *>(memory);
    if (thread->index == 0)
      comes([&] { return late.isInside.load(); });
    if (thread->index == 1) {
      late.isInside = true;
      late.wasToldTo = comes([&] { return late.mayGoOn.load(); });
    }
    while (thread->claim(thread) >= 0)
      late.pieces += thread->index == 1;
    if (thread->index == 1)
      late.hasLeft = true;
  };
  pool.run(stayAway, &late); // which outlives it
  ASSERT_TRUE(late.isInside);
  for (int i = 0; i < 100; ++i) {
    Pages<Pieces> arena;
    pool.run(computePieces<mostLaunches, false>, &*arena);
    expectOnce(*arena, mostLaunches, 2);
  }
  EXPECT_FALSE(late.hasLeft);
  late.mayGoOn = true;
  pool.drain();
  EXPECT_TRUE(late.wasToldTo);
  EXPECT_TRUE(late.hasLeft);
  EXPECT_EQ(late.pieces, 0);
}

// Between calls of all threads, and while one of them is still on its way
// through the one before; what the function notes goes where it should.
TEST(ThreadPool, RunsAFunctionAlone) {
  ThreadPool pool(3);
  std::vector<tfm_event> events(1000);
  pool.recordInto(events.data());
  for (int i = 0; i < 100; ++i) {
    Pages<Pieces> shared, own;
    pool.run(computePieces<mostLaunches, false>, &*shared);
    pool.runAlone(
        [](void *memory, tfm_thread *thread) {
          thread->events++->launch = 7;
          computePieces<mostLaunches, false>(memory, thread);
        },
        &*own);
    expectOnce(*shared, mostLaunches, 3);
    expectOnce(*own, mostLaunches, 1);
  }
  for (int i = 0; i < 100; ++i)
    ASSERT_EQ(events[i].launch, 7u);
  EXPECT_EQ(events[100].launch, 0u);
}

/// By whom pieces of the caller's number were computed.
struct Helped {
  std::atomic<int> byCaller{0}, byOthers{0};
};

// Else the launches that others finish while it is away would end at once for
// it, and take no time.
TEST(ThreadPool, LeavesItsPiecesToTheCallerThatNotesTheEndsOfLaunches) {
  constexpr int launches = 10;
  ThreadPool pool(3);
  tfm_event events[1];
  pool.recordInto(events);
  Helped helped;
  pool.run(
      [](void *memory, tfm_thread *thread) {
        for (int launch = 0; launch < launches; ++launch) {
          if (thread->index == 0)
            std::this_thread::sleep_for(std::chrono::milliseconds(2));
          for (int64_t piece; (piece = thread->claim(thread)) >= 0;)
            if (auto &helped = *static_cast<Helped *>(memory); piece == 0)
              ++(thread->index == 0 ? helped.byCaller : helped.byOthers);
        }
      },
      &helped);
  pool.drain();
  EXPECT_EQ(helped.byCaller, launches);
  EXPECT_EQ(helped.byOthers, 0);
}

// Whoever computes a piece uses its own scratch: none is shared at a time.
TEST(ThreadPool, GivesEachThreadItsOwnScratch) {
  ThreadPool pool(4);
  pool.reserveScratch(10000);
  struct Uses {
    std::atomic<int> torn, pieces;
  } uses = {};
  for (int i = 0; i < 50; ++i)
    pool.run(
        [](void *memory, tfm_thread *thread) {
          for (int64_t piece; (piece = thread->claim(thread)) >= 0;) {
            auto &uses = *static_cast<Uses *>(memory);
            auto *scratch = static_cast<char *>(thread->scratch);
            uses.torn += reinterpret_cast<uintptr_t>(scratch) % 64 != 0;
            std::memset(scratch, static_cast<int>(piece), 10000);
            std::this_thread::sleep_for(std::chrono::microseconds(100));
            uses.torn += std::count(scratch, scratch + 10000,
                                    static_cast<char>(piece)) != 10000;
            ++uses.pieces;
          }
        },
        &uses);
  EXPECT_EQ(uses.torn, 0);
  EXPECT_EQ(uses.pieces, 200);
}

TEST(AvailableProcessors, AreThoseOfTheQuota) {
  test::TemporaryFolder folder;
  std::string groups = folder / "groups";
  int all = availableProcessors(folder / "none", folder / ".");
  EXPECT_GE(all, 1);
  std::ofstream(groups) << "0::/\n";
  auto with = [&](const char *text) {
    std::ofstream(folder / "cpu.max") << text;
    return availableProcessors(groups, folder / ".");
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

// Of a group and those around it, the least.
TEST(AvailableProcessors, AreThoseOfTheQuotaInVersion1) {
  test::TemporaryFolder folder;
  std::string groups = folder / "groups";
  std::ofstream(groups) << "5:memory:/job\n4:cpu,cpuacct:/job/step\n";
  int all = availableProcessors(folder / "none", folder / ".");
  std::filesystem::create_directories(folder / "cpu/job/step");
  std::ofstream(folder / "cpu/job/step/cpu.cfs_quota_us") << "-1\n";
  std::ofstream(folder / "cpu/job/step/cpu.cfs_period_us") << "100000\n";
  EXPECT_EQ(availableProcessors(groups, folder / "."), all);
  std::ofstream(folder / "cpu/job/cpu.cfs_quota_us") << "100000\n";
  std::ofstream(folder / "cpu/job/cpu.cfs_period_us") << "100000\n";
  EXPECT_EQ(availableProcessors(groups, folder / "."), 1);
}

} // namespace
} // namespace tfm
