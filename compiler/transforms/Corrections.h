//===- Corrections.h - low-rank corrections of products ---------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_TRANSFORMS_CORRECTIONS_H
#define TFM_TRANSFORMS_CORRECTIONS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/Support/JSON.h"

namespace tfm {

/// The weights that products of parameters are added to, `x @ w` where
/// `x @ w + s * (x @ a @ b)` is computed, as by LoRA (Hu et al. 2021): what
/// such a product does, `w + s * (a @ b)` does alone. An object for each layer:
/// `weight`, its name, whether it is `transposed` in the product, and the
/// `terms`, each with its `scale` and its `factors` in their order; `shared`
/// where the weight or a factor is used for anything else, so that it has to
/// stay as it is.
llvm::json::Array corrections(mlir::func::FuncOp forward);

} // namespace tfm

#endif // TFM_TRANSFORMS_CORRECTIONS_H
