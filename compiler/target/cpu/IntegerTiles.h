//===- IntegerTiles.h - products of integers on AMX tiles -------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_TARGET_CPU_INTEGERTILES_H
#define TFM_TARGET_CPU_INTEGERTILES_H

#include "compiler/target/cpu/Matmul.h"
#include <optional>

namespace tfm {

/// How a product of integers of 8 bits with weights in panels is computed on
/// tiles (TileKernel.h). A panel of weights is one of tiles where it lies: 128
/// is added to its integers, as VPDPBUSD takes them, and TDPBSUD takes them the
/// same way (`Terms::I8Quads`).
struct IntegerTilesPlan {
  /// Rows of A that are copied at a time, to panels of two tiles: a multiple of
  /// 32.
  int64_t packedRows;
  /// Terms of a sum that are added up before it is stored: a panel of B of so
  /// many stays in the first-level cache for all rows.
  int64_t depth;
  /// Too small to share: thread 0 does it.
  bool serial;
};

/// The plan for such a product of more than a few rows, where the target has
/// tiles; nothing for others, and where terms leave a tile unfilled.
std::optional<IntegerTilesPlan> planIntegerTiles(const MatmulSpec &spec,
                                                 const CpuMachine &target);

/// Emits the kernel of such a product; as `emitMatmul`.
///
/// Threads share columns. Sums are exact, so their bits are those of any other
/// kernel.
Kernel emitIntegerTiles(mlir::OpBuilder &builder, mlir::ModuleOp module,
                        llvm::StringRef name, const MatmulSpec &spec,
                        const CpuMachine &target, const IntegerTilesPlan &plan);

} // namespace tfm

#endif // TFM_TARGET_CPU_INTEGERTILES_H
