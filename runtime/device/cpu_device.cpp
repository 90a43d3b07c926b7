//===- cpu_device.cpp - the processors of this machine ------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/device/cpu_device.h"

#include "runtime/device/peak.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <stdexcept>
#include <sys/mman.h>
#include <unistd.h>

namespace tfm {

static constexpr size_t hugePage = size_t{2} << 20;

CpuDevice::~CpuDevice() { release(); }

void CpuDevice::allocate(size_t bytes, size_t alignment, size_t scratch) {
  if (arena)
    throw std::logic_error("a device has the arena of one model at a time");
  // Whole huge pages, so that the kernel can back a large arena with them.
  alignment = std::max(alignment, size_t{64});
  bytes = std::max<size_t>(bytes, 1);
  if (bytes >= hugePage)
    alignment = std::max(alignment, hugePage);
  void *memory = mmap(nullptr, bytes + alignment, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED)
    throw std::bad_alloc();
  mappedAt = memory;
  mapped = bytes + alignment;
  auto address = reinterpret_cast<uintptr_t>(memory);
  arena = reinterpret_cast<char *>((address + alignment - 1) / alignment *
                                   alignment);
  if (bytes >= hugePage)
    (void)madvise(arena, bytes, MADV_HUGEPAGE); // only a hint
  pool.reserveScratch(scratch);
}

void CpuDevice::release() {
  pool.drain(); // the code may go with whoever loaded it
  if (mappedAt)
    munmap(mappedAt, mapped);
  mappedAt = nullptr;
  arena = nullptr;
}

void CpuDevice::run(std::span<const tfm_function *const> functions) {
  for (const tfm_function *function : functions)
    if (function->threads == 1)
      pool.runAlone(function->run, arena);
    else
      pool.run(function->run, arena);
}

void CpuDevice::zero(uint64_t offset, size_t bytes) {
  std::memset(arena + offset, 0, bytes);
}

void CpuDevice::discard(uint64_t offset, size_t bytes) {
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  auto begin = reinterpret_cast<uintptr_t>(arena + offset);
  uintptr_t end = begin + bytes;
  uintptr_t first = (begin + page - 1) / page * page, last = end / page * page;
  // Whole pages come back as zeros, one by one.
  if (first < last)
    (void)madvise(reinterpret_cast<void *>(first), last - first,
                  MADV_NOHUGEPAGE);
  if (first >= last || madvise(reinterpret_cast<void *>(first), last - first,
                               MADV_DONTNEED) != 0) {
    zero(offset, bytes);
    return;
  }
  zero(offset, first - begin);
  zero(offset + (last - begin), end - last);
}

void CpuDevice::runOnHost(void (*work)(void *, tfm_thread *), void *context) {
  pool.run(work, context);
}

std::unique_ptr<Peaks>
CpuDevice::peaks(const std::vector<std::string_view> &products,
                 size_t reading) {
  return std::make_unique<PeakMeter>(pool, products, reading);
}

} // namespace tfm
