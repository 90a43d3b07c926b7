//===- Machine.cpp - threads, memory and the peak of this machine ---------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "bench/Machine.h"
#include "compiler/target/cpu/TileKernel.h"
#include "runtime/device/peak.h"
#include "runtime/tfm_model.h"
#include "llvm/Support/MathExtras.h"
#include <array>
#include <chrono>
#include <cstdlib>
#include <sys/mman.h>

using namespace tfm;
using namespace tfm::bench;

CpuMachine bench::benchedMachine() {
  const char *named = std::getenv("TFM_BENCH_CPU");
  return llvm::cantFail(named ? CpuMachine::named(named)
                              : CpuMachine::native());
}

Team::Team(int64_t count) : size(count) {
  for (int64_t thread = 1; thread < size; ++thread)
    threads.emplace_back([this, thread] {
      int64_t seen = 0;
      while (true) {
        while (generation.load(std::memory_order_acquire) == seen)
          if (stop.load(std::memory_order_relaxed))
            return;
        ++seen;
        (*job)(thread);
        done.fetch_add(1, std::memory_order_release);
      }
    });
}

Team::~Team() {
  stop = true;
  for (std::thread &thread : threads)
    thread.join();
}

void Team::run(const std::function<void(int64_t)> &work) {
  job = &work;
  done.store(0, std::memory_order_relaxed);
  generation.fetch_add(1, std::memory_order_release);
  work(0);
  while (done.load(std::memory_order_acquire) != size - 1) {
  }
}

/// In large pages where it is large, as the arena of a model lies.
static void *allocate(int64_t bytes) {
  constexpr size_t largePage = 2 << 20, line = 64;
  auto length = static_cast<size_t>(bytes);
  size_t alignment = length < largePage ? line : largePage;
  length = llvm::alignTo(length + line, alignment);
  void *memory = std::aligned_alloc(alignment, length);
  if (memory && alignment == largePage)
    (void)madvise(memory, length, MADV_HUGEPAGE); // only a hint
  return memory;
}

Floats::Floats(int64_t size)
    : memory(static_cast<float *>(allocate(size * 4)), std::free) {
  uint32_t state = 1;
  for (int64_t i = 0; i < size; ++i) {
    state = state * 1664525u + 1013904223u;
    memory[i] = static_cast<float>(state >> 8) / (1 << 24) - 0.5f;
  }
}

double Peak::seconds(Team &team) {
  return timed([&] {
    team.run([&](int64_t thread) {
      double done = multiplyAdds(products)();
      if (thread == 0)
        operations = done;
    });
  });
}

#ifdef __x86_64__
__attribute__((target("amx-tile"))) void tfm::bench::shapeTiles() {
  static const std::array<uint8_t, 64> shape = tileConfiguration();
  __builtin_ia32_tile_loadconfig(shape.data());
}
#else
void tfm::bench::shapeTiles() {}
#endif

double tfm::bench::timed(const std::function<void()> &work) {
  auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
      .count();
}
