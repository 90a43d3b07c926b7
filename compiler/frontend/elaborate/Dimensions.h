//===- Dimensions.h - what may be the size of an axis -----------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_FRONTEND_ELABORATE_DIMENSIONS_H
#define TFM_FRONTEND_ELABORATE_DIMENSIONS_H

#include "compiler/frontend/elaborate/Blame.h"
#include "compiler/frontend/elaborate/Reporter.h"

namespace tfm {

/// Tensors with more elements, thousands of terabytes, are a mistake: with
/// less, bytes and operations of whole models can still be counted in 64 bits.
inline constexpr double maxElements = 2.5e14;

/// Tensors with more axes are a mistake, too: a `gather` of itself doubles
/// them.
inline constexpr size_t maxRank = 64;

/// Checks sizes of axes, shapes and numbers against what tensors can hold.
class Dimensions {
public:
  Dimensions(const SourceManager &sources, Reporter &reporter, Blame &blame,
             const InstanceTree &tree)
      : sources(sources), reporter(reporter), blame(blame), tree(tree) {}

  /// The size of an axis: an integer of at least 1. Reports E0213, E0602 or
  /// E0704 of what `subject` names (`a dimension of `weight``), with the
  /// hyperparameters that are to blame and where they were set; each of these
  /// once.
  std::optional<Dim> toDimension(const SymbolicValue &value, Range range,
                                 const llvm::Twine &subject);
  /// The hyperparameter `context` is a dimension (`T`) also of a model that has
  /// no table with so many rows.
  void checkContext();
  /// Whether a tensor fits in any memory; reports E0218.
  bool isStorable(llvm::ArrayRef<Dim> dims, Range range,
                  const llvm::Twine &what);
  /// Whether an integer fits in those of tensors; reports E0413.
  bool isTensorInteger(int64_t value, Range range);

private:
  const SourceManager &sources;
  Reporter &reporter;
  Blame &blame;
  const InstanceTree &tree;
};

} // namespace tfm

#endif // TFM_FRONTEND_ELABORATE_DIMENSIONS_H
