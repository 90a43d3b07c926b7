//===- CompiledKernelTest.cpp - compiled kernels in the emulator ----------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tests/emulator/Program.h"

#include "compiler/driver/Compile.h"
#include "compiler/driver/Pipelines.h"
#include "tests/unit/oracle/Gradients.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"
#include "gtest/gtest.h"

using namespace mlir;
using namespace tfm;
using namespace tfm::emulator;

namespace {

/// The first thread of every block goes home at once.
void endFirstThread(LLVM::LLVMFuncOp kernel) {
  Block *entry = &kernel.getBody().front();
  Location loc = kernel.getLoc();
  OpBuilder builder = OpBuilder::atBlockBegin(entry);
  Type i32 = builder.getI32Type();
  Value thread = NVVM::ThreadIdXOp::create(builder, loc, i32);
  Value zero =
      LLVM::ConstantOp::create(builder, loc, i32, builder.getI32IntegerAttr(0));
  Value isFirst =
      LLVM::ICmpOp::create(builder, loc, LLVM::ICmpPredicate::eq, thread, zero);
  Block *rest = entry->splitBlock(builder.getInsertionPoint());
  Block *gone = builder.createBlock(&kernel.getBody(), kernel.getBody().end());
  LLVM::ReturnOp::create(builder, loc, ValueRange());
  builder.setInsertionPointToEnd(entry);
  LLVM::CondBrOp::create(builder, loc, isFirst, gone, rest);
}

/// What the kernel of a softmax comes to, with that done to it.
std::optional<Fault> runSoftmax(void (*change)(LLVM::LLVMFuncOp)) {
  oracle::TestModule module(R"(
    func.func @f(%x: tensor<3x300xf32>) -> tensor<3x300xf32> {
      %y = tfm.softmax %x : tensor<3x300xf32>
      return %y : tensor<3x300xf32>
    })");
  registerTargets();
  ScheduledModel variant{*module.module,
                         *llvm::cantFail(KernelTarget::named("cuda"))};
  llvm::LLVMContext context;
  EXPECT_TRUE(succeeded(prepare(*module.module, variant.target)));
  EXPECT_TRUE(succeeded(scheduleModel(*module.module, variant.target)));
  EXPECT_TRUE(emitModel(variant, context));
  auto kernels = module.module->lookupSymbol<ModuleOp>("kernels");
  if (change)
    change(*kernels.getOps<LLVM::LLVMFuncOp>().begin());
  Machine machine;
  llvm::Expected<Program> program = Program::load(kernels, machine);
  EXPECT_TRUE(bool(program));
  std::vector<float> x(900, 1.0f), y(900, NAN);
  machine.addBuffer("x", x.data(), 3600);
  machine.addBuffer("y", y.data(), 3600);
  uint64_t arguments[] = {reinterpret_cast<uint64_t>(x.data()),
                          reinterpret_cast<uint64_t>(y.data()), 0, 0};
  void *addresses[] = {&arguments[0], &arguments[1], &arguments[2],
                       &arguments[3]};
  auto fault = machine.launch(program->kernels().front(), addresses);
  if (!fault)
    for (float weight : y)
      EXPECT_NEAR(weight, 1.0 / 300, 1e-8);
  return fault;
}

TEST(CompiledKernel, RunsWithoutAFault) {
  auto fault = runSoftmax(nullptr);
  EXPECT_FALSE(fault) << fault->text;
}

// All ops of it may have one location: they are told apart all the same.
TEST(CompiledKernel, ADivergenceIsFound) {
  auto fault = runSoftmax(endFirstThread);
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->kind, Fault::Kind::Divergence) << fault->text;
  EXPECT_NE(fault->text.find("(nvvm."), std::string::npos) << fault->text;
  EXPECT_NE(fault->text.find("lanes 0 of warp 0 have ended"), std::string::npos)
      << fault->text;
}

} // namespace
