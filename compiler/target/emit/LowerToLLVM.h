//===- LowerToLLVM.h - from kernels in MLIR to LLVM IR ----------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_TARGET_EMIT_LOWERTOLLVM_H
#define TFM_TARGET_EMIT_LOWERTOLLVM_H

#include "mlir/Support/LLVM.h"
#include "llvm/ADT/StringRef.h"
#include <memory>

namespace llvm {
class LLVMContext;
class Module;
class TargetMachine;
} // namespace llvm

namespace mlir {
class DialectRegistry;
class ModuleOp;
} // namespace mlir

namespace tfm {

/// Adds the dialects that kernels are written in (arith, cf, func, llvm, math,
/// memref, scf, vector) and their translation to LLVM IR.
void registerKernelDialects(mlir::DialectRegistry &registry);

/// Lowers a module of kernels (func, scf, arith, math, vector, memref and llvm)
/// to the llvm dialect. Memrefs of static shape become bare pointers; functions
/// of math become polynomials, so that nothing calls libm. Ops of the dialect
/// `kept`, whose translation is the target's own, stay; so do roundings to bf16
/// where the target has an instruction for them (`roundsToBf16`).
mlir::LogicalResult lowerToLLVMDialect(mlir::ModuleOp module, bool roundsToBf16,
                                       llvm::StringRef kept = {});

/// Translates a module in the llvm dialect; null on failure, after an error
/// at the module. Multiplications and additions may be contracted to fused
/// multiply-adds; nothing may be reordered.
std::unique_ptr<llvm::Module> translateToLLVM(mlir::ModuleOp module,
                                              llvm::LLVMContext &context);

/// Cleans up what the emitters leave: little, and the same for all targets.
void optimizeKernels(llvm::Module &module, llvm::TargetMachine &machine);

} // namespace tfm

#endif // TFM_TARGET_EMIT_LOWERTOLLVM_H
