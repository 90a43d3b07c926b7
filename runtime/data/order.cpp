//===- order.cpp - which windows a training step sees -------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/data/order.h"

#include "runtime/philox.h"
#include "runtime/support/error.h"

#include <algorithm>
#include <numeric>

namespace tfm {

DataOrder::DataOrder(const Dataset &data, const TrainSpec &train, uint64_t seed)
    : data(data), batch(train.batch), accumulate(train.accumulate), seed(seed),
      drawn(data.isStream() && !train.epochs && train.shuffle),
      shuffled(train.shuffle) {
  if (!drawn && shuffled)
    order.resize(static_cast<size_t>(data.windows(Part::Train)));
}

int64_t DataOrder::stepsOf(int64_t epochs) const {
  int64_t rows = batch * accumulate, windows = 0;
  if (__builtin_mul_overflow(epochs, data.windows(Part::Train), &windows) ||
      __builtin_add_overflow(windows, rows - 1, &windows))
    throw InputError("{} epochs are more steps than can be counted: "
                     "use --steps N",
                     epochs);
  return windows / rows;
}

int64_t DataOrder::epochsAfter(int64_t steps) const {
  int64_t windows = std::max<int64_t>(1, data.windows(Part::Train));
  return (shownElsewhere + steps * batch * accumulate) / windows;
}

void DataOrder::orderEpoch(int64_t wanted) {
  if (wanted == epoch)
    return;
  epoch = wanted;
  std::iota(order.begin(), order.end(), 0);
  for (size_t i = order.size(); i > 1; --i) {
    uint64_t bits =
        low64(philox(seed, Stream::Shuffle, static_cast<uint32_t>(i), 0,
                     static_cast<uint32_t>(epoch)));
    std::swap(order[i - 1], order[below(bits, i)]);
  }
}

int64_t DataOrder::start(int64_t step, int64_t micro, int64_t row) {
  // Micro-batches are parts of one batch: cutting it up changes nothing.
  row += micro * batch;
  if (drawn) {
    uint64_t bits =
        low64(philox(seed, Stream::Windows, static_cast<uint32_t>(row), 0,
                     static_cast<uint32_t>(step)));
    auto places = static_cast<uint64_t>(data.starts(Part::Train));
    return static_cast<int64_t>(below(bits, places));
  }
  int64_t windows = data.windows(Part::Train);
  int64_t position = shownElsewhere + step * accumulate * batch + row;
  int64_t window = position % windows;
  if (shuffled) {
    orderEpoch(position / windows);
    window = order[static_cast<size_t>(window)];
  }
  return data.windowStart(Part::Train, window);
}

int64_t DataOrder::fill(int64_t step, int64_t micro, Rows &rows,
                        int64_t first) {
  int64_t counted = 0;
  for (int64_t row = first; row < first + batch; ++row) {
    int64_t valid =
        data.fill(Part::Train, start(step, micro, row - first), rows, row);
    counted += rows.counting(row, valid, ignored);
  }
  return counted;
}

} // namespace tfm
