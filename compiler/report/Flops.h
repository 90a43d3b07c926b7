//===- Flops.h - floating-point operations of a tfm function --------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What is counted is what the op's definition needs, whatever a kernel does:
//
//   matmul               2 M N K per batch entry
//   attention            per query and key that it sees: 2 d (q k'), 2 e
//                        (weights v), 5 for scaling and softmax, and 3 for a
//                        softcap; keys behind a causal mask or outside of the
//                        window are not seen
//   attention_backward   per query and key that it sees: the scores again,
//                        dv, dp, dq and dk (6 d + 4 e), 6 elementwise; 2 e per
//                        query for delta
//   softmax and others   every addition, multiplication, division, maximum and
//                        function of the formula in the op's summary counts 1
//                        per element; a function (exp, erf, ...) counts 1
//   moving data          gather, reshape, slice, compare, select, cast, ...: 0
//   repeat               its body, times the number of layers
//
//===----------------------------------------------------------------------===//

#ifndef TFM_REPORT_FLOPS_H
#define TFM_REPORT_FLOPS_H

#include "llvm/ADT/StringMap.h"

#include <cstdint>

namespace mlir {
class Operation;
class Region;
} // namespace mlir

namespace tfm {

/// FLOPs of one execution of an op, its regions included.
int64_t countFlops(mlir::Operation *op);

/// FLOPs of one execution of a region, by the kind of op (`matmul`). The counts
/// are added to `byKind`, each times `executions`.
void countFlops(mlir::Region &region, int64_t executions,
                llvm::StringMap<int64_t> &byKind);

} // namespace tfm

#endif // TFM_REPORT_FLOPS_H
