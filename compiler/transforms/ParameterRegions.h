//===- ParameterRegions.h - where parameters lie ----------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_TRANSFORMS_PARAMETERREGIONS_H
#define TFM_TRANSFORMS_PARAMETERREGIONS_H

#include "compiler/dialect/TfmDialect.h"
#include "runtime/tfm_model.h"

#include "mlir/IR/BuiltinOps.h"

namespace tfm {

/// The parameters lie in three regions of the arena, one behind the other:
/// those that weight decay applies to, the other trainable ones, the frozen
/// ones. Each tensor has a cache line of its own, and each region is whole rows
/// of `kRegionRow` elements, which an update walks; where there are several
/// micro-batches, which processes can share, whole blocks of `regionBlock`
/// rows.
struct RegionSizes {
  int64_t decayed = 0, plain = 0, frozen = 0;

  int64_t trained() const { return decayed + plain; }
};
constexpr int64_t kRegionRow = TFM_ROW;
/// Elements that a parameter takes in its region.
int64_t paddedElements(ParamOp param);
/// The type of all elements of the regions: parameters, gradients and state are
/// walked together. Null for a model without parameters; two types are a bug.
mlir::Type typeOfParameters(mlir::ModuleOp module);
RegionSizes regionSizes(mlir::ModuleOp module, int64_t decayMinRank);
/// How many rows of a region of `elements`, in whole blocks, an update of a
/// part of it walks at a time: a power of two of at most 64, so that a call
/// takes longer than what is around it, but no more than a sixteenth of all.
int64_t regionBlock(int64_t elements);

} // namespace tfm

#endif // TFM_TRANSFORMS_PARAMETERREGIONS_H
