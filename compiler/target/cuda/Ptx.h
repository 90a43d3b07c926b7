//===- Ptx.h - from lowered kernels to PTX ----------------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_TARGET_CUDA_PTX_H
#define TFM_TARGET_CUDA_PTX_H

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/Support/Error.h"

#include <memory>
#include <string>

namespace llvm {
class Module;
} // namespace llvm

namespace tfm::cuda {

/// A module of some kernels and of what these refer to.
mlir::OwningOpRef<mlir::ModuleOp>
extractKernels(mlir::ModuleOp kernels,
               llvm::function_ref<bool(mlir::LLVM::LLVMFuncOp)> isWanted);

/// Translates a module of lowered kernels (llvm and nvvm dialects) to LLVM IR
/// for NVPTX; null after an error at the module.
std::unique_ptr<llvm::Module> translateToNvptx(mlir::ModuleOp kernels,
                                               llvm::LLVMContext &context);

/// The same module as PTX text for a compute capability, `sm_80`, in a version
/// of the language that has its instructions. Fails where the code calls a
/// function that nobody has, or computes in f64.
llvm::Expected<std::string> toPtx(llvm::Module &module, llvm::StringRef sm);

} // namespace tfm::cuda

#endif // TFM_TARGET_CUDA_PTX_H
