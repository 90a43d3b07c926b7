//===- Passes.td - passes of the target cuda ----------------------*- tablegen -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_TARGET_CUDA_PASSES_TD
#define TFM_TARGET_CUDA_PASSES_TD

include "mlir/Pass/PassBase.td"

def LowerKernelsPass : Pass<"cuda-lower-kernels", "::mlir::ModuleOp"> {
  let summary = "kernels of a GPU to the llvm and nvvm dialects";
  let description = [{
    Lowers a module of kernels (func, scf, arith, math, memref, llvm and nvvm).
    Functions of math become polynomials, so that nothing calls libdevice; ops of
    the nvvm dialect stay for the translation to LLVM IR.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::cf::ControlFlowDialect",
                           "::mlir::LLVM::LLVMDialect", "::mlir::memref::MemRefDialect",
                           "::mlir::NVVM::NVVMDialect", "::mlir::vector::VectorDialect"];
}

#endif // TFM_TARGET_CUDA_PASSES_TD
