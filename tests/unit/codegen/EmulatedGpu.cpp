//===- EmulatedGpu.cpp - a model's kernels in the emulator ----------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tests/unit/codegen/EmulatedGpu.h"

#include "gtest/gtest.h"

using namespace tfm;

/// The one of this process.
static emulator::Machine &machine() {
  static emulator::Machine machine;
  return machine;
}

EmulatedGpu::EmulatedGpu(mlir::ModuleOp kernels, const tfm_variant &variant,
                         llvm::MutableArrayRef<char> arena)
    : variant(variant), arena(arena) {
  machine().addBuffer("the arena", arena.data(), arena.size());
  llvm::Expected<emulator::Program> loaded =
      emulator::Program::load(kernels, machine());
  if (loaded)
    program.emplace(std::move(*loaded));
  else
    ADD_FAILURE() << toString(loaded.takeError());
}

EmulatedGpu::~EmulatedGpu() { machine().removeBuffer(arena.data()); }

void EmulatedGpu::run(const tfm_function &function, unsigned order) {
  struct Queue : tfm_queue {
    EmulatedGpu &gpu;
    const tfm_function &function;
    bool failed = false;
  } queue{{}, *this, function};
  queue.launch = [](tfm_queue *base, int64_t launch,
                    const uint64_t *arguments) {
    auto &queue = *static_cast<Queue *>(base);
    EmulatedGpu &gpu = queue.gpu;
    if (queue.failed || !gpu.program)
      return;
    const tfm_kernel &kernel =
        gpu.variant.kernels[queue.function.launches[launch].kernel];
    const emulator::Kernel *found = gpu.program->find(kernel.name);
    queue.failed = true;
    ASSERT_TRUE(found) << kernel.name;
    // What the driver would be told is what the kernel was made for.
    ASSERT_TRUE(llvm::equal(kernel.grid, found->grid)) << kernel.name;
    ASSERT_TRUE(llvm::equal(kernel.block, found->block)) << kernel.name;
    ASSERT_EQ(kernel.shared_bytes, found->dynamicShared) << kernel.name;
    std::vector<void *> addresses;
    for (uint32_t i = 0; i < kernel.argument_count; ++i)
      addresses.push_back(const_cast<uint64_t *>(arguments + i));
    auto fault = machine().launch(*found, addresses.data());
    ASSERT_FALSE(fault) << queue.function.name << ": " << fault->text;
    queue.failed = false;
  };
  machine().setOrder(order);
  function.enqueue(reinterpret_cast<uint64_t>(arena.data()), &queue);
}
