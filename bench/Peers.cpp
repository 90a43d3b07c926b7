//===- Peers.cpp - matrix products of other libraries, where installed ----===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "bench/Peers.h"
#include <cstdlib>
#include <dlfcn.h>

using namespace tfm::bench;

bool tfm::bench::openblas(const Product &p, int64_t threads) {
  using Gemm = void (*)(int, int, int, int, int, int, float, const void *, int,
                        const void *, int, float, float *, int);
  using SetThreads = void (*)(int);
  // Loaded here and not linked, because it reads its environment when loaded.
  static void *library = [] {
    if (__builtin_cpu_supports("avx512f"))
      ::setenv("OPENBLAS_CORETYPE", "SkylakeX", /*overwrite=*/0);
    return ::dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
  }();
  if (!library)
    return false;
  static auto gemm = reinterpret_cast<Gemm>(::dlsym(library, "cblas_sgemm"));
  static auto setThreads = reinterpret_cast<SetThreads>(
      ::dlsym(library, "openblas_set_num_threads"));
  if (!gemm || !setThreads || p.isBf16)
    return false;
  setThreads(static_cast<int>(threads));
  constexpr int rowMajor = 101, plain = 111, transposed = 112;
  int m = static_cast<int>(p.m), n = static_cast<int>(p.n),
      k = static_cast<int>(p.k);
  gemm(rowMajor, p.transposeA ? transposed : plain,
       p.transposeB ? transposed : plain, m, n, k, 1.0f, p.a,
       p.transposeA ? m : k, p.b, p.transposeB ? k : n, 0.0f, p.c, n);
  return true;
}

bool tfm::bench::onednn(const Product &p, int64_t threads) {
  using Gemm =
      int (*)(char, char, int64_t, int64_t, int64_t, float, const void *,
              int64_t, const void *, int64_t, float, float *, int64_t);
  using SetThreads = void (*)(int);
  static void *library = ::dlopen("libdnnl.so.2", RTLD_NOW | RTLD_LOCAL);
  if (!library)
    return false;
  static auto single = reinterpret_cast<Gemm>(::dlsym(library, "dnnl_sgemm"));
  static auto half =
      reinterpret_cast<Gemm>(::dlsym(library, "dnnl_gemm_bf16bf16f32"));
  Gemm gemm = p.isBf16 ? half : single;
  // oneDNN's threads are OpenMP's.
  static auto setThreads =
      reinterpret_cast<SetThreads>(::dlsym(library, "omp_set_num_threads"));
  if (!gemm || !setThreads)
    return false;
  setThreads(static_cast<int>(threads));
  return gemm(p.transposeA ? 'T' : 'N', p.transposeB ? 'T' : 'N', p.m, p.n, p.k,
              1.0f, p.a, p.transposeA ? p.m : p.k, p.b,
              p.transposeB ? p.k : p.n, 0.0f, p.c, p.n) == 0;
}
