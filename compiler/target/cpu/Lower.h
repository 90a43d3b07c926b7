//===- Lower.h - from kernels in MLIR to an object file ---------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_TARGET_CPU_LOWER_H
#define TFM_TARGET_CPU_LOWER_H

#include "mlir/Support/LLVM.h"
#include "llvm/Support/Error.h"
#include <memory>
#include <string>
#include <vector>

namespace llvm {
class LLVMContext;
class MemoryBufferRef;
class Module;
class raw_pwrite_stream;
} // namespace llvm

namespace mlir {
class DialectRegistry;
class ModuleOp;
} // namespace mlir

namespace tfm {

struct CpuMachine;

/// Adds the dialects that kernels are written in (arith, cf, func, llvm, math,
/// memref, scf, vector) and their translation to LLVM IR.
void registerKernelDialects(mlir::DialectRegistry &registry);

/// Lowers a module of kernels (func, scf, arith, math, vector, memref and llvm)
/// to the llvm dialect. Memrefs of static shape become bare pointers; functions
/// of math become polynomials, so that nothing calls libm.
mlir::LogicalResult lowerToLLVMDialect(mlir::ModuleOp module);

/// Translates a module in the llvm dialect; null on failure, after an error
/// at the module. Multiplications and additions may be contracted to fused
/// multiply-adds; nothing may be reordered.
std::unique_ptr<llvm::Module> translateToLLVM(mlir::ModuleOp module,
                                              llvm::LLVMContext &context);

/// Optimises `module` and writes an object file for `target` to `out`.
llvm::Error emitObject(llvm::Module &module, const CpuMachine &target,
                       llvm::raw_pwrite_stream &out);

/// As `emitObject`, but writes assembly, for tests and `--emit asm`.
llvm::Error emitAssembly(llvm::Module &module, const CpuMachine &target,
                         llvm::raw_pwrite_stream &out);

/// The names of the symbols that an object file leaves undefined. A compiled
/// model has none: it calls nothing but `claim`, through a pointer.
llvm::Expected<std::vector<std::string>>
undefinedSymbols(llvm::MemoryBufferRef object);

} // namespace tfm

#endif // TFM_TARGET_CPU_LOWER_H
