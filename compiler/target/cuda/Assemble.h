//===- Assemble.h - machine code of GPUs, where there is an assembler -----===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_TARGET_CUDA_ASSEMBLE_H
#define TFM_TARGET_CUDA_ASSEMBLE_H

#include "compiler/target/KernelTarget.h"

namespace tfm::cuda {

/// The machine code of PTX for GPUs of compute capability 8.0 and 9.0 (and
/// newer ones of the same major number), made by NVIDIA's `ptxas` where that is
/// in PATH; nothing where it is not, or does not know one of these: drivers
/// translate PTX themselves.
std::vector<DeviceImage> assemble(llvm::StringRef ptx);

} // namespace tfm::cuda

#endif // TFM_TARGET_CUDA_ASSEMBLE_H
