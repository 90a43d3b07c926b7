//===- GroupedProduct.h - products with weights of 4 bits -------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_TARGET_CPU_GROUPEDPRODUCT_H
#define TFM_TARGET_CPU_GROUPEDPRODUCT_H

#include "compiler/target/cpu/Matmul.h"
#include <optional>

namespace tfm {

/// How a product of few rows with weights of 4 bits is computed, that reads
/// them where they lie.
struct GroupedPlan {
  /// A is of i8 (where they are multiplied), and copied in the order in which
  /// the halves of bytes come.
  bool integers;
  /// Rows whose sums stay in the first-level cache together.
  int64_t sumRows;
  /// Too small to share: thread 0 does it.
  bool serial;
};

/// The plan for such a product; nothing for others, and where there are more
/// rows than two register tiles have (`planGroupedPanels`, `planMatmul`).
std::optional<GroupedPlan> planGrouped(const MatmulSpec &spec,
                                       const CpuMachine &target);

/// Emits the kernel of such a product; as `emitMatmul`.
///
/// Threads share columns. The bits of an element depend on its row of A and its
/// column of B alone: not on the number of threads, nor on that of rows.
Kernel emitGrouped(mlir::OpBuilder &builder, mlir::ModuleOp module,
                   llvm::StringRef name, const MatmulSpec &spec,
                   const CpuMachine &target, const GroupedPlan &plan);

} // namespace tfm

#endif // TFM_TARGET_CPU_GROUPEDPRODUCT_H
