//===- MatmulTest.cpp - matrix products against three loops ---------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/target/cpu/Matmul.h"
#include "compiler/target/cpu/VectorHelpers.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "tests/unit/kernels/KernelTest.h"
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
  int packA = -1, packB = -1;
  int64_t depth = 0, rowBlock = 0, columnBlock = 0;
  bool bias = false;

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
  auto type = [&](int64_t rows, int64_t columns, int64_t gap) {
    SmallVector<int64_t> shape(c.batch.begin(), c.batch.end());
    shape.append({rows, columns});
    SmallVector<int64_t> strides(shape.size(), 1);
    for (int64_t i = shape.size() - 2; i >= 0; --i)
      strides[i] = strides[i + 1] *
                   (shape[i + 1] + (i + 2 == (int64_t)shape.size() ? gap : 0));
    return MemRefType::get(
        shape, f32, StridedLayoutAttr::get(&kernels.context, 0, strides));
  };
  spec.a = c.transposeA ? type(c.k, c.m, 0) : type(c.m, c.k, 0);
  spec.b = c.transposeB ? type(c.n, c.k, 0) : type(c.k, c.n, c.gap);
  spec.c = type(c.m, c.n, c.gap);
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
    plan.depth = c.depth;
  if (c.rowBlock)
    plan.rowBlock = std::min(c.rowBlock, plan.rowPanels);
  if (c.columnBlock)
    plan.columnBlock = std::min(c.columnBlock, plan.columnPanels);
  return plan;
}

/// Emits all cases into one module, compiles it once, and compares each with
/// f64 loops, and with itself on other numbers of threads.
void checkOn(StringRef cpu, const std::vector<Case> &cases) {
  SCOPED_TRACE(cpu.str());
  Kernels kernels(cpu);
  std::vector<int64_t> scratch;
  for (const Case &c : cases) {
    MatmulSpec spec = specOf(kernels, c);
    Kernel kernel = emitMatmul(kernels.builder, *kernels.module, c.name(), spec,
                               kernels.target, planOf(c, spec, kernels.target));
    ASSERT_TRUE(kernel.func);
    scratch.push_back(kernel.scratchBytes);
  }
  kernels.compile();
  std::mt19937 random(7);
  for (size_t i = 0; i < cases.size(); ++i) {
    const Case &c = cases[i];
    SCOPED_TRACE("m " + std::to_string(c.m) + " n " + std::to_string(c.n) +
                 " k " + std::to_string(c.k) + (c.transposeA ? " At" : "") +
                 (c.transposeB ? " Bt" : "") + " pack " +
                 std::to_string(c.packA) + std::to_string(c.packB));
    int64_t batches = 1;
    for (int64_t size : c.batch)
      batches *= size;
    int64_t bRow = c.transposeB ? c.k : c.n + c.gap;
    int64_t bSize = c.transposeB ? c.n * c.k : c.k * bRow;
    int64_t cRow = c.n + c.gap, cSize = c.m * cRow;
    Buffer a(batches * c.m * c.k), b(batches * bSize), start(batches * cSize),
        bias(c.n);
    for (Buffer *buffer : {&a, &b, &start, &bias})
      buffer->randomize(random);
    std::vector<Buffer> results;
    for (int64_t threads : {1, 2, 3, 8}) {
      Buffer out = Buffer(start.size());
      std::copy(start.data(), start.data() + start.size(), out.data());
      std::vector<Buffer *> buffers{&a, &b};
      if (c.bias)
        buffers.push_back(&bias);
      buffers.push_back(&out);
      kernels.run(c.name(), buffers, scratch[i], threads);
      results.push_back(std::move(out));
    }
    for (size_t t = 1; t < results.size(); ++t)
      ASSERT_EQ(
          std::memcmp(results[0].data(), results[t].data(), 4 * start.size()),
          0)
          << "other bits with other threads";
    for (int64_t batch = 0; batch < batches; ++batch)
      for (int64_t row = 0; row < c.m; ++row)
        for (int64_t column = 0; column < cRow; ++column) {
          int64_t at = batch * cSize + row * cRow + column;
          if (column >= c.n) {
            ASSERT_EQ(results[0][at], start[at]) << "wrote past a row";
            continue;
          }
          double sum = 0.0, size = 0.0;
          for (int64_t k = 0; k < c.k; ++k) {
            double x = a[batch * c.m * c.k +
                         (c.transposeA ? k * c.m + row : row * c.k + k)];
            double y = b[batch * bSize + (c.transposeB ? column * bRow + k
                                                       : k * bRow + column)];
            sum += x * y;
            size += std::fabs(x * y);
          }
          if (c.bias)
            sum += bias[column];
          // A sum of k rounded terms in f32: each addition rounds once.
          double bound = (std::sqrt((double)c.k) + 4) * 6e-8 * (size + 1);
          ASSERT_NEAR(results[0][at], sum, bound)
              << "batch " << batch << " row " << row << " column " << column;
        }
  }
}

void check(const std::vector<Case> &cases) {
  for (StringRef cpu : runnableCpus())
    checkOn(cpu, cases);
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
  check(cases);
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

TEST(Matmul, ThePlansOfRealShapes) {
  // Addition, Shakespeare, GPT-2: forward, weight gradient, input gradient.
  check({{1152, 64, 64},
         {9, 192, 64},
         {768, 65, 128},
         {128, 512, 768, true},
         {768, 128, 512, false, true},
         {64, 257, 768, false, true},
         {300, 64, 1100, true},
         {64, 768, 3072}});
}

namespace {

/// The assembly of the module, between the labels of function `name` and the
/// next one.
std::string assemblyOf(Kernels &kernels, StringRef name) {
  EXPECT_TRUE(succeeded(lowerToLLVMDialect(*kernels.module)));
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
    to = all.find("-- End function", from);
  return all.slice(from, to).str();
}

void checkRegisterTile(StringRef cpu, int64_t rows, int64_t columns) {
  SCOPED_TRACE(cpu.str());
  for (bool transposed : {false, true}) {
    Kernels kernels;
    kernels.target = llvm::cantFail(CpuMachine::named(cpu));
    EXPECT_EQ(kernels.target.tileRows(), rows);
    EXPECT_EQ(kernels.target.tileVectors() * kernels.target.lanes, columns);
    Case c{rows * 4, columns * 4, 64};
    c.transposeA = transposed;
    MatmulSpec spec = specOf(kernels, c);
    // Every plan for NEON packs a row-major A.
    if (!transposed && kernels.target.lanes == 4) {
      EXPECT_TRUE(planMatmul(spec, kernels.target).packA);
      continue;
    }
    c.packA = 0;
    emitMatmul(kernels.builder, *kernels.module, "kernel", spec, kernels.target,
               planOf(c, spec, kernels.target));
    std::string text =
        assemblyOf(kernels, "tfm.micro." + std::to_string(rows) + "x" +
                                std::to_string(kernels.target.tileVectors()) +
                                (transposed ? ".columns" : ".rows"));
    // Between the first and the last multiply-add nothing may touch the stack,
    // except for the general registers of x86.
    SmallVector<StringRef> lines;
    StringRef(text).split(lines, '\n');
    auto isStep = [](StringRef line) {
      return line.contains("vfmadd") || line.contains("fmla");
    };
    auto first = llvm::find_if(lines, isStep);
    auto last = std::find_if(lines.rbegin(), lines.rend(), isStep).base();
    ASSERT_NE(first, lines.end());
    for (StringRef line : llvm::make_range(first, last))
      EXPECT_FALSE(line.contains("[sp") ||
                   (line.contains("(%rsp") && line.contains("mm")))
          << line.str();
    EXPECT_EQ(text.find("call"), std::string::npos);
    int64_t steps = std::count_if(lines.begin(), lines.end(), isStep);
    // Unrolled steps and the rest.
    int64_t tile = rows * kernels.target.tileVectors();
    EXPECT_EQ(steps, tile * (transposed && kernels.target.lanes > 4 ? 3 : 1))
        << text;
  }
}

} // namespace

// The accumulators of the tile live in registers, on every kind of CPU.
TEST(Matmul, RegisterTilesDoNotSpill) {
  checkRegisterTile("skylake-avx512", 14, 32);
  checkRegisterTile("znver4", 14, 32);
  checkRegisterTile("x86-64-v3", 6, 16);
  checkRegisterTile("apple-m1", 8, 12);
  checkRegisterTile("neoverse-n1", 8, 12);
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
    SmallVector<Value> masks =
        dropoutKeep64(b, loc, key, tile.row, kb.toIndex(kb.div(column, 64)),
                      kernels.target.lanes);
    Value part = kb.div(kb.rem(column, kb.i64(64)), kernels.target.lanes);
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

TEST(Matmul, AKernelCallsNothing) {
  Kernels kernels;
  Case c{100, 100, 100};
  MatmulSpec spec = specOf(kernels, c);
  emitMatmul(kernels.builder, *kernels.module, "kernel", spec, kernels.target);
  ASSERT_TRUE(succeeded(lowerToLLVMDialect(*kernels.module)));
  llvm::LLVMContext context;
  auto code = translateToLLVM(*kernels.module, context);
  llvm::SmallString<0> object;
  llvm::raw_svector_ostream stream(object);
  llvm::cantFail(emitObject(*code, kernels.target, stream));
  EXPECT_EQ(llvm::cantFail(undefinedSymbols(
                llvm::MemoryBufferRef(object.str(), "kernels.o"))),
            std::vector<std::string>());
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
  EXPECT_EQ(named("neoverse-v2").requirements(), "");
  EXPECT_EQ(named("neoverse-v2").codeCpu(), "generic");
}

TEST(CpuMachine, RejectsCpusWithoutFusedMultiplyAdd) {
  auto old = CpuMachine::named("core2");
  ASSERT_FALSE(old);
  EXPECT_NE(llvm::toString(old.takeError()).find("no fused multiply-add"),
            std::string::npos);
  auto unknown = CpuMachine::named("pentagon");
  ASSERT_FALSE(unknown);
  EXPECT_EQ(llvm::toString(unknown.takeError()),
            "unknown CPU 'pentagon'; name it as LLVM does, such as "
            "skylake-avx512, znver4 or haswell, or `native` for this "
            "machine's");
}
