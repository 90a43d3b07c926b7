//===- few_rows.cpp - products of few rows beside memory ------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

// Products of one row and of a few with weights that lie in memory, as decoding
// has them (those of 8 bits in panels, where the processor multiplies
// integers): each benchmark goes once through half a gigabyte of weights and,
// interleaved, reads the same bytes and does nothing with them. What it reports
// is the best time of each: bytes a second, and the share of those that reading
// alone reaches.
//
//   bench_few_rows [--benchmark_filter=...]

#include "bench/Machine.h"
#include "compiler/target/cpu/CpuMachine.h"
#include "compiler/target/cpu/FewRows.h"
#include "compiler/target/cpu/Jit.h"
#include "compiler/target/cpu/Lower.h"
#include "compiler/target/cpu/Matmul.h"
#include "compiler/target/cpu/MatmulPlan.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"
#include "runtime/device/peak.h"
#include "runtime/tfm_model.h"
#include "llvm/Support/MathExtras.h"
#include <algorithm>
#include <benchmark/benchmark.h>
#include <string>
#include <sys/mman.h>

using namespace mlir;
using namespace tfm;
using namespace tfm::bench;

namespace {

struct Shape {
  const char *what;
  int64_t n, k;
  bool transposeB;
};

const Shape shapes[] = {
    {"gpt2.qkv", 2304, 768, false},  {"gpt2.proj", 768, 768, false},
    {"gpt2.up", 3072, 768, false},   {"gpt2.down", 768, 3072, false},
    {"gpt2.head", 50257, 768, true}, {"xl.qkv", 4800, 1600, false},
    {"xl.down", 1600, 6400, false},  {"llama.up", 5632, 2048, true},
    {"llama.down", 2048, 5632, true}};

/// How weights are stored, of 8 and of 4 bits with the terms of an output
/// together whatever the shape says.
enum class Stored { F32, BF16, Int8, Int4 };
constexpr std::pair<Stored, const char *> types[] = {{Stored::F32, "f32"},
                                                     {Stored::BF16, "bf16"},
                                                     {Stored::Int8, "int8"},
                                                     {Stored::Int4, "int4"}};

int64_t groupsOf(const Shape &s) {
  return static_cast<int64_t>(llvm::divideCeil(s.k, TFM_GROUP_TERMS));
}

/// Bytes of the weights of a shape; of 4 bits also those of one of the two
/// tables behind them.
size_t bytesOf(const Shape &s, Stored stored) {
  switch (stored) {
  case Stored::F32:
    return s.n * s.k * sizeof(float);
  case Stored::BF16:
    return s.n * s.k * sizeof(uint16_t);
  case Stored::Int8:
    return s.n * s.k;
  case Stored::Int4:
    return s.n * groupsOf(s) * TFM_GROUP_BYTES;
  }
  return 0;
}
size_t tableBytesOf(const Shape &s, Stored stored) {
  return stored == Stored::Int4 ? s.n * groupsOf(s) * sizeof(uint16_t) : 0;
}

/// Half a gigabyte in large pages, as an arena is.
class Weights {
public:
  Weights() {
    void *mapped = mmap(nullptr, bytes + (2 << 20), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    auto address = reinterpret_cast<uintptr_t>(mapped);
    data = reinterpret_cast<char *>((address + (2 << 20) - 1) &
                                    ~uintptr_t{(2 << 20) - 1});
    (void)madvise(data, bytes, MADV_HUGEPAGE);
    addToAll(reinterpret_cast<float *>(data), bytes / sizeof(float));
  }
  static constexpr size_t bytes = size_t{512} << 20;
  char *data;
};

/// The product of one shape, compiled; in register tiles where `tiles`.
struct Compiled {
  Compiled(const Shape &s, int64_t m, Stored stored, bool tiles) {
    DialectRegistry registry;
    registerKernelDialects(registry);
    MLIRContext context(registry);
    context.loadAllAvailableDialects();
    OpBuilder b(&context);
    OwningOpRef<ModuleOp> module = ModuleOp::create(b.getUnknownLoc());
    MatmulSpec spec;
    spec.m = m;
    spec.n = s.n;
    spec.k = s.k;
    spec.accumulator = b.getF32Type();
    CpuMachine target = benchedMachine();
    target = target.withTiles().value_or(target);
    usesTiles = target.int8Tiles;
    Type f32 = b.getF32Type(), i8 = b.getI8Type();
    bool isQuantised = stored == Stored::Int8 || stored == Stored::Int4;
    spec.transposeB = s.transposeB || isQuantised;
    Type weight = stored == Stored::F32    ? f32
                  : stored == Stored::BF16 ? Type(b.getBF16Type())
                                           : i8;
    // As `cpu-quantise-activations` has it.
    Type a = !isQuantised ? weight : target.multipliesIntegers() ? i8 : f32;
    spec.a = MemRefType::get({m, s.k}, a);
    spec.b = spec.transposeB ? MemRefType::get({s.n, s.k}, weight)
                             : MemRefType::get({s.k, s.n}, weight);
    if (stored == Stored::Int8 && target.multipliesIntegers()) {
      // As `tfm-store-weights` has them; a last panel that is not full is left
      // out.
      spec.accumulator = b.getI32Type();
      spec.inPanels = true;
      int64_t width = target.lanes * target.tileVectors();
      spec.b = MemRefType::get({s.n / width, s.k / 4, width, 4}, i8);
      spec.n = s.n / width * width;
    }
    if (stored == Stored::Int4) {
      int64_t groups = groupsOf(s);
      spec.b = MemRefType::get({s.n, groups * TFM_GROUP_BYTES}, i8);
      spec.scale = MemRefType::get({s.n, groups}, b.getBF16Type());
      spec.minimum = spec.scale;
    }
    spec.c = MemRefType::get({m, spec.n}, spec.accumulator);
    Kernel made = tiles ? emitMatmul(b, *module, "kernel", spec, target,
                                     planMatmul(spec, target))
                        : emitMatmul(b, *module, "kernel", spec, target);
    scratch = made.scratchBytes;
    jit = std::make_unique<Jit>(llvm::cantFail(Jit::compile(*module, target)));
    kernel = llvm::cantFail(jit->lookup("kernel"));
  }
  std::unique_ptr<Jit> jit;
  void *kernel = nullptr;
  int64_t scratch = 0;
  bool usesTiles = false;
};

void product(benchmark::State &state, const Shape &s, int64_t m, Stored stored,
             bool tiles, int64_t threads) {
  static Weights weights;
  static Team one(1), two(2);
  Team &team = threads == 1 ? one : two;
  Compiled compiled(s, m, stored, tiles);
  Floats a(m * s.k), c(m * s.n);
  std::vector<std::unique_ptr<Floats>> scratch;
  for (int64_t i = 0; i < threads; ++i)
    scratch.push_back(
        std::make_unique<Floats>(compiled.scratch / sizeof(float) + 16));
  size_t matrix = bytesOf(s, stored), table = tableBytesOf(s, stored);
  size_t size = matrix + 2 * table;
  size_t count = Weights::bytes / size;
  int32_t rng[4] = {};
  auto ours = [&] {
    for (size_t i = 0; i < count; ++i)
      team.run([&](int64_t thread) {
        if (compiled.usesTiles)
          shapeTiles();
        char *at = weights.data + i * size;
        std::vector<void *> buffers{a.data(), at};
        if (table > 0)
          buffers.insert(buffers.end(), {at + matrix, at + matrix + table});
        buffers.push_back(c.data());
        Jit::call(compiled.kernel, buffers, rng, 0, scratch[thread]->data(),
                  thread, threads);
      });
  };
  auto reading = [&] {
    team.run([&](int64_t thread) {
      size_t part = count * size / threads / 4;
      volatile float sum = readAll(
          reinterpret_cast<const float *>(weights.data) + thread * part, part);
      (void)sum;
    });
  };
  double best = 1e30, bestReading = 1e30;
  for (auto _ : state) {
    bestReading = std::min(bestReading, timed(reading));
    double seconds = timed(ours);
    best = std::min(best, seconds);
    state.SetIterationTime(seconds);
  }
  state.counters["GBs"] = count * size / best / 1e9;
  state.counters["ofReading"] = bestReading / best;
}

} // namespace

int main(int argc, char **argv) {
  for (int64_t threads : {1, 2})
    for (const Shape &shape : shapes)
      for (int64_t m : {1, 2, 4, 8, 12, 16, 20, 24, 28, 32, 64, 256})
        for (auto [stored, type] : types)
          for (bool tiles : {false, true})
            benchmark::RegisterBenchmark(
                (std::string(shape.what) + "." + type +
                 "/m:" + std::to_string(m) + (tiles ? "/tiles" : "") +
                 "/threads:" + std::to_string(threads))
                    .c_str(),
                [&shape, m, stored = stored, tiles,
                 threads](benchmark::State &state) {
                  product(state, shape, m, stored, tiles, threads);
                })
                ->UseManualTime()
                ->MinTime(0.1)
                ->Unit(benchmark::kMillisecond);
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
