//===- cuda_driver.h - what is asked of NVIDIA's driver ---------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The driver's library, `libcuda.so.1`, as it is found when the program runs:
// nothing of CUDA is needed to build. Types and names are those of its
// interface, of which there is no header here that we could distribute; where
// there is a toolkit, a test compares them with it (CudaHeaderTest).
//
//===----------------------------------------------------------------------===//

#ifndef TFM_RUNTIME_DEVICE_CUDA_DRIVER_H
#define TFM_RUNTIME_DEVICE_CUDA_DRIVER_H

#include "runtime/support/error.h"

#include <cstddef>
#include <cstdint>
#include <string>

namespace tfm {

namespace cuda {

using Result = int;
using DeviceNumber = int;
using Address = unsigned long long;
using Context = struct CUctx_st *;
using Module = struct CUmod_st *;
using Function = struct CUfunc_st *;
using Stream = struct CUstream_st *;
using Event = struct CUevent_st *;
using Graph = struct CUgraph_st *;
using GraphExec = struct CUgraphExec_st *;

/// CUuuid: of a GPU, unlike all others.
struct Uuid {
  char bytes[16];
  bool operator==(const Uuid &) const = default;
};

/// CUdevice_attribute.
enum Attribute : int {
  multiprocessors = 16,
  capabilityMajor = 75,
  capabilityMinor = 76,
};
/// CUfunction_attribute.
enum FunctionAttribute : int { maxDynamicShared = 8 };
/// CUjit_option.
enum JitOption : int { errorLogBuffer = 5, errorLogBytes = 6 };
/// CUresult.
enum Known : int {
  success = 0,
  invalidValue = 1,
  outOfMemory = 2,
  noDevice = 100,
  unsupportedPtxVersion = 222,
  notReady = 600,
};
/// CUstreamCaptureMode: calls of other threads are none of our business.
constexpr int captureThreadLocal = 1;
/// CUstream_flags: does not wait for the stream of other libraries.
constexpr unsigned streamNonBlocking = 1;
/// CUevent_flags.
constexpr unsigned eventWithTiming = 0, eventWithoutTiming = 2;

/// CUtensorMap: what only drivers write and only GPUs read.
struct alignas(128) TensorMap {
  char bytes[128];
};
/// CUtensorMapDataType, CUtensorMapInterleave, CUtensorMapSwizzle,
/// CUtensorMapL2promotion, CUtensorMapFloatOOBfill.
constexpr int tensorOfBf16 = 9, tensorNotInterleaved = 0, tensorSwizzle128 = 3,
              tensorPromotion256 = 3, tensorZerosOutside = 0;

/// Every function that is called, by the name under which the library has it.
#define TFM_CUDA_FUNCTIONS(F)                                                  \
  F(cuInit, (unsigned))                                                        \
  F(cuDriverGetVersion, (int *))                                               \
  F(cuDeviceGetCount, (int *))                                                 \
  F(cuDeviceGet, (DeviceNumber *, int))                                        \
  F(cuDeviceGetName, (char *, int, DeviceNumber))                              \
  F(cuDeviceGetUuid, (Uuid *, DeviceNumber))                                   \
  F(cuDeviceTotalMem_v2, (size_t *, DeviceNumber))                             \
  F(cuDeviceGetAttribute, (int *, int, DeviceNumber))                          \
  F(cuDevicePrimaryCtxRetain, (Context *, DeviceNumber))                       \
  F(cuDevicePrimaryCtxRelease_v2, (DeviceNumber))                              \
  F(cuCtxSetCurrent, (Context))                                                \
  F(cuMemGetInfo_v2, (size_t *, size_t *))                                     \
  F(cuMemAlloc_v2, (Address *, size_t))                                        \
  F(cuMemFree_v2, (Address))                                                   \
  F(cuMemHostAlloc, (void **, size_t, unsigned))                               \
  F(cuMemFreeHost, (void *))                                                   \
  F(cuMemcpyHtoDAsync_v2, (Address, const void *, size_t, Stream))             \
  F(cuMemcpyDtoHAsync_v2, (void *, Address, size_t, Stream))                   \
  F(cuMemsetD8Async, (Address, unsigned char, size_t, Stream))                 \
  F(cuStreamCreate, (Stream *, unsigned))                                      \
  F(cuStreamDestroy_v2, (Stream))                                              \
  F(cuStreamQuery, (Stream))                                                   \
  F(cuStreamSynchronize, (Stream))                                             \
  F(cuStreamBeginCapture_v2, (Stream, int))                                    \
  F(cuStreamEndCapture, (Stream, Graph *))                                     \
  F(cuGraphInstantiateWithFlags, (GraphExec *, Graph, unsigned long long))     \
  F(cuGraphLaunch, (GraphExec, Stream))                                        \
  F(cuGraphExecDestroy, (GraphExec))                                           \
  F(cuGraphDestroy, (Graph))                                                   \
  F(cuModuleLoadDataEx, (Module *, const void *, unsigned, int *, void **))    \
  F(cuModuleUnload, (Module))                                                  \
  F(cuModuleGetFunction, (Function *, Module, const char *))                   \
  F(cuFuncSetAttribute, (Function, int, int))                                  \
  F(cuLaunchKernel, (Function, unsigned, unsigned, unsigned, unsigned,         \
                     unsigned, unsigned, unsigned, Stream, void **, void **))  \
  F(cuEventCreate, (Event *, unsigned))                                        \
  F(cuEventRecord, (Event, Stream))                                            \
  F(cuEventSynchronize, (Event))                                               \
  F(cuEventElapsedTime, (float *, Event, Event))                               \
  F(cuEventDestroy_v2, (Event))                                                \
  F(cuGetErrorName, (Result, const char **))                                   \
  F(cuGetErrorString, (Result, const char **))

/// Those that drivers before CUDA 12 need not have; they are null there.
#define TFM_CUDA_NEW_FUNCTIONS(F)                                              \
  F(cuTensorMapEncodeTiled,                                                    \
    (TensorMap *, int, unsigned, void *, const uint64_t *, const uint64_t *,   \
     const unsigned *, const unsigned *, int, int, int, int))

} // namespace cuda

/// What keeps a program from a GPU, before it is used.
class UnusableGpu : public InputError {
public:
  /// `isThere`: a GPU, or its driver. `remedy` is what could be done about it,
  /// and `said` lines of the driver's own.
  UnusableGpu(const std::string &why, bool isThere, const std::string &remedy,
              const std::string &said = "")
      : InputError(why + ": " + (remedy.empty() ? "run" : remedy + ", or run") +
                   " with --device cpu" + said),
        why(why + (remedy.empty() ? "" : ": " + remedy) + said),
        isThere(isThere) {}
  std::string why; ///< and what could be done, but for another device
  bool isThere;
};

/// That a driver finds no GPU, with what may hide one from it.
UnusableGpu noGpu();

/// Finds functions of a library by their names, each of which ends with a zero:
/// their addresses fill `functions`, of so many bytes. The first name that the
/// library does not have; null where it has all.
const char *findFunctions(void *library, const char *names, void *functions,
                          size_t bytes);

/// Ends what DeviceError says of a driver.
constexpr const char *withoutGpu = "; --device cpu runs without it";

/// The functions of the driver's library.
struct CudaDriver {
#define TFM_CUDA_POINTER(name, arguments) cuda::Result(*name) arguments;
  struct Functions {
    using Result = cuda::Result;
    using DeviceNumber = cuda::DeviceNumber;
    using Uuid = cuda::Uuid;
    using Address = cuda::Address;
    using Context = cuda::Context;
    using Module = cuda::Module;
    using Function = cuda::Function;
    using Stream = cuda::Stream;
    using Event = cuda::Event;
    using Graph = cuda::Graph;
    using GraphExec = cuda::GraphExec;
    using TensorMap = cuda::TensorMap;
    TFM_CUDA_FUNCTIONS(TFM_CUDA_POINTER)
    TFM_CUDA_NEW_FUNCTIONS(TFM_CUDA_POINTER)
  } call;
#undef TFM_CUDA_POINTER

  /// Loads the library and starts the driver. Throws UnusableGpu where this
  /// machine has none that works.
  CudaDriver();

  /// The GPU that is worked with, for messages; empty before one is.
  std::string device;

  /// Throws DeviceError where `result` is an error: what failed, where, what
  /// the driver calls it, and what goes without it.
  void check(cuda::Result result, const char *what) const;
  /// What the driver calls a result: `CUDA_ERROR_NO_DEVICE (no CUDA-capable
  /// device is detected)`.
  std::string nameOf(cuda::Result result) const;
};

} // namespace tfm

#endif // TFM_RUNTIME_DEVICE_CUDA_DRIVER_H
