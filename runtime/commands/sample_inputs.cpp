//===- sample_inputs.cpp - inputs to time a function with ---------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/commands/sample_inputs.h"

#include "runtime/philox.h"

#include <algorithm>
#include <stdexcept>

namespace tfm {

static void setNumbers(std::span<float> values, std::string_view name,
                       const tfm_function &function) {
  std::ranges::fill(values, 0.0f);
  if (name == TFM_IN_COUNT) {
    const tfm_buffer &losses = Model::output(function, TFM_OUT_LOSSES);
    values[0] = static_cast<float>(Model::elements(losses.rank, losses.shape));
  }
  if (name == TFM_IN_HYPER)
    values[1] = values[2] = 1.0f;
}

static void setIntegers(std::span<int32_t> values, std::string_view name,
                        const tfm_function &function, int64_t vocabulary,
                        int64_t context) {
  std::ranges::fill(values, 0);
  if (name == TFM_IN_TOKENS || name == TFM_IN_TARGETS)
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = static_cast<int32_t>(
          below(low64(philox(1, {static_cast<uint32_t>(i), 0, 0, 0})),
                static_cast<uint64_t>(vocabulary)));
  // A model that calls its tokens otherwise has them first.
  auto newTokens = [&] {
    const tfm_buffer *tokens = Model::findInput(function, TFM_IN_TOKENS);
    return (tokens ? tokens : function.inputs)->shape[1];
  };
  if (name == TFM_IN_LENGTH) // of a chunk: all of it
    std::ranges::fill(values, static_cast<int32_t>(newTokens()));
  if (name == TFM_IN_POSITION)
    std::ranges::fill(values, static_cast<int32_t>(
                                  std::max<int64_t>(0, context - newTokens())));
}

void setSampleInputs(Model &model, const tfm_function &function,
                     int64_t vocabulary, int64_t context) {
  for (int32_t i = 0; i < function.input_count; ++i) {
    const tfm_buffer &buffer = function.inputs[i];
    switch (buffer.dtype) {
    case TFM_F32:
      setNumbers(model.write<float>(buffer).values(), buffer.name, function);
      continue;
    case TFM_I32:
      setIntegers(model.write<int32_t>(buffer).values(), buffer.name, function,
                  vocabulary, context);
      continue;
    case TFM_U8: // masks: everything is seen
      std::ranges::fill(model.write<uint8_t>(buffer).values(), uint8_t{1});
      continue;
    case TFM_BF16: // of weights alone
    case TFM_I8:
    case TFM_I4:
      break;
    }
    throw std::logic_error("the model's input " + std::string(buffer.name) +
                           " has a type that this runtime does not know");
  }
}

} // namespace tfm
