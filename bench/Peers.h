//===- Peers.h - matrix products of other libraries -------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_BENCH_PEERS_H
#define TFM_BENCH_PEERS_H

#include <cstdint>

namespace tfm::bench {

/// C [m, n] = A B with row-major operands; A is [k, m] where `transposeA`, B is
/// [n, k] where `transposeB`. Both are f32, or both bf16.
struct Product {
  bool transposeA, transposeB, isBf16;
  int64_t m, n, k;
  const void *a, *b;
  float *c;
};

/// False where the library is not installed (Debian: libopenblas0, libdnnl2) or
/// has no such product.
/// OpenBLAS runs with OPENBLAS_CORETYPE=SkylakeX on AVX-512, which older
/// versions do not choose by themselves on new CPUs.
bool openblas(const Product &product, int64_t threads);
bool onednn(const Product &product, int64_t threads);

} // namespace tfm::bench

#endif // TFM_BENCH_PEERS_H
