//===- Fuse.h - which ops share a kernel ------------------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_CODEGEN_SCHEDULE_FUSE_H
#define TFM_CODEGEN_SCHEDULE_FUSE_H

#include "compiler/codegen/schedule/Domain.h"
#include "compiler/codegen/schedule/Schedule.h"

namespace tfm {

/// What one block becomes: kernels in order; a repeat, a concatenation or a
/// reshape that needs a copy stands alone.
struct FusedBlock {
  std::vector<Group> groups;
  /// The group of each op that is not free.
  llvm::DenseMap<mlir::Operation *, int> groupOf;
};

/// Assigns every op of `block` that is not free to a kernel. Elementwise ops
/// and row reductions join the kernel of their producer or of a neighbour that
/// reads the same values; elementwise ops after a matmul become its epilogue.
FusedBlock fuse(mlir::Block &block, const OpSet &materialised);

/// Adds to `materialised` the free ops of `block` that a reader reaches only
/// through memory.
void findMaterialised(mlir::Block &block, OpSet &materialised);

/// The iteration space of an op that is not free; a reduction's is its
/// operand's.
Domain naturalDomain(mlir::Operation *op);

/// Visits everything that `op`, a member of a kernel over `domain`, reads. A
/// splat is visited only where `op` reads it from memory.
void forEachRead(mlir::Operation *op, const Domain &domain,
                 const OpSet &materialised,
                 llvm::function_ref<void(const Leaf &)> visit);

/// Whether `op` reduces within rows: its result is known when the row ends.
bool isRowReduction(mlir::Operation *op);
/// Whether `op` reduces over rows: its result is known when the kernel ends.
bool isColumnReduction(mlir::Operation *op);

/// In which pass over a row each op of a kernel is computed: what depends on a
/// row's sum is known only in the pass after it.
llvm::DenseMap<mlir::Operation *, int> passesOf(const Group &group,
                                                const OpSet &materialised);

} // namespace tfm

#endif // TFM_CODEGEN_SCHEDULE_FUSE_H
