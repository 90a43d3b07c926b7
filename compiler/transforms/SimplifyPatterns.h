//===- SimplifyPatterns.h - the rewrites of tfm-simplify --------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_TRANSFORMS_SIMPLIFYPATTERNS_H
#define TFM_TRANSFORMS_SIMPLIFYPATTERNS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/PatternMatch.h"

namespace tfm {

/// Shorter sums, reductions, broadcasts and slices.
void populateSimplifyPatterns(mlir::RewritePatternSet &patterns);

/// Removes from `tfm.repeat` what nothing depends on.
void populateSimplifyRepeatPatterns(mlir::RewritePatternSet &patterns);

/// Removes from a function what `tfm-simplify` finds that none of its results
/// depends on, and changes nothing else.
void removeUnused(mlir::func::FuncOp function);

} // namespace tfm

#endif // TFM_TRANSFORMS_SIMPLIFYPATTERNS_H
