//===- ReverseSweep.h - reverse-mode differentiation of a block -*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_DIALECT_REVERSESWEEP_H
#define TFM_DIALECT_REVERSESWEEP_H

#include "compiler/dialect/TfmDialect.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"

namespace tfm {

/// Reverse-mode differentiation of straight-line code (Griewank and Walther
/// 2008, chapter 3): activates the values that derivatives are wanted of,
/// propagates activity forwards, seeds the cotangents of the block's results
/// and sweeps its ops from the last to the first.
///
/// The sweep builds its ops at the builder's insertion point, which may lie in
/// another block; they use values of the swept block directly.
class ReverseSweep {
public:
  explicit ReverseSweep(mlir::OpBuilder &builder) : builder(builder) {}

  /// Asks for the derivative with respect to `value`; no effect unless it is a
  /// float.
  void activate(mlir::Value value);
  /// Marks every float of `block` that depends on an active value, unless the
  /// gradient is stopped on the way.
  void propagateActivity(mlir::Block &block);
  bool isActive(mlir::Value value) const { return active.contains(value); }

  /// Adds `cotangent` to the cotangent of `value`.
  void accumulate(mlir::Value value, mlir::Value cotangent);
  /// Sweeps every op of `block` but its terminator. A `tfm.repeat` may be
  /// replaced by one with further results (see `differentiateRepeat`). Fails
  /// where one that is reached has no derivative.
  llvm::LogicalResult run(mlir::Block &block);
  /// The cotangent of `value`, null where it is zero.
  mlir::Value cotangent(mlir::Value value) const {
    return cotangents.lookup(value);
  }

private:
  mlir::OpBuilder &builder;
  llvm::DenseSet<mlir::Value> active;
  llvm::DenseMap<mlir::Value, mlir::Value> cotangents;
};

/// The derivative of `op`: a repeat of the same layers in reversed order.
///
/// `cotangents` has one value per result of `op` or null; `wanted` says per
/// operand whether its cotangent is asked for; those that are not stay null.
///
/// What the derivative needs of the forward layers is saved: `op` is replaced
/// by a repeat that also yields those values, stacked. `op` itself stays behind
/// without uses. Fails where one of its ops does.
llvm::FailureOr<Cotangents> differentiateRepeat(mlir::OpBuilder &builder,
                                                RepeatOp op,
                                                mlir::ValueRange cotangents,
                                                llvm::ArrayRef<bool> wanted);

/// Erases the ops of `block` whose results are not used, and of an attention's
/// derivative the gradient of its mask where that is not.
void eraseDeadOps(mlir::Block &block);

} // namespace tfm

#endif // TFM_DIALECT_REVERSESWEEP_H
