//===- ProductTile.cpp - how products are cut up among blocks -------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/target/cuda/ProductTile.h"

#include "llvm/Support/MathExtras.h"
#include <algorithm>
#include <limits>

using namespace tfm;
using namespace tfm::cuda;

// Large tiles read each number for more products, small ones are enough for all
// multiprocessors where there is little of C.
static constexpr ProductTile tensorTiles[] = {
    {128, 256, 32, 4, 64, 64}, {128, 128, 32, 4, 64, 32},
    {64, 128, 32, 4, 32, 64},  {128, 64, 32, 4, 64, 32},
    {64, 64, 32, 4, 32, 32},   {32, 64, 64, 4, 16, 32},
    {16, 64, 64, 4, 16, 16}};
// Rows of 128 bytes in shared memory; a warp has 16 of the 64 rows of its
// warpgroup, and all columns.
static constexpr ProductTile warpgroupTiles[] = {{192, 256, 64, 3, 16, 256},
                                                 {128, 256, 64, 4, 16, 256},
                                                 {256, 128, 64, 3, 16, 128},
                                                 {128, 128, 64, 4, 16, 128},
                                                 {64, 128, 64, 4, 16, 128}};
// A step of the largest takes longer than its copies, and two of its blocks
// have room on every GPU.
static constexpr ProductTile f32Tiles[] = {
    {128, 128, 16, 2, 8, 8}, {64, 64, 8, 3, 4, 4}, {32, 32, 16, 3, 2, 2}};

/// Bytes of an element in shared memory, and threads of a part.
static int64_t bytesOf(Units units) { return units == Units::F32 ? 4 : 2; }
static int64_t threadsOfPart(Units units) {
  return units == Units::F32 ? 1 : 32;
}

int64_t cuda::threadsOf(const ProductTile &tile, Units units) {
  return tile.parts() * threadsOfPart(units) +
         (units == Units::Warpgroup ? warpgroupThreads : 0);
}

int64_t cuda::instructionColumns(const ProductTile &tile, const Gpu &gpu) {
  // Beside the sums ptxas wants so many registers for one (CUDA 13).
  constexpr int64_t beside = 26, sumsOfColumn = 2;
  int64_t atLaunch = gpu.registers / threadsOf(tile, Units::Warpgroup);
  int64_t columns = tile.columns;
  while (columns / sumsOfColumn + beside > atLaunch)
    columns /= 2;
  return columns;
}

int64_t cuda::registersOf(const ProductTile &tile, Units units,
                          int64_t moreRegisters) {
  // Beside the sums there are operands and addresses.
  constexpr int64_t beside = 64;
  return tile.partRows * tile.partColumns / threadsOfPart(units) + beside +
         moreRegisters;
}

int64_t cuda::residentBlocks(const ProductTile &tile, Units units,
                             const Gpu &gpu, int64_t moreRegisters) {
  int64_t registers =
      std::min(registersOf(tile, units, moreRegisters), maxRegisters);
  int64_t shared =
      (tile.rows + tile.columns) * tile.depth * bytesOf(units) * tile.stages;
  if (units == Units::Warpgroup)
    shared += tile.bandBytes();
  return std::max<int64_t>(
      gpu.residentBlocks(threadsOf(tile, units), registers, shared), 1);
}

/// Cycles that a multiprocessor takes for a step of a tile of f32 to give out
/// instructions, and to load numbers from shared memory: a thread has a
/// multiply-add for each product, and a load for up to four neighbours of its
/// rows and columns.
static std::pair<double, double> threadCyclesOf(const ProductTile &tile) {
  // Four instructions of a warp are given out in a cycle; so many of a step
  // count, wait and find addresses (CUDA 13).
  constexpr double givenOut = 4, beside = 80;
  // A warp's load of 16 bytes a lane takes two cycles, as several lanes read
  // the same; a shorter one takes one.
  constexpr int64_t together = 4;
  auto loadsOf = [&](int64_t numbers) -> int64_t {
    return llvm::divideCeil(numbers, together);
  };
  auto warps = static_cast<double>(llvm::divideCeil(tile.parts(), 32));
  int64_t loads = loadsOf(tile.partRows) + loadsOf(tile.partColumns);
  int64_t ofTerm = tile.partRows * tile.partColumns + loads;
  double copies = static_cast<double>((tile.rows + tile.columns) * tile.depth) /
                  static_cast<double>(tile.parts());
  double instructions =
      static_cast<double>(ofTerm * tile.depth) + copies + beside;
  bool isWide = std::max(tile.partRows, tile.partColumns) >= together;
  return {warps * instructions / givenOut,
          warps * static_cast<double>(loads * tile.depth * (isWide ? 2 : 1))};
}

double cuda::secondsOf(const ProductTile &tile, Units units,
                       const ProductShape &shape, const Gpu &gpu) {
  bool tensor = units != Units::F32;
  // Cycles of a multiprocessor from a copy's beginning to its end, and what a
  // block takes beside its steps: its first copies, and C on its way out.
  constexpr double latency = 700, aside = 2500;
  constexpr double sharedBytesPerClock = 128;
  auto bytes = static_cast<double>(bytesOf(units));
  auto stage =
      static_cast<double>((tile.rows + tile.columns) * tile.depth) * bytes;
  int64_t most = residentBlocks(tile, units, gpu);
  int64_t blocks = tile.tilesOf(shape.m, shape.n) * shape.batches;
  int64_t each = llvm::divideCeil(blocks, gpu.multiprocessors);
  auto resident = static_cast<double>(std::min(most, each));

  auto flops = static_cast<double>(2 * tile.rows * tile.columns * tile.depth);
  double compute =
      flops / (units == Units::F32
                   ? gpu.f32FlopsPerClock()
                   : gpu.tensorFlopsPerClock() *
                         (units == Units::Tensor ? gpu.ofMma : 1.0));
  // What all parts read of a stage; by a warpgroup B once for four parts, and A
  // by each instruction.
  auto parts = static_cast<double>(tile.parts() * tile.depth) * bytes;
  auto ofA = static_cast<double>(tile.partRows),
       ofB = static_cast<double>(tile.partColumns);
  if (units == Units::Warpgroup)
    ofA *= static_cast<double>(tile.columns / instructionColumns(tile, gpu));
  double read = parts * (units == Units::Warpgroup ? ofA + ofB / 4 : ofA + ofB);
  double shared = (read + stage) / sharedBytesPerClock;
  if (!tensor) {
    auto [instructions, loads] = threadCyclesOf(tile);
    shared = loads + stage / sharedBytesPerClock;
    compute = std::max(compute, instructions);
  }
  double copies = stage / gpu.cacheBytesPerClock();
  double waiting = latency / static_cast<double>(tile.stages - 1) / resident;
  double step = std::max({compute, shared, copies, waiting});
  auto steps = static_cast<double>(llvm::divideCeil(shape.terms, tile.depth));
  double cycles = static_cast<double>(each) * (steps * step + aside / resident);
  return cycles / gpu.clock;
}

llvm::ArrayRef<ProductTile> cuda::productTiles(Units units) {
  switch (units) {
  case Units::Tensor:
    return tensorTiles;
  case Units::Warpgroup:
    return warpgroupTiles;
  case Units::F32:
    return f32Tiles;
  }
  llvm_unreachable("no such units");
}

ProductTile cuda::fitted(ProductTile tile, int64_t terms) {
  auto steps = static_cast<int64_t>(llvm::divideCeil(terms, tile.depth));
  tile.stages = std::clamp<int64_t>(steps + 1, 2, tile.stages);
  return tile;
}

ProductTile
cuda::chooseTile(Units units, const ProductShape &shape, const Gpu &gpu,
                 llvm::function_ref<bool(const ProductTile &)> fits) {
  const ProductTile *best = nullptr;
  double least = std::numeric_limits<double>::infinity();
  for (const ProductTile &tile : productTiles(units)) {
    if (fits && !fits(tile))
      continue;
    double seconds = secondsOf(tile, units, shape, gpu);
    if (seconds < least) {
      least = seconds;
      best = &tile;
    }
  }
  return fitted(*best, shape.terms);
}
