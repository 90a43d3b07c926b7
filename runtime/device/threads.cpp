//===- threads.cpp - a persistent pool that runs a model's functions ----===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/device/threads.h"

#include "runtime/support/error.h"

#include <algorithm>
#include <climits>
#include <fstream>
#include <linux/futex.h>
#include <new>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <system_error>
#include <unistd.h>

namespace tfm {

void Bell::ring() {
  uint32_t seen = rings.load();
  if (!(seen & 1))
    return;
  // Where this fails another thread rings, and later than what we changed.
  if (rings.compare_exchange_strong(seen, seen + 1))
    syscall(SYS_futex, &rings, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr,
            0);
}

void Bell::sleepWhile(uint32_t seen) {
  syscall(SYS_futex, &rings, FUTEX_WAIT_PRIVATE, seen, nullptr, nullptr, 0);
}

int availableProcessors(const std::string &groups, const std::string &mount) {
  cpu_set_t set;
  auto count = sched_getaffinity(0, sizeof set, &set) == 0
                   ? static_cast<long>(CPU_COUNT(&set))
                   : static_cast<long>(std::thread::hardware_concurrency());
  // Threads that wait for each other must all run: half a processor is none.
  // Microseconds; a time of "max", or -1, limits nothing.
  forEachControlGroup(
      groups, mount, "cpu", [&](const std::string &folder, int version) {
        long time = 0, period = 0;
        if (version == 2) {
          std::ifstream(folder + "/cpu.max") >> time >> period;
        } else {
          std::ifstream(folder + "/cpu.cfs_quota_us") >> time;
          std::ifstream(folder + "/cpu.cfs_period_us") >> period;
        }
        if (time > 0 && period > 0)
          count = std::min(count, time / period);
      });
  return static_cast<int>(std::max(1L, count));
}

ThreadPool::ThreadPool(int count)
    : threads(std::max(1, count)), members(threads.size()) {
  for (size_t i = 0; i < threads.size(); ++i)
    threads[i] = {static_cast<int64_t>(i),
                  static_cast<int64_t>(threads.size()),
                  count > 1 ? claim : claimAlone,
                  count > 1 ? finish : finishAlone,
                  nullptr,
                  this,
                  nullptr};
  try {
    for (size_t i = 1; i < threads.size(); ++i)
      workers.emplace_back([this, i] { work(i); });
  } catch (const std::system_error &error) {
    stop();
    throw InputError(
        "cannot start {} threads: use fewer of them with --threads", count);
  }
}

ThreadPool::~ThreadPool() {
  stop();
  if (scratch)
    munmap(scratch, scratchBytes);
}

void ThreadPool::stop() {
  function = nullptr;
  ++call;
  callBegun.ring();
  for (std::thread &worker : workers)
    worker.join();
}

void ThreadPool::reserveScratch(size_t bytes) {
  // Threads share no page.
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  size_t stride = (bytes + page - 1) / page * page;
  size_t wanted = stride * threads.size();
  if (wanted <= scratchBytes)
    return;
  drain(); // a function reads where its scratch is when it begins
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

int64_t ThreadPool::claimAlone(tfm_thread *thread) {
  bool &holds = static_cast<ThreadPool *>(thread->pool)->members[0].holds;
  holds = !holds;
  return holds ? 0 : -1;
}

int64_t ThreadPool::finishAlone(tfm_thread *) { return 1; }

int64_t ThreadPool::claimWatched(tfm_thread *thread) {
  auto &pool = *static_cast<ThreadPool *>(thread->pool);
  int64_t piece = pool.isAlone ? claimAlone(thread) : claim(thread);
  if (piece < 0)
    pool.watcher.load()->launched(++pool.watched);
  return piece;
}

void ThreadPool::recordInto(tfm_event *events) {
  threads.front().events = events;
  records = events != nullptr;
}

void ThreadPool::watch(LaunchWatcher *newWatcher) {
  watcher = newWatcher;
  threads.front().claim = newWatcher           ? claimWatched
                          : threads.size() > 1 ? claim
                                               : claimAlone;
}

void ThreadPool::runAlone(void (*newFunction)(void *, tfm_thread *),
                          void *newArena) {
  tfm_thread alone = threads.front();
  alone.count = 1;
  alone.finish = finishAlone;
  if (watcher) {
    watched = 0;
    isAlone = true;
  } else {
    alone.claim = claimAlone;
  }
  newFunction(newArena, &alone);
  threads.front().events = alone.events;
}

/// Relaxed, as what a piece reads was finished before `finished` came to its
/// launch, which whoever gets here has seen.
bool ThreadPool::take(size_t piece, uint64_t launch) {
  std::atomic<uint64_t> &taken = members[piece].taken;
  return taken.load(std::memory_order_relaxed) == launch &&
         taken.compare_exchange_strong(launch, launch + 1,
                                       std::memory_order_relaxed);
}

bool ThreadPool::waitsForCaller() const {
  return watcher.load(std::memory_order_relaxed) ||
         records.load(std::memory_order_relaxed);
}

/// A piece of another thread that nobody has taken, or -1.
int64_t ThreadPool::takeAny(Member &me, size_t own) {
  for (size_t i = 1; i < members.size(); ++i)
    if (size_t piece = (own + i) % members.size();
        !(piece == 0 && waitsForCaller()) && take(piece, me.launch))
      return static_cast<int64_t>(piece);
  return -1;
}

/// Of the piece that a thread holds: it is computed.
void ThreadPool::countPiece(Member &me) {
  me.holds = false;
  me.wasLast = pieces.fetch_add(1) + 1 == members.size();
}

int64_t ThreadPool::finish(tfm_thread *thread) {
  auto &pool = *static_cast<ThreadPool *>(thread->pool);
  Member &me = pool.members[static_cast<size_t>(thread->index)];
  pool.countPiece(me);
  return me.wasLast;
}

int64_t ThreadPool::claim(tfm_thread *thread) {
  auto &pool = *static_cast<ThreadPool *>(thread->pool);
  auto own = static_cast<size_t>(thread->index);
  Member &me = pool.members[own];
  if (me.holds)
    pool.countPiece(me);
  else if (pool.take(own, me.launch)) {
    me.holds = true;
    return thread->index;
  }
  if (me.wasLast) {
    me.wasLast = false;
    pool.pieces.store(0, std::memory_order_relaxed);
    pool.finished = ++me.launch;
    pool.launchFinished.ring();
    return -1;
  }
  auto isFinished = [&] { return pool.finished.load() > me.launch; };
  // A thread that is not away takes its piece in a moment.
  constexpr uint32_t moment = 64;
  if (!Waiter::spin(me.helps > 0 ? 1 : moment, isFinished)) {
    int64_t piece = pool.takeAny(me, own);
    me.holds = piece >= 0;
    if (me.holds) {
      me.helps = me.helps > 0 ? me.helps - 1 : 16;
      return piece;
    }
    me.helps = 0;
    me.forLaunch.waitUntil(pool.launchFinished, isFinished);
  }
  ++me.launch;
  return -1;
}

void ThreadPool::run(void (*newFunction)(void *, tfm_thread *),
                     void *newArena) {
  if (watcher) {
    watched = 0;
    isAlone = threads.size() == 1;
  }
  if (threads.size() > 1) {
    members[0].launch = finished;
    function.store(newFunction, std::memory_order_release);
    arena.store(newArena, std::memory_order_release);
    firstLaunch.store(members[0].launch, std::memory_order_release);
    ++call;
    callBegun.ring();
  }
  newFunction(newArena, &threads[0]);
  if (threads.size() > 1)
    call.store(call + 1, std::memory_order_release);
}

void ThreadPool::work(size_t index) {
  Member &me = members[index];
  uint64_t last = 0;
  while (true) {
    uint64_t now = 0;
    me.forCall.waitUntil(callBegun, [&] {
      now = call;
      return now % 2 == 1 && now != last;
    });
    // First this, then a look whether the call is still on: `drain` does it the
    // other way round.
    me.inside = true;
    auto *calledFunction = function.load(std::memory_order_acquire);
    void *calledArena = arena.load(std::memory_order_acquire);
    me.launch = firstLaunch.load(std::memory_order_acquire);
    bool isOn = call == now;
    if (isOn && calledFunction)
      calledFunction(calledArena, &threads[index]);
    me.inside = false;
    functionLeft.ring();
    if (isOn && !calledFunction)
      return;
    last = now;
  }
}

void ThreadPool::drain() {
  call += 2; // still even; whoever has not seen it is seen inside
  for (Member &member : members)
    functionLeft.sleepUntil([&] { return !member.inside; });
}

} // namespace tfm
