//===- Matmul.cpp - matrix products with fused epilogues ------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/target/cpu/Matmul.h"
#include "compiler/target/cpu/MatmulEmitter.h"

using namespace mlir;
using namespace tfm;

bool MatmulEmitter::canRead() const {
  bool inQuads = areQuads(plan.terms);
  if (inQuads && (!rowsOfA || b.row != (spec.inPanels ? width : 1)))
    return false;
  if (spec.inPanels)
    return inQuads && (plan.packA || canReadA(spec, plan.terms, a));
  return (plan.packA || canReadA(spec, plan.terms, a)) &&
         (plan.packB || canReadB(spec, plan.terms, b, kb.lanes));
}

bool MatmulEmitter::layOut() {
  rowsOfA = a.column == 1;
  // Quads are made of columns alone.
  rowsOfB = b.column == 1 && !areQuads(plan.terms);
  if (!canRead())
    return false;
  assert((plan.terms != Terms::F32TimesBf16 || !plan.packB) &&
         "panels of single elements are f32");
  blockedDepth = plan.depth < spec.k;
  throughTile = !storesSums(spec, plan.terms, kb.lanes);
  tallPanels = spec.m - plan.rowPanels * (plan.tileRows - 1);
  int64_t depth = llvm::divideCeil(plan.depth, perSlot);
  bPanel = packedLength(depth, width, 0, kb.lanes);
  if (plan.terms == Terms::Bf16Tiles) {
    layOutTiles(depth);
    return true;
  }
  aPanelStride = plan.tileRows <= kb.lanes
                     ? plan.tileRows
                     : llvm::alignTo(plan.tileRows, kb.lanes);
  aPanel = packedLength(depth, aPanelStride, kb.lanes, kb.lanes);
  tileLength = plan.tileRows * width;
  // With one panel for each thread there is nothing to look ahead to.
  byPanel = plan.packB && !plan.alongRows && plan.rowBlock == plan.rowPanels &&
            plan.columnPanels > 2;
  Packing packs = packing(b);
  copiesB = byPanel && rowsOfB && spec.n >= width && !packs.rounds &&
            !packs.pairs && packs.from != Packing::From::I8;
  lookAhead();
  return true;
}

void MatmulEmitter::layOutTiles(int64_t depth) {
  assert(width == 2 * tileSide && plan.depth % tileDepth * blockedDepth == 0);
  rowTiles = llvm::divideCeil(plan.tileRows, tileSide);
  aPanel = rowTiles * tileSide * llvm::alignTo(depth, tileSide);
  aPanelStride = tileSide;
  tileLength = rowTiles * tileSide * width;
  // Whole tiles are stored.
  throughTile |= plan.tileRows != rowTiles * tileSide ||
                 tallPanels != plan.rowPanels || spec.n % width != 0;
  findMatricesAhead();
}

std::optional<Kernel> MatmulEmitter::emit(StringRef name) {
  assert(spec.accumulator.getIntOrFloatBitWidth() == 32 &&
         "no micro-kernel adds up in it");
  if (!layOut())
    return std::nullopt;
  int64_t tileSlots = 0;
  if (throughTile)
    tileSlots = blockedDepth         ? plan.rowsOfSums * plan.columnBlock
                : plan.sumsInFewSets ? sumsStride() / width
                : storesBeside()     ? 2
                                     : 1;
  int64_t panelsOfB = byPanel ? 1 : plan.columnBlock;
  int64_t lengths[] = {
      static_cast<int64_t>(llvm::alignTo(tileSlots * tileLength, 16)),
      static_cast<int64_t>(
          llvm::alignTo(plan.packA ? plan.rowBlock * aPanel : 0, 16)),
      static_cast<int64_t>(
          llvm::alignTo(plan.packB ? panelsOfB * bPanel : 0, 16)),
      plan.terms == Terms::I8Quads ? spec.m : 0};
  int64_t scratchBytes = (lengths[0] + lengths[1] + lengths[2] + lengths[3]) *
                         spec.accumulator.getIntOrFloatBitWidth() / 8;

  OpBuilder::InsertionGuard guard(kb.b);
  tiles = begin(name, scratchBytes);
  packedA = kb.at(tiles, lengths[0]);
  packedB = kb.at(packedA, lengths[1]);
  offsets = kb.at(packedB, lengths[2]);
  if (plan.serial)
    kb.ifThen(kb.equal(kb.toI64(KernelArguments(kernel).thread), kb.i64(0)),
              [&] { shareAndLoop(); });
  else
    shareAndLoop();
  return Kernel{kernel, scratchBytes};
}

void MatmulEmitter::shareAndLoop() {
  KernelArguments arguments(kernel);
  Value thread = plan.serial ? kb.i64(0) : kb.toI64(arguments.thread);
  Value threads = plan.serial ? kb.i64(1) : kb.toI64(arguments.threads);
  Value batchFrom = kb.i64(0), batchTo = kb.i64(spec.batches());
  if (spec.batches() > 1 && !plan.serial) {
    // Groups of threads share the batches; a group's threads share a product.
    Value groups = kb.min(threads, kb.i64(spec.batches()));
    Value groupSize = kb.div(threads, groups);
    Value group = kb.div(thread, groupSize);
    Value inGroup = kb.less(group, groups);
    std::tie(batchFrom, batchTo) =
        kb.share(kb.i64(spec.batches()), group, groups);
    batchTo = kb.select(inGroup, batchTo, batchFrom);
    thread = kb.rem(thread, groupSize);
    threads = groupSize;
  }
  Value rows = kb.i64(plan.rowPanels), columns = kb.i64(plan.columnPanels);
  Value rowFrom = kb.i64(0), rowTo = rows, columnFrom = kb.i64(0),
        columnTo = columns;
  if (!plan.serial) {
    Value rowThreads, columnThreads;
    if (plan.splitColumns) {
      columnThreads = kb.min(threads, columns);
      rowThreads = kb.min(kb.div(threads, columnThreads), rows);
    } else {
      rowThreads = kb.min(threads, rows);
      columnThreads = kb.min(kb.div(threads, rowThreads), columns);
    }
    Value rowThread = kb.rem(thread, rowThreads);
    Value columnThread = kb.div(thread, rowThreads);
    std::tie(rowFrom, rowTo) = kb.share(rows, rowThread, rowThreads);
    std::tie(columnFrom, columnTo) =
        kb.share(columns, columnThread, columnThreads);
    // Threads beyond the grid have nothing to do.
    rowTo = kb.select(kb.less(columnThread, columnThreads), rowTo, rowFrom);
  }

  auto oneBatch = [&](Value batch) {
    enterBatch(batch);
    if (plan.terms == Terms::I8Quads)
      findOffsets(rowStart(rowFrom), rowStart(rowTo));
    blocks(rowFrom, rowTo, columnFrom, columnTo);
  };
  if (spec.batch.empty())
    oneBatch(kb.i64(0));
  else
    kb.loop(batchFrom, batchTo, 1, oneBatch);
}

void MatmulEmitter::blocks(Value rowFrom, Value rowTo, Value columnFrom,
                           Value columnTo) {
  Value zero = kb.i64(0), whole = kb.i64(spec.k);
  // Where all rows fit in one block, A is packed once, before everything.
  bool packAOnce = plan.packA && !plan.alongRows && !blockedDepth &&
                   plan.rowBlock >= plan.rowPanels;
  if (packAOnce)
    kb.ifThen(kb.less(columnFrom, columnTo),
              [&] { packPanelsOfA(rowFrom, rowTo, zero, whole); });
  // Blocks as equal as possible: each goes over all of A.
  Value columns = kb.sub(columnTo, columnFrom);
  Value columnBlocks =
      kb.div(kb.add(columns, plan.columnBlock - 1), plan.columnBlock);
  kb.loop(zero, columnBlocks, 1, [&](Value number) {
    auto [first, end] = kb.share(columns, number, columnBlocks);
    Value q0 = kb.add(columnFrom, first), q1 = kb.add(columnFrom, end);
    if (plan.packB && !byPanel && !blockedDepth)
      kb.ifThen(kb.less(rowFrom, rowTo),
                [&] { packPanelsOfB(q0, q1, zero, whole); });
    kb.loop(rowFrom, rowTo, plan.rowsOfSums, [&](Value s0) {
      Value s1 = kb.min(kb.add(s0, plan.rowsOfSums), rowTo);
      auto part = [&](Value k0) {
        Value depth = blockedDepth
                          ? kb.min(kb.i64(plan.depth), kb.sub(whole, k0))
                          : whole;
        if (plan.packB && !byPanel && blockedDepth)
          packPanelsOfB(q0, q1, k0, depth);
        kb.loop(s0, s1, plan.rowBlock, [&](Value p0) {
          Value p1 = kb.min(kb.add(p0, plan.rowBlock), s1);
          if (plan.packA && !packAOnce)
            packPanelsOfA(p0, p1, k0, depth);
          Value end = blockedDepth || plan.fetchesPacked ? q1 : columnTo;
          Block now{s0, p0, q0, end, k0, depth};
          kb.loop(q0, q1, 1, [&](Value q) {
            auto pack = [&] { packPanelsOfB(q, kb.add(q, 1), k0, depth); };
            if (copiesB && spec.n % width != 0)
              kb.ifThen(kb.equal(q, kb.i64(plan.columnPanels - 1)), pack);
            else if (byPanel && !copiesB)
              pack();
            kb.loop(p0, p1, 1, [&](Value p) { tile(p, q, now); });
          });
          if (storesBeside())
            kb.ifThen(isLast(now), [&] {
              Value last = kb.sub(q1, kb.i64(1));
              store(p0, last, sumsAt(p0, last, now));
            });
        });
      };
      if (blockedDepth)
        kb.loop(zero, whole, plan.depth, part);
      else
        part(zero);
    });
  });
}

MatmulEmitter::Tile MatmulEmitter::operandsOf(Value p, Value q,
                                              const Block &block) {
  Tile tile(p, q, block);
  tile.row = rowStart(p);
  tile.column = kb.mul(q, width);
  if (plan.packA) {
    tile.a = kb.at(packedA, kb.mul(kb.sub(p, block.p0), aPanel));
    tile.aStride = kb.i64(aPanelStride);
  } else {
    tile.a = a.at(kb, aBase, tile.row, block.k0);
    tile.aStride = kb.i64((rowsOfA ? a.row : a.column) / perSlot);
    if (rowsOfA)
      tile.layout = ALayout::Rows;
  }
  if (plan.packB) {
    tile.b = packedB;
    if (!byPanel)
      tile.b = kb.at(packedB, kb.mul(kb.sub(q, block.q0), bPanel));
    tile.bStride = kb.i64(width);
  } else {
    tile.b = b.at(kb, bBase, block.k0, tile.column);
    tile.bStride = kb.i64(spec.inPanels ? width : b.row);
  }
  tile.accumulate = kb.sub(kb.i1(true), kb.equal(block.k0, kb.i64(0)));
  if (throughTile) {
    tile.c = sumsAt(p, q, block);
    tile.cStride = kb.i64(sumsStride());
  } else {
    tile.c = c.at(kb, cBase, tile.row, tile.column);
    tile.cStride = kb.i64(c.row);
  }
  return tile;
}

Value MatmulEmitter::sumsAt(Value p, Value q, const Block &block) {
  Value slot;
  if (blockedDepth)
    slot = kb.add(kb.mul(kb.sub(q, block.q0), plan.rowsOfSums),
                  kb.sub(p, block.s0));
  else if (storesBeside())
    slot = kb.rem(kb.sub(q, block.q0), kb.i64(2));
  else
    return tiles;
  return kb.at(tiles, kb.mul(slot, plan.sumsInFewSets ? width : tileLength));
}

Value MatmulEmitter::isLast(const Block &block) {
  return kb.equal(kb.add(block.k0, block.depth), kb.i64(spec.k));
}

void MatmulEmitter::runMicroKernel(const Tile &tile, int64_t rows,
                                   int64_t tileVectors) {
  auto call = [&](const MicroKernel &micro, Value b, Value stride,
                  ValueRange panel) {
    SmallVector<Value> arguments{tile.a,     tile.aStride,   b,
                                 stride,     tile.c,         tile.cStride,
                                 tile.slots, tile.accumulate};
    llvm::append_range(arguments, panel);
    llvm::append_range(arguments, tile.matrices);
    llvm::append_range(arguments, tile.next);
    kb.call(microKernel(kb, micro), arguments);
  };
  MicroKernel micro{rows, tileVectors, tile.layout, plan.terms};
  micro.matricesAhead = static_cast<int64_t>(tile.matrices.size() / 2);
  micro.rowsAhead =
      llvm::divideCeil(plan.tileRows, std::max<int64_t>(turnsOfTile(), 1));
  micro.linesAhead = linesAhead;
  micro.linesOfA = linesOfA;
  // Of few rows every kernel adds up in the same order, by which looking ahead
  // finds the tokens of plain decoding.
  micro.addsLast =
      blockedDepth && micro.matricesAhead > 0 && plan.rowPanels > 2;
  auto plain = [&] { call(micro, tile.b, tile.bStride, {}); };
  if (!copiesB || tileVectors < vectors)
    return plain();
  auto copying = [&] {
    MicroKernel copies = micro;
    copies.copiesB = true;
    if (b.element.isBF16())
      copies.terms = Terms::F32TimesBf16;
    call(copies, b.at(kb, bBase, tile.block.k0, tile.column), kb.i64(b.row),
         tile.b);
  };
  // The last panel may be narrower than the tiles that copy.
  Value isFirst = kb.equal(tile.p, tile.block.p0);
  if (spec.n % width != 0)
    isFirst = kb.select(kb.equal(tile.q, kb.i64(plan.columnPanels - 1)),
                        kb.i1(false), isFirst);
  kb.ifThen(isFirst, copying, plain);
}

void MatmulEmitter::runRows(const Tile &tile, int64_t rows) {
  int64_t lastVectors =
      llvm::divideCeil(spec.n - (plan.columnPanels - 1) * width, kb.lanes);
  if (lastVectors == vectors)
    return runMicroKernel(tile, rows, vectors);
  if (plan.columnPanels == 1)
    return runMicroKernel(tile, rows, lastVectors);
  kb.ifThen(
      kb.equal(tile.q, kb.i64(plan.columnPanels - 1)),
      [&] { runMicroKernel(tile, rows, lastVectors); },
      [&] { runMicroKernel(tile, rows, vectors); });
}

void MatmulEmitter::runOnTiles(const Tile &tile) {
  const Block &block = tile.block;
  TileOperands operands;
  operands.a = tile.a;
  operands.aStride = tile.aStride;
  operands.aStep =
      kb.i64(plan.packA ? rowTiles * tileSide * tileSide : tileSide);
  operands.b = tile.b;
  operands.bStride = kb.i64(tileSide);
  operands.bStep = kb.i64(tileSide * tileSide);
  operands.bColumns = kb.i64(halfOfB());
  operands.c = tile.c;
  operands.cStride = tile.cStride;
  operands.accumulate = tile.accumulate;
  operands.steps = kb.div(kb.add(block.depth, tileDepth - 1), tileDepth);

  // The last terms may be fewer than the others.
  int64_t before = (llvm::divideCeil(spec.k, plan.depth) - 1) * plan.depth;
  int64_t rowsBeside = llvm::divideCeil(
      plan.tileRows, llvm::divideCeil(spec.k - before, tileDepth));
  Value rows, previous = kb.sub(tile.q, kb.i64(1)), sums;
  if (storesBeside()) {
    Value has = kb.less(block.q0, tile.q);
    if (blockedDepth)
      has = kb.select(isLast(block), has, kb.i1(false));
    rows = kb.select(has, rowCount(tile.p), kb.i64(0));
    sums = sumsAt(tile.p, previous, block);
  }
  multiplyTiles(
      kb, {rowTiles, /*columnTiles=*/2}, operands, [&](Value step, Value b) {
        fetchBeside(tile, step, b);
        if (!storesBeside())
          return;
        Value first = kb.mul(step, rowsBeside);
        kb.loop(first, kb.min(kb.add(first, rowsBeside), rows), 1,
                [&](Value row) { storeRow(tile.p, previous, sums, row); });
      });
}

void MatmulEmitter::tile(Value p, Value q, const Block &block) {
  Tile tile = operandsOf(p, q, block);
  tile.slots = kb.div(kb.add(block.depth, perSlot - 1), perSlot);
  tile.next = nextOf(tile);
  tile.matrices = matricesOf(tile);
  if (rowTiles > 0)
    return runOnTiles(tile);
  if (tallPanels == plan.rowPanels)
    runRows(tile, plan.tileRows);
  else
    kb.ifThen(
        kb.less(p, kb.i64(tallPanels)), [&] { runRows(tile, plan.tileRows); },
        [&] { runRows(tile, plan.tileRows - 1); });
  if (!throughTile)
    return;
  if (!blockedDepth)
    return store(p, q, tile.c);
  kb.ifThen(isLast(block), [&] { store(p, q, tile.c); });
}

void MatmulEmitter::findOffsets(Value rowFrom, Value rowTo) {
  kb.loop(rowFrom, rowTo, 1, [&](Value row) {
    Value offset =
        offsetOfRow(kb, a.at(kb, aBase, row, kb.i64(0)), kb.i64(spec.k));
    kb.storeScalar(offset, kb.at(offsets, row));
  });
}

void MatmulEmitter::store(Value p, Value q, Value source) {
  kb.loop(kb.i64(0), rowCount(p), 1,
          [&](Value row) { storeRow(p, q, source, row); });
}

void MatmulEmitter::storeRow(Value p, Value q, Value source, Value r) {
  // The vectors of a row follow each other, so that what their epilogues have
  // in common (dropout's random words) is computed once.
  Value row = kb.add(rowStart(p), r), column0 = kb.mul(q, width);
  Value from = kb.at(source, kb.mul(r, sumsStride()));
  Value offset;
  if (plan.terms == Terms::I8Quads)
    offset = kb.splatInteger(kb.at(offsets, row));
  for (int64_t v = 0; v < vectors; ++v) {
    Value column = kb.add(column0, v * kb.lanes);
    auto one = [&] {
      Value at = kb.at(from, v * kb.lanes);
      if (!areQuads(plan.terms))
        return storeVector(row, column, kb.load(at));
      Value sums = kb.loadAs(kb.vecType.clone(kb.b.getI32Type()), at);
      storeVector(row, column, offset ? kb.sub(sums, offset) : sums);
    };
    // A last panel may be narrower.
    if (v == 0 || spec.n % width == 0)
      one();
    else
      kb.ifThen(kb.less(column, kb.i64(spec.n)), one);
  }
}

Kernel tfm::emitMatmul(OpBuilder &builder, ModuleOp module, StringRef name,
                       const MatmulSpec &spec, const CpuMachine &target,
                       const MatmulPlan &plan) {
  std::optional<Kernel> kernel;
  if (std::optional<ProductOperands> operands = ProductOperands::of(spec))
    kernel = MatmulEmitter(builder, module, spec, *operands, target, plan)
                 .emit(name);
  return kernel ? *kernel : refuseProduct(module, name);
}
