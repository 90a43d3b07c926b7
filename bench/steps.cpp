//===- steps.cpp - whole steps of the shipped models ----------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

// Every function of the shipped models (a training step, the update, a forward
// pass, prefill and decode) as the compiler emits them, with the share of the
// peak of multiply-adds or of the bandwidth of memory, whichever limits it,
// both measured in the same run. `./m bench` shows the kernels of each.
//
//   bench_steps [--benchmark_filter=...]

#include "bench/Compiled.h"
#include "bench/Crew.h"
#include "runtime/initialise.h"
#include "runtime/model.h"
#include "runtime/progress.h"
#include <algorithm>
#include <benchmark/benchmark.h>
#include <map>

using namespace tfm;
using namespace tfm::bench;

namespace {

struct Shipped {
  const char *name;
  const char *file;
  std::vector<std::pair<std::string, std::string>> defines;
};

const Shipped models[] = {
    {"addition", "models/addition.tfm", {}},
    {"shakespeare", "models/shakespeare.tfm", {}},
    {"gpt2", "bench/gpt2_train.tfm", {{"drop", "0.0"}}},
};

/// Tokens of which no two neighbours are alike; a step so small that weights
/// stay what they are.
void setInputs(Model &model, const tfm_function &function, int64_t vocabulary) {
  for (int32_t i = 0; i < function.input_count; ++i) {
    const tfm_buffer &buffer = function.inputs[i];
    std::string_view name = buffer.name;
    std::span<int32_t> integers = model.values<int32_t>(buffer);
    std::fill(integers.begin(), integers.end(), 0);
    if (name == "tokens" || name == "targets")
      for (size_t j = 0; j < integers.size(); ++j)
        integers[j] = static_cast<int32_t>(j * 2654435761u %
                                           static_cast<uint64_t>(vocabulary));
    if (name == "length")
      std::fill(
          integers.begin(), integers.end(),
          static_cast<int32_t>(Model::input(function, "tokens").shape[1]));
    if (name == "count")
      model.values<float>(buffer)[0] = 1.0f;
    if (name == "hyper") {
      std::span<float> hyper = model.values<float>(buffer);
      hyper[1] = hyper[2] = 1.0f;
    }
  }
}

void step(benchmark::State &state, const Shipped &shipped, const char *name,
          int threads) {
  static std::map<std::string, Compiled> programs;
  auto found = programs.find(shipped.name);
  if (found == programs.end())
    found =
        programs
            .emplace(shipped.name,
                     Compiled::file(std::string(TFM_SOURCE "/") + shipped.file,
                                    shipped.defines))
            .first;
  Crew &crew = Crew::of(threads);
  Model model(found->second.descriptor(), crew.pool);
  initialise(model, 1);
  const tfm_function &function = model.function(name);
  const tfm_buffer &logits = Model::output(model.function("forward"), "logits");
  int64_t vocabulary = logits.shape[logits.rank - 1];
  setInputs(model, function, vocabulary);
  model.run(function);
  double best = 1e30;
  for (auto _ : state) {
    setInputs(model, function, vocabulary);
    double start = now();
    model.run(function);
    double seconds = now() - start;
    best = std::min(best, seconds);
    state.SetIterationTime(seconds);
  }
  const PeakMeter &peak = crew.peak;
  crew.peak.measure();
  double bytes = 0;
  for (int32_t i = 0; i < function.launch_count; ++i)
    bytes += static_cast<double>(function.launches[i].bytes *
                                 function.launches[i].runs);
  auto flops = static_cast<double>(function.flops);
  if (const tfm_buffer *tokens = Model::findInput(function, "tokens"))
    state.counters["tokens/s"] =
        static_cast<double>(Model::elements(tokens->rank, tokens->shape)) /
        best;
  state.counters["GFLOPs"] = flops / best / 1e9;
  state.counters["ofPeak"] = flops / best / peak.flops();
  state.counters["ofMemory"] = bytes / best / peak.bandwidth();
}

} // namespace

int main(int argc, char **argv) {
  for (const Shipped &shipped : models)
    for (const char *function :
         {"train", "update", "forward", "prefill", "decode"})
      for (int threads : {1, 2})
        benchmark::RegisterBenchmark(
            (std::string(shipped.name) + "/" + function +
             "/threads:" + std::to_string(threads))
                .c_str(),
            [&shipped, function, threads](benchmark::State &state) {
              step(state, shipped, function, threads);
            })
            ->UseManualTime()
            ->MinTime(0.2)
            ->Unit(benchmark::kMicrosecond);
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
