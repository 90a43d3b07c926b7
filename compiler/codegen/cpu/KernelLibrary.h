//===- KernelLibrary.h - the distinct kernels of a schedule -----*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_CODEGEN_CPU_KERNELLIBRARY_H
#define TFM_CODEGEN_CPU_KERNELLIBRARY_H

#include "compiler/codegen/cpu/KernelBuilder.h"
#include "compiler/codegen/cpu/Target.h"
#include "compiler/codegen/schedule/Schedule.h"
#include "llvm/ADT/StringMap.h"

namespace tfm {

/// The buffers of a launch in the order of its kernel's arguments.
llvm::SmallVector<const View *> kernelBuffers(const Launch &launch);

/// Emits a kernel for every launch, once for all launches that differ only in
/// which buffers they work on.
class KernelLibrary {
public:
  KernelLibrary(mlir::ModuleOp module, const Schedule &schedule,
                const CpuTarget &target)
      : module(module), schedule(schedule), target(target) {}

  /// The name of the kernel of `launch`, emitted into the module if it is new.
  /// Fails, after an error at the op, where no emitter can do it.
  mlir::FailureOr<std::string> kernelFor(const Launch &launch);

  /// f32 elements of scratch that each thread needs for any of the kernels.
  int64_t scratchElements() const { return scratch; }

private:
  Kernel emit(const Launch &launch, llvm::StringRef name);
  Kernel emitMatmulKernel(const Launch &launch, llvm::StringRef name);
  Kernel emitAttentionKernel(const Launch &launch, llvm::StringRef name);

  mlir::ModuleOp module;
  const Schedule &schedule;
  const CpuTarget &target;
  llvm::StringMap<std::string> names;
  int64_t scratch = 0;
};

} // namespace tfm

#endif // TFM_CODEGEN_CPU_KERNELLIBRARY_H
