//===- device/gpus.cpp - what is done with GPUs ---------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/device/gpus.h"

#include "runtime/device/choose_device.h"
#include "runtime/device/nccl.h"
#include "runtime/device/variant.h"
#include "runtime/support/error.h"
#include "runtime/support/memory.h"
#include "runtime/support/progress.h"

#include <algorithm>
#include <fmt/format.h>

namespace tfm {

static bool canRun(const tfm_model &model, bool runs) {
  int count = 1;
  auto notUsed = [&](const std::string &why) {
    std::string_view others =
        runs && count > 1
            ? " (the first one is looked at; --device cuda:1 is the next)"
            : "";
    say(fmt::format("note: no GPU is used{}: {}\n", others, why));
    return false;
  };
  try {
    const tfm_variant &variant = chooseVariant(model);
    CudaDriver driver;
    count = countGpus(driver);
    CudaProperties gpu = findGpu(driver, 0);
    requireImage(variant, gpu);
    const std::string takes = byteText(variant.arena_bytes);
    uint64_t left = gpu.memory;
    bool fits = variant.arena_bytes <= left;
    if (runs && fits)
      try {
        CudaDevice(variant, gpu.number, 1)
            .keepContext()
            .allocate(variant.arena_bytes, 0, 0);
      } catch (const NoDeviceMemory &none) {
        left = none.left;
        fits = false;
        if (left >= variant.arena_bytes)
          return notUsed("the driver of " + gpu.name + " does not give the " +
                         takes + " that " + model.name + " takes");
      }
    return fits || notUsed(gpu.name + " has " + byteText(left) + " of memory" +
                           (left < gpu.memory ? " left" : "") + ", and " +
                           model.name + " takes " + takes);
  } catch (const UnusableGpu &unusable) {
    return unusable.isThere && notUsed(unusable.why);
  } catch (const DeviceError &error) {
    std::string why = error.what();
    return notUsed(why.substr(0, why.rfind(withoutGpu)));
  }
}

static std::unique_ptr<Device> make(const tfm_variant &variant, int number,
                                    int threads, const Processes *processes) {
  if (processes)
    number = processes->placeOnHost() % countGpus(CudaDriver());
  return std::make_unique<CudaDevice>(variant, number, threads);
}

static CudaProperties find(const tfm_variant &variant, int number) {
  CudaDriver driver;
  CudaProperties gpu = findGpu(driver, number);
  requireImage(variant, gpu);
  return gpu;
}

static std::optional<std::string> ncclVersion() {
  try {
    return Nccl().version();
  } catch (const std::runtime_error &) { // there is none that works
    return std::nullopt;
  }
}

static tfm_model likeAll(const tfm_model &own, const tfm_model &model,
                         std::string_view device, Processes &processes) {
  const Gathered<int32_t> onGpu =
      processes.gather(int32_t{chooseVariant(own).image_count > 0});
  const auto *without = std::ranges::find(onGpu, 0);
  const auto *with = std::ranges::find(onGpu, 1);
  if (without == onGpu.end() || with == onGpu.end())
    return own;
  if (processes.sum(device != "auto") > 0)
    throw AgreedError(
        "{} computes on a GPU, and {} does not: give all of them the same "
        "--device",
        processes.name(static_cast<int>(with - onGpu.begin())),
        processes.name(static_cast<int>(without - onGpu.begin())));
  if (processes.isFirst())
    say(fmt::format("note: no GPU is used: {} has none that runs this build\n",
                    processes.name(static_cast<int>(without - onGpu.begin()))));
  return modelFor(model, "cpu");
}

static constexpr Gpus all = {canRun, make, find, ncclVersion, likeAll};
const Gpus *const tfm_gpus = &all;

} // namespace tfm
