//===- Machine.h - threads, memory and the peak of this machine -*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_BENCH_MACHINE_H
#define TFM_BENCH_MACHINE_H

#include "compiler/target/cpu/CpuMachine.h"
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <thread>
#include <vector>

namespace tfm::bench {

/// What kernels are compiled for: the processor that the environment variable
/// TFM_BENCH_CPU names (`x86-64-v3`), which this machine must be able to run,
/// else this machine.
CpuMachine benchedMachine();

/// Threads that spin between jobs, as the runtime's do during a step.
class Team {
public:
  explicit Team(int64_t count);
  ~Team();
  /// Runs `job(thread)` on every thread; returns when all are done.
  void run(const std::function<void(int64_t)> &job);
  int64_t count() const { return size; }

private:
  const int64_t size;
  const std::function<void(int64_t)> *job = nullptr;
  std::atomic<int64_t> generation{0}, done{0};
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
};

/// f32 aligned to 64 bytes, filled with small numbers.
class Floats {
public:
  explicit Floats(int64_t size);
  float *data() const { return memory.get(); }

private:
  std::unique_ptr<float[], void (*)(void *)> memory;
};

/// Products and sums on registers alone (runtime/device/peak.h).
class Peak {
public:
  /// Of products of that kind (a TFM_PRODUCTS_...), which this machine has.
  explicit Peak(std::string_view products) : products(products) {}
  /// Seconds of one run, on every thread of the team.
  double seconds(Team &team);
  /// Floating-point operations of one run on one thread.
  double flops() const { return operations; }

private:
  std::string_view products;
  double operations = 0;
};

/// Gives this thread's tiles (AMX) the shape that kernels expect, as programs
/// do before they call one; the peak of tiles takes it back.
void shapeTiles();

/// Seconds that `work` takes.
double timed(const std::function<void()> &work);

} // namespace tfm::bench

#endif // TFM_BENCH_MACHINE_H
