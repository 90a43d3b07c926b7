//===- DeviceKernels.h - how lowered kernels are launched -------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_TARGET_CUDA_DEVICEKERNELS_H
#define TFM_TARGET_CUDA_DEVICEKERNELS_H

#include "compiler/target/KernelTarget.h"

namespace tfm::cuda {

/// The kernels of a module of lowered ones, in order, as they are launched.
std::vector<DeviceKernel> kernelsOf(mlir::ModuleOp kernels);
/// Those of the schedule that a program is in.
std::vector<DeviceKernel> kernelsOf(sched::ProgramOp program);

} // namespace tfm::cuda

#endif // TFM_TARGET_CUDA_DEVICEKERNELS_H
