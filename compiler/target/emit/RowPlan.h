//===- RowPlan.h - what a row kernel computes, and when ---------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_TARGET_EMIT_ROWPLAN_H
#define TFM_TARGET_EMIT_ROWPLAN_H

#include "compiler/schedule/SchedDialect.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"

namespace tfm {

/// What the launch of a row kernel computes, sorted by when and how. A row is
/// walked over in passes: what depends on a sum of the whole row comes in the
/// next one.
struct RowPlan {
  /// Nothing to compute: elements are moved, or set.
  RowPlan() = default;
  explicit RowPlan(sched::LaunchOp launch);

  /// Whether an op's result is written at every point.
  bool writesFull(mlir::Operation *op) const {
    return full.contains(op->getResult(0));
  }
  /// Whether one number of a row is written.
  bool writesScalar(mlir::Operation *op) const;
  /// The number of the write of an op's result.
  unsigned numberOf(mlir::Operation *op) const {
    return writeOf.lookup(op->getResult(0));
  }

  llvm::SmallVector<mlir::Operation *> ops;
  llvm::DenseMap<mlir::Operation *, int> passes;
  int lastPass = 0;
  /// Sums and maxima along columns, and into how many chunks they cut the rows;
  /// 0 without any.
  llvm::SmallVector<mlir::Operation *> columnReductions;
  int64_t chunks = 0;

private:
  /// The number of the write of a value, and what is written at every point.
  llvm::DenseMap<mlir::Value, unsigned> writeOf;
  llvm::DenseSet<mlir::Value> full;
};

} // namespace tfm

#endif // TFM_TARGET_EMIT_ROWPLAN_H
