//===- Layouts.h - in which order values lie in memory ----------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_SCHEDULE_LAYOUTS_H
#define TFM_SCHEDULE_LAYOUTS_H

#include "compiler/schedule/Domain.h"
#include "compiler/schedule/SchedDialect.h"
#include "compiler/schedule/View.h"

#include "mlir/IR/Block.h"
#include "llvm/ADT/DenseMap.h"

namespace tfm {

/// Finds the reshapes whose elements no strides can walk. Where the base is
/// transposed in between, and some kernel computes it, it is stored in the
/// transposed order, if strides then can, and still walk its other views. Else
/// the reshape is of a copy. A scan, which goes along the last axis, is stored
/// as its readers have its axes.
///
/// Row-major order is assumed of all other values. Placing them elsewhere may
/// not take that back.
class Layouts {
public:
  /// Analyses a block and the blocks in it; `block` is a function's.
  explicit Layouts(mlir::Block &block) { analyse(block); }

  /// The order of axes in which `value` is stored; empty where it is its own.
  llvm::ArrayRef<int64_t> orderOf(mlir::Value value) const;
  /// The reshapes that copy.
  const OpSet &copies() const { return reshapes; }

private:
  void analyse(mlir::Block &block);
  View viewOf(mlir::Value value) const;
  /// Whether strides still walk every view of `value` that was found to need no
  /// copy before `end`, and loops find it as they did.
  bool stillHolds(mlir::Value value, mlir::Operation *end) const;

  llvm::DenseMap<mlir::Value, llvm::SmallVector<int64_t>> orders;
  llvm::DenseMap<mlir::Value, View> arguments;
  OpSet reshapes;
};

/// A row-major view of a value, or one whose axes lie in the given order.
View viewInOrder(mlir::RankedTensorType type, llvm::ArrayRef<int64_t> order,
                 mlir::Value buffer = {});

/// Whether the kernel can read its input of that number through `view`: what
/// an op reads as it lies in memory, of which products want one of the last
/// two axes contiguous, attention and caches the last one, a scatter, a fold
/// and a choice of the largest all of them. A row kernel reads at any
/// strides.
bool canRead(sched::KernelOp kernel, unsigned input, const View &view);
/// Whether the kernel can write its result of that number through `view`:
/// products, attention and caches write whole rows, a scatter and a choice of
/// the largest rows that follow each other, and sums over rows are vectors.
/// Row kernels, and what follows a product in its kernel, write at any
/// strides.
bool canWrite(sched::KernelOp kernel, unsigned result, const View &view);

} // namespace tfm

#endif // TFM_SCHEDULE_LAYOUTS_H
