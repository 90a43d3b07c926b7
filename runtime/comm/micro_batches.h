//===- micro_batches.h - what processes share of an update --------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_RUNTIME_COMM_MICROBATCHES_H
#define TFM_RUNTIME_COMM_MICROBATCHES_H

#include <cstdint>
#include <fmt/format.h>
#include <string>

namespace tfm {

/// An update of `accumulate` micro-batches of `batch` sequences each.
struct MicroBatches {
  int64_t batch, accumulate;

  int64_t sequences() const { return batch * accumulate; }
  /// The update of the same sequences in micro-batches that so many processes
  /// can share, as large as they can be; where there is none, a larger one of
  /// the fewest micro-batches that are no larger than these.
  MicroBatches sharedBy(int64_t processes) const {
    for (int64_t count = processes; count <= sequences(); count += processes)
      if (sequences() % count == 0)
        return {sequences() / count, count};
    int64_t count = (accumulate / processes + 1) * processes;
    return {sequences() / count + 1, count};
  }
  /// What to build that so many processes can share, for messages: `-D
  /// train.batch=2 -D train.accumulate=4, the same update`.
  std::string adviceFor(int64_t processes) const {
    MicroBatches other = sharedBy(processes);
    return fmt::format(
        "-D train.batch={} -D train.accumulate={}, {}", other.batch,
        other.accumulate,
        other.sequences() == sequences()
            ? "the same update"
            : fmt::format("an update of {} sequences instead of {}",
                          other.sequences(), sequences()));
  }
};

} // namespace tfm

#endif // TFM_RUNTIME_COMM_MICROBATCHES_H
