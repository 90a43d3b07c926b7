//===- Crew.h - threads, and what the machine can do with them --*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_BENCH_CREW_H
#define TFM_BENCH_CREW_H

#include "runtime/device/cpu_device.h"
#include "runtime/device/peak.h"
#include <map>

namespace tfm::bench {

/// The runtime's threads with the peak and bandwidth that they reach.
struct Crew {
  explicit Crew(int threads) : device(threads), peak(device.threads()) {}
  CpuDevice device;
  PeakMeter peak;

  /// The one of that many threads: its memory is the slow part to make.
  static Crew &of(int threads) {
    static std::map<int, Crew> crews;
    return crews.try_emplace(threads, threads).first->second;
  }
};

} // namespace tfm::bench

#endif // TFM_BENCH_CREW_H
