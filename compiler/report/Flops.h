//===- Flops.h - floating-point operations by the kind of op ----*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_REPORT_FLOPS_H
#define TFM_REPORT_FLOPS_H

#include "llvm/ADT/StringMap.h"

#include <cstdint>

namespace mlir {
class Region;
} // namespace mlir

namespace tfm {

/// FLOPs of one execution of a region, by the kind of op (`matmul`); what an op
/// takes, FlopsOpInterface says. The counts are added to `byKind`, each times
/// `executions`.
void countFlops(mlir::Region &region, int64_t executions,
                llvm::StringMap<int64_t> &byKind);

} // namespace tfm

#endif // TFM_REPORT_FLOPS_H
