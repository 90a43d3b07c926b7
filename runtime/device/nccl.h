//===- nccl.h - GPUs that exchange what they hold ---------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// NVIDIA's library of collective operations, `libnccl.so.2`, as it is found
// when the program runs. Types and names are those of its interface, as in
// cuda_driver.h; CudaHeaderTest compares them with `nccl.h` where there is one.
//
//===----------------------------------------------------------------------===//

#ifndef TFM_RUNTIME_DEVICE_NCCL_H
#define TFM_RUNTIME_DEVICE_NCCL_H

#include "runtime/comm/processes.h"
#include "runtime/device/cuda_driver.h"
#include "runtime/device/device.h"

#include <span>
#include <string>

namespace tfm {

namespace nccl {

using Result = int;
using Stream = cuda::Stream;
using Communicator = struct ncclComm *;
/// ncclUniqueId: what processes need to find each other.
struct UniqueId {
  char internal[128];
};

/// ncclResult_t.
enum Known : Result { success = 0 };
/// ncclDataType_t and ncclRedOp_t.
constexpr int float32 = 7, sum = 0;

/// Every function that is called, by the name under which the library has it.
#define TFM_NCCL_FUNCTIONS(F)                                                  \
  F(Result, ncclGetVersion, (int *))                                           \
  F(Result, ncclGetUniqueId, (UniqueId *))                                     \
  F(Result, ncclCommInitRank, (Communicator *, int, UniqueId, int))            \
  F(Result, ncclCommDestroy, (Communicator))                                   \
  F(Result, ncclCommAbort, (Communicator))                                     \
  F(Result, ncclCommGetAsyncError, (Communicator, Result *))                   \
  F(Result, ncclGroupStart, ())                                                \
  F(Result, ncclGroupEnd, ())                                                  \
  F(Result, ncclReduce,                                                        \
    (const void *, void *, size_t, int, int, int, Communicator, Stream))       \
  F(Result, ncclBroadcast,                                                     \
    (const void *, void *, size_t, int, int, Communicator, Stream))            \
  F(const char *, ncclGetErrorString, (Result))                                \
  F(const char *, ncclGetLastError, (Communicator))

} // namespace nccl

/// The functions of the library.
struct Nccl {
#define TFM_NCCL_POINTER(result, name, arguments) result(*name) arguments;
  struct Functions {
    using Result = nccl::Result;
    using UniqueId = nccl::UniqueId;
    using Communicator = nccl::Communicator;
    using Stream = nccl::Stream;
    TFM_NCCL_FUNCTIONS(TFM_NCCL_POINTER)
  } call;
#undef TFM_NCCL_POINTER

  /// Loads the library. Throws InputError where this machine has none.
  Nccl();

  /// `2.21.5`
  std::string version() const;
  /// Throws DeviceError where `result` is an error: what failed and what the
  /// library says of it.
  void check(nccl::Result result, const char *what,
             nccl::Communicator communicator = nullptr) const;
};

/// The GPUs of a job, one of each process. All that is asked for goes into one
/// stream.
class NcclLink final : public DeviceLink {
public:
  /// Joins those of the other processes. `gpu` is known to a driver that, with
  /// the stream, stays for as long as this. Throws InputError where there is no
  /// library, AgreedError where two processes have the same GPU.
  NcclLink(const CudaDriver &driver, cuda::DeviceNumber gpu,
           cuda::Stream stream, const cuda::Address &arena,
           Processes &processes);
  ~NcclLink() override;
  NcclLink(const NcclLink &) = delete;
  NcclLink &operator=(const NcclLink &) = delete;

  void sum(std::span<const Share> shares) override;
  void copy(std::span<const Share> shares) override;
  void wait() override;

private:
  void requireOwnGpus(cuda::DeviceNumber gpu) const;
  /// Asks for the sum or the copy of each share, all of them together.
  void ask(std::span<const Share> shares, bool sums);

  const CudaDriver &driver;
  cuda::Stream stream;
  const cuda::Address &arena;
  Processes &processes;
  const Nccl library;
  nccl::Communicator communicator = nullptr;
};

} // namespace tfm

#endif // TFM_RUNTIME_DEVICE_NCCL_H
