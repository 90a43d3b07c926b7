//===- matmul.cpp - emitted matrix products beside peak and peers ---------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

// Each benchmark interleaves its product with register-only fused multiply-adds
// and with the same product in OpenBLAS and oneDNN, and reports the best time
// of each as a share of that peak: clocks drift, ratios in one run do not. The
// peak is that of f32 for products of bf16, too, but where they are made of
// tiles.
//
//   bench_matmul [--benchmark_filter=...]

#include "compiler/target/cpu/Matmul.h"
#include "bench/Machine.h"
#include "bench/Peers.h"
#include "compiler/target/cpu/CpuMachine.h"
#include "compiler/target/cpu/Jit.h"
#include "compiler/target/cpu/Lower.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"
#include "runtime/tfm_model.h"
#include "llvm/ADT/bit.h"
#include <algorithm>
#include <benchmark/benchmark.h>
#include <string>

using namespace mlir;
using namespace tfm;
using namespace tfm::bench;

namespace {

struct Shape {
  const char *what;
  int64_t m, n, k;
  bool transposeA, transposeB;
  bool isBf16 = false;
};

const Shape shapes[] = {
    {"gpt2.qkv.256", 256, 2304, 768, false, false},
    {"gpt2.proj.256", 256, 768, 768, false, false},
    {"gpt2.up.256", 256, 3072, 768, false, false},
    {"gpt2.down.256", 256, 768, 3072, false, false},
    {"gpt2.qkv.512", 512, 2304, 768, false, false},
    {"gpt2.qkv.1024", 1024, 2304, 768, false, false},
    {"gpt2.up.1024", 1024, 3072, 768, false, false},
    {"gpt2.down.1024", 1024, 768, 3072, false, false},
    {"gpt2.dW.1024", 768, 2304, 1024, true, false},
    {"gpt2.dX.1024", 1024, 768, 2304, false, true},
    {"gpt2.qkv.2048", 2048, 2304, 768, false, false},
    {"gpt2.up.2048", 2048, 3072, 768, false, false},
    {"gpt2.down.2048", 2048, 768, 3072, false, false},
    {"gpt2.proj.2048", 2048, 768, 768, false, false},
    {"gpt2.dW.256", 768, 2304, 256, true, false},
    {"gpt2.dX.256", 256, 768, 2304, false, true},
    {"gpt2.dW.2048", 768, 2304, 2048, true, false},
    {"gpt2.dX.2048", 2048, 768, 2304, false, true},
    {"gpt2.logits.256", 256, 50257, 768, false, true},
    {"shakespeare.qkv", 768, 384, 128, false, false},
    {"shakespeare.proj", 768, 128, 128, false, false},
    {"shakespeare.up", 768, 512, 128, false, false},
    {"shakespeare.down", 768, 128, 512, false, false},
    {"shakespeare.head", 768, 65, 128, false, true},
    {"shakespeare.dW.up", 128, 512, 768, true, false},
    {"shakespeare.dW.down", 512, 128, 768, true, false},
    {"shakespeare.dW.qkv", 128, 384, 768, true, false},
    {"shakespeare.dX.up", 768, 128, 512, false, true},
    {"shakespeare.dX.down", 768, 512, 128, false, true},
    {"addition.qkv", 1152, 192, 64, false, false},
    {"addition.proj", 1152, 64, 64, false, false},
    {"addition.up", 1152, 256, 64, false, false},
    {"addition.down", 1152, 64, 256, false, false},
    {"addition.dW.up", 64, 256, 1152, true, false},
    {"addition.dX.up", 1152, 64, 256, false, true},
    {"medium.down", 1024, 1024, 4096, false, false},
    {"nanogpt.up", 16384, 1536, 384, false, false},
    {"nanogpt.dW.up", 384, 1536, 16384, true, false},
    {"nanogpt.dX.up", 16384, 384, 1536, false, true},
    {"lab.head", 9568, 1510, 64, false, false},
    {"lab.dX.head", 9568, 64, 1510, false, true},
    {"lab.up", 9568, 128, 64, false, false},
    {"lab.proj", 9568, 64, 64, false, false},
    {"lab.qkv", 9568, 192, 64, false, false},
    {"lab.down", 9568, 64, 128, false, false},
    {"decode.9", 9, 192, 64, false, false},
    {"bf16.gpt2.qkv.256", 256, 2304, 768, false, false, true},
    {"bf16.gpt2.down.256", 256, 768, 3072, false, false, true},
    {"bf16.gpt2.dW.256", 768, 2304, 256, true, false, true},
    {"bf16.gpt2.dX.256", 256, 768, 2304, false, true, true},
    {"bf16.gpt2.up.256", 256, 3072, 768, false, false, true},
    {"bf16.gpt2.qkv.1024", 1024, 2304, 768, false, false, true},
    {"bf16.gpt2.up.1024", 1024, 3072, 768, false, false, true},
    {"bf16.gpt2.down.1024", 1024, 768, 3072, false, false, true},
    {"bf16.gpt2.dW.1024", 768, 2304, 1024, true, false, true},
    {"bf16.gpt2.dX.1024", 1024, 768, 2304, false, true, true},
    {"bf16.gpt2.down.4096", 4096, 768, 3072, false, false, true},
    {"bf16.gpt2.dW.4096", 768, 2304, 4096, true, false, true},
    {"bf16.gpt2.logits.256", 256, 50257, 768, false, true, true},
    {"bf16.gpt2.dW.logits.1024", 50257, 768, 1024, true, false, true},
    {"bf16.gpt2.dX.logits.1024", 1024, 768, 50257, false, false, true},
    {"bf16.medium.down", 1024, 1024, 4096, false, false, true},
    {"bf16.shakespeare.up", 768, 512, 128, false, false, true},
    {"bf16.shakespeare.dW.up", 128, 512, 768, true, false, true},
    {"bf16.shakespeare.dX.up", 768, 128, 512, false, true, true},
    {"bf16.lab.head", 9568, 1510, 64, false, false, true},
    {"bf16.lab.dW.head", 64, 1510, 4784, true, false, true},
    {"bf16.lab.dX.head", 9568, 64, 1510, false, true, true},
    {"bf16.lab.up", 9568, 128, 64, false, false, true},
    {"bf16.lab.qkv", 9568, 192, 64, false, false, true},
    {"bf16.lab.proj", 9568, 64, 64, false, false, true},
    {"bf16.lab.down", 9568, 64, 128, false, false, true},
    {"bf16.decode.1", 1, 3072, 768, false, false, true},
};

/// The product of one shape, compiled.
struct Compiled {
  explicit Compiled(const Shape &s) {
    DialectRegistry registry;
    registerKernelDialects(registry);
    MLIRContext context(registry);
    context.loadAllAvailableDialects();
    OpBuilder b(&context);
    OwningOpRef<ModuleOp> module = ModuleOp::create(b.getUnknownLoc());
    auto type = [&](int64_t rows, int64_t columns) {
      return MemRefType::get({rows, columns}, s.isBf16 ? Type(b.getBF16Type())
                                                       : Type(b.getF32Type()));
    };
    MatmulSpec spec;
    spec.m = s.m;
    spec.n = s.n;
    spec.k = s.k;
    spec.accumulator = b.getF32Type();
    spec.transposeA = s.transposeA;
    spec.transposeB = s.transposeB;
    spec.a = s.transposeA ? type(s.k, s.m) : type(s.m, s.k);
    spec.b = s.transposeB ? type(s.n, s.k) : type(s.k, s.n);
    spec.c = MemRefType::get({s.m, s.n}, b.getF32Type());
    CpuMachine target = benchedMachine();
    if (s.isBf16)
      target = target.withTiles().value_or(target);
    inTiles = target.bf16Tiles;
    scratch = emitMatmul(b, *module, "kernel", spec, target).scratchBytes;
    jit = std::make_unique<Jit>(llvm::cantFail(Jit::compile(*module, target)));
    kernel = llvm::cantFail(jit->lookup("kernel"));
  }
  std::unique_ptr<Jit> jit;
  void *kernel = nullptr;
  int64_t scratch = 0;
  bool inTiles = false;
};

/// An operand as it lies in memory.
struct Operand {
  Operand(int64_t size, bool isBf16) : single(size) {
    if (isBf16)
      for (int64_t i = 0; i < size; ++i)
        half.push_back(llvm::bit_cast<uint32_t>(single.data()[i]) >> 16);
  }
  void *data() {
    return half.empty() ? static_cast<void *>(single.data()) : half.data();
  }

  Floats single;
  std::vector<uint16_t> half;
};

void product(benchmark::State &state, const Shape &s, int64_t threads) {
  Compiled compiled(s);
  Peak peak(compiled.inTiles ? TFM_PRODUCTS_BF16_TILES : TFM_PRODUCTS_F32);
  Team team(threads);
  Operand a(s.m * s.k, s.isBf16), b(s.k * s.n, s.isBf16);
  Floats c(s.m * s.n);
  std::vector<std::unique_ptr<Floats>> scratch;
  scratch.reserve(threads);
  for (int64_t i = 0; i < threads; ++i)
    scratch.push_back(
        std::make_unique<Floats>(compiled.scratch / sizeof(float) + 16));
  Product plain{s.transposeA, s.transposeB, s.isBf16, s.m,     s.n,
                s.k,          a.data(),     b.data(), c.data()};
  int32_t rng[4] = {};
  double flops = 2.0 * s.m * s.n * s.k;
  // Small products in batches, so that the clock's resolution does not matter.
  int64_t times = std::max<int64_t>(1, static_cast<int64_t>(2e7 / flops));
  auto ours = [&] {
    team.run([&](int64_t thread) {
      if (compiled.inTiles)
        shapeTiles();
      for (int64_t i = 0; i < times; ++i)
        Jit::call(compiled.kernel, {a.data(), b.data(), c.data()}, rng, 0,
                  scratch[thread]->data(), thread, threads);
    });
  };
  double best = 1e30, bestPeak = 1e30, bestBlas = 1e30, bestDnnl = 1e30;
  bool blas = true, dnnl = true;
  for (auto _ : state) {
    bestPeak = std::min(bestPeak, peak.seconds(team));
    double seconds = timed(ours);
    best = std::min(best, seconds);
    if (threads == 1) {
      auto peer = [&](auto function, bool &there, double &bestOfPeer) {
        if (!there)
          return;
        bestOfPeer = std::min(bestOfPeer, timed([&] {
                                for (int64_t i = 0; i < times && there; ++i)
                                  there = function(plain, threads);
                              }));
      };
      peer(openblas, blas, bestBlas);
      peer(onednn, dnnl, bestDnnl);
    }
    state.SetIterationTime(seconds);
  }
  double peakRate = peak.flops() * threads / bestPeak;
  auto share = [&](double seconds) {
    return flops * times / seconds / peakRate;
  };
  state.counters["GFLOPs"] = flops * times / best / 1e9;
  state.counters["ofPeak"] = share(best);
  if (threads == 1 && blas)
    state.counters["openblas"] = share(bestBlas);
  if (threads == 1 && dnnl)
    state.counters["onednn"] = share(bestDnnl);
}

} // namespace

int main(int argc, char **argv) {
  for (int64_t threads : {1, 2})
    for (const Shape &shape : shapes)
      benchmark::RegisterBenchmark(
          (std::string(shape.what) + "/threads:" + std::to_string(threads))
              .c_str(),
          [&shape, threads](benchmark::State &state) {
            product(state, shape, threads);
          })
          ->UseManualTime()
          ->MinTime(0.2)
          ->Unit(benchmark::kMicrosecond);
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
