//===- device/choose_device.cpp - what a program computes on --------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/device/choose_device.h"

#include "runtime/device/cpu_device.h"
#include "runtime/device/gpus.h"
#include "runtime/device/variant.h"
#include "runtime/support/error.h"

#include <charconv>

namespace tfm {

static constexpr std::string_view gpus = "cuda";

/// The number behind `cuda:`; 0 without one, -1 where that is no number.
static int numberOf(std::string_view device) {
  if (!device.starts_with("cuda:"))
    return 0;
  std::string_view digits = device.substr(5);
  int number = -1;
  auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), number);
  return error == std::errc() && end == digits.data() + digits.size() ? number
                                                                      : -1;
}

bool isDeviceName(std::string_view text) {
  return text == "auto" || text == "cpu" || text == gpus ||
         (text.starts_with("cuda:") && numberOf(text) >= 0);
}

/// The variants of a model that are for GPUs, or those that are not: they lie
/// beside each other.
static tfm_model only(const tfm_model &model, bool onGpu) {
  tfm_model part = model;
  part.variant_count = 0;
  for (int64_t i = 0; i != model.variant_count; ++i)
    if ((model.variants[i].target == gpus) == onGpu &&
        part.variant_count++ == 0)
      part.variants = model.variants + i;
  return part;
}

tfm_model modelFor(const tfm_model &model, std::string_view device, bool runs) {
  tfm_model onGpu = only(model, true);
  if (device == "auto")
    return onGpu.variant_count > 0 && tfm_gpus->canRun(onGpu, runs)
               ? onGpu
               : only(model, false);
  if (device == "cpu")
    return only(model, false);
  if (onGpu.variant_count == 0)
    throw InputError("--device {}, but {} was built for CPUs alone: build it "
                     "with `tfmc build --target cuda`",
                     device, model.name);
  return onGpu;
}

std::unique_ptr<Device> makeDevice(const tfm_model &model,
                                   std::string_view device, int threads,
                                   const Processes *processes) {
  const tfm_variant &variant = chooseVariant(model);
  if (variant.target != gpus)
    return std::make_unique<CpuDevice>(threads);
  // A launcher may show each process nothing but its own.
  bool isNumbered = device.find(':') != std::string_view::npos;
  return tfm_gpus->make(variant, numberOf(device), threads,
                        isNumbered ? nullptr : processes);
}

std::optional<CudaProperties> gpuOf(const tfm_model &model,
                                    std::string_view device) {
  const tfm_variant &variant = chooseVariant(model);
  if (variant.target != gpus)
    return std::nullopt;
  return tfm_gpus->find(variant, numberOf(device));
}

} // namespace tfm
