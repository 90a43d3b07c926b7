//===- Elementwise.h - elementwise ops on scalars and vectors ---*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_TARGET_EMIT_ELEMENTWISE_H
#define TFM_TARGET_EMIT_ELEMENTWISE_H

#include "compiler/target/emit/KernelBuilder.h"
#include "mlir/IR/Operation.h"

namespace tfm {

/// Emits the elementwise tfm op `op` on `operands`, scalars or vectors of one
/// register, with a result of `type`.
mlir::Value emitElementwise(KernelBuilder &k, mlir::Operation *op,
                            mlir::ValueRange operands, mlir::Type type);

} // namespace tfm

#endif // TFM_TARGET_EMIT_ELEMENTWISE_H
