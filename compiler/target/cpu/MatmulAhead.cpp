//===- MatmulAhead.cpp - what a product fetches before its use ------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/target/cpu/MatmulEmitter.h"

using namespace mlir;
using namespace tfm;

void MatmulEmitter::lookAhead() {
  // Panels that lie in memory are fetched ahead in every turn instead.
  sumsAhead = blockedDepth && !byPanel && !plan.alongRows && !spec.inPanels;
  if (plan.fetchesA)
    linesOfA = llvm::divideCeil(spec.k * bytesOf(a), cacheLine);
  if (plan.alongRows || plan.fetchesA || (plan.fetchesPacked && !blockedDepth))
    findMatricesAhead();
  int64_t turns = std::max<int64_t>(turnsOfTile(), 1);
  if (plan.fetchesPacked) {
    linesAhead = llvm::divideCeil(linesOfPanel(), plan.rowBlock * turns);
    return;
  }
  if (!byPanel && !spec.inPanels)
    return;
  linesAhead = 2;
  // With too few tiles for its columns, a panel is read from end to end, and
  // so is one that lies in memory.
  lineByLine = spec.inPanels ||
               (!rowsOfB && throughTile && !blockedDepth &&
                b.column == spec.k && plan.rowPanels * linesAhead < width);
  if (lineByLine)
    linesAhead =
        std::min<int64_t>(llvm::divideCeil(width * plan.depth * bytesOf(b),
                                           cacheLine * plan.rowPanels * turns),
                          spec.inPanels ? 16 : 8);
  else
    findMatricesAhead();
}

void MatmulEmitter::findMatricesAhead() {
  // Where a tile goes by itself, and of an epilogue what it reads and writes
  // where it is, one product at a time.
  constexpr size_t most = 3;
  SmallVector<Type> types(spec.reads);
  if (spec.c)
    types.push_back(spec.c);
  llvm::append_range(types, spec.writes);
  if (spec.batches() > 1 && spec.epilogue)
    return;
  for (auto [i, type] : llvm::enumerate(types)) {
    auto buffer = cast<MemRefType>(type);
    std::optional<Matrix> matrix = Matrix::of(buffer, /*transposed=*/false);
    // Of what all rows have in common nothing has to be fetched.
    if (!matrix || matrix->column != 1 || matrix->row == 0 ||
        buffer.getShape().back() != spec.n ||
        buffer.getNumElements() != spec.batches() * spec.m * spec.n)
      continue;
    // Rows of all leading axes, that one stride walks.
    if (spec.batches() == 1) {
      int64_t rows = buffer.getDimSize(buffer.getRank() - 2),
              stride = matrix->row;
      if (rows == 1 ||
          !llvm::all_of(llvm::reverse(llvm::zip_equal(
                            matrix->batch, buffer.getShape().drop_back(2))),
                        [&](auto axis) {
                          auto [step, size] = axis;
                          bool follows = size == 1 || step == rows * stride;
                          rows *= size;
                          return follows;
                        }))
        continue;
    }
    if (matricesAhead.size() < most)
      matricesAhead.push_back({spec.operands() + static_cast<unsigned>(i),
                               matrix->element, matrix->row});
  }
}

SmallVector<Value> MatmulEmitter::nextOf(const Tile &tile) {
  // Each panel is read once, from end to end: a page ahead lies what is read
  // next, of this panel or of the one behind it.
  if (spec.inPanels && plan.rowPanels == 1)
    return {kb.at(tile.b, pageBytes, b.element), kb.i64(cacheLine),
            kb.i64(linesAhead * cacheLine)};
  if (linesAhead == 0)
    return {};
  // Panels of B count from the first one there is, or that is packed.
  Value number = kb.sub(tile.p, tile.block.p0), next = kb.add(tile.q, 1),
        end = tile.block.end;
  if (plan.fetchesPacked) {
    next = kb.sub(next, tile.block.q0);
    end = kb.sub(end, tile.block.q0);
  }
  return nextOfB(number, next, end, tile.block.k0, tile.block.depth);
}

SmallVector<Value> MatmulEmitter::nextOfB(Value number, Value next, Value to,
                                          Value k0, Value depth) {
  int64_t bytes = b.element.getIntOrFloatBitWidth() / 8;
  Value first, second, stride, from, end;
  if (plan.fetchesPacked) {
    // Behind the last panel comes the first one again.
    next = kb.select(kb.less(next, to), next, kb.i64(0));
    from = kb.mul(number, turnsOfTile() * linesAhead);
    end = kb.i64(linesOfPanel());
    first = kb.at(kb.at(packedB, kb.mul(next, bPanel)), kb.mul(from, cacheLine),
                  kb.b.getI8Type());
    second = kb.i64(cacheLine);
    stride = kb.i64(linesAhead * cacheLine);
  } else if (rowsOfB) {
    // Rows of the panel, as many as the micro-kernel has turns for after those
    // for C.
    Value turns = kb.div(depth, perSlot * prefetchedEvery);
    turns = kb.max(kb.sub(turns, kb.i64(plan.tileRows)), kb.i64(1));
    from = kb.mul(number, turns);
    end = depth;
    first = b.at(kb, bBase, kb.add(k0, from), kb.mul(next, width));
    second = kb.i64(width * bytes > cacheLine ? cacheLine : 0);
    stride = kb.i64(b.row * bytes);
  } else if (lineByLine) {
    int64_t lines = turnsOfTile() * linesAhead;
    from = kb.mul(number, lines);
    end = kb.i64(llvm::divideCeil(width * plan.depth * bytes, cacheLine));
    first = kb.at(b.at(kb, bBase, k0, kb.mul(next, width)),
                  kb.mul(from, cacheLine), kb.b.getI8Type());
    second = kb.i64(cacheLine);
    stride = kb.i64(linesAhead * cacheLine);
  } else {
    // As many of its columns, along k.
    from = kb.mul(number, linesAhead);
    end = kb.i64(width);
    first = bAt(k0, kb.add(kb.mul(next, width), from));
    second = kb.i64(b.column * bytes);
    stride = kb.i64(cacheLine);
  }
  // Where nothing is left to prefetch, what is in the cache.
  Value none = kb.i64(0);
  Value more = kb.select(kb.less(next, to), kb.less(from, end), kb.i1(false));
  return {kb.select(more, first, packedB), kb.select(more, second, none),
          kb.select(more, stride, none)};
}

SmallVector<Value> MatmulEmitter::matricesOf(const Tile &tile) {
  SmallVector<Value> matrices;
  if (plan.fetchesA) {
    // Of other columns it is in the cache already.
    Value next = a.at(kb, aBase, rowStart(kb.add(tile.p, 1)), tile.block.k0);
    matrices.push_back(
        kb.select(kb.equal(tile.q, tile.block.q0), next, tile.a));
    matrices.push_back(kb.i64(a.row * a.element.getIntOrFloatBitWidth() / 8));
  }
  if (sumsAhead)
    matrices.append({tile.c, kb.mul(tile.cStride, 4)});
  for (const Ahead &matrix : matricesAhead) {
    Value base = spec.batches() > 1
                     ? cBase
                     : kb.pointer(kernel.getArgument(matrix.argument));
    matrices.push_back(kb.at(base,
                             kb.add(kb.mul(tile.row, matrix.row), tile.column),
                             matrix.element));
    matrices.push_back(
        kb.i64(matrix.row * matrix.element.getIntOrFloatBitWidth() / 8));
  }
  return matrices;
}

void MatmulEmitter::fetchBeside(const Tile &tile, Value step, Value b) {
  // The next step of B: where another thread has its part of the core, loads
  // alone wait for the second-level cache.
  for (int64_t half : {0, 1})
    for (int64_t row = 0; row < tileSide; ++row)
      kb.prefetch(kb.at(b, half * halfOfB() + (tileSide + row) * tileSide), 1);
  int64_t rowsAhead = llvm::divideCeil(plan.tileRows * tileDepth, plan.depth);
  auto fetch = [&](Value first, Value stride) {
    Type byte = kb.b.getI8Type();
    for (int64_t ahead = 0; ahead < rowsAhead; ++ahead) {
      Value row = kb.add(kb.mul(step, rowsAhead), ahead);
      Value at = kb.at(first, kb.mul(row, stride), byte);
      kb.prefetch(at, 1);
      kb.prefetch(kb.at(at, cacheLine, byte), 1);
    }
  };
  auto fetchMatrices = [&] {
    for (size_t i = 0; i + 1 < tile.matrices.size(); i += 2)
      fetch(tile.matrices[i], tile.matrices[i + 1]);
  };
  if (!blockedDepth)
    return fetchMatrices();
  // Sums of a part of the depth are read before they are written: the next
  // tile's.
  fetch(kb.at(tile.c, throughTile ? plan.rowsOfSums * tileLength : width),
        kb.mul(tile.cStride, slotBytes));
  if (throughTile)
    kb.ifThen(isLast(tile.block), fetchMatrices);
}
