//===- GroupedTest.cpp - products with weights of 4 bits ------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Activations, scales and minima here are small multiples of powers of two, so
// that every sum is exact in f32 in whatever order it is made: every element
// has one right value, however a product is computed.
//
//===----------------------------------------------------------------------===//

#include "compiler/target/cpu/Matmul.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "runtime/support/float16.h"
#include "runtime/tfm_model.h"
#include "tests/unit/kernels/KernelTest.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/MathExtras.h"
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
    return "grouped" + std::to_string(reinterpret_cast<uintptr_t>(this));
  }
  int64_t batches() const {
    int64_t count = 1;
    for (int64_t size : batch)
      count *= size;
    return count;
  }
  int64_t groups() const {
    return static_cast<int64_t>(llvm::divideCeil(k, TFM_GROUP_TERMS));
  }
};

/// [batch..., m, k] by [batch..., n, k] in groups.
MatmulSpec specOf(Kernels &kernels, const Shape &shape, Type a) {
  OpBuilder &b = kernels.builder;
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
  spec.transposeB = true;
  spec.accumulator = b.getF32Type();
  spec.a = type(shape.m, shape.k, a);
  spec.b = type(shape.n, shape.groups() * TFM_GROUP_BYTES, b.getI8Type());
  spec.scale = type(shape.n, shape.groups(), b.getBF16Type());
  spec.minimum = spec.scale;
  spec.c = type(shape.m, shape.n, b.getF32Type());
  return spec;
}

/// Whole words, behind which everything is NaN.
template <typename T> Buffer inMemory(const std::vector<T> &values) {
  auto bytes = static_cast<int64_t>(values.size() * sizeof(T));
  Buffer memory((bytes + 3) / 4, NAN);
  std::memcpy(memory.data(), values.data(), bytes);
  return memory;
}

/// Weights, and the numbers that they stand for, [batches, n, k].
struct Weights {
  std::vector<uint8_t> bytes;
  std::vector<uint16_t> scales, minima;
  std::vector<float> numbers;

  Weights(const Shape &shape, std::mt19937 &random) {
    int64_t rows = shape.batches() * shape.n, groups = shape.groups();
    for (int64_t i = 0; i < rows * groups; ++i) {
      constexpr float some[] = {0.0f, 0.25f, 0.5f, 1.0f};
      scales.push_back(toBFloat16(some[random() % 4]));
      minima.push_back(
          toBFloat16(0.25f * (static_cast<float>(random() % 33) - 24.0f)));
    }
    for (int64_t i = 0; i < rows * groups * TFM_GROUP_BYTES; ++i)
      bytes.push_back(static_cast<uint8_t>(random()));
    for (int64_t row = 0; row < rows; ++row)
      for (int64_t k = 0; k < shape.k; ++k) {
        int64_t group = row * groups + k / 32;
        uint8_t both = bytes[group * 16 + k % 16];
        int integer = k % 32 < 16 ? both & 15 : both >> 4;
        numbers.push_back(fromBFloat16(minima[group]) +
                          fromBFloat16(scales[group]) *
                              static_cast<float>(integer));
      }
  }
};

const std::vector<Shape> &shapes() {
  // Few rows and many, edges of tiles and vectors, last groups of one term and
  // of 31, whole ones, several lines and several blocks of depth, batches.
  static const std::vector<Shape> all = {
      {1, 1, 1},           {1, 16, 32},   {1, 33, 31},     {1, 64, 768},
      {1, 17, 33},         {2, 50, 67},   {3, 7, 128},     {4, 19, 160},
      {5, 33, 4100},       {8, 40, 65},   {9, 31, 100},    {13, 34, 352},
      {14, 32, 256},       {28, 20, 97},  {29, 65, 63},    {64, 96, 256},
      {57, 34, 2500},      {100, 3, 130}, {2, 9, 5, {3}},  {31, 20, 68, {2}},
      {1, 19, 70, {2, 2}}, {33, 1, 40},   {40, 100, 1111},
  };
  return all;
}

/// Every element of every shape, with A of type `element` as `T` has it; on a
/// machine with so many bytes of second-level cache, where that is not 0.
template <typename T>
void expectExact(StringRef cpu, Type (*element)(OpBuilder &),
                 int64_t l2Bytes = 0) {
  Kernels kernels(cpu);
  if (l2Bytes > 0)
    kernels.target.l2Bytes = l2Bytes;
  std::vector<int64_t> scratch;
  for (const Shape &shape : shapes()) {
    Kernel kernel = emitMatmul(kernels.builder, *kernels.module, shape.name(),
                               specOf(kernels, shape, element(kernels.builder)),
                               kernels.target);
    ASSERT_TRUE(kernel.func);
    scratch.push_back(kernel.scratchBytes);
  }
  kernels.compile();
  std::mt19937 random(5);
  for (auto [number, shape] : llvm::enumerate(shapes())) {
    SCOPED_TRACE(std::to_string(shape.m) + " " + std::to_string(shape.n) + " " +
                 std::to_string(shape.k));
    Weights weights(shape, random);
    std::vector<T> a;
    for (int64_t i = 0; i < shape.batches() * shape.m * shape.k; ++i)
      a.push_back(static_cast<T>(static_cast<int>(random() % 17) - 8));
    Buffer aMemory = inMemory(a), bytes = inMemory(weights.bytes),
           scales = inMemory(weights.scales), minima = inMemory(weights.minima);
    for (int64_t threads : {1, 3}) {
      Buffer out(shape.batches() * shape.m * shape.n, NAN);
      kernels.run(shape.name(), {&aMemory, &bytes, &scales, &minima, &out},
                  scratch[number], threads);
      for (int64_t at = 0; at < out.size(); ++at) {
        int64_t batch = at / (shape.m * shape.n), row = at / shape.n % shape.m,
                column = at % shape.n;
        float sum = 0;
        for (int64_t k = 0; k < shape.k; ++k)
          sum += static_cast<float>(a[(batch * shape.m + row) * shape.k + k]) *
                 weights.numbers[(batch * shape.n + column) * shape.k + k];
        ASSERT_EQ(out[at], sum) << "row " << row << ", column " << column
                                << ", threads " << threads;
      }
    }
  }
}

TEST(Grouped, WeightsBesideFloatsAreExact) {
  for (StringRef cpu : runnableCpus()) {
    SCOPED_TRACE(cpu.str());
    expectExact<float>(cpu,
                       [](OpBuilder &b) -> Type { return b.getF32Type(); });
  }
}

// Also where no instruction multiplies them: they become floats.
TEST(Grouped, WeightsBesideIntegersAreExact) {
  for (StringRef cpu : runnableCpus()) {
    SCOPED_TRACE(cpu.str());
    expectExact<int8_t>(cpu,
                        [](OpBuilder &b) -> Type { return b.getI8Type(); });
  }
}

// Rows and their sums do not fit into a small cache together.
TEST(Grouped, BlocksOfRowsAreExact) {
  expectExact<int8_t>(
      "native", [](OpBuilder &b) -> Type { return b.getI8Type(); }, 32 << 10);
}

// A token gets the same bits alone and beside others, up to two register
// tiles, and again beside any number of more; and however rows of B are read.
TEST(Grouped, BitsDoNotDependOnTheNumberOfRows) {
  for (auto [integers, many] :
       {std::pair(false, false), {true, false}, {true, true}}) {
    std::vector<float> first;
    for (bool foresees : {false, true}) {
      Kernels kernels;
      kernels.target.foreseesRows = foresees;
      if (integers && !kernels.target.multipliesIntegers())
        continue;
      Type element = integers ? Type(kernels.builder.getI8Type())
                              : Type(kernels.builder.getF32Type());
      constexpr int64_t n = 37, k = 333;
      std::vector<Shape> all;
      int64_t few = 2 * kernels.target.tileRows();
      for (int64_t m = 1; m <= few; ++m)
        all.push_back({many ? few + m : m, n, k});
      std::vector<int64_t> scratch;
      for (const Shape &shape : all) {
        Kernel kernel =
            emitMatmul(kernels.builder, *kernels.module, shape.name(),
                       specOf(kernels, shape, element), kernels.target);
        ASSERT_TRUE(kernel.func);
        scratch.push_back(kernel.scratchBytes);
      }
      kernels.compile();
      std::mt19937 random(6);
      Weights weights(all.back(), random);
      std::uniform_real_distribution<float> uniform(-1, 1);
      for (uint16_t &scale : weights.scales)
        scale = toBFloat16(std::abs(uniform(random)));
      Buffer bytes = inMemory(weights.bytes), scales = inMemory(weights.scales),
             minima = inMemory(weights.minima);
      std::vector<float> floats;
      std::vector<int8_t> bytesOfA;
      for (int64_t i = 0; i < all.back().m * k; ++i) {
        floats.push_back(uniform(random));
        bytesOfA.push_back(static_cast<int8_t>(random()));
      }
      Buffer a = integers ? inMemory(bytesOfA) : inMemory(floats);
      for (auto [number, shape] : llvm::enumerate(all)) {
        Buffer out(shape.m * n, NAN);
        kernels.run(shape.name(), {&a, &bytes, &scales, &minima, &out},
                    scratch[number], 2);
        for (int64_t i = 0; i < out.size(); ++i) {
          if (i < static_cast<int64_t>(first.size()))
            ASSERT_EQ(out[i], first[i]) << shape.m << " rows";
          else
            first.push_back(out[i]);
        }
      }
    }
  }
}

std::string assemblyOf(const Shape &shape, StringRef cpu) {
  // Of a processor that this one need not be.
  Kernels kernels;
  kernels.target = llvm::cantFail(CpuMachine::named(cpu));
  emitMatmul(kernels.builder, *kernels.module, "product",
             specOf(kernels, shape, kernels.builder.getI8Type()),
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

// Nothing is spilled in a function that multiplies, of any tile: of few rows
// two instructions for every vector of each row of B and row of A, of many
// eight for each row of A and vector of columns.
void expectSumsInRegisters(StringRef cpu, StringRef instruction, int64_t rows) {
  SCOPED_TRACE(cpu.str() + ", rows: " + std::to_string(rows));
  std::string assembly = assemblyOf({rows, 250, 768}, cpu);
  bool isInPanels = rows == 256;
  SmallVector<StringRef> functions;
  StringRef(assembly).split(functions,
                            isInPanels ? "\ntfm.micro." : "\ntfm.dot.");
  EXPECT_GE(functions.size(), 2u);
  for (StringRef function : llvm::drop_begin(functions)) {
    function = function.slice(0, function.find(".size"));
    EXPECT_GE(function.count(instruction), isInPanels ? 6u : 4u);
    SmallVector<StringRef> lines;
    function.split(lines, '\n');
    for (StringRef line : lines)
      EXPECT_FALSE((line.contains("(%rsp") && line.contains("mm")) ||
                   (line.contains("[sp") && line.contains("\tq")))
          << lines.front().str() << line.str();
  }
}

TEST(Grouped, SumsOfIntegersStayInRegisters) {
  for (auto [cpu, instruction] :
       {std::pair<StringRef, StringRef>("znver4", "vpdpbusd"),
        {"znver5", "vpdpbusd"},
        {"sapphirerapids", "vpdpbusd"},
        {"alderlake", "vpdpbusd"},
        {"znver3", "vpmaddubsw"},
        {"x86-64-v3", "vpmaddubsw"}})
    for (int64_t rows : {1, 2, 3, 8, 256})
      expectSumsInRegisters(cpu, instruction, rows);
  expectSumsInRegisters("neoverse-n1", "sdot", 256);
}

} // namespace
