//===- CpuKernels.h - what kernels of a CPU can read and write --*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_TARGET_CPU_CPUKERNELS_H
#define TFM_TARGET_CPU_CPUKERNELS_H

namespace tfm {

/// Makes the target `cpu` known (`KernelTarget`).
void registerCpuKernels();

} // namespace tfm

#endif // TFM_TARGET_CPU_CPUKERNELS_H
