//===- VectorHelpersTest.cpp - exp and dropout of vectors -----------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/target/emit/VectorHelpers.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "tests/unit/kernels/KernelTest.h"
#include "tests/unit/kernels/Philox.h"
#include <bit>
#include <cmath>
#include <cstring>

using namespace mlir;
using namespace tfm;
using namespace tfm::test;

namespace {

/// A result that is no number is the worst.
void raise(double &worst, double error) {
  worst = std::isnan(error) ? INFINITY : std::max(worst, std::fabs(error));
}

} // namespace

TEST(VectorHelpers, ExpIsAccurate) {
  Kernels kernels;
  OpBuilder &b = kernels.builder;
  constexpr int64_t size = 1 << 16;
  auto type = MemRefType::get({size}, b.getF32Type());
  {
    OpBuilder::InsertionGuard guard(b);
    KernelBuilder kb(b, *kernels.module, kernels.target.lanes);
    auto func = beginKernel(b, *kernels.module, "exp", {type, type}, 0);
    Value x = kb.pointer(func.getArgument(0)),
          y = kb.pointer(func.getArgument(1));
    kb.loop(kb.i64(0), kb.i64(size), kb.lanes, [&](Value i) {
      Value value = kb.load(kb.at(x, i));
      kb.store(math::ExpOp::create(b, kb.loc, value), kb.at(y, i));
    });
  }
  kernels.compile();
  Buffer x(size), y(size);
  const float infinity = std::numeric_limits<float>::infinity();
  for (int64_t i = 0; i < size; ++i)
    x[i] = -87.3f + 175.6f * i / size;
  // The last NaN has bits in all of its fraction.
  const float special[] = {
      0.0f,   -0.0f,   infinity,      -infinity,
      89.0f,  -104.0f, 200.0f,        -1e30f,
      1e-10f, 1e30f,   std::nanf(""), std::bit_cast<float>(0xffd55555u)};
  std::copy(std::begin(special), std::end(special), x.data());
  kernels.run("exp", {&x, &y}, 0);
  EXPECT_EQ(y[0], 1.0f);
  EXPECT_EQ(y[1], 1.0f);
  EXPECT_EQ(y[2], infinity);
  EXPECT_EQ(y[3], 0.0f);
  EXPECT_EQ(y[4], infinity);
  EXPECT_EQ(y[5], 0.0f);
  EXPECT_EQ(y[6], infinity);
  EXPECT_EQ(y[7], 0.0f);
  EXPECT_EQ(y[8], 1.0f);
  EXPECT_EQ(y[9], infinity);
  EXPECT_TRUE(std::isnan(y[10]));
  EXPECT_TRUE(std::isnan(y[11]));
  double worst = 0;
  for (int64_t i = std::size(special); i < size; ++i)
    raise(worst, y[i] / std::exp((double)x[i]) - 1);
  EXPECT_LT(worst, 1.2e-7);
}

TEST(VectorHelpers, Exp2IsAccurate) {
  for (StringRef cpu : runnableCpus()) {
    SCOPED_TRACE(cpu.str());
    Kernels kernels(cpu);
    OpBuilder &b = kernels.builder;
    constexpr int64_t size = 1 << 16;
    auto type = MemRefType::get({size}, b.getF32Type());
    {
      OpBuilder::InsertionGuard guard(b);
      KernelBuilder kb(b, *kernels.module, kernels.target.lanes);
      auto func = beginKernel(b, *kernels.module, "exp2", {type, type}, 0);
      Value x = kb.pointer(func.getArgument(0)),
            y = kb.pointer(func.getArgument(1));
      kb.loop(kb.i64(0), kb.i64(size), kb.lanes, [&](Value i) {
        Value value = kb.load(kb.at(x, i));
        kb.store(math::Exp2Op::create(b, kb.loc, value), kb.at(y, i));
      });
    }
    kernels.compile();
    Buffer x(size), y(size);
    const float infinity = std::numeric_limits<float>::infinity();
    for (int64_t i = 0; i < size; ++i)
      x[i] = -126.0f + 253.49f * i / size;
    // The last NaN has bits in all of its fraction.
    const float special[] = {0.0f,          -0.0f,
                             1.0f,          -3.0f,
                             -126.0f,       -127.0f,
                             -1e30f,        -infinity,
                             1e-10f,        127.6f,
                             1e30f,         infinity,
                             std::nanf(""), std::bit_cast<float>(0xffd55555u)};
    std::copy(std::begin(special), std::end(special), x.data());
    kernels.run("exp2", {&x, &y}, 0);
    const float expected[] = {1.0f, 1.0f, 2.0f, 0.125f,   0x1p-126f, 0.0f,
                              0.0f, 0.0f, 1.0f, infinity, infinity,  infinity};
    for (size_t i = 0; i < std::size(expected); ++i)
      EXPECT_EQ(y[i], expected[i]) << x[i];
    EXPECT_TRUE(std::isnan(y[12]));
    EXPECT_TRUE(std::isnan(y[13]));
    double worst = 0;
    for (int64_t i = std::size(special); i < size; ++i)
      raise(worst, y[i] / std::exp2((double)x[i]) - 1);
    EXPECT_LT(worst, 1.3e-7);
  }
}

TEST(VectorHelpers, SineAndCosineAreAccurate) {
  Kernels kernels;
  OpBuilder &b = kernels.builder;
  constexpr int64_t size = 1 << 16;
  auto type = MemRefType::get({size}, b.getF32Type());
  {
    OpBuilder::InsertionGuard guard(b);
    KernelBuilder kb(b, *kernels.module, kernels.target.lanes);
    auto func = beginKernel(b, *kernels.module, "sine", {type, type, type}, 0);
    Value x = kb.pointer(func.getArgument(0)),
          s = kb.pointer(func.getArgument(1)),
          c = kb.pointer(func.getArgument(2));
    kb.loop(kb.i64(0), kb.i64(size), kb.lanes, [&](Value i) {
      Value value = kb.load(kb.at(x, i));
      kb.store(math::SinOp::create(b, kb.loc, value), kb.at(s, i));
      kb.store(math::CosOp::create(b, kb.loc, value), kb.at(c, i));
    });
  }
  kernels.compile();
  Buffer x(size), s(size), c(size);
  for (double largest : {1.0, 10.0, 4096.0, 131072.0, 1e6, 4e6, 16e6}) {
    for (int64_t i = 0; i < size; ++i)
      x[i] = static_cast<float>(largest * (2.0 * i / size - 1));
    kernels.run("sine", {&x, &s, &c}, 0);
    double worst = 0;
    for (int64_t i = 0; i < size; ++i) {
      raise(worst, s[i] - std::sin((double)x[i]));
      raise(worst, c[i] - std::cos((double)x[i]));
    }
    EXPECT_LT(worst, 1.2e-7) << largest;
  }
  const float infinity = std::numeric_limits<float>::infinity();
  const float special[] = {0.0f, 1e9f, -3e20f, infinity, std::nanf("")};
  std::copy(std::begin(special), std::end(special), x.data());
  kernels.run("sine", {&x, &s, &c}, 0);
  EXPECT_EQ(s[0], 0.0f);
  EXPECT_EQ(c[0], 1.0f);
  EXPECT_LE(std::fabs(s[1]), 1.0f);
  EXPECT_LE(std::fabs(c[2]), 1.0f);
  EXPECT_TRUE(std::isnan(s[3]));
  EXPECT_TRUE(std::isnan(c[4]));
}

// Of a tail of any length nothing behind it is written, where elements are
// narrower than what they are computed in, too.
TEST(VectorHelpers, TailsAreStoredAlone) {
  Kernels kernels;
  OpBuilder &b = kernels.builder;
  const int64_t lanes = kernels.target.lanes, room = 4 * lanes;
  auto type = MemRefType::get({2 * lanes * lanes}, b.getF32Type());
  {
    OpBuilder::InsertionGuard guard(b);
    KernelBuilder kb(b, *kernels.module, lanes);
    auto func = beginKernel(b, *kernels.module, "tails", {type, type}, 0);
    Value x = kb.pointer(func.getArgument(0)),
          y = kb.pointer(func.getArgument(1));
    auto wide = VectorType::get({lanes}, b.getI32Type());
    int64_t number = 0;
    for (Type element : {Type(b.getI8Type()), Type(b.getI16Type())})
      for (int64_t count = 1; count <= lanes; ++count, ++number) {
        // Each of numbers of its own, so that none is stored twice.
        Value integers = arith::FPToSIOp::create(
            b, kb.loc, wide, kb.load(kb.at(x, kb.i64(number * lanes))));
        kb.store(
            arith::TruncIOp::create(b, kb.loc, wide.clone(element), integers),
            kb.at(y, kb.i64(number * room), b.getI8Type()),
            kb.maskOf(kb.i64(count)), element);
      }
  }
  kernels.compile();
  Buffer x(2 * lanes * lanes), y(2 * lanes * lanes);
  std::fill_n(x.data(), 2 * lanes * lanes, 7.0f);
  std::memset(y.data(), 0x55, sizeof(float) * 2 * lanes * lanes);
  kernels.run("tails", {&x, &y}, 0);
  const auto *found = reinterpret_cast<const unsigned char *>(y.data());
  for (int64_t bytes : {1, 2})
    for (int64_t count = 1; count <= lanes; ++count)
      for (int64_t i = 0; i < room; ++i, ++found)
        ASSERT_EQ(*found, i >= count * bytes ? 0x55
                          : i % bytes        ? 0
                                             : 7)
            << "byte " << i << " of " << count << " elements of " << bytes;
}

TEST(VectorHelpers, PhiloxGivesThePublishedNumbers) {
  // The known answers of the Random123 library, kat_vectors.
  auto zeros = philox({0, 0, 0, 0}, 0, 0);
  EXPECT_EQ(zeros, (std::array<uint32_t, 4>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c,
                                            0x9b00dbd8}));
  auto pi = philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, 0xa4093822,
                   0x299f31d0);
  EXPECT_EQ(pi, (std::array<uint32_t, 4>{0xd16cfe09, 0x94fdcceb, 0x5001e420,
                                         0x24126ea1}));
}

TEST(VectorHelpers, DropoutKeepsWhatTheDesignSays) {
  Kernels kernels;
  OpBuilder &b = kernels.builder;
  constexpr int64_t rows = 3, columns = 256;
  constexpr double rate = 0.3;
  auto type = MemRefType::get({rows, columns}, b.getF32Type());
  for (int64_t lanes : {4, 8, 16}) {
    OpBuilder::InsertionGuard guard(b);
    KernelBuilder kb(b, *kernels.module, lanes);
    auto func = beginKernel(b, *kernels.module,
                            "dropout" + std::to_string(lanes), {type}, 0);
    KernelArguments arguments(func);
    Value out = kb.pointer(func.getArgument(0));
    DropoutKey key =
        dropoutKey(b, kb.loc, arguments.rng, arguments.layer, 5, rate, 4);
    kb.loop(kb.i64(0), kb.i64(rows), 1, [&](Value row) {
      kb.loop(kb.i64(0), kb.i64(columns), 64, [&](Value block) {
        kb.loop(kb.i64(0), kb.i64(16), lanes, [&](Value place) {
          Value column = kb.add(block, place);
          auto masks = dropoutKeepVectors(b, kb.loc, key, kb.toIndex(row),
                                          kb.toIndex(column), lanes);
          Value to = kb.at(out, kb.add(kb.mul(row, columns), column));
          for (auto [i, mask] : llvm::enumerate(masks))
            kb.store(kb.select(mask, kb.splat(1.0), kb.splat(0.0)),
                     kb.at(to, 16 * static_cast<int64_t>(i)));
        });
      });
    });
  }
  kernels.compile();
  for (int64_t lanes : {4, 8, 16}) {
    Buffer out(rows * columns);
    kernels.run("dropout" + std::to_string(lanes), {&out}, 0, 1,
                {123, -7, 41, 2}, 11);
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < columns; ++c)
        ASSERT_EQ(out[r * columns + c],
                  dropoutKeeps({123, -7, 41, 2}, 4, 5, 11, r, c, rate))
            << "lanes " << lanes << " row " << r << " column " << c;
  }
}
