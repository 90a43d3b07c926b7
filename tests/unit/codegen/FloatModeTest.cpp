//===- FloatModeTest.cpp - denormal numbers and the caller's mode ---------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/driver/Compile.h"
#include "runtime/device/cpu_device.h"
#include "runtime/model/model.h"
#include "tests/unit/codegen/CompiledModel.h"
#include "tests/unit/oracle/Gradients.h"

#include "gtest/gtest.h"

using namespace tfm;
using oracle::Tensor;

namespace {

// The register that holds a thread's rounding mode and whether it flushes.
#if defined(__x86_64__)
using Mode = uint32_t;
constexpr Mode flushing = 0x8040, upwards = 0x4000;
Mode mode() { return __builtin_ia32_stmxcsr(); }
void setMode(Mode mode) { __builtin_ia32_ldmxcsr(mode); }
#elif defined(__aarch64__)
using Mode = uint64_t;
constexpr Mode flushing = 1 << 24, upwards = 1 << 22;
Mode mode() {
  Mode mode;
  asm volatile("mrs %0, fpcr" : "=r"(mode));
  return mode;
}
void setMode(Mode mode) { asm volatile("msr fpcr, %0" : : "r"(mode)); }
#endif

/// x * y for 300 numbers each.
struct Product {
  Product()
      : module(R"(
    func.func @f(%x: tensor<300xf32> {tfm.name = "x"}, %y: tensor<300xf32> {tfm.name = "y"}) -> tensor<300xf32> {
      %z = tfm.mul %x, %y : tensor<300xf32>
      return %z : tensor<300xf32>
    })") {
    EXPECT_TRUE(mlir::succeeded(prepare(*module.module, testedTarget())));
    compiled = std::make_unique<CompiledModel>(*module.module);
  }

  std::vector<double> of(float x, float y, int threads) {
    Tensor left({300}), right({300});
    llvm::fill(left.data, x);
    llvm::fill(right.data, y);
    return compiled->run("f", {left, right}, threads).front().data;
  }

  oracle::TestModule module;
  std::unique_ptr<CompiledModel> compiled;
};

TEST(FloatMode, DenormalNumbersAreZeroInEveryThread) {
  Product product;
  for (int threads : {1, 3}) {
    // As operands and as results; the smallest normal number is not one.
    EXPECT_EQ(product.of(1e-39f, 1e20f, threads), std::vector<double>(300, 0));
    EXPECT_EQ(product.of(1e-20f, 1e-20f, threads), std::vector<double>(300, 0));
    EXPECT_EQ(product.of(0x1p-126f, 1.0f, threads),
              std::vector<double>(300, 0x1p-126));
  }
}

/// What the wrapped function below runs, and what it finds.
struct Wrapped {
  void (*run)(void *, tfm_thread *);
  Mode before;
  std::atomic<int> threads, changed;
} wrapped;

// Programs that link a model have a mode of their own: it is changed by nothing
// but the flushing, and back when the function returns, in every thread.
TEST(FloatMode, OfTheCallerIsKept) {
  Product product;
  CpuDevice device(2);
  Model model(*product.compiled->model, device);
  const tfm_function &function = model.function("f");
  Mode usual = mode();
  for (Mode before :
       {usual, usual | upwards, usual | flushing, usual | upwards | flushing}) {
    for (const char *name : {"x", "y"})
      std::ranges::fill(
          model.write<float>(Model::input(function, name)).values(),
          1 + 0x1p-23f);
    wrapped.run = function.run;
    wrapped.before = before;
    wrapped.threads = wrapped.changed = 0;
    auto check = [](void *arena, tfm_thread *thread) {
      Mode usual = mode();
      setMode(wrapped.before);
      wrapped.run(arena, thread);
      Mode after = mode();
      setMode(usual);
      wrapped.changed += after != wrapped.before;
      ++wrapped.threads;
    };
    // Until both have come: a call waits for nobody.
    while (wrapped.threads < 2) {
      wrapped.threads = 0;
      device.threads().run(check, device.arenaBytes());
      device.threads().drain();
    }
    EXPECT_EQ(wrapped.changed, 0);
    // (1 + e)^2 = 1 + 2e + e^2, where e^2 is far less than a unit.
    float product = before & upwards ? 1 + 0x1p-22f + 0x1p-23f : 1 + 0x1p-22f;
    for (float value : model.read<float>(function.outputs[0]).values())
      ASSERT_EQ(value, product);
  }
}

} // namespace
