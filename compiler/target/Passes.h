//===- Passes.h - from a planned arena to kernels ---------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_TARGET_PASSES_H
#define TFM_TARGET_PASSES_H

#include "compiler/schedule/SchedDialect.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace tfm {

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "compiler/target/Passes.h.inc"

} // namespace tfm

#endif // TFM_TARGET_PASSES_H
