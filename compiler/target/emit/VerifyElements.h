//===- VerifyElements.h - types that there are kernels for ------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_TARGET_EMIT_VERIFYELEMENTS_H
#define TFM_TARGET_EMIT_VERIFYELEMENTS_H

#include "mlir/IR/Operation.h"

namespace tfm {

/// Whether there are kernels for the elements that a step takes, computes and
/// gives; an error at the step where not. Kernels load and add up what they do
/// not know as f32.
mlir::LogicalResult verifyElements(mlir::Operation *step);

} // namespace tfm

#endif // TFM_TARGET_EMIT_VERIFYELEMENTS_H
