//===- source_input.h - what an encoder reads -----------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_RUNTIME_DATA_SOURCE_INPUT_H
#define TFM_RUNTIME_DATA_SOURCE_INPUT_H

#include "runtime/data/sources.h"
#include "runtime/model/model.h"

namespace tfm {

/// The inputs of a function for them: `source`, int[B, S], and where the model
/// has it `present`, bool[B, S]: which tokens are there.
class SourceInput {
public:
  explicit SourceInput(const tfm_function &function)
      : ids(Model::findInput(function, TFM_IN_SOURCE)),
        present(Model::findInput(function, TFM_IN_PRESENT)) {}

  /// Whether there is an encoder.
  bool isTaken() const { return ids != nullptr; }
  /// Tokens of a source; 0 without an encoder.
  int64_t length() const { return ids ? ids->shape[1] : 0; }

  /// Fills all rows. Where there are fewer the last ones have some tokens or
  /// other.
  void write(Model &model, const Sources &sources) const;

private:
  const tfm_buffer *ids;
  const tfm_buffer *present;
};

} // namespace tfm

#endif // TFM_RUNTIME_DATA_SOURCE_INPUT_H
