//===- PositionSelector.h - some positions of all ---------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_TRANSFORMS_POSITIONSELECTOR_H
#define TFM_TRANSFORMS_POSITIONSELECTOR_H

#include "compiler/transforms/SequenceAxis.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/IRMapping.h"

#include <vector>

namespace tfm {

/// Picks positions of `value`, which has `length` of them where `tag` says: the
/// result has those that `ids` [B, n] names for each sequence, in their place.
mlir::Value selectPositions(mlir::OpBuilder &builder, mlir::Value value,
                            SequenceTag tag, int64_t batch, int64_t length,
                            mlir::Value ids);

/// Gives values that are the same for all inputs (constants, parameters, and
/// what is computed of them) at some of the positions.
class PositionSelector {
public:
  /// `ids` is [B, count]; `values` maps to what is not cut down.
  PositionSelector(mlir::OpBuilder &builder, const SequenceAnalysis &analysis,
                   mlir::IRMapping &values, mlir::Value ids, int64_t count)
      : builder(builder), analysis(analysis), values(values), positions(ids),
        count(count) {}

  mlir::Value ids() const { return positions; }

  /// `type` with `count` positions where `tag` has all of them.
  mlir::RankedTensorType sized(mlir::RankedTensorType type,
                               const SequenceTag &tag) const;
  /// The places in a type of `sized`.
  SequenceTag sizedTag(SequenceTag tag) const;

  /// `value`, of the original function, at the positions.
  mlir::Value at(mlir::Value value, const SequenceTag &tag);
  /// A mask [B or 1, heads or 1, T, S] at the positions of the queries.
  mlir::Value maskAt(mlir::Value mask);

private:
  mlir::Value compute(mlir::Value value, const SequenceTag &tag);
  mlir::Value throughBroadcast(mlir::Value value, const SequenceTag &tag);

  mlir::OpBuilder &builder;
  const SequenceAnalysis &analysis;
  mlir::IRMapping &values;
  mlir::Value positions;
  int64_t count;
  /// What `at` gave, for values that are used several times.
  std::vector<std::pair<std::pair<mlir::Value, SequenceTag>, mlir::Value>>
      known;
};

} // namespace tfm

#endif // TFM_TRANSFORMS_POSITIONSELECTOR_H
