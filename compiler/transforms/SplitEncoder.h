//===- SplitEncoder.h - what is computed once a prompt ----------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_TRANSFORMS_SPLITENCODER_H
#define TFM_TRANSFORMS_SPLITENCODER_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tfm {

/// Whether an argument of `@forward` is what an encoder reads, `source` or
/// which of it is `present`, or is made of that.
bool isOfEncoder(mlir::BlockArgument argument);

/// Cuts a `@forward` with an encoder in two: `@encode` computes all that does
/// not depend on tokens, of each layer, too, from `source`, into caches; the
/// function that is returned takes these in place of `source`, and gives the
/// logits. Nothing where layers within layers have something to compute once.
std::optional<mlir::func::FuncOp> splitEncoder(mlir::func::FuncOp forward);

} // namespace tfm

#endif // TFM_TRANSFORMS_SPLITENCODER_H
