//===- SequenceAxis.h - where positions are in every tensor -----*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_TRANSFORMS_SEQUENCEAXIS_H
#define TFM_TRANSFORMS_SEQUENCEAXIS_H

#include "compiler/dialect/AxisMap.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinTypes.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"

#include <optional>
#include <string>

namespace tfm {

/// Where the sequences of a batch and their positions are in a tensor. A batch
/// of one has no place.
struct SequenceTag {
  AxisPlace batch, time;

  bool operator==(const SequenceTag &) const = default;
};

/// Why a model cannot be evaluated one position after another.
struct DecodeObstacle {
  /// In the user's words: "attention that is not causal".
  std::string reason;
  /// Where; the line is 0 where the program does not say it.
  std::string file;
  int64_t line = 0;

  /// "models/bert.tfm:27: attention that is not causal".
  std::string str() const;
};

/// Follows the positions of the tokens `[B, T]` through a `@forward`: every
/// value either depends on them position by position, and then the analysis
/// says where the positions are, or it depends on no
/// token at all. An op that
/// mixes positions is an obstacle, but for those that look back and of which
/// generation knows what to keep.
class SequenceAnalysis {
public:
  explicit SequenceAnalysis(mlir::func::FuncOp forward);

  /// Null for values that depend on no token.
  const SequenceTag *find(mlir::Value value) const {
    auto it = tags.find(value);
    return it == tags.end() ? nullptr : &it->second;
  }
  /// Whether the results of an op depend on earlier positions, too.
  bool isCausal(mlir::Operation *op) const { return causal.contains(op); }
  const std::optional<DecodeObstacle> &obstacle() const { return problem; }
  int64_t batch() const { return sizes[0]; }
  int64_t length() const { return sizes[1]; }

private:
  friend class TagRules;
  llvm::DenseMap<mlir::Value, SequenceTag> tags;
  llvm::DenseSet<mlir::Operation *> causal;
  std::optional<DecodeObstacle> problem;
  /// Of the inputs: sequences, and positions of each.
  int64_t sizes[2] = {0, 0};
};

/// Why texts cannot be decoded one token after another, whatever else a
/// function for several of them says; nothing where they can.
std::optional<DecodeObstacle> decodeObstacle(mlir::ModuleOp module);

/// Whether generation knows what to keep of `op`, which looks at earlier
/// positions of `batch` sequences where `tag` says (DeriveDecode.cpp).
bool canKeep(mlir::Operation *op, const SequenceTag &tag, int64_t batch);

} // namespace tfm

#endif // TFM_TRANSFORMS_SEQUENCEAXIS_H
