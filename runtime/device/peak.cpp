//===- peak.cpp - what the machine can do at most, measured -------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/device/peak.h"

#include "runtime/device/variant.h"
#include "runtime/support/memory.h"
#include "runtime/support/progress.h"
#include "runtime/tfm_model.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <new>
#include <stdexcept>
#include <string>
#include <sys/mman.h>
#include <unistd.h>

namespace tfm {

namespace {

/// The loops for vectors of `Lanes` floats. `Chains` accumulators hide the
/// latency of a multiply-add and leave registers for its operands. Each is
/// inlined into a function that may use the instructions.
template <int Lanes, int Chains> struct Loops {
  using Vector __attribute__((vector_size(4 * Lanes))) = float;
  using Unaligned __attribute__((vector_size(4 * Lanes), aligned(4))) = float;

  [[gnu::always_inline]] static double multiplyAdds() {
    constexpr int steps = 20000;
    Vector x = {}, y = {}, sums[Chains] = {};
    asm volatile("" : "+m"(x), "+m"(y)); // not known to be zero
    for (int step = 0; step < steps; ++step)
#pragma unroll
      for (Vector &sum : sums)
        sum = x * y + sum;
    asm volatile("" : : "m"(sums)); // used
    return 2.0 * steps * Chains * Lanes;
  }

  // Memory is walked in a few places at once: more than one stream is what
  // the processor's prefetchers need to have all lanes of memory busy.
  static constexpr size_t streams = 4;
  static constexpr size_t stride = static_cast<size_t>(Lanes) * 4;

  [[gnu::always_inline]] static float readAll(const float *data, size_t count) {
    size_t length = count / streams / stride * stride;
    Vector sums[4] = {};
    for (size_t i = 0; i < length; i += stride)
      for (size_t stream = 0; stream < streams; ++stream)
#pragma unroll
        for (size_t j = 0; j < 4; ++j)
          sums[j] += *reinterpret_cast<const Unaligned *>(
              data + stream * length + i + j * Lanes);
    float result = 0;
    for (size_t i = streams * length; i < count; ++i)
      result += data[i];
    for (const Vector &sum : sums)
      for (int lane = 0; lane < Lanes; ++lane)
        result += sum[lane];
    return result;
  }

  [[gnu::always_inline]] static void addToAll(float *data, size_t count) {
    size_t length = count / streams / stride * stride;
    for (size_t i = 0; i < length; i += stride)
      for (size_t stream = 0; stream < streams; ++stream)
#pragma unroll
        for (size_t j = 0; j < 4; ++j)
          *reinterpret_cast<Unaligned *>(data + stream * length + i +
                                         j * Lanes) += 1.0f;
    for (size_t i = streams * length; i < count; ++i)
      data[i] += 1.0f;
  }
};

struct Kernels {
  MultiplyAdds multiplyAdds;
  float (*readAll)(const float *, size_t);
  void (*addToAll)(float *, size_t);
};

#if defined(__x86_64__)
#define TFM_AVX512 __attribute__((target("avx512f")))
#define TFM_AVX2 __attribute__((target("avx2,fma")))
using Avx512 = Loops<16, 24>;
using Avx2 = Loops<8, 12>;
TFM_AVX512 double multiplyAdds512() { return Avx512::multiplyAdds(); }
TFM_AVX512 float readAll512(const float *data, size_t count) {
  return Avx512::readAll(data, count);
}
TFM_AVX512 void addToAll512(float *data, size_t count) {
  Avx512::addToAll(data, count);
}
TFM_AVX2 double multiplyAdds256() { return Avx2::multiplyAdds(); }
TFM_AVX2 float readAll256(const float *data, size_t count) {
  return Avx2::readAll(data, count);
}
TFM_AVX2 void addToAll256(float *data, size_t count) {
  Avx2::addToAll(data, count);
}

/// Vectors of 32 bf16: the products of neighbours are added to a lane of f32.
__attribute__((target("avx512f,avx512bf16"))) double multiplyPairs() {
  using Sums __attribute__((vector_size(64))) = float;
  using Terms __attribute__((vector_size(64))) = __bf16;
  constexpr int steps = 20000, chains = 24;
  Terms x = {}, y = {};
  Sums sums[chains] = {};
  asm volatile("" : "+m"(x), "+m"(y)); // not known to be zero
  for (int step = 0; step < steps; ++step)
#pragma unroll
    for (Sums &sum : sums)
      sum = __builtin_ia32_dpbf16ps_512(sum, x, y);
  asm volatile("" : : "m"(sums)); // used
  return 2.0 * steps * chains * 32;
}

/// Vectors of 64 integers: the products of four neighbours are added to a lane
/// of i32.
__attribute__((target("avx512f,avx512vnni"))) double multiplyQuads() {
  using Vector __attribute__((vector_size(64))) = int;
  using Bytes __attribute__((vector_size(64))) = char;
  constexpr int steps = 20000, chains = 24;
  Bytes x = {}, y = {};
  Vector sums[chains] = {};
  asm volatile("" : "+m"(x), "+m"(y)); // not known to be zero
  for (int step = 0; step < steps; ++step)
#pragma unroll
    for (Vector &sum : sums)
      asm("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(x), "v"(y));
  asm volatile("" : : "m"(sums)); // used
  return 2.0 * steps * chains * 64;
}

/// Vectors of half as many, by AVX-VNNI's form of the instruction.
__attribute__((target("avx2,avxvnni"))) double multiplyQuads256() {
  using Vector __attribute__((vector_size(32))) = int;
  using Bytes __attribute__((vector_size(32))) = char;
  constexpr int steps = 20000, chains = 12;
  Bytes x = {}, y = {};
  Vector sums[chains] = {};
  asm volatile("" : "+m"(x), "+m"(y)); // not known to be zero
  for (int step = 0; step < steps; ++step)
#pragma unroll
    for (Vector &sum : sums)
      asm("%{vex%} vpdpbusd %2, %1, %0" : "+x"(sum) : "x"(x), "x"(y));
  asm volatile("" : : "m"(sums)); // used
  return 2.0 * steps * chains * 32;
}

/// The same by pairs, of which one factor gets the other's signs.
__attribute__((target("avx2"))) double multiplyQuadsByPairs() {
  using Vector __attribute__((vector_size(32))) = int;
  using Shorts __attribute__((vector_size(32))) = short;
  using Bytes __attribute__((vector_size(32))) = char;
  constexpr int steps = 20000, chains = 8;
  Bytes x = {}, y = {};
  Shorts ones = {};
  Vector sums[chains] = {};
  asm volatile("" : "+m"(x), "+m"(y), "+m"(ones)); // not known to be zero
  for (int step = 0; step < steps; ++step)
#pragma unroll
    for (Vector &sum : sums) {
      Vector product;
      asm("vpsignb %3, %2, %1\n\t"
          "vpmaddubsw %1, %3, %1\n\t"
          "vpmaddwd %4, %1, %1\n\t"
          "vpaddd %1, %0, %0"
          : "+x"(sum), "=&x"(product)
          : "x"(x), "x"(y), "x"(ones));
    }
  asm volatile("" : : "m"(sums)); // used
  return 2.0 * steps * chains * 32;
}

/// Makes all eight tiles zeros, of 16 rows of 64 bytes (the palette of AMX).
__attribute__((target("amx-tile"))) void shapeTiles() {
  alignas(64) std::array<uint8_t, 64> shape{};
  shape[0] = 1;
  for (size_t tile = 0; tile < 8; ++tile) {
    shape[16 + 2 * tile] = 64;
    shape[48 + tile] = 16;
  }
  __builtin_ia32_tile_loadconfig(shape.data());
}

/// Four sums of 16 x 16, in tiles, of products of 16 x 32 by 32 x 16 bf16.
__attribute__((target("amx-tile,amx-bf16"))) double multiplyTiles() {
  constexpr int steps = 2000, sums = 4;
  shapeTiles();
  for (int step = 0; step < steps; ++step) {
    __builtin_ia32_tdpbf16ps(0, 4, 6);
    __builtin_ia32_tdpbf16ps(1, 4, 7);
    __builtin_ia32_tdpbf16ps(2, 5, 6);
    __builtin_ia32_tdpbf16ps(3, 5, 7);
  }
  __builtin_ia32_tilerelease();
  return 2.0 * steps * sums * 16 * 16 * 32;
}

/// The same, of products of 16 x 64 by 64 x 16 integers.
__attribute__((target("amx-tile,amx-int8"))) double multiplyIntegerTiles() {
  constexpr int steps = 2000, sums = 4;
  shapeTiles();
  for (int step = 0; step < steps; ++step) {
    __builtin_ia32_tdpbsud(0, 4, 6);
    __builtin_ia32_tdpbsud(1, 4, 7);
    __builtin_ia32_tdpbsud(2, 5, 6);
    __builtin_ia32_tdpbsud(3, 5, 7);
  }
  __builtin_ia32_tilerelease();
  return 2.0 * steps * sums * 16 * 16 * 64;
}
#endif

#if defined(__aarch64__)
/// Vectors of 8 bf16: the products of neighbours are added to a lane of f32.
__attribute__((target("bf16"))) double multiplyPairs() {
  using Vector __attribute__((vector_size(16))) = float;
  constexpr int steps = 20000, chains = 24;
  Vector x = {}, y = {}, sums[chains] = {};
  asm volatile("" : "+m"(x), "+m"(y)); // not known to be zero
  for (int step = 0; step < steps; ++step)
#pragma unroll
    for (Vector &sum : sums)
      asm("bfdot %0.4s, %1.8h, %2.8h" : "+w"(sum) : "w"(x), "w"(y));
  asm volatile("" : : "m"(sums)); // used
  return 2.0 * steps * chains * 8;
}

/// Vectors of 16 integers: the products of four neighbours are added to a lane
/// of i32.
__attribute__((target("dotprod"))) double multiplyQuads() {
  using Vector __attribute__((vector_size(16))) = int;
  constexpr int steps = 20000, chains = 24;
  Vector x = {}, y = {}, sums[chains] = {};
  asm volatile("" : "+m"(x), "+m"(y)); // not known to be zero
  for (int step = 0; step < steps; ++step)
#pragma unroll
    for (Vector &sum : sums)
      asm("sdot %0.4s, %1.16b, %2.16b" : "+w"(sum) : "w"(x), "w"(y));
  asm volatile("" : : "m"(sums)); // used
  return 2.0 * steps * chains * 16;
}
#endif

/// Those for the instructions that every processor of this kind has.
using Plain = Loops<4, 12>;

Kernels chooseKernels() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f"))
    return {multiplyAdds512, readAll512, addToAll512};
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    return {multiplyAdds256, readAll256, addToAll256};
#endif
  return {[] { return Plain::multiplyAdds(); },
          [](const float *data, size_t count) {
            return Plain::readAll(data, count);
          },
          [](float *data, size_t count) { Plain::addToAll(data, count); }};
}

const Kernels &kernels() {
  static const Kernels chosen = chooseKernels();
  return chosen;
}

/// What the threads of a pool share while they pass over memory.
struct Pass {
  float *data;
  size_t count;
  std::pair<float *, size_t> piece(int64_t index, int64_t pieces) const {
    size_t part = count / static_cast<size_t>(pieces);
    return {data + part * static_cast<size_t>(index), part};
  }
};

/// Seconds of one call on all threads, the best of `times`.
double best(ThreadPool &pool, void (*work)(void *, tfm_thread *), void *context,
            int times) {
  double seconds = 1e30;
  for (int i = 0; i < times; ++i) {
    double start = now();
    pool.run(work, context);
    seconds = std::min(seconds, now() - start);
  }
  return seconds;
}

} // namespace

MultiplyAdds multiplyAdds(std::string_view products) {
  if (products == TFM_PRODUCTS_F32)
    return kernels().multiplyAdds;
#if defined(__x86_64__)
  if (products == TFM_PRODUCTS_BF16_PAIRS &&
      missingFeatures("avx512f,avx512bf16").empty())
    return multiplyPairs;
  if (products == TFM_PRODUCTS_BF16_TILES &&
      missingFeatures("amx-tile,amx-bf16").empty())
    return multiplyTiles;
  if (products == TFM_PRODUCTS_INT8_QUADS &&
      missingFeatures("avx512f,avx512vnni").empty())
    return multiplyQuads;
  if (products == TFM_PRODUCTS_INT8_QUADS &&
      missingFeatures("avx2,avxvnni").empty())
    return multiplyQuads256;
  if (products == TFM_PRODUCTS_INT8_PAIRS && missingFeatures("avx2").empty())
    return multiplyQuadsByPairs;
  if (products == TFM_PRODUCTS_INT8_TILES &&
      missingFeatures("amx-tile,amx-int8").empty())
    return multiplyIntegerTiles;
#elif defined(__aarch64__)
  if (products == TFM_PRODUCTS_BF16_PAIRS && missingFeatures("bf16").empty())
    return multiplyPairs;
  if (products == TFM_PRODUCTS_INT8_QUADS && missingFeatures("dotprod").empty())
    return multiplyQuads;
#endif
  return nullptr;
}

float readAll(const float *data, size_t count) {
  return kernels().readAll(data, count);
}

void addToAll(float *data, size_t count) { kernels().addToAll(data, count); }

PeakMeter::PeakMeter(ThreadPool &pool,
                     const std::vector<std::string_view> &products,
                     size_t reading)
    : pool(pool) {
  measureToo(products);
  for (const Peak &peak : all)
    if (!multiplyAdds(peak.products))
      throw std::logic_error("this machine does not compute products of " +
                             std::string(peak.products));
  auto limit = [](long value) {
    return static_cast<size_t>(std::max(value, 0L));
  };
  size_t lastLevel = 0;
#if defined(_SC_LEVEL3_CACHE_SIZE)
  lastLevel = limit(sysconf(_SC_LEVEL3_CACHE_SIZE));
#endif
  // The model's arena is there, too.
  size_t bytes = std::min(
      {std::max(2 * lastLevel, size_t{256} << 20), size_t{1} << 30,
       std::max(static_cast<size_t>(memoryLimit() / 4), size_t{1} << 20)});
  void *mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED)
    throw std::bad_alloc();
  (void)madvise(mapped, bytes, MADV_HUGEPAGE); // only a hint
  memory = static_cast<float *>(mapped);
  count = bytes / sizeof(float);
  readCount = std::clamp(reading / sizeof(float), size_t{1}, count);
  measure();
}

PeakMeter::~PeakMeter() { munmap(memory, count * sizeof(float)); }

void PeakMeter::measure() {
  Pass pass = {memory, count};
  auto bytes = static_cast<double>(count) * sizeof(float);
  double added = best(
      pool,
      [](void *context, tfm_thread *thread) {
        for (int64_t i; (i = thread->claim(thread)) >= 0;) {
          auto [data, size] =
              static_cast<Pass *>(context)->piece(i, thread->count);
          addToAll(data, size);
        }
      },
      &pass, 2);
  auto readPass = [&](Pass pass) {
    double seconds = best(
        pool,
        [](void *context, tfm_thread *thread) {
          for (int64_t i; (i = thread->claim(thread)) >= 0;) {
            auto [data, size] =
                static_cast<Pass *>(context)->piece(i, thread->count);
            volatile float sum = readAll(data, size);
            (void)sum;
          }
        },
        &pass, 2);
    return static_cast<double>(pass.count) * sizeof(float) / seconds;
  };
  double read = readPass(pass);
  bestBandwidth = std::max({bestBandwidth, read, 2 * bytes / added});
  bestReading = std::max(
      bestReading, readCount == count ? read : readPass({memory, readCount}));
  struct Work {
    MultiplyAdds run;
    double operations;
  };
  for (Peak &peak : all) {
    Work work = {multiplyAdds(peak.products), 0.0};
    double multiplied = best(
        pool,
        [](void *context, tfm_thread *thread) {
          auto *work = static_cast<Work *>(context);
          for (int64_t i; (i = thread->claim(thread)) >= 0;) {
            double done = work->run();
            if (i == 0)
              work->operations = done;
          }
        },
        &work, 50);
    peak.flops =
        std::max(peak.flops, work.operations * pool.count() / multiplied);
  }
}

void Peaks::measureToo(const std::vector<std::string_view> &products) {
  all.push_back({TFM_PRODUCTS_F32, 0.0});
  for (std::string_view kind : products)
    if (std::ranges::find(all, kind, &Peak::products) == all.end())
      all.push_back({kind, 0.0});
}

double Peaks::flops(std::string_view products) const {
  return std::ranges::find(all, products, &Peak::products)->flops;
}

Peaks::Share Peaks::share(double secondsAtPeak, double bytes,
                          double seconds) const {
  double ofPeak = secondsAtPeak / seconds;
  double ofBandwidth = bytes / seconds / bestBandwidth;
  return {std::max(ofPeak, ofBandwidth), ofPeak >= ofBandwidth};
}

} // namespace tfm
