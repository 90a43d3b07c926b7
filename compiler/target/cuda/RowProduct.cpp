//===- RowProduct.cpp - products of few rows of A -------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/target/cuda/RowProduct.h"

#include "compiler/schedule/Launches.h"
#include "compiler/schedule/View.h"
#include "compiler/target/cuda/Pieces.h"
#include "compiler/target/emit/GroupedTerms.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace tfm;
using namespace tfm::cuda;

namespace {

constexpr int64_t threads = 256, warps = threads / warpSize;
/// Columns along whose terms a warp goes at once, at most.
constexpr int64_t mostColumns = 4;
/// Rows with which a thread has registers for twice as many loads.
constexpr int64_t fewestRows = 2;
/// Blocks with which a multiprocessor has loads under way all the time, and
/// those of all of them.
constexpr int64_t atOnce = 2;
int64_t enoughBlocks() { return atOnce * a100.multiprocessors; }

/// Elements of B in a piece.
int64_t pieceOf(const ProductOperand &b, bool grouped) {
  return grouped ? DequantiseOp::groupTerms
                 : pieceBytes / elementBytes(b.element);
}

/// Whether all of an operand's rows, along whichever axis is contiguous, begin
/// at multiples of a piece.
bool liesInPieces(const ProductOperand &from, int64_t bytes) {
  auto whole = [&](int64_t stride) { return stride * bytes % pieceBytes == 0; };
  return from.alignment % pieceBytes == 0 &&
         whole(from.isAlongTerms() ? from.outerStride : from.termStride) &&
         llvm::all_of(from.batchStrides, whole);
}

class RowProduct {
public:
  RowProduct(ModuleOp module, StringRef name, ProductLaunch product,
             bool firstApart)
      : firstApart(firstApart), product(product), a(product.operandA()),
        b(product.operandB()), grouped(product.isGrouped()),
        piece(pieceOf(b, grouped)), loadsAtOnce(product.m > fewestRows ? 4 : 8),
        columns(columnsOfBlock()),
        block(module, name, product.launch,
              product.launch.getReads().size() +
                  product.launch.getWrites().size(),
              {{blocks(columns), 1, 1}, threads, resident()}),
        k(block.k),
        elements(k, product.launch, block.pointers, block.arguments) {}

  void emit() {
    if (firstApart || isLight())
      block.holdLoads();
    Value across = k.i64(blocksAcross());
    number = k.div(block.block(), blocksAcross());
    column0 = k.mul(k.rem(block.block(), across), columns);
    product.enter(block, number, a, b);
    if (b.isAlongTerms())
      emitAlongTerms();
    else
      emitAlongColumns();
  }

private:
  /// Where a thread is on its walk over all terms.
  struct Step {
    Value term;
    /// Null: always. Else `term` is one that exists, too, but counts nothing.
    Value exists;
  };

  int64_t blocksAcross() const {
    return static_cast<int64_t>(llvm::divideCeil(product.n, columns));
  }
  /// Of so many columns each.
  int64_t blocks(int64_t ofColumns) {
    return static_cast<int64_t>(llvm::divideCeil(product.n, ofColumns)) *
           product.shape().batches;
  }

  /// Blocks that a multiprocessor has at once, where it has no more: else ptxas
  /// saves registers for others, and spills. Along columns, or where a piece is
  /// more numbers, it would instead load all of A before it multiplies, and
  /// spill for that (CUDA 13).
  int64_t resident() {
    bool saves = b.isAlongTerms() && piece <= pieceBytes / 2;
    return saves && blocks(columns) <= enoughBlocks() ? atOnce : 0;
  }

  /// Columns of C that a block has: as many as there are blocks enough with.
  int64_t columnsOfBlock() {
    bool alongTerms = b.isAlongTerms();
    int64_t least = alongTerms ? warps : 2 * piece;
    int64_t most = alongTerms ? warps * mostColumns : 8 * piece;
    int64_t chosen = most;
    while (chosen > least && blocks(chosen) < enoughBlocks())
      chosen /= 2;
    return chosen;
  }

  /// Whether a thread has registers for what is added to its element while it
  /// multiplies: that is under way first of all then, and nobody waits for it
  /// in the end.
  bool isLight() const { return product.m <= fewestRows && !grouped; }

  Type memoryOfB() { return b.memory(k); }

  Value rounded(Value x) {
    Value narrow = arith::TruncFOp::create(k.b, k.loc, k.bf16Type, x);
    return arith::ExtFOp::create(k.b, k.loc, k.f32Type, narrow);
  }
  bool roundsA() { return product.isOfBf16() && a.element.isF32(); }
  bool roundsB() { return product.isOfBf16() && b.element.isF32(); }

  /// A's elements of a row from a step's term on, as they are loaded: in
  /// pieces, or one by one.
  SmallVector<Value> loadA(int64_t row, const Step &step, int64_t count) {
    SmallVector<Value> loaded;
    Value at =
        k.add(k.i64(row * a.outerStride), k.mul(step.term, a.termStride));
    Value from = k.at(a.pointer, at, a.memory(k));
    if (int64_t each = elementsOfPieceOfA(count))
      for (int64_t i = 0; i != count; i += each)
        loaded.push_back(loadPiece(k, k.at(from, i, a.memory(k))));
    else
      for (int64_t i = 0; i != count; ++i)
        loaded.push_back(block.loadFloat(
            k.at(from, i * a.termStride, a.memory(k)), a.element));
    return loaded;
  }
  /// 0 where so many elements of A are no whole pieces.
  int64_t elementsOfPieceOfA(int64_t count) const {
    int64_t bytes = elementBytes(a.element), each = pieceBytes / bytes;
    bool fits = a.isAlongTerms() && count % each == 0 && liesInPieces(a, bytes);
    return fits ? each : 0;
  }
  SmallVector<Value> ofA(ArrayRef<Value> loaded, const Step &step,
                         int64_t count) {
    SmallVector<Value> values;
    if (elementsOfPieceOfA(count))
      for (Value words : loaded)
        values.append(floatsOf(k, words, a.element));
    else
      values.append(loaded.begin(), loaded.end());
    for (Value &x : values) {
      if (roundsA())
        x = rounded(x);
      if (step.exists)
        x = block.orElse(step.exists, x, 0.0);
    }
    return values;
  }

  /// A piece of B; of 4 bits that of a column from a term on, with the scale
  /// and the minimum of its group.
  struct Piece {
    Value words, scale, minimum;
  };
  Piece load(Value place, Value column, Value term) {
    Piece loaded{loadPiece(k, place), Value(), Value()};
    if (grouped) {
      Value at = k.add(k.mul(column, b.tableStride),
                       k.div(term, DequantiseOp::groupTerms));
      loaded.scale = loadBf16(k, k.at(b.scale, at, k.bf16Type));
      loaded.minimum = loadBf16(k, k.at(b.minimum, at, k.bf16Type));
    }
    return loaded;
  }
  SmallVector<Value> ofB(const Piece &loaded) {
    SmallVector<Value> values = grouped ? halvesOf(k, loaded.words)
                                        : floatsOf(k, loaded.words, b.element);
    for (Value &x : values) {
      if (roundsB())
        x = rounded(x);
      if (grouped)
        x = k.fma(x, loaded.scale, loaded.minimum);
    }
    return values;
  }

  /// Walks over all terms from `first` on, in steps of which a thread has
  /// `each` terms. A turn has at most `most` of them, whose loads are under way
  /// together, and all turns equally many, so that none waits for few.
  SmallVector<Value> walk(
      Value first, int64_t step, int64_t each, int64_t most,
      ArrayRef<Value> sums,
      llvm::function_ref<SmallVector<Value>(ArrayRef<Step>, ValueRange)> turn) {
    auto ceil = [](int64_t x, int64_t y) {
      return static_cast<int64_t>(llvm::divideCeil(x, y));
    };
    int64_t count = ceil(product.terms, step), turns = ceil(count, most),
            together = ceil(count, turns);
    // Steps of the last turn that all threads have.
    int64_t whole = product.terms / step - (turns - 1) * together;
    auto turnFrom = [&](Value term, ValueRange before) {
      SmallVector<Step> steps;
      for (int64_t i = 0; i != together; ++i) {
        Step own{k.add(term, i * step), Value()};
        if (i >= whole) {
          own.exists = k.less(own.term, k.i64(product.terms));
          own.term = k.min(own.term, k.i64(product.terms - each));
        }
        steps.push_back(own);
      }
      return turn(steps, before);
    };
    SmallVector<Value> next(sums);
    if (firstApart) {
      next = turnFrom(first, sums);
      if (turns == 1)
        return next;
      first = k.add(first, together * step);
    }
    return k.loop(first, k.i64(product.terms), together * step, next, turnFrom);
  }

  void emitAlongTerms() {
    int64_t mine = columns / warps;
    Value firstColumn = k.add(column0, k.mul(block.warp(), mine));
    SmallVector<Value> columnOf, rowOfB;
    for (int64_t j = 0; j != mine; ++j) {
      Value column = k.add(firstColumn, j);
      if (product.n % columns)
        column = k.min(column, k.i64(product.n - 1));
      columnOf.push_back(column);
      rowOfB.push_back(
          k.at(b.pointer, k.mul(column, b.outerStride), memoryOfB()));
    }
    // Each lane stores one element.
    Value lane = block.lane(), exists = k.less(lane, k.i64(product.m * mine));
    std::vector<ElementEmitter> beside;
    auto loadBeside = [&] {
      Value row = k.div(lane, mine),
            column = k.add(firstColumn, k.rem(lane, k.i64(mine)));
      if (product.n % columns)
        exists = block.both(exists, k.less(column, k.i64(product.n)));
      beside = product.loadBeside(
          elements, k, number, k.min(row, k.i64(product.m - 1)),
          k.min(column, k.i64(product.n - 1)), /*columns=*/1);
      beside.front().beginColumn(0, Value(), /*loop=*/nullptr, 0);
      // What is written over would be so while lanes without an element read
      // it.
      for (auto read : product.launch.getBlock()->getOps<sched::ReadOp>())
        if (unsigned from = argumentOf(read).getArgNumber();
            product.launch.getAccessOf(from) == sched::Access::Point &&
            isOnlyRead(product.launch, from))
          beside.front().full(read);
    };
    if (isLight())
      loadBeside();
    // A byte has two terms of 4 bits.
    int64_t inMemory = grouped ? 2 : 1;
    SmallVector<Value> sums(product.m * mine, k.splat(0.0));
    int64_t step = warpSize * piece;
    sums = walk(k.mul(block.lane(), piece), step, piece, loadsAtOnce / mine,
                sums, [&](ArrayRef<Step> steps, ValueRange before) {
                  SmallVector<Value> next(before);
                  SmallVector<Piece> loaded;
                  for (const Step &own : steps)
                    for (int64_t j = 0; j != mine; ++j) {
                      Value at = k.div(own.term, inMemory);
                      loaded.push_back(load(k.at(rowOfB[j], at, memoryOfB()),
                                            columnOf[j], own.term));
                    }
                  // What waits until B is there would come later. (A row that
                  // the block has computed is near, and may not be there yet.)
                  bool isEarly = isLight() && !firstApart;
                  SmallVector<SmallVector<Value>> early;
                  if (isEarly)
                    for (const Step &own : steps)
                      for (int64_t row = 0; row != product.m; ++row)
                        early.push_back(loadA(row, own, piece));
                  block.gatherLoads();
                  for (auto [i, own] : llvm::enumerate(steps)) {
                    SmallVector<SmallVector<Value>> y;
                    for (int64_t j = 0; j != mine; ++j)
                      y.push_back(ofB(loaded[i * mine + j]));
                    for (int64_t row = 0; row != product.m; ++row) {
                      SmallVector<Value> x =
                          ofA(isEarly ? early[i * product.m + row]
                                      : loadA(row, own, piece),
                              own, piece);
                      for (int64_t j = 0; j != mine; ++j)
                        for (int64_t t = 0; t != piece; ++t)
                          next[row * mine + j] =
                              k.fma(x[t], y[j][t], next[row * mine + j]);
                    }
                  }
                  return next;
                });
    auto add = [&](Value x, Value y) { return k.addf(x, y); };
    for (Value &sum : sums)
      sum = block.reduceLanes(sum, warpSize, add);
    Value sum = sums.front();
    for (int64_t i = 1; i != product.m * mine; ++i)
      sum = k.select(k.equal(lane, k.i64(i)), sums[i], sum);
    if (!isLight())
      loadBeside();
    k.ifThen(exists, [&] { product.finish(std::move(beside), sum); });
  }

  void emitAlongColumns() {
    int64_t lanes = columns / piece, lanesOfTerms = warpSize / lanes;
    Value lane = k.rem(block.lane(), k.i64(lanes));
    Value inBlock = k.mul(lane, piece), column = k.add(column0, inBlock);
    // The last ones compute some columns again, and do not store them.
    if (product.n % columns)
      column = k.min(column, k.i64(product.n - piece));
    Value first =
        k.add(k.mul(block.warp(), lanesOfTerms), k.div(block.lane(), lanes));
    int64_t step = warps * lanesOfTerms;
    Value from = k.at(b.pointer, column, memoryOfB());
    SmallVector<Value> sums(product.m * piece, k.splat(0.0));
    sums = walk(first, step, /*each=*/1, loadsAtOnce, sums,
                [&](ArrayRef<Step> steps, ValueRange before) {
                  SmallVector<Value> next(before);
                  SmallVector<Piece> loaded;
                  for (const Step &own : steps)
                    loaded.push_back(load(
                        k.at(from, k.mul(own.term, b.termStride), memoryOfB()),
                        column, own.term));
                  block.gatherLoads();
                  for (auto [pieceOfB, own] : llvm::zip_equal(loaded, steps)) {
                    SmallVector<Value> y = ofB(pieceOfB);
                    for (int64_t row = 0; row != product.m; ++row) {
                      Value x = ofA(loadA(row, own, 1), own, 1).front();
                      for (int64_t j = 0; j != piece; ++j)
                        next[row * piece + j] =
                            k.fma(x, y[j], next[row * piece + j]);
                    }
                  }
                  return next;
                });
    for (Value &sum : sums)
      for (int64_t distance = warpSize / 2; distance >= lanes; distance /= 2)
        sum = k.addf(sum, block.fromLane(sum, distance));
    Value partial = block.shared(warps * product.m * columns);
    k.ifThen(k.less(block.lane(), k.i64(lanes)), [&] {
      Value to = k.at(partial,
                      k.add(k.mul(block.warp(), product.m * columns), inBlock));
      for (int64_t row = 0; row != product.m; ++row)
        for (int64_t j = 0; j != piece; j += 4)
          block.storeVector(ArrayRef(sums).slice(row * piece + j, 4),
                            k.at(to, row * columns + j));
    });
    block.barrier();
    k.loop(block.thread(), k.i64(product.m * columns), threads,
           [&](Value element) {
             Value sum = k.loadScalar(k.at(partial, element));
             for (int64_t warp = 1; warp != warps; ++warp)
               sum =
                   k.addf(sum, k.loadScalar(k.at(k.at(partial, element),
                                                 warp * product.m * columns)));
             Value row = k.div(element, columns);
             Value at = k.add(column0, k.rem(element, k.i64(columns)));
             auto store = [&] {
               product.finish(
                   product.loadBeside(elements, k, number, row, at, 1), sum);
             };
             if (product.n % columns)
               k.ifThen(k.less(at, k.i64(product.n)), store);
             else
               store();
           });
  }

  const bool firstApart;
  ProductLaunch product;
  ProductOperand a, b;
  const bool grouped;
  /// Elements of B in a load, loads of it that a thread has under way, and
  /// columns of C in a block.
  const int64_t piece, loadsAtOnce, columns;
  BlockBuilder block;
  KernelBuilder &k;
  ElementEmitter elements;
  /// The number of the product in the batch, and the block's first column.
  Value number, column0;
};

} // namespace

bool cuda::isRowProduct(ProductLaunch product) {
  if (product.m > mostRows)
    return false;
  ProductOperand b = product.operandB();
  bool grouped = product.isGrouped();
  int64_t bytes = grouped ? 1 : elementBytes(b.element);
  int64_t piece = pieceOf(b, grouped);
  if (!liesInPieces(b, bytes))
    return false;
  return b.isAlongTerms() ? product.terms % piece == 0
                          : product.n % piece == 0 && !grouped;
}

void cuda::emitRowProduct(ModuleOp module, StringRef name,
                          ProductLaunch product, bool firstApart) {
  RowProduct(module, name, product, firstApart).emit();
}
