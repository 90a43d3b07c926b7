//===- cpu_device.h - the processors of this machine --------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_RUNTIME_DEVICE_CPU_DEVICE_H
#define TFM_RUNTIME_DEVICE_CPU_DEVICE_H

#include "runtime/device/device.h"
#include "runtime/device/threads.h"

namespace tfm {

/// The arena is memory of this process, and functions run on a pool of threads
/// while their caller waits. So what is asked for has happened when it returns,
/// and reads and writes are views.
class CpuDevice final : public Device {
public:
  /// Throws InputError where the system does not give so many threads.
  explicit CpuDevice(int threads) : pool(threads) {}
  ~CpuDevice() override;
  CpuDevice(const CpuDevice &) = delete;
  CpuDevice &operator=(const CpuDevice &) = delete;

  ThreadPool &threads() { return pool; }
  /// The arena, for tests.
  char *arenaBytes() { return arena; }

  void allocate(size_t bytes, size_t alignment, size_t scratch) override;
  void release() override;
  using Device::run;
  void run(std::span<const tfm_function *const> functions) override;
  void zero(uint64_t offset, size_t bytes) override;
  void discard(uint64_t offset, size_t bytes) override;
  void recordInto(tfm_event *events) override { pool.recordInto(events); }
  bool isHostMemory() const override { return true; }
  void watch(LaunchWatcher *watcher) override { pool.watch(watcher); }
  void runOnHost(void (*work)(void *, tfm_thread *), void *context) override;
  int hostThreads() const override { return pool.count(); }
  void wait() const override {}
  std::unique_ptr<Peaks> peaks(const std::vector<std::string_view> &products,
                               size_t reading) override;

private:
  void *beginWrite(uint64_t offset, size_t) override { return arena + offset; }
  void endWrite(void *, uint64_t, size_t) noexcept override {}
  HostBytes beginRead(uint64_t offset, size_t) const override {
    return {arena + offset, /*isPending=*/false};
  }
  void finishRead(const void *) const override {}
  void endRead(const void *) const noexcept override {}

  ThreadPool pool;
  char *arena = nullptr;
  void *mappedAt = nullptr;
  size_t mapped = 0;
};

} // namespace tfm

#endif // TFM_RUNTIME_DEVICE_CPU_DEVICE_H
