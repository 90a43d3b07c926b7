//===- sum_turns.h - how much of a sum is under way at a time -----------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_RUNTIME_TRAINING_SUMTURNS_H
#define TFM_RUNTIME_TRAINING_SUMTURNS_H

#include "runtime/tfm_model.h"

#include <algorithm>
#include <bit>
#include <cstddef>

namespace tfm {

/// Turns that are under way at the same time, each of so many rows of all
/// processes together: 16 MiB, and two turns at least.
inline size_t turnsUnderWay(size_t rowsOfTurn) {
  constexpr size_t rowsUnderWay = 4096;
  return std::clamp<size_t>(rowsUnderWay / rowsOfTurn, 2, 64);
}

/// How processes add up rows that are in memory, in turns (`RowSum`).
struct SumTurns {
  size_t processes;
  size_t rows; ///< that each of them adds up in a turn

  /// Of blocks of up to `mostRows` rows: with many processes few in a turn, so
  /// that what all of them send to one has room.
  static SumTurns of(size_t mostRows, size_t processes) {
    constexpr size_t leastRows = 4; // of a message, where there are as many
    size_t rows = std::bit_floor(std::max(1024 / processes, leastRows));
    return {processes, std::min(rows, mostRows)};
  }

  size_t underWay() const { return turnsUnderWay(processes * rows); }
  /// Bytes that a process has beside its arena for what comes to it.
  size_t roomBytes() const {
    return underWay() * processes * rows * TFM_ROW * sizeof(float);
  }
};

} // namespace tfm

#endif // TFM_RUNTIME_TRAINING_SUMTURNS_H
