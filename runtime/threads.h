//===- threads.h - a persistent pool that runs a model's functions ------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_RUNTIME_THREADS_H
#define TFM_RUNTIME_THREADS_H

#include "runtime/tfm_model.h"

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

namespace tfm {

/// The processors that this process may use, at least 1. A container may have
/// the time of fewer than it sees: `quota` is a file in the form of Linux's
/// control groups (v2), "MAX PERIOD" in microseconds or "max PERIOD".
int availableProcessors(const char *quota = "/sys/fs/cgroup/cpu.max");

/// How one thread waits: first spinning, then asleep. Two threads on their own
/// processors hand over in a tenth of a microsecond if they spin. Where others
/// want the processors too, whoever is waited for is often not running, and
/// spinning only keeps it from running: there, going to sleep at once is fifty
/// times faster. So how long to spin is learned: less after each time that it
/// was in vain, and from time to time the full length is tried again.
class Waiter {
public:
  /// Returns once `value` is no longer `old`. Who changes it must notify.
  void waitWhile(const std::atomic<uint32_t> &value, uint32_t old);

private:
  uint32_t limit = longest;
  uint32_t waits = 0;

  static constexpr uint32_t longest = 4000; ///< pauses: 40 to 160 us
  static constexpr uint32_t shortest = 32;
  static constexpr uint32_t trial = 64; ///< every so many waits
};

/// A fixed set of threads that run a function together. The caller is thread 0;
/// the others wait for the next call. `run` allocates nothing.
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

  /// Where functions add the time of each launch from now on
  /// (`tfm_thread.ticks`); null: nowhere.
  void measureInto(uint64_t *ticks) { threads.front().ticks = ticks; }

  /// Calls `function(arena, thread)` once on every thread and returns when all
  /// have returned.
  void run(void (*function)(void *, tfm_thread *), void *arena);

private:
  /// Where all threads meet; reusable at once (a counter of rounds instead of
  /// a flag).
  class Barrier {
  public:
    void wait(uint32_t count, Waiter &waiter);

  private:
    alignas(64) std::atomic<uint32_t> arrived{0};
    alignas(64) std::atomic<uint32_t> round{0};
  };

  static void meet(tfm_thread *thread);
  void work(int index);
  void stop();

  /// Each on a cache line of its own.
  struct alignas(64) ThreadWaiters {
    Waiter atBarrier;
    Waiter forCall;
  };

  std::vector<tfm_thread> threads;
  std::vector<ThreadWaiters> waiters;
  std::vector<std::thread> workers;
  Barrier barrier;
  void *scratch = nullptr;
  size_t scratchBytes = 0;
  /// Raised by one for every call; workers wait for it to change.
  alignas(64) std::atomic<uint32_t> call{0};
  void (*function)(void *, tfm_thread *) = nullptr;
  void *arena = nullptr;
};

} // namespace tfm

#endif // TFM_RUNTIME_THREADS_H
