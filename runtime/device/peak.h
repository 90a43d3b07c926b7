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
#include <limits>
#include <string_view>
#include <vector>

namespace tfm {

/// Products and sums on registers alone, with the widest registers that this
/// processor has: about a tenth of a millisecond on the calling thread. Returns
/// the number of operations, two for each product that is added to a sum.
using MultiplyAdds = double (*)();

/// Those of products of that kind (a TFM_PRODUCTS_... of tfm_model.h). Null
/// where this machine has no instructions for them, or the system keeps them to
/// itself; never of f32.
MultiplyAdds multiplyAdds(std::string_view products);

/// Reads `count` floats once. The result is their sum.
float readAll(const float *data, size_t count);

/// Adds to each of `count` floats in place: each is read once and written once.
void addToAll(float *data, size_t count);

/// What a device can do at most, as measured: operations, and bytes of memory.
/// Clocks drift: measure beside what is compared.
class Peaks {
public:
  virtual ~Peaks() = default;
  Peaks() = default;
  Peaks(const Peaks &) = delete;
  Peaks &operator=(const Peaks &) = delete;

  /// Measures again, for less than a tenth of a second; the best of all counts.
  virtual void measure() = 0;

  /// Products of one kind (TFM_PRODUCTS_...), and how many operations of them
  /// the whole device does in a second.
  struct Peak {
    std::string_view products;
    double flops;
  };
  /// What is measured: f32, then the others.
  const std::vector<Peak> &peaks() const { return all; }
  /// Operations of f32 a second.
  double flops() const { return all.front().flops; }
  /// Of products of that kind, which is one of those that are measured.
  double flops(std::string_view products) const;
  /// Bytes a second, the larger of reading alone and of reading and writing.
  double bandwidth() const { return bestBandwidth; }
  /// Bytes a second of reading alone, of as many bytes as were asked for: of
  /// few, some come from a cache.
  double reading() const { return bestReading; }
  /// The share of what the device can do that operations and `bytes` bytes in
  /// `seconds` are, and whether arithmetic is what limits them. The operations
  /// take `secondsAtPeak` at the peak of their kind.
  struct Share {
    double value;
    bool ofPeak; ///< else of the bandwidth
  };
  Share share(double secondsAtPeak, double bytes, double seconds) const;

protected:
  /// Notes each kind once, f32 first, with no operations yet.
  void measureToo(const std::vector<std::string_view> &products);

  std::vector<Peak> all;
  double bestBandwidth = 0, bestReading = 0;
};

/// Those of the processors, with all threads of a pool at once.
class PeakMeter final : public Peaks {
public:
  /// Takes memory that no cache holds: twice the last level, within a quarter
  /// of all memory and 1 GB. Measures the peak of f32, and those of `products`
  /// (TFM_PRODUCTS_...). Throws std::bad_alloc, and std::logic_error for
  /// products that this machine does not compute. `reading` is how many bytes
  /// are read over and over for `reading()`, all of that memory at most.
  explicit PeakMeter(ThreadPool &pool,
                     const std::vector<std::string_view> &products = {},
                     size_t reading = std::numeric_limits<size_t>::max());
  ~PeakMeter() override;

  void measure() override;

private:
  ThreadPool &pool;
  float *memory = nullptr;
  size_t count = 0, readCount = 0;
};

} // namespace tfm

#endif // TFM_RUNTIME_DEVICE_PEAK_H
