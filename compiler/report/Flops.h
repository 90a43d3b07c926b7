//===- Flops.h - floating-point operations by the kind of op ----*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_REPORT_FLOPS_H
#define TFM_REPORT_FLOPS_H

#include "compiler/dialect/FlopCount.h"
#include "llvm/ADT/StringMap.h"

#include <cstdint>
#include <string>

namespace mlir {
class Region;
class Type;
} // namespace mlir

namespace tfm {

/// FLOPs of one execution of a region, by the kind of op (`matmul`); what an op
/// takes, FlopsOpInterface says. The counts are added to `byKind`, each times
/// `executions`.
void countFlops(mlir::Region &region, int64_t executions,
                llvm::StringMap<FlopCount> &byKind);

/// The same for matrix products and attention alone, by the type of what they
/// multiply (`bf16`): of attention that of the queries.
void countProducts(mlir::Region &region, int64_t executions,
                   llvm::StringMap<FlopCount> &byType);

/// The name of a type of elements: `f32`.
std::string dtypeOf(mlir::Type element);

} // namespace tfm

#endif // TFM_REPORT_FLOPS_H
