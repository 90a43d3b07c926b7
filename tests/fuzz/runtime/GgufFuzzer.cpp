//===- GgufFuzzer.cpp - a gguf file that is nearly right ----------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

// Nothing but InputError may come out of any bytes, as they are and in the
// words of a family.
//
//===----------------------------------------------------------------------===//

#include "runtime/formats/gguf.h"
#include "runtime/support/error.h"
#include "runtime/tokenizer/gguf_tokenizer.h"
#include "runtime/tokenizer/tokenizer.h"
#include "tests/fuzz/support/TimeLimit.h"

#include <cstdlib>
#include <sys/mman.h>
#include <unistd.h>

using namespace tfm::fuzz;

/// With all that a rule for a tensor can say.
static constexpr const char *table = R"({
  "architecture": "llama",
  "harmless": ["general.", "tokenizer."],
  "must": {"heads": {"is": 4, "reason": "so"}},
  "frequencies": {"rope_freqs.weight": {
    "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192}},
  "rows": {"token_embd.weight": "vocab_size"},
  "with": {"blk.0.attn_q.bias": "bias"},
  "without": {"output.weight": "tied"},
  "keys": {"attention.head_count": "heads", "attention.head_count_kv": "groups",
           "attention.key_length": "width", "attention.value_length": "width"},
  "tensors": {
    "blk.*.attn_q.weight": {"name": "q.*", "halves_of": "heads"},
    "blk.*.attn_k.weight": {"name": "k.*", "halves_of": "groups"},
    "blk.*.ffn_up.weight": {"name": "up.*", "transposed": true},
    "blk.*.attn_norm.weight": {"name": "norm.*", "more": -1}}})";

static void readAll(const tfm::GgufReader &reader) {
  for (const auto &[name, entry] : reader.header().tensors) {
    std::vector<float> values(entry.elements());
    reader.readFloats(name, entry, 0, values);
  }
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  TimeLimit limit(2);
  int file = memfd_create("fuzz", 0);
  if (file < 0 || write(file, data, size) != static_cast<ssize_t>(size))
    std::abort();
  const nlohmann::json family = nlohmann::json::parse(table);
  const std::string path = "/proc/self/fd/" + std::to_string(file);
  try {
    tfm::GgufReader reader(path);
    tfm::ggufTokenizerConfig(reader);
    tfm::ggufEndTokens(reader);
    tfm::openGgufTokenizer(reader)->ids("Hello, world! 12\n");
  } catch (const tfm::InputError &) {
    // What a user sees as a message.
  }
  try {
    tfm::GgufReader reader(path);
    readAll(reader);
    reader.config(family);
    reader.rename(family);
    readAll(reader);
  } catch (const tfm::InputError &) {
    // What a user sees as a message.
  }
  close(file);
  return 0;
}
