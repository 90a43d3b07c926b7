//===- RowsSideBySide.h - rows that vectors run across ----------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Where the elements of a row are far apart in memory, and those of its
// neighbours next to them, a lane is a row: softmax over another axis than the
// last, a transpose, a scan.
//
//===----------------------------------------------------------------------===//

#ifndef TFM_TARGET_CPU_ROWSSIDEBYSIDE_H
#define TFM_TARGET_CPU_ROWSSIDEBYSIDE_H

#include "compiler/target/cpu/CpuMachine.h"
#include "compiler/target/cpu/KeptValues.h"
#include "compiler/target/emit/ElementEmitter.h"
#include "compiler/target/emit/RowPlan.h"
#include <optional>

namespace tfm {

/// How rows go side by side.
struct SideBySide {
  /// How many rows lie a stride apart: no vector is of rows of two runs.
  int64_t run;
  /// Vectors of rows in a block, which one walk over the columns handles.
  int64_t vectors;
  /// Columns of a turn of that walk.
  int64_t columns;
  /// Running totals that each reduction has, of every vector.
  int64_t totals;

  int64_t rows(int64_t lanes) const { return vectors * lanes; }
};

/// Something that a kernel reads or writes, and where.
using Accessed = std::pair<View, sched::Access>;

/// Whether and how the rows of a launch (null: of a copy) go side by side; none
/// where columns are walked as well, or better, in vectors of their own.
std::optional<SideBySide> planSideBySide(const Domain &domain,
                                         llvm::ArrayRef<Accessed> accessed,
                                         sched::LaunchOp launch,
                                         const CpuMachine &machine);

/// Emits the body of a kernel, whose threads share the blocks. `moved` makes
/// what is stored where a plan has no ops.
void emitSideBySide(KernelBuilder &k, const Domain &domain,
                    const SideBySide &shape, const ElementEmitter &elements,
                    const RowPlan &plan, const KeptValues &kept,
                    const KernelArguments &arguments, bool isSerial,
                    std::function<mlir::Value(ElementEmitter &)> moved = {});

} // namespace tfm

#endif // TFM_TARGET_CPU_ROWSSIDEBYSIDE_H
