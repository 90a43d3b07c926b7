//===- cuda_device.h - a GPU of NVIDIA's ------------------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_RUNTIME_DEVICE_CUDA_DEVICE_H
#define TFM_RUNTIME_DEVICE_CUDA_DEVICE_H

#include "runtime/device/cuda_driver.h"
#include "runtime/device/device.h"
#include "runtime/device/threads.h"

#include <array>
#include <list>
#include <map>
#include <string>
#include <vector>

namespace tfm {

/// What a GPU is, before anything is made on it.
struct CudaProperties {
  /// As `--device` counts, and the driver's for it.
  int number = 0;
  cuda::DeviceNumber device = 0;
  std::string name;
  /// The compute capability.
  int major = 0, minor = 0;
  int multiprocessors = 0;
  size_t memory = 0;
};

/// How many GPUs there are. Throws UnusableGpu where there is none.
int countGpus(const CudaDriver &driver);

/// The GPU of that number. Throws InputError where there is none.
CudaProperties findGpu(const CudaDriver &driver, int number);

/// Throws UnusableGpu where a variant has no code that a GPU runs.
void requireImage(const tfm_variant &variant, const CudaProperties &gpu);

/// The arena is memory of a GPU, and all that is asked for goes into one stream
/// there: what is run at once is captured as a graph when that happens first,
/// and launched as one from then on. Nothing waits but who looks at what was
/// read, and who writes when all memory for it is on its way.
class CudaDevice final : public Device {
public:
  /// Loads the kernels of `variant` on the GPU of that number. Throws
  /// InputError where there is none, or it cannot run them; of code that the
  /// driver refuses the message has its log. Memory of the host is converted
  /// with so many threads.
  CudaDevice(const tfm_variant &variant, int number, int threads);
  ~CudaDevice() override;
  CudaDevice(const CudaDevice &) = delete;
  CudaDevice &operator=(const CudaDevice &) = delete;

  std::string name() const override {
    return found.name + " (cuda:" + std::to_string(found.number) + ")";
  }

  /// What all devices of this process share with the driver stays until it
  /// ends: making that takes longest.
  CudaDevice &keepContext();

  /// Memory that no variant needs: there is no scratch on a GPU.
  void allocate(size_t bytes, size_t alignment, size_t scratch) override;
  void release() override;
  using Device::run;
  void run(std::span<const tfm_function *const> functions) override;
  void zero(uint64_t offset, size_t bytes) override;
  /// No graph then. Clocks are nanoseconds.
  void recordInto(tfm_event *events) override { recorded = events; }
  void runOnHost(void (*work)(void *, tfm_thread *), void *context) override;
  int hostThreads() const override { return pool.count(); }
  void wait() const override;
  std::unique_ptr<DeviceLink> link(Processes &processes) override;
  std::unique_ptr<Peaks> peaks(const std::vector<std::string_view> &products,
                               size_t reading) override;

private:
  struct Queue;
  /// What was asked for at once, as a graph.
  struct Captured {
    std::vector<const tfm_function *> functions;
    cuda::GraphExec graph = nullptr;
  };
  /// Memory of the host that the GPU reads and writes by itself.
  enum class Use { Free, Write, Read };
  struct Staging {
    void *bytes;
    size_t size;
    /// When the GPU is done with it.
    cuda::Event done;
    Use use;
  };

  void *beginWrite(uint64_t offset, size_t bytes) override;
  void endWrite(void *from, uint64_t offset, size_t bytes) noexcept override;
  HostBytes beginRead(uint64_t offset, size_t bytes) const override;
  void finishRead(const void *bytes) const override;
  void endRead(const void *bytes) const noexcept override;

  void open(const tfm_variant &variant, int number);
  void close();
  void loadKernels(const tfm_variant &variant);
  cuda::Module loadPart(const tfm_variant &variant, tfm_image_part part);
  Staging &stage(size_t bytes, Use use) const;
  Staging &stagedAt(const void *bytes) const;
  void giveBack() const noexcept;
  void checkWrites() const;
  cuda::Result launch(int64_t number, const uint64_t *arguments);
  /// Runs a function, launch by launch, and tells when each was over.
  void runRecorded(const tfm_function &function);
  Captured &capture(std::span<const tfm_function *const> functions);

  CudaDriver driver;
  ThreadPool pool;
  CudaProperties found;
  cuda::Context context = nullptr;
  /// By their part: of the general kernels and their forms there is one.
  std::array<cuda::Module, 3> modules = {};
  cuda::Stream stream = nullptr;
  cuda::Address arena = 0;
  /// How kernels are launched here, by their number.
  struct Kernel {
    const tfm_kernel *launch = nullptr;
    cuda::Function function = nullptr;
  };
  std::vector<Kernel> kernels;
  std::list<Captured> graphs;
  mutable std::list<Staging> staged;
  tfm_event *recorded = nullptr;
  std::vector<cuda::Event> times;
  /// What the first write that failed gave.
  cuda::Result failed = cuda::success;
};

} // namespace tfm

#endif // TFM_RUNTIME_DEVICE_CUDA_DEVICE_H
