//===- CudaTopKTest.cpp - the largest of each row in the emulator ---------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What a GPU chooses of rows is what the oracle chooses, element by element:
// of rows of any length, with any number of equals, and of those that are meant
// to fill its list. Barriers are then left out, which must be found.
//
//===----------------------------------------------------------------------===//

#include "tests/emulator/Program.h"
#include "tests/unit/emulator/Recorder.h"
#include "tests/unit/oracle/Gradients.h"

#include "compiler/driver/Compile.h"
#include "compiler/driver/Pipelines.h"
#include "compiler/target/KernelTarget.h"
#include "compiler/target/cuda/TopK.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/ADT/bit.h"
#include "llvm/Support/FormatVariadic.h"
#include "gtest/gtest.h"

#include <functional>
#include <random>

using namespace mlir;
using namespace tfm;
using namespace tfm::emulator;

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

/// The `k` largest of rows of `columns` elements.
class Chooser {
public:
  using Change = std::function<void(LLVM::LLVMFuncOp)>;

  Chooser(int64_t rows, int64_t columns, int64_t k, const Change &change = {})
      : rows(rows), columns(columns), k(k),
        text(
            llvm::formatv(
                "func.func @f(%x: tensor<{0}x{1}xf32>)"
                " -> (tensor<{0}x{2}xf32>, tensor<{0}x{2}xi32>) {{\n"
                "  %v, %i = tfm.top_k %x, {2} : tensor<{0}x{1}xf32>\n"
                "  return %v, %i : tensor<{0}x{2}xf32>, tensor<{0}x{2}xi32>\n}",
                rows, columns, k)
                .str()),
        module(text) {
    registerTargets();
    const KernelTarget &target = *llvm::cantFail(KernelTarget::named("cuda"));
    EXPECT_TRUE(succeeded(scheduleModel(*module.module, target)));
    sched::LaunchOp found;
    module.module->walk([&](sched::LaunchOp launch) {
      EXPECT_EQ(launch.getKind(), sched::KernelKind::TopK);
      found = launch;
    });
    MLIRContext *context = found.getContext();
    DialectRegistry dialects;
    target.registerDialects(dialects);
    context->appendDialectRegistry(dialects);
    context->loadAllAvailableDialects();
    OpBuilder builder(context);
    kernels = ModuleOp::create(builder.getUnknownLoc(), "kernels");
    EXPECT_TRUE(succeeded(cuda::emitTopKKernel(*kernels, "choose", found)));
    PassManager passes(context);
    target.addLoweringPasses(passes);
    EXPECT_TRUE(succeeded(passes.run(*kernels)));
    if (change)
      change(*kernels->getOps<LLVM::LLVMFuncOp>().begin());
    recordLaunches();
    llvm::Expected<Program> loaded = Program::load(*kernels, machine);
    EXPECT_TRUE(bool(loaded));
    program.emplace(std::move(*loaded));
  }

  std::optional<Fault> run(std::vector<float> x, unsigned order = 0) {
    values.assign(rows * k, -7);
    ids.assign(rows * k, -7);
    machine.addBuffer("x", x.data(), x.size() * 4);
    machine.addBuffer("values", values.data(), values.size() * 4);
    machine.addBuffer("ids", ids.data(), ids.size() * 4);
    machine.setOrder(order);
    uint64_t arguments[] = {reinterpret_cast<uint64_t>(x.data()),
                            reinterpret_cast<uint64_t>(values.data()),
                            reinterpret_cast<uint64_t>(ids.data()), 0, 0};
    void *addresses[5];
    for (int i = 0; i != 5; ++i)
      addresses[i] = &arguments[i];
    auto fault = machine.launch(program->kernels().front(), addresses);
    machine.removeBuffer(x.data());
    machine.removeBuffer(values.data());
    machine.removeBuffer(ids.data());
    return fault;
  }

  /// That these are what the oracle chooses of `x`.
  void expectRight(const std::vector<float> &x, unsigned order = 0) {
    auto fault = run(x, order);
    ASSERT_FALSE(fault) << fault->text;
    oracle::TestModule again(text);
    oracle::Tensor input({rows, columns});
    for (size_t i = 0; i != x.size(); ++i)
      input.data[i] = x[i];
    std::vector<oracle::Tensor> expected =
        oracle::evaluateOrFail(again.function("f"), {input});
    for (int64_t i = 0; i != rows * k; ++i) {
      ASSERT_EQ(ids[i], static_cast<int32_t>(expected[1].data[i]))
          << i << " of " << k << " of " << columns;
      // Also the sign of zero.
      float own = x[static_cast<size_t>(i / k * columns + ids[i])];
      ASSERT_EQ(llvm::bit_cast<uint32_t>(values[i]),
                llvm::bit_cast<uint32_t>(own));
    }
  }

  std::vector<float> values;
  std::vector<int32_t> ids;

private:
  const int64_t rows, columns, k;
  const std::string text;
  oracle::TestModule module;
  OwningOpRef<ModuleOp> kernels;
  Machine machine;
  std::optional<Program> program;
};

struct Case {
  int64_t rows, columns, k;
};

class CudaTopK : public ::testing::TestWithParam<Case> {};

TEST_P(CudaTopK, AgreesWithTheOracle) {
  auto [rows, columns, k] = GetParam();
  Chooser chooser(rows, columns, k);
  std::mt19937 random(3);
  auto count = static_cast<size_t>(rows * columns);
  auto drawn = [&](const std::function<float()> &draw) {
    std::vector<float> x(count);
    for (float &value : x)
      value = draw();
    return x;
  };
  std::normal_distribution<float> normal(0, 3);
  chooser.expectRight(drawn([&] { return normal(random); }), 1);
  // Few values, zeros of both signs and infinities among them.
  chooser.expectRight(drawn([&] {
                        constexpr float some[] = {-1, 0.0f,     -0.0f,
                                                  2,  infinity, -infinity};
                        return some[random() % 6];
                      }),
                      2);
  // Nearly all are minus infinity, the others less than k.
  chooser.expectRight(drawn([&] {
    return random() % static_cast<unsigned>(columns) <
                   static_cast<unsigned>(k) / 2 + 1
               ? normal(random)
               : -infinity;
  }));
  // Only the last bits differ, also of denormals.
  chooser.expectRight(drawn([&] {
    return llvm::bit_cast<float>(0xC2C80000u +
                                 static_cast<uint32_t>(random()) % 9);
  }));
  chooser.expectRight(drawn([&] {
    return llvm::bit_cast<float>(static_cast<uint32_t>(random()) % 9);
  }));
  for (float same : {1.5f, -infinity})
    chooser.expectRight(std::vector<float>(count, same));
  // Each turn has larger ones than all before it.
  std::vector<float> x(count);
  for (size_t i = 0; i != count; ++i)
    x[i] = static_cast<float>(i);
  chooser.expectRight(x);
  std::ranges::reverse(x);
  chooser.expectRight(x);
  // The largest all belong to the first thread, so that much is gathered.
  for (size_t i = 0; i != count; ++i)
    x[i] =
        static_cast<float>(random() % 1000) + (i % 512 == 0 ? 2000.0f : 0.0f);
  chooser.expectRight(x);
}

INSTANTIATE_TEST_SUITE_P(Rows, CudaTopK,
                         ::testing::Values(Case{1, 1, 1}, Case{3, 5, 2},
                                           Case{2, 31, 31}, Case{1, 257, 64},
                                           Case{2, 521, 1}, Case{1, 4096, 65},
                                           Case{2, 4099, 64},
                                           Case{1, 9001, 201},
                                           Case{1, 12289, 512}),
                         [](const auto &info) {
                           return std::to_string(info.param.k) + "Of" +
                                  std::to_string(info.param.rows) + "x" +
                                  std::to_string(info.param.columns);
                         });

// Whatever their bits are, and wherever: whoever reads candidates sees them.
TEST(CudaTopKOrder, NumbersComeBehindWhatIsNone) {
  Chooser chooser(1, 300, 4);
  std::vector<float> x(300, infinity);
  x[200] = -std::nanf("");
  x[299] = std::nanf("1");
  auto fault = chooser.run(x);
  ASSERT_FALSE(fault) << fault->text;
  EXPECT_EQ(chooser.ids, (std::vector<int32_t>{200, 299, 0, 1}));
  EXPECT_TRUE(std::isnan(chooser.values[0]) && std::isnan(chooser.values[1]));
  EXPECT_EQ(chooser.values[2], infinity);
}

// Each of the barriers orders something: what warps count of what reaches the
// // bound, and what they find in a turn; each step of sorting, of a full list
// on the way and of the last one, and that list before it.
TEST(CudaTopKFaults, MissingBarrier) {
  // All reach the bound, and the last turn finds something.
  std::vector<float> x(9001, 1.5f);
  std::fill(x.end() - 31, x.end(), 2.5f);
  size_t barriers = 0;
  auto without = [&](size_t number) {
    Chooser chooser(1, 9001, 64, [&](LLVM::LLVMFuncOp kernel) {
      std::vector<NVVM::Barrier0Op> found;
      kernel.walk([&](NVVM::Barrier0Op op) { found.push_back(op); });
      barriers = found.size();
      if (number < barriers)
        found[number].erase();
    });
    std::optional<Fault> fault;
    for (unsigned order = 0; order != 3 && !fault; ++order)
      fault = chooser.run(x, order);
    return fault;
  };
  auto fault = without(99);
  ASSERT_FALSE(fault) << fault->text;
  ASSERT_EQ(barriers, 5u);
  for (size_t number = 0; number != barriers; ++number) {
    fault = without(number);
    ASSERT_TRUE(fault) << "without barrier " << number;
    EXPECT_TRUE(fault->kind == Fault::Kind::Race ||
                fault->kind == Fault::Kind::Unwritten)
        << fault->text;
  }
}

} // namespace
