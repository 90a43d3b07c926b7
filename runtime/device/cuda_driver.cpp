//===- cuda_driver.cpp - what is asked of NVIDIA's driver -----------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/device/cuda_driver.h"

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>

namespace tfm {

static constexpr const char *library = "libcuda.so.1";

/// `that of CUDA 11.2`.
static std::string versionOf(void *library) {
  auto *ask = reinterpret_cast<cuda::Result (*)(int *)>(
      dlsym(library, "cuDriverGetVersion"));
  int version = 0;
  if (!ask || ask(&version) != cuda::success)
    return "of an unknown version";
  return "that of CUDA " + std::to_string(version / 1000) + "." +
         std::to_string(version % 1000 / 10);
}

const char *findFunctions(void *library, const char *names, void *functions,
                          size_t bytes) {
  auto *place = static_cast<char *>(functions);
  for (const char *end = place + bytes; place < end; place += sizeof(void *)) {
    void *found = dlsym(library, names);
    if (!found)
      return names;
    std::memcpy(place, &found, sizeof found);
    names += std::strlen(names) + 1;
  }
  return nullptr;
}

UnusableGpu noGpu() {
  const char *visible = std::getenv("CUDA_VISIBLE_DEVICES");
  return {"the NVIDIA driver finds no GPU" +
              (visible
                   ? " (CUDA_VISIBLE_DEVICES is '" + std::string(visible) + "')"
                   : ""),
          /*isThere=*/visible != nullptr, ""};
}

CudaDriver::CudaDriver() {
  // Never closed: the driver has threads of its own.
  void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    std::string why = dlerror();
    // Not another library, which that one needs.
    bool isThere = !why.starts_with(std::string(library) + ":") ||
                   why.find("No such file") == std::string::npos;
    throw UnusableGpu((isThere ? "the NVIDIA driver cannot be loaded ("
                               : "there is no NVIDIA driver here (") +
                          why + ")",
                      isThere, isThere ? "install it again" : "install it");
  }
#define TFM_CUDA_NAME(name, arguments) #name "\0"
  if (const char *missing =
          findFunctions(handle, TFM_CUDA_FUNCTIONS(TFM_CUDA_NAME), &call,
                        offsetof(Functions, cuTensorMapEncodeTiled)))
    throw UnusableGpu("the NVIDIA driver is too old (" + versionOf(handle) +
                          "), it has no " + missing,
                      /*isThere=*/true,
                      "install that of CUDA 11.4 or a newer one");
#undef TFM_CUDA_NAME
#define TFM_CUDA_LOOK(name, arguments)                                         \
  call.name = reinterpret_cast<decltype(call.name)>(dlsym(handle, #name));
  TFM_CUDA_NEW_FUNCTIONS(TFM_CUDA_LOOK)
#undef TFM_CUDA_LOOK
  // All kernels are used, and while a graph is captured none can be loaded.
  setenv("CUDA_MODULE_LOADING", "EAGER", /*overwrite=*/0);
  cuda::Result started = call.cuInit(0);
  if (started == cuda::noDevice)
    throw noGpu();
  if (started != cuda::success)
    throw UnusableGpu("the NVIDIA driver does not start: " + nameOf(started),
                      /*isThere=*/true, "");
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
    throw DeviceError("the NVIDIA driver cannot {}{}: {}{}", what,
                      device.empty() ? "" : " on " + device, nameOf(result),
                      withoutGpu);
}

} // namespace tfm
