//===- Tiles.h - AMX where there is none ------------------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_TESTS_UNIT_KERNELS_TILES_H
#define TFM_TESTS_UNIT_KERNELS_TILES_H

#include "mlir/IR/BuiltinOps.h"

namespace tfm {

/// Has the kernels of `module` call a few lines of C++ in place of the
/// instructions for tiles, so that any machine can run them: their operands,
/// the packing and the loops are those of the code for AMX.
void emulateTiles(mlir::ModuleOp module);

/// Gives this thread's tiles the shape that kernels expect, on a machine that
/// has some.
void shapeTiles();

} // namespace tfm

#endif // TFM_TESTS_UNIT_KERNELS_TILES_H
