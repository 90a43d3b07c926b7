//===- CudaAttentionTest.cpp - attention's derivative in the emulator -----===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Mistakes that people make in a kernel that brings the next tile while one is
// visited, planted in the derivative of attention on tensor cores: each must be
// found. That its values are right is `AttentionCompiled.DerivativeOfBf16`.
//
//===----------------------------------------------------------------------===//

#include "tests/emulator/Program.h"
#include "tests/unit/oracle/Gradients.h"

#include "compiler/driver/Compile.h"
#include "compiler/driver/Pipelines.h"
#include "compiler/schedule/Launches.h"
#include "compiler/target/KernelTarget.h"
#include "compiler/target/cuda/Attention.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Pass/PassManager.h"
#include "gtest/gtest.h"

using namespace mlir;
using namespace tfm;
using namespace tfm::emulator;

namespace {

using Change = llvm::function_ref<void(LLVM::LLVMFuncOp)>;

/// What the derivative of attention among 160 positions comes to, with that
/// done to its kernel.
std::optional<Fault> run(Change change, uint64_t *conflicts = nullptr) {
  oracle::TestModule module(R"(
    func.func @f(%q: tensor<1x1x160x64xbf16>, %k: tensor<1x1x160x64xbf16>, %v: tensor<1x1x160x64xbf16>,
                 %out: tensor<1x1x160x64xbf16>, %lse: tensor<1x1x160xf32>, %dout: tensor<1x1x160x64xbf16>)
        -> (tensor<1x1x160x64xbf16>, tensor<1x1x160x64xbf16>, tensor<1x1x160x64xbf16>) {
      %dq, %dk, %dv = tfm.attention_backward %q, %k, %v, %out, %lse, %dout {causal, scale = 0.5 : f64}
        : (tensor<1x1x160x64xbf16>, tensor<1x1x160x64xbf16>, tensor<1x1x160x64xbf16>, tensor<1x1x160x64xbf16>,
           tensor<1x1x160xf32>, tensor<1x1x160x64xbf16>)
        -> (tensor<1x1x160x64xbf16>, tensor<1x1x160x64xbf16>, tensor<1x1x160x64xbf16>)
      return %dq, %dk, %dv : tensor<1x1x160x64xbf16>, tensor<1x1x160x64xbf16>, tensor<1x1x160x64xbf16>
    })");
  registerTargets();
  const KernelTarget &target = *llvm::cantFail(KernelTarget::named("cuda"));
  EXPECT_TRUE(succeeded(prepare(*module.module, target)));
  EXPECT_TRUE(succeeded(scheduleModel(*module.module, target)));
  sched::LaunchOp launch;
  module.module->walk([&](sched::LaunchOp op) {
    if (op.getKind() == sched::KernelKind::AttentionBackward)
      launch = op;
  });
  EXPECT_TRUE(launch);
  EXPECT_TRUE(cuda::isOnTensorCores(launch));
  MLIRContext *context = launch.getContext();
  DialectRegistry dialects;
  target.registerDialects(dialects);
  context->appendDialectRegistry(dialects);
  context->loadAllAvailableDialects();
  OpBuilder builder(context);
  OwningOpRef<ModuleOp> kernels =
      ModuleOp::create(builder.getUnknownLoc(), "kernels");
  cuda::emitTensorAttentionBackward(*kernels, "attention", launch);
  PassManager passes(context);
  target.addLoweringPasses(passes);
  EXPECT_TRUE(succeeded(passes.run(*kernels)));
  change(*kernels->getOps<LLVM::LLVMFuncOp>().begin());
  Machine machine;
  llvm::Expected<Program> program = Program::load(*kernels, machine);
  EXPECT_TRUE(bool(program));
  // Zeros will do, and weights of 1.
  std::vector<std::vector<char>> buffers(launch.getReads().size() +
                                             launch.getWrites().size(),
                                         std::vector<char>(160 * 64 * 2));
  std::vector<uint64_t> arguments;
  for (std::vector<char> &buffer : buffers) {
    machine.addBuffer("buffer", buffer.data(), buffer.size());
    arguments.push_back(reinterpret_cast<uint64_t>(buffer.data()));
  }
  arguments.insert(arguments.end(), {0, 0});
  std::vector<void *> addresses;
  for (uint64_t &argument : arguments)
    addresses.push_back(&argument);
  auto fault = machine.launch(program->kernels().front(), addresses.data());
  if (conflicts)
    *conflicts = machine.bankConflicts();
  return fault;
}

template <typename Op> std::vector<Op> allOf(LLVM::LLVMFuncOp kernel) {
  std::vector<Op> found;
  kernel.walk([&](Op op) { found.push_back(op); });
  return found;
}

TEST(CudaAttentionFaults, NoneAsItIs) {
  uint64_t conflicts = 1;
  auto fault = run([](LLVM::LLVMFuncOp) {}, &conflicts);
  EXPECT_FALSE(fault) << fault->text;
  EXPECT_EQ(conflicts, 0u);
}

// Each wait and barrier of the blocks of keys and of those of queries is there
// for something, but for the last waits, where nothing is under way.
TEST(CudaAttentionFaults, MissingWait) {
  int found = 0;
  for (size_t number = 0; number != 6; ++number)
    if (auto fault = run([&](LLVM::LLVMFuncOp kernel) {
          auto waits = allOf<NVVM::CpAsyncWaitGroupOp>(kernel);
          ASSERT_EQ(waits.size(), 6u);
          waits[number].erase();
        })) {
      EXPECT_EQ(fault->kind, Fault::Kind::CopyInFlight) << fault->text;
      ++found;
    }
  EXPECT_EQ(found, 4);
}

TEST(CudaAttentionFaults, MissingBarrier) {
  for (size_t number = 0; number != 4; ++number) {
    auto fault = run([&](LLVM::LLVMFuncOp kernel) {
      auto barriers = allOf<NVVM::Barrier0Op>(kernel);
      ASSERT_EQ(barriers.size(), 4u);
      barriers[number].erase();
    });
    ASSERT_TRUE(fault) << "without barrier " << number;
    EXPECT_EQ(fault->kind, Fault::Kind::Race) << fault->text;
  }
}

TEST(CudaAttentionFaults, TooLittleSharedMemory) {
  auto fault = run([](LLVM::LLVMFuncOp kernel) {
    auto bytes = kernel->getAttrOfType<IntegerAttr>("tfm.shared");
    kernel->setAttr("tfm.shared",
                    OpBuilder(kernel).getI64IntegerAttr(bytes.getInt() - 256));
  });
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->kind, Fault::Kind::OutOfBounds) << fault->text;
}

TEST(CudaAttentionFaults, NoSwizzle) {
  uint64_t conflicts = 0;
  auto fault = run(
      [](LLVM::LLVMFuncOp kernel) {
        for (LLVM::XOrOp change : allOf<LLVM::XOrOp>(kernel))
          change.replaceAllUsesWith(change.getLhs());
      },
      &conflicts);
  EXPECT_FALSE(fault) << fault->text;
  EXPECT_GT(conflicts, 0u);
}

} // namespace
