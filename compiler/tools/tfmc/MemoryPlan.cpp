//===- MemoryPlan.cpp - what a build of a model takes in memory -----------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "MemoryPlan.h"

#include "compiler/driver/Compile.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/Support/ErrorHandling.h"

using namespace tfm;

MemoryReport tfm::planModelMemory(mlir::ModuleOp module) {
  MemoryReport memory;
  // The batch and length of training where there is any, else of generation.
  auto function = module.lookupSymbol<mlir::func::FuncOp>("loss");
  if (!function)
    function = module.lookupSymbol<mlir::func::FuncOp>("forward");
  if (function && function.getNumArguments() != 0) {
    auto tokens =
        llvm::cast<mlir::RankedTensorType>(function.getArgumentTypes().front());
    memory.batch = tokens.getRank() > 0 ? tokens.getDimSize(0) : 1;
    memory.sequence = tokens.getRank() > 1 ? tokens.getDimSize(1) : 1;
  }
  if (failed(prepare(module)))
    llvm::report_fatal_error("the model could not be prepared for planning");
  Schedule schedule = scheduleModel(module);
  for (const Buffer &buffer : schedule.buffers) {
    switch (buffer.kind) {
    case BufferKind::Parameter:
      memory.parameters += buffer.bytes;
      break;
    case BufferKind::Gradient:
      memory.gradients += buffer.bytes;
      break;
    case BufferKind::State:
      memory.optimizer += buffer.bytes;
      break;
    case BufferKind::Constant:
      memory.constants += buffer.bytes;
      break;
    case BufferKind::Cache:
    case BufferKind::Activation:
      break;
    }
  }
  // What generation keeps counts with what it computes.
  memory.activations = schedule.activationBytes + schedule.cacheBytes();
  memory.arena = schedule.arenaBytes;
  memory.lowerBound = memory.parameters + memory.gradients + memory.optimizer +
                      memory.constants + schedule.cacheBytes() +
                      schedule.lowerBound;
  return memory;
}
