//===- RandomCompiledTest.cpp - machine code against the oracle -----------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Random programs with their derivatives, dropout and every variant of
// attention, compiled and compared with the f64 oracle, on one thread and on
// three.
//
//===----------------------------------------------------------------------===//

#include "compiler/dialect/ScalarFunctions.h"
#include "tests/unit/codegen/ExpectCompiled.h"
#include "tests/unit/oracle/Gradients.h"
#include "tests/unit/oracle/Safetensors.h"
#include "tests/unit/transforms/RandomProgram.h"

#include "llvm/ADT/bit.h"
#include "llvm/Support/FormatVariadic.h"
#include "gtest/gtest.h"

#include <cmath>
#include <random>
#include <set>

using namespace tfm;
using oracle::Tensor;
using oracle::TestModule;

namespace {

struct Size {
  int rows, columns;
};

class RandomCompiled : public testing::TestWithParam<Size> {};

TEST_P(RandomCompiled, Values) {
  auto [rows, columns] = GetParam();
  for (unsigned seed = 0; seed < 8; ++seed)
    expectCompiled(randomProgram(1000 + seed, rows, columns), seed);
}

TEST_P(RandomCompiled, Derivatives) {
  auto [rows, columns] = GetParam();
  for (unsigned seed = 0; seed < 8; ++seed)
    expectDerivativeCompiled(randomProgram(2000 + seed, rows, columns), seed);
}

INSTANTIATE_TEST_SUITE_P(Sizes, RandomCompiled,
                         testing::Values(Size{1, 2}, Size{2, 3}, Size{5, 17},
                                         Size{7, 31}, Size{13, 64},
                                         Size{1, 101}),
                         [](const auto &info) {
                           return std::to_string(info.param.rows) + "x" +
                                  std::to_string(info.param.columns);
                         });

// What a kernel makes of a formula is what the formula says, of positive and,
// where there is a value, of negative numbers.
TEST(FunctionsCompiled, AreThoseOfTheTable) {
  for (const ScalarFunction &function : scalarFunctions()) {
    bool anySign = std::isfinite(function.value(-0.7));
    expectDerivativeCompiled(llvm::formatv(R"(
          func.func @f(%x: tensor<3x37xf32>) -> tensor<3x37xf32> {{
            %c = tfm.constant dense<{1}> : tensor<3x37xf32>
            %s = tfm.mul %x, %x : tensor<3x37xf32>
            %p = tfm.add %s, %c : tensor<3x37xf32>
            %y = tfm.{0} {2} : tensor<3x37xf32>
            return %y : tensor<3x37xf32>
          })",
                                           function.name, "0.1",
                                           anySign ? "%x" : "%p")
                                 .str());
  }
}

// Every bf16 is itself, what lies between two of them goes to the nearest, and
// halfway to the even one; also through memory, in rows of any length.
TEST(Bf16Compiled, RoundsToTheNearest) {
  std::vector<double> numbers;
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    float value = llvm::bit_cast<float>(bits << 16);
    // Denormal numbers are zero while a model runs.
    if (std::isnormal(value))
      for (uint32_t below : {0u, 1u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu})
        numbers.push_back(llvm::bit_cast<float>(bits << 16 | below));
  }
  for (double special : {0.0, -0.0, HUGE_VAL, -HUGE_VAL})
    numbers.push_back(special);
  for (int64_t columns : {1, 7, 64, 331}) {
    int64_t rows = static_cast<int64_t>(numbers.size()) / columns;
    std::string type = llvm::formatv("tensor<{0}x{1}x", rows, columns).str();
    std::string twice =
        llvm::formatv("tensor<{0}x{1}x", rows, 2 * columns).str();
    std::string text = llvm::formatv(R"(
      func.func @train(%x: {0}f32>) -> ({0}f32>, {1}f32>) {{
        %n = tfm.cast %x : {0}f32> to {0}bf16>
        %y = tfm.cast %n : {0}bf16> to {0}f32>
        %c = tfm.concat %n, %n axis 1 : {0}bf16>, {0}bf16>
        %z = tfm.cast %c : {1}bf16> to {1}f32>
        return %y, %z : {0}f32>, {1}f32>
      })",
                                     type, twice)
                           .str();
    TestModule module(text);
    ASSERT_TRUE(module.function("train")) << text;
    Tensor x({rows, columns},
             std::vector(numbers.begin(), numbers.begin() + rows * columns));
    std::vector<Tensor> results = runCompiled(module, {x});
    ASSERT_EQ(results.size(), 2u);
    for (int64_t i = 0; i < x.size(); ++i) {
      llvm::APFloat expected(x.data[i]);
      bool ignored;
      expected.convert(llvm::APFloat::BFloat(),
                       llvm::APFloat::rmNearestTiesToEven, &ignored);
      expected.convert(llvm::APFloat::IEEEdouble(),
                       llvm::APFloat::rmNearestTiesToEven, &ignored);
      int64_t row = i / columns, column = i % columns;
      for (double found : {results[0].data[i], results[1].at({row, column}),
                           results[1].at({row, columns + column})})
        ASSERT_EQ(found, expected.convertToDouble()) << x.data[i];
    }
  }
}

TEST(Bf16Compiled, NoNumberStaysNone) {
  const char *text = R"(
    func.func @train(%x: tensor<3xf32>) -> tensor<3xf32> {
      %n = tfm.cast %x : tensor<3xf32> to tensor<3xbf16>
      %y = tfm.cast %n : tensor<3xbf16> to tensor<3xf32>
      %u = tfm.compare ne %y, %y : tensor<3xf32>
      %z = tfm.cast %u : tensor<3xi1> to tensor<3xf32>
      return %z : tensor<3xf32>
    })";
  TestModule module(text);
  ASSERT_TRUE(module.function("train"));
  // The last one has its only bits where bf16 has none.
  std::vector<Tensor> results = runCompiled(
      module,
      {Tensor({3}, {std::nan(""), 1.0, llvm::bit_cast<float>(0x7f800001u)})});
  EXPECT_EQ(results[0].data, std::vector<double>({1, 0, 1}));
}

// Bases below 0 and 0 itself, with whole exponents, large ones, and others;
// each in a vector with others, and alone.
TEST(PowCompiled, IsThatOfTheOracle) {
  const double none = std::numeric_limits<double>::quiet_NaN();
  for (auto exponent : {"%p", "%large"}) {
    TestModule module(llvm::formatv(R"(
      func.func @train(%x: tensor<39xf32>, %p: tensor<39xf32>) -> tensor<39xf32> {{
        %large = tfm.constant dense<65.0> : tensor<39xf32>
        %y = tfm.pow %x, {0} : tensor<39xf32>
        %none = tfm.compare ne %y, %y : tensor<39xf32>
        %said = tfm.constant dense<777.0> : tensor<39xf32>
        %z = tfm.select %none, %said, %y : tensor<39xi1>, tensor<39xf32>
        return %z : tensor<39xf32>
      })",
                                    exponent)
                          .str());
    mlir::func::FuncOp function = module.function("train");
    ASSERT_TRUE(function);
    Tensor x({39}, 0.0), p({39}, 0.0);
    const double bases[] = {-1.5, -1, -0.75, 0, 0.5, 1, 1.25, 0, -1.125, none};
    const double exponents[] = {-3, -2, 0, 1, 2, 3, 0.5, 70, 65, -65, 2.5};
    for (int i = 0; i < 39; ++i) {
      x.data[i] = bases[i % 10];
      p.data[i] = exponents[i % 11];
    }
    auto expected = oracle::evaluateOrFail(function, {x, p});
    auto found = runCompiled(module, {x, p});
    ASSERT_EQ(expected.size(), 1u);
    ASSERT_EQ(found.size(), 1u);
    for (int i = 0; i < 39; ++i) {
      double a = found[0].data[i], b = expected[0].data[i];
      EXPECT_TRUE(a == b || std::abs(a - b) <= 2e-5 * std::abs(b))
          << x.data[i] << " ** " << p.data[i] << " is " << a << ", not " << b;
    }
  }
}

// One that is not a number is the maximum, wherever it stands, of rows and of
// columns.
TEST(MaximaCompiled, KeepNoNumber) {
  const double none = std::numeric_limits<double>::quiet_NaN();
  for (int64_t columns : {1, 5, 64, 70, 300}) {
    TestModule module(llvm::formatv(R"(
      func.func @train(%x: tensor<300x{0}xf32>) -> (tensor<300x1xf32>, tensor<1x{0}xf32>) {{
        %r = tfm.reduce_max %x axis 1 {{keeps_nan} : tensor<300x{0}xf32>
        %c = tfm.reduce_max %x axis 0 {{keeps_nan} : tensor<300x{0}xf32>
        %rn = tfm.compare ne %r, %r : tensor<300x1xf32>
        %cn = tfm.compare ne %c, %c : tensor<1x{0}xf32>
        %ry = tfm.cast %rn : tensor<300x1xi1> to tensor<300x1xf32>
        %cy = tfm.cast %cn : tensor<1x{0}xi1> to tensor<1x{0}xf32>
        return %ry, %cy : tensor<300x1xf32>, tensor<1x{0}xf32>
      })",
                                    columns)
                          .str());
    ASSERT_TRUE(module.function("train"));
    Tensor x({300, columns}, 1.0);
    std::set<int64_t> rows, places;
    for (int64_t i = 0; i < 7; ++i) {
      int64_t row = i * i * 7, column = i * 43 % columns;
      x.at({row, column}) = none;
      rows.insert(row);
      places.insert(column);
    }
    std::vector<Tensor> results = runCompiled(module, {x});
    ASSERT_EQ(results.size(), 2u);
    for (int64_t i = 0; i < 300; ++i)
      EXPECT_EQ(results[0].data[i], rows.contains(i)) << i;
    for (int64_t i = 0; i < columns; ++i)
      EXPECT_EQ(results[1].data[i], places.contains(i)) << i;
  }
}

// A row, or rows side by side, that more than one pass walks over: what is
// compared with its maximum is what the maximum is of, to the bit, though a
// product in it has another use in one of the passes.
TEST(MaximaCompiled, AreFoundAgain) {
  for (auto [rows, columns] :
       {std::pair(20, 7), {20, 512}, {5, 1031}, {512, 20}}) {
    TestModule module(llvm::formatv(R"(
      func.func @train(%t: tensor<{1}x{0}xf32>, %g: tensor<{0}x{1}xf32>, %s: tensor<{0}x{1}xf32>) -> (tensor<{0}x1xf32>, tensor<{0}x1xf32>) {{
        %x = tfm.transpose %t [1, 0] : tensor<{1}x{0}xf32>
        %y = tfm.mul %x, %g : tensor<{0}x{1}xf32>
        %z = tfm.add %y, %s : tensor<{0}x{1}xf32>
        %m = tfm.reduce_max %z axis 1 : tensor<{0}x{1}xf32>
        %b = tfm.broadcast %m : tensor<{0}x1xf32> to tensor<{0}x{1}xf32>
        %e = tfm.compare eq %z, %b : tensor<{0}x{1}xf32>
        %f = tfm.cast %e : tensor<{0}x{1}xi1> to tensor<{0}x{1}xf32>
        %count = tfm.reduce_sum %f axis 1 : tensor<{0}x{1}xf32>
        %mean = tfm.reduce_sum %y axis 1 : tensor<{0}x{1}xf32>
        return %count, %mean : tensor<{0}x1xf32>, tensor<{0}x1xf32>
      })",
                                    rows, columns)
                          .str());
    ASSERT_TRUE(module.function("train"));
    std::mt19937 random(7);
    std::normal_distribution<double> normal;
    std::vector<Tensor> inputs(3, Tensor({rows, columns}, 0.0));
    inputs[0] = Tensor({columns, rows}, 0.0);
    for (Tensor &input : inputs)
      for (double &value : input.data)
        value = static_cast<float>(normal(random));
    std::vector<Tensor> results = runCompiled(module, inputs);
    for (double count : results[0].data)
      EXPECT_EQ(count, 1) << rows << "x" << columns;
  }
}

TEST(QuotientCompiled, OfTheSmallestInteger) {
  TestModule module(R"(
    func.func @train(%a: tensor<20xi32>, %b: tensor<20xi32>) -> tensor<20xi32> {
      %y = tfm.div %a, %b : tensor<20xi32>
      return %y : tensor<20xi32>
    })");
  ASSERT_TRUE(module.function("train"));
  constexpr double least = -2147483648.0;
  Tensor a({20}, least), b({20}, -1.0);
  a.data[1] = 7;
  b.data[2] = 0;
  b.data[3] = 2;
  std::vector<Tensor> results = runCompiled(module, {a, b});
  EXPECT_EQ(llvm::ArrayRef(results[0].data).take_front(4),
            llvm::ArrayRef<double>({least, -7, 0, least / 2}));
}

/// Shapes, and how many axes they have, of what is added up along an axis: of
/// any length.
const std::pair<const char *, int> scannedShapes[] = {
    {"1x1", 2}, {"2x3", 2},     {"5x17", 2},    {"64x3", 2},     {"1x331", 2},
    {"331", 1}, {"2x19x37", 3}, {"3x64x48", 3}, {"2x33x3x16", 4}};

// Along every axis, from both ends.
TEST(CumsumCompiled, ValuesAndDerivatives) {
  for (auto [shape, axes] : scannedShapes)
    for (int axis = 0; axis < axes; ++axis)
      for (const char *from : {"", "reverse"})
        expectDerivativeCompiled(llvm::formatv(R"(
              func.func @f(%x: tensor<{0}xf32>) -> tensor<{0}xf32> {{
                %z = tfm.cumsum %x axis {1} {2} : tensor<{0}xf32>
                %y = tfm.tanh %z : tensor<{0}xf32>
                return %y : tensor<{0}xf32>
              })",
                                               shape, axis, from)
                                     .str());
}

// The same, with decays of every element.
TEST(ScanCompiled, ValuesAndDerivatives) {
  for (auto [shape, axes] : scannedShapes)
    for (int axis = 0; axis < axes; ++axis)
      for (const char *from : {"", "reverse"})
        expectDerivativeCompiled(llvm::formatv(R"(
              func.func @f(%a: tensor<{0}xf32>, %x: tensor<{0}xf32>) -> tensor<{0}xf32> {{
                %z = tfm.scan %a, %x axis {1} {2} : tensor<{0}xf32>
                %y = tfm.tanh %z : tensor<{0}xf32>
                return %y : tensor<{0}xf32>
              })",
                                               shape, axis, from)
                                     .str());
}

// A decay that is one number, one for each channel, or one for each position.
TEST(ScanCompiled, DecaysThatAreRepeated) {
  for (const char *decay : {"", "37x", "19x1x", "2x1x37x"})
    expectDerivativeCompiled(llvm::formatv(R"(
        func.func @f(%d: tensor<{0}f32>, %x: tensor<2x19x37xf32>) -> tensor<2x19x37xf32> {{
          %a = tfm.broadcast %d : tensor<{0}f32> to tensor<2x19x37xf32>
          %z = tfm.scan %a, %x axis 1 : tensor<2x19x37xf32>
          %y = tfm.tanh %z : tensor<2x19x37xf32>
          return %y : tensor<2x19x37xf32>
        })",
                                           decay)
                                 .str());
}

// Along every axis, either way, and past the end.
TEST(ShiftCompiled, ValuesAndDerivatives) {
  for (auto [shape, axes] : {std::pair("1x1", 2),
                             {"2x3", 2},
                             {"5x17", 2},
                             {"331", 1},
                             {"2x19x37", 3},
                             {"3x64x48", 3}})
    for (int axis = 0; axis < axes; ++axis)
      for (int steps : {-18, -1, 0, 1, 2, 17})
        expectDerivativeCompiled(llvm::formatv(R"(
              func.func @f(%x: tensor<{0}xf32>) -> tensor<{0}xf32> {{
                %z = tfm.shift %x axis {1} by {2} : tensor<{0}xf32>
                %y = tfm.tanh %z : tensor<{0}xf32>
                return %y : tensor<{0}xf32>
              })",
                                               shape, axis, steps)
                                     .str());
}

/// Shapes whose last two axes are those of a matrix that is turned: of one
/// element, of odd sizes, prime ones, whole vectors and blocks of them.
const std::tuple<int, int, int> turnedShapes[] = {
    {1, 1, 1},   {2, 3, 5},    {3, 17, 31}, {1, 37, 101}, {2, 64, 48},
    {1, 16, 16}, {5, 11, 128}, {1, 130, 9}, {2, 8, 7},    {4, 32, 257}};

// Functions of rows along another axis than the last.
TEST(SideBySideCompiled, ValuesAndDerivatives) {
  for (auto [batch, rows, columns] : turnedShapes)
    for (const char *op :
         {"softmax %t", "log_softmax %t", "normalize %t eps 1.0e-5",
          "rms_normalize %t eps 1.0e-6"})
      expectDerivativeCompiled(llvm::formatv(R"(
            func.func @f(%x: tensor<{0}x{1}x{2}xf32>, %g: tensor<{1}xf32>) -> (tensor<{0}x{1}x{2}xf32>, tensor<{0}x{2}x{1}xf32>) {{
              %t = tfm.transpose %x [0, 2, 1] : tensor<{0}x{1}x{2}xf32>
              %s = tfm.{3} : tensor<{0}x{2}x{1}xf32>
              %b = tfm.broadcast %g : tensor<{1}xf32> to tensor<{0}x{2}x{1}xf32>
              %w = tfm.mul %s, %b : tensor<{0}x{2}x{1}xf32>
              %y = tfm.transpose %w [0, 2, 1] : tensor<{0}x{2}x{1}xf32>
              return %y, %s : tensor<{0}x{1}x{2}xf32>, tensor<{0}x{2}x{1}xf32>
            })",
                                             batch, rows, columns, op)
                                   .str());
}

// A function of what a reduction gives stands behind its loop, with and without
// columns that are left over.
TEST(SideBySideCompiled, FunctionsOfReductions) {
  for (auto [batch, rows, columns] : turnedShapes)
    expectDerivativeCompiled(llvm::formatv(R"(
          func.func @f(%x: tensor<{0}x{1}x{2}xf32>) -> (tensor<{0}x{2}x1xf32>, tensor<{0}x{2}x1xf32>) {{
            %t = tfm.transpose %x [0, 2, 1] : tensor<{0}x{1}x{2}xf32>
            %s = tfm.reduce_sum %t axis 2 : tensor<{0}x{2}x{1}xf32>
            %y = tfm.tanh %s : tensor<{0}x{2}x1xf32>
            %m = tfm.reduce_max %t axis 2 : tensor<{0}x{2}x{1}xf32>
            %z = tfm.sin %m : tensor<{0}x{2}x1xf32>
            return %y, %z : tensor<{0}x{2}x1xf32>, tensor<{0}x{2}x1xf32>
          })",
                                           batch, rows, columns)
                                 .str());
}

// Every element of a transpose is in its place, of every type.
TEST(SideBySideCompiled, TransposesMoveEveryElement) {
  for (auto [batch, rows, columns] : turnedShapes) {
    std::string text = llvm::formatv(R"(
      func.func @train(%x: tensor<{0}x{1}x{2}xf32>) -> (tensor<{0}x{2}x{1}xf32>, tensor<{0}x{2}x{1}xf32>, tensor<{0}x{2}x{1}xi32>) {{
        %y = tfm.transpose %x [0, 2, 1] : tensor<{0}x{1}x{2}xf32>
        %n = tfm.cast %x : tensor<{0}x{1}x{2}xf32> to tensor<{0}x{1}x{2}xbf16>
        %t = tfm.transpose %n [0, 2, 1] : tensor<{0}x{1}x{2}xbf16>
        %z = tfm.cast %t : tensor<{0}x{2}x{1}xbf16> to tensor<{0}x{2}x{1}xf32>
        %i = tfm.cast %x : tensor<{0}x{1}x{2}xf32> to tensor<{0}x{1}x{2}xi32>
        %j = tfm.transpose %i [0, 2, 1] : tensor<{0}x{1}x{2}xi32>
        return %y, %z, %j : tensor<{0}x{2}x{1}xf32>, tensor<{0}x{2}x{1}xf32>, tensor<{0}x{2}x{1}xi32>
      })",
                                     batch, rows, columns)
                           .str();
    TestModule module(text);
    ASSERT_TRUE(module.function("train")) << text;
    Tensor x({batch, rows, columns}, 0.0);
    // Whole numbers that bf16 has, each other than its neighbours.
    for (int64_t i = 0; i < x.size(); ++i)
      x.data[i] = static_cast<double>(i % 251 - 125);
    std::vector<Tensor> results = runCompiled(module, {x});
    ASSERT_EQ(results.size(), 3u);
    for (const Tensor &result : results)
      for (int64_t b = 0; b < batch; ++b)
        for (int64_t r = 0; r < rows; ++r)
          for (int64_t c = 0; c < columns; ++c)
            ASSERT_EQ(result.at({b, c, r}), x.at({b, r, c}))
                << batch << "x" << rows << "x" << columns;
  }
}

// Values, places and derivatives, in rows of any length.
// Of a GPU one kernel runs both products, and each of its blocks computes the
// row that they multiply: shorter and longer ones than its threads have columns
// for at once, with and without a rest, up to the longest. The third product
// waits for the first one, and has the row computed once more.
TEST(GroupsCompiled, ProductsOfARow) {
  struct Sizes {
    int64_t terms, outputs, more;
    bool byOutputs;
  };
  for (auto [terms, outputs, more, byOutputs] :
       {Sizes{4, 8, 4, true}, Sizes{100, 33, 7, true}, Sizes{100, 40, 4, false},
        Sizes{1028, 16, 300, true}, Sizes{1601, 8, 12, false},
        Sizes{4096, 5, 3, true}, Sizes{4100, 4, 4, true}}) {
    SCOPED_TRACE(terms);
    auto weights = [&, terms = terms, byOutputs = byOutputs](int64_t columns) {
      return byOutputs
                 ? llvm::formatv("tensor<{0}x{1}xf32>", columns, terms).str()
                 : llvm::formatv("tensor<{1}x{0}xf32>", columns, terms).str();
    };
    expectCompiled(llvm::formatv(R"(
          func.func @f(%x: tensor<1x{0}xf32>, %g: tensor<1x{0}xf32>,
                       %w: {3}, %u: {4}, %v: {3})
              -> (tensor<1x{1}xf32>, tensor<1x{2}xf32>) {{
            %s = tfm.softmax %x : tensor<1x{0}xf32>
            %n = tfm.mul %s, %g : tensor<1x{0}xf32>
            %a = tfm.matmul %n, %w {5}: tensor<1x{0}xf32>, {3}
            %b = tfm.matmul %n, %u {5}: tensor<1x{0}xf32>, {4}
            %c = tfm.matmul %n, %v {5}: tensor<1x{0}xf32>, {3}
            %y = tfm.mul %a, %c : tensor<1x{1}xf32>
            return %y, %b : tensor<1x{1}xf32>, tensor<1x{2}xf32>
          })",
                                 terms, outputs, more, weights(outputs),
                                 weights(more), byOutputs ? "transpose_b " : "")
                       .str());
  }
}

TEST(TopKCompiled, ValuesPlacesAndDerivatives) {
  for (auto [columns, k] :
       {std::pair(1, 1), {3, 2}, {17, 17}, {64, 4}, {331, 3}, {1100, 2}})
    for (int rows : {1, 3, 130})
      expectDerivativeCompiled(llvm::formatv(R"(
            func.func @f(%x: tensor<{0}x{1}xf32>) -> (tensor<{0}x{2}xf32>, tensor<{0}x{2}xf32>) {{
              %v, %i = tfm.top_k %x, {2} : tensor<{0}x{1}xf32>
              %n = tfm.cast %i : tensor<{0}x{2}xi32> to tensor<{0}x{2}xf32>
              %t = tfm.tanh %v : tensor<{0}x{2}xf32>
              return %t, %n : tensor<{0}x{2}xf32>, tensor<{0}x{2}xf32>
            })",
                                             rows, columns, k)
                                   .str());
}

// Ties, rows that are minus infinity, and NaN, with which places are in the row
// all the same.
TEST(TopKCompiled, TiesAndNoNumbers) {
  const char *text = R"(
    func.func @train(%x: tensor<4x4xf32>) -> (tensor<4x3xf32>, tensor<4x3xi32>) {
      %v, %i = tfm.top_k %x, 3 : tensor<4x4xf32>
      return %v, %i : tensor<4x3xf32>, tensor<4x3xi32>
    })";
  TestModule module(text);
  ASSERT_TRUE(module.function("train"));
  const double least = -HUGE_VAL;
  const double none = std::numeric_limits<double>::quiet_NaN();
  std::vector<Tensor> results = runCompiled(
      module, {Tensor({4, 4}, {5, 7, 7, 5, 0, least, 0, least, least, least,
                               least, least, none, none, none, none})});
  ASSERT_EQ(results.size(), 2u);
  EXPECT_EQ(
      llvm::ArrayRef(results[0].data).take_front(9),
      llvm::ArrayRef<double>({7, 7, 5, 0, 0, least, least, least, least}));
  EXPECT_EQ(llvm::ArrayRef(results[1].data).take_front(9),
            llvm::ArrayRef<double>({1, 2, 0, 0, 2, 1, 0, 1, 2}));
  for (double place : llvm::ArrayRef(results[1].data).drop_front(9)) {
    EXPECT_GE(place, 0);
    EXPECT_LT(place, 4);
  }
}

/// The program `text`, whose function f is one of training, and what it means.
struct TrainingProgram {
  TrainingProgram(const std::string &text, int64_t seed)
      : module(text), original(text) {
    EXPECT_TRUE(module.function("f")) << text;
    module.function("f").setSymName("train");
    inputs = roundedInputs(original.function("f"), seed);
  }

  std::vector<Tensor> expected() {
    return oracle::evaluateOrFail(original.function("f"), inputs,
                                  dropoutEnvironment);
  }
  std::vector<Tensor> results() { return runCompiled(module, inputs); }

  TestModule module, original;
  std::vector<Tensor> inputs;
};

// What is dropped is exactly what the oracle drops, at every size.
TEST(DropoutCompiled, MasksAreThoseOfTheOracle) {
  for (auto [rows, columns] :
       {std::pair(1, 1), {3, 7}, {5, 64}, {2, 65}, {1, 331}, {9, 128}})
    for (const char *rate : {"0.1", "0.5", "0.97"}) {
      std::string type =
          llvm::formatv("tensor<2x{0}x{1}xf32>", rows, columns).str();
      std::string all =
          llvm::formatv("tensor<3x2x{0}x{1}xf32>", rows, columns).str();
      std::string text = llvm::formatv(R"(
        func.func @f(%x: {0}) -> ({0}, {1}) {{
          %a = tfm.dropout %x {{rate = {2} : f64, site = 3 : i64} : {0}
          %y = tfm.repeat 3 carried() stacked() shared(%x : {0}) -> ({1}) {{
          ^bb0(%layer: index, %h: {0}):
            %d = tfm.dropout %h layer %layer {{rate = {2} : f64, site = 4 : i64} : {0}
            tfm.yield %d : {0}
          }
          return %a, %y : {0}, {1}
        })",
                                       type, all, rate)
                             .str();
      TrainingProgram program(text, rows);
      std::vector<Tensor> expected = program.expected(),
                          results = program.results();
      ASSERT_EQ(results.size(), expected.size());
      int64_t dropped = 0, kept = 0;
      for (size_t i = 0; i < results.size(); ++i)
        for (auto [a, b] : llvm::zip_equal(results[i].data, expected[i].data)) {
          ASSERT_EQ(a == 0, b == 0);
          // One rounding of the scale and one of the product.
          ASSERT_NEAR(a, b, 1.5e-7 * std::abs(b));
          ++(b == 0 ? dropped : kept);
        }
      if (rows * columns > 100) {
        EXPECT_GT(dropped, 0);
        EXPECT_GT(kept, 0);
      }
    }
}

// Every layer of every turn of an outer repeat drops something else, the oracle
// the same, and the derivative what the forward pass dropped.
TEST(DropoutCompiled, NestedRepeatsShareNoMask) {
  const char *text = R"(
    func.func @f(%x: tensor<4x64xf32>) -> tensor<2x3x4x64xf32> {
      %y = tfm.repeat 2 carried() stacked() shared(%x : tensor<4x64xf32>) -> (tensor<2x3x4x64xf32>) {
      ^bb0(%o: index, %h: tensor<4x64xf32>):
        %z = tfm.repeat 3 carried() stacked() shared(%h : tensor<4x64xf32>) -> (tensor<3x4x64xf32>) {
        ^bb0(%i: index, %g: tensor<4x64xf32>):
          %d = tfm.dropout %g layer %i {rate = 0.5 : f64, site = 7 : i64} : tensor<4x64xf32>
          tfm.yield %d : tensor<4x64xf32>
        }
        tfm.yield %z : tensor<3x4x64xf32>
      }
      return %y : tensor<2x3x4x64xf32>
    })";
  for (bool derivative : {false, true}) {
    TestModule module(text), original(text);
    ASSERT_TRUE(module.function("f"));
    mlir::func::FuncOp function = module.function("f");
    mlir::func::FuncOp meaning = original.function("f");
    if (derivative) {
      meaning = oracle::addVJP(original.function("f"), "g");
      function = oracle::addVJP(module.function("f"), "g");
      module.function("f").erase();
    }
    function.setSymName("train");
    std::vector<Tensor> inputs = roundedInputs(meaning, 1);
    std::vector<Tensor> expected =
        oracle::evaluateOrFail(meaning, inputs, dropoutEnvironment);
    std::vector<Tensor> results = runCompiled(module, inputs);
    ASSERT_EQ(results.size(), expected.size());
    const Tensor &y = results.back();
    ASSERT_EQ(y.data.size(), expected.back().data.size());
    for (auto [a, b] : llvm::zip_equal(y.data, expected.back().data))
      ASSERT_NEAR(a, b, 1e-6 * (1 + std::abs(b)));
    if (derivative)
      continue;
    std::set<std::vector<bool>> masks;
    for (size_t layer = 0; layer < 6; ++layer) {
      std::vector<bool> mask;
      for (size_t i = 0; i < 256; ++i)
        mask.push_back(y.data[layer * 256 + i] != 0);
      masks.insert(mask);
    }
    EXPECT_EQ(masks.size(), 6u);
  }
}

// What is drawn is exactly what the oracle draws, at every size, in an outer
// and an inner layer.
TEST(UniformCompiled, NumbersAreThoseOfTheOracle) {
  for (const char *shape : {"", "1x", "70x", "3x7x", "5x64x", "2x2x65x",
                            "1x331x", "9x128x", "6x1x", "2x1200x"}) {
    std::string text = llvm::formatv(R"(
      func.func @f(%x: tensor<{0}f32>) -> (tensor<{0}f32>, tensor<2x3x{0}f32>) {{
        %a = tfm.uniform {{site = 3 : i64} : tensor<{0}f32>
        %y = tfm.repeat 2 carried() stacked() shared() -> (tensor<2x3x{0}f32>) {{
        ^bb0(%o: index):
          %z = tfm.repeat 3 carried() stacked() shared() -> (tensor<3x{0}f32>) {{
          ^bb0(%i: index):
            %u = tfm.uniform layer %i {{site = 4 : i64} : tensor<{0}f32>
            tfm.yield %u : tensor<{0}f32>
          }
          tfm.yield %z : tensor<3x{0}f32>
        }
        return %a, %y : tensor<{0}f32>, tensor<2x3x{0}f32>
      })",
                                     shape)
                           .str();
    SCOPED_TRACE(text);
    TrainingProgram program(text, 1);
    std::vector<Tensor> expected = program.expected(),
                        results = program.results();
    ASSERT_EQ(results.size(), expected.size());
    for (size_t i = 0; i < results.size(); ++i)
      ASSERT_EQ(results[i].data, expected[i].data);
    // No two sites and layers have a number in common.
    std::set<double> all;
    for (const Tensor &result : expected)
      all.insert(result.data.begin(), result.data.end());
    if (expected[0].data.size() < 100)
      EXPECT_EQ(all.size(), 7 * expected[0].data.size());
  }
}

// A sample of a normal distribution with the mean and the logarithm of the
// deviation of each element, and their derivatives, which are those of what was
// drawn: by kernels that draw, that read what others drew, and in layers.
TEST(UniformCompiled, SamplesHaveDerivatives) {
  for (const char *shape : {"3x7", "4x64", "2x3x65", "5x1", "2x300"})
    expectDerivativeCompiled(llvm::formatv(R"(
      func.func @f(%m: tensor<{0}xf32>, %s: tensor<{0}xf32>) -> tensor<{0}xf32> {{
        %one = tfm.constant dense<1.0> : tensor<{0}xf32>
        %two = tfm.constant dense<-2.0> : tensor<{0}xf32>
        %turn = tfm.constant dense<6.2831853> : tensor<{0}xf32>
        %y = tfm.repeat 3 carried(%m : tensor<{0}xf32>) stacked()
            shared(%s, %one, %two, %turn : tensor<{0}xf32>, tensor<{0}xf32>, tensor<{0}xf32>, tensor<{0}xf32>)
            -> (tensor<{0}xf32>) {{
        ^bb0(%i: index, %h: tensor<{0}xf32>, %t: tensor<{0}xf32>,
             %o: tensor<{0}xf32>, %n: tensor<{0}xf32>, %a: tensor<{0}xf32>):
          %u = tfm.uniform layer %i {{site = 0 : i64} : tensor<{0}xf32>
          %v = tfm.uniform layer %i {{site = 1 : i64} : tensor<{0}xf32>
          %p = tfm.sub %o, %u : tensor<{0}xf32>
          %l = tfm.log %p : tensor<{0}xf32>
          %q = tfm.mul %n, %l : tensor<{0}xf32>
          %r = tfm.sqrt %q : tensor<{0}xf32>
          %w = tfm.mul %a, %v : tensor<{0}xf32>
          %c = tfm.cos %w : tensor<{0}xf32>
          %z = tfm.mul %r, %c : tensor<{0}xf32>
          %e = tfm.exp %t : tensor<{0}xf32>
          %d = tfm.mul %e, %z : tensor<{0}xf32>
          %k = tfm.sin %h : tensor<{0}xf32>
          %g = tfm.add %k, %d : tensor<{0}xf32>
          %x = tfm.mul %g, %v : tensor<{0}xf32>
          tfm.yield %x : tensor<{0}xf32>
        }
        return %y : tensor<{0}xf32>
      })",
                                           shape)
                                 .str());
}

/// tests/fixtures/sdpa: attention as PyTorch computes it in f64, values and
/// gradients, with the fixture's tolerance.
class SdpaCompiled : public testing::TestWithParam<const char *> {};
TEST_P(SdpaCompiled, ValuesAndGradients) {
  std::string name = GetParam();
  auto tensors = oracle::readFixture("sdpa/sdpa.safetensors");
  llvm::json::Value cases = oracle::readFixtureJson("sdpa/cases.json");
  const llvm::json::Object *options = cases.getAsObject()->getObject(name);
  ASSERT_TRUE(options);
  auto at = [&](const char *what) { return tensors.at(name + "." + what); };
  std::vector<Tensor> inputs = {at("q"), at("k"), at("v")};
  std::string arguments, types;
  for (const char *what : {"q", "k", "v"}) {
    std::string type = "tensor<" + oracle::spell(at(what).shape, "f32") + ">";
    arguments +=
        llvm::formatv("{0}%{1}: {2}", arguments.empty() ? "" : ", ", what, type)
            .str();
    types += (types.empty() ? "" : ", ") + type;
  }
  std::string mask;
  if (auto kind = options->getString("mask")) {
    inputs.push_back(at("mask"));
    std::string type =
        "tensor<" +
        oracle::spell(at("mask").shape, *kind == "bool" ? "i1" : "f32") + ">";
    arguments += ", %mask: " + type;
    types += ", " + type;
    mask = "mask %mask";
  }
  std::string out = "tensor<" + oracle::spell(at("out").shape, "f32") + ">";
  std::string text =
      llvm::formatv("func.func @f({0}) -> {1} {{\n"
                    "  %out, %lse = tfm.attention %q, %k, %v {2} {{{3}scale = "
                    "{4:E17} : f64} : {5}\n"
                    "  return %out : {1}\n}",
                    arguments, out, mask,
                    options->getBoolean("causal").value_or(false) ? "causal, "
                                                                  : "",
                    *options->getNumber("scale"), types)
          .str();
  double tolerance = name == "large_scores" ? 1e-3 : 1e-5;
  {
    TestModule module(text);
    ASSERT_TRUE(module.function("f"));
    module.function("f").setSymName("train");
    EXPECT_LE(oracle::relativeError(runCompiled(module, inputs)[0], at("out")),
              tolerance);
  }
  TestModule module(text);
  oracle::addVJP(module.function("f"), "train");
  module.function("f").erase();
  inputs.push_back(at("grad_out"));
  std::vector<Tensor> gradients = runCompiled(module, inputs);
  ASSERT_GE(gradients.size(), 3u);
  EXPECT_LE(oracle::relativeError(gradients[0], at("grad_q")), tolerance);
  EXPECT_LE(oracle::relativeError(gradients[1], at("grad_k")), tolerance);
  EXPECT_LE(oracle::relativeError(gradients[2], at("grad_v")), tolerance);
}
INSTANTIATE_TEST_SUITE_P(
    All, SdpaCompiled,
    testing::Values("plain", "causal", "bool_mask", "additive_mask", "scale",
                    "gqa", "mqa", "cross", "cross_value_width", "cross_causal",
                    "empty_row", "large_scores"),
    [](const auto &info) { return std::string(info.param); });

// Variants that PyTorch has no function for, with dropout on the weights.
TEST(AttentionCompiled, WindowSoftcapAndDropout) {
  for (const char *attributes :
       {"causal, window = 4 : i64, scale = 0.5 : f64",
        "softcap = 2.0 : f64, scale = 0.5 : f64",
        "causal, scale = 0.5 : f64, dropout = 0.25 : f64, site = 6 : i64",
        "scale = 0.5 : f64, dropout = 0.25 : f64, site = 1 : i64",
        "causal, window = 5 : i64, softcap = 3.0 : f64, scale = 0.3 : f64, "
        "dropout = 0.5 : f64, site = 2 : i64"})
    for (auto [length, width] : {std::pair(1, 1), {7, 3}, {13, 16}, {67, 8}}) {
      std::string type =
          llvm::formatv("tensor<2x2x{0}x{1}xf32>", length, width).str();
      std::string text = llvm::formatv(R"(
        func.func @f(%q: {0}, %k: {0}, %v: {0}) -> {0} {{
          %out, %lse = tfm.attention %q, %k, %v {{{1}} : {0}, {0}, {0}
          return %out : {0}
        })",
                                       type, attributes)
                             .str();
      expectCompiled(text, length);
      expectDerivativeCompiled(text, length);
    }
}

// Of bf16, whose weights a target may round, too, before values are added up by
// them; what softmax adds up may not be.
// Of a GPU the keys of one query are cut into four parts of 64 (of 192 into two
// of 96), and what follows adds them up: where the query is in the first or the
// last, at either end of one, and sees nothing of most. Others are not cut.
TEST(AttentionCompiled, InParts) {
  struct Case {
    int64_t keys, start;
    const char *more;
  };
  for (auto [keys, start, more] :
       {Case{256, 0, ""}, Case{256, 63, ""}, Case{256, 64, ""},
        Case{256, 255, ""}, Case{256, 200, ", window = 70 : i64"},
        Case{256, 130, ", softcap = 3.0 : f64"}, Case{192, 100, ""},
        Case{131, 100, ""}}) {
    SCOPED_TRACE(start);
    expectCompiled(llvm::formatv(R"(
        func.func @f(%q: tensor<1x4x1x16xf32>, %k: tensor<1x2x{0}x16xf32>, %v: tensor<1x2x{0}x16xf32>,
                     %w: tensor<24x64xf32>) -> tensor<1x24xf32> {{
          %p = tfm.constant dense<{1}> : tensor<1xi32>
          %out, %lse = tfm.attention %q, %k, %v start(%p : tensor<1xi32>) {{causal, scale = 0.25 : f64{2}}
            : tensor<1x4x1x16xf32>, tensor<1x2x{0}x16xf32>, tensor<1x2x{0}x16xf32>
          %a = tfm.reshape %out : tensor<1x4x1x16xf32> to tensor<1x64xf32>
          %y = tfm.matmul %a, %w transpose_b : tensor<1x64xf32>, tensor<24x64xf32>
          return %y : tensor<1x24xf32>
        })",
                                 keys, start, more)
                       .str());
  }
}

TEST(AttentionCompiled, OfBf16) {
  for (const char *attributes :
       {"causal, scale = 0.5 : f64", "scale = 0.5 : f64",
        "causal, scale = -0.5 : f64",
        "causal, window = 40 : i64, softcap = 3.0 : f64, scale = 0.3 : f64",
        "causal, scale = 0.5 : f64, dropout = 0.25 : f64, site = 6 : i64"})
    for (auto [length, width, keyHeads] :
         {std::tuple(70, 32, 2), {130, 64, 1}, {64, 16, 2}, {192, 16, 1}}) {
      std::string text = llvm::formatv(R"(
        func.func @f(%q: tensor<2x2x{0}x{1}xf32>, %k: tensor<2x{2}x{0}x{1}xf32>, %v: tensor<2x{2}x{0}x{1}xf32>)
            -> (tensor<2x2x{0}x{1}xf32>, tensor<2x2x{0}xf32>) {{
          %x = tfm.cast %q : tensor<2x2x{0}x{1}xf32> to tensor<2x2x{0}x{1}xbf16>
          %y = tfm.cast %k : tensor<2x{2}x{0}x{1}xf32> to tensor<2x{2}x{0}x{1}xbf16>
          %z = tfm.cast %v : tensor<2x{2}x{0}x{1}xf32> to tensor<2x{2}x{0}x{1}xbf16>
          %out, %lse = tfm.attention %x, %y, %z {{{3}} : tensor<2x2x{0}x{1}xbf16>, tensor<2x{2}x{0}x{1}xbf16>, tensor<2x{2}x{0}x{1}xbf16>
          %wide = tfm.cast %out : tensor<2x2x{0}x{1}xbf16> to tensor<2x2x{0}x{1}xf32>
          return %wide, %lse : tensor<2x2x{0}x{1}xf32>, tensor<2x2x{0}xf32>
        })",
                                       length, width, keyHeads, attributes)
                             .str();
      SCOPED_TRACE(text);
      TrainingProgram program(text, length);
      std::vector<Tensor> expected = program.expected(),
                          results = program.results();
      EXPECT_LE(oracle::relativeError(results[0], expected[0]), 1.0 / 128);
      EXPECT_LE(oracle::relativeError(results[1], expected[1]), 1e-5);
    }
}

// The same in rows that Hopper's form takes, of more than one of its tiles of
// 128 queries and 128 keys: a pair of tiles and one alone, the last one full or
// not, as many queries as keys or not, and queries that see no key.
TEST(AttentionCompiled, TilesOfBf16) {
  struct Case {
    int64_t queries, keys, width, valueWidth, heads;
    const char *attributes;
  };
  const char *causal = "causal, scale = 0.25 : f64";
  for (const Case &of : {
           Case{300, 300, 64, 64, 2, causal},
           {256, 256, 128, 128, 3, causal},
           {400, 400, 64, 128, 1,
            "causal, window = 150 : i64, scale = 0.2 : f64"},
           {300, 300, 128, 64, 1,
            "causal, window = 40 : i64, softcap = 3.0 : f64, scale = 0.3 : "
            "f64"},
           {70, 290, 64, 64, 2, "scale = 0.25 : f64"},
           {130, 256, 64, 64, 1, "scale = -0.25 : f64"},
           {300, 100, 64, 64, 1, causal},
           {400, 100, 64, 64, 1,
            "causal, window = 40 : i64, scale = 0.25 : f64"},
           {130, 300, 128, 128, 1, "window = 50 : i64, scale = 0.1 : f64"},
       }) {
    auto tensor = [&](int64_t heads, int64_t rows, int64_t width,
                      const char *element) {
      return llvm::formatv("tensor<1x{0}x{1}x{2}x{3}>", heads, rows, width,
                           element)
          .str();
    };
    auto text =
        llvm::formatv(
            R"(
      func.func @f(%q: {0}, %k: {1}, %v: {2}) -> ({3}, {4}) {{
        %x = tfm.cast %q : {0} to {5}
        %y = tfm.cast %k : {1} to {6}
        %z = tfm.cast %v : {2} to {7}
        %out, %lse = tfm.attention %x, %y, %z {{{8}} : {5}, {6}, {7}
        %wide = tfm.cast %out : {9} to {3}
        return %wide, %lse : {3}, {4}
      })",
            tensor(of.heads, of.queries, of.width, "f32"),
            tensor(1, of.keys, of.width, "f32"),
            tensor(1, of.keys, of.valueWidth, "f32"),
            tensor(of.heads, of.queries, of.valueWidth, "f32"),
            llvm::formatv("tensor<1x{0}x{1}xf32>", of.heads, of.queries),
            tensor(of.heads, of.queries, of.width, "bf16"),
            tensor(1, of.keys, of.width, "bf16"),
            tensor(1, of.keys, of.valueWidth, "bf16"), of.attributes,
            tensor(of.heads, of.queries, of.valueWidth, "bf16"))
            .str();
    SCOPED_TRACE(text);
    TrainingProgram program(text, of.queries);
    std::vector<Tensor> expected = program.expected(),
                        results = program.results();
    EXPECT_LE(oracle::relativeError(results[0], expected[0]), 1.0 / 128);
    // The logarithm of nothing is itself on both sides.
    for (auto [x, y] : llvm::zip_equal(results[1].data, expected[1].data))
      if (std::isinf(y)) {
        EXPECT_EQ(x, y);
        x = y = 0.0;
      }
    EXPECT_LE(oracle::relativeError(results[1], expected[1]), 1e-5);
  }
}

// Queries behind others, of which a cache has keys and values, and behind them
// whatever there was, NaN too: of each text from another position on.
TEST(AttentionCompiled, CacheOfBf16) {
  struct Shape {
    int64_t texts, heads, keyHeads, queries, rows, width;
  };
  // Few queries of few texts are read by many threads, of many several at once.
  for (Shape of : {Shape{2, 2, 1, 32, 150, 16},
                   {2, 2, 2, 70, 256, 32},
                   {2, 2, 1, 130, 192, 64},
                   {2, 2, 1, 1, 300, 64},
                   {2, 2, 2, 3, 530, 64},
                   {60, 3, 1, 2, 90, 16}})
    for (const char *attributes :
         {"causal, scale = 0.5 : f64",
          "causal, window = 40 : i64, softcap = 3.0 : f64, scale = 0.3 : f64"})
      for (int64_t first : {0, 7, 62}) {
        auto tensor = [&](int64_t heads, int64_t rows, const char *element) {
          return llvm::formatv("tensor<{0}x{1}x{2}x{3}x{4}>", of.texts, heads,
                               rows, of.width, element)
              .str();
        };
        std::string text = llvm::formatv(
                               R"(
          func.func @f(%q: {0}, %k: {1}, %v: {1}, %start: {4}) -> ({0}, {5}) {{
            %x = tfm.cast %q : {0} to {2}
            %y = tfm.cast %k : {1} to {3}
            %z = tfm.cast %v : {1} to {3}
            %out, %lse = tfm.attention %x, %y, %z start(%start : {4}) {{{6}} : {2}, {3}, {3}
            %wide = tfm.cast %out : {2} to {0}
            return %wide, %lse : {0}, {5}
          })",
                               tensor(of.heads, of.queries, "f32"),
                               tensor(of.keyHeads, of.rows, "f32"),
                               tensor(of.heads, of.queries, "bf16"),
                               tensor(of.keyHeads, of.rows, "bf16"),
                               llvm::formatv("tensor<{0}xi32>", of.texts),
                               llvm::formatv("tensor<{0}x{1}x{2}xf32>",
                                             of.texts, of.heads, of.queries),
                               attributes)
                               .str();
        SCOPED_TRACE(text);
        TrainingProgram program(text, of.queries);
        std::vector<Tensor> &inputs = program.inputs;
        inputs[3].data.assign(static_cast<size_t>(of.texts),
                              static_cast<double>(of.rows - of.queries));
        inputs[3].data.front() = static_cast<double>(first);
        std::vector<Tensor> expected = program.expected();
        for (Tensor *cache : {&inputs[1], &inputs[2]})
          for (size_t i = 0; i != cache->data.size(); ++i) {
            auto row = static_cast<int64_t>(i) / of.width % of.rows;
            auto text =
                static_cast<int64_t>(i) / of.width / of.rows / of.keyHeads;
            if (text == 0 && row >= first + of.queries)
              cache->data[i] = NAN;
          }
        std::vector<Tensor> results = program.results();
        EXPECT_LE(oracle::relativeError(results[0], expected[0]), 1.0 / 128);
        EXPECT_LE(oracle::relativeError(results[1], expected[1]), 1e-5);
      }
}

// Its derivative, for which a target may round weights and the cotangents of
// scores: queries and keys that are whole tiles and are not, as many of either
// or not, and heads of all widths that tensor cores take.
TEST(AttentionCompiled, DerivativeOfBf16) {
  struct Case {
    int64_t queries, keys, width, valueWidth, keyHeads;
    const char *attributes, *mask = "", *ofMask = "i1";
  };
  const char *causal = "causal, scale = 0.25 : f64";
  for (
      const Case &of : {
          Case{1, 1, 16, 16, 2, causal},
          {67, 67, 32, 32, 1, causal},
          {130, 130, 64, 64, 2, causal},
          {64, 64, 128, 128, 2, "scale = 0.1 : f64"},
          {31, 101, 16, 64, 1, "scale = 0.25 : f64"},
          {31, 101, 16, 32, 1, "scale = 0.25 : f64", "mask %m"},
          {70, 70, 16, 16, 1, causal, "mask %m", "f32"},
          {64, 192, 16, 16, 2, causal},
          {192, 64, 16, 16, 2, "causal, window = 40 : i64, scale = 0.25 : f64"},
          {150, 150, 32, 32, 1,
           "causal, window = 70 : i64, softcap = 3.0 : f64, scale = 0.3 : f64"},
          {128, 100, 16, 16, 1,
           "scale = 0.25 : f64, dropout = 0.25 : f64, site = 6 : i64"},
          {90, 90, 64, 64, 1,
           "causal, scale = 0.2 : f64, dropout = 0.5 : f64, site = 2 : i64"},
      }) {
    auto narrow = [&](int64_t heads, int64_t rows, int64_t width) {
      return llvm::formatv("tensor<2x{0}x{1}x{2}xbf16>", heads, rows, width)
          .str();
    };
    auto wide = [](std::string type) {
      return type.replace(type.find("bf16"), 4, "f32");
    };
    std::string q = narrow(2, of.queries, of.width),
                k = narrow(of.keyHeads, of.keys, of.width),
                v = narrow(of.keyHeads, of.keys, of.valueWidth),
                out = narrow(2, of.queries, of.valueWidth),
                mask = llvm::formatv("tensor<2x1x{0}x{1}x{2}>", of.queries,
                                     of.keys, of.ofMask)
                           .str();
    std::string text =
        llvm::formatv(R"(
        func.func @f(%q: {4}, %k: {5}, %v: {6}, %m: {7}) -> {8} {{
          %x = tfm.cast %q : {4} to {0}
          %y = tfm.cast %k : {5} to {1}
          %z = tfm.cast %v : {6} to {2}
          %out, %lse = tfm.attention %x, %y, %z {9} {{{10}} : {0}, {1}, {2}{11}
          %wide = tfm.cast %out : {3} to {8}
          return %wide : {8}
        })",
                      q, k, v, out, wide(q), wide(k), wide(v), mask, wide(out),
                      of.mask, of.attributes, *of.mask ? ", " + mask : "")
            .str();
    SCOPED_TRACE(text);
    TestModule module(text), original(text);
    ASSERT_TRUE(module.function("f"));
    oracle::addVJP(module.function("f"), "train");
    module.function("f").erase();
    auto derivative = oracle::addVJP(original.function("f"), "g");
    std::vector<Tensor> inputs = roundedInputs(derivative, of.queries);
    std::vector<Tensor> expected =
        oracle::evaluateOrFail(derivative, inputs, dropoutEnvironment);
    std::vector<Tensor> results = runCompiled(module, inputs);
    ASSERT_EQ(results.size(), expected.size());
    for (size_t i = 0; i < results.size(); ++i)
      EXPECT_LE(oracle::relativeError(results[i], expected[i]), 1.0 / 64)
          << "result " << i;
  }
}

/// Attention of elements of a type with keys that a float mask hides by
/// `added`: every third query sees none, of the others some see all. Forward
/// and derivatives, to `tolerance` with the queries that see a key alone.
void expectHidden(const char *element, double added, double tolerance) {
  auto type = [](int64_t heads, int64_t rows, int64_t columns,
                 const char *element) {
    return llvm::formatv("tensor<2x{0}x{1}x{2}x{3}>", heads, rows, columns,
                         element)
        .str();
  };
  constexpr int64_t queries = 35, keys = 70, width = 16;
  std::string text =
      llvm::formatv(R"(
      func.func @f(%q: {0}, %k: {1}, %v: {1}, %m: {2}) -> {0} {{
        %x = tfm.cast %q : {0} to {3}
        %y = tfm.cast %k : {1} to {4}
        %z = tfm.cast %v : {1} to {4}
        %out, %lse = tfm.attention %x, %y, %z mask %m {{scale = 0.25 : f64} : {3}, {4}, {4}, {2}
        %wide = tfm.cast %out : {3} to {0}
        return %wide : {0}
      })",
                    type(2, queries, width, "f32"), type(2, keys, width, "f32"),
                    type(1, queries, keys, "f32"),
                    type(2, queries, width, element),
                    type(2, keys, width, element))
          .str();
  SCOPED_TRACE(text + std::to_string(added));
  for (bool hidesAll : {false, true}) {
    TestModule module(text), original(text);
    ASSERT_TRUE(module.function("f"));
    oracle::addVJP(module.function("f"), "train");
    auto derivative = oracle::addVJP(original.function("f"), "g");
    std::vector<Tensor> inputs = roundedInputs(derivative, 5);
    for (int64_t i = 0; i < inputs[3].size(); ++i) {
      int64_t query = i / keys % queries, key = i % keys;
      bool isHidden = query % 3 == 0 ? hidesAll || key != query
                                     : query % 3 == 1 && key % 4 == 0;
      inputs[3].data[i] = isHidden ? added : 0;
    }
    std::vector<Tensor> values = oracle::evaluateOrFail(
        original.function("f"), llvm::ArrayRef(inputs).drop_back());
    std::vector<Tensor> slopes = oracle::evaluateOrFail(derivative, inputs);
    // Of a query that sees none scores have 10 bits behind the point.
    double allowed = hidesAll ? std::max(tolerance, 1.0 / 512) : tolerance;
    std::vector<Tensor> found = runCompiled(module, inputs);
    ASSERT_EQ(found.size(), slopes.size());
    for (size_t i = 0; i < found.size(); ++i)
      EXPECT_LE(oracle::relativeError(found[i], slopes[i]), allowed)
          << "derivative " << i << (hidesAll ? ", no key is seen" : "");
    module.function("train").erase();
    module.function("f").setSymName("train");
    EXPECT_LE(oracle::relativeError(
                  runCompiled(module, llvm::ArrayRef(inputs).drop_back())[0],
                  values[0]),
              allowed)
        << (hidesAll ? "no key is seen" : "");
  }
}

TEST(AttentionCompiled, HidesByFloatMasks) {
  for (double added : {-1e4, -1e6, -1e9, -1e30, -3e38, -HUGE_VAL})
    expectHidden("f32", added, 1e-5);
}

TEST(AttentionCompiled, HidesByFloatMasksOfBf16) {
  for (double added : {-1e9, -HUGE_VAL})
    expectHidden("bf16", added, 1.0 / 64);
}

// Biases by distance: of every head, around the diagonal or from it on, with
// fewer columns than there are distances, and their derivative.
TEST(AttentionCompiled, BiasesByDistance) {
  for (const char *attributes :
       {"causal, scale = 0.5 : f64", "scale = 0.5 : f64",
        "causal, window = 4 : i64, softcap = 2.0 : f64, scale = 0.5 : f64",
        "causal, scale = 0.5 : f64, dropout = 0.25 : f64, site = 6 : i64"})
    for (auto [length, width, columns] :
         {std::tuple(1, 1, 1), {7, 3, 13}, {13, 16, 9}, {67, 8, 133}}) {
      std::string type =
          llvm::formatv("tensor<2x4x{0}x{1}xf32>", length, width).str();
      std::string shared =
          llvm::formatv("tensor<2x2x{0}x{1}xf32>", length, width).str();
      std::string text = llvm::formatv(R"(
        func.func @f(%q: {0}, %k: {1}, %v: {1}, %d: tensor<4x{2}xf32>) -> {0} {{
          %out, %lse = tfm.attention %q, %k, %v distance(%d : tensor<4x{2}xf32>) {{{3}} : {0}, {1}, {1}
          return %out : {0}
        })",
                                       type, shared, columns, attributes)
                             .str();
      expectCompiled(text, length);
      expectDerivativeCompiled(text, length);
    }
}

} // namespace
