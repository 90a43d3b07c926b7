//===- RowReductions.h - steps of sums and maxima -------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_TARGET_EMIT_ROWREDUCTIONS_H
#define TFM_TARGET_EMIT_ROWREDUCTIONS_H

#include "compiler/target/emit/KernelBuilder.h"
#include <optional>

namespace tfm {

/// Whether a reduction of a row kernel takes the largest rather than the sum.
bool isMaximum(mlir::Operation *reduction);
/// Whether a maximum is not a number where an element is none.
bool keepsNan(mlir::Operation *maximum);

/// What a sum or maximum of nothing is.
double neutralOf(mlir::Operation *reduction);

/// What a sum over a row picks, as no other element of it is added: that of
/// `elements` whose column `number` says, or 0 where the row has none.
struct Picked {
  mlir::Value elements, number;
};
/// None of another sum, or a maximum.
std::optional<Picked> pickedBy(mlir::Operation *reduction);

/// One step of a sum or maximum.
mlir::Value combine(KernelBuilder &k, mlir::Operation *reduction, mlir::Value a,
                    mlir::Value b);

} // namespace tfm

#endif // TFM_TARGET_EMIT_ROWREDUCTIONS_H
