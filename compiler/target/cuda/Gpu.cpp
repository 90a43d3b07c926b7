//===- Gpu.cpp - GPUs as code generation sees them ------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/target/cuda/Gpu.h"

#include "llvm/Support/MathExtras.h"
#include <algorithm>

using namespace tfm;
using namespace tfm::cuda;

// The bandwidth of second-level caches and the time of a launch in a graph are
// measurements that others published, not promises.
const Gpu tfm::cuda::a100 = {.name = "A100",
                             .multiprocessors = 108,
                             .clock = 1.41e9,
                             .tensorFlops = 312e12,
                             .f32Flops = 19.5e12,
                             .ofMma = 1.0,
                             .bandwidth = 2.0e12,
                             .cacheBandwidth = 5.0e12,
                             .shared = 164 * 1024,
                             .registers = 65536,
                             .threads = 2048,
                             .blocks = 32,
                             .launch = 1.5e-6};
const Gpu tfm::cuda::h100 = {.name = "H100",
                             .multiprocessors = 132,
                             .clock = 1.83e9,
                             .tensorFlops = 989e12,
                             .f32Flops = 67e12,
                             .ofMma = 0.62,
                             .bandwidth = 3.35e12,
                             .cacheBandwidth = 7.0e12,
                             .shared = 228 * 1024,
                             .registers = 65536,
                             .threads = 2048,
                             .blocks = 32,
                             .launch = 1.3e-6};

int64_t Gpu::residentBlocks(int64_t blockThreads, int64_t threadRegisters,
                            int64_t blockShared) const {
  // A warp's registers are given out in pieces of 256, and the system has a
  // kilobyte of each block's shared memory.
  constexpr int64_t warp = 32, piece = 256, system = 1024;
  int64_t warps = llvm::divideCeil(blockThreads, warp);
  auto ofWarp = static_cast<int64_t>(
      llvm::alignTo(std::max<int64_t>(threadRegisters, 1) * warp, piece));
  return std::min({threads / (warps * warp), registers / ofWarp / warps,
                   shared / (blockShared + system), blocks});
}

int64_t Gpu::threadRegisters(int64_t residentBlocks,
                             int64_t blockThreads) const {
  constexpr int64_t granule = 8;
  return std::min<int64_t>(
      llvm::alignDown(registers / (residentBlocks * blockThreads), granule),
      maxRegisters);
}
