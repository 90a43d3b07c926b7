//===- sample_inputs.cpp - inputs to time a function with ---------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/commands/sample_inputs.h"

#include "runtime/philox.h"

#include <algorithm>

namespace tfm {

void setSampleInputs(Model &model, const tfm_function &function,
                     int64_t vocabulary) {
  for (int32_t i = 0; i < function.input_count; ++i) {
    const tfm_buffer &buffer = function.inputs[i];
    std::string_view name = buffer.name;
    std::span<int32_t> integers = model.values<int32_t>(buffer);
    std::fill(integers.begin(), integers.end(), 0);
    if (name == "tokens" || name == "targets")
      for (size_t j = 0; j < integers.size(); ++j)
        integers[j] = static_cast<int32_t>(
            below(low64(philox(1, {static_cast<uint32_t>(j), 0, 0, 0})),
                  static_cast<uint64_t>(vocabulary)));
    if (name == "length") // of a chunk: all of it
      std::fill(
          integers.begin(), integers.end(),
          static_cast<int32_t>(Model::input(function, "tokens").shape[1]));
    if (name == "count") {
      const tfm_buffer &targets = Model::input(function, "targets");
      model.values<float>(buffer)[0] =
          static_cast<float>(Model::elements(targets.rank, targets.shape));
    }
    if (name == "hyper") {
      std::span<float> hyper = model.values<float>(buffer);
      hyper[1] = hyper[2] = 1.0f;
    }
  }
}

} // namespace tfm
