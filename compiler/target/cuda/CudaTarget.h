//===- CudaTarget.h - the target cuda ---------------------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_TARGET_CUDA_CUDATARGET_H
#define TFM_TARGET_CUDA_CUDATARGET_H

namespace tfm {

/// Makes the target `cuda` known (`KernelTarget`) and its passes.
void registerCudaTarget();

} // namespace tfm

#endif // TFM_TARGET_CUDA_CUDATARGET_H
