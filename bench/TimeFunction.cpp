//===- TimeFunction.cpp - a compiled function against the clock -----------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "bench/TimeFunction.h"

#include "runtime/support/progress.h"
#include <algorithm>

using namespace tfm;

double bench::timeFunction(benchmark::State &state, Crew &crew, Model &model,
                           const tfm_function &function, double flops,
                           const std::function<void()> &prepare) {
  prepare();
  model.run(function);
  double best = 1e30;
  for (auto _ : state) {
    prepare();
    double start = now();
    model.run(function);
    double seconds = now() - start;
    best = std::min(best, seconds);
    state.SetIterationTime(seconds);
  }
  double bytes = 0;
  for (int32_t i = 0; i < function.launch_count; ++i)
    bytes += static_cast<double>(function.launches[i].bytes *
                                 function.launches[i].runs);
  crew.peak.measure();
  state.counters["GFLOPs"] = flops / best / 1e9;
  state.counters["GBs"] = bytes / best / 1e9;
  state.counters["ofPeak"] = flops / best / crew.peak.flops();
  state.counters["ofMemory"] = bytes / best / crew.peak.bandwidth();
  return best;
}
