//===- CudaAttentionTest.cpp - attention in the emulator ------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Mistakes that people make in a kernel that brings the next tile while one is
// visited, planted in the derivative of attention on tensor cores and in
// attention by warpgroups: each must be found. That their values are right is
// `AttentionCompiled.DerivativeOfBf16` and `TilesOfBf16`.
//
//===----------------------------------------------------------------------===//

#include "tests/emulator/Program.h"
#include "tests/unit/oracle/Gradients.h"

#include "compiler/driver/Compile.h"
#include "compiler/driver/Pipelines.h"
#include "compiler/schedule/Launches.h"
#include "compiler/target/KernelTarget.h"
#include "compiler/target/cuda/Attention.h"
#include "compiler/target/cuda/DeviceKernels.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Pass/PassManager.h"
#include "gtest/gtest.h"

using namespace mlir;
using namespace tfm;
using namespace tfm::emulator;

namespace {

using Change = llvm::function_ref<void(LLVM::LLVMFuncOp)>;

/// A kernel of attention or of its derivative.
struct Attention {
  const char *text;
  sched::KernelKind kind;
  bool (*canEmit)(sched::LaunchOp);
  void (*emit)(ModuleOp, llvm::StringRef, sched::LaunchOp);
};

/// Among 160 positions.
const Attention derivative = {R"(
    func.func @f(%q: tensor<1x1x160x64xbf16>, %k: tensor<1x1x160x64xbf16>, %v: tensor<1x1x160x64xbf16>,
                 %out: tensor<1x1x160x64xbf16>, %lse: tensor<1x1x160xf32>, %dout: tensor<1x1x160x64xbf16>)
        -> (tensor<1x1x160x64xbf16>, tensor<1x1x160x64xbf16>, tensor<1x1x160x64xbf16>) {
      %dq, %dk, %dv = tfm.attention_backward %q, %k, %v, %out, %lse, %dout {causal, scale = 0.5 : f64}
        : (tensor<1x1x160x64xbf16>, tensor<1x1x160x64xbf16>, tensor<1x1x160x64xbf16>, tensor<1x1x160x64xbf16>,
           tensor<1x1x160xf32>, tensor<1x1x160x64xbf16>)
        -> (tensor<1x1x160x64xbf16>, tensor<1x1x160x64xbf16>, tensor<1x1x160x64xbf16>)
      return %dq, %dk, %dv : tensor<1x1x160x64xbf16>, tensor<1x1x160x64xbf16>, tensor<1x1x160x64xbf16>
    })",
                              sched::KernelKind::AttentionBackward,
                              cuda::isOnTensorCores,
                              cuda::emitTensorAttentionBackward};

/// Three tiles of queries and as many of keys, of which two are in shared
/// memory at once.
const Attention inWarpgroups = {R"(
    func.func @f(%q: tensor<1x1x300x128xbf16>, %k: tensor<1x1x300x128xbf16>, %v: tensor<1x1x300x128xbf16>)
        -> tensor<1x1x300x128xbf16> {
      %out, %lse = tfm.attention %q, %k, %v {causal, scale = 0.5 : f64}
        : tensor<1x1x300x128xbf16>, tensor<1x1x300x128xbf16>, tensor<1x1x300x128xbf16>
      return %out : tensor<1x1x300x128xbf16>
    })",
                                sched::KernelKind::Attention,
                                cuda::canAttendInWarpgroups,
                                cuda::emitWarpgroupAttention};

/// Of four tiles of queries, each with the same few keys.
const Attention ofFewKeys = {R"(
    func.func @f(%q: tensor<1x1x400x128xbf16>, %k: tensor<1x1x100x128xbf16>, %v: tensor<1x1x100x128xbf16>)
        -> tensor<1x1x400x128xbf16> {
      %out, %lse = tfm.attention %q, %k, %v {scale = 0.5 : f64}
        : tensor<1x1x400x128xbf16>, tensor<1x1x100x128xbf16>, tensor<1x1x100x128xbf16>
      return %out : tensor<1x1x400x128xbf16>
    })",
                             sched::KernelKind::Attention,
                             cuda::canAttendInWarpgroups,
                             cuda::emitWarpgroupAttention};

/// What it comes to, with that done to its kernel.
std::optional<Fault> run(const Attention &attention, Change change,
                         uint64_t *conflicts = nullptr) {
  oracle::TestModule module(attention.text);
  registerTargets();
  const KernelTarget &target = *llvm::cantFail(KernelTarget::named("cuda"));
  EXPECT_TRUE(succeeded(prepare(*module.module, target)));
  EXPECT_TRUE(succeeded(scheduleModel(*module.module, target)));
  sched::LaunchOp launch;
  module.module->walk([&](sched::LaunchOp op) {
    if (op.getKind() == attention.kind)
      launch = op;
  });
  EXPECT_TRUE(launch);
  EXPECT_TRUE(attention.canEmit(launch));
  MLIRContext *context = launch.getContext();
  DialectRegistry dialects;
  target.registerDialects(dialects);
  context->appendDialectRegistry(dialects);
  context->loadAllAvailableDialects();
  OpBuilder builder(context);
  OwningOpRef<ModuleOp> kernels =
      ModuleOp::create(builder.getUnknownLoc(), "kernels");
  attention.emit(*kernels, "attention", launch);
  PassManager passes(context);
  target.addLoweringPasses(passes);
  EXPECT_TRUE(succeeded(passes.run(*kernels)));
  std::vector<tfm_boxed_tensor> tensors =
      cuda::kernelsOf(*kernels).front().tensors;
  change(*kernels->getOps<LLVM::LLVMFuncOp>().begin());
  Machine machine;
  llvm::Expected<Program> program = Program::load(*kernels, machine);
  EXPECT_TRUE(bool(program));
  // Zeros will do, and weights of 1.
  std::vector<std::vector<char>> buffers;
  for (Value operand : launch->getOperands())
    buffers.emplace_back(
        viewOf(cast<MemRefType>(operand.getType())).spanBytes());
  std::vector<uint64_t> arguments;
  for (std::vector<char> &buffer : buffers) {
    machine.addBuffer("buffer", buffer.data(), buffer.size());
    arguments.push_back(reinterpret_cast<uint64_t>(buffer.data()));
  }
  arguments.insert(arguments.end(), {0, 0});
  std::vector<void *> addresses;
  for (uint64_t &argument : arguments)
    addresses.push_back(&argument);
  std::vector<TensorMap> maps(tensors.size());
  for (auto [map, tensor] : llvm::zip_equal(maps, tensors)) {
    std::vector<uint32_t> box(tensor.box, tensor.box + tensor.rank);
    EXPECT_TRUE(TensorMap::make(
        map, reinterpret_cast<void *>(arguments[tensor.argument]), tensor.rank,
        tensor.sizes, tensor.strides + 1, box.data()));
    addresses.push_back(&map);
  }
  emulator::Kernel kernel = program->kernels().front();
  if (kernel.resident)
    kernel.grid[0] = 1;
  auto fault = machine.launch(kernel, addresses.data());
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
  auto fault = run(derivative, [](LLVM::LLVMFuncOp) {}, &conflicts);
  EXPECT_FALSE(fault) << fault->text;
  EXPECT_EQ(conflicts, 0u);
}

// Each wait and barrier of the blocks of keys and of those of queries is there
// for something, but for the last waits, where nothing is under way.
TEST(CudaAttentionFaults, MissingWait) {
  int found = 0;
  for (size_t number = 0; number != 6; ++number)
    if (auto fault = run(derivative, [&](LLVM::LLVMFuncOp kernel) {
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
    auto fault = run(derivative, [&](LLVM::LLVMFuncOp kernel) {
      auto barriers = allOf<NVVM::Barrier0Op>(kernel);
      ASSERT_EQ(barriers.size(), 4u);
      barriers[number].erase();
    });
    ASSERT_TRUE(fault) << "without barrier " << number;
    EXPECT_EQ(fault->kind, Fault::Kind::Race) << fault->text;
  }
}

TEST(CudaAttentionFaults, TooLittleSharedMemory) {
  auto fault = run(derivative, [](LLVM::LLVMFuncOp kernel) {
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
      derivative,
      [](LLVM::LLVMFuncOp kernel) {
        for (LLVM::XOrOp change : allOf<LLVM::XOrOp>(kernel))
          change.replaceAllUsesWith(change.getLhs());
      },
      &conflicts);
  EXPECT_FALSE(fault) << fault->text;
  EXPECT_GT(conflicts, 0u);
}

// The same by warpgroups. Waits for copies and for empty places, in the order
// of the code: of queries, the first keys and their values, the next keys and
// values, and of who brings queries, keys and values.

std::optional<Fault> runInWarpgroups(Change change) {
  return run(inWarpgroups, change);
}

TEST(CudaWarpgroupAttentionFaults, NoneAsItIs) {
  auto fault = runInWarpgroups([](LLVM::LLVMFuncOp) {});
  EXPECT_FALSE(fault) << fault->text;
}

TEST(CudaWarpgroupAttentionFaults, MissingWait) {
  // Copies of one thread arrive in order here: whoever waits for keys has the
  // queries. And whoever waits for the places of several tiles of keys has that
  // of queries.
  constexpr size_t placesOfQueries = 5;
  for (size_t number = 1; number != 8; ++number) {
    auto fault = run(number == placesOfQueries ? ofFewKeys : inWarpgroups,
                     [&](LLVM::LLVMFuncOp kernel) {
                       auto waits =
                           allOf<NVVM::MBarrierTryWaitParityOp>(kernel);
                       ASSERT_EQ(waits.size(), 8u);
                       waits[number].erase();
                     });
    ASSERT_TRUE(fault) << "without wait " << number;
    // What comes too early is written where others read, or ends a phase that
    // they have not begun to wait for.
    EXPECT_TRUE(
        fault->kind == Fault::Kind::Race ||
        (number >= placesOfQueries && fault->kind == Fault::Kind::Deadlock))
        << fault->text;
  }
}

// Of the first keys, the next ones, values, queries, and the last values.
TEST(CudaWarpgroupAttentionFaults, NobodySaysThatAPlaceIsEmpty) {
  for (size_t number = 0; number != 5; ++number) {
    auto fault = runInWarpgroups([&](LLVM::LLVMFuncOp kernel) {
      auto arrivals = allOf<NVVM::MBarrierArriveOp>(kernel);
      ASSERT_EQ(arrivals.size(), 5u);
      arrivals[number].erase();
    });
    ASSERT_TRUE(fault) << "without arrival " << number;
    EXPECT_EQ(fault->kind, Fault::Kind::Deadlock) << fault->text;
  }
}

// At the beginning, with the first keys, and with the next ones.
TEST(CudaWarpgroupAttentionFaults, NobodyPassesTheTurn) {
  for (size_t number = 0; number != 3; ++number) {
    auto fault = runInWarpgroups([&](LLVM::LLVMFuncOp kernel) {
      auto turns = allOf<NVVM::BarrierArriveOp>(kernel);
      ASSERT_EQ(turns.size(), 3u);
      turns[number].erase();
    });
    ASSERT_TRUE(fault) << "without pass " << number;
    EXPECT_EQ(fault->kind, Fault::Kind::Deadlock) << fault->text;
  }
}

/// The waits for products: for those with the first keys, with the next ones,
/// of values, and of the last values.
void letGroupsGo(LLVM::LLVMFuncOp kernel, size_t number, int groups) {
  std::vector<LLVM::InlineAsmOp> waits;
  for (LLVM::InlineAsmOp assembly : allOf<LLVM::InlineAsmOp>(kernel))
    if (assembly.getAsmString().starts_with("wgmma.wait_group"))
      waits.push_back(assembly);
  ASSERT_EQ(waits.size(), 4u);
  waits[number].setAsmString("wgmma.wait_group.sync.aligned " +
                             std::to_string(groups) + ";");
}

TEST(CudaWarpgroupAttentionFaults, WaitForProductsOffByOne) {
  for (auto [number, groups] : {std::pair(0, 1), {1, 2}, {2, 1}, {3, 1}}) {
    auto fault = runInWarpgroups(
        [number = number, groups = groups](LLVM::LLVMFuncOp kernel) {
          letGroupsGo(kernel, number, groups);
        });
    ASSERT_TRUE(fault) << "with more groups under way at wait " << number;
    EXPECT_EQ(fault->kind, Fault::Kind::CopyInFlight) << fault->text;
    EXPECT_NE(fault->text.find("which nobody has waited for"),
              std::string::npos)
        << fault->text;
  }
}

TEST(CudaWarpgroupAttentionFaults, MissingFenceOfRegisters) {
  for (size_t number : {0, 1, 3}) {
    auto fault = runInWarpgroups([&](LLVM::LLVMFuncOp kernel) {
      auto fences = allOf<NVVM::WgmmaFenceAlignedOp>(kernel);
      ASSERT_EQ(fences.size(), 4u);
      fences[number].erase();
    });
    ASSERT_TRUE(fault) << "without fence " << number;
    EXPECT_EQ(fault->kind, Fault::Kind::Misuse) << fault->text;
  }
}

TEST(CudaWarpgroupAttentionFaults, FewerBytesThanAnnounced) {
  for (size_t number : {0, 2, 4}) {
    auto fault = runInWarpgroups([&](LLVM::LLVMFuncOp kernel) {
      auto copies =
          allOf<NVVM::CpAsyncBulkTensorGlobalToSharedClusterOp>(kernel);
      // Two pieces of queries and of keys, and four of values.
      ASSERT_EQ(copies.size(), 8u);
      copies[number].erase();
    });
    ASSERT_TRUE(fault) << "without piece " << number;
    EXPECT_EQ(fault->kind, Fault::Kind::Deadlock) << fault->text;
  }
}

TEST(CudaWarpgroupAttentionFaults, TooLittleSharedMemory) {
  auto fault = runInWarpgroups([](LLVM::LLVMFuncOp kernel) {
    auto bytes = kernel->getAttrOfType<IntegerAttr>("tfm.shared");
    kernel->setAttr("tfm.shared",
                    OpBuilder(kernel).getI64IntegerAttr(bytes.getInt() - 8));
  });
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->kind, Fault::Kind::OutOfBounds) << fault->text;
}

} // namespace
