//===- cuda_driver.cpp - what is asked of NVIDIA's driver -----------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/device/cuda_driver.h"

#include "runtime/error.h"

#include <dlfcn.h>

namespace tfm {

static constexpr const char *library = "libcuda.so.1";

CudaDriver::CudaDriver() {
  // Never closed: the driver has threads of its own.
  void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  if (!handle)
    throw InputError("there is no NVIDIA driver here (" +
                     std::string(dlerror()) +
                     "): install it, or run with --device cpu");
  auto find = [&](const char *name, auto &function) {
    void *found = dlsym(handle, name);
    if (!found)
      throw InputError("the NVIDIA driver is too old, it has no " +
                       std::string(name) +
                       ": install a newer one, or run with --device cpu");
    function =
        reinterpret_cast<std::remove_reference_t<decltype(function)>>(found);
  };
#define TFM_CUDA_FIND(name, arguments) find(#name, call.name);
  TFM_CUDA_FUNCTIONS(TFM_CUDA_FIND)
#undef TFM_CUDA_FIND
  check(call.cuInit(0), "start");
}

std::string CudaDriver::nameOf(cuda::Result result) const {
  const char *name = nullptr, *meaning = nullptr;
  std::string text = "error " + std::to_string(result);
  if (call.cuGetErrorName(result, &name) == cuda::success && name)
    text = name;
  if (call.cuGetErrorString(result, &meaning) == cuda::success && meaning)
    text += " (" + std::string(meaning) + ")";
  return text;
}

void CudaDriver::check(cuda::Result result, const char *what) const {
  if (result != cuda::success)
    throw InputError("the NVIDIA driver cannot " + std::string(what) + ": " +
                     nameOf(result));
}

} // namespace tfm
