//===- Machine.cpp - threads, memory and the peak of this machine ---------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "bench/Machine.h"
#include "compiler/codegen/cpu/KernelBuilder.h"
#include "compiler/codegen/cpu/Lower.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"
#include <chrono>
#include <cstdlib>

using namespace mlir;
using namespace tfm;
using namespace tfm::bench;

Team::Team(int64_t count) : size(count) {
  for (int64_t thread = 1; thread < size; ++thread)
    threads.emplace_back([this, thread] {
      int64_t seen = 0;
      while (true) {
        while (generation.load(std::memory_order_acquire) == seen)
          if (stop.load(std::memory_order_relaxed))
            return;
        ++seen;
        (*job)(thread);
        done.fetch_add(1, std::memory_order_release);
      }
    });
}

Team::~Team() {
  stop = true;
  for (std::thread &thread : threads)
    thread.join();
}

void Team::run(const std::function<void(int64_t)> &work) {
  job = &work;
  done.store(0, std::memory_order_relaxed);
  generation.fetch_add(1, std::memory_order_release);
  work(0);
  while (done.load(std::memory_order_acquire) != size - 1) {
  }
}

Floats::Floats(int64_t size)
    : memory(static_cast<float *>(
                 std::aligned_alloc(64, (size * 4 + 127) / 64 * 64)),
             std::free) {
  uint32_t state = 1;
  for (int64_t i = 0; i < size; ++i) {
    state = state * 1664525u + 1013904223u;
    memory[i] = static_cast<float>(state >> 8) / (1 << 24) - 0.5f;
  }
}

constexpr int64_t peakSteps = 20000;

Peak::Peak() : target(llvm::cantFail(CpuTarget::native())) {
  DialectRegistry registry;
  registerKernelDialects(registry);
  MLIRContext context(registry);
  context.loadAllAvailableDialects();
  OpBuilder b(&context);
  OwningOpRef<ModuleOp> module = ModuleOp::create(b.getUnknownLoc());
  auto type = MemRefType::get({1024}, b.getF32Type());
  auto func = beginKernel(b, *module, "peak", {type}, 0);
  KernelBuilder kb(b, *module, target.lanes);
  Value memory = kb.pointer(func.getArgument(0));
  Value x = kb.load(memory), y = kb.load(kb.at(memory, kb.lanes));
  SmallVector<Value> sums;
  for (int64_t i = 0; i < target.registers - 4; ++i)
    sums.push_back(kb.load(kb.at(memory, i)));
  sums = kb.loop(kb.i64(0), kb.i64(peakSteps), 1, sums,
                 [&](Value, ValueRange carried) {
                   SmallVector<Value> next;
                   for (Value sum : carried)
                     next.push_back(kb.fma(x, y, sum));
                   return next;
                 });
  for (auto [i, sum] : llvm::enumerate(sums))
    kb.store(sum, kb.at(memory, i));
  jit = std::make_unique<Jit>(llvm::cantFail(Jit::compile(*module, target)));
  kernel = llvm::cantFail(jit->lookup("peak"));
}

double Peak::seconds(Team &team) const {
  std::vector<std::unique_ptr<Floats>> memory;
  memory.reserve(team.count());
  for (int64_t i = 0; i < team.count(); ++i)
    memory.push_back(std::make_unique<Floats>(1024));
  int32_t rng[4] = {};
  return timed([&] {
    team.run([&](int64_t thread) {
      Jit::call(kernel, {memory[thread]->data()}, rng, 0, nullptr, thread,
                team.count());
    });
  });
}

double Peak::flops() const {
  return 2.0 * peakSteps * (target.registers - 4) * target.lanes;
}

double tfm::bench::timed(const std::function<void()> &work) {
  auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
      .count();
}
