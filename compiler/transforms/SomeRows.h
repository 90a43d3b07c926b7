//===- SomeRows.h - what ops compute of some rows ---------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_TRANSFORMS_SOMEROWS_H
#define TFM_TRANSFORMS_SOMEROWS_H

#include "compiler/dialect/AxisMap.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/DenseMap.h"

namespace tfm {

/// Computes of some rows what ops compute of all, where each row of a result
/// depends on that row alone of what has rows. A row is an index into the
/// `axes` in front of such a tensor; some of them stand in the last of these
/// axes that is not 1, and the others are 1.
class SomeRows {
public:
  /// `rows` `[count]` says which, in row-major order.
  SomeRows(mlir::OpBuilder &builder, llvm::ArrayRef<int64_t> axes,
           mlir::Value rows);

  /// Whether a tensor has all rows in front.
  bool hasRows(mlir::RankedTensorType type) const;
  /// Such a tensor as a table, which has them on one axis.
  static mlir::RankedTensorType tableOf(mlir::RankedTensorType type,
                                        llvm::ArrayRef<int64_t> axes);
  /// Takes these rows of `table`, and has them stand for `value`.
  void take(mlir::Value value, mlir::Value table);
  /// Has `whole`, which has no rows, stand for `value`.
  void use(mlir::Value value, mlir::Value whole) { values.map(value, whole); }
  /// What stands for `value`, with what it is computed of in its block; null
  /// where its rows do not come of rows alone, or there are none in it.
  mlir::Value compute(mlir::Value value);

private:
  using Places = llvm::SmallVector<AxisPlace>;

  bool clone(mlir::Operation *op);
  mlir::Value operandFor(mlir::Operation *op, mlir::Value operand,
                         const Places &rowsOfResults);
  mlir::RankedTensorType sized(mlir::RankedTensorType type,
                               const Places &places) const;

  mlir::OpBuilder &builder;
  llvm::SmallVector<int64_t> axes;
  mlir::Value rows;
  /// Those of the axes that are not 1.
  llvm::SmallVector<int64_t> sizes;
  int64_t count, all = 1;
  mlir::IRMapping values;
  /// Where these axes are in the tensors of all rows.
  llvm::DenseMap<mlir::Value, Places> places;
};

} // namespace tfm

#endif // TFM_TRANSFORMS_SOMEROWS_H
