//===- Sharing.h - what processes share of an update ------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_SCHEDULE_SHARING_H
#define TFM_SCHEDULE_SHARING_H

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/DenseMap.h"
#include <vector>

namespace tfm {

/// When a call of `@train` has to do with something of the parameters, in runs
/// of steps from its beginning, and whether anybody has.
struct ParameterUse {
  /// Behind the last run that touches its gradient.
  int64_t gradientDone = 0;
  /// The first run that reads its value, or the copy of it; behind the last run
  /// where none does.
  int64_t valueUsed = 0;
  /// Whether anything but updates and what makes copies reads the value itself,
  /// and whether anything reads the copy.
  bool readsValue = false, readsCopy = false;
};

/// Of each layer of each parameter, by its offset in the parameters' region.
/// Empty where nothing is trained. (Signed offsets would not be mixed where
/// they are hashed, and those of large tensors are all multiples of powers of
/// two.)
llvm::DenseMap<uint64_t, ParameterUse> parameterUses(mlir::ModuleOp schedule);

/// A block of rows (`regionRow`) that one of the processes updates.
struct SharedBlock {
  int64_t firstRow, rows;
  ParameterUse use;
};

/// All blocks, as `SharedUpdate` of the runtime has them: in the order in which
/// their gradients are done; block i belongs to process i % N. Empty where
/// processes share no update.
std::vector<SharedBlock> sharedBlocks(mlir::ModuleOp schedule);

} // namespace tfm

#endif // TFM_SCHEDULE_SHARING_H
