//===- Passes.td - passes of the target cpu -----------------------*- tablegen -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_TARGET_CPU_PASSES_TD
#define TFM_TARGET_CPU_PASSES_TD

include "mlir/Pass/PassBase.td"

def SplitProductsPass : Pass<"cpu-split-products", "::mlir::ModuleOp"> {
  let summary = "long sums of matrix products in two halves";
  let description = [{
    A product `a^T b` of many rows with a small result, the gradient of a small
    weight, becomes the sum of the products of the upper and the lower half of
    the rows. Rows belong to threads: every kernel of a training step gives the
    first half of the tokens to the first half of the threads. So each thread
    adds up what it has computed itself and still has in its cache, and only the
    small results travel. How sums are cut depends on shapes alone.
  }];
}

def QuantiseActivationsPass : Pass<"cpu-quantise-activations", "::mlir::ModuleOp"> {
  let summary = "products with weights of 8 and of 4 bits as products of integers";
  let description = [{
    A product of floats with weights of i8 becomes one of i8 with i8, summed up in
    i32: each row of the floats is divided by a scale of its own, the largest
    magnitude in it by 127, and rounded; the sums are multiplied by it. So do the
    floats that meet weights of 4 bits (`tfm.dequantise`), in sums of f32. For
    processors that multiply integers of 8 bits four at a time (VNNI). Rows are
    scaled alone, so that what else is computed with them changes nothing.
  }];
}

def LowerKernelsPass : Pass<"cpu-lower-kernels", "::mlir::ModuleOp"> {
  let summary = "kernels to the llvm dialect";
  let description = [{
    Lowers a module of kernels (func, scf, arith, math, vector, memref and llvm).
    Memrefs of static shape become bare pointers; functions of math become
    polynomials, so that nothing calls libm.
  }];
  let options = [Option<"roundsToBf16", "rounds-to-bf16", "bool", /*default=*/"false",
                        "the processor has an instruction that rounds to bf16">];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::cf::ControlFlowDialect",
                           "::mlir::LLVM::LLVMDialect", "::mlir::memref::MemRefDialect",
                           "::mlir::vector::VectorDialect"];
}

#endif // TFM_TARGET_CPU_PASSES_TD
