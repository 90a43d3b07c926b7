//===- Product.cpp - matrix products on blocks of threads -----------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/target/cuda/Product.h"

#include "compiler/dialect/TfmDialect.h"
#include "compiler/schedule/Launches.h"
#include "compiler/schedule/View.h"
#include "compiler/target/cuda/BlockBuilder.h"
#include "compiler/target/emit/ElementEmitter.h"
#include "compiler/target/emit/GroupedTerms.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace tfm;
using namespace tfm::cuda;
using namespace tfm::sched;

namespace {

/// Tiles, of which a product takes the first that gives work to all
/// multiprocessors.
constexpr ProductTile tiles[] = {
    {128, 128, 8, 8, 8}, {64, 64, 16, 4, 4}, {32, 32, 16, 2, 2}};
/// Blocks with which the smallest of the GPUs that matter is busy.
constexpr int64_t enoughBlocks = 100;
/// Elements of C that are in shared memory at once on their way out.
constexpr int64_t outElements = 4096;

int64_t tilesOf(const ProductTile &tile, int64_t m, int64_t n) {
  return static_cast<int64_t>(llvm::divideCeil(m, tile.rows) *
                              llvm::divideCeil(n, tile.columns));
}

/// An operand: elements by their index along M or N, `outer`, and along K.
struct Operand {
  Value pointer;
  Type element;
  SmallVector<int64_t> batchStrides;
  int64_t outerStride = 0, termStride = 0;
  /// Of weights of 4 bits: pointers to scales and minima, and the strides of
  /// these along the batch and along N.
  Value scale, minimum;
  SmallVector<int64_t> tableBatchStrides;
  int64_t tableStride = 0;

  bool isGrouped() const { return static_cast<bool>(scale); }
};

class Product {
public:
  Product(ModuleOp module, StringRef name, LaunchOp launch, MatmulOp op,
          const ProductTile &tile, ArrayRef<int64_t> shape, int64_t terms)
      : launch(launch), op(op), tile(tile),
        batch(shape.begin(), shape.end() - 2), m(shape[shape.size() - 2]),
        n(shape.back()), terms(terms),
        block(module, name, launch,
              launch.getReads().size() + launch.getWrites().size(),
              {{tilesOf(tile, m, n) * llvm::product_of(batch), 1, 1},
               tile.threads()}),
        k(block.k), elements(k, launch, block.pointers, block.arguments) {}

  void emit() {
    a = operand(op.getA(), op.getTransposeA());
    b = operand(op.getB(), !op.getTransposeB());
    roundsA = a.element.isF32() && b.element.isBF16();
    roundsB = b.element.isF32() && a.element.isBF16() && !b.isGrouped();
    // Neighbouring blocks share their rows of A.
    Value number = block.block();
    int64_t across = static_cast<int64_t>(llvm::divideCeil(n, tile.columns)),
            down = static_cast<int64_t>(llvm::divideCeil(m, tile.rows));
    column0 = k.mul(k.rem(number, k.i64(across)), tile.columns);
    number = k.div(number, across);
    row0 = k.mul(k.rem(number, k.i64(down)), tile.rows);
    product = k.div(number, down);
    enterBatch();
    int64_t inA = tile.depth * (tile.rows + 1),
            inB = tile.depth * (tile.columns + 1);
    memory = block.shared(std::max(inA + inB, outElements));
    Value sharedB = k.at(memory, inA);
    int64_t perRow = tile.columns / tile.threadColumns;
    threadRow = k.div(block.thread(), perRow);
    threadColumn = k.rem(block.thread(), k.i64(perRow));
    SmallVector<Value> sums(tile.threadRows * tile.threadColumns, k.splat(0.0));
    sums = k.loop(k.i64(0), k.i64(terms), tile.depth, sums,
                  [&](Value term0, ValueRange before) {
                    load(a, memory, row0, m, tile.rows, term0, roundsA);
                    load(b, sharedB, column0, n, tile.columns, term0, roundsB);
                    block.barrier();
                    SmallVector<Value> next = multiply(sharedB, before);
                    block.barrier();
                    return next;
                  });
    store(sums);
  }

private:
  Value pointerOf(Value value) {
    return block.pointers[argumentOf(value).getArgNumber()];
  }

  /// `outerFirst`: the axis of M or N is the last one.
  Operand operand(Value value, bool outerLast) {
    Operand found;
    if (auto weights = value.getDefiningOp<DequantiseOp>()) {
      found = operand(weights.getQ(), outerLast);
      found.element = k.f32Type;
      found.scale = pointerOf(weights.getScale());
      found.minimum = pointerOf(weights.getMinimum());
      View table =
          viewOf(cast<MemRefType>(argumentOf(weights.getScale()).getType()));
      found.tableBatchStrides.assign(table.strides.begin(),
                                     table.strides.end() - 2);
      found.tableStride = table.strides[table.strides.size() - 2];
      return found;
    }
    View view = viewOf(cast<MemRefType>(argumentOf(value).getType()));
    size_t rank = view.strides.size();
    found.pointer = pointerOf(value);
    found.element = view.element;
    found.batchStrides.assign(view.strides.begin(), view.strides.end() - 2);
    found.outerStride = view.strides[outerLast ? rank - 1 : rank - 2];
    found.termStride = view.strides[outerLast ? rank - 2 : rank - 1];
    return found;
  }

  void enterBatch() {
    Value rest = product;
    for (size_t axis = batch.size(); axis-- > 0;) {
      Value index = axis == 0 ? rest : k.rem(rest, k.i64(batch[axis]));
      for (Operand *one : {&a, &b})
        one->pointer = k.at(one->pointer, k.mul(index, one->batchStrides[axis]),
                            one->isGrouped() ? Type(k.b.getI8Type())
                                             : memoryType(one->element));
      if (b.isGrouped())
        for (Value *table : {&b.scale, &b.minimum})
          *table =
              k.at(*table, k.mul(index, b.tableBatchStrides[axis]), k.bf16Type);
      if (axis != 0)
        rest = k.div(rest, batch[axis]);
    }
  }

  /// A number from 0 to 15, times its group's scale, and its minimum.
  Value grouped(const Operand &from, Value outer, Value term) {
    constexpr int64_t half = DequantiseOp::groupBytes;
    Value group = k.div(term, DequantiseOp::groupTerms);
    Value inHalf = k.rem(term, k.i64(half));
    Value isHigh = k.rem(k.div(term, half), k.i64(2));
    Value byte = k.add(k.mul(outer, from.outerStride),
                       k.add(k.mul(group, half), inHalf));
    Value number = integersOfHalf(
        k, loadBytes(k, k.at(from.pointer, byte, k.b.getI8Type())), isHigh);
    Value at = k.add(k.mul(outer, from.tableStride), group);
    return k.fma(number, loadBf16(k, k.at(from.scale, at, k.bf16Type)),
                 loadBf16(k, k.at(from.minimum, at, k.bf16Type)));
  }

  /// Brings a tile of an operand to `to`, as [depth, size + 1].
  void load(const Operand &from, Value to, Value outer0, int64_t outers,
            int64_t size, Value term0, bool rounds) {
    int64_t each = size * tile.depth / tile.threads();
    bool alongTerms = from.termStride == 1;
    SmallVector<std::pair<Value, Value>> stores;
    for (int64_t i = 0; i != each; ++i) {
      // Neighbouring threads read neighbouring elements.
      Value number = k.add(block.thread(), i * tile.threads());
      int64_t inner = alongTerms ? tile.depth : size;
      Value first = k.rem(number, k.i64(inner)), second = k.div(number, inner);
      Value outerIn = alongTerms ? second : first,
            termIn = alongTerms ? first : second;
      Value outer = k.add(outer0, outerIn), term = k.add(term0, termIn);
      // What is beyond the end is not stored in C; terms there count nothing.
      if (outers % size)
        outer = k.min(outer, k.i64(outers - 1));
      Value exists;
      if (terms % tile.depth) {
        exists = k.less(term, k.i64(terms));
        term = k.min(term, k.i64(terms - 1));
      }
      Value x;
      if (from.isGrouped()) {
        x = grouped(from, outer, term);
      } else {
        Value at =
            k.add(k.mul(outer, from.outerStride), k.mul(term, from.termStride));
        x = block.loadFloat(k.at(from.pointer, at, memoryType(from.element)),
                            from.element);
      }
      if (rounds) {
        Value narrow = arith::TruncFOp::create(k.b, k.loc, k.bf16Type, x);
        x = arith::ExtFOp::create(k.b, k.loc, k.f32Type, narrow);
      }
      if (exists)
        x = block.orElse(exists, x, 0.0);
      stores.push_back({x, k.at(to, k.add(k.mul(termIn, size + 1), outerIn))});
    }
    for (auto [x, at] : stores)
      k.storeScalar(x, at);
  }

  SmallVector<Value> multiply(Value sharedB, ValueRange before) {
    SmallVector<Value> sums(before);
    int64_t rowStep = tile.rows / tile.threadRows,
            columnStep = tile.columns / tile.threadColumns;
    Value fromA = k.at(memory, threadRow), fromB = k.at(sharedB, threadColumn);
    for (int64_t term = 0; term != tile.depth; ++term) {
      SmallVector<Value> x, y;
      for (int64_t i = 0; i != tile.threadRows; ++i)
        x.push_back(
            k.loadScalar(k.at(fromA, term * (tile.rows + 1) + i * rowStep)));
      for (int64_t j = 0; j != tile.threadColumns; ++j)
        y.push_back(k.loadScalar(
            k.at(fromB, term * (tile.columns + 1) + j * columnStep)));
      for (int64_t i = 0; i != tile.threadRows; ++i)
        for (int64_t j = 0; j != tile.threadColumns; ++j) {
          Value &sum = sums[i * tile.threadColumns + j];
          sum = k.fma(x[i], y[j], sum);
        }
    }
    return sums;
  }

  /// Stores C, or what is made of it, a band of rows of the tile after another:
  /// each goes to shared memory, so that there is one piece of code for all
  /// elements, and whole rows are stored.
  void store(ArrayRef<Value> sums) {
    int64_t bands =
        std::max<int64_t>(1, tile.rows * tile.columns / outElements);
    int64_t bandRows = tile.rows / bands, perBand = tile.threadRows / bands;
    int64_t rowStep = tile.rows / tile.threadRows,
            columnStep = tile.columns / tile.threadColumns;
    k.loop(k.i64(0), k.i64(bands), 1, [&](Value band) {
      Value to =
          k.at(memory, k.add(k.mul(threadRow, tile.columns), threadColumn));
      for (int64_t number = 0; number != bands; ++number)
        k.ifThen(k.equal(band, k.i64(number)), [&] {
          for (int64_t i = 0; i != perBand; ++i)
            for (int64_t j = 0; j != tile.threadColumns; ++j)
              k.storeScalar(
                  sums[(number * perBand + i) * tile.threadColumns + j],
                  k.at(to, i * rowStep * tile.columns + j * columnStep));
        });
      block.barrier();
      Value first = k.add(row0, k.mul(band, bandRows));
      k.loop(block.thread(), k.i64(bandRows * tile.columns), tile.threads(),
             [&](Value number) {
               Value row = k.add(first, k.div(number, tile.columns));
               Value column =
                   k.add(column0, k.rem(number, k.i64(tile.columns)));
               Value exists;
               if (m % tile.rows)
                 exists = k.less(row, k.i64(m));
               if (n % tile.columns)
                 exists = block.both(exists, k.less(column, k.i64(n)));
               auto one = [&] {
                 finish(row, column, k.loadScalar(k.at(memory, number)));
               };
               if (exists)
                 k.ifThen(exists, one);
               else
                 one();
             });
      block.barrier();
    });
  }

  /// Stores what the launch makes of an element.
  void finish(Value row, Value column, Value sum) {
    elements.beginRow(k.add(k.mul(product, m), row));
    elements.beginColumns(column, Value(), ElementEmitter::kAnyColumn);
    Value rounded = sum;
    elements.provide(op.getY(), rounded);
    SmallVector<Value> values;
    for (BlockArgument to : launch.getWriteArgs())
      values.push_back(
          elements.full(launch.getWriteOf(to.getArgNumber()).getValue()));
    for (auto [i, value] : llvm::enumerate(values))
      elements.store(static_cast<unsigned>(i), value);
  }

  LaunchOp launch;
  MatmulOp op;
  const ProductTile tile;
  SmallVector<int64_t> batch;
  int64_t m, n, terms;
  BlockBuilder block;
  KernelBuilder &k;
  ElementEmitter elements;
  Operand a, b;
  /// Whether elements of f32 are rounded to meet those of bf16.
  bool roundsA = false, roundsB = false;
  /// Of this block's tile: its first row and column, and the number of its
  /// product in the batch.
  Value row0, column0, product;
  Value threadRow, threadColumn, memory;
};

} // namespace

ProductTile cuda::chooseTile(int64_t m, int64_t n, int64_t batches) {
  for (const ProductTile &tile : tiles)
    if (tilesOf(tile, m, n) * batches >= enoughBlocks)
      return tile;
  return *std::rbegin(tiles);
}

LogicalResult cuda::emitProductKernel(ModuleOp module, StringRef name,
                                      LaunchOp launch) {
  auto op = cast<MatmulOp>(launch.getFirstOp());
  if (!op.getAccumulator().isF32())
    return launch.emitError()
           << "no kernel of a GPU adds up a matrix product in "
           << op.getAccumulator();
  ArrayRef<int64_t> shape = tensorType(op.getY()).getShape();
  ArrayRef<int64_t> aShape = tensorType(op.getA()).getShape();
  int64_t terms = aShape[aShape.size() - (op.getTransposeA() ? 2 : 1)];
  int64_t batches = llvm::product_of(shape.drop_back(2));
  Product(module, name, launch, op,
          chooseTile(shape[shape.size() - 2], shape.back(), batches), shape,
          terms)
      .emit();
  return success();
}
