//===- SharePlan.h - what processes share of an update --------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_DRIVER_SHAREPLAN_H
#define TFM_DRIVER_SHAREPLAN_H

#include "compiler/report/ModelReport.h"
#include "compiler/target/KernelTarget.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/Error.h"

#include <optional>

namespace tfm {

/// What a step's time is predicted from.
struct NetworkSpec {
  /// Bytes that a process sends in a second, while it receives as many.
  double bytesPerSecond = 0;
  double latency = 5e-6; ///< seconds that a message is on its way
  /// Seconds of an update by one process, where they are known.
  std::optional<double> step;
};

/// Numbers of processes, and whether and how times of theirs are predicted.
struct ShareRequest {
  std::vector<int64_t> processes;
  std::optional<NetworkSpec> network;
};

/// `100Gbit/s`, `25GB/s`, in bytes a second; `5us`, `0.65s`, in seconds.
llvm::Expected<double> parseSpeed(llvm::StringRef text);
llvm::Expected<double> parseDuration(llvm::StringRef text);

/// What each of so many processes has of an update, and does
/// (docs/cluster.md); of a module that was scheduled for the target.
std::vector<SharedReport> planShares(mlir::ModuleOp schedule,
                                     const KernelTarget &target,
                                     const MemoryReport &memory,
                                     const ShareRequest &request);

} // namespace tfm

#endif // TFM_DRIVER_SHAREPLAN_H
