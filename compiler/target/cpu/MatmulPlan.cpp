//===- MatmulPlan.cpp - blocks and packing of a matrix product ------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/target/cpu/MatmulPlan.h"
#include "compiler/target/cpu/CpuMachine.h"
#include "compiler/target/cpu/TileKernel.h"
#include "runtime/tfm_model.h"
#include "llvm/Support/MathExtras.h"
#include <algorithm>
#include <numeric>

using namespace mlir;
using namespace tfm;

bool tfm::canReadA(const MatmulSpec &spec, Terms terms, const Matrix &a) {
  if (areQuads(terms))
    return spec.inPanels && a.column == 1 && a.row % 4 == 0 && spec.k % 4 == 0;
  if (!spec.isBf16())
    return a.element.isF32();
  // Tiles read whole panels of rows, each of whose steps is a cache line.
  if (terms == Terms::Bf16Tiles)
    return a.element.isBF16() && a.column == 1 && a.row % tileDepth == 0 &&
           spec.m % (2 * tileSide) == 0 && spec.k % tileDepth == 0;
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

namespace {

/// Makes the plan of a product.
class Planner {
public:
  Planner(const MatmulSpec &spec, const CpuMachine &target);

  MatmulPlan plan() {
    chooseTerms();
    made.packA = packsA();
    // Threads that share columns each pack all of A, and the other way around.
    made.splitColumns = spec.n > spec.m;
    chooseTiles();
    made.serial = spec.isTooSmallToShare();
    if (goesAlongRows())
      planAlongRows();
    else
      planDownColumns();
    return made;
  }

private:
  void chooseTerms();
  bool packsA() const;
  void chooseTiles();
  bool goesAlongRows() const;
  void cutDepth(int64_t blocks);
  void planAlongRows();
  void planDownColumns();
  void fetchAhead();

  /// Whether rows of A meet in one set of the first-level cache.
  bool conflicts() const {
    return rowsOfA && a.row % (1024 * perSlot()) == 0 && spec.k > 64;
  }
  /// Whether the processor by itself fetches ahead along the rows of A.
  bool foreseesA() const {
    return target.readsInOrder && rowsOfA && !conflicts();
  }
  bool onTiles() const { return made.terms == Terms::Bf16Tiles; }

  int64_t perSlot() const { return elementsPerSlot(made.terms); }
  int64_t slots() const { return llvm::divideCeil(spec.k, perSlot()); }
  /// Of a block of depth, which is cut at multiples of `unit`.
  int64_t depthSlots() const { return llvm::divideCeil(made.depth, perSlot()); }
  int64_t unit() const {
    return onTiles()          ? tileDepth / perSlot()
           : spec.isGrouped() ? TFM_GROUP_TERMS
                              : target.lanes;
  }
  bool isCut() const { return made.depth < spec.k; }
  /// Down the columns, where that pays.
  int64_t blocksOfDepth() const;

  int64_t width() const { return target.lanes * made.tileVectors; }
  int64_t panelRows() const { return onTiles() ? 2 * tileSide : made.tileRows; }
  int64_t bytesOfA() const {
    return slotBytes * slots() * made.rowPanels * made.tileRows;
  }
  int64_t sumBytes() const { return slotBytes * panelRows() * width(); }
  /// Panels of so many bytes that half of the second-level cache holds.
  int64_t columnsInCache(int64_t bytes) const {
    return evenly(made.columnPanels, target.l2Bytes / 2 / bytes);
  }

  const MatmulSpec &spec;
  const CpuMachine &target;
  Matrix a, b;
  /// Whether rows lie in one piece; those of B so that the micro-kernel, which
  /// reads no integers, can take them.
  bool rowsOfA, rowsOfB;
  bool fewRows;
  /// The gradient of a small weight: both operands are read along their rows,
  /// as the micro-kernel likes it, and blocks of depth keep them in the cache.
  bool direct;
  MatmulPlan made;
};

} // namespace

Planner::Planner(const MatmulSpec &spec, const CpuMachine &target)
    : spec(spec), target(target),
      a(Matrix::of(spec.a, spec.transposeA).value_or(Matrix())),
      b(spec.inPanels ? Matrix()
                      : Matrix::of(spec.b, spec.transposeB).value_or(Matrix())),
      rowsOfA(a.column == 1),
      rowsOfB(b.column == 1 && spec.n % target.lanes == 0 &&
              !b.element.isInteger(8)),
      fewRows(spec.m <= 2 * target.tileRows()),
      direct(!spec.isBf16() && !rowsOfA && rowsOfB && spec.m <= 512 &&
             spec.n <= 512) {}

/// What terms are made of, and whether B is packed.
void Planner::chooseTerms() {
  if (spec.isBf16()) {
    // Reading B is all there is to a product of few rows.
    made.packB = !fewRows || !rowsOfB || !b.element.isBF16();
    made.terms = !made.packB        ? Terms::F32TimesBf16
                 : target.bf16Tiles ? Terms::Bf16Tiles
                 : target.bf16Pairs ? Terms::Bf16Pairs
                                    : Terms::F32;
  } else if (a.element.isInteger(8) && !spec.isGrouped()) {
    made.packB = !spec.inPanels;
    made.terms = integerTerms(target);
  } else {
    int64_t bytesOfB = slotBytes * spec.k * spec.n;
    made.packB =
        !rowsOfB || (!direct && !fewRows && bytesOfB > target.l1Bytes / 2);
  }
}

/// Copying an element of A costs about as much as a quarter of a step of the
/// micro-kernel, which uses it for `width` columns: it pays where it is used
/// often, or where its rows meet in one set of the first-level cache. Where a
/// processor fetches ahead along as many rows by itself it never does.
bool Planner::packsA() const {
  if (!canReadA(spec, made.terms, a))
    return true;
  if (direct || foreseesA())
    return false;
  // What is a few steps of tiles takes as long to pack as to multiply. A panel
  // of such rows is together in the first-level cache, packed or not.
  if (onTiles()) {
    int64_t panelBytes = slotBytes * (a.row / perSlot()) * panelRows();
    return spec.n > 512 || panelBytes > target.l1Bytes / 4;
  }
  // Of an A by columns each step is in another page, and where these do not
  // begin at lines in two lines of it: once is enough.
  bool scattered = !rowsOfA && spec.n > target.lanes * target.tileVectors() &&
                   4 * a.column >= pageBytes && a.column % 16 != 0;
  return spec.n > (rowsOfA ? 512 : 128) || (conflicts() && spec.n > 64) ||
         scattered || (rowsOfA && target.lanes < 8);
}

void Planner::chooseTiles() {
  int64_t inPlace = target.tileVectorsInPlace();
  bool isWide = !made.packA && (rowsOfA || direct) && !spec.isBf16() &&
                made.terms == Terms::F32 && !fewRows &&
                spec.n % (inPlace * target.lanes) == 0;
  made.tileVectors = isWide ? inPlace : target.tileVectors();
  int64_t tallest = onTiles() ? 2 * tileSide
                    : made.terms == Terms::I8Pairs
                        ? target.pairTileRows()
                        : target.tileRows(made.tileVectors);
  made.rowPanels = llvm::divideCeil(spec.m, tallest);
  // An even number of panels shares well among two threads, at the price of
  // slightly lower tiles, which those of AMX do not gain by; where they share
  // columns, weights in panels are read once less for it.
  if (made.rowPanels > 1 && !onTiles() && !(spec.inPanels && made.splitColumns))
    made.rowPanels = llvm::alignTo(made.rowPanels, 2);
  made.tileRows = llvm::divideCeil(spec.m, made.rowPanels);
  made.columnPanels = llvm::divideCeil(spec.n, width());
  // The few rows of one panel stay in the cache as they are.
  if (areQuads(made.terms))
    made.packA = made.rowPanels > 1 || !canReadA(spec, made.terms, a);
}

/// Sums are cut where it costs little for what it brings: panels of B that
/// stay in the first-level cache for all rows, where A stays in the second.
int64_t Planner::blocksOfDepth() const {
  int64_t deepest = 1024, whole = rowsOfB ? 256 : 384;
  if (direct) {
    deepest = 512;
    whole = 384;
  } else if (made.packB && rowsOfB && bytesOfA() <= target.l2Bytes) {
    deepest = 512;
  }
  return slots() <= deepest ? 1 : llvm::divideCeil(slots(), whole);
}

/// Where C is all that comes from memory, each of its rows from other pages,
/// or A would come from many pages for each panel of B.
bool Planner::goesAlongRows() const {
  if (onTiles())
    return true;
  bool pagesOfC = 4 * spec.n >= pageBytes &&
                  4 * spec.m * spec.n > target.l2Bytes &&
                  slotBytes * slots() * spec.n <= target.l2Bytes / 2 &&
                  slotBytes * slots() * made.tileRows <= target.l1Bytes / 2;
  bool pagesOfA = foreseesA() && !made.packA && blocksOfDepth() > 1 &&
                  made.columnPanels > 2 && bytesOfA() > target.l2Bytes;
  return made.packB && (pagesOfC || pagesOfA);
}

void Planner::cutDepth(int64_t blocks) {
  made.depth = blocks == 1
                   ? spec.k
                   : llvm::alignTo(llvm::divideCeil(slots(), blocks), unit()) *
                         perSlot();
}

/// A panel of A stays in the first-level cache, with a quarter of it left to
/// what passes, while a block of B, which has half of the second-level one,
/// streams by. Down a panel of columns each line of C, and of an A that lies in
/// rows, is in another page.
void Planner::planAlongRows() {
  int64_t panelBytes = slotBytes * slots() * panelRows();
  int64_t blocks = llvm::divideCeil(panelBytes, target.l1Bytes * 3 / 4);
  if (onTiles() && panelBytes <= target.l1Bytes) {
    // What tiles stream by leaves that cache alone, so that A may fill it, if
    // sums meet in a few of its sets.
    blocks = 1;
    made.sumsInFewSets = panelBytes + 2 * sumBytes() > target.l1Bytes;
  }
  cutDepth(blocks);
  made.alongRows = true;
  made.columnBlock =
      columnsInCache(slotBytes * width() * llvm::alignTo(depthSlots(), unit()));
  made.rowBlock = 1;
  // B is packed once for the rows whose sums of a part of the depth are kept.
  // Tiles, which have fetched them when they begin, take them from behind the
  // second-level cache, too.
  made.rowsOfSums = made.rowPanels;
  if (blocks > 1)
    made.rowsOfSums =
        evenly(made.rowPanels, (onTiles() ? 4 : 2) * target.l2Bytes /
                                   (sumBytes() * made.columnBlock));
}

/// A block of A stays in the second-level cache, a panel of B in the first.
void Planner::planDownColumns() {
  cutDepth(blocksOfDepth());
  int64_t forA =
      isCut() && target.readsInOrder ? target.l2Bytes : target.l2Bytes / 2;
  made.rowBlock =
      evenly(made.rowPanels, forA / (slotBytes * depthSlots() * made.tileRows));
  made.rowsOfSums = made.rowBlock;
  // Where all of A is packed at once a few panels of B are packed when their
  // turn comes and stay in the cache for their only use.
  bool isWhole = !isCut() && made.rowBlock == made.rowPanels;
  int64_t forB = isWhole ? target.l2Bytes / 4 : 2 * target.l2Bytes;
  made.columnBlock = std::clamp<int64_t>(
      forB / (slotBytes * depthSlots() * width()), 1, made.columnPanels);
  // The processors that were measured are those that need it (Intel's).
  if (!target.readsInOrder)
    fetchAhead();
}

/// While a dozen panels of A take their turns the next one of B is fetched, so
/// that more of A is not worth its part of the cache, which threads of others
/// may share.
void Planner::fetchAhead() {
  if (made.packB && made.rowBlock < made.rowPanels) {
    made.fetchesPacked = true;
    if (isCut() && storesSums(spec, made.terms, target.lanes))
      made.rowsOfSums = made.rowPanels;
    made.rowBlock =
        evenly(made.rowsOfSums,
               target.l2Bytes / 4 / (slotBytes * depthSlots() * made.tileRows));
    if (!isCut())
      made.rowsOfSums = made.rowBlock;
  }
  // Rows that end before the processor fetches ahead along them.
  int64_t rowBytes = spec.k * a.element.getIntOrFloatBitWidth() / 8;
  made.fetchesA = !made.packA && rowsOfA && !spec.inPanels && !fewRows &&
                  !isCut() && rowBytes <= 1024 &&
                  spec.m * rowBytes > target.l2Bytes / 4;
}

MatmulPlan tfm::planMatmul(const MatmulSpec &spec, const CpuMachine &target) {
  return Planner(spec, target).plan();
}
