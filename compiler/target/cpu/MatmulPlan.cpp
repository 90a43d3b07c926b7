//===- MatmulPlan.cpp - blocks and packing of a matrix product ------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/target/cpu/MatmulPlan.h"
#include "compiler/target/cpu/CpuMachine.h"
#include "compiler/target/cpu/MicroKernel.h"
#include "compiler/target/cpu/TileKernel.h"
#include "runtime/tfm_model.h"
#include "llvm/Support/MathExtras.h"
#include <algorithm>
#include <numeric>

using namespace mlir;
using namespace tfm;

int64_t tfm::elementsPerSlot(Terms terms) {
  return terms == Terms::Bf16Pairs || terms == Terms::Bf16Tiles ? 2
         : areQuads(terms)                                      ? 4
                                                                : 1;
}

bool tfm::canReadA(const MatmulSpec &spec, Terms terms, const Matrix &a) {
  if (areQuads(terms))
    return spec.inPanels && a.column == 1 && a.row % 4 == 0 && spec.k % 4 == 0;
  if (!spec.isBf16())
    return a.element.isF32();
  return terms == Terms::Bf16Pairs && a.element.isBF16() && a.column == 1 &&
         a.row % 2 == 0 && spec.k % 2 == 0;
}

bool tfm::canReadB(const MatmulSpec &spec, Terms terms, const Matrix &b,
                   int64_t lanes) {
  return b.column == 1 && spec.n % lanes == 0 && !b.element.isInteger(8) &&
         (!spec.isBf16() ||
          (terms == Terms::F32TimesBf16 && b.element.isBF16()));
}

bool tfm::storesSums(const MatmulSpec &spec, Terms terms, int64_t lanes) {
  return !spec.epilogue && spec.n % lanes == 0 && !areQuads(terms) &&
         !(spec.c && spec.c.getElementType().isBF16());
}

bool MatmulSpec::isBf16() const {
  return a.getElementType().isBF16() || b.getElementType().isBF16();
}

int64_t MatmulSpec::batches() const {
  return std::accumulate(batch.begin(), batch.end(), int64_t{1},
                         std::multiplies<>());
}

bool MatmulSpec::isTooSmallToShare() const {
  return m * n * k * batches() < 32 * 1024;
}

/// As few equal blocks as have at most `most` of the panels each: how many.
static int64_t evenly(int64_t panels, int64_t most) {
  most = std::clamp<int64_t>(most, 1, panels);
  return llvm::divideCeil(panels, llvm::divideCeil(panels, most));
}

/// Blocks of a product that goes along the rows of C: a panel of A stays in the
/// first-level cache, with a quarter of it left to what passes, while a block
/// of B, which has half of the second-level one, streams by. Down a panel of
/// columns each line of C, and of an A that lies in rows, is in another page.
/// The panels have `panelRows` rows and `width` columns; blocks of depth are
/// multiples of `unit` slots.
static void planAlongRows(MatmulPlan &plan, int64_t k, int64_t panelRows,
                          int64_t width, int64_t unit,
                          const CpuMachine &target) {
  constexpr int64_t slotBytes = 4;
  int64_t perSlot = elementsPerSlot(plan.terms);
  int64_t slots = llvm::divideCeil(k, perSlot);
  int64_t blocks =
      llvm::divideCeil(slots, target.l1Bytes * 3 / 4 / (slotBytes * panelRows));
  int64_t depth = blocks == 1
                      ? slots
                      : llvm::alignTo(llvm::divideCeil(slots, blocks), unit);
  plan.depth = blocks == 1 ? k : depth * perSlot;
  plan.alongRows = true;
  int64_t half = target.l2Bytes / 2, sumBytes = slotBytes * panelRows * width;
  auto columns = [&](int64_t bytes) {
    return evenly(plan.columnPanels, half / bytes);
  };
  plan.columnBlock = columns(slotBytes * width * llvm::alignTo(depth, unit));
  plan.rowBlock = 1;
  plan.rowsOfSums = plan.rowPanels;
  if (blocks == 1)
    return;
  // Sums of a part of the depth stay in the cache, too: those of some panels
  // of A, or those of one beside all of the depth of fewer columns of B. Either
  // packs A for each block of columns; the first B for each block of rows, too,
  // which is all that is packed where A is not.
  plan.rowsOfSums = evenly(plan.rowPanels, (plan.packA ? half : 4 * half) /
                                               (sumBytes * plan.columnBlock));
  if (!plan.packA)
    return;
  int64_t wholeBytes =
      slotBytes * width * llvm::alignTo(slots, unit) + sumBytes;
  int64_t whole = columns(wholeBytes);
  auto packed = [&](int64_t columnBlock, int64_t rowsOfSums) {
    return plan.rowPanels * llvm::divideCeil(plan.columnPanels, columnBlock) +
           plan.columnPanels * llvm::divideCeil(plan.rowPanels, rowsOfSums);
  };
  plan.wholeDepthOfB =
      wholeBytes <= half &&
      packed(whole, plan.rowPanels) < packed(plan.columnBlock, plan.rowsOfSums);
  if (plan.wholeDepthOfB) {
    plan.columnBlock = whole;
    plan.rowsOfSums = 1;
  }
}

MatmulPlan tfm::planMatmul(const MatmulSpec &spec, const CpuMachine &target) {
  Matrix a = Matrix::of(spec.a, spec.transposeA).value_or(Matrix());
  Matrix b = spec.inPanels
                 ? Matrix()
                 : Matrix::of(spec.b, spec.transposeB).value_or(Matrix());
  int64_t m = spec.m, n = spec.n, k = spec.k;
  bool isBf16 = spec.isBf16();
  MatmulPlan plan;
  bool rowsOfA = a.column == 1;
  // The micro-kernel reads no integers.
  bool rowsOfB =
      b.column == 1 && n % target.lanes == 0 && !b.element.isInteger(8);
  bool fewRows = m <= 2 * target.tileRows();
  // The gradient of a small weight: both operands are read along their rows,
  // as the micro-kernel likes it, and blocks of depth keep them in the cache.
  bool direct = !isBf16 && !rowsOfA && rowsOfB && m <= 512 && n <= 512;
  if (isBf16) {
    // Reading B is all there is to a product of few rows.
    plan.packB = !fewRows || !rowsOfB || !b.element.isBF16();
    plan.terms = !plan.packB        ? Terms::F32TimesBf16
                 : target.bf16Tiles ? Terms::Bf16Tiles
                 : target.bf16Pairs ? Terms::Bf16Pairs
                                    : Terms::F32;
  } else if (a.element.isInteger(8) && !spec.isGrouped()) {
    plan.packB = !spec.inPanels;
    plan.terms = integerTerms(target);
  } else {
    plan.packB =
        !rowsOfB || (!direct && !fewRows && k * n * 4 > target.l1Bytes / 2);
  }
  int64_t perSlot = elementsPerSlot(plan.terms);
  // Copying an element of A costs about as much as a quarter of a step of the
  // micro-kernel, which uses it for `width` columns: it pays where it is used
  // often, or where its rows meet in one set of the first-level cache.
  // Where a processor fetches ahead along as many rows by itself it never does.
  bool conflicts = rowsOfA && a.row % (1024 * perSlot) == 0 && k > 64;
  bool foreseen = target.readsInOrder && rowsOfA && !conflicts;
  // Of an A by columns each step is in another page, and where these do not
  // begin at lines in two lines of it: once is enough.
  bool scattered = !rowsOfA && n > target.lanes * target.tileVectors() &&
                   4 * a.column >= pageBytes && a.column % 16 != 0;
  plan.packA = !canReadA(spec, plan.terms, a) ||
               (!direct && !foreseen &&
                (n > (rowsOfA ? 512 : 128) || (conflicts && n > 64) ||
                 scattered || (rowsOfA && target.lanes < 8)));

  int64_t inPlace = target.tileVectorsInPlace();
  bool isWide = !plan.packA && (rowsOfA || direct) && !isBf16 &&
                plan.terms == Terms::F32 && !fewRows &&
                n % (inPlace * target.lanes) == 0;
  plan.tileVectors = isWide ? inPlace : target.tileVectors();
  int64_t tallest = plan.terms == Terms::Bf16Tiles ? 2 * tileSide
                    : plan.terms == Terms::I8Pairs
                        ? target.pairTileRows()
                        : target.tileRows(plan.tileVectors);
  plan.rowPanels = llvm::divideCeil(m, tallest);
  // An even number of panels shares well among two threads, at the price of
  // slightly lower tiles.
  if (plan.rowPanels > 1)
    plan.rowPanels = llvm::alignTo(plan.rowPanels, 2);
  plan.tileRows = llvm::divideCeil(m, plan.rowPanels);
  int64_t width = target.lanes * plan.tileVectors;
  plan.columnPanels = llvm::divideCeil(n, width);
  // The few rows of one panel stay in the cache as they are.
  if (areQuads(plan.terms))
    plan.packA = plan.rowPanels > 1 || !canReadA(spec, plan.terms, a);

  // Threads that share columns each pack all of A, and the other way around.
  plan.splitColumns = n > m;
  plan.serial = spec.isTooSmallToShare();
  if (plan.terms == Terms::Bf16Tiles) {
    planAlongRows(plan, k, 2 * tileSide, width, tileDepth / perSlot, target);
    return plan;
  }

  // Sums are cut where it costs little for what it brings: panels of B that
  // stay in the first-level cache for all rows, where A stays in the second.
  int64_t slots = llvm::divideCeil(k, perSlot);
  int64_t bytesOfA = 4 * slots * plan.rowPanels * plan.tileRows;
  int64_t deepest = 1024, whole = rowsOfB ? 256 : 384;
  if (direct) {
    deepest = 512;
    whole = 384;
  } else if (plan.packB && rowsOfB && bytesOfA <= target.l2Bytes) {
    deepest = 512;
  }
  int64_t blocks = slots <= deepest ? 1 : llvm::divideCeil(slots, whole);
  int64_t unit = spec.isGrouped() ? TFM_GROUP_TERMS : target.lanes;
  // Where C is all that comes from memory, each of its rows from other pages,
  // or A would come from many pages for each panel of B.
  bool pagesOfC = 4 * n >= pageBytes && 4 * m * n > target.l2Bytes &&
                  4 * slots * n <= target.l2Bytes / 2 &&
                  4 * slots * plan.tileRows <= target.l1Bytes / 2;
  bool pagesOfA = foreseen && !plan.packA && blocks > 1 &&
                  plan.columnPanels > 2 && bytesOfA > target.l2Bytes;
  if (plan.packB && (pagesOfC || pagesOfA)) {
    planAlongRows(plan, k, plan.tileRows, width, unit, target);
    return plan;
  }
  int64_t depth = blocks == 1
                      ? slots
                      : llvm::alignTo(llvm::divideCeil(slots, blocks), unit);
  plan.depth = blocks == 1 ? k : depth * perSlot;
  int64_t panelBytes = 4 * depth * plan.tileRows;
  int64_t columnBytes = 4 * depth * width;
  int64_t most = plan.depth < k && target.readsInOrder ? target.l2Bytes
                                                       : target.l2Bytes / 2;
  plan.rowBlock = evenly(plan.rowPanels, most / panelBytes);
  plan.rowsOfSums = plan.rowBlock;
  bool inBlocks = plan.rowBlock < plan.rowPanels;
  // Where all of A is packed at once a few panels of B are packed when their
  // turn comes and stay in the cache for their only use.
  plan.columnBlock =
      (plan.depth == k && !inBlocks ? target.l2Bytes / 4 : 2 * target.l2Bytes) /
      columnBytes;
  // While a dozen panels of A take their turns the next one of B is fetched, so
  // that more of A is not worth its part of the cache, which threads of others
  // may share (measured on Intel's cores alone).
  if (inBlocks && plan.packB && !target.readsInOrder) {
    plan.fetchesPacked = true;
    if (plan.depth < k && storesSums(spec, plan.terms, target.lanes))
      plan.rowsOfSums = plan.rowPanels;
    plan.rowBlock = evenly(plan.rowsOfSums, target.l2Bytes / 4 / panelBytes);
    if (plan.depth == k)
      plan.rowsOfSums = plan.rowBlock;
  }
  plan.columnBlock =
      std::clamp<int64_t>(plan.columnBlock, 1, plan.columnPanels);
  // Rows that end before the processor fetches ahead along them.
  int64_t rowBytes = k * a.element.getIntOrFloatBitWidth() / 8;
  plan.fetchesA = !plan.packA && rowsOfA && !spec.inPanels && !fewRows &&
                  !target.readsInOrder && plan.depth == k && rowBytes <= 1024 &&
                  m * rowBytes > target.l2Bytes / 4;
  return plan;
}
