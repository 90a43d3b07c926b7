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
  DeviceCode device;
  /// The function of every `sched.program`, in order.
  llvm::SmallVector<llvm::Function *> programs;
};

/// What the descriptor says beside schedules.
struct ModelText {
  std::string name, source, hyperparameters, recipe;
};

/// Adds the descriptor `tfm_model_descriptor` (runtime/tfm_model.h) of a model
/// with these variants, of which there is at least one, to the module of their
/// code. Everything else in the module becomes internal.
void addDescriptor(llvm::Module &module, llvm::ArrayRef<Variant> variants,
                   const ModelText &text);

} // namespace tfm

#endif // TFM_TARGET_DESCRIPTOR_H
