//===- Program.cpp - the function that runs a program ---------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/target/cpu/Program.h"

#include "compiler/schedule/Launches.h"
#include "compiler/target/cpu/TileKernel.h"
#include "compiler/target/emit/ProgramEmitter.h"
#include "runtime/tfm_model.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/IntrinsicsAArch64.h"
#include "llvm/IR/IntrinsicsX86.h"
#include "llvm/IR/Module.h"
#include <cstddef>

using namespace tfm;
using namespace tfm::sched;

namespace {

class CpuProgram final : ProgramEmitter {
public:
  explicit CpuProgram(llvm::Module &module) : ProgramEmitter(module) {}

  llvm::Function *emit(ProgramOp program) {
    auto *type = llvm::FunctionType::get(b.getVoidTy(), {ptr, ptr}, false);
    auto *function =
        llvm::Function::Create(type, llvm::Function::InternalLinkage,
                               "run_" + program.getSymName(), module);
    b.SetInsertPoint(
        llvm::BasicBlock::Create(module.getContext(), "entry", function));
    arena = function->getArg(0);
    thread = function->getArg(1);
    count = field(offsetof(tfm_thread, count), i64);
    claim = field(offsetof(tfm_thread, claim), ptr);
    finish = field(offsetof(tfm_thread, finish), ptr);
    scratch = field(offsetof(tfm_thread, scratch), ptr);
    llvm::Value *mode = flushDenormals();
    if (usesTiles())
      b.CreateIntrinsic(llvm::Intrinsic::x86_ldtilecfg, {configuration()});
    int64_t launches = 0;
    forEachStep(program, [&](mlir::Operation *, int64_t) { ++launches; });
    b.CreateCall(noteFunction(), {thread, b.getInt64(launches)});
    emitSteps(*program.getBlock());
    if (usesTiles())
      b.CreateIntrinsic(llvm::Intrinsic::x86_tilerelease, {});
    restoreMode(mode);
    b.CreateRetVoid();
    return function;
  }

private:
  llvm::Value *field(uint64_t offset, llvm::Type *type) {
    return b.CreateLoad(type,
                        b.CreateConstGEP1_64(b.getInt8Ty(), thread, offset));
  }

  /// Has the thread take denormal numbers for zero, in operands and results:
  /// moments that fade away would come to them, and processors compute with
  /// them a hundred times more slowly. Returns the mode before: on x86 a
  /// pointer to what MXCSR held, on AArch64 the value of FPCR.
  llvm::Value *flushDenormals() {
    llvm::Type *i32 = b.getInt32Ty();
    if (module.getTargetTriple().isX86()) {
      constexpr uint32_t flushToZero = 1 << 15, denormalsAreZero = 1 << 6;
      llvm::Value *before = b.CreateAlloca(i32), *during = b.CreateAlloca(i32);
      b.CreateIntrinsic(llvm::Intrinsic::x86_sse_stmxcsr, {before});
      b.CreateStore(b.CreateOr(b.CreateLoad(i32, before),
                               b.getInt32(flushToZero | denormalsAreZero)),
                    during);
      b.CreateIntrinsic(llvm::Intrinsic::x86_sse_ldmxcsr, {during});
      return before;
    }
    assert(module.getTargetTriple().isAArch64());
    constexpr uint64_t flushToZero = 1 << 24;
    llvm::Value *before =
        b.CreateIntrinsic(i64, llvm::Intrinsic::aarch64_get_fpcr, {});
    b.CreateIntrinsic(llvm::Intrinsic::aarch64_set_fpcr,
                      {b.CreateOr(before, b.getInt64(flushToZero))});
    return before;
  }

  /// Whether a kernel of the module computes on tiles, whose shapes each thread
  /// sets once for a whole program.
  bool usesTiles() const {
    return llvm::any_of(module, [](const llvm::Function &function) {
      return function.getName().starts_with("llvm.x86.tile");
    });
  }

  llvm::Value *configuration() {
    constexpr llvm::StringLiteral name = "tfm.tile.configuration";
    if (llvm::Value *known = module.getNamedGlobal(name))
      return known;
    auto *bytes = llvm::ConstantDataArray::get(
        module.getContext(), llvm::ArrayRef<uint8_t>(tileConfiguration()));
    auto *global = new llvm::GlobalVariable(module, bytes->getType(), true,
                                            llvm::GlobalValue::InternalLinkage,
                                            bytes, name);
    global->setAlignment(llvm::Align(64));
    return global;
  }

  void restoreMode(llvm::Value *before) {
    if (module.getTargetTriple().isX86())
      b.CreateIntrinsic(llvm::Intrinsic::x86_sse_ldmxcsr, {before});
    else
      b.CreateIntrinsic(llvm::Intrinsic::aarch64_set_fpcr, {before});
  }

  /// A row may be told when the program runs. A thread that comes late, when
  /// others have written over the number, gets no piece of this step.
  llvm::Value *pointer(mlir::Value value) override {
    auto view = value.getDefiningOp<ViewOp>();
    llvm::Value *at = ProgramEmitter::pointer(value);
    if (mlir::Value row = view.getRow())
      at = b.CreateGEP(
          b.getInt8Ty(), at,
          b.CreateMul(
              b.CreateSExt(b.CreateLoad(b.getInt32Ty(), pointer(row)), i64),
              b.getInt64(static_cast<int64_t>(*view.getRowStep()))));
    return at;
  }

  void emitStep(mlir::Operation *step) override {
    // while ((piece = claim(thread)) >= 0) {
    //   kernel(..., piece, count);
    //   if (finish(thread)) what follows it;
    // }
    llvm::BasicBlock *next = block("claim"), *compute = block("compute"),
                     *done = block("done");
    b.CreateBr(next);
    b.SetInsertPoint(next);
    llvm::Value *piece = b.CreateCall(
        llvm::FunctionType::get(i64, {ptr}, false), claim, {thread});
    b.CreateCondBr(b.CreateICmpSLT(piece, b.getInt64(0)), done, compute);
    b.SetInsertPoint(compute);
    auto serial = llvm::dyn_cast<SerialOp>(step);
    if (mlir::Operation *shared = serial ? serial.getShared() : step)
      callKernel(shared, piece, count);
    if (serial) {
      // Without a shared step all of it is the first piece.
      llvm::Value *isMine =
          serial.getShared() ? b.CreateIsNotNull(b.CreateCall(
                                   llvm::FunctionType::get(i64, {ptr}, false),
                                   finish, {thread}))
                             : b.CreateICmpEQ(piece, b.getInt64(0));
      llvm::BasicBlock *all = block("serial");
      b.CreateCondBr(isMine, all, next);
      b.SetInsertPoint(all);
      for (mlir::Operation *each : kernelSteps(serial))
        if (each != serial.getShared())
          callKernel(each, b.getInt64(0), b.getInt64(1));
    }
    b.CreateBr(next);
    b.SetInsertPoint(done);
    b.CreateCall(noteFunction(), {thread, b.getInt64(number++)});
  }

  /// Has the kernel of a step compute one of so many pieces.
  void callKernel(mlir::Operation *step, llvm::Value *piece,
                  llvm::Value *pieces) {
    llvm::Function *kernel =
        module.getFunction(step->getAttrOfType<mlir::SymbolRefAttr>("kernel")
                               .getLeafReference()
                               .getValue());
    auto [arguments, rng, layer] = argumentsOf(step);
    arguments.append({rng, layer, scratch, piece, pieces});
    b.CreateCall(kernel, arguments);
  }

  /// `note(thread, launch)`: writes an event where `thread->events` is not
  /// null, and moves it on.
  llvm::Function *noteFunction() {
    if (llvm::Function *known = module.getFunction("note"))
      return known;
    auto *type = llvm::FunctionType::get(b.getVoidTy(), {ptr, i64}, false);
    auto *function = llvm::Function::Create(
        type, llvm::Function::InternalLinkage, "note", module);
    llvm::LLVMContext &context = module.getContext();
    auto *recorded = llvm::BasicBlock::Create(context, "recorded", function);
    auto *entry =
        llvm::BasicBlock::Create(context, "entry", function, recorded);
    auto *done = llvm::BasicBlock::Create(context, "done", function);
    llvm::IRBuilder<> t(entry);
    auto at = [&](llvm::Value *base, uint64_t offset) {
      return t.CreateConstGEP1_64(t.getInt8Ty(), base, offset);
    };
    llvm::Value *slot = at(function->getArg(0), offsetof(tfm_thread, events));
    llvm::Value *event = t.CreateLoad(ptr, slot);
    t.CreateCondBr(t.CreateIsNull(event), done, recorded);
    t.SetInsertPoint(recorded);
    llvm::Value *now = t.CreateIntrinsic(llvm::Intrinsic::readcyclecounter,
                                         llvm::ArrayRef<llvm::Type *>(),
                                         llvm::ArrayRef<llvm::Value *>());
    t.CreateStore(function->getArg(1), at(event, offsetof(tfm_event, launch)));
    t.CreateStore(now, at(event, offsetof(tfm_event, clock)));
    t.CreateStore(at(event, sizeof(tfm_event)), slot);
    t.CreateBr(done);
    t.SetInsertPoint(done);
    t.CreateRetVoid();
    return function;
  }

  llvm::Value *thread = nullptr, *count = nullptr, *claim = nullptr,
              *finish = nullptr, *scratch = nullptr;
  /// Of the next launch.
  int64_t number = 0;
};

} // namespace

llvm::Function *tfm::emitProgram(ProgramOp program, llvm::Module &module) {
  return CpuProgram(module).emit(program);
}
