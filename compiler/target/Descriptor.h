//===- Descriptor.h - what a compiled model says of itself ------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_TARGET_DESCRIPTOR_H
#define TFM_TARGET_DESCRIPTOR_H

#include "compiler/target/KernelTarget.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"

namespace tfm {

/// A schedule whose code is in a module.
struct Variant {
  const KernelTarget &target;
  /// Planned, with `@kernels`.
  mlir::ModuleOp schedule;
  /// Of a device.
  std::vector<DeviceKernel> kernels;
  std::vector<DeviceImage> images;
  /// The function of every `sched.program`, in order.
  llvm::SmallVector<llvm::Function *> programs;
};

/// What the descriptor says beside schedules.
struct ModelText {
  std::string name, source, hyperparameters, recipe;
};

/// Leaves out of programs with these variants what of the runtime is of no use
/// to them: defines, as null, `tfm_gpus` (runtime/device/gpus.h) where none is
/// for GPUs, and `tfm_share_update` (runtime/training/shared_update.h) where
/// updates have one micro-batch, so that the linker needs no object of the
/// runtime's archive for them. For modules that become part of a program.
void leaveOut(llvm::Module &module, llvm::ArrayRef<Variant> variants);

/// Adds the descriptor `tfm_model_descriptor` (runtime/tfm_model.h) of a model
/// with these variants, of which there is at least one, to a module: to that of
/// their functions, where everything else becomes internal, or to another one,
/// which is linked with it.
void addDescriptor(llvm::Module &module, llvm::ArrayRef<Variant> variants,
                   const ModelText &text);

} // namespace tfm

#endif // TFM_TARGET_DESCRIPTOR_H
