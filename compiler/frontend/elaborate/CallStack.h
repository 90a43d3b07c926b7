//===- CallStack.h - which calls led here -----------------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_FRONTEND_ELABORATE_CALLSTACK_H
#define TFM_FRONTEND_ELABORATE_CALLSTACK_H

#include "compiler/frontend/Diagnostics.h"

#include <string>
#include <vector>

namespace tfm {

struct Node;

/// A call of a method or a function, or an instance that is being made: what
/// notes on errors say of where they occur.
struct Call {
  /// `SelfAttention.forward`.
  std::string what;
  /// The instance, or null for a function.
  Node *node;
  /// Where it is called.
  Range range;
};

/// The calls that are running, innermost last.
using CallStack = std::vector<Call>;

} // namespace tfm

#endif // TFM_FRONTEND_ELABORATE_CALLSTACK_H
