//===- Passes.td - passes of the target cuda ----------------------*- tablegen -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_TARGET_CUDA_PASSES_TD
#define TFM_TARGET_CUDA_PASSES_TD

include "mlir/Pass/PassBase.td"

def SplitProductsPass : Pass<"cuda-split-products", "::mlir::ModuleOp"> {
  let summary = "matrix products with too few tiles as sums of several";
  let description = [{
    A product of many terms with a small result, as the gradient of a small
    weight, has fewer tiles than a GPU has multiprocessors. It becomes a batch of
    products of a part of the terms each, whose results are added up in order,
    where a model of the GPU says that this takes less time. Into how many parts
    depends on shapes alone, so that the bits of the sum do, too.
  }];
}

def SplitAttentionPass : Pass<"cuda-split-attention", "::mlir::ModuleOp"> {
  let summary = "attention of one query to parts of a cache at once";
  let description = [{
    The query of a token has a block for each head, which are fewer than a GPU
    has multiprocessors, and each reads all keys and values that there are. Parts
    of the cache become sequences of their own, which blocks of their own attend
    to; what follows adds up their outputs by the sums of their exponentials.
  }];
}

def InnerProductsPass : Pass<"cuda-inner-products", "::mlir::ModuleOp"> {
  let summary = "what each query's output and its cotangent have in common, once";
  let description = [{
    The derivative of attention needs `out . dout` of each query wherever it has
    its scores: for each tile of keys. It is computed once, by a kernel of its
    own, so that no tile waits for these rows.
  }];
}

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
