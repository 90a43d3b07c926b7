//===- sampler.cpp - choosing a token among a vocabulary ------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What a choice takes beside computing the logits, for the vocabularies of
// GPT-2 (50,257 tokens) and Llama 3 (128,256). Logits fall with the logarithm
// of their rank, as words do (Zipf), so that a few tokens have most of the
// probability; `flat` ones are nearly equal, as those of an untrained model.
// One thread.
//
//===----------------------------------------------------------------------===//

#include "runtime/generation/sampler.h"

#include <benchmark/benchmark.h>
#include <random>

using namespace tfm;

namespace {

std::vector<float> logitsOf(int64_t vocabulary, bool flat) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0, flat ? 0.2f : 1.0f);
  std::vector<float> logits(static_cast<size_t>(vocabulary));
  for (size_t rank = 0; rank < logits.size(); ++rank)
    logits[rank] =
        normal(random) -
        (flat ? 0.0f : 1.5f * std::log(static_cast<float>(rank + 1)));
  std::ranges::shuffle(logits, random);
  return logits;
}

void choose(benchmark::State &state, const SamplerOptions &options,
            bool flat = false) {
  std::vector<float> logits = logitsOf(state.range(0), flat);
  Sampler sampler(options, state.range(0));
  std::vector<int32_t> history = {1, 2, 3};
  double uniform = 0.1;
  for (auto _ : state) {
    benchmark::DoNotOptimize(sampler.sample(logits, history, uniform));
    uniform = uniform > 0.8 ? 0.1 : uniform + 0.01;
  }
  state.counters["kept"] = static_cast<double>(sampler.kept().size());
}

void logprobs(benchmark::State &state) {
  std::vector<float> logits = logitsOf(state.range(0), /*flat=*/false);
  Chances chances(state.range(0));
  std::vector<TokenChance> found;
  for (auto _ : state) {
    found.clear();
    chances.append(logits, 1, 5, found);
    benchmark::DoNotOptimize(found.data());
  }
}

void vocabularies(benchmark::internal::Benchmark *benchmark) {
  benchmark->Arg(50257)->Arg(128256)->Unit(benchmark::kMicrosecond);
}

BENCHMARK_CAPTURE(choose, greedy, {.greedy = true})->Apply(vocabularies);
BENCHMARK_CAPTURE(choose, temperature, {.temperature = 0.8})
    ->Apply(vocabularies);
BENCHMARK_CAPTURE(choose, top_k, {.temperature = 0.8, .topK = 40})
    ->Apply(vocabularies);
BENCHMARK_CAPTURE(choose, top_k_penalty, {.repeatPenalty = 1.1, .topK = 40})
    ->Apply(vocabularies);
BENCHMARK_CAPTURE(choose, top_p, {.topP = 0.95})->Apply(vocabularies);
BENCHMARK_CAPTURE(choose, top_p_flat, {.topP = 0.95}, true)
    ->Apply(vocabularies);
BENCHMARK_CAPTURE(choose, min_p, {.minP = 0.05})->Apply(vocabularies);
BENCHMARK_CAPTURE(choose, typical_p, {.typicalP = 0.95})->Apply(vocabularies);
BENCHMARK(logprobs)->Apply(vocabularies);

} // namespace

BENCHMARK_MAIN();
