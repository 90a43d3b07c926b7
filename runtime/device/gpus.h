//===- device/gpus.h - what is done with GPUs -------------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_RUNTIME_DEVICE_GPUS_H
#define TFM_RUNTIME_DEVICE_GPUS_H

#include "runtime/comm/processes.h"
#include "runtime/device/cuda_device.h"

#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace tfm {

/// For those who have found a variant for GPUs in their model.
struct Gpus {
  /// Whether this machine has a GPU that runs the model, now, where it `runs`.
  /// Where it has one that does not a note says why.
  bool (*canRun)(const tfm_model &model, bool runs);
  /// The GPU of that number, for a variant; where there are `processes`, that
  /// of this one's place among those on its machine. Throws InputError where it
  /// does not run.
  std::unique_ptr<Device> (*make)(const tfm_variant &variant, int number,
                                  int threads, const Processes *processes);
  /// What that GPU is; nothing is made there. Throws InputError where the
  /// variant has no code for it.
  CudaProperties (*find)(const tfm_variant &variant, int number);
  /// Of NCCL's library on this machine; nothing where there is none.
  std::optional<std::string> (*ncclVersion)();
  /// What this process would compute on, its `own`, or the processors' of
  /// `model` where another one has no GPU and nobody has named a `device`: all
  /// of them compute alike, and those that train exchange what lies on GPUs, or
  /// what does not. Throws AgreedError where some have named one.
  tfm_model (*likeAll)(const tfm_model &own, const tfm_model &model,
                       std::string_view device, Processes &processes);
};

/// Of gpus.cpp. Models without code for GPUs define it themselves, as null, and
/// their programs have nothing of that file, nor of what it needs
/// (compiler/target/Descriptor.h).
extern "C" const Gpus *const tfm_gpus;

} // namespace tfm

#endif // TFM_RUNTIME_DEVICE_GPUS_H
