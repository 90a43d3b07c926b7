//===- Program.cpp - the host's function that queues a program's kernels --===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/target/cuda/Program.h"

#include "compiler/schedule/Launches.h"
#include "compiler/target/cuda/BlockBuilder.h"
#include "compiler/target/cuda/DeviceKernels.h"
#include "compiler/target/emit/ProgramEmitter.h"
#include "runtime/tfm_model.h"
#include "llvm/IR/Module.h"
#include <cstddef>

using namespace tfm;
using namespace tfm::sched;

namespace {

class CudaProgram final : ProgramEmitter {
public:
  explicit CudaProgram(llvm::Module &module) : ProgramEmitter(module) {}

  llvm::Function *emit(ProgramOp program) {
    auto *type = llvm::FunctionType::get(b.getVoidTy(), {i64, ptr}, false);
    auto *function =
        llvm::Function::Create(type, llvm::Function::InternalLinkage,
                               "enqueue_" + program.getSymName(), module);
    // Whichever processor it is, next to a GPU.
    function->addFnAttr("target-cpu", "generic");
    b.SetInsertPoint(
        llvm::BasicBlock::Create(module.getContext(), "entry", function));
    arena = b.CreateIntToPtr(function->getArg(0), ptr);
    queue = function->getArg(1);
    launch =
        b.CreateLoad(ptr, b.CreateConstGEP1_64(b.getInt8Ty(), queue,
                                               offsetof(tfm_queue, launch)));
    uint32_t most = 0;
    for (const DeviceKernel &kernel : cuda::kernelsOf(program))
      most = std::max(most, kernel.arguments);
    arguments = b.CreateAlloca(llvm::ArrayType::get(i64, most));
    emitSteps(*program.getBlock());
    b.CreateRetVoid();
    return function;
  }

private:
  void emitStep(mlir::Operation *step) override {
    llvm::SmallVector<llvm::Value *> values;
    for (mlir::Operation *part : partsOf(step)) {
      auto [buffers, rng, layer] = argumentsOf(part);
      values.append(buffers);
      values.append({rng, layer});
      for (cuda::Operand operand : cuda::rowOperands(part))
        values.push_back(pointer(operand.view.getRow()));
    }
    for (auto [i, value] : llvm::enumerate(values))
      b.CreateStore(value, b.CreateConstGEP1_64(i64, arguments, i));
    b.CreateCall(llvm::FunctionType::get(b.getVoidTy(), {ptr, i64, ptr}, false),
                 launch, {queue, b.getInt64(number++), arguments});
  }

  llvm::Value *queue = nullptr, *launch = nullptr, *arguments = nullptr;
  /// Of the next launch.
  int64_t number = 0;
};

} // namespace

llvm::Function *cuda::emitProgram(ProgramOp program, llvm::Module &module) {
  return CudaProgram(module).emit(program);
}
