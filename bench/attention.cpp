//===- attention.cpp - emitted attention beside the machine's peak --------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

// Counts only the pairs of query and key that see each other: 4 d operations a
// pair forward, 10 d backward. Interleaved with multiply-adds on registers
// alone, as bench_matmul is: of f32, for attention of bf16, too, but where that
// is made of tiles.

#include "compiler/target/cpu/Attention.h"
#include "bench/Machine.h"
#include "compiler/target/cpu/CpuMachine.h"
#include "compiler/target/cpu/Jit.h"
#include "compiler/target/cpu/Lower.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"
#include "runtime/tfm_model.h"
#include <algorithm>
#include <benchmark/benchmark.h>
#include <string>

using namespace mlir;
using namespace tfm;
using namespace tfm::bench;

namespace {

struct Shape {
  std::string what;
  int64_t batch, heads, length, d;
  double dropout = 0;
};

/// Those of models, and heads of two widths as texts grow.
std::vector<Shape> allShapes() {
  std::vector<Shape> shapes = {{"addition", 128, 4, 9, 16},
                               {"shakespeare", 12, 4, 64, 32},
                               {"nanogpt", 8, 6, 256, 64},
                               {"nanogpt.dropout", 8, 6, 256, 64, 0.2},
                               {"gpt2.64", 4, 12, 64, 64}};
  for (int64_t d : {64, 128})
    for (int64_t length : {256, 512, 1024, 2048, 4096})
      shapes.push_back(
          {std::to_string(length) + "x" + std::to_string(d), 1, 4, length, d});
  return shapes;
}

void attention(benchmark::State &state, const Shape &s, bool backward,
               bool narrow, int64_t threads) {
  CpuMachine target = benchedMachine();
  if (narrow)
    target = target.withTiles().value_or(target);
  Peak peak(target.bf16Tiles ? TFM_PRODUCTS_BF16_TILES : TFM_PRODUCTS_F32);
  DialectRegistry registry;
  registerKernelDialects(registry);
  MLIRContext context(registry);
  context.loadAllAvailableDialects();
  OpBuilder b(&context);
  OwningOpRef<ModuleOp> module = ModuleOp::create(b.getUnknownLoc());
  int64_t width = s.heads * s.d, row = 3 * width;
  auto type = [&](int64_t offset, int64_t stride) {
    return MemRefType::get(
        {s.batch, s.heads, s.length, s.d},
        narrow ? Type(b.getBF16Type()) : b.getF32Type(),
        StridedLayoutAttr::get(&context, offset,
                               {s.length * stride, s.d, stride, 1}));
  };
  AttentionSpec spec;
  spec.q = spec.dq = type(0, row);
  spec.k = spec.dk = type(width, row);
  spec.v = spec.dv = type(2 * width, row);
  spec.out = spec.dout = type(0, width);
  spec.lse = MemRefType::get({s.batch, s.heads, s.length}, b.getF32Type());
  spec.causal = true;
  spec.scale = 0.125;
  if (s.dropout > 0)
    spec.dropout = s.dropout;
  Kernel forward = emitAttention(b, *module, "forward", spec, target);
  Kernel derivative =
      emitAttentionBackward(b, *module, "backward", spec, target);
  int64_t scratchSize =
      std::max(forward.scratchBytes, derivative.scratchBytes) / sizeof(float);
  Jit jit = llvm::cantFail(Jit::compile(*module, target));
  void *forwardKernel = llvm::cantFail(jit.lookup("forward"));
  void *backwardKernel = llvm::cantFail(jit.lookup("backward"));

  int64_t tokens = s.batch * s.length;
  Floats qkv(tokens * row), out(tokens * width), dout(tokens * width),
      lse(s.batch * s.heads * s.length), dqkv(tokens * row);
  // As many bytes are in use as elements of bf16 take: numbers of either sign
  // between 1 / 8 and 1 / 2, no NaN.
  auto fill = [](const Floats &floats, int64_t size) {
    uint32_t state = 1;
    auto *numbers = reinterpret_cast<uint16_t *>(floats.data());
    for (int64_t i = 0; i < size; ++i) {
      state = state * 1664525u + 1013904223u;
      numbers[i] = static_cast<uint16_t>(0x3e00 | (state >> 16 & 0x80ff));
    }
  };
  if (narrow) {
    fill(qkv, tokens * row);
    fill(out, tokens * width);
    fill(dout, tokens * width);
  }
  std::vector<std::unique_ptr<Floats>> scratch;
  scratch.reserve(threads);
  for (int64_t i = 0; i < threads; ++i)
    scratch.push_back(std::make_unique<Floats>(scratchSize));
  int32_t rng[4] = {1, 2, 3, 4};
  Team team(threads);
  auto run = [&](bool derivative) {
    team.run([&](int64_t thread) {
      if (target.bf16Tiles)
        shapeTiles();
      float *memory = scratch[thread]->data();
      if (derivative)
        Jit::call(backwardKernel,
                  {qkv.data(), qkv.data(), qkv.data(), out.data(), lse.data(),
                   dout.data(), dqkv.data(), dqkv.data(), dqkv.data()},
                  rng, 0, memory, thread, threads);
      else
        Jit::call(forwardKernel,
                  {qkv.data(), qkv.data(), qkv.data(), out.data(), lse.data()},
                  rng, 0, memory, thread, threads);
    });
  };
  run(false);
  double best = 1e30, bestPeak = 1e30;
  for (auto _ : state) {
    bestPeak = std::min(bestPeak, peak.seconds(team));
    double seconds = timed([&] { run(backward); });
    best = std::min(best, seconds);
    state.SetIterationTime(seconds);
  }
  double pairs =
      s.batch * s.heads * static_cast<double>(s.length) * (s.length + 1) / 2;
  double flops = pairs * s.d * (backward ? 10 : 4);
  state.counters["GFLOPs"] = flops / best / 1e9;
  state.counters["ofPeak"] = flops / best / (peak.flops() * threads / bestPeak);
}

} // namespace

int main(int argc, char **argv) {
  for (int64_t threads : {1, 2})
    for (const Shape &shape : allShapes())
      for (bool narrow : {false, true})
        for (bool backward : {false, true})
          benchmark::RegisterBenchmark(
              (shape.what + (narrow ? "/bf16" : "/f32") +
               (backward ? "/backward" : "/forward") +
               "/threads:" + std::to_string(threads))
                  .c_str(),
              [shape, backward, narrow, threads](benchmark::State &state) {
                attention(state, shape, backward, narrow, threads);
              })
              ->UseManualTime()
              ->MinTime(0.1)
              ->Unit(benchmark::kMicrosecond);
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
