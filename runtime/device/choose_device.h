//===- device/choose_device.h - what a program computes on ------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_RUNTIME_DEVICE_CHOOSE_DEVICE_H
#define TFM_RUNTIME_DEVICE_CHOOSE_DEVICE_H

#include "runtime/comm/processes.h"
#include "runtime/device/cuda_device.h"
#include "runtime/device/device.h"

#include <memory>
#include <optional>
#include <string_view>

namespace tfm {

/// Whether `text` is what `--device` takes: auto, cpu, cuda, or cuda:NUMBER.
bool isDeviceName(std::string_view text);

/// The model with nothing but the code of one kind of device: of GPUs for
/// `cuda`, of CPUs for `cpu`, and for `auto` of GPUs where it has that and this
/// machine a GPU that runs it (a note says why one that it has does not). Where
/// the model then `runs` that GPU is asked to load it, and what memory it has
/// left. Throws InputError where there is none of that kind.
tfm_model modelFor(const tfm_model &model, std::string_view device,
                   bool runs = false);

/// The device that runs a model of `modelFor`: the GPU that `device` numbers,
/// where it numbers none and there are other `processes` on this machine that
/// of this one's place among them, or the processors, with so many threads.
/// Throws InputError where it does not run.
std::unique_ptr<Device> makeDevice(const tfm_model &model,
                                   std::string_view device, int threads,
                                   const Processes *processes = nullptr);

/// The GPU that such a model runs on; none of a CPU. Nothing is made there.
/// Throws InputError where the model has no code for it.
std::optional<CudaProperties> gpuOf(const tfm_model &model,
                                    std::string_view device);

} // namespace tfm

#endif // TFM_RUNTIME_DEVICE_CHOOSE_DEVICE_H
