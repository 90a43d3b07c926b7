//===- cuda_peaks.h - what a GPU can do at most, measured -------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_RUNTIME_DEVICE_CUDA_PEAKS_H
#define TFM_RUNTIME_DEVICE_CUDA_PEAKS_H

#include "runtime/device/cuda_driver.h"
#include "runtime/device/peak.h"

#include <array>
#include <string>

namespace tfm {

/// The kernels that `CudaPeaks` measures with, as PTX for sm_80: multiply-adds
/// of f32 and mma.sync of bf16 on registers alone, reading memory, and adding
/// to it in place.
std::string peakKernels();

/// The peaks of a GPU, measured on a stream that nothing else uses meanwhile.
class CudaPeaks final : public Peaks {
public:
  /// Takes half of the memory that is left, 512 MiB at most. Measures f32 and
  /// those of `products` (TFM_PRODUCTS_...), and reading of `reading` bytes
  /// over and over. Throws DeviceError, and std::logic_error for products that
  /// no GPU computes.
  CudaPeaks(const CudaDriver &driver, cuda::Stream stream, int multiprocessors,
            const std::vector<std::string_view> &products, size_t reading);
  ~CudaPeaks() override;

  void measure() override;

private:
  void open(size_t reading);
  void close();
  /// Seconds of the faster of two runs of a kernel, which is given the memory
  /// and a number.
  double time(const char *kernel, uint64_t number);

  const CudaDriver &driver;
  cuda::Stream stream;
  unsigned blocks;
  cuda::Module module = nullptr;
  std::array<cuda::Event, 2> events = {};
  cuda::Address memory = 0;
  size_t bytes = 0, readBytes = 0;
};

} // namespace tfm

#endif // TFM_RUNTIME_DEVICE_CUDA_PEAKS_H
