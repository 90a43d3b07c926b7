//===- Fuse.h - which ops share a kernel ------------------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_SCHEDULE_FUSE_H
#define TFM_SCHEDULE_FUSE_H

#include "compiler/schedule/Domain.h"
#include "compiler/schedule/SchedDialect.h"

namespace tfm {

/// Ops that one kernel computes, in program order. For a matmul the first is
/// that op and the rest is its epilogue.
struct Group {
  /// None for what no kernel computes and stands alone: a repeat, a
  /// concatenation, or a reshape that needs a copy.
  std::optional<sched::KernelKind> kind;
  llvm::SmallVector<mlir::Operation *> ops;
  /// The iteration space of a row kernel or an epilogue.
  Domain domain;
};

/// What one block becomes, in order.
struct FusedBlock {
  std::vector<Group> groups;
  /// The group of each op that is not free.
  llvm::DenseMap<mlir::Operation *, int> groupOf;
};

/// Assigns every op of `block` that is not free to a kernel. Elementwise ops
/// and row reductions join the kernel of their producer or of a neighbour that
/// reads the same values; elementwise ops after a matmul become its epilogue.
/// Fails, after an error that names it, where an op is of no kind of kernel.
mlir::FailureOr<FusedBlock> fuse(mlir::Block &block, const OpSet &materialised);

/// Adds to `materialised` the free ops of `block` that a reader reaches only
/// through memory.
void findMaterialised(mlir::Block &block, OpSet &materialised);

/// The iteration space of an op: what it says itself where row kernels compute
/// it, that of the epilogue of a matmul, and none of others.
Domain naturalDomain(mlir::Operation *op);

/// Visits everything that `op`, a member of a kernel over `domain`, reads. A
/// splat is visited only where `op` reads it from memory.
void forEachRead(mlir::Operation *op, const Domain &domain,
                 const OpSet &materialised,
                 llvm::function_ref<void(const Leaf &)> visit);

} // namespace tfm

#endif // TFM_SCHEDULE_FUSE_H
