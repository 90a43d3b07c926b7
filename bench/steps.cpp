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
#include "bench/TimeFunction.h"
#include "runtime/commands/sample_inputs.h"
#include "runtime/training/initialise.h"
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
  Model model(found->second.descriptor(), crew.device);
  initialise(model, 1);
  const tfm_function &function = model.function(name);
  const tfm_buffer &logits = Model::output(model.function("forward"), "logits");
  int64_t vocabulary = logits.shape[logits.rank - 1];
  const tfm_buffer &tokens = Model::input(model.function("forward"), "tokens");
  int64_t context = tokens.shape[1];
  double best = timeFunction(
      state, crew, model, function, static_cast<double>(function.flops),
      [&] { setSampleInputs(model, function, vocabulary, context); });
  if (const tfm_buffer *taken = Model::findInput(function, "tokens"))
    state.counters["tokens/s"] =
        static_cast<double>(Model::elements(taken->rank, taken->shape)) / best;
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
