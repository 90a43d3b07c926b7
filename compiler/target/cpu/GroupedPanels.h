//===- GroupedPanels.h - many rows by weights of 4 bits ---------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_TARGET_CPU_GROUPEDPANELS_H
#define TFM_TARGET_CPU_GROUPEDPANELS_H

#include "compiler/target/cpu/Matmul.h"
#include <optional>

namespace tfm {

/// How a product of many rows of integers of 8 bits with weights of 4 is
/// computed, in register tiles: weights are packed as integers, so that a group
/// of their terms is added up exactly in each lane, and its scale and minimum
/// cost one multiply-add each, for as many columns as a vector has lanes.
struct GroupedPanelsPlan {
  /// Rows of a tile, of which registers hold the sums of all terms beside those
  /// of a group.
  int64_t tileRows;
  /// Rows of A that are packed at a time: a multiple of `tileRows`.
  int64_t packedRows;
  /// Too small to share: thread 0 does it.
  bool serial;
};

/// The plan for such a product; nothing for others, and where there are no more
/// rows than two register tiles have (`planGrouped`).
std::optional<GroupedPanelsPlan> planGroupedPanels(const MatmulSpec &spec,
                                                   const CpuMachine &target);

/// Emits the kernel of such a product; as `emitMatmul`.
///
/// Threads share columns. The bits of an element depend on its row of A and its
/// column of B alone.
Kernel emitGroupedPanels(mlir::OpBuilder &builder, mlir::ModuleOp module,
                         llvm::StringRef name, const MatmulSpec &spec,
                         const CpuMachine &target,
                         const GroupedPanelsPlan &plan);

} // namespace tfm

#endif // TFM_TARGET_CPU_GROUPEDPANELS_H
