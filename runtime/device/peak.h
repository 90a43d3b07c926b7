//===- peak.h - what the machine can do at most, measured ---------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_RUNTIME_DEVICE_PEAK_H
#define TFM_RUNTIME_DEVICE_PEAK_H

#include "runtime/device/threads.h"

#include <cstddef>

namespace tfm {

/// Fused multiply-adds on registers alone, with the widest vectors that this
/// processor has: about a tenth of a millisecond on the calling thread. Returns
/// the number of f32 operations, two for each lane of a multiply-add.
double multiplyAdds();

/// Reads `count` floats once. The result is their sum.
float readAll(const float *data, size_t count);

/// Adds to each of `count` floats in place: each is read once and written once.
void addToAll(float *data, size_t count);

/// Measures the peak of multiply-adds and the bandwidth of memory with all
/// threads of a pool at once. Clocks drift: measure beside what is compared.
class PeakMeter {
public:
  /// Takes memory that no cache holds: twice the last level, within a quarter
  /// of all memory and 1 GB. Throws std::bad_alloc.
  explicit PeakMeter(ThreadPool &pool);
  ~PeakMeter();
  PeakMeter(const PeakMeter &) = delete;
  PeakMeter &operator=(const PeakMeter &) = delete;

  /// Measures again, for less than a tenth of a second; the best of all counts.
  void measure();

  /// f32 operations a second of all threads.
  double flops() const { return bestFlops; }
  /// Bytes a second, the larger of reading alone and of reading and writing.
  double bandwidth() const { return bestBandwidth; }
  /// The share of what the machine can do that `flops` operations and `bytes`
  /// bytes in `seconds` are, and whether arithmetic is what limits them.
  struct Share {
    double value;
    bool ofPeak; ///< else of the bandwidth
  };
  Share share(double flops, double bytes, double seconds) const;

private:
  ThreadPool &pool;
  float *memory = nullptr;
  size_t count = 0;
  double bestFlops = 0;
  double bestBandwidth = 0;
};

} // namespace tfm

#endif // TFM_RUNTIME_DEVICE_PEAK_H
