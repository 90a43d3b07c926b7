//===- threads.cpp - a persistent pool that runs a model's functions ----===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/threads.h"

#include "runtime/error.h"

#include <algorithm>
#include <fstream>
#include <new>
#include <sched.h>
#include <sys/mman.h>
#include <system_error>

namespace tfm {

namespace {

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

} // namespace

void Waiter::waitWhile(const std::atomic<uint32_t> &value, uint32_t old) {
  bool isTrial = ++waits % trial == 0;
  uint32_t allowed = isTrial ? longest : limit;
  for (uint32_t spin = 0; spin < allowed; ++spin) {
    if (value.load(std::memory_order_acquire) != old) {
      limit = isTrial ? longest : std::min(longest, 2 * limit);
      return;
    }
    pause();
  }
  limit = std::max(shortest, limit / 4);
  value.wait(old, std::memory_order_acquire);
}

int availableProcessors(const char *quota) {
  cpu_set_t set;
  auto count = sched_getaffinity(0, sizeof set, &set) == 0
                   ? static_cast<long>(CPU_COUNT(&set))
                   : static_cast<long>(std::thread::hardware_concurrency());
  // Threads that wait for each other must all run: half a processor is none.
  long time = 0, period = 0;
  if (std::ifstream(quota) >> time >> period; time > 0 && period > 0)
    count = std::min(count, time / period);
  return static_cast<int>(std::max(1L, count));
}

void ThreadPool::Barrier::wait(uint32_t count, Waiter &waiter) {
  uint32_t current = round.load(std::memory_order_relaxed);
  if (arrived.fetch_add(1, std::memory_order_acq_rel) + 1 == count) {
    arrived.store(0, std::memory_order_relaxed);
    round.store(current + 1, std::memory_order_release);
    round.notify_all();
    return;
  }
  waiter.waitWhile(round, current);
}

ThreadPool::ThreadPool(int count)
    : threads(std::max(1, count)), waiters(threads.size()) {
  for (size_t i = 0; i < threads.size(); ++i)
    threads[i] = {static_cast<int64_t>(i),
                  static_cast<int64_t>(threads.size()),
                  meet,
                  nullptr,
                  this,
                  nullptr};
  try {
    for (size_t i = 1; i < threads.size(); ++i)
      workers.emplace_back([this, i] { work(static_cast<int>(i)); });
  } catch (const std::system_error &error) {
    stop();
    throw InputError("cannot start " + std::to_string(count) +
                     " threads: use fewer of them with --threads");
  }
}

ThreadPool::~ThreadPool() {
  stop();
  if (scratch)
    munmap(scratch, scratchBytes);
}

void ThreadPool::stop() {
  function = nullptr;
  call.fetch_add(1, std::memory_order_release);
  call.notify_all();
  for (std::thread &worker : workers)
    worker.join();
}

void ThreadPool::reserveScratch(size_t bytes) {
  constexpr size_t page = 4096; // threads share no page
  size_t stride = (bytes + page - 1) / page * page;
  size_t wanted = stride * threads.size();
  if (wanted <= scratchBytes)
    return;
  void *memory = mmap(nullptr, wanted, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED)
    throw std::bad_alloc();
  if (scratch)
    munmap(scratch, scratchBytes);
  scratch = memory;
  scratchBytes = wanted;
  for (size_t i = 0; i < threads.size(); ++i)
    threads[i].scratch = static_cast<char *>(memory) + i * stride;
}

void ThreadPool::meet(tfm_thread *thread) {
  if (thread->count == 1)
    return;
  auto *pool = static_cast<ThreadPool *>(thread->pool);
  pool->barrier.wait(static_cast<uint32_t>(thread->count),
                     pool->waiters[thread->index].atBarrier);
}

void ThreadPool::run(void (*newFunction)(void *, tfm_thread *),
                     void *newArena) {
  if (threads.size() == 1) {
    newFunction(newArena, &threads[0]);
    return;
  }
  function = newFunction;
  arena = newArena;
  call.fetch_add(1, std::memory_order_release);
  call.notify_all();
  newFunction(newArena, &threads[0]);
  meet(&threads[0]);
}

void ThreadPool::work(int index) {
  uint32_t seen = 0;
  while (true) {
    waiters[index].forCall.waitWhile(call, seen);
    // Calls cannot be missed: the next one starts only after all threads have
    // met at the end of this one.
    ++seen;
    if (!function)
      return;
    function(arena, &threads[index]);
    meet(&threads[index]);
  }
}

} // namespace tfm
