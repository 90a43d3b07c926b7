//===- Compile.h - from the tfm dialect to an object file -------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_DRIVER_COMPILE_H
#define TFM_DRIVER_COMPILE_H

#include "compiler/target/Descriptor.h"
#include "compiler/target/KernelTarget.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/Error.h"
#include <memory>
#include <string>

namespace llvm {
class LLVMContext;
class Module;
} // namespace llvm

namespace tfm {

/// Runs the passes that turn a model as the frontend hands it over into what
/// can be scheduled: gradients, the inference forms, the optimizer's update,
/// simplification and decomposition, in the form that suits the target's
/// kernels. Errors go to the context's diagnostics.
mlir::LogicalResult prepare(mlir::ModuleOp module, const KernelTarget &target);

/// Runs the passes that make a schedule over one planned arena of a prepared
/// module (the sched dialect). Errors go to the context's diagnostics.
mlir::LogicalResult scheduleModel(mlir::ModuleOp module,
                                  const KernelTarget &target);

/// A model that was scheduled for a target.
struct ScheduledModel {
  mlir::ModuleOp module;
  const KernelTarget &target;
};

/// The code of a model for some targets.
struct ModelCode {
  /// What the host runs: kernels, and the functions, by name.
  std::unique_ptr<llvm::Module> module;
  std::vector<Variant> variants;
  /// Of each variant.
  std::vector<ImagesInWork> images;
};

/// Emits the kernels and functions of a model for each of the targets that it
/// was scheduled for, of one triple. Images for devices are then in work, for a
/// program where they are `assembled` (`KernelTarget::deviceCode`). Fails after
/// an error in the context's diagnostics.
mlir::FailureOr<ModelCode> emitCode(llvm::ArrayRef<ScheduledModel> variants,
                                    llvm::LLVMContext &context, bool assembled);

/// Adds the descriptor of the model, which lists the variants in their order,
/// to `module`: the code's own, or another one, which is linked with it. Waits
/// for images. Fails after an error in the context's diagnostics.
mlir::LogicalResult describe(ModelCode &code, llvm::Module &module);

/// The code and its descriptor in one module; null after an error in the
/// context's diagnostics.
std::unique_ptr<llvm::Module> emitModel(llvm::ArrayRef<ScheduledModel> variants,
                                        llvm::LLVMContext &context);

/// The kernels of a model for a device alone, as text: what the target's driver
/// translates. Fails after an error in the context's diagnostics.
mlir::FailureOr<std::vector<DeviceImage>>
emitDeviceCode(const ScheduledModel &model);

/// The target for the machine that this program runs on. A machine that no
/// kernels are made for ends it: for tests and benchmarks.
const KernelTarget &nativeTarget();

} // namespace tfm

#endif // TFM_DRIVER_COMPILE_H
