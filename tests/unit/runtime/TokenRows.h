//===- TokenRows.h - rows of a function that takes tokens alone -----------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_TESTS_UNIT_RUNTIME_TOKENROWS_H
#define TFM_TESTS_UNIT_RUNTIME_TOKENROWS_H

#include "runtime/data/rows.h"

#include <vector>

namespace tfm {

/// `tokens` and `targets`, [batch, sequence].
class TokenRows {
public:
  TokenRows(int64_t batch, int64_t sequence)
      : shape{batch, sequence},
        inputs{buffer(TFM_IN_TOKENS), buffer(TFM_IN_TARGETS)},
        output(buffer(TFM_OUT_LOSSES)), rows(function(), batch) {}
  TokenRows(const TokenRows &) = delete;

  operator Rows &() { return rows; }
  /// Of all rows.
  const std::vector<int32_t> &tokens() { return values(0); }
  const std::vector<int32_t> &targets() { return values(1); }

private:
  tfm_buffer buffer(const char *name) {
    tfm_buffer made = {};
    made.name = name;
    made.dtype = name == std::string_view(TFM_OUT_LOSSES) ? TFM_F32 : TFM_I32;
    made.rank = 2;
    made.shape = shape;
    return made;
  }
  tfm_function function() const {
    tfm_function made = {};
    made.input_count = 2;
    made.inputs = inputs;
    made.output_count = 1;
    made.outputs = &output;
    return made;
  }
  const std::vector<int32_t> &values(size_t input) {
    return std::get<std::vector<int32_t>>(rows.inputs()[input].values);
  }

  int64_t shape[2];
  tfm_buffer inputs[2], output;
  Rows rows;
};

} // namespace tfm

#endif // TFM_TESTS_UNIT_RUNTIME_TOKENROWS_H
