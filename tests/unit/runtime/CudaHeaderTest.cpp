//===- CudaHeaderTest.cpp - our words for the driver's ------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What runtime/device/cuda_driver.h and nccl.h declare by hand is what NVIDIA's
// headers say, where a toolkit is. It is compared while compiling.
//
//===----------------------------------------------------------------------===//

#include "runtime/device/cuda_driver.h"
#include "runtime/device/nccl.h"

// Of every version, and each by the name that the library has it under.
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#if __has_include(<nccl.h>)
#include <nccl.h>
#endif

#include <gtest/gtest.h>
#include <type_traits>

namespace tfm::test {
namespace {

/// Whether two types are passed in the same way: pointers, structs of a size,
/// or numbers of one.
template <typename A, typename B> constexpr bool alike() {
  if constexpr (std::is_pointer_v<A> || std::is_pointer_v<B>) {
    return std::is_pointer_v<A> && std::is_pointer_v<B>;
  } else if constexpr (std::is_class_v<A> || std::is_class_v<B>) {
    return std::is_class_v<A> && std::is_class_v<B> && sizeof(A) == sizeof(B);
  } else {
    auto isNumber = [](auto type) {
      using T = typename decltype(type)::type;
      return std::is_integral_v<T> || std::is_enum_v<T>;
    };
    return sizeof(A) == sizeof(B) && isNumber(std::type_identity<A>()) &&
           isNumber(std::type_identity<B>());
  }
}

/// The same of two functions, with all that they take.
template <typename R, typename... As, typename S, typename... Bs>
constexpr bool alike(R (*)(As...), S (*)(Bs...)) {
  if constexpr (sizeof...(As) != sizeof...(Bs))
    return false;
  else
    return alike<R, S>() && (alike<As, Bs>() && ...);
}

using Ours = CudaDriver::Functions;
#define TFM_SAME_FUNCTION(name, arguments)                                     \
  static_assert(alike(decltype(Ours::name){}, decltype(&::name){}), #name);
TFM_CUDA_FUNCTIONS(TFM_SAME_FUNCTION)
#if CUDA_VERSION >= 12000
TFM_CUDA_NEW_FUNCTIONS(TFM_SAME_FUNCTION)
static_assert(sizeof(cuda::TensorMap) == sizeof(CUtensorMap) &&
              alignof(cuda::TensorMap) >= alignof(CUtensorMap));
static_assert(cuda::tensorOfBf16 == CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 &&
              cuda::tensorNotInterleaved == CU_TENSOR_MAP_INTERLEAVE_NONE &&
              cuda::tensorSwizzle128 == CU_TENSOR_MAP_SWIZZLE_128B &&
              cuda::tensorPromotion256 == CU_TENSOR_MAP_L2_PROMOTION_L2_256B &&
              cuda::tensorZerosOutside == CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
#endif
#undef TFM_SAME_FUNCTION

static_assert(sizeof(cuda::Address) == sizeof(CUdeviceptr));
static_assert(sizeof(cuda::Result) == sizeof(CUresult));

#define TFM_SAME_NUMBER(ours, theirs)                                          \
  static_assert(static_cast<int>(cuda::ours) == static_cast<int>(theirs));
TFM_SAME_NUMBER(multiprocessors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)
TFM_SAME_NUMBER(capabilityMajor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)
TFM_SAME_NUMBER(capabilityMinor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)
TFM_SAME_NUMBER(maxDynamicShared,
                CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES)
TFM_SAME_NUMBER(errorLogBuffer, CU_JIT_ERROR_LOG_BUFFER)
TFM_SAME_NUMBER(errorLogBytes, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES)
TFM_SAME_NUMBER(success, CUDA_SUCCESS)
TFM_SAME_NUMBER(invalidValue, CUDA_ERROR_INVALID_VALUE)
TFM_SAME_NUMBER(outOfMemory, CUDA_ERROR_OUT_OF_MEMORY)
TFM_SAME_NUMBER(noDevice, CUDA_ERROR_NO_DEVICE)
TFM_SAME_NUMBER(notReady, CUDA_ERROR_NOT_READY)
TFM_SAME_NUMBER(unsupportedPtxVersion, CUDA_ERROR_UNSUPPORTED_PTX_VERSION)
TFM_SAME_NUMBER(captureThreadLocal, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)
TFM_SAME_NUMBER(streamNonBlocking, CU_STREAM_NON_BLOCKING)
TFM_SAME_NUMBER(eventWithTiming, CU_EVENT_DEFAULT)
TFM_SAME_NUMBER(eventWithoutTiming, CU_EVENT_DISABLE_TIMING)
#undef TFM_SAME_NUMBER

#if __has_include(<nccl.h>)
#define TFM_SAME_FUNCTION(result, name, arguments)                             \
  static_assert(alike(decltype(Nccl::Functions::name){}, decltype(&::name){}), \
                #name);
TFM_NCCL_FUNCTIONS(TFM_SAME_FUNCTION)
#undef TFM_SAME_FUNCTION
static_assert(static_cast<int>(nccl::success) == ncclSuccess);
static_assert(nccl::float32 == ncclFloat32 && nccl::sum == ncclSum);
#endif

// A comparison that finds no difference where there is one would be none.
static_assert(!alike<int, size_t>());
static_assert(!alike<int *, cuda::Address>());
static_assert(!alike(static_cast<int (*)(int)>(nullptr),
                     static_cast<int (*)(int, int)>(nullptr)));
static_assert(!alike(static_cast<int (*)(unsigned)>(nullptr),
                     static_cast<int (*)(size_t)>(nullptr)));

TEST(CudaHeader, SaysWhatOursDoes) {
  EXPECT_GE(CUDA_VERSION, 11040) << "the oldest with all functions";
}

} // namespace
} // namespace tfm::test
