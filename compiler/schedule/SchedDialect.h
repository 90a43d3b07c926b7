//===- SchedDialect.h - the sched dialect and its operations ----*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_SCHEDULE_SCHEDDIALECT_H
#define TFM_SCHEDULE_SCHEDDIALECT_H

#include "compiler/dialect/TfmDialect.h"
#include "compiler/schedule/Domain.h"

#include "mlir/IR/BuiltinTypes.h"

namespace tfm::sched {

/// A memref of static shape and strides that begins where it points.
bool isStridedMemRef(mlir::Type type);
/// `memref<Nxi8>`: bytes of the arena.
bool isBytes(mlir::Type type);

} // namespace tfm::sched

#include "compiler/schedule/SchedDialect.h.inc"
#include "compiler/schedule/SchedEnums.h.inc"

#define GET_ATTRDEF_CLASSES
#include "compiler/schedule/SchedAttrs.h.inc"

namespace tfm::sched {
class WriteOp;

/// The kind of kernel that begins with an op of that name: `row` where the op
/// says how a row kernel computes it (RowKernelOpInterface). None for what no
/// kernel computes.
std::optional<KernelKind> kindOf(mlir::OperationName op);
/// Whether the body of a kernel or launch draws random numbers.
bool drawsNumbers(mlir::Block &body);
/// Whether an op is a step of a program that a kernel computes: a launch, copy
/// or fill.
bool isKernelStep(mlir::Operation &op);
} // namespace tfm::sched

#define GET_OP_CLASSES
#include "compiler/schedule/SchedOps.h.inc"

#endif // TFM_SCHEDULE_SCHEDDIALECT_H
