//===- Philox.h - counter-based random bits in kernels ----------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_CODEGEN_CPU_PHILOX_H
#define TFM_CODEGEN_CPU_PHILOX_H

#include "compiler/codegen/cpu/KernelBuilder.h"

namespace tfm {

/// Which of the `lanes` columns from `column` (a multiple of `lanes`) of `row`
/// dropout of `rate` keeps, as a vector of booleans: docs/design.md, "Dropout".
/// `rng` is the kernel's argument (seed low, seed high, counter, micro-step
/// count); `layer` is null outside of a repeat.
mlir::Value philoxKeep(KernelBuilder &k, mlir::Value rng, int64_t site,
                       mlir::Value layer, mlir::Value row, mlir::Value column,
                       double rate);

} // namespace tfm

#endif // TFM_CODEGEN_CPU_PHILOX_H
