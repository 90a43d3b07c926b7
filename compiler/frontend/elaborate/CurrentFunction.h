//===- CurrentFunction.h - the function being emitted -----------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_FRONTEND_ELABORATE_CURRENTFUNCTION_H
#define TFM_FRONTEND_ELABORATE_CURRENTFUNCTION_H

#include "compiler/frontend/Diagnostics.h"

#include <optional>

namespace tfm {

/// What functions of the language ask of the function that is being emitted,
/// and leave there.
struct CurrentFunction {
  /// Whether it is a loss: dropout is emitted, and numbers are drawn.
  bool training = false;
  /// Whether it is checked without a model: a loss might call it.
  bool isAlone = false;
  /// The number of the next place with dropout, or where numbers are drawn.
  int64_t nextSite = 0;
  /// A call of `attention` in `forward` by which every position sees all others
  /// of the model's sequence, outside of std.
  std::optional<Range> looksAhead;
  /// Whether there is causal attention, of which generation keeps the keys and
  /// values of earlier tokens.
  bool keepsKeys = false;
};

} // namespace tfm

#endif // TFM_FRONTEND_ELABORATE_CURRENTFUNCTION_H
