//===- Lower.h - from LLVM IR to an object file -----------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_TARGET_CPU_LOWER_H
#define TFM_TARGET_CPU_LOWER_H

#include "compiler/target/emit/LowerToLLVM.h"
#include "llvm/Support/Error.h"
#include <memory>
#include <string>
#include <vector>

namespace llvm {
class MemoryBufferRef;
class Module;
class raw_pwrite_stream;
} // namespace llvm

namespace tfm {

struct CpuMachine;

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
