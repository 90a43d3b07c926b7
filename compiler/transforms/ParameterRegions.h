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
/// of `regionRow` elements, which an update walks; where there are several
/// micro-batches, which processes can share, whole blocks of `regionBlock`
/// rows. Parameters with the same `rate` are together, from a row of their own
/// on.
struct ParameterRegions {
  struct RateRange {
    double rate = 1;
    /// The first of its rows, and its elements without what fills those up.
    int64_t firstRow = 0, elements = 0;
    llvm::SmallVector<ParamOp> parameters;
  };
  struct Region {
    llvm::SmallVector<RateRange> ranges;
    int64_t elements = 0;

    bool hasRates() const {
      return llvm::any_of(ranges,
                          [](const RateRange &of) { return of.rate != 1; });
    }
  };
  Region decayed, plain, frozen;

  int64_t trained() const { return decayed.elements + plain.elements; }
};
constexpr int64_t regionRow = TFM_ROW;
/// Elements that a parameter takes in its region.
int64_t paddedElements(ParamOp param);
/// The type of all elements of the regions: parameters, gradients and state are
/// walked together. Null for a model without parameters; two types are a bug.
mlir::Type typeOfParameters(mlir::ModuleOp module);
ParameterRegions parameterRegions(mlir::ModuleOp module, int64_t decayMinRank);
/// How many rows of a region of `elements`, in whole blocks, an update of a
/// part of it walks at a time: a power of two of at most 64, so that a call
/// takes longer than what is around it, but no more than a sixteenth of all.
int64_t regionBlock(int64_t elements);

} // namespace tfm

#endif // TFM_TRANSFORMS_PARAMETERREGIONS_H
