//===- StagedOperand.h - an operand's way through shared memory -*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_TARGET_CUDA_STAGEDOPERAND_H
#define TFM_TARGET_CUDA_STAGEDOPERAND_H

#include "compiler/schedule/SchedDialect.h"
#include "compiler/target/cuda/BlockBuilder.h"
#include "compiler/target/cuda/Pieces.h"

namespace tfm::cuda {

/// An operand of a product in memory: elements by their index along M or N,
/// `outer`, and along K.
struct ProductOperand {
  mlir::Value pointer;
  mlir::Type element;
  llvm::SmallVector<int64_t> batchStrides;
  int64_t outerStride = 0, termStride = 0;
  /// How many elements there are along either.
  int64_t outers = 0, terms = 0;
  /// Where terms follow each other and are copied: what lies along M or N from
  /// here on may be anything, and counts as zeros; null: nothing does.
  mlir::Value outerEnd;
  /// The first element lies at a multiple of so many bytes.
  int64_t alignment = 1;
  /// Of weights of 4 bits: pointers to scales and minima, and the strides of
  /// these along the batch and along N; of others 0.
  mlir::Value scale, minimum;
  llvm::SmallVector<int64_t> tableBatchStrides;
  int64_t tableStride = 0;

  bool isGrouped() const { return tableStride > 0; }
  bool isAlongTerms() const { return termStride == 1; }
  /// Bytes to the next element in memory.
  mlir::Type memory(KernelBuilder &k) const;
};

/// `size` elements along M or N by `depth` terms of an operand, which all
/// threads of a block bring to shared memory together, stage after stage:
/// by `cp.async` where they lie so that it can take them, else through
/// registers.
class StagedOperand {
public:
  /// How they lie in shared memory, free of conflicts between its banks. A
  /// matrix of bf16 lies as in memory, in pieces of 8 elements; the number of a
  /// piece in its row is changed by the row's own (`swizzle`), so that 8 rows
  /// at one place are in 8 different lines of banks for `ldmatrix`. Of f32
  /// there is a row for each term, with a gap behind it.
  enum class Form { Matrix, Terms };

  StagedOperand(BlockBuilder &block, const ProductOperand &from, Form form,
                int64_t size, int64_t depth);

  /// Whether `cp.async` can bring it: as a matrix numbers of bf16 in pieces of
  /// 16 bytes, as terms those of f32.
  static bool canCopy(const ProductOperand &from, Form form = Form::Matrix);
  /// Of a matrix, how many elements go at once.
  static constexpr int64_t pieceElements = 8;

  int64_t stageBytes() const;
  bool isAsync() const { return copies; }

  /// The tile begins at `outer0`, from here on.
  void begin(mlir::Value outer0);
  /// Begins to bring the terms from `term0` on to `stage`: copies, or loads
  /// that `store` is given later.
  llvm::SmallVector<mlir::Value> load(mlir::Value stage, mlir::Value term0);
  void store(mlir::Value stage, mlir::ValueRange loaded);

  /// Of a matrix. Prepares to read from `first` along M or N on; `isB` tells
  /// which half of the terms comes first.
  void beginFragments(mlir::Value first, int64_t count, bool isB);
  /// 16 elements along M or N by 16 terms, the `number`th and `step`th of a
  /// stage, as the four registers of `mma`.
  llvm::SmallVector<mlir::Value> fragment(mlir::Value stage, int64_t number,
                                          int64_t step);

  /// Elements from one term to the next, of f32: so many more than there are
  /// that terms which are copied at once are in other banks, as far as what a
  /// thread loads at once begins at a multiple of it.
  int64_t termStride() const {
    return size + std::max<int64_t>(bankCount / depth, pieceBytes / 4);
  }

private:
  static constexpr int64_t bankCount = 32;
  /// Fragments in a row of a matrix whose swizzles differ, of two pieces each;
  /// the next ones lie as these.
  static constexpr int64_t distinct = pieceElements / 2;

  int64_t innerSize() const { return from.isAlongTerms() ? depth : size; }
  /// Pieces in a row of a matrix.
  int64_t pieces() const { return innerSize() / pieceElements; }
  /// What a piece's number in row `row` is changed by (xor).
  mlir::Value swizzle(mlir::Value row);
  /// Where an element lies in its stage, in bytes.
  mlir::Value offsetOf(mlir::Value row, mlir::Value column);
  /// The same of this thread's item of that number.
  mlir::Value itemOffset(int64_t item);
  /// An element of an item as f32, or of a matrix as its 16 bits.
  mlir::Value element(int64_t item, int64_t number, mlir::Value term0);
  mlir::Value grouped(mlir::Value outer, mlir::Value term);
  /// How many elements there are of an item; null: all.
  mlir::Value countOf(int64_t item, mlir::Value term0);
  bool hasOuterEdge() const { return from.outers % size != 0; }
  bool hasTermEdge() const { return from.terms % depth != 0; }

  BlockBuilder &block;
  KernelBuilder &k;
  const ProductOperand from;
  const Form form;
  const int64_t size, depth;
  bool copies;
  /// Elements that a thread moves at once, and how often it does.
  int64_t width, items;
  mlir::Value outer0;
  /// Of this thread's first item: along the axis that lies contiguous, and
  /// along the other; with each item the latter advances by `advance`.
  mlir::Value first, second;
  int64_t advance;
  /// Where each item is in memory at term 0.
  llvm::SmallVector<mlir::Value> sources;
  /// Where the `distinct` first fragments begin: by step along the terms where
  /// these lie contiguous, else by fragment.
  llvm::SmallVector<mlir::Value> fragmentOffsets;
};

} // namespace tfm::cuda

#endif // TFM_TARGET_CUDA_STAGEDOPERAND_H
