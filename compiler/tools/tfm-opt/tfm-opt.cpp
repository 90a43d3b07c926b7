//===- tfm-opt.cpp - runs passes on .mlir files, for tests ----------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/dialect/TfmDialect.h"
#include "compiler/driver/Pipelines.h"
#include "compiler/schedule/Passes.h"
#include "compiler/target/KernelTarget.h"
#include "compiler/target/Passes.h"
#include "compiler/transforms/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "mlir/Transforms/Passes.h"

int main(int argc, char **argv) {
  mlir::registerTransformsPasses();
  tfm::registerTfmTransformsPasses();
  tfm::sched::registerTfmSchedulePasses();
  tfm::registerTfmTargetPasses();
  tfm::registerTargets();
  tfm::registerPipelines();
  mlir::DialectRegistry registry;
  registry.insert<tfm::TfmDialect, tfm::sched::SchedDialect,
                  mlir::func::FuncDialect>();
  // To read kernels again. A machine without kernels of its own has passes of
  // all others.
  for (llvm::StringRef name : {"cpu:x86-64-v3", "cuda"})
    if (auto target = tfm::KernelTarget::named(name))
      (*target)->registerDialects(registry);
    else
      llvm::consumeError(target.takeError());
  return mlir::asMainReturnCode(
      mlir::MlirOptMain(argc, argv, "tfm-opt\n", registry));
}
