//===- ProgramEmitter.h - host code that walks over a program ---*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_TARGET_EMIT_PROGRAMEMITTER_H
#define TFM_TARGET_EMIT_PROGRAMEMITTER_H

#include "compiler/schedule/SchedDialect.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/IR/IRBuilder.h"

namespace tfm {

/// Emits a function that goes through the steps of a program, in LLVM IR; what
/// it does at a step is the target's.
class ProgramEmitter {
public:
  virtual ~ProgramEmitter() = default;

protected:
  explicit ProgramEmitter(llvm::Module &module);

  /// What a step does.
  virtual void emitStep(mlir::Operation *step) = 0;
  /// Emits the steps of a block, with loops over layers.
  void emitSteps(mlir::Block &block);

  /// Where a view lies when the program is at the current layers, without the
  /// row that it may be told.
  virtual llvm::Value *pointer(mlir::Value view);

  /// What a kernel is given for a launch, copy or fill: pointers to what it
  /// reads and writes, in its order, the random state, or null, and the layer.
  struct Arguments {
    llvm::SmallVector<llvm::Value *> buffers;
    llvm::Value *rng, *layer;
  };
  Arguments argumentsOf(mlir::Operation *step);

  llvm::BasicBlock *block(llvm::StringRef name);

  llvm::Module &module;
  llvm::IRBuilder<> b;
  llvm::PointerType *ptr;
  llvm::Type *i64;
  /// The arena's first byte, once there is a function.
  llvm::Value *arena = nullptr;

private:
  void emitLoop(sched::LoopOp loop);
  /// The layer of a loop, counted through the loops around it.
  llvm::Value *flatLayer(mlir::Value layer);

  /// The layer that each loop is at.
  llvm::DenseMap<mlir::Value, llvm::Value *> layers;
};

} // namespace tfm

#endif // TFM_TARGET_EMIT_PROGRAMEMITTER_H
