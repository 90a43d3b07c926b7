//===- KernelLibrary.h - the distinct kernels of a schedule -----*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_TARGET_CPU_KERNELLIBRARY_H
#define TFM_TARGET_CPU_KERNELLIBRARY_H

#include "compiler/schedule/SchedDialect.h"
#include "compiler/target/cpu/KernelBuilder.h"
#include "compiler/target/cpu/Target.h"
#include <map>

namespace tfm {

/// Emits a kernel for every step of a program, once for all that differ only in
/// which buffers they work on: for equal launches.
class KernelLibrary {
public:
  KernelLibrary(mlir::ModuleOp module, const CpuTarget &target)
      : module(module), target(target) {}

  /// The name of the kernel of a launch, copy or fill, emitted into the module
  /// if it is new. Fails, after an error at the op, where no emitter can do it.
  mlir::FailureOr<std::string> kernelFor(mlir::Operation *step);

  /// f32 elements of scratch that each thread needs for any of the kernels.
  int64_t scratchElements() const { return scratch; }

private:
  Kernel emit(mlir::Operation *step, llvm::StringRef name);
  Kernel emitLaunch(sched::LaunchOp launch, llvm::StringRef name);
  Kernel emitMatmulKernel(sched::LaunchOp launch, llvm::StringRef name);
  Kernel emitAttentionKernel(sched::LaunchOp launch, llvm::StringRef name);

  mlir::ModuleOp module;
  const CpuTarget &target;
  /// The first step of every kernel, and the kernel, by a hash of what it does.
  std::multimap<size_t, std::pair<mlir::Operation *, std::string>> kernels;
  int64_t scratch = 0;
};

} // namespace tfm

#endif // TFM_TARGET_CPU_KERNELLIBRARY_H
