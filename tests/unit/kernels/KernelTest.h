//===- KernelTest.h - what the tests of kernels share -----------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_TESTS_UNIT_KERNELS_KERNELTEST_H
#define TFM_TESTS_UNIT_KERNELS_KERNELTEST_H

#include "compiler/target/cpu/CpuMachine.h"
#include "compiler/target/cpu/Jit.h"
#include "compiler/target/cpu/Lower.h"
#include "compiler/target/emit/KernelBuilder.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"
#include <cstdlib>
#include <gtest/gtest.h>
#include <random>
#include <vector>

namespace tfm::test {

/// f32 memory aligned to 64 bytes, with NaN around it that nobody may read
/// into a result.
class Buffer {
public:
  explicit Buffer(int64_t size, float fill = 0.0f)
      : storage(size + 64, std::numeric_limits<float>::quiet_NaN()),
        length(size) {
    auto address = reinterpret_cast<uintptr_t>(storage.data() + 16);
    start = reinterpret_cast<float *>((address + 63) / 64 * 64);
    std::fill(start, start + size, fill);
  }
  Buffer(Buffer &&) = default;
  Buffer &operator=(Buffer &&) = default;
  float *data() { return start; }
  const float *data() const { return start; }
  int64_t size() const { return length; }
  float &operator[](int64_t i) { return start[i]; }
  float operator[](int64_t i) const { return start[i]; }
  void randomize(std::mt19937 &random, float scale = 1.0f) {
    std::uniform_real_distribution<float> uniform(-scale, scale);
    for (int64_t i = 0; i < length; ++i)
      start[i] = uniform(random);
  }
  /// Whether nothing was written right before and right after the memory.
  bool intact() const {
    for (const float *p = storage.data(); p != storage.data() + storage.size();
         ++p)
      if ((p < start || p >= start + length) && *p == *p)
        return false;
    return true;
  }

private:
  std::vector<float> storage;
  float *start;
  int64_t length;
};

/// The CPUs whose code this machine can run: itself, and every x86 with AVX2.
inline std::vector<llvm::StringRef> runnableCpus() {
  CpuMachine native = llvm::cantFail(CpuMachine::native());
  std::vector<llvm::StringRef> cpus{"native"};
  if (native.lanes > 8)
    cpus.push_back("x86-64-v3");
  return cpus;
}

/// A module to emit kernels into, and what compiles and runs them.
class Kernels {
public:
  /// For `cpu`, by LLVM's name for it; it must run on this machine.
  explicit Kernels(llvm::StringRef cpu = "native") : builder(&context) {
    mlir::DialectRegistry registry;
    registerKernelDialects(registry);
    context.appendDialectRegistry(registry);
    context.loadAllAvailableDialects();
    module = mlir::ModuleOp::create(builder.getUnknownLoc());
    target = llvm::cantFail(CpuMachine::named(cpu));
  }

  /// Compiles what was emitted so far.
  void compile() {
    jit = std::make_unique<Jit>(llvm::cantFail(Jit::compile(*module, target)));
  }

  /// Runs kernel `name` with `threads` threads, one after the other.
  void run(llvm::StringRef name, const std::vector<Buffer *> &buffers,
           int64_t scratchBytes, int64_t threads = 1,
           std::array<int32_t, 4> rng = {}, int64_t layer = 0) {
    void *kernel = llvm::cantFail(jit->lookup(name));
    std::vector<void *> pointers;
    for (Buffer *buffer : buffers)
      pointers.push_back(buffer->data());
    for (int64_t thread = 0; thread < threads; ++thread) {
      Buffer memory(scratchBytes / sizeof(float),
                    std::numeric_limits<float>::quiet_NaN());
      Jit::call(kernel, pointers, rng.data(), layer, memory.data(), thread,
                threads);
      EXPECT_TRUE(memory.intact()) << "scratch of " << name.str();
    }
    for (Buffer *buffer : buffers)
      EXPECT_TRUE(buffer->intact()) << "a buffer of " << name.str();
  }

  mlir::MLIRContext context;
  mlir::OpBuilder builder;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  CpuMachine target;
  std::unique_ptr<Jit> jit;
};

} // namespace tfm::test

#endif // TFM_TESTS_UNIT_KERNELS_KERNELTEST_H
