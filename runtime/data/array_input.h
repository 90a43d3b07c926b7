//===- array_input.h - what an array fills --------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_RUNTIME_DATA_ARRAY_INPUT_H
#define TFM_RUNTIME_DATA_ARRAY_INPUT_H

#include "runtime/recipe.h"
#include "runtime/tfm_model.h"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tfm {

/// An input of a function that the array of its name fills, whose first axis
/// counts the examples.
struct ArrayInput {
  std::string name;
  tfm_dtype type;                 ///< TFM_F32, TFM_I32 or TFM_U8
  std::vector<int64_t> shape;     ///< that of one example
  std::vector<std::string> words; ///< what the model's text calls its axes
  /// Of what chooses rows of tables or logits the first and the last that has
  /// one.
  std::optional<std::array<int64_t, 2>> ids = {};
  /// Beside these the one that stands where no target counts.
  std::optional<int64_t> ignored = {};
};

/// Those of a function, in its order: all but what a step has of its own.
std::vector<ArrayInput> arrayInputsOf(const tfm_function &function,
                                      const Recipe &recipe);

/// Whether data is arrays, which need no tokenizer.
bool holdsArrays(const DataSpec &data);

/// `float32`, as NumPy calls what an input is best written as.
const char *numpyType(tfm_dtype type);

} // namespace tfm

#endif // TFM_RUNTIME_DATA_ARRAY_INPUT_H
