//===- tokenizer.cpp - megabytes of text per second -----------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Tiny Shakespeare under GPT-2's vocabulary, in one piece and line by line, and
// back; and what it takes to read the vocabulary. One thread.
//
//===----------------------------------------------------------------------===//

#include "runtime/tokenizer/tokenizer.h"
#include "runtime/support/atomic_file.h"
#include "runtime/tokenizer/train_word_bpe.h"

#include <benchmark/benchmark.h>

using namespace tfm;

namespace {

std::string readModelFile(const char *name) {
  return readFile(std::string(TFM_MODELS "/") + name, "the benchmark's file");
}

const std::string &play() {
  static const std::string text = readModelFile("tinyshakespeare.txt");
  return text;
}

TokenizerPtr openGpt2() {
  return makeByteBpeTokenizer({readModelFile("gpt2/vocab.json"), "vocab.json"},
                              {readModelFile("gpt2/merges.txt"), "merges.txt"});
}

const Tokenizer &gpt2() {
  static const TokenizerPtr tokenizer = openGpt2();
  return *tokenizer;
}

void count(benchmark::State &state, size_t bytes) {
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(bytes));
}

void encode(benchmark::State &state) {
  std::vector<int32_t> ids;
  for (auto _ : state) {
    ids.clear();
    gpt2().encode(play(), ids);
    benchmark::DoNotOptimize(ids.data());
  }
  count(state, play().size());
}
BENCHMARK(encode)->Unit(benchmark::kMillisecond);

void encodeLines(benchmark::State &state) {
  std::vector<int32_t> ids;
  for (auto _ : state) {
    ids.clear();
    std::string_view rest = play();
    while (!rest.empty()) {
      size_t end = std::min(rest.find('\n'), rest.size() - 1) + 1;
      gpt2().encode(rest.substr(0, end), ids);
      rest.remove_prefix(end);
    }
    benchmark::DoNotOptimize(ids.data());
  }
  count(state, play().size());
}
BENCHMARK(encodeLines)->Unit(benchmark::kMillisecond);

void decode(benchmark::State &state) {
  std::vector<int32_t> ids = gpt2().ids(play());
  for (auto _ : state)
    benchmark::DoNotOptimize(gpt2().text(ids));
  count(state, play().size());
}
BENCHMARK(decode)->Unit(benchmark::kMillisecond);

void openVocabulary(benchmark::State &state) {
  for (auto _ : state)
    benchmark::DoNotOptimize(openGpt2());
}
BENCHMARK(openVocabulary)->Unit(benchmark::kMillisecond);

void learnWords(benchmark::State &state) {
  for (auto _ : state)
    benchmark::DoNotOptimize(trainWordBpe(play(), state.range(0)));
  count(state, play().size());
}
BENCHMARK(learnWords)->Arg(1000)->Arg(8000)->Unit(benchmark::kMillisecond);

} // namespace

BENCHMARK_MAIN();
