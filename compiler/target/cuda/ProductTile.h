//===- ProductTile.h - how products are cut up among blocks -----*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_TARGET_CUDA_PRODUCTTILE_H
#define TFM_TARGET_CUDA_PRODUCTTILE_H

#include "compiler/target/cuda/Gpu.h"

#include "llvm/ADT/ArrayRef.h"

namespace tfm::cuda {

/// What multiplies: tensor cores, numbers of bf16 from registers (`mma.sync`)
/// or for four warps together from shared memory (`wgmma`, of sm_90a); or the
/// other units, of f32.
enum class Units { Tensor, Warpgroup, F32 };

/// Elements of C that a warp of a warpgroup brings out together, in shared
/// memory: 16 rows of 32 columns. From one row to the next there are 8 more, so
/// that what lanes store in turn is in different banks.
inline constexpr int64_t bandRows = 16, bandColumns = 32,
                         bandStride = bandColumns + 8;

/// How a product is cut up among blocks, and a block among its warps (of tensor
/// cores) or threads.
struct ProductTile {
  /// Rows and columns of C that a block computes, in steps of so many terms, of
  /// which `stages` are in shared memory at once.
  int64_t rows, columns, depth, stages;
  /// Rows and columns of these that a part, a warp or a thread, has in
  /// registers.
  int64_t partRows, partColumns;

  int64_t parts() const { return rows / partRows * (columns / partColumns); }
  /// Of warps that multiply, in warpgroups.
  int64_t bandBytes() const { return parts() * bandRows * bandStride * 4; }
  int64_t tilesOf(int64_t m, int64_t n) const {
    return (m + rows - 1) / rows * ((n + columns - 1) / columns);
  }
};

struct ProductShape {
  int64_t batches, m, n, terms;
};

/// The tiles that there are, none of which needs more shared memory than
/// `maxDynamicShared`, or of warpgroups `maxDynamicSharedOf90`.
llvm::ArrayRef<ProductTile> productTiles(Units units);

/// The same tile with no more stages than there are steps to fill them, and one
/// to read from.
ProductTile fitted(ProductTile tile, int64_t terms);

/// Threads of a block.
int64_t threadsOf(const ProductTile &tile, Units units);

/// Columns that an instruction of a warpgroup multiplies: all, unless a thread
/// has too few registers when so many threads are launched for its sums.
int64_t instructionColumns(const ProductTile &tile, const Gpu &gpu);

/// Registers that a thread of a tile takes for sums, operands and addresses,
/// and so many more.
int64_t registersOf(const ProductTile &tile, Units units,
                    int64_t moreRegisters = 0);

/// How many blocks of a tile a multiprocessor has room for at once.
int64_t residentBlocks(const ProductTile &tile, Units units, const Gpu &gpu,
                       int64_t moreRegisters = 0);

/// About how many seconds a product takes with that tile.
double secondsOf(const ProductTile &tile, Units units,
                 const ProductShape &shape, const Gpu &gpu);

/// The tile with which a product takes the least time, of those for which its
/// threads have the registers (null: of all).
ProductTile chooseTile(Units units, const ProductShape &shape, const Gpu &gpu,
                       llvm::function_ref<bool(const ProductTile &)> fits = {});

} // namespace tfm::cuda

#endif // TFM_TARGET_CUDA_PRODUCTTILE_H
