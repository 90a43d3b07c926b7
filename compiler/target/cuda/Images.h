//===- Images.h - kernels as the driver of GPUs loads them ------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_TARGET_CUDA_IMAGES_H
#define TFM_TARGET_CUDA_IMAGES_H

#include "compiler/target/KernelTarget.h"

namespace tfm::cuda {

/// Begins to make the images of lowered kernels (llvm and nvvm dialects), those
/// of a part in the order in which drivers are offered them. Where they are
/// `assembled`, each part is PTX, and machine code where `ptxas` is in PATH;
/// else there is PTX for all GPUs, with every kernel, and that of forms where
/// there are any. Fails after an error at the module.
mlir::FailureOr<ImagesInWork> beginImages(mlir::ModuleOp kernels,
                                          bool assembled);

} // namespace tfm::cuda

#endif // TFM_TARGET_CUDA_IMAGES_H
