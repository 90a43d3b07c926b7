//===- AxisMap.h - where axes go through an op ------------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_DIALECT_AXISMAP_H
#define TFM_DIALECT_AXISMAP_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

#include <cstdint>
#include <optional>

namespace tfm {

/// Where an axis of some size is in a tensor, which may have merged it with
/// others: index i of `axis` is (outer * size + index) * inner + rest. `axis`
/// is -1 where it is not.
struct AxisPlace {
  int64_t axis = -1;
  int64_t inner = 1;

  bool operator==(const AxisPlace &) const = default;
  bool isPresent() const { return axis >= 0; }
};

/// What an op does along an axis of one of its operands.
struct AxisMap {
  enum class Kind {
    /// Index i of the results depends on index i of the operand alone.
    Kept,
    /// Index i of the results depends on indices 0 to i.
    Causal,
    /// It depends on others, or the axis does not stay in one piece. To say so
    /// of any axis is always right.
    Mixed,
  };
  Kind kind;
  /// Where the axis is in the results; not of `Mixed`.
  AxisPlace place;
  /// Of `Mixed`, what the op does, in the user's words: "a reduction over the
  /// positions".
  llvm::StringRef reason;

  static AxisMap kept(AxisPlace place) { return {Kind::Kept, place, {}}; }
  static AxisMap causal(AxisPlace place) { return {Kind::Causal, place, {}}; }
  static AxisMap mixed(llvm::StringRef reason) {
    return {Kind::Mixed, {}, reason};
  }
  /// Every axis stays where it is but `axis`, along which the op mixes.
  static AxisMap keptBut(int64_t axis, AxisPlace place,
                         llvm::StringRef reason) {
    return place.axis == axis ? mixed(reason) : kept(place);
  }

  /// Of an op that goes along the whole of `axis` of a tensor of `shape`, and
  /// of which an index depends on none that is to come where it `looksBack`,
  /// and else on some, for that `reason`; every other axis stays where it is.
  static AxisMap along(int64_t axis, llvm::ArrayRef<int64_t> shape,
                       bool looksBack, AxisPlace place, int64_t size,
                       llvm::StringRef reason) {
    if (place.axis != axis)
      return kept(place);
    bool inOrder = looksBack && place.inner == 1 && size == shape[axis];
    return inOrder ? causal(place) : mixed(reason);
  }

  bool isKept() const { return kind == Kind::Kept; }
  bool isMixed() const { return kind == Kind::Mixed; }
};

/// Where an axis of `size` goes when `from` is reshaped to `to`; nothing where
/// it does not stay in one piece.
std::optional<AxisPlace> throughReshape(AxisPlace place, int64_t size,
                                        llvm::ArrayRef<int64_t> from,
                                        llvm::ArrayRef<int64_t> to);

} // namespace tfm

#endif // TFM_DIALECT_AXISMAP_H
