//===- AttentionSoftmax.h - weights of attention ----------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_TARGET_CUDA_ATTENTIONSOFTMAX_H
#define TFM_TARGET_CUDA_ATTENTIONSOFTMAX_H

#include "compiler/dialect/TfmDialect.h"
#include "compiler/target/cuda/AttentionFragments.h"

namespace tfm::cuda {

/// What the forms of attention on tensor cores share: the softmax of a tile of
/// queries, online (Milakov and Gimelshein 2018), and what becomes of it.
class AttentionSoftmax : protected AttentionFragments {
protected:
  AttentionSoftmax(mlir::ModuleOp module, llvm::StringRef name,
                   sched::LaunchOp launch, AttentionOp op, const Grid &grid);

  /// A tile of queries: its first one, and those of this thread.
  struct Queries {
    mlir::Value first;
    llvm::SmallVector<mlir::Value> ofRow;
  };
  Queries queriesFrom(mlir::Value first);
  /// The head that all of them are of.
  void enter(mlir::Value number);

  /// Of one of a thread's rows: its largest score, the sum of its weights that
  /// this thread has, and what it counts that had another largest score.
  struct Row {
    mlir::Value largest, total, factor;
  };
  /// A key of a tile, and from which one on there are none (null: all are
  /// there), both counted from where `position` is.
  struct Keys {
    mlir::Value position, end;
    llvm::function_ref<mlir::Value(int64_t fragment, int64_t which)> at;
  };
  /// Puts the weights of that row in the place of its products, and returns
  /// what `before` has become. `kept`: what dropout keeps, where there is any.
  Row weighRow(int64_t row, mlir::Value query, const Keys &keys,
               llvm::MutableArrayRef<mlir::Value> products, const Row &before,
               bool allVisible, llvm::function_ref<Kept()> kept = nullptr);
  /// This thread's elements of a row, times a factor.
  void scaleRow(llvm::MutableArrayRef<mlir::Value> output, int64_t row,
                mlir::Value factor);
  /// Stores what came of a tile: of each row of the thread its output, in the
  /// measure of its largest score, and the logarithm of its sum.
  void finish(const Queries &queries, llvm::ArrayRef<Row> rows,
              mlir::ValueRange output);

  Rows out, lse;
  AttentionTile::Head head;
};

} // namespace tfm::cuda

#endif // TFM_TARGET_CUDA_ATTENTIONSOFTMAX_H
