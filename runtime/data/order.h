//===- order.h - which windows a training step sees ---------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_RUNTIME_DATA_ORDER_H
#define TFM_RUNTIME_DATA_ORDER_H

#include "runtime/data/dataset.h"

namespace tfm {

/// The data order of a run: a pure function of the seed and the step, so that
/// a resumed run goes on exactly where it was. Texts are seen in windows drawn
/// anywhere, unless the recipe counts in epochs; everything else epoch after
/// epoch, each in an order of its own (or as it stands, without `shuffle`).
class DataOrder {
public:
  DataOrder(const Dataset &data, const TrainSpec &train, uint64_t seed);

  /// Fills one micro-batch: as many of `rows` as a batch has, from `first` on.
  /// Returns how many of its losses count, which are not of the ignored target.
  /// Allocates nothing.
  int64_t fill(int64_t step, int64_t micro, Rows &rows, int64_t first = 0);

  /// Updates that show every window `epochs` times; the last one may go on into
  /// another epoch.
  int64_t stepsOf(int64_t epochs) const;
  /// Epochs that are over after `steps` updates.
  int64_t epochsAfter(int64_t steps) const;

  /// From update `step` on, until which `rows` were shown: by updates of other
  /// sizes, perhaps.
  void goOn(int64_t step, int64_t rows) {
    shownElsewhere = rows - step * accumulate * batch;
  }

  void setIgnored(std::optional<int32_t> id) { ignored = id; }

private:
  int64_t start(int64_t step, int64_t micro, int64_t row);
  void orderEpoch(int64_t epoch);

  const Dataset &data;
  int64_t batch;
  int64_t accumulate;
  uint64_t seed;
  bool drawn;
  bool shuffled;
  std::optional<int32_t> ignored;
  /// Rows beyond those that updates of this size would have shown.
  int64_t shownElsewhere = 0;
  /// The order of the windows in `epoch`.
  std::vector<uint32_t> order;
  int64_t epoch = -1;
};

} // namespace tfm

#endif // TFM_RUNTIME_DATA_ORDER_H
