//===- IntegerRange.h - which integers a tensor may hold --------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_DIALECT_INTEGERRANGE_H
#define TFM_DIALECT_INTEGERRANGE_H

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/StringMap.h"

#include <cstdint>
#include <limits>
#include <optional>

namespace tfm {

/// The integers that a tensor may hold: all in low .. high, of 32 bits where
/// nothing more is known.
struct IntegerRange {
  static constexpr int64_t lowest = std::numeric_limits<int32_t>::min();
  static constexpr int64_t highest = std::numeric_limits<int32_t>::max();

  int64_t low = lowest, high = highest;
  /// They come from an input: whoever fills it answers for them.
  bool isGiven = false;
};

/// Follows integers from positions, constants and inputs through arithmetic
/// and into the layers of a repeat.
class IntegerRanges {
public:
  /// All inputs are given.
  IntegerRanges() = default;
  /// Inputs hold integers in these ranges; those that are not named are given.
  /// `given`, of which all are, knows what depends on no input.
  IntegerRanges(llvm::StringMap<IntegerRange> inputs, IntegerRanges &given)
      : inputs(std::move(inputs)), fixed(&given) {}

  IntegerRange of(mlir::Value value);

private:
  /// Whether a value depends on no input.
  bool isFixed(mlir::Value value);
  /// The values that a range is made of.
  llvm::SmallVector<mlir::Value, 2> sourcesOf(mlir::Value value);
  /// The range of a value whose sources are known.
  IntegerRange compute(mlir::Value value);
  IntegerRange ofArgument(mlir::BlockArgument argument);
  /// `n` where an op is `a - a / n * n`, and known to be positive.
  std::optional<int64_t> divisorOfRemainder(mlir::Operation *op);

  llvm::StringMap<IntegerRange> inputs;
  IntegerRanges *fixed = nullptr;
  llvm::DenseMap<mlir::Value, IntegerRange> known;
};

/// How many token ids there may be, of `limit` that there are at most, so that
/// every `gather` of a module, and every cross entropy, finds its row for each.
/// `least`, if given, becomes the first of these ops that has no row for one
/// more, or null where there are rows for all.
int64_t countTokens(mlir::ModuleOp module,
                    int64_t limit = IntegerRange::highest,
                    mlir::Operation **least = nullptr);

/// The integers that an input may hold.
struct IdBounds {
  IntegerRange range; ///< empty where none was found
  /// Beside these the target that losses leave out.
  std::optional<int64_t> ignored;
};

/// The same for every input of integers by itself: which ids may be in it,
/// whatever the others hold of theirs, of those that choose rows.
llvm::StringMap<IdBounds> boundsOfInputs(mlir::ModuleOp module);

} // namespace tfm

#endif // TFM_DIALECT_INTEGERRANGE_H
