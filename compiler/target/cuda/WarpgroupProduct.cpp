//===- WarpgroupProduct.cpp - matrix products by warpgroups ---------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Products of bf16 on Hopper. A block lives as long as the kernel and computes
// one tile after the other, as many as there are blocks apart. Its last
// warpgroup multiplies nothing: one thread of it has operands brought to shared
// memory, stage after stage, and goes on with the next tile while the others
// bring out the last one. Each of these warpgroups has 64 rows of the tile and
// all its columns, which `wgmma` multiplies from shared memory.
//
//===----------------------------------------------------------------------===//

#include "compiler/schedule/Launches.h"
#include "compiler/target/cuda/PanelOperand.h"
#include "llvm/Support/MathExtras.h"

#include <numeric>

using namespace mlir;
using namespace tfm;
using namespace tfm::cuda;

namespace {

class WarpgroupProduct {
public:
  WarpgroupProduct(ModuleOp module, StringRef name, ProductLaunch product,
                   const ProductTile &tile, const Gpu &gpu)
      : product(product), tile(tile), gpu(gpu),
        tiles(tile.tilesOf(product.m, product.n) * product.shape().batches),
        resident(residentBlocks(tile, Units::Warpgroup, gpu)),
        block(module, name, product.launch,
              product.launch.getReads().size() +
                  product.launch.getWrites().size(),
              {{tiles, 1, 1},
               threadsOf(tile, Units::Warpgroup),
               resident,
               /*persistent=*/true}),
        k(block.k),
        elements(k, product.launch, block.pointers, block.arguments),
        a(block, product.operandA(), argumentNumber(product.op.getA()),
          product.batch, tile.rows),
        b(block, product.operandB(), argumentNumber(product.op.getB()),
          product.batch, tile.columns) {}

  void emit();

private:
  static constexpr int64_t warpRows = 16, warpgroupRows = 64, termsOfStep = 16;

  unsigned argumentNumber(Value operand) {
    return argumentOf(operand).getArgNumber();
  }

  int64_t multiplying() const { return block.threads() - warpgroupThreads; }
  int64_t steps() const { return llvm::divideCeil(product.terms, tile.depth); }
  int64_t stageBytes() const { return a.stageBytes() + b.stageBytes(); }

  /// Where a step is among all that the block does: the number of its stage and
  /// the parity of its round over the stages.
  struct Turn {
    Value number, parity;
  };
  Turn after(const Turn &turn);
  Value stageOf(const Turn &turn);
  Value fullOf(const Turn &turn) {
    return k.at(barriers, turn.number, k.i64Type);
  }
  /// Of the stage of that number.
  Value emptyOf(Value number) {
    return k.at(k.at(barriers, tile.stages, k.i64Type), number, k.i64Type);
  }
  /// Calls `body` with the place of each of this block's tiles and the turn of
  /// its first step; it returns that behind its last one.
  void forEachTile(llvm::function_ref<Turn(const TilePlace &, Turn)> body);

  void bring();
  void multiply();
  void prefetch(const TilePlace &place);
  /// This warp does not read the stage before that of `turn` any more.
  void leaveBefore(const Turn &turn);
  /// Whether there are registers for more than the sums: instructions of fewer
  /// columns than the tile has are chosen where there are few.
  bool leavesRegisters() const {
    return instructionColumns(tile, gpu) == tile.columns;
  }
  /// Neighbouring columns of C that a lane stores, at a multiple of as many in
  /// every row.
  int64_t columnsOfLane() const {
    return std::gcd<int64_t>(product.n, leavesRegisters() ? 8 : 1);
  }
  int64_t rowsTogether();
  SmallVector<Value> loadOfBand(Value band, Value row, Value column);
  void store(ValueRange sums, const TilePlace &place);
  void storeBand(int64_t band, ValueRange sums);
  Value swapped(Value row, Value column);

  ProductLaunch product;
  const ProductTile tile;
  const Gpu &gpu;
  const int64_t tiles, resident;
  BlockBuilder block;
  KernelBuilder &k;
  ElementEmitter elements;
  PanelOperand a, b;
  /// Stages; bands of the warps; barriers, which tell that a stage has been
  /// filled, and that all have read it.
  Value memory, bands, barriers;
};

} // namespace

void WarpgroupProduct::emit() {
  constexpr int64_t barrierBytes = 8, panelAlignment = 1024;
  Type byte = k.b.getI8Type();
  int64_t ofStages = tile.stages * stageBytes();
  memory = block.dynamicShared(ofStages + tile.bandBytes() +
                                   2 * tile.stages * barrierBytes,
                               panelAlignment);
  bands = k.at(memory, ofStages, byte);
  barriers = k.at(bands, tile.bandBytes(), byte);
  k.ifThen(k.equal(block.thread(), k.i64(0)), [&] {
    for (int64_t stage = 0; stage != tile.stages; ++stage) {
      block.makeBarrier(k.at(barriers, stage * barrierBytes, byte), 1);
      block.makeBarrier(
          k.at(barriers, (tile.stages + stage) * barrierBytes, byte),
          multiplying() / warpSize);
    }
    block.fenceBarriers();
  });
  block.barrier();
  block.divideWork(gpu, [&] { multiply(); }, [&] { bring(); });
}

WarpgroupProduct::Turn WarpgroupProduct::after(const Turn &turn) {
  Value next = k.add(turn.number, 1);
  Value isOver = k.equal(next, k.i64(tile.stages));
  return {k.select(isOver, k.i64(0), next),
          k.select(isOver, k.sub(k.i64(1), turn.parity), turn.parity)};
}

Value WarpgroupProduct::stageOf(const Turn &turn) {
  return k.at(memory, k.mul(turn.number, stageBytes()), k.b.getI8Type());
}

void WarpgroupProduct::forEachTile(
    llvm::function_ref<Turn(const TilePlace &, Turn)> body) {
  SmallVector<Value> first = {k.i64(0), k.i64(0)};
  k.loop(block.block(), k.i64(tiles), block.launchedBlocks(), first,
         [&](Value number, ValueRange before) -> SmallVector<Value> {
           Turn turn = body(placeOf(k, product, tile, gpu, number),
                            {before[0], before[1]});
           return {turn.number, turn.parity};
         });
}

void WarpgroupProduct::bring() {
  forEachTile([&](const TilePlace &place, Turn first) -> Turn {
    SmallVector<Value> indices = product.indicesOf(k, place.number);
    SmallVector<Value> last = k.loop(
        k.i64(0), k.i64(steps()), 1, {first.number, first.parity},
        [&](Value step, ValueRange before) -> SmallVector<Value> {
          Turn turn = {before[0], before[1]};
          Value stage = stageOf(turn), full = fullOf(turn);
          // In the first round there is nobody to wait for.
          block.await(emptyOf(turn.number), k.sub(k.i64(1), turn.parity));
          block.arriveBefore(full, stageBytes());
          Value term = k.mul(step, tile.depth);
          a.bring(stage, place.row0, term, indices, full);
          b.bring(k.at(stage, a.stageBytes(), k.b.getI8Type()), place.column0,
                  term, indices, full);
          Turn next = after(turn);
          return {next.number, next.parity};
        });
    return {last[0], last[1]};
  });
}

void WarpgroupProduct::leaveBefore(const Turn &turn) {
  Value isFirst = k.equal(turn.number, k.i64(0));
  Value before =
      k.select(isFirst, k.i64(tile.stages - 1), k.sub(turn.number, k.i64(1)));
  k.ifThen(k.equal(block.lane(), k.i64(0)),
           [&] { block.arrive(emptyOf(before)); });
}

void WarpgroupProduct::multiply() {
  Value row = k.mul(k.div(block.thread(), warpgroupThreads), warpgroupRows);
  const int64_t ofInstruction = instructionColumns(tile, gpu);
  forEachTile([&](const TilePlace &place, Turn first) -> Turn {
    if (leavesRegisters())
      prefetch(place);
    SmallVector<Value> state(warpgroupRows * tile.columns / warpgroupThreads,
                             k.splat(0.0));
    state.append({first.number, first.parity});
    state = k.loop(
        k.i64(0), k.i64(steps()), 1, state, [&](Value step, ValueRange before) {
          Turn turn = {before[before.size() - 2], before.back()};
          Value stage = stageOf(turn);
          Value ofB = k.at(stage, a.stageBytes(), k.b.getI8Type());
          SmallVector<Value> sums(before.drop_back(2));
          SmallVector<BlockBuilder::WarpgroupStep> products;
          for (int64_t i = 0; i != tile.depth / termsOfStep; ++i) {
            auto &product = products.emplace_back();
            product.a = {a.descriptor(stage, row, i)};
            for (int64_t j = 0; j != tile.columns; j += ofInstruction)
              product.b.push_back(b.descriptor(ofB, k.i64(j), i));
          }
          block.await(fullOf(turn), turn.parity);
          block.multiplyWarpgroup(products, a.isAlongTerms(), b.isAlongTerms(),
                                  sums);
          // While these are multiplied, those before them are over.
          block.awaitProducts(1);
          k.ifThen(k.less(k.i64(0), step), [&] { leaveBefore(turn); });
          Turn next = after(turn);
          sums.append({next.number, next.parity});
          return sums;
        });
    Turn last = {state[state.size() - 2], state.back()};
    MutableArrayRef<Value> sums = MutableArrayRef(state).drop_back(2);
    block.awaitProducts(sums);
    leaveBefore(last);
    store(sums, place);
    return last;
  });
}

/// What is read beside the operands, to where sums of a warp go, is on its way
/// from memory while they are added up: what follows then takes so long that
/// nobody else would wait for it meanwhile.
void WarpgroupProduct::prefetch(const TilePlace &place) {
  // Bytes come by 16, which so many columns have of most elements.
  constexpr int64_t columns = 8, granule = 16;
  if (product.n % columns)
    return;
  Value row =
      k.add(place.row0, k.add(k.mul(block.warp(), warpRows), block.lane()));
  Value exists = k.less(block.lane(), k.i64(warpRows));
  if (product.m % tile.rows)
    exists = block.both(exists, k.less(row, k.i64(product.m)));
  k.ifThen(exists, [&] {
    elements.beginRow(k.add(k.mul(place.number, product.m), row));
    elements.beginTile(place.column0, columns);
    elements.forEachTile([&](Value from, int64_t bytes) {
      if (bytes % granule)
        return;
      Value count = k.i64(tile.columns);
      if (product.n % tile.columns)
        count = k.min(count, k.sub(k.i64(product.n), place.column0));
      block.prefetch(from, k.mul(count, bytes / columns));
    });
  });
}

/// Rows of a band that are loaded for before any is stored: the loads of what
/// may lie where one stores wait for that, and then for memory.
int64_t WarpgroupProduct::rowsTogether() {
  if (leavesRegisters())
    return bandRows / columnsOfLane();
  // Functions take the few that there are.
  bool isLight = llvm::none_of(*product.op->getBlock(), [](Operation &op) {
    return isa<DropoutOp>(op) || (op.hasTrait<OpTrait::Elementwise>() &&
                                  !isa<AddOp, SubOp, MulOp, CastOp>(op));
  });
  return isLight ? 8 : 1;
}

/// Sums go to shared memory and from there to C, so that lanes store what lies
/// together, of as many neighbouring columns as memory moves at once; no warp
/// waits for another one.
void WarpgroupProduct::store(ValueRange sums, const TilePlace &place) {
  int64_t bandsOfWarp = tile.columns / bandColumns;
  const int64_t columns = columnsOfLane();
  int64_t lanesOfRow = bandColumns / columns;
  int64_t rowsAtOnce = warpSize / lanesOfRow;
  Value laneRow = k.div(block.lane(), lanesOfRow);
  Value laneColumn = k.mul(k.rem(block.lane(), k.i64(lanesOfRow)), columns);
  Value mine = k.at(bands, k.mul(block.warp(), bandRows * bandStride));
  Value firstRow = k.add(place.row0, k.mul(block.warp(), warpRows));
  Value allExist;
  if (product.m % tile.rows)
    allExist = k.less(k.add(firstRow, bandRows - 1), k.i64(product.m));
  k.loop(k.i64(0), k.i64(bandsOfWarp), 1, [&](Value band) {
    for (int64_t one = 0; one != bandsOfWarp; ++one)
      k.ifThen(k.equal(band, k.i64(one)), [&] { storeBand(one, sums); });
    block.warpBarrier();
    Value column =
        k.add(place.column0, k.add(k.mul(band, bandColumns), laneColumn));
    auto storeRows = [&] {
      product.finishRows(
          elements, k, place.number, column, bandRows / rowsAtOnce,
          rowsTogether(), allExist,
          [&](Value number) -> ProductLaunch::RowOfSums {
            Value row = k.add(k.mul(number, rowsAtOnce), laneRow);
            return {k.add(firstRow, row), loadOfBand(mine, row, laneColumn)};
          });
    };
    if (product.n % tile.columns)
      k.ifThen(k.less(column, k.i64(product.n)), storeRows);
    else
      storeRows();
    block.warpBarrier();
  });
}

/// Where a band has a column of a row. Eight lanes read 4 columns each at once,
/// which are of two rows where each lane has 8: the halves of 8 columns change
/// places in every second row then, so that they meet no conflict between
/// banks.
Value WarpgroupProduct::swapped(Value row, Value column) {
  if (columnsOfLane() <= 4)
    return column;
  return block.exclusiveOr(column, k.mul(k.rem(row, k.i64(2)), 4));
}

/// The sums of a lane's columns.
SmallVector<Value> WarpgroupProduct::loadOfBand(Value band, Value row,
                                                Value column) {
  int64_t columns = columnsOfLane();
  int64_t ofLoad = std::min<int64_t>(columns, 4);
  SmallVector<Value> sums;
  for (int64_t i = 0; i != columns; i += ofLoad) {
    Value at = k.add(k.mul(row, bandStride), swapped(row, k.add(column, i)));
    sums.append(block.loadVector(k.at(band, at), ofLoad));
  }
  return sums;
}

/// Of each 16 by 8 sums of a warp a lane has 2 (lane % 4) and the one after it
/// of the rows lane / 4 and lane / 4 + 8 (PTX ISA, "Matrix Fragments for
/// wgmma.mma_async.m64nNk16").
void WarpgroupProduct::storeBand(int64_t band, ValueRange sums) {
  constexpr int64_t fragmentColumns = 8, ofFragment = 4;
  Value mine = k.mul(block.warp(), bandRows * bandStride);
  Value row = k.div(block.lane(), 4);
  Value inBand = k.add(k.mul(row, bandStride),
                       swapped(row, k.mul(k.rem(block.lane(), k.i64(4)), 2)));
  Value to = k.at(bands, k.add(mine, inBand));
  constexpr int64_t fragments = bandColumns / fragmentColumns;
  for (int64_t j = 0; j != fragments; ++j)
    for (int64_t half = 0; half != 2; ++half)
      block.storeVector(
          sums.slice((band * fragments + j) * ofFragment + half * 2, 2),
          k.at(to, half * 8 * bandStride + j * fragmentColumns));
}

bool cuda::canMultiplyInWarpgroups(ProductLaunch &product) {
  auto canBring = [&](Value value, const ProductOperand &operand) {
    // Where a row is known to the GPU alone nobody can tell the hardware.
    unsigned number = argumentOf(value).getArgNumber();
    return PanelOperand::canBring(operand, product.batch) &&
           llvm::none_of(rowOperands(product.launch), [&](const Operand &one) {
             return one.number == number;
           });
  };
  return !product.isGrouped() &&
         canBring(product.op.getA(), product.operandA()) &&
         canBring(product.op.getB(), product.operandB());
}

void cuda::emitWarpgroupProduct(ModuleOp module, StringRef name,
                                ProductLaunch product, const ProductTile &tile,
                                const Gpu &gpu) {
  WarpgroupProduct(module, name, product, tile, gpu).emit();
}
