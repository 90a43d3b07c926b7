//===- MatmulTest.cpp - matrix products against three loops ---------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/target/cpu/Matmul.h"
#include "compiler/target/cpu/FewRows.h"
#include "compiler/target/cpu/MatmulPlan.h"
#include "compiler/target/cpu/TileKernel.h"
#include "compiler/target/emit/VectorHelpers.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "tests/unit/kernels/KernelTest.h"
#include "tests/unit/kernels/Tiles.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/MemoryBufferRef.h"
#include <cmath>
#include <cstring>

using namespace mlir;
using namespace tfm;
using namespace tfm::test;

namespace {

struct Case {
  int64_t m, n, k;
  bool transposeA = false, transposeB = false;
  std::vector<int64_t> batch = {};
  /// Columns that rows of B and C have besides their own.
  int64_t gap = 0;
  /// The same of an A that is not transposed; they are NaN.
  int64_t gapOfA = 0;
  int packA = -1, packB = -1;
  int64_t depth = 0, rowBlock = 0, columnBlock = 0;
  /// `rowBlock`, if nothing is said.
  int64_t rowsOfSums = 0;
  bool fetchesPacked = false;
  /// On tiles.
  bool sumsInFewSets = false;
  /// As tiles go anyway.
  bool alongRows = false;
  bool bias = false;
  /// Which of the three matrices are bf16 in memory.
  bool bf16A = false, bf16B = false, bf16C = false;
  /// By FewRows.h, not in tiles.
  bool few = false;

  std::string name() const {
    return "case" + std::to_string(reinterpret_cast<uintptr_t>(this));
  }
};

MatmulSpec specOf(Kernels &kernels, const Case &c) {
  MatmulSpec spec;
  spec.batch.assign(c.batch.begin(), c.batch.end());
  spec.m = c.m;
  spec.n = c.n;
  spec.k = c.k;
  spec.transposeA = c.transposeA;
  spec.transposeB = c.transposeB;
  spec.accumulator = kernels.builder.getF32Type();
  Type f32 = kernels.builder.getF32Type();
  auto type = [&](int64_t rows, int64_t columns, int64_t gap, bool isBf16) {
    SmallVector<int64_t> shape(c.batch.begin(), c.batch.end());
    shape.append({rows, columns});
    SmallVector<int64_t> strides(shape.size(), 1);
    for (int64_t i = shape.size() - 2; i >= 0; --i)
      strides[i] = strides[i + 1] *
                   (shape[i + 1] + (i + 2 == (int64_t)shape.size() ? gap : 0));
    return MemRefType::get(
        shape, isBf16 ? kernels.builder.getBF16Type() : f32,
        StridedLayoutAttr::get(&kernels.context, 0, strides));
  };
  spec.a = c.transposeA ? type(c.k, c.m, 0, c.bf16A)
                        : type(c.m, c.k, c.gapOfA, c.bf16A);
  spec.b = c.transposeB ? type(c.n, c.k, 0, c.bf16B)
                        : type(c.k, c.n, c.gap, c.bf16B);
  spec.c = type(c.m, c.n, c.gap, c.bf16C);
  if (c.bias) {
    // out = C + bias, with C itself not stored.
    spec.reads.push_back(MemRefType::get({c.n}, f32));
    spec.epilogue = [](OpBuilder &b, Location loc, EpilogueTile &tile) {
      auto vec = cast<VectorType>(tile.value.getType());
      Value bias = tile.buffers[2], out = tile.buffers[3];
      SmallVector<Value> at(tile.batch);
      at.append({tile.row, tile.column});
      Value added;
      if (tile.mask)
        added = vector::MaskedLoadOp::create(b, loc, vec, bias, tile.column,
                                             tile.mask, tile.value);
      else
        added = vector::LoadOp::create(b, loc, vec, bias, tile.column);
      Value sum = arith::AddFOp::create(b, loc, tile.value, added);
      if (tile.mask)
        vector::MaskedStoreOp::create(b, loc, out, at, tile.mask, sum);
      else
        vector::StoreOp::create(b, loc, sum, out, at);
    };
  }
  return spec;
}

MatmulPlan planOf(const Case &c, const MatmulSpec &spec,
                  const CpuMachine &target) {
  MatmulPlan plan = planMatmul(spec, target);
  if (c.packA >= 0)
    plan.packA = c.packA;
  if (c.packB >= 0)
    plan.packB = c.packB;
  if (c.depth)
    plan.depth = plan.terms == Terms::Bf16Tiles
                     ? (int64_t)llvm::alignTo(c.depth, tileDepth)
                     : c.depth;
  if (c.rowBlock)
    plan.rowBlock = plan.rowsOfSums = std::min(c.rowBlock, plan.rowPanels);
  if (c.columnBlock)
    plan.columnBlock = std::min(c.columnBlock, plan.columnPanels);
  if (plan.terms == Terms::Bf16Tiles)
    plan.sumsInFewSets = c.sumsInFewSets && plan.depth >= spec.k;
  plan.alongRows |= c.alongRows;
  if (c.rowsOfSums)
    plan.rowsOfSums = std::min(c.rowsOfSums, plan.rowPanels);
  if (plan.alongRows)
    plan.rowBlock = 1;
  if (c.fetchesPacked)
    plan.fetchesPacked =
        plan.packB && !plan.alongRows && plan.rowBlock < plan.rowPanels;
  return plan;
}

Kernel emitCase(Kernels &kernels, const Case &c, const MatmulSpec &spec) {
  if (!c.few)
    return emitMatmul(kernels.builder, *kernels.module, c.name(), spec,
                      kernels.target, planOf(c, spec, kernels.target));
  EXPECT_EQ(planFewRows(spec, kernels.target).has_value(),
            c.m <= 2 * kernels.target.tileRows());
  return emitMatmul(kernels.builder, *kernels.module, c.name(), spec,
                    kernels.target);
}

/// Whether a machine runs instructions for pairs of bf16, be they fast or not.
bool hasBf16Pairs(const CpuMachine &machine) {
  return (',' + machine.requirements() + ',').find(",avx512bf16,") !=
         std::string::npos;
}

/// Which instructions multiply bf16.
enum class Bf16By { Widening, Pairs, Tiles };

const char *nameOf(Bf16By by) {
  return by == Bf16By::Widening ? ""
         : by == Bf16By::Pairs  ? ", pairs of bf16"
                                : ", tiles of bf16";
}

void choose(CpuMachine &machine, Bf16By by) {
  machine.bf16Pairs = by == Bf16By::Pairs;
  machine.bf16Tiles = by == Bf16By::Tiles;
}

/// The bf16 nearest to a finite number, the even one of two.
float nearestBf16(float x) {
  if (x == 0.0f || std::isnan(x))
    return x;
  // Eight bits count: the last of them is worth as much as the first / 2^7.
  double last = std::ldexp(1.0, std::ilogb(x) - 7);
  return static_cast<float>(std::nearbyint(x / last) * last);
}

/// `values` as they lie in memory.
Buffer inMemory(const Buffer &values, bool isBf16) {
  Buffer memory(isBf16 ? (values.size() + 1) / 2 : values.size(), NAN);
  for (int64_t i = 0; i < values.size(); ++i)
    if (isBf16)
      // The upper half of an f32 on a little-endian machine.
      std::memcpy(reinterpret_cast<char *>(memory.data()) + 2 * i,
                  reinterpret_cast<const char *>(values.data() + i) + 2, 2);
    else
      memory[i] = values[i];
  return memory;
}

float elementOf(const Buffer &memory, int64_t i, bool isBf16) {
  if (!isBf16)
    return memory[i];
  float value = 0.0f;
  std::memcpy(reinterpret_cast<char *>(&value) + 2,
              reinterpret_cast<const char *>(memory.data()) + 2 * i, 2);
  return value;
}

/// Emits all cases into one module, compiles it once, and compares each with
/// f64 loops, and with itself on other numbers of threads.
void checkOn(StringRef cpu, Bf16By by, const std::vector<Case> &cases) {
  SCOPED_TRACE(cpu.str() + nameOf(by));
  Kernels kernels(cpu);
  choose(kernels.target, by);
  std::vector<int64_t> scratch;
  for (const Case &c : cases) {
    MatmulSpec spec = specOf(kernels, c);
    Kernel kernel = emitCase(kernels, c, spec);
    ASSERT_TRUE(kernel.func);
    scratch.push_back(kernel.scratchBytes);
  }
  if (by == Bf16By::Tiles)
    emulateTiles(*kernels.module);
  kernels.compile();
  std::mt19937 random(7);
  for (size_t i = 0; i < cases.size(); ++i) {
    const Case &c = cases[i];
    SCOPED_TRACE("m " + std::to_string(c.m) + " n " + std::to_string(c.n) +
                 " k " + std::to_string(c.k) + (c.transposeA ? " At" : "") +
                 (c.transposeB ? " Bt" : "") + " pack " +
                 std::to_string(c.packA) + std::to_string(c.packB) + " bf16 " +
                 std::to_string(c.bf16A) + std::to_string(c.bf16B) +
                 std::to_string(c.bf16C));
    int64_t batches = 1;
    for (int64_t size : c.batch)
      batches *= size;
    int64_t bRow = c.transposeB ? c.k : c.n + c.gap;
    int64_t bSize = c.transposeB ? c.n * c.k : c.k * bRow;
    int64_t cRow = c.n + c.gap, cSize = c.m * cRow;
    int64_t aRow = c.transposeA ? c.m : c.k + c.gapOfA,
            aSize = c.transposeA ? c.k * aRow : c.m * aRow;
    Buffer a(batches * aSize), b(batches * bSize), start(batches * cSize),
        bias(c.n);
    for (Buffer *buffer : {&a, &b, &start, &bias})
      buffer->randomize(random);
    auto round = [](Buffer &values) {
      std::transform(values.data(), values.data() + values.size(),
                     values.data(), nearestBf16);
    };
    for (int64_t i = 0; i < a.size(); ++i)
      if (c.gapOfA > 0 && i % aRow >= c.k)
        a[i] = NAN;
    if (c.bf16A)
      round(a);
    if (c.bf16B)
      round(b);
    if (c.bf16C)
      round(start);
    Buffer aMemory = inMemory(a, c.bf16A), bMemory = inMemory(b, c.bf16B);
    // As the kernel sees them.
    bool isBf16 = c.bf16A || c.bf16B;
    if (isBf16) {
      round(a);
      round(b);
    }
    std::vector<Buffer> results;
    for (int64_t threads : {1, 2, 3, 8}) {
      Buffer out = inMemory(start, c.bf16C);
      std::vector<Buffer *> buffers{&aMemory, &bMemory};
      if (c.bias)
        buffers.push_back(&bias);
      buffers.push_back(&out);
      kernels.run(c.name(), buffers, scratch[i], threads);
      results.push_back(std::move(out));
    }
    for (size_t t = 1; t < results.size(); ++t)
      ASSERT_EQ(std::memcmp(results[0].data(), results[t].data(),
                            4 * results[0].size()),
                0)
          << "other bits with other threads";
    for (int64_t batch = 0; batch < batches; ++batch)
      for (int64_t row = 0; row < c.m; ++row)
        for (int64_t column = 0; column < cRow; ++column) {
          int64_t at = batch * cSize + row * cRow + column;
          float result = elementOf(results[0], at, c.bf16C);
          if (column >= c.n) {
            ASSERT_EQ(result, start[at]) << "wrote past a row";
            continue;
          }
          double sum = 0.0, size = 0.0;
          for (int64_t k = 0; k < c.k; ++k) {
            double x = a[batch * aSize +
                         (c.transposeA ? k * aRow + row : row * aRow + k)];
            double y = b[batch * bSize + (c.transposeB ? column * bRow + k
                                                       : k * bRow + column)];
            sum += x * y;
            size += std::fabs(x * y);
          }
          if (c.bias)
            sum += bias[column];
          // A sum of k rounded terms in f32: each addition rounds once.
          double bound = (std::sqrt((double)c.k) + 4) * 6e-8 * (size + 1);
          // Products of bf16 are exact, so that nothing but the sums is
          // rounded: at most so much, and the result once more to 8 bits.
          if (isBf16)
            bound = static_cast<double>(c.k + c.bias) * 0x1p-24 * 1.01 *
                    (size + (c.bias ? std::fabs(bias[column]) : 0.0));
          if (c.bf16C)
            bound += 0x1p-8 * (std::fabs(sum) + bound);
          ASSERT_NEAR(result, sum, bound)
              << "batch " << batch << " row " << row << " column " << column;
        }
  }
}

/// On everything that this machine runs, with and without instructions for
/// pairs of bf16 where it has them, and with tiles where its vectors fill their
/// rows.
void check(const std::vector<Case> &cases) {
  bool isBf16 = llvm::any_of(
      cases, [](const Case &c) { return c.bf16A || c.bf16B || c.bf16C; });
  for (StringRef cpu : runnableCpus()) {
    checkOn(cpu, Bf16By::Widening, cases);
    CpuMachine machine = llvm::cantFail(CpuMachine::named(cpu));
    if (isBf16 && hasBf16Pairs(machine))
      checkOn(cpu, Bf16By::Pairs, cases);
    if (isBf16 && machine.lanes == tileSide)
      checkOn(cpu, Bf16By::Tiles, cases);
  }
}

} // namespace

TEST(Matmul, OddShapesInEveryOrientation) {
  std::vector<Case> cases;
  std::mt19937 random(1);
  const int64_t sizes[] = {1,  2,  3,  7,  9,  13, 14, 15, 16, 17,
                           31, 32, 33, 47, 64, 65, 71, 97, 128};
  auto pick = [&] { return sizes[random() % std::size(sizes)]; };
  for (int i = 0; i < 48; ++i) {
    Case c{pick(), pick(), pick()};
    c.transposeA = random() % 2;
    c.transposeB = random() % 2;
    c.bias = random() % 3 == 0;
    c.gap = c.transposeB ? 0 : (int64_t)(random() % 2) * 16;
    c.packA = random() % 2;
    c.packB = c.transposeB || c.n % 16 ? 1 : random() % 2;
    cases.push_back(c);
  }
  check(cases);
}

TEST(Matmul, BlocksOfDepthRowsAndColumns) {
  std::vector<Case> cases;
  for (int orientation = 0; orientation < 4; ++orientation)
    for (bool packA : {false, true}) {
      Case c{75, 112, 83};
      c.transposeA = orientation & 1;
      c.transposeB = orientation & 2;
      c.packA = packA;
      c.packB = 1;
      c.depth = 32;
      c.rowBlock = 2;
      c.columnBlock = 2;
      cases.push_back(c);
      // Through tiles in scratch: an edge, then an epilogue.
      c.n = 101;
      cases.push_back(c);
      c.n = 96;
      c.bias = true;
      c.packB = c.transposeB;
      cases.push_back(c);
      // Without blocks of depth, but with blocks of rows and columns.
      c.depth = 0;
      cases.push_back(c);
    }
  for (size_t i = 0, size = cases.size(); i != size; ++i) {
    cases.push_back(cases[i]);
    cases.back().alongRows = true;
    // Blocks of A, of which two have a packing of B and sums in common, or all.
    for (int64_t rowsOfSums : {2, 4, 6}) {
      cases.push_back(cases[i]);
      cases.back().rowsOfSums = rowsOfSums;
      cases.back().fetchesPacked = true;
    }
  }
  check(cases);
}

TEST(Matmul, Bf16InEveryOrientation) {
  std::vector<Case> cases;
  std::mt19937 random(5);
  const int64_t sizes[] = {1,  2,  3,  7,  13, 14, 16, 17,
                           29, 32, 33, 47, 64, 71, 97, 128};
  auto pick = [&] { return sizes[random() % std::size(sizes)]; };
  for (int i = 0; i < 64; ++i) {
    Case c{pick(), pick(), pick()};
    c.transposeA = random() % 2;
    c.transposeB = random() % 2;
    c.bias = random() % 3 == 0;
    c.gap = c.transposeB ? 0 : (int64_t)(random() % 2) * 16;
    // At least one operand, and never the result of an epilogue.
    int types = 1 + random() % 3;
    c.bf16A = types & 1;
    c.bf16B = types & 2;
    c.bf16C = !c.bias && random() % 2;
    if (random() % 4 == 0)
      c.batch = {2, 1 + (int64_t)(random() % 2)};
    if (random() % 2)
      c.packA = 1;
    cases.push_back(c);
  }
  check(cases);
}

TEST(Matmul, Bf16InBlocks) {
  std::vector<Case> cases;
  for (int orientation = 0; orientation < 4; ++orientation)
    for (int types = 1; types < 4; ++types) {
      Case c{75, 112, 83};
      c.transposeA = orientation & 1;
      c.transposeB = orientation & 2;
      c.bf16A = types & 1;
      c.bf16B = types & 2;
      c.bf16C = orientation == types;
      c.depth = 32;
      c.rowBlock = 2;
      c.columnBlock = 2;
      cases.push_back(c);
      c.n = 101;
      c.bf16C = false;
      c.bias = true;
      cases.push_back(c);
      c.alongRows = true;
      cases.push_back(c);
      c.depth = 0;
      cases.push_back(c);
      c.sumsInFewSets = true;
      cases.push_back(c);
    }
  check(cases);
}

TEST(Matmul, ThePlansOfBf16) {
  std::vector<Case> cases{{768, 65, 128},        {700, 768, 810, true},
                          {128, 512, 768, true}, {768, 128, 512, false, true},
                          {300, 64, 2200, true}, {64, 768, 3072},
                          {300, 100, 2300},      {700, 1100, 30},
                          {1, 768, 768},         {9, 192, 64},
                          {256, 64, 128}};
  for (Case &c : cases)
    c.bf16A = c.bf16B = true;
  check(cases);
}

// A few steps of whole tiles take their rows from where these lie.
TEST(Matmul, TilesReadShortRowsInPlace) {
  Kernels kernels;
  CpuMachine machine = llvm::cantFail(CpuMachine::named("sapphirerapids+amx"));
  std::vector<Case> read{{96, 64, 64},   {64, 33, 32},
                         {32, 128, 128}, {160, 100, 64, false, true},
                         {64, 512, 96},  {64, 48, 128, false, false, {3}},
                         {64, 64, 128}};
  // Too few rows for a panel, terms that end within a step, rows that do not
  // lie along k, too long ones, or uses enough for packing.
  std::vector<Case> packed{{70, 64, 64},
                           {64, 64, 50},
                           {64, 64, 64, true},
                           {64, 64, 160},
                           {64, 544, 64}};
  read.back().depth = 64;
  // Rows of a wider tensor, whose other columns are nobody's terms.
  read.push_back({64, 48, 32});
  read.push_back({96, 64, 64, false, true, {2}});
  packed.push_back({64, 64, 50});
  for (Case *c : {&read.back(), &read[read.size() - 2]})
    c->gapOfA = 64;
  packed.back().gapOfA = 30;
  read[6].bias = read[1].bias = true;
  for (auto *cases : {&read, &packed})
    for (Case &c : *cases) {
      c.bf16A = c.bf16B = true;
      MatmulPlan plan = planMatmul(specOf(kernels, c), machine);
      EXPECT_EQ(plan.packA, cases == &packed) << c.m << " " << c.k;
      // However many threads there are, each has whole panels.
      EXPECT_EQ(plan.rowPanels, llvm::divideCeil(c.m, 2 * tileSide));
    }
  check(read);
  check(packed);
}

// Down a panel of columns each line of a wide C lies in another page.
TEST(Matmul, AWideProductOfFewTermsGoesAlongItsRows) {
  for (StringRef cpu : {"skylake-avx512", "znver4", "znver5", "x86-64-v3"}) {
    SCOPED_TRACE(cpu.str());
    Kernels kernels;
    CpuMachine machine = llvm::cantFail(CpuMachine::named(cpu));
    auto plan = [&](const Case &c) {
      return planMatmul(specOf(kernels, c), machine);
    };
    MatmulPlan wide = plan({9568, 1510, 64});
    EXPECT_TRUE(wide.alongRows);
    EXPECT_EQ(wide.depth, 64);
    EXPECT_EQ(wide.columnBlock, wide.columnPanels);
    EXPECT_FALSE(plan({9568, 64, 1510}).alongRows);
    EXPECT_FALSE(plan({256, 3072, 768}).alongRows);
  }
}

// Rows that the processor fetches ahead along are not copied, but where they
// meet in one set of the first-level cache.
TEST(Matmul, RowsOfAStayWhereTheyAre) {
  for (StringRef cpu : {"znver4", "znver5"}) {
    SCOPED_TRACE(cpu.str());
    Kernels kernels;
    CpuMachine machine = llvm::cantFail(CpuMachine::named(cpu));
    auto plan = [&](const Case &c) {
      return planMatmul(specOf(kernels, c), machine);
    };
    EXPECT_FALSE(plan({1024, 2304, 768}).packA);
    EXPECT_FALSE(plan({1024, 2304, 768}).alongRows);
    EXPECT_TRUE(plan({1024, 2304, 1024}).packA);
    MatmulPlan deep = plan({2048, 768, 2304});
    EXPECT_FALSE(deep.packA);
    EXPECT_TRUE(deep.alongRows);
    EXPECT_LT(deep.depth, 2304);
    machine.readsInOrder = false;
    EXPECT_TRUE(plan({1024, 2304, 768}).packA);
    EXPECT_FALSE(plan({2048, 768, 2304}).alongRows);
  }
}

// Numbers on their way to bf16, with one term to a sum.
TEST(Matmul, RoundsToBf16) {
  struct Rounding {
    uint32_t from, to;
  };
  const Rounding table[] = {
      {0x3f800000, 0x3f800000}, // 1
      {0x3f808000, 0x3f800000}, // a tie, to even
      {0x3f808001, 0x3f810000}, // more than a tie
      {0x3f818000, 0x3f820000}, // a tie, to even
      {0xbf818000, 0xbf820000}, {0xbf808000, 0xbf800000},
      {0x3f807fff, 0x3f800000}, // less than a tie
      {0x3fffffff, 0x40000000}, // carries into the exponent
      {0x00000000, 0x00000000}, {0x7f7fffff, 0x7f800000}, // to infinity
      {0xff800000, 0xff800000}, {0x7f800001, 0x7fc00000}, // NaN
      {0xffffffff, 0x7fc00000},
  };
  int64_t count = std::size(table);
  auto bitsToFloat = [](uint32_t bits) {
    float value;
    std::memcpy(&value, &bits, 4);
    return value;
  };
  auto expectRounded = [&](const Buffer &memory, bool isBf16) {
    for (int64_t i = 0; i < count; ++i) {
      SCOPED_TRACE(i);
      float expected = bitsToFloat(table[i].to);
      float found = elementOf(memory, i, isBf16);
      if (std::isnan(expected))
        EXPECT_TRUE(std::isnan(found));
      else
        EXPECT_EQ(found, expected);
    }
  };
  for (StringRef cpu : runnableCpus())
    for (bool pairs : {false, true}) {
      Kernels kernels(cpu);
      if (pairs && !hasBf16Pairs(kernels.target))
        continue;
      SCOPED_TRACE(cpu.str() + (pairs ? ", pairs" : ""));
      kernels.target.bf16Pairs = pairs;
      // An f32 operand by one of bf16, packed both ways; the result of two f32.
      Case column{count, 1, 1}, row{1, count, 1}, result{count, 1, 1};
      column.bf16B = row.bf16A = result.bf16C = true;
      std::vector<int64_t> scratch;
      for (const Case *c : {&column, &row, &result}) {
        MatmulSpec spec = specOf(kernels, *c);
        scratch.push_back(emitMatmul(kernels.builder, *kernels.module,
                                     c->name(), spec, kernels.target)
                              .scratchBytes);
      }
      kernels.compile();
      Buffer numbers(count), ones(1, 1.0f);
      for (int64_t i = 0; i < count; ++i)
        numbers[i] = bitsToFloat(table[i].from);
      Buffer one = inMemory(ones, true), product(count), again(count),
             rounded((count + 1) / 2);
      kernels.run(column.name(), {&numbers, &one, &product}, scratch[0]);
      expectRounded(product, false);
      kernels.run(row.name(), {&one, &numbers, &again}, scratch[1]);
      expectRounded(again, false);
      kernels.run(result.name(), {&numbers, &ones, &rounded}, scratch[2]);
      expectRounded(rounded, true);
    }
}

TEST(Matmul, Batches) {
  Case one{9, 17, 33};
  one.batch = {5};
  Case two{30, 32, 16};
  two.batch = {2, 3};
  two.transposeB = true;
  Case three{20, 48, 40};
  three.batch = {2, 2};
  three.transposeA = true;
  three.bias = true;
  check({one, two, three});
}

TEST(FewRows, OddShapesInBothLayouts) {
  std::vector<Case> cases;
  std::mt19937 random(11);
  const int64_t sizes[] = {1,  2,  7,  15, 16, 17,  31,  33,  47,
                           64, 65, 71, 97, 96, 128, 131, 200, 259};
  auto pick = [&] { return sizes[random() % std::size(sizes)]; };
  const int64_t rows[] = {1, 2, 3, 4, 5, 6, 7, 8, 11, 12, 13, 28};
  for (int i = 0; i < 96; ++i) {
    Case c{rows[i % std::size(rows)], pick(), pick()};
    c.few = true;
    c.transposeB = random() % 2;
    c.bias = random() % 3 == 0;
    c.gap = c.transposeB ? 0 : (int64_t)(random() % 2) * 16;
    c.bf16B = random() % 2;
    c.bf16A = c.bf16B && random() % 2;
    c.bf16C = !c.bias && random() % 3 == 0;
    if (random() % 4 == 0)
      c.batch = {2, 1 + (int64_t)(random() % 2)};
    cases.push_back(c);
  }
  // Several blocks of columns, and threads without any.
  for (int64_t m : {1, 8}) {
    Case c{m, 2300, 35};
    c.few = true;
    cases.push_back(c);
    c.bf16B = c.bias = true;
    cases.push_back(c);
  }
  check(cases);
}

namespace {

/// What the first row of A, of `m`, gives.
std::vector<float> firstRow(Case c, int64_t m, StringRef cpu, Bf16By by,
                            Buffer a, const Buffer &b) {
  c.m = m;
  Kernels kernels(cpu);
  choose(kernels.target, by);
  MatmulSpec spec = specOf(kernels, c);
  Kernel kernel = emitCase(kernels, c, spec);
  kernels.compile();
  Buffer aMemory = inMemory(a, c.bf16A), bMemory = inMemory(b, c.bf16B);
  Buffer out(m * c.n);
  kernels.run(c.name(), {&aMemory, &bMemory, &out}, kernel.scratchBytes, 3);
  return {out.data(), out.data() + c.n};
}

} // namespace

// A token gets the same numbers alone and beside others, in memory of either
// type: and where rows of B lie along n, those of a product in tiles.
TEST(FewRows, ARowDoesNotDependOnTheOthers) {
  auto check = [](StringRef cpu, Bf16By by, Case c) {
    CpuMachine machine = llvm::cantFail(CpuMachine::named(cpu));
    SCOPED_TRACE(cpu.str() + nameOf(by) + (c.transposeB ? " Bt" : "") +
                 (c.bf16B ? " bf16" : "") + (c.bf16A ? ", A too" : ""));
    std::mt19937 random(3);
    Buffer b(c.n * c.k), first(c.k);
    b.randomize(random);
    first.randomize(random);
    auto row = [&](int64_t m) {
      Buffer a(m * c.k);
      a.randomize(random);
      std::copy(first.data(), first.data() + c.k, a.data());
      return firstRow(c, m, cpu, by, std::move(a), b);
    };
    std::vector<float> alone = row(1);
    for (int64_t m : {2, 3, 4, 5, 6, 7, 8, 12, 17, 28})
      if (m <= 2 * machine.tileRows())
        EXPECT_EQ(row(m), alone) << m;
    if (c.transposeB)
      return;
    c.few = false;
    // In tiles a row alone is widened.
    if (by == Bf16By::Widening)
      EXPECT_EQ(row(1), alone) << "in tiles";
    EXPECT_EQ(row(40), alone) << "in tiles";
  };
  for (StringRef cpu : runnableCpus())
    for (bool transposeB : {false, true})
      for (int types = 0; types < 3; ++types) {
        Case c{1, 83, 301, false, transposeB};
        c.few = true;
        c.bf16B = types > 0;
        c.bf16A = types > 1;
        check(cpu, Bf16By::Widening, c);
        if (c.bf16B && hasBf16Pairs(llvm::cantFail(CpuMachine::named(cpu))))
          check(cpu, Bf16By::Pairs, c);
      }
}

// How strips are read, and by how many threads, makes no difference.
TEST(FewRows, StripsTogetherHaveTheSameBits) {
  std::mt19937 random(5);
  for (StringRef cpu : runnableCpus())
    for (int64_t n : {1, 47, 96, 192, 200, 768, 1300})
      for (bool bias : {false, true}) {
        Case c{1, n, 71};
        c.few = true;
        c.bias = bias;
        Buffer a(c.k), b(c.k * n), biases(n);
        for (Buffer *each : {&a, &b, &biases})
          each->randomize(random);
        std::vector<float> expected;
        for (bool together : {false, true})
          for (int64_t threads : {1, 2, 5}) {
            SCOPED_TRACE(cpu.str() + " " + c.name() +
                         ", threads: " + std::to_string(threads));
            Kernels kernels(cpu);
            kernels.target.foreseesRows = together;
            Kernel kernel = emitCase(kernels, c, specOf(kernels, c));
            kernels.compile();
            Buffer out(n, NAN);
            std::vector<Buffer *> arguments{&a, &b};
            if (bias)
              arguments.push_back(&biases);
            arguments.push_back(&out);
            kernels.run(c.name(), arguments, kernel.scratchBytes, threads);
            std::vector<float> found(out.data(), out.data() + n);
            if (expected.empty())
              expected = found;
            EXPECT_EQ(found, expected);
          }
      }
}

TEST(Matmul, ThePlansOfRealShapes) {
  // Addition, Shakespeare, GPT-2: forward, weight gradient, input gradient.
  check({{1152, 64, 64},
         {9, 192, 64},
         {768, 65, 128},
         {128, 512, 768, true},
         {768, 128, 512, false, true},
         {64, 257, 768, false, true},
         {300, 64, 1100, true},
         {300, 100, 1300},
         {700, 1100, 24},
         {64, 768, 3072}});
}

namespace {

/// The assembly of the module, between the labels of function `name` and the
/// next one.
std::string assemblyOf(Kernels &kernels, StringRef name) {
  EXPECT_TRUE(succeeded(
      lowerToLLVMDialect(*kernels.module, kernels.target.roundsToBf16)));
  llvm::LLVMContext context;
  auto code = translateToLLVM(*kernels.module, context);
  llvm::SmallString<0> text;
  llvm::raw_svector_ostream stream(text);
  llvm::cantFail(emitAssembly(*code, kernels.target, stream));
  StringRef all = text;
  bool apple = StringRef(kernels.target.triple).contains("apple");
  std::string label = (apple ? "_" : "") + name.str();
  size_t from = all.find("\n" + label + ":");
  if (from == StringRef::npos)
    from = all.find("\n\"" + label + "\":");
  EXPECT_NE(from, StringRef::npos) << "no function " << label;
  size_t to = all.find(".size", from);
  if (apple)
    to = all.find(".cfi_endproc", from);
  return all.slice(from, to).str();
}

/// The tile of the micro-kernel `name` stays in registers: between the first
/// and the last of its `steps` multiply-adds nothing touches the stack, except
/// for the general registers of x86.
void checkInnerLoop(Kernels &kernels, const std::string &name, int64_t steps,
                    StringRef step) {
  SCOPED_TRACE(name);
  std::string text = assemblyOf(kernels, name);
  SmallVector<StringRef> lines;
  StringRef(text).split(lines, '\n');
  auto isStep = [&](StringRef line) { return line.contains(step); };
  auto first = llvm::find_if(lines, isStep);
  auto last = std::find_if(lines.rbegin(), lines.rend(), isStep).base();
  ASSERT_NE(first, lines.end());
  for (StringRef line : llvm::make_range(first, last))
    EXPECT_FALSE(line.contains("[sp") || line.contains("call") ||
                 (line.contains("(%rsp") && line.contains("mm")))
        << line.str();
  EXPECT_EQ(std::count_if(lines.begin(), lines.end(), isStep), steps) << text;
}

void checkRegisterTile(StringRef cpu, int64_t rows, int64_t columns) {
  SCOPED_TRACE(cpu.str());
  CpuMachine machine = llvm::cantFail(CpuMachine::named(cpu));
  EXPECT_EQ(machine.tileRows(), rows);
  EXPECT_EQ(machine.tileVectors() * machine.lanes, columns);
  // Steps beside the prefetching of C (or what an epilogue reads and writes),
  // beside that of B, and the rest: each in the loop's unrolled steps, and the
  // last one in a step alone.
  int64_t plain = machine.lanes > 4 ? 3 : 1;
  int64_t prefetching = machine.lanes > 4 ? 7 : 3;
  std::string multiplyAdd = machine.lanes > 4 ? "vfmadd" : "fmla";
  // `steps` of a register tile.
  auto check = [&](Case c, StringRef suffix, int64_t steps, StringRef step) {
    Kernels kernels;
    kernels.target = machine;
    MatmulSpec spec = specOf(kernels, c);
    // An epilogue that reads and writes as much.
    if (suffix.ends_with("matrices3")) {
      spec.reads = {spec.c};
      spec.writes = {spec.c, std::exchange(spec.c, MemRefType())};
      spec.epilogue = [](OpBuilder &, Location, EpilogueTile &) {};
    }
    MatmulPlan plan = planOf(c, spec, machine);
    emitMatmul(kernels.builder, *kernels.module, "kernel", spec, machine, plan);
    checkInnerLoop(kernels,
                   "tfm.micro." + std::to_string(plan.tileRows) + "x" +
                       std::to_string(plan.tileVectors) + suffix.str(),
                   steps * plan.tileRows * plan.tileVectors, step);
  };
  // Terms enough for each row of C to be prefetched at a time of its own.
  Case c{rows * 4, columns * 8, 256};
  c.packA = 0;
  c.packB = 1;
  // Every plan for NEON packs a row-major A.
  if (machine.lanes > 4) {
    check(c, ".rows.ahead2.matrices1", 3, multiplyAdd);
  } else {
    c.packA = -1;
    Kernels kernels;
    EXPECT_TRUE(planMatmul(specOf(kernels, c), machine).packA);
  }
  // Short rows of a large A, whose next panel is fetched.
  bool isWide = machine.lanes == 16 && !machine.readsInOrder;
  if (isWide) {
    Case large{rows * 128, 64, 64};
    check(large, ".rows.matrices2.a4", 2, multiplyAdd);
    EXPECT_EQ(planMatmul(specOf(*std::make_unique<Kernels>(), large), machine)
                  .tileVectors,
              4);
  }
  // A small weight's gradient, then one of more rows than are read in place.
  c.transposeA = true;
  check(c, ".columns.ahead2.matrices1", prefetching, multiplyAdd);
  Case tall = c;
  tall.m = rows * 40;
  tall.k = 128;
  check(tall, ".columns.ahead2.matrices1", prefetching, multiplyAdd);
  check(tall, ".columns.copy.ahead2.matrices1", 3, multiplyAdd);
  check(tall, ".columns.ahead2.matrices3", prefetching, multiplyAdd);
  tall.depth = 112;
  check(tall, ".columns.ahead2.matrices1.last", prefetching, multiplyAdd);
  c.packB = 0;
  check(c, ".columns", plain, multiplyAdd);
  // Bf16 as f32, in panels, or B where it lies.
  c.packA = c.packB = -1;
  c.bf16A = c.bf16B = true;
  if (!machine.bf16Pairs) {
    check(c, ".columns.ahead2.matrices1", prefetching, multiplyAdd);
    check(c, ".columns.bf16.copy.ahead2.matrices1", 3, multiplyAdd);
  }
  Case fewRows = c;
  fewRows.m = rows;
  check(fewRows, ".columns.bf16", plain, multiplyAdd);
  if (!machine.bf16Pairs)
    return;
  if (machine.lanes == 4) { // each by one lane of a register
    check(c, ".columns.pairs.ahead2.matrices1", prefetching, ".2h[");
    return;
  }
  check(c, ".columns.pairs.ahead2.matrices1", prefetching, "vdpbf16ps");
  c.transposeA = false;
  c.packA = 0;
  check(c, ".rows.pairs.ahead2.matrices1", 3, "vdpbf16ps");
}

} // namespace

// The accumulators of the tile live in registers, on every kind of CPU.
TEST(Matmul, RegisterTilesDoNotSpill) {
  checkRegisterTile("skylake-avx512", 14, 32);
  checkRegisterTile("znver4", 14, 32);
  checkRegisterTile("x86-64-v3", 6, 16);
  checkRegisterTile("apple-m1", 8, 12);
  checkRegisterTile("neoverse-n1", 8, 12);
  checkRegisterTile("neoverse-n2", 8, 12);
}

// A cache line of each row of B is loaded, prefetched further on and multiplied
// without a detour.
TEST(FewRows, InnerLoopsDoNotSpill) {
  auto check = [](StringRef cpu, Case c, const std::string &name,
                  int64_t multiplyAdds, int64_t prefetches) {
    SCOPED_TRACE(cpu.str());
    Kernels kernels;
    kernels.target = llvm::cantFail(CpuMachine::named(cpu));
    c.few = true;
    emitCase(kernels, c, specOf(kernels, c));
    bool isX86 = kernels.target.lanes > 4;
    checkInnerLoop(kernels, name, multiplyAdds,
                   StringRef(name).contains("pairs") ? "vdpbf16ps"
                   : isX86                           ? "vfmadd"
                                                     : "fmla");
    EXPECT_EQ(StringRef(assemblyOf(kernels, name))
                  .count(isX86 ? "prefetcht" : "prfm"),
              static_cast<size_t>(prefetches));
  };
  // The loop over lines, then that over vectors that are left.
  Case along{1, 64, 100, false, true}, across{1, 128, 100};
  check("skylake-avx512", along, "tfm.dot.1x4", 4 + 4, 4);
  check("skylake-avx512", across, "tfm.rows.1x4", 4, 4);
  check("x86-64-v3", along, "tfm.dot.1x4", 8 + 4, 4);
  check("x86-64-v3", across, "tfm.rows.1x2", 2, 1);
  along.m = across.m = 6;
  check("skylake-avx512", along, "tfm.dot.6x4", 24 + 24, 4);
  check("skylake-avx512", across, "tfm.rows.6x4", 24, 4);
  along.bf16B = across.bf16B = true;
  check("skylake-avx512", along, "tfm.dot.6x4.bf16", 48 + 24, 4);
  check("skylake-avx512", across, "tfm.rows.6x4.bf16", 24, 2);
  // In pairs, prefetched twice where rows are read side by side.
  check("znver4", along, "tfm.dot.6x4.pairs", 24 + 24, 8);
  check("znver4", across, "tfm.rows.6x4.pairs", 24 + 24, 8 + 4);
  along.m = across.m = 1;
  check("znver5", {1, 768, 100}, "tfm.rows.1x12", 12, 0);
  check("znver4", along, "tfm.dot.1x1.pairs", 1 + 1, 1);
  check("znver4", across, "tfm.rows.1x4.pairs", 4 + 4, 8 + 4);
}

// Four loads and four products a step, in registers that nothing saves.
TEST(Matmul, TilesStayInTheirRegisters) {
  Kernels kernels;
  kernels.target = llvm::cantFail(CpuMachine::named("sapphirerapids+amx"));
  Case c{256, 768, 512};
  c.bf16A = c.bf16B = true;
  emitMatmul(kernels.builder, *kernels.module, "kernel", specOf(kernels, c),
             kernels.target);
  checkInnerLoop(kernels, "kernel", 4, "tdpbf16ps");
}

// The two vectors of a tile's row lie in the same 64 columns: one call of the
// generator serves both.
TEST(Matmul, DropoutInAnEpilogueSharesRandomWords) {
  Kernels kernels;
  kernels.target = llvm::cantFail(CpuMachine::named("skylake-avx512"));
  Case c{28, 128, 64};
  MatmulSpec spec = specOf(kernels, c);
  spec.epilogue = [&](OpBuilder &b, Location loc, EpilogueTile &tile) {
    KernelBuilder kb(b, *kernels.module, kernels.target.lanes);
    Value column = kb.toI64(tile.column);
    DropoutKey key =
        dropoutKey(b, loc, tile.arguments.rng, tile.arguments.layer, 1, 0.2, 1);
    SmallVector<Value> masks = dropoutKeepVectors(
        b, loc, key, tile.row, tile.column, kernels.target.lanes);
    Value part = kb.div(kb.rem(column, kb.i64(64)), 16);
    Value keep = masks[0];
    for (size_t i = 1; i < masks.size(); ++i)
      keep = kb.select(kb.equal(part, kb.i64(i)), masks[i], keep);
    vector::StoreOp::create(b, loc, kb.select(keep, tile.value, kb.splat(0.0)),
                            tile.buffers[2], ValueRange{tile.row, tile.column});
  };
  emitMatmul(kernels.builder, *kernels.module, "kernel", spec, kernels.target);
  std::string text = assemblyOf(kernels, "kernel");
  // Ten rounds of two products, each of even and odd lanes.
  EXPECT_EQ(StringRef(text).count("vpmuludq"), 40u);
}

TEST(Matmul, RoundsByTheInstructionForIt) {
  for (auto [cpu, has] : {std::pair{"skylake-avx512", false},
                          {"znver4", true},
                          {"sapphirerapids", true},
                          {"neoverse-n1", false},
                          {"neoverse-n2", true}}) {
    SCOPED_TRACE(cpu);
    Kernels kernels;
    kernels.target = llvm::cantFail(CpuMachine::named(cpu));
    Case c{28, 128, 64};
    c.bf16C = true;
    emitMatmul(kernels.builder, *kernels.module, "kernel", specOf(kernels, c),
               kernels.target);
    std::string text = assemblyOf(kernels, "kernel");
    EXPECT_EQ(StringRef(text).contains("vcvtneps2bf16") ||
                  StringRef(text).contains("bfcvtn"),
              has);
  }
}

TEST(Matmul, AKernelCallsNothing) {
  for (const char *cpu :
       {"native", "x86-64-v3", "skylake-avx512", "znver4", "sapphirerapids+amx",
        "apple-m1", "neoverse-n1", "neoverse-n2"}) {
    SCOPED_TRACE(cpu);
    Kernels kernels;
    kernels.target = llvm::cantFail(CpuMachine::named(cpu));
    Case plain{100, 100, 100}, mixed{100, 101, 100}, few{1, 96, 100};
    mixed.bf16B = mixed.bf16C = few.bf16A = few.bf16B = true;
    for (const Case *c : {&plain, &mixed, &few})
      emitMatmul(kernels.builder, *kernels.module, c->name(),
                 specOf(kernels, *c), kernels.target);
    ASSERT_TRUE(succeeded(
        lowerToLLVMDialect(*kernels.module, kernels.target.roundsToBf16)));
    llvm::LLVMContext context;
    auto code = translateToLLVM(*kernels.module, context);
    llvm::SmallString<0> object;
    llvm::raw_svector_ostream stream(object);
    llvm::cantFail(emitObject(*code, kernels.target, stream));
    EXPECT_EQ(llvm::cantFail(undefinedSymbols(
                  llvm::MemoryBufferRef(object.str(), "kernels.o"))),
              std::vector<std::string>());
  }
}

// Code uses nothing that the runtime does not ask the processor for.
TEST(CpuMachine, AsksForAllThatItsCodeUses) {
  auto named = [](const char *cpu) {
    return llvm::cantFail(CpuMachine::named(cpu));
  };
  EXPECT_EQ(named("x86-64-v3").requirements(),
            "popcnt,lzcnt,bmi,bmi2,movbe,f16c,fma,avx2");
  EXPECT_NE(named("diamondrapids").features.find("-egpr"), std::string::npos);
  EXPECT_NE(named("bdver4").features.find("-fma4"), std::string::npos);
  EXPECT_EQ(named("neoverse-v2").requirements(), "dotprod,bf16");
  EXPECT_EQ(named("neoverse-v2").features, "+dotprod,+bf16");
  EXPECT_EQ(named("neoverse-n1").requirements(), "dotprod");
  EXPECT_EQ(named("cortex-a72").requirements(), "");
  EXPECT_EQ(named("apple-m1").requirements(), "");
  EXPECT_EQ(named("neoverse-v2").codeCpu(), "generic");
}

// By features: AVX512-BF16 of Intel's cores, which have AVX512-FP16 besides, is
// slower than f32.
TEST(CpuMachine, ChoosesPairsOfBf16ByFeatures) {
  auto pairs = [](const char *cpu) {
    return llvm::cantFail(CpuMachine::named(cpu)).bf16Pairs;
  };
  EXPECT_TRUE(pairs("znver4"));
  EXPECT_TRUE(pairs("znver5"));
  EXPECT_FALSE(pairs("sapphirerapids"));
  EXPECT_FALSE(pairs("x86-64-v4"));
  EXPECT_FALSE(pairs("x86-64-v3"));
  EXPECT_TRUE(pairs("neoverse-n2"));
  EXPECT_FALSE(pairs("neoverse-n1"));
  // The runtime asks Linux alone for it.
  EXPECT_FALSE(pairs("apple-m2"));
}

TEST(CpuMachine, RejectsCpusWithoutFusedMultiplyAdd) {
  auto old = CpuMachine::named("core2");
  ASSERT_FALSE(old);
  EXPECT_EQ(llvm::toString(old.takeError()),
            "the CPU 'core2' has no fused multiply-add on vectors (AVX2 and "
            "FMA are the least that is supported on x86: x86-64-v3 has them)");
  auto unknown = CpuMachine::named("pentagon");
  ASSERT_FALSE(unknown);
  EXPECT_EQ(llvm::toString(unknown.takeError()),
            "unknown CPU 'pentagon'; name it as LLVM does, such as "
            "skylake-avx512, znver4 or haswell, or `native` for this "
            "machine's");
}
