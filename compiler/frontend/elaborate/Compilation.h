//===- Compilation.h - what the checks of one file share --------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_FRONTEND_ELABORATE_COMPILATION_H
#define TFM_FRONTEND_ELABORATE_COMPILATION_H

#include "compiler/frontend/elaborate/InstanceTree.h"
#include "compiler/frontend/elaborate/Unit.h"

#include <deque>
#include <memory>
#include <vector>

namespace tfm {

/// What elaborating may cost (`Budget`): half a second. Models take some
/// thousands of steps.
inline constexpr size_t maxSteps = size_t{1} << 21;
/// All constants of a model together, with those of all layers, have no more
/// elements.
inline constexpr size_t maxAllConstElements = 1'000'000'000;
/// What computing constants may cost where they are only checked: a step is one
/// operation for one element.
inline constexpr size_t maxConstSteps = size_t{1} << 26;

/// The files of a compilation as they were read (by `UnitReader`), and what it
/// may still cost. Who checks the modules of a file one by one reads and counts
/// once.
struct Compilation {
  std::vector<std::unique_ptr<Unit>> units;
  /// Those of std, once something asked for them.
  std::vector<Unit *> stdUnits;
  bool stdLoaded = false;
  Unit *mainUnit = nullptr;
  /// Of all files and instances.
  std::deque<Const> consts;
  size_t stepsLeft = maxSteps;
  /// Of elements of constants, and of steps to compute those that are only
  /// checked.
  size_t constElementsLeft = maxAllConstElements;
  size_t constStepsLeft = maxConstSteps;

  bool isInStd(uint32_t file) const;
  /// The block of the main file with this keyword; null without one.
  const ast::Block *block(llvm::StringRef keyword) const;
};

} // namespace tfm

#endif // TFM_FRONTEND_ELABORATE_COMPILATION_H
