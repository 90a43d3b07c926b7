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
#include <memory>
#include <thread>
#include <vector>

namespace tfm {

/// The processors that this process may use, at least 1.
int availableProcessors();

/// A fixed set of threads that run a function together. The caller is thread 0;
/// the others wait for the next call, spinning for a few microseconds (steps
/// follow one another closely) before they sleep. `run` allocates nothing.
class ThreadPool {
public:
  explicit ThreadPool(int count);
  ~ThreadPool();
  ThreadPool(const ThreadPool &) = delete;
  ThreadPool &operator=(const ThreadPool &) = delete;

  int count() const { return static_cast<int>(threads.size()); }

  /// Gives each thread `bytes` of scratch memory, aligned to 64, for all calls
  /// from now on. The pages cost nothing until a thread touches them. Throws
  /// std::bad_alloc.
  void reserveScratch(size_t bytes);

  /// Calls `function(arena, thread)` once on every thread and returns when all
  /// have returned.
  void run(void (*function)(void *, tfm_thread *), void *arena);

private:
  /// Where all threads meet; reusable at once (a counter of rounds instead of
  /// a flag).
  class Barrier {
  public:
    void wait(uint32_t count);

  private:
    alignas(64) std::atomic<uint32_t> arrived{0};
    alignas(64) std::atomic<uint32_t> round{0};
  };

  static void meet(tfm_thread *thread);
  void work(int index);

  std::vector<tfm_thread> threads;
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
