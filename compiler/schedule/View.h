//===- View.h - strided windows on buffers ----------------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_SCHEDULE_VIEW_H
#define TFM_SCHEDULE_VIEW_H

#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Value.h"
#include "llvm/ADT/SmallVector.h"

namespace tfm {

/// Buffers begin on cache lines.
inline constexpr int64_t bufferAlignment = 64;

/// Bytes of one element in memory; booleans take a byte.
int64_t elementBytes(mlir::Type element);

/// A strided window on a buffer. Sizes and strides count elements, what leads
/// to the first element counts bytes.
struct View {
  /// The result of a `sched.buffer`; null where only the layout matters.
  mlir::Value buffer;
  /// Null in a view that does not exist.
  mlir::Type element;
  /// In bytes.
  int64_t offset = 0;
  llvm::SmallVector<int64_t, 4> shape;
  llvm::SmallVector<int64_t, 4> strides;
  /// The view of a number that the caller or an earlier step writes, and by how
  /// many bytes that advances the window; null: it does not.
  mlir::Value row;
  int64_t rowStep = 0;
  /// By how many bytes each enclosing loop's index advances the window,
  /// outermost first.
  llvm::SmallVector<int64_t, 2> loopSteps;

  bool operator==(const View &) const = default;
  /// Whether both have each element at the same place: of an axis of one
  /// element the stride counts nothing.
  bool coincidesWith(const View &other) const;
  bool isValid() const { return element != nullptr; }
  int64_t numElements() const;
  int64_t numBytes() const { return numElements() * elementBytes(element); }
  /// Bytes from the first element to behind the last one.
  int64_t spanBytes() const;
  bool isContiguous() const;
  View transposed(llvm::ArrayRef<int64_t> permutation) const;
  View sliced(int64_t axis, int64_t start, int64_t size) const;
  /// Without its leading axis, at index 0 of it.
  View dropLeading() const;
  /// Without its leading axis, which the loop at `depth` walks instead.
  View perLayer(unsigned depth) const;
  /// Without its leading axis, in which `number`, a view of an i32, is found at
  /// run time.
  View atRow(mlir::Value number) const;
  /// With size-1 and missing axes repeated by stride 0, as NumPy broadcasts.
  View broadcastTo(llvm::ArrayRef<int64_t> to) const;
  /// The same elements under another shape; invalid where strides cannot say
  /// it.
  View reshaped(llvm::ArrayRef<int64_t> to) const;
  /// What a view op (`isViewOp`) makes of it; invalid where strides cannot say
  /// it.
  View through(mlir::Operation *op) const;

  mlir::MemRefType memref() const;
};

/// A row-major view from a buffer's first byte on.
View contiguousView(mlir::RankedTensorType type, mlir::Value buffer = {});
/// The layout of a memref of static strides.
View viewOf(mlir::MemRefType type);

} // namespace tfm

#endif // TFM_SCHEDULE_VIEW_H
