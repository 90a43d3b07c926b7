//===- Product.cpp - matrix products on blocks of threads -----------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/target/cuda/Product.h"

#include "compiler/schedule/Launches.h"
#include "compiler/schedule/View.h"
#include "compiler/target/cuda/ProductKernel.h"
#include "compiler/target/cuda/RowProduct.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/Support/MathExtras.h"
#include <cmath>
#include <vector>

using namespace mlir;
using namespace tfm;
using namespace tfm::cuda;
using namespace tfm::sched;

//===----------------------------------------------------------------------===//
// What is multiplied
//===----------------------------------------------------------------------===//

ProductLaunch::ProductLaunch(LaunchOp launch)
    : launch(launch), op(cast<MatmulOp>(launch.getFirstOp())) {
  ArrayRef<int64_t> shape = tensorType(op.getY()).getShape();
  batch.assign(shape.begin(), shape.end() - 2);
  m = shape[shape.size() - 2];
  n = shape.back();
  terms = op.getTerms();
}

ProductShape ProductLaunch::shape() {
  return {llvm::product_of(batch), m, n, terms};
}

bool ProductLaunch::isGrouped() {
  return op.getB().getDefiningOp<DequantiseOp>() != nullptr;
}

bool ProductLaunch::isOfBf16() {
  // An f32 beside a bf16 is rounded, and integers of 8 bits are numbers of
  // bf16; those of 4 bits have scales of their own.
  if (isGrouped())
    return false;
  return getElementTypeOrSelf(op.getA()).isBF16() ||
         getElementTypeOrSelf(op.getB()).isBF16();
}

ProductOperand ProductLaunch::operandA() {
  return operand(op.getA(), op.getTransposeA(), m);
}
ProductOperand ProductLaunch::operandB() {
  return operand(op.getB(), !op.getTransposeB(), n);
}

/// `outerLast`: the axis of M or N is the last one.
ProductOperand ProductLaunch::operand(Value value, bool outerLast,
                                      int64_t outers) {
  ProductOperand found;
  if (auto weights = value.getDefiningOp<DequantiseOp>()) {
    found = operand(weights.getQ(), outerLast, outers);
    found.element = Float32Type::get(op.getContext());
    View table =
        viewOf(cast<MemRefType>(argumentOf(weights.getScale()).getType()));
    found.tableBatchStrides.assign(table.strides.begin(),
                                   table.strides.end() - 2);
    found.tableStride = table.strides[table.strides.size() - 2];
    return found;
  }
  BlockArgument argument = argumentOf(value);
  View view = viewOf(cast<MemRefType>(argument.getType()));
  size_t rank = view.strides.size();
  found.element = view.element;
  found.batchStrides.assign(view.strides.begin(), view.strides.end() - 2);
  found.outerStride = view.strides[outerLast ? rank - 1 : rank - 2];
  found.termStride = view.strides[outerLast ? rank - 2 : rank - 1];
  found.outers = outers;
  found.terms = terms;
  found.alignment = alignmentOf(launch.getReads()[argument.getArgNumber()]);
  return found;
}

SmallVector<Value> ProductLaunch::indicesOf(KernelBuilder &k, Value number) {
  SmallVector<Value> indices(batch.size());
  for (size_t axis = batch.size(); axis-- > 0;) {
    indices[axis] = axis == 0 ? number : k.rem(number, k.i64(batch[axis]));
    if (axis != 0)
      number = k.div(number, batch[axis]);
  }
  return indices;
}

void ProductLaunch::enter(BlockBuilder &block, Value number, ProductOperand &a,
                          ProductOperand &b) {
  KernelBuilder &k = block.k;
  auto pointerOf = [&](Value value) {
    return block.pointers[argumentOf(value).getArgNumber()];
  };
  a.pointer = pointerOf(op.getA());
  if (auto weights = op.getB().getDefiningOp<DequantiseOp>()) {
    b.pointer = pointerOf(weights.getQ());
    b.scale = pointerOf(weights.getScale());
    b.minimum = pointerOf(weights.getMinimum());
  } else {
    b.pointer = pointerOf(op.getB());
  }
  for (auto [axis, index] : llvm::enumerate(indicesOf(k, number))) {
    for (ProductOperand *one : {&a, &b})
      one->pointer = k.at(one->pointer, k.mul(index, one->batchStrides[axis]),
                          one->memory(k));
    if (b.isGrouped())
      for (Value *table : {&b.scale, &b.minimum})
        *table =
            k.at(*table, k.mul(index, b.tableBatchStrides[axis]), k.bf16Type);
  }
}

std::vector<ElementEmitter>
ProductLaunch::loadBeside(const ElementEmitter &elements, KernelBuilder &k,
                          Value number, ValueRange rows, Value column,
                          int64_t columns) {
  std::vector<ElementEmitter> ofRows(rows.size(), elements);
  for (auto [row, ofRow] : llvm::zip_equal(rows, ofRows)) {
    ofRow.beginRow(k.add(k.mul(number, m), row));
    ofRow.beginTile(column, columns);
    ofRow.loadTiles();
  }
  return ofRows;
}

void ProductLaunch::finish(std::vector<ElementEmitter> ofRows,
                           ValueRange sums) {
  size_t columns = sums.size() / ofRows.size();
  SmallVector<Value> values;
  for (auto [i, ofRow] : llvm::enumerate(ofRows))
    for (size_t j = 0; j != columns; ++j) {
      auto column = static_cast<int64_t>(j);
      ofRow.beginColumn(column, Value(), /*loop=*/nullptr, column);
      ofRow.provide(op.getY(), sums[i * columns + j]);
      for (BlockArgument to : launch.getWriteArgs())
        values.push_back(
            ofRow.full(launch.getWriteOf(to.getArgNumber()).getValue()));
    }
  size_t writes = launch.getWrites().size();
  for (auto [i, ofRow] : llvm::enumerate(ofRows)) {
    for (size_t j = 0; j != columns; ++j) {
      ofRow.beginColumn(static_cast<int64_t>(j), Value());
      for (size_t to = 0; to != writes; ++to)
        ofRow.store(static_cast<unsigned>(to),
                    values[(i * columns + j) * writes + to]);
    }
    ofRow.endTile();
  }
}

int64_t ProductLaunch::rowsTogether(int64_t registers) {
  // About as many registers as CUDA 13's ptxas wants for a row: a number for
  // each op, the generator's for dropout, and what is stored with its address
  // until all rows are loaded for; and those that all rows share.
  constexpr int64_t ofDropout = 6, ofWrite = 2, shared = 24, most = 4;
  auto ofRow = static_cast<int64_t>(launch.getWrites().size()) * ofWrite;
  launch.getBody().walk(
      [&](Operation *one) { ofRow += isa<DropoutOp>(one) ? ofDropout : 1; });
  int64_t rows = std::clamp<int64_t>((registers - shared) / ofRow, 1, most);
  return static_cast<int64_t>(llvm::bit_floor(static_cast<uint64_t>(rows)));
}

void ProductLaunch::finishRows(const ElementEmitter &elements, KernelBuilder &k,
                               Value number, Value column, int64_t count,
                               int64_t together, Value allExist,
                               llvm::function_ref<RowOfSums(Value)> load) {
  // Unrolled all of them would take more registers than the sums leave.
  auto each = [&](int64_t step, bool looks) {
    k.rolledLoop(k.i64(0), k.i64(count), step, [&](Value first) {
      SmallVector<Value> rows, sums;
      for (int64_t i = 0; i != step; ++i) {
        auto [row, ofRow] = load(k.add(first, i));
        rows.push_back(row);
        sums.append(ofRow);
      }
      auto columns = static_cast<int64_t>(sums.size() / rows.size());
      auto store = [&] {
        finish(loadBeside(elements, k, number, rows, column, columns), sums);
      };
      if (looks)
        k.ifThen(k.less(rows.front(), k.i64(m)), store);
      else
        store();
    });
  };
  if (!allExist)
    return each(together, /*looks=*/false);
  k.ifThen(
      allExist, [&] { each(together, /*looks=*/false); },
      [&] { each(1, /*looks=*/true); });
}

//===----------------------------------------------------------------------===//
// What all kernels do
//===----------------------------------------------------------------------===//

static StagedOperand::Form formOf(Units units) {
  return units == Units::Tensor ? StagedOperand::Form::Matrix
                                : StagedOperand::Form::Terms;
}

/// Registers of a thread for an operand, `size` elements of it along M or N,
/// beyond what every product takes: for what goes through them, and for the
/// places of rows that may be the last one.
static int64_t moreRegisters(const ProductOperand &from, int64_t size,
                             const ProductTile &tile, Units units) {
  constexpr int64_t known = 2, ofPlace = 2, ofElement = 4;
  int64_t elements = size * tile.depth / threadsOf(tile, units);
  if (!StagedOperand::canCopy(from, formOf(units)))
    return ofElement * elements;
  if (units == Units::F32 || !from.isAlongTerms() || from.outers % size == 0)
    return 0;
  int64_t places = elements / StagedOperand::pieceElements;
  return std::max<int64_t>(places - known, 0) * ofPlace;
}

static int64_t moreRegisters(ProductLaunch &product, const ProductTile &tile,
                             Units units) {
  return moreRegisters(product.operandA(), tile.rows, tile, units) +
         moreRegisters(product.operandB(), tile.columns, tile, units);
}

ProductKernel::ProductKernel(ModuleOp module, StringRef name,
                             ProductLaunch product, const ProductTile &tile,
                             Units units)
    : product(product), tile(tile),
      block(
          module, name, product.launch,
          product.launch.getReads().size() + product.launch.getWrites().size(),
          {{tile.tilesOf(product.m, product.n) * product.shape().batches, 1, 1},
           threadsOf(tile, units),
           residentBlocks(tile, units, a100,
                          moreRegisters(product, tile, units))}),
      k(block.k), elements(k, product.launch, block.pointers, block.arguments),
      units(units) {}

void ProductKernel::emit() {
  ProductOperand from = product.operandA(), with = product.operandB();
  place = placeOf(k, product, tile, a100, block.block());
  product.enter(block, place.number, from, with);
  a.emplace(block, from, formOf(units), tile.rows, tile.depth);
  b.emplace(block, with, formOf(units), tile.columns, tile.depth);
  int64_t stages = tile.stages * (a->stageBytes() + b->stageBytes());
  bandPartRows = partRowsOfBand(stages);
  int64_t band = tile.rows / tile.partRows * bandPartRows * bandStride() * 4;
  memory = block.dynamicShared(std::max(stages, band));
  a->begin(place.row0);
  b->begin(place.column0);
  beginSteps();
  store(addUp());
}

TilePlace cuda::placeOf(KernelBuilder &k, const ProductLaunch &product,
                        const ProductTile &tile, const Gpu &gpu,
                        Value tileNumber) {
  int64_t across = llvm::divideCeil(product.n, tile.columns),
          down = llvm::divideCeil(product.m, tile.rows);
  Value number = k.div(tileNumber, across * down);
  Value rest = k.rem(tileNumber, k.i64(across * down));
  // Blocks that run at the same time have tiles of about a square of C, column
  // after column of so many rows, so that they find in the second-level cache
  // what others have read of A and B.
  int64_t group = std::min<int64_t>(
      down, std::max<int64_t>(
                1, std::lround(std::sqrt(
                       static_cast<double>(gpu.multiprocessors * tile.columns) /
                       static_cast<double>(tile.rows)))));
  Value groupNumber = k.div(rest, group * across);
  Value inGroup = k.rem(rest, k.i64(group * across));
  Value firstRow = k.mul(groupNumber, group);
  Value rows = k.i64(group);
  if (down % group)
    rows = k.min(rows, k.sub(k.i64(down), firstRow));
  return {k.mul(k.add(firstRow, k.rem(inGroup, rows)), tile.rows),
          k.mul(k.div(inGroup, rows), tile.columns), number};
}

SmallVector<Value> ProductKernel::addUp() {
  int64_t steps = llvm::divideCeil(product.terms, tile.depth);
  int64_t stageBytes = a->stageBytes() + b->stageBytes();
  int64_t allBytes = tile.stages * stageBytes;
  bool copies = a->isAsync() || b->isAsync();
  Type byte = k.b.getI8Type();
  auto ofB = [&](Value stage) { return k.at(stage, a->stageBytes(), byte); };
  for (int64_t step = 0; step != tile.stages - 1; ++step) {
    if (step < steps) {
      Value stage = k.at(memory, step * stageBytes, byte);
      Value term0 = k.i64(step * tile.depth);
      SmallVector<Value> ofStage = a->load(stage, term0);
      SmallVector<Value> others = b->load(ofB(stage), term0);
      a->store(stage, ofStage);
      b->store(ofB(stage), others);
    }
    if (copies)
      block.commitCopies();
  }
  auto next = [&](Value offset) {
    Value after = k.add(offset, stageBytes);
    return k.select(k.equal(after, k.i64(allBytes)), k.i64(0), after);
  };
  SmallVector<Value> state(sums(), k.splat(0.0));
  // Where the stage that is multiplied begins, and the one that is filled.
  state.append({k.i64(0), k.i64((tile.stages - 1) * stageBytes)});
  state = k.loop(
      k.i64(0), k.i64(steps), 1, state, [&](Value step, ValueRange before) {
        Value reads = before[before.size() - 2], fills = before.back();
        // All have what they copied themselves for this step, and nobody reads
        // any more what was multiplied last, where the next goes.
        if (copies)
          block.awaitCopies(tile.stages - 2);
        block.barrier();
        Value later = k.add(step, tile.stages - 1);
        Value stage = k.at(memory, fills, byte);
        // Beyond the end nothing is copied; what goes through registers is the
        // last step's again, which nobody reads.
        Value term0 = k.mul(k.min(later, k.i64(steps - 1)), tile.depth);
        SmallVector<Value> ofStage, others;
        auto load = [&](StagedOperand &operand, Value to,
                        SmallVector<Value> &loaded) {
          if (operand.isAsync())
            k.ifThen(k.less(later, k.i64(steps)),
                     [&] { operand.load(to, term0); });
          else
            loaded = operand.load(to, term0);
        };
        load(*a, stage, ofStage);
        load(*b, ofB(stage), others);
        if (copies)
          block.commitCopies();
        Value from = k.at(memory, reads, byte);
        SmallVector<Value> added =
            multiply(from, ofB(from), before.drop_back(2));
        a->store(stage, ofStage);
        b->store(ofB(stage), others);
        added.append({next(reads), next(fills)});
        return added;
      });
  if (copies)
    block.awaitCopies(0);
  block.barrier();
  state.truncate(sums());
  return state;
}

void ProductKernel::store(ValueRange sums) {
  int64_t bands = tile.partRows / bandPartRows;
  int64_t bandRows = tile.rows / bands;
  // A thread has a column of a band, and every so many rows of it.
  int64_t rowStep = block.threads() / tile.columns;
  int64_t rows = bandRows / rowStep;
  int64_t together = product.rowsTogether(
      a100.threadRegisters(block.resident(), block.threads()) - this->sums());
  Value column = k.rem(block.thread(), k.i64(tile.columns));
  Value firstRow = k.div(block.thread(), tile.columns);
  Value inC = k.add(place.column0, column);
  Value allExist;
  if (product.m % tile.rows)
    allExist = k.less(k.add(place.row0, tile.rows - 1), k.i64(product.m));
  k.loop(k.i64(0), k.i64(bands), 1, [&](Value band) {
    for (int64_t one = 0; one != bands; ++one)
      k.ifThen(k.equal(band, k.i64(one)), [&] { storeBand(one, sums); });
    block.barrier();
    auto storeRows = [&] {
      product.finishRows(
          elements, k, place.number, inC, rows, std::min(rows, together),
          allExist, [&](Value row) -> ProductLaunch::RowOfSums {
            Value inBand = k.add(firstRow, k.mul(row, rowStep));
            Value at = k.add(k.mul(inBand, bandStride()), column);
            return {k.add(place.row0, rowOf(band, inBand)),
                    {k.loadScalar(k.at(memory, at))}};
          });
    };
    if (product.n % tile.columns)
      k.ifThen(k.less(inC, k.i64(product.n)), storeRows);
    else
      storeRows();
    block.barrier();
  });
}

//===----------------------------------------------------------------------===//
// Products of f32
//===----------------------------------------------------------------------===//

namespace {

/// A thread has `partRows` rows and `partColumns` columns, in groups of
/// neighbours that one load brings.
class F32Product final : public ProductKernel {
public:
  F32Product(ModuleOp module, StringRef name, ProductLaunch product,
             const ProductTile &tile)
      : ProductKernel(module, name, product, tile, Units::F32),
        rowGroup(std::min<int64_t>(tile.partRows, 4)),
        columnGroup(std::min<int64_t>(tile.partColumns, 4)) {}

private:
  int64_t sums() const override { return tile.partRows * tile.partColumns; }

  void beginSteps() override {
    int64_t perRow = tile.columns / tile.partColumns;
    row = k.mul(k.div(block.thread(), perRow), rowGroup);
    column = k.mul(k.rem(block.thread(), k.i64(perRow)), columnGroup);
  }

  /// From one group of a thread to the next.
  int64_t rowGroupStep() const {
    return tile.rows / (tile.partRows / rowGroup);
  }
  int64_t columnGroupStep() const {
    return tile.columns / (tile.partColumns / columnGroup);
  }

  SmallVector<Value> multiply(Value stageA, Value stageB,
                              ValueRange before) override {
    SmallVector<Value> next(before);
    Value fromA = k.at(stageA, row), fromB = k.at(stageB, column);
    for (int64_t term = 0; term != tile.depth; ++term) {
      SmallVector<Value> x, y;
      for (int64_t i = 0; i != tile.partRows; i += rowGroup)
        x.append(block.loadVector(
            k.at(fromA, term * a->termStride() + i / rowGroup * rowGroupStep()),
            rowGroup));
      for (int64_t j = 0; j != tile.partColumns; j += columnGroup)
        y.append(block.loadVector(
            k.at(fromB,
                 term * b->termStride() + j / columnGroup * columnGroupStep()),
            columnGroup));
      for (int64_t i = 0; i != tile.partRows; ++i)
        for (int64_t j = 0; j != tile.partColumns; ++j) {
          Value &sum = next[i * tile.partColumns + j];
          sum = k.fma(x[i], y[j], sum);
        }
    }
    return next;
  }

  int64_t partRowsOfBand(int64_t bytes) const override {
    // Of more rows ptxas keeps more addresses than there are registers.
    int64_t rows = std::min<int64_t>(rowGroup, 2);
    while (rows > 1 &&
           tile.rows / tile.partRows * rows * bandStride() * 4 > bytes)
      rows /= 2;
    return rows;
  }

  void storeBand(int64_t band, ValueRange sums) override {
    Value inBand = k.mul(k.div(row, rowGroup), bandPartRows);
    Value to = k.at(memory, k.add(k.mul(inBand, bandStride()), column));
    for (int64_t i = 0; i != bandPartRows; ++i)
      for (int64_t j = 0; j != tile.partColumns; j += columnGroup)
        block.storeVector(
            sums.slice((band * bandPartRows + i) * tile.partColumns + j,
                       columnGroup),
            k.at(to, i * bandStride() + j / columnGroup * columnGroupStep()));
  }

  Value rowOf(Value band, Value inBand) override {
    // Of the thread's rows, the first in the band.
    Value first = k.mul(band, bandPartRows);
    Value group = k.div(first, rowGroup),
          inGroup = k.rem(first, k.i64(rowGroup));
    Value thread = k.div(inBand, bandPartRows);
    Value part = k.rem(inBand, k.i64(bandPartRows));
    return k.add(k.add(k.mul(group, rowGroupStep()), k.mul(thread, rowGroup)),
                 k.add(inGroup, part));
  }

  const int64_t rowGroup, columnGroup;
  /// This thread's first.
  Value row, column;
};

} // namespace

void cuda::emitTiledProduct(ModuleOp module, StringRef name,
                            ProductLaunch product, Units units,
                            const ProductTile &tile) {
  if (units == Units::Tensor)
    emitTensorProduct(module, name, product, tile);
  else
    F32Product(module, name, product, tile).emit();
}

/// A product that `wgmma` computes no slower on an H100 than the kernel that
/// all GPUs run, of `tile`, has another form for it: where both wait for
/// copies, tensor cores and registers have less to do. Returns about how many
/// seconds it takes there.
static double emitHopperForm(ModuleOp module, StringRef name,
                             ProductLaunch &product, const ProductTile &other) {
  ProductShape shape = product.shape();
  double otherSeconds = secondsOf(other, Units::Tensor, shape, h100);
  if (!canMultiplyInWarpgroups(product))
    return otherSeconds;
  // GELU's derivative is so long.
  constexpr int64_t much = 8;
  int64_t follows = llvm::count_if(*product.op->getBlock(), [](Operation &op) {
    return op.hasTrait<OpTrait::Elementwise>();
  });
  bool takesRegisters = product.launch.getWrites().size() > 1 ||
                        product.launch.getRng() || follows > much;
  ProductTile tile =
      chooseTile(Units::Warpgroup, shape, h100, [&](const ProductTile &tile) {
        return !takesRegisters ||
               instructionColumns(tile, h100) == tile.columns;
      });
  double seconds = secondsOf(tile, Units::Warpgroup, shape, h100);
  // What estimates are off by at least.
  constexpr double slack = 1.05;
  if (seconds > slack * otherSeconds)
    return otherSeconds;
  addHopperForm(module, name, [&](StringRef form) {
    emitWarpgroupProduct(module, form, product, tile, h100);
  });
  return seconds;
}

LogicalResult cuda::emitProductKernel(ModuleOp module, StringRef name,
                                      LaunchOp launch) {
  ProductLaunch product(launch);
  if (!product.op.getAccumulator().isF32())
    return launch.emitError()
           << "no kernel of a GPU adds up a matrix product in "
           << product.op.getAccumulator();
  if (isRowProduct(product)) {
    emitRowProduct(module, name, product);
    return success();
  }
  Units units = product.isOfBf16() ? Units::Tensor : Units::F32;
  ProductShape shape = product.shape();
  // Of f32 most GPUs multiply twice as much in a cycle as an A100, as many
  // numbers as instructions are given out for: small parts of threads, which
  // load more for a product, are slower there.
  const Gpu &gpu = units == Units::F32 ? h100 : a100;
  ProductTile tile =
      chooseTile(units, shape, gpu, [&](const ProductTile &tile) {
        return registersOf(tile, units, moreRegisters(product, tile, units)) <=
               maxRegisters;
      });
  emitTiledProduct(module, name, product, units, tile);
  double onH100 = units == Units::Tensor
                      ? emitHopperForm(module, name, product, tile)
                      : secondsOf(tile, units, shape, h100);
  module.lookupSymbol(name)->setAttr(
      secondsAttribute,
      Builder(module.getContext())
          .getDenseF64ArrayAttr({secondsOf(tile, units, shape, a100), onH100}));
  return success();
}
