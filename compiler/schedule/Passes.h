//===- Passes.h - from the tfm dialect to a planned arena -------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_SCHEDULE_PASSES_H
#define TFM_SCHEDULE_PASSES_H

#include "compiler/schedule/SchedDialect.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace tfm::sched {

#define GEN_PASS_DECL
#include "compiler/schedule/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "compiler/schedule/Passes.h.inc"

} // namespace tfm::sched

#endif // TFM_SCHEDULE_PASSES_H
