//===- TimeFunction.h - a compiled function against the clock ---*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_BENCH_TIMEFUNCTION_H
#define TFM_BENCH_TIMEFUNCTION_H

#include "bench/Crew.h"
#include "runtime/model/model.h"
#include <benchmark/benchmark.h>
#include <functional>

namespace tfm::bench {

/// Times runs of `function`, each after `prepare`, which does not count, and
/// reports of the fastest: operations (`GFLOPs`) and the bytes of all tensors
/// (`GBs`) a second, and the shares that they are of the peak of multiply-adds
/// (`ofPeak`) and of the bandwidth of memory (`ofMemory`), measured beside it.
/// Returns the seconds of the fastest run.
double timeFunction(benchmark::State &state, Crew &crew, Model &model,
                    const tfm_function &function, double flops,
                    const std::function<void()> &prepare);

} // namespace tfm::bench

#endif // TFM_BENCH_TIMEFUNCTION_H
