//===- StateFuzzer.cpp - a state.json that is nearly right --------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

// The input is the state of a run. It is refused with a message, or can be
// written again, and then read as the same.
//
//===----------------------------------------------------------------------===//

#include "runtime/files/run_state.h"
#include "runtime/support/checksum.h"
#include "runtime/support/error.h"
#include "tests/fuzz/runtime/JsonMutator.h"
#include "tests/fuzz/support/TimeLimit.h"

#include <cstdlib>

using namespace tfm::fuzz;

namespace {

constexpr const char *keys[] = {"format",
                                "model",
                                "step",
                                "steps",
                                "seed",
                                "data_position",
                                "lr",
                                "precision",
                                "optimizer",
                                "tokens",
                                "log_bytes",
                                "best_validation",
                                "worse_validations",
                                "checksums",
                                "model.safetensors",
                                "optimizer.safetensors",
                                "log.jsonl",
                                "checksum"};

/// With the checksum of what stands before it, so that its values are read.
std::string sign(std::string_view text) {
  Json state = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!state.is_object() || state.empty())
    return std::string(text);
  state.erase("checksum");
  std::string content =
      state.dump(2, ' ', false, Json::error_handler_t::replace);
  content.resize(content.size() - 2); // the last line end and brace
  return content + ",\n  \"checksum\": \"" + tfm::checksumOf(content) +
         "\"\n}\n";
}

} // namespace

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size,
                                          size_t limit, unsigned seed) {
  Dice dice(seed);
  std::string text =
      mutateJson({reinterpret_cast<const char *>(data), size}, dice, keys);
  if (!dice.oneIn(4))
    text = sign(text);
  return handOver(text, data, size, limit);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  TimeLimit limit(2);
  tfm::RunState state;
  try {
    state = tfm::parseState({reinterpret_cast<const char *>(data), size}, "s");
  } catch (const tfm::InputError &) {
    return 0; // What a user sees as a message.
  }
  if (state.step < 0 || state.steps < state.step || state.tokens < 0 ||
      !(state.lr >= 0) || state.worseValidations < 0)
    std::abort();
  std::string text = tfm::stateText(state);
  if (tfm::stateText(tfm::parseState(text, "s")) != text)
    std::abort();
  return 0;
}
