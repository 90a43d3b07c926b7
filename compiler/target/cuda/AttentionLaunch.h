//===- AttentionLaunch.h - where attention's values lie ---------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_TARGET_CUDA_ATTENTIONLAUNCH_H
#define TFM_TARGET_CUDA_ATTENTIONLAUNCH_H

#include "compiler/schedule/Launches.h"
#include "compiler/schedule/SchedDialect.h"
#include "compiler/target/cuda/AttentionTile.h"

namespace tfm::cuda {

/// Where the values of a launch lie.
class AttentionLaunch {
public:
  AttentionLaunch(sched::LaunchOp launch, const BlockBuilder &block)
      : launch(launch), block(block) {}

  /// What is read as `value`; nothing of a null one.
  Rows read(mlir::Value value) const { return at(argumentOf(value)); }
  /// Where `value` is written; nothing where it is not.
  Rows written(mlir::Value value) const { return at(writtenArgumentOf(value)); }
  /// What an op reads that both directions have, and forward's cache.
  template <typename Op> void fill(AttentionTile &tile, Op op) const {
    tile.q = read(op.getQ());
    tile.k = read(op.getK());
    tile.v = read(op.getV());
    tile.mask = read(op.getMask());
    tile.distanceBias = read(op.getDistanceBias());
    if constexpr (std::is_same_v<Op, AttentionOp>) {
      tile.start = read(op.getStart());
      tile.keyScale = read(op.getKeyScale());
      tile.valueScale = read(op.getValueScale());
    }
  }

private:
  Rows at(mlir::BlockArgument argument) const {
    if (!argument)
      return {};
    unsigned number = argument.getArgNumber();
    return {block.pointers[number],
            viewOf(llvm::cast<mlir::MemRefType>(argument.getType())),
            alignmentOf(launch->getOperand(number))};
  }

  sched::LaunchOp launch;
  const BlockBuilder &block;
};

/// The size of tiles of the kernels in f32, which have two of rows in shared
/// memory, their derivative four; 0 where there is no room.
inline int64_t tileSizeOf(sched::LaunchOp launch, int64_t width) {
  return AttentionTile::sizeFor(
      width, launch.getKind() == sched::KernelKind::Attention ? 2 : 4);
}
/// The longer of the rows of q and v.
template <typename Op> int64_t widthOf(Op op) {
  return std::max(tensorType(op.getQ()).getDimSize(3),
                  tensorType(op.getV()).getDimSize(3));
}

} // namespace tfm::cuda

#endif // TFM_TARGET_CUDA_ATTENTIONLAUNCH_H
