//===- Assemble.h - machine code of GPUs, where there is an assembler -----===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_TARGET_CUDA_ASSEMBLE_H
#define TFM_TARGET_CUDA_ASSEMBLE_H

#include "compiler/target/KernelTarget.h"
#include <map>

namespace tfm::cuda {

/// A GPU that machine code is made for, by its compute capability: it runs on
/// newer ones of the same major number, too, where it is not exact.
struct CodeFor {
  const char *sm;
  int32_t major;
  bool exact;
};

/// Whether NVIDIA's `ptxas` is in PATH.
bool hasAssembler();

/// Whether that is a failure of an assembler that does not know the GPU: it is
/// older, and drivers translate PTX themselves.
bool isUnknownGpu(llvm::StringRef failure);

/// The machine code of PTX for these, made by `ptxas` where that is in PATH.
/// Where it fails `failures` gets the first line that it says, by GPU.
std::vector<DeviceImage> assemble(llvm::StringRef ptx,
                                  llvm::ArrayRef<CodeFor> gpus,
                                  std::map<std::string, std::string> &failures);

} // namespace tfm::cuda

#endif // TFM_TARGET_CUDA_ASSEMBLE_H
