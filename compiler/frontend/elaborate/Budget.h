//===- Budget.h - what elaborating may cost ---------------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_FRONTEND_ELABORATE_BUDGET_H
#define TFM_FRONTEND_ELABORATE_BUDGET_H

#include "compiler/frontend/Diagnostics.h"

namespace tfm {

struct Compilation;
class Reporter;

/// The one account that whatever is evaluated, called, visited or emitted takes
/// steps off, so that elaborating ends whatever a file says.
class Budget {
public:
  Budget(Compilation &compilation, const Diagnostics &diags, Reporter &reporter)
      : compilation(compilation), diags(diags), reporter(reporter) {}

  /// Takes `steps` off: every expression that is evaluated is a step or more,
  /// and so is every value of a list, layer and formula that is visited. False,
  /// after one error (E0512), where none are left, and where no further error
  /// would be kept: then everything is poison at once, nothing is called and no
  /// instance is made.
  bool spend(size_t steps, Range range);
  /// No more instances are made, and nothing is called: modules contain or
  /// functions call themselves, or expressions nest too deeply.
  void stop() { stopped = true; }
  bool isStopped() const { return stopped; }

private:
  Compilation &compilation;
  const Diagnostics &diags;
  Reporter &reporter;
  bool stopped = false;
};

} // namespace tfm

#endif // TFM_FRONTEND_ELABORATE_BUDGET_H
