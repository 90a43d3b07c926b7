//===- Gpu.h - GPUs as code generation sees them ----------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_TARGET_CUDA_GPU_H
#define TFM_TARGET_CUDA_GPU_H

#include "llvm/ADT/StringRef.h"
#include <cstdint>

namespace tfm::cuda {

/// What NVIDIA's data sheets, whitepapers and the tables of the CUDA
/// programming guide ("Technical Specifications per Compute Capability") say of
/// a GPU. Costs are estimated from it, and nothing that a kernel computes
/// depends on it but how its work is cut up.
struct Gpu {
  llvm::StringLiteral name;
  /// Of streaming multiprocessors, and their clock in Hz.
  int64_t multiprocessors;
  double clock;
  /// Floating-point operations a second: of tensor cores in bf16 with sums in
  /// f32, dense, and of the other units in f32.
  double tensorFlops, f32Flops;
  /// What of its tensor cores `mma.sync` reaches at most.
  double ofMma;
  /// Bytes a second from memory, and from the second-level cache.
  double bandwidth, cacheBandwidth;
  /// Of a multiprocessor: bytes of shared memory, registers of 32 bits, and the
  /// most threads and blocks at once.
  int64_t shared, registers, threads, blocks;
  /// Seconds from one kernel of a graph to the next.
  double launch;

  double tensorFlopsPerClock() const {
    return tensorFlops / clock / static_cast<double>(multiprocessors);
  }
  double f32FlopsPerClock() const {
    return f32Flops / clock / static_cast<double>(multiprocessors);
  }
  double cacheBytesPerClock() const {
    return cacheBandwidth / clock / static_cast<double>(multiprocessors);
  }

  /// How many blocks of so many threads, each with so many registers, and so
  /// many bytes of shared memory a multiprocessor has at once.
  int64_t residentBlocks(int64_t blockThreads, int64_t threadRegisters,
                         int64_t blockShared) const;
  /// Registers that each thread can have where a multiprocessor has so many
  /// blocks of so many threads at once.
  int64_t threadRegisters(int64_t residentBlocks, int64_t blockThreads) const;
};

/// A100 SXM, compute capability 8.0: what code for sm_80 is cut up for.
extern const Gpu a100;
/// H100 SXM, compute capability 9.0.
extern const Gpu h100;

/// Threads of a warpgroup. A block of them has one that multiplies for every 64
/// rows, and one more that has copies made.
inline constexpr int64_t warpgroupThreads = 128;

/// Registers that a thread can have.
inline constexpr int64_t maxRegisters = 255;
/// Bytes of shared memory that a block may ask for on every GPU that runs code
/// for sm_80: 8.6 and 8.9 have the least; and on those that run code for
/// sm_90a.
inline constexpr int64_t maxDynamicShared = 99 * 1024,
                         maxDynamicSharedOf90 = 227 * 1024;

} // namespace tfm::cuda

#endif // TFM_TARGET_CUDA_GPU_H
