//===- ProgramEmitter.cpp - host code that walks over a program -----------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/target/emit/ProgramEmitter.h"

#include "compiler/schedule/Launches.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/IR/Module.h"

using namespace tfm;
using namespace tfm::sched;

ProgramEmitter::ProgramEmitter(llvm::Module &module)
    : module(module), b(module.getContext()),
      ptr(llvm::PointerType::get(module.getContext(), 0)), i64(b.getInt64Ty()) {
}

llvm::Value *ProgramEmitter::pointer(mlir::Value value) {
  auto view = value.getDefiningOp<ViewOp>();
  auto buffer = view.getBuffer().getDefiningOp<BufferOp>();
  auto offset = static_cast<int64_t>(*buffer.getOffset() + view.getOffset());
  llvm::Value *at = b.CreateConstGEP1_64(b.getInt8Ty(), arena, offset);
  for (auto [layer, step] : llvm::zip_equal(view.getLayers(), view.getSteps()))
    at = b.CreateGEP(b.getInt8Ty(), at,
                     b.CreateMul(layers.lookup(layer), b.getInt64(step)));
  return at;
}

ProgramEmitter::Arguments ProgramEmitter::argumentsOf(mlir::Operation *step) {
  Arguments arguments = {
      {}, llvm::ConstantPointerNull::get(ptr), b.getInt64(0)};
  auto launch = llvm::dyn_cast<LaunchOp>(step);
  if (!launch) {
    for (mlir::Value view : step->getOperands())
      arguments.buffers.push_back(pointer(view));
    return arguments;
  }
  for (mlir::ValueRange views : {launch.getReads(), launch.getWrites()})
    for (mlir::Value view : views)
      if (!isOfBlocks(view))
        arguments.buffers.push_back(pointer(view));
  if (launch.getRng())
    arguments.rng = pointer(launch.getRng());
  if (launch.getLayer())
    arguments.layer = flatLayer(launch.getLayer());
  return arguments;
}

void ProgramEmitter::emitSteps(mlir::Block &block) {
  for (mlir::Operation &op : block)
    if (auto loop = llvm::dyn_cast<LoopOp>(op))
      emitLoop(loop);
    else if (isStep(op))
      emitStep(&op);
}

llvm::BasicBlock *ProgramEmitter::block(llvm::StringRef name) {
  return llvm::BasicBlock::Create(module.getContext(), name,
                                  b.GetInsertBlock()->getParent());
}

llvm::Value *ProgramEmitter::flatLayer(mlir::Value layer) {
  mlir::Operation *loop =
      llvm::cast<mlir::BlockArgument>(layer).getOwner()->getParentOp();
  llvm::Value *own = layers.lookup(layer);
  auto outer = llvm::dyn_cast<LoopOp>(loop->getParentOp());
  if (!outer)
    return own;
  auto count = static_cast<int64_t>(llvm::cast<LoopOp>(loop).getCount());
  return b.CreateAdd(
      b.CreateMul(flatLayer(outer.getLayer()), b.getInt64(count)), own);
}

void ProgramEmitter::emitLoop(LoopOp loop) {
  auto count = static_cast<int64_t>(loop.getCount());
  auto *before = b.GetInsertBlock();
  llvm::BasicBlock *body = block("layer"), *after = block("layers_done");
  b.CreateBr(body);
  b.SetInsertPoint(body);
  auto *turn = b.CreatePHI(i64, 2);
  turn->addIncoming(b.getInt64(0), before);
  layers[loop.getLayer()] = loop.getReverse()
                                ? b.CreateSub(b.getInt64(count - 1), turn)
                                : static_cast<llvm::Value *>(turn);
  emitSteps(*loop.getBlock());
  llvm::Value *next = b.CreateAdd(turn, b.getInt64(1));
  turn->addIncoming(next, b.GetInsertBlock());
  b.CreateCondBr(b.CreateICmpULT(next, b.getInt64(count)), body, after);
  b.SetInsertPoint(after);
}
