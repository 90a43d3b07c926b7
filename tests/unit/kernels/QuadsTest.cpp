//===- QuadsTest.cpp - products of integers of 8 bits ---------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Sums of integers are exact, so every element has one right value, however a
// product is computed. Integers of weights beside floats are exact as floats.
//
//===----------------------------------------------------------------------===//

#include "compiler/target/cpu/Matmul.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "runtime/model/quantise.h"
#include "tests/unit/kernels/KernelTest.h"
#include "tests/unit/kernels/Tiles.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"
#include <algorithm>
#include <cmath>
#include <cstring>

using namespace mlir;
using namespace tfm;
using namespace tfm::test;

namespace {

struct Shape {
  int64_t m, n, k;
  std::vector<int64_t> batch = {};

  std::string name() const {
    return "quads" + std::to_string(reinterpret_cast<uintptr_t>(this));
  }
};

/// How the weights lie.
enum class Order { Rows, Panels };

/// [batch..., m, k] by [batch..., n, k], as weights are stored.
MatmulSpec specOf(Kernels &kernels, const Shape &shape, Type a, Type sums,
                  Order order = Order::Rows) {
  auto type = [&](int64_t rows, int64_t columns, Type element) {
    SmallVector<int64_t> all(shape.batch.begin(), shape.batch.end());
    all.append({rows, columns});
    return MemRefType::get(all, element);
  };
  MatmulSpec spec;
  spec.batch.assign(shape.batch.begin(), shape.batch.end());
  spec.m = shape.m;
  spec.n = shape.n;
  spec.k = shape.k;
  spec.transposeA = false;
  spec.transposeB = true;
  spec.accumulator = sums;
  spec.a = type(shape.m, shape.k, a);
  spec.b = type(shape.n, shape.k, kernels.builder.getI8Type());
  spec.c = type(shape.m, shape.n, sums);
  if (order == Order::Panels) {
    spec.inPanels = true;
    int64_t width = kernels.target.lanes * kernels.target.tileVectors();
    SmallVector<int64_t> all(shape.batch.begin(), shape.batch.end());
    all.append({(shape.n + width - 1) / width, (shape.k + 3) / 4, width, 4});
    spec.b = MemRefType::get(all, kernels.builder.getI8Type());
  }
  return spec;
}

/// The weights of all batches, [n, k] each, in panels.
std::vector<int8_t> inPanels(const std::vector<int8_t> &rows,
                             const Shape &shape, size_t width) {
  int64_t sizes[] = {static_cast<int64_t>(rows.size()) / shape.n / shape.k,
                     shape.n, shape.k};
  Panels panels(OutputRows(sizes, 1), width);
  // What stands where no weight is must not matter.
  std::vector<uint8_t> bytes(panels.bytes(), 0x93);
  panels.store(rows, 0, 0, static_cast<size_t>(shape.k), bytes);
  return {bytes.begin(), bytes.end()};
}

std::vector<int8_t> randomIntegers(int64_t count, std::mt19937 &random) {
  std::uniform_int_distribution<int> all(-128, 127);
  std::vector<int8_t> values(count);
  for (int8_t &value : values)
    value = static_cast<int8_t>(all(random));
  return values;
}

/// Whole words, with integers behind the last that nobody may read into a sum.
Buffer inMemory(const std::vector<int8_t> &values) {
  Buffer memory((static_cast<int64_t>(values.size()) + 3) / 4, NAN);
  std::memcpy(memory.data(), values.data(), values.size());
  return memory;
}

const std::vector<Shape> &shapes() {
  // Few rows and many, edges of tiles and vectors, terms that fill no quad and
  // no vector, several blocks of depth, batches.
  static const std::vector<Shape> all = {
      {1, 1, 1},
      {1, 16, 64},
      {1, 33, 3},
      {1, 768, 768},
      {2, 50, 67},
      {3, 7, 128},
      {8, 40, 65},
      {9, 31, 100},
      {14, 32, 256},
      {29, 65, 63},
      {64, 96, 768},
      {57, 34, 5000},
      {100, 3, 130},
      {2, 9, 5, {3}},
      {31, 20, 68, {2}},
      {1, 19, 70, {2, 2}},
      {33, 1, 40},
      {40, 512, 4096},
      {1, 17, 8200},
      // Where tiles are full along k: a tile, two, and panels of both.
      {4, 33, 64},
      {16, 20, 128},
      {17, 64, 192},
      {70, 50, 320, {2}},
      {48, 96, 1600},
      {140, 70, 1600},
  };
  return all;
}

/// In i32, by the instructions of a processor for them and, where they are
/// `inTiles`, by AMX, with so large a second-level cache where that is not 0.
void testSums(StringRef cpu, Order order, bool inTiles = false,
              int64_t l2Bytes = 0) {
  SCOPED_TRACE(cpu.str());
  Kernels kernels(cpu);
  kernels.target.int8Tiles = inTiles;
  if (l2Bytes > 0)
    kernels.target.l2Bytes = l2Bytes;
  std::vector<int64_t> scratch;
  Type i8 = kernels.builder.getI8Type(), i32 = kernels.builder.getI32Type();
  for (const Shape &shape : shapes()) {
    Kernel kernel =
        emitMatmul(kernels.builder, *kernels.module, shape.name(),
                   specOf(kernels, shape, i8, i32, order), kernels.target);
    ASSERT_TRUE(kernel.func);
    scratch.push_back(kernel.scratchBytes);
  }
  if (inTiles)
    emulateTiles(*kernels.module);
  kernels.compile();
  auto width =
      static_cast<size_t>(kernels.target.lanes * kernels.target.tileVectors());
  std::mt19937 random(3);
  for (auto [number, shape] : llvm::enumerate(shapes())) {
    SCOPED_TRACE(std::to_string(shape.m) + " " + std::to_string(shape.n) + " " +
                 std::to_string(shape.k));
    int64_t batches = 1;
    for (int64_t size : shape.batch)
      batches *= size;
    auto a = randomIntegers(batches * shape.m * shape.k, random),
         b = randomIntegers(batches * shape.n * shape.k, random);
    // Two products of the largest must fit in 16 bits: as activations do.
    if (kernels.target.int8Pairs)
      std::replace(a.begin(), a.end(), int8_t{-128}, int8_t{-127});
    Buffer aMemory = inMemory(a),
           bMemory =
               inMemory(order == Order::Rows ? b : inPanels(b, shape, width));
    for (int64_t threads : {1, 2, 5}) {
      Buffer out(batches * shape.m * shape.n, NAN);
      kernels.run(shape.name(), {&aMemory, &bMemory, &out}, scratch[number],
                  threads);
      for (int64_t at = 0; at < out.size(); ++at) {
        int64_t batch = at / (shape.m * shape.n), row = at / shape.n % shape.m,
                column = at % shape.n;
        int32_t sum = 0, found;
        for (int64_t k = 0; k < shape.k; ++k)
          sum += a[(batch * shape.m + row) * shape.k + k] *
                 b[(batch * shape.n + column) * shape.k + k];
        std::memcpy(&found, out.data() + at, sizeof found);
        ASSERT_EQ(found, sum) << "row " << row << ", column " << column
                              << ", threads " << threads;
      }
    }
  }
}

/// In every way that this processor can multiply integers, VNNI and pairs.
void testSums(Order order) {
  for (StringRef cpu : runnableCpus())
    if (llvm::cantFail(CpuMachine::named(cpu)).multipliesIntegers())
      testSums(cpu, order);
}

TEST(Quads, SumsOfIntegersAreExact) { testSums(Order::Rows); }
TEST(Quads, SumsOfPanelsAreExact) { testSums(Order::Panels); }
TEST(Quads, SumsInTilesAreExact) {
  CpuMachine native = llvm::cantFail(CpuMachine::native());
  if (!native.int8Quads || native.lanes != 16)
    // Compiled for others below; tiles are emulated, not what is beside them.
    GTEST_SKIP() << "this processor has no AVX512-VNNI";
  testSums("native", Order::Panels, /*inTiles=*/true);
  // Several blocks of rows, of a panel each and of two.
  for (int64_t l2Bytes : {16 << 10, 140 << 10})
    testSums("native", Order::Panels, /*inTiles=*/true, l2Bytes);
}

// Sums of the largest, of any sign, are those that pairs must not saturate.
TEST(Quads, SumsOfTheLargestAreExact) {
  for (StringRef cpu : runnableCpus()) {
    SCOPED_TRACE(cpu.str());
    Kernels kernels(cpu);
    if (!kernels.target.multipliesIntegers())
      continue;
    const Shape shape = {7, 40, 256};
    Kernel kernel =
        emitMatmul(kernels.builder, *kernels.module, "largest",
                   specOf(kernels, shape, kernels.builder.getI8Type(),
                          kernels.builder.getI32Type()),
                   kernels.target);
    ASSERT_TRUE(kernel.func);
    kernels.compile();
    for (int a : {-127, 127})
      for (int b : {-128, -127, 127}) {
        std::vector<int8_t> allA(shape.m * shape.k, static_cast<int8_t>(a)),
            allB(shape.n * shape.k, static_cast<int8_t>(b));
        Buffer aMemory = inMemory(allA), bMemory = inMemory(allB),
               out(shape.m * shape.n, NAN);
        kernels.run("largest", {&aMemory, &bMemory, &out}, kernel.scratchBytes,
                    1);
        for (int64_t at = 0; at < out.size(); ++at) {
          int32_t found;
          std::memcpy(&found, out.data() + at, sizeof found);
          ASSERT_EQ(found, a * b * shape.k);
        }
      }
  }
}

// What an epilogue gets are numbers of i32, in every tile.
TEST(Quads, EpiloguesGetIntegers) {
  const std::vector<Shape> all = {{1, 17, 64},  {3, 40, 5},    {8, 40, 65},
                                  {29, 65, 63}, {140, 70, 96}, {57, 34, 5000}};
  for (StringRef cpu : runnableCpus()) {
    SCOPED_TRACE(cpu.str());
    Kernels kernels(cpu);
    if (!kernels.target.multipliesIntegers())
      continue;
    Type i8 = kernels.builder.getI8Type(), i32 = kernels.builder.getI32Type();
    std::vector<int64_t> scratch;
    for (const Shape &shape : all) {
      MatmulSpec spec = specOf(kernels, shape, i8, i32, Order::Panels);
      spec.c = {};
      spec.writes.push_back(
          MemRefType::get({shape.m, shape.n}, kernels.builder.getF32Type()));
      spec.epilogue = [](OpBuilder &b, Location loc, EpilogueTile &tile) {
        auto sums = cast<VectorType>(tile.value.getType());
        Value x = arith::SIToFPOp::create(b, loc, sums.clone(b.getF32Type()),
                                          tile.value);
        Value out = tile.buffers[2];
        if (tile.mask)
          vector::MaskedStoreOp::create(b, loc, out, {tile.row, tile.column},
                                        tile.mask, x);
        else
          vector::StoreOp::create(b, loc, x, out, {tile.row, tile.column});
      };
      Kernel kernel = emitMatmul(kernels.builder, *kernels.module, shape.name(),
                                 spec, kernels.target);
      ASSERT_TRUE(kernel.func);
      scratch.push_back(kernel.scratchBytes);
    }
    kernels.compile();
    std::mt19937 random(5);
    auto width = static_cast<size_t>(kernels.target.lanes *
                                     kernels.target.tileVectors());
    for (auto [number, shape] : llvm::enumerate(all)) {
      auto a = randomIntegers(shape.m * shape.k, random),
           b = randomIntegers(shape.n * shape.k, random);
      std::replace(a.begin(), a.end(), int8_t{-128}, int8_t{-127});
      Buffer aMemory = inMemory(a),
             bMemory = inMemory(inPanels(b, shape, width)),
             out(shape.m * shape.n, NAN);
      kernels.run(shape.name(), {&aMemory, &bMemory, &out}, scratch[number], 2);
      for (int64_t at = 0; at < out.size(); ++at) {
        int32_t sum = 0;
        for (int64_t k = 0; k < shape.k; ++k)
          sum += a[at / shape.n * shape.k + k] * b[at % shape.n * shape.k + k];
        ASSERT_EQ(out.data()[at], static_cast<float>(sum))
            << shape.m << " " << shape.n << " " << shape.k << ", element "
            << at;
      }
    }
  }
}

// Small integers on both sides: their sums are exact in f32, too.
TEST(Quads, IntegersBesideFloatsAreFloats) {
  for (StringRef cpu : runnableCpus()) {
    SCOPED_TRACE(cpu.str());
    Kernels kernels(cpu);
    std::vector<int64_t> scratch;
    Type f32 = kernels.builder.getF32Type();
    for (const Shape &shape : shapes()) {
      Kernel kernel =
          emitMatmul(kernels.builder, *kernels.module, shape.name(),
                     specOf(kernels, shape, f32, f32), kernels.target);
      ASSERT_TRUE(kernel.func);
      scratch.push_back(kernel.scratchBytes);
    }
    kernels.compile();
    std::mt19937 random(4);
    for (auto [number, shape] : llvm::enumerate(shapes())) {
      SCOPED_TRACE(std::to_string(shape.m) + " " + std::to_string(shape.n) +
                   " " + std::to_string(shape.k));
      int64_t batches = 1;
      for (int64_t size : shape.batch)
        batches *= size;
      auto b = randomIntegers(batches * shape.n * shape.k, random);
      Buffer bMemory = inMemory(b), a(batches * shape.m * shape.k);
      for (int64_t i = 0; i < a.size(); ++i)
        a[i] = static_cast<float>(static_cast<int>(random() % 17) - 8);
      for (int64_t threads : {1, 3}) {
        Buffer out(batches * shape.m * shape.n, NAN);
        kernels.run(shape.name(), {&a, &bMemory, &out}, scratch[number],
                    threads);
        for (int64_t at = 0; at < out.size(); ++at) {
          int64_t batch = at / (shape.m * shape.n),
                  row = at / shape.n % shape.m, column = at % shape.n;
          float sum = 0;
          for (int64_t k = 0; k < shape.k; ++k)
            sum +=
                a[(batch * shape.m + row) * shape.k + k] *
                static_cast<float>(b[(batch * shape.n + column) * shape.k + k]);
          ASSERT_EQ(out[at], sum) << "row " << row << ", column " << column;
        }
      }
    }
  }
}

/// Where the instruction is and where it is not, whatever this machine has.
TEST(Quads, AreOfProcessorsThatHaveThem) {
  auto has = [](StringRef cpu) {
    return llvm::cantFail(CpuMachine::named(cpu)).int8Quads;
  };
  auto hasPairs = [](StringRef cpu) {
    return llvm::cantFail(CpuMachine::named(cpu)).int8Pairs;
  };
  EXPECT_TRUE(has("znver4"));
  EXPECT_TRUE(has("znver5"));
  EXPECT_TRUE(has("icelake-server"));
  EXPECT_TRUE(has("sapphirerapids"));
  EXPECT_FALSE(has("x86-64-v4"));
  EXPECT_FALSE(has("x86-64-v3"));
  EXPECT_TRUE(has("alderlake"));
  EXPECT_TRUE(llvm::cantFail(CpuMachine::named("neoverse-n1")).int8SignedQuads);
  EXPECT_FALSE(llvm::cantFail(CpuMachine::named("cortex-a72")).int8SignedQuads);
  EXPECT_TRUE(hasPairs("x86-64-v3"));
  EXPECT_TRUE(hasPairs("znver3"));
  EXPECT_FALSE(hasPairs("x86-64-v4"));
  EXPECT_FALSE(hasPairs("alderlake"));
  EXPECT_TRUE(
      llvm::cantFail(CpuMachine::named("sapphirerapids+amx")).int8Tiles);
  EXPECT_FALSE(llvm::cantFail(CpuMachine::named("sapphirerapids")).int8Tiles);
}

std::string assemblyOf(const Shape &shape, StringRef cpu,
                       Order order = Order::Rows) {
  // Of a processor that this one need not be.
  Kernels kernels;
  kernels.target = llvm::cantFail(CpuMachine::named(cpu));
  emitMatmul(kernels.builder, *kernels.module, "product",
             specOf(kernels, shape, kernels.builder.getI8Type(),
                    kernels.builder.getI32Type(), order),
             kernels.target);
  EXPECT_TRUE(succeeded(
      lowerToLLVMDialect(*kernels.module, kernels.target.roundsToBf16)));
  llvm::LLVMContext context;
  auto code = translateToLLVM(*kernels.module, context);
  llvm::SmallString<0> text;
  llvm::raw_svector_ostream stream(text);
  llvm::cantFail(emitAssembly(*code, kernels.target, stream));
  return text.str().str();
}

/// Instructions that multiply quads, and nothing spilled between the first and
/// the last of a function.
void expectQuads(StringRef assembly, StringRef function, size_t least,
                 StringRef instruction = "vpdpbusd") {
  SCOPED_TRACE(function.str());
  size_t from = assembly.find(("\n" + function + ":").str());
  if (from == StringRef::npos)
    from = assembly.find(("\n\"" + function + "\":").str());
  ASSERT_NE(from, StringRef::npos);
  SmallVector<StringRef> lines;
  assembly.slice(from, assembly.find(".size", from)).split(lines, '\n');
  auto isStep = [&](StringRef line) { return line.contains(instruction); };
  EXPECT_GE(static_cast<size_t>(llvm::count_if(lines, isStep)), least);
  auto first = llvm::find_if(lines, isStep);
  auto last = std::find_if(lines.rbegin(), lines.rend(), isStep).base();
  ASSERT_NE(first, lines.end());
  for (StringRef line : llvm::make_range(first, last))
    EXPECT_FALSE(line.contains("[sp") ||
                 (line.contains("(%rsp") && line.contains("mm")))
        << line.str();
}

TEST(Quads, TheirInnerLoopsStayInRegisters) {
  for (StringRef cpu : {"znver4", "sapphirerapids"}) {
    SCOPED_TRACE(cpu.str());
    expectQuads(assemblyOf({140, 256, 768}, cpu),
                "tfm.micro.14x2.columns.quads.ahead2", 28);
    // Few tiles prefetch more at a time.
    expectQuads(assemblyOf({32, 256, 768}, cpu),
                "tfm.micro.8x2.columns.quads.ahead4", 16);
    // A row alone meets one output after the other where memory is read in
    // order.
    if (llvm::cantFail(CpuMachine::named(cpu)).readsInOrder)
      expectQuads(assemblyOf({1, 256, 768}, cpu), "tfm.dot.1x1.quads", 1);
    else
      expectQuads(assemblyOf({1, 256, 768}, cpu), "tfm.dot.1x4.quads", 4);
    // Threads share columns: the fewer tiles, the better.
    for (auto [rows, name, steps] :
         {std::tuple(1, "tfm.micro.1x2.rows.quads.ahead16", 2),
          {8, "tfm.micro.8x2.rows.quads.ahead16", 16},
          {32, "tfm.micro.11x2.columns.quads.ahead6", 22}})
      expectQuads(assemblyOf({rows, 256, 768}, cpu, Order::Panels), name,
                  steps);
  }
  for (auto [cpu, instruction] : {std::pair("alderlake", "vpdpbusd"),
                                  {"znver3", "vpmaddubsw"},
                                  {"x86-64-v3", "vpmaddubsw"},
                                  {"neoverse-n1", "sdot"}}) {
    SCOPED_TRACE(cpu);
    for (int64_t rows : {1, 8, 140}) {
      std::string assembly = assemblyOf({rows, 256, 768}, cpu, Order::Panels);
      SmallVector<StringRef> functions;
      StringRef(assembly).split(functions, "\ntfm.micro.");
      EXPECT_GE(functions.size(), 2u);
      for (StringRef function : llvm::drop_begin(functions))
        expectQuads("\ntfm.micro." + function.str(),
                    "tfm.micro." + function.split(':').first.str(),
                    rows == 1 ? 2 : 4, instruction);
    }
  }
  // Of the last panel of 40 rows there is one tile.
  for (auto [rows, steps] : {std::pair(8, 2), {32, 4}, {40, 6}, {256, 4}})
    expectQuads(
        assemblyOf({rows, 256, 768}, "sapphirerapids+amx", Order::Panels),
        "product", steps, "tdpbsud");
}

} // namespace
