//===- ProductKernel.h - what kernels of products share ---------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_TARGET_CUDA_PRODUCTKERNEL_H
#define TFM_TARGET_CUDA_PRODUCTKERNEL_H

#include "compiler/dialect/TfmDialect.h"
#include "compiler/schedule/SchedDialect.h"
#include "compiler/target/cuda/ProductTile.h"
#include "compiler/target/cuda/StagedOperand.h"
#include "compiler/target/emit/ElementEmitter.h"

namespace tfm::cuda {

/// What a matmul launch multiplies.
struct ProductLaunch {
  explicit ProductLaunch(sched::LaunchOp launch);

  ProductShape shape();
  /// Whether terms are products of bf16, or exact in it.
  bool isOfBf16();
  /// Whether B is of 4 bits.
  bool isGrouped();
  /// Operands, without pointers.
  ProductOperand operandA();
  ProductOperand operandB();

  /// Where product `number` is in the batch, along its axes.
  llvm::SmallVector<mlir::Value> indicesOf(KernelBuilder &k,
                                           mlir::Value number);
  /// Gives operands the pointers of product `number` of the batch.
  void enter(BlockBuilder &block, mlir::Value number, ProductOperand &a,
             ProductOperand &b);
  /// Loads what the launch reads beside the sums of some rows, at so many
  /// columns from `column` on. Of several, a power of two, the first is a
  /// multiple of it. Each row is in a state of its own.
  std::vector<ElementEmitter> loadBeside(const ElementEmitter &elements,
                                         KernelBuilder &k, mlir::Value number,
                                         mlir::ValueRange rows,
                                         mlir::Value column, int64_t columns);
  /// Stores there what it makes of the sums.
  void finish(std::vector<ElementEmitter> ofRows, mlir::ValueRange sums);
  /// For how many rows at once a thread with so many registers can do so.
  int64_t rowsTogether(int64_t registers);
  /// A row of C and its sums.
  using RowOfSums = std::pair<mlir::Value, llvm::SmallVector<mlir::Value>>;
  /// The same for `count` rows, so many together; `load` gives what each is.
  /// Where not all of them exist (`allExist`; null: they do) it is one after
  /// the other, each if it does.
  void finishRows(const ElementEmitter &elements, KernelBuilder &k,
                  mlir::Value number, mlir::Value column, int64_t count,
                  int64_t together, mlir::Value allExist,
                  llvm::function_ref<RowOfSums(mlir::Value)> load);

  sched::LaunchOp launch;
  MatmulOp op;
  llvm::SmallVector<int64_t> batch;
  int64_t m, n, terms;

private:
  ProductOperand operand(mlir::Value value, bool outerLast, int64_t outers);
};

/// Where a tile is: its first row and column, and the number of its product.
struct TilePlace {
  mlir::Value row0, column0, number;
};

/// The place of tile `tileNumber` of all products. Those that a GPU computes at
/// the same time are about a square of C.
TilePlace placeOf(KernelBuilder &k, const ProductLaunch &product,
                  const ProductTile &tile, const Gpu &gpu,
                  mlir::Value tileNumber);

/// A product whose operands come through shared memory, `tile.stages` steps of
/// terms at once: while one is multiplied the others are under way. Sums stay
/// in registers; at the end they go to shared memory, a band of rows after the
/// other, from where whole rows are stored, so that there is one piece of code
/// for what follows the product. An element is the sum of its terms in the
/// order of k.
class ProductKernel {
public:
  virtual ~ProductKernel() = default;
  void emit();

protected:
  ProductKernel(mlir::ModuleOp module, llvm::StringRef name,
                ProductLaunch product, const ProductTile &tile, Units units);

  /// How many sums a thread has.
  virtual int64_t sums() const = 0;
  /// Whatever does not change from step to step.
  virtual void beginSteps() = 0;
  /// Adds the products of a step.
  virtual llvm::SmallVector<mlir::Value>
  multiply(mlir::Value stageA, mlir::Value stageB, mlir::ValueRange before) = 0;
  /// Rows of a part that go out together, where `bytes` of shared memory can
  /// have them.
  virtual int64_t partRowsOfBand(int64_t bytes) const = 0;
  /// Stores this thread's sums of a band whose number is known.
  virtual void storeBand(int64_t band, mlir::ValueRange sums) = 0;
  /// Which row of the tile a row of a band is.
  virtual mlir::Value rowOf(mlir::Value band, mlir::Value inBand) = 0;

  /// Elements from one row of a band in shared memory to the next: what lanes
  /// store in turn is in different banks.
  int64_t bandStride() const { return tile.columns + 8; }

  ProductLaunch product;
  const ProductTile tile;
  BlockBuilder block;
  KernelBuilder &k;
  ElementEmitter elements;
  std::optional<StagedOperand> a, b;
  /// All of the block's shared memory.
  mlir::Value memory;
  /// Rows of each part in a band.
  int64_t bandPartRows = 0;

private:
  llvm::SmallVector<mlir::Value> addUp();
  void store(mlir::ValueRange sums);

  const Units units;
  TilePlace place;
};

/// Emits a product in tiles, for every GPU: of numbers of bf16 by `mma.sync`,
/// in fragments of 16 by 8 by 16, or of f32 by multiply-adds of each thread.
void emitTiledProduct(mlir::ModuleOp module, llvm::StringRef name,
                      ProductLaunch product, Units units,
                      const ProductTile &tile);

void emitTensorProduct(mlir::ModuleOp module, llvm::StringRef name,
                       ProductLaunch product, const ProductTile &tile);

/// Whether operands are what `emitWarpgroupProduct` can bring.
bool canMultiplyInWarpgroups(ProductLaunch &product);
/// Emits a product of numbers of bf16 by `wgmma`, for sm_90a.
void emitWarpgroupProduct(mlir::ModuleOp module, llvm::StringRef name,
                          ProductLaunch product, const ProductTile &tile,
                          const Gpu &gpu);

} // namespace tfm::cuda

#endif // TFM_TARGET_CUDA_PRODUCTKERNEL_H
