//===- threads.h - a persistent pool that runs a model's functions ------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_RUNTIME_DEVICE_THREADS_H
#define TFM_RUNTIME_DEVICE_THREADS_H

#include "runtime/device/device.h"
#include "runtime/tfm_model.h"

#include "runtime/support/control_groups.h"
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

namespace tfm {

/// The processors that this process may use, at least 1. A container may have
/// the time of fewer than it sees (`forEachControlGroup`).
int availableProcessors(const std::string &groups = ownControlGroups,
                        const std::string &mount = controlGroupMount);

/// Where threads sleep until another one has made so what they wait for.
class Bell {
public:
  /// Wakes whoever sleeps; costs a load where nobody does. To be called after
  /// the change, which must be sequentially consistent: so either the sleeper
  /// sees the change, or this sees the sleeper.
  void ring();

  /// Sleeps until `isSo()`, which looks again after every ring.
  template <typename Condition> void sleepUntil(Condition isSo) {
    while (true) {
      uint32_t seen = rings.fetch_or(1) | 1;
      if (isSo())
        return;
      sleepWhile(seen);
    }
  }

private:
  void sleepWhile(uint32_t seen);

  /// Twice the number of rings that woke somebody, and 1 while anybody sleeps:
  /// in one number, so that nobody falls asleep on a ring that is over.
  alignas(64) std::atomic<uint32_t> rings{0};
};

/// How one thread waits: first spinning, then asleep. Two threads on their own
/// processors hand over in a tenth of a microsecond if they spin. Where others
/// want the processors too, whoever is waited for is often not running, and
/// spinning only keeps it from running. So how long to spin is learned: less
/// after each time that it was in vain, and from time to time the full length
/// is tried again.
class Waiter {
public:
  /// Returns once `isSo()`; who makes it so rings `bell`.
  template <typename Condition> void waitUntil(Bell &bell, Condition isSo) {
    bool isTrial = ++waits % trial == 0;
    if (spin(isTrial ? longest : limit, isSo)) {
      limit = isTrial ? longest : std::min(longest, 2 * limit);
      return;
    }
    limit = std::max(shortest, limit / 4);
    bell.sleepUntil(isSo);
  }

  /// Looks up to `times` times whether `isSo()`, and says whether it became so.
  template <typename Condition>
  static bool spin(uint32_t times, Condition isSo) {
    for (uint32_t i = 0; i < times; ++i) {
      if (isSo())
        return true;
      pause();
    }
    return false;
  }

private:
  static void pause();

  uint32_t limit = longest;
  uint32_t waits = 0;

  static constexpr uint32_t longest = 4000; ///< pauses: 40 to 160 us
  static constexpr uint32_t shortest = 32;
  static constexpr uint32_t trial = 64; ///< every so many waits
};

inline void Waiter::pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// A fixed set of threads that run a function together. The caller is thread 0;
/// the others wait for the next call. `run` allocates nothing.
///
/// A function is a sequence of launches, the same for every thread, and each
/// launch has as many pieces as there are threads (`tfm_thread.claim`). A
/// thread takes its own piece, and then those that their threads have not
/// taken: on a busy machine a thread is now and then off its processor for
/// milliseconds, and only a piece that it holds at that moment waits for it.
/// All that the others finish meanwhile it walks through when it is back.
class ThreadPool {
public:
  /// Throws InputError where the system does not give so many.
  explicit ThreadPool(int count);
  ~ThreadPool();
  ThreadPool(const ThreadPool &) = delete;
  ThreadPool &operator=(const ThreadPool &) = delete;

  int count() const { return static_cast<int>(threads.size()); }

  /// Gives each thread `bytes` of scratch memory, aligned to 64, for all calls
  /// from now on. The pages cost nothing until a thread touches them. Throws
  /// std::bad_alloc.
  void reserveScratch(size_t bytes);

  /// Where functions note the ends of launches from now on
  /// (`tfm_thread.events`); null: nowhere. A launch is over when all of its
  /// pieces are computed, so one thread's notes tell of all.
  void recordInto(tfm_event *events);

  /// Who is told from now on how many launches of a call are over
  /// (`LaunchWatcher`); null: nobody.
  void watch(LaunchWatcher *newWatcher);

  /// Calls `function(arena, thread)` and returns when all pieces of its
  /// launches are finished. The other threads come when they can, or not at
  /// all, and may still be on their way through it when this returns: outside
  /// of its pieces a function must not touch what the arena points to.
  void run(void (*function)(void *, tfm_thread *), void *arena);
  /// The same by the caller alone, whom nobody hinders or helps.
  void runAlone(void (*function)(void *, tfm_thread *), void *arena);

  /// Returns when no thread is inside of a function: before its code goes.
  void drain();

private:
  /// What belongs to one thread.
  struct Member {
    /// How many launches there are whose piece of this thread's number some
    /// thread has taken. On a cache line of its own.
    alignas(64) std::atomic<uint64_t> taken{0};
    /// The launch at which the thread is, whether it holds a piece of it, and
    /// whether it has computed the last one: then the launch waits for it.
    alignas(64) uint64_t launch = 0;
    bool holds = false;
    bool wasLast = false;
    /// For how many more launches it takes the pieces of others at once: whose
    /// piece it has just taken is probably still away.
    int helps = 0;
    Waiter forLaunch;
    Waiter forCall;
    std::atomic<bool> inside{false};
  };

  static int64_t claim(tfm_thread *thread);
  static int64_t claimAlone(tfm_thread *thread);
  static int64_t finish(tfm_thread *thread);
  static int64_t finishAlone(tfm_thread *thread);
  /// As the caller claims where launches are watched.
  static int64_t claimWatched(tfm_thread *thread);
  void countPiece(Member &me);
  /// Whether the caller alone takes its own pieces, so that nobody gets past a
  /// launch before the end of the one before has been told or noted.
  bool waitsForCaller() const;
  bool take(size_t piece, uint64_t launch);
  int64_t takeAny(Member &me, size_t own);
  void work(size_t index);
  void stop();

  std::vector<tfm_thread> threads;
  std::vector<Member> members;
  std::vector<std::thread> workers;
  void *scratch = nullptr;
  size_t scratchBytes = 0;
  std::atomic<LaunchWatcher *> watcher{nullptr};
  std::atomic<bool> records{false};
  /// The launches of this call that are over, and whether the caller alone
  /// runs it; known where they are watched.
  uint64_t watched = 0;
  bool isAlone = false;
  /// The launches that are finished, of all calls: the number of the one that
  /// is going on. 64 bits never come round, so a thread that is however late
  /// cannot take a piece of another launch for one of its own.
  alignas(64) std::atomic<uint64_t> finished{0};
  /// The finished pieces of that launch.
  alignas(64) std::atomic<uint32_t> pieces{0};
  /// Raised by one when a call begins and when it ends: odd during calls. What
  /// is called changes only while it is even, so that a worker that has found
  /// the same odd number before and after has read what belongs together.
  alignas(64) std::atomic<uint64_t> call{0};
  std::atomic<void (*)(void *, tfm_thread *)> function{nullptr};
  std::atomic<void *> arena{nullptr};
  std::atomic<uint64_t> firstLaunch{0};
  Bell launchFinished, callBegun, functionLeft;
};

} // namespace tfm

#endif // TFM_RUNTIME_DEVICE_THREADS_H
