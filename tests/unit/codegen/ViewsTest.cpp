//===- ViewsTest.cpp - kernels on views, constants and shared places ------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What kernels read may be a slice, a transpose, a repeated or a constant
// tensor, and where they write may be a slice or a transpose of something
// larger, or what they read: each against the f64 oracle.
//
//===----------------------------------------------------------------------===//

#include "tests/unit/codegen/ExpectCompiled.h"

#include "gtest/gtest.h"

using namespace tfm;

namespace {

// The gradient of an embedding that is half of a concatenation is a slice.
TEST(Views, ScatterOfASlice) {
  expectDerivativeCompiled(R"(
    func.func @f(%table: tensor<7x5xf32>, %other: tensor<2x3x4xf32>,
                 %ids: tensor<2x3xi32> {test.limit = 7 : i64}) -> tensor<2x3x9xf32> {
      %rows = tfm.gather %table, %ids : tensor<7x5xf32>, tensor<2x3xi32>
      %y = tfm.concat %rows, %other axis 2 : tensor<2x3x5xf32>, tensor<2x3x4xf32>
      return %y : tensor<2x3x9xf32>
    })");
}

TEST(Views, ScatterOfATranspose) {
  expectDerivativeCompiled(R"(
    func.func @f(%table: tensor<7x5xf32>,
                 %ids: tensor<2x3xi32> {test.limit = 7 : i64}) -> tensor<2x5x3xf32> {
      %rows = tfm.gather %table, %ids : tensor<7x5xf32>, tensor<2x3xi32>
      %y = tfm.transpose %rows [0, 2, 1] : tensor<2x3x5xf32>
      return %y : tensor<2x5x3xf32>
    })");
}

// The cotangent of every row is the same number.
TEST(Views, ScatterOfARepeatedNumber) {
  expectDerivativeCompiled(R"(
    func.func @f(%table: tensor<7x5xf32>,
                 %ids: tensor<2x3xi32> {test.limit = 7 : i64}) -> tensor<2x3x1xf32> {
      %rows = tfm.gather %table, %ids : tensor<7x5xf32>, tensor<2x3xi32>
      %y = tfm.reduce_sum %rows axis 2 : tensor<2x3x5xf32>
      return %y : tensor<2x3x1xf32>
    })");
}

TEST(Views, ScatterOfAConstant) {
  expectCompiled(R"(
    func.func @f(%base: tensor<7x5xf32>,
                 %ids: tensor<2x3xi32> {test.limit = 7 : i64}) -> tensor<7x5xf32> {
      %one = tfm.constant dense<1.5> : tensor<2x3x5xf32>
      %y = tfm.scatter_add %base, %ids, %one : tensor<7x5xf32>, tensor<2x3xi32>, tensor<2x3x5xf32>
      return %y : tensor<7x5xf32>
    })");
}

// A table that is stored the other way round: its gradient is a transpose.
TEST(Views, ScatterIntoATranspose) {
  const char *text = R"(
    func.func @f(%weight: tensor<5x7xf32>,
                 %ids: tensor<2x3xi32> {test.limit = 7 : i64}) -> tensor<2x3x5xf32> {
      %table = tfm.transpose %weight [1, 0] : tensor<5x7xf32>
      %rows = tfm.gather %table, %ids : tensor<7x5xf32>, tensor<2x3xi32>
      return %rows : tensor<2x3x5xf32>
    })";
  expectCompiled(text);
  expectDerivativeCompiled(text);
}

TEST(Views, ScatterIntoASlice) {
  expectCompiled(R"(
    func.func @f(%base: tensor<7x5xf32>, %rows: tensor<6x5xf32>, %other: tensor<7x2xf32>,
                 %ids: tensor<6xi32> {test.limit = 7 : i64}) -> tensor<7x7xf32> {
      %s = tfm.scatter_add %base, %ids, %rows : tensor<7x5xf32>, tensor<6xi32>, tensor<6x5xf32>
      %y = tfm.concat %other, %s axis 1 : tensor<7x2xf32>, tensor<7x5xf32>
      return %y : tensor<7x7xf32>
    })");
}

// Rows of a table that strides of one number cannot walk.
TEST(Views, GatherOfTransposedRows) {
  const char *text = R"(
    func.func @f(%weight: tensor<7x4x3xf32>,
                 %ids: tensor<5xi32> {test.limit = 7 : i64}) -> tensor<5x3x4xf32> {
      %table = tfm.transpose %weight [0, 2, 1] : tensor<7x4x3xf32>
      %rows = tfm.gather %table, %ids : tensor<7x3x4xf32>, tensor<5xi32>
      return %rows : tensor<5x3x4xf32>
    })";
  expectCompiled(text);
  expectDerivativeCompiled(text);
}

TEST(Views, GatherOfNumbers) {
  const char *text = R"(
    func.func @f(%table: tensor<7xf32>,
                 %ids: tensor<2x3xi32> {test.limit = 7 : i64}) -> tensor<2x3xf32> {
      %rows = tfm.gather %table, %ids : tensor<7xf32>, tensor<2x3xi32>
      return %rows : tensor<2x3xf32>
    })";
  expectCompiled(text);
  expectDerivativeCompiled(text);
}

TEST(Views, GatherOfARepeatedTable) {
  const char *text = R"(
    func.func @f(%row: tensor<5xf32>,
                 %ids: tensor<2x3xi32> {test.limit = 7 : i64}) -> tensor<2x3x5xf32> {
      %table = tfm.broadcast %row : tensor<5xf32> to tensor<7x5xf32>
      %one = tfm.constant dense<1.5> : tensor<7x5xf32>
      %a = tfm.gather %table, %ids : tensor<7x5xf32>, tensor<2x3xi32>
      %b = tfm.gather %one, %ids : tensor<7x5xf32>, tensor<2x3xi32>
      %y = tfm.mul %a, %b : tensor<2x3x5xf32>
      return %y : tensor<2x3x5xf32>
    })";
  expectCompiled(text);
  expectDerivativeCompiled(text);
}

// A sum over rows that is written as a column of something else.
TEST(Views, ColumnSumsIntoAColumn) {
  for (int rows : {3, 300}) {
    std::string r = std::to_string(rows);
    expectCompiled("func.func @f(%x: tensor<" + r +
                   "x5xf32>, %y: tensor<5x1xf32>) -> tensor<5x2xf32> {\n"
                   "%s = tfm.reduce_sum %x axis 0 : tensor<" +
                   r + R"(x5xf32>
      %c = tfm.reshape %s : tensor<1x5xf32> to tensor<5x1xf32>
      %z = tfm.concat %y, %c axis 1 : tensor<5x1xf32>, tensor<5x1xf32>
      return %z : tensor<5x2xf32>
    })");
  }
}

TEST(Views, ProductsOfConstants) {
  const char *text = R"(
    func.func @f(%x: tensor<3x4xf32>) -> (tensor<3x5xf32>, tensor<5x3xf32>) {
      %one = tfm.constant dense<1.5> : tensor<4x5xf32>
      %two = tfm.constant dense<0.5> : tensor<5x4xf32>
      %y = tfm.matmul %x, %one : tensor<3x4xf32>, tensor<4x5xf32>
      %z = tfm.matmul %two, %x transpose_b : tensor<5x4xf32>, tensor<3x4xf32>
      return %y, %z : tensor<3x5xf32>, tensor<5x3xf32>
    })";
  expectCompiled(text);
  expectDerivativeCompiled(text);
}

// The derivative of a plain sum multiplies by ones.
TEST(Views, ProductsOfARepeatedNumber) {
  expectDerivativeCompiled(R"(
    func.func @f(%x: tensor<3x4xf32>, %w: tensor<4x5xf32>) -> tensor<f32> {
      %y = tfm.matmul %x, %w : tensor<3x4xf32>, tensor<4x5xf32>
      %r = tfm.reduce_sum %y axis 1 : tensor<3x5xf32>
      %s = tfm.reduce_sum %r axis 0 : tensor<3x1xf32>
      %t = tfm.reshape %s : tensor<1x1xf32> to tensor<f32>
      return %t : tensor<f32>
    })");
}

TEST(Views, AttentionToConstants) {
  const char *text = R"(
    func.func @f(%q: tensor<1x2x3x4xf32>, %v: tensor<1x2x5x4xf32>) -> tensor<1x2x3x4xf32> {
      %k = tfm.constant dense<0.5> : tensor<1x2x5x4xf32>
      %mask = tfm.constant dense<true> : tensor<1x1x3x5xi1>
      %out, %lse = tfm.attention %q, %k, %v mask %mask {scale = 0.5 : f64}
          : tensor<1x2x3x4xf32>, tensor<1x2x5x4xf32>, tensor<1x2x5x4xf32>, tensor<1x1x3x5xi1>
      return %out : tensor<1x2x3x4xf32>
    })";
  expectCompiled(text);
  expectDerivativeCompiled(text);
}

// The next value of a loop is a transpose of what reads the last one: it may
// not be written where that still lies.
TEST(Views, CarriedValuesThatTurn) {
  const char *text = R"(
    func.func @f(%x: tensor<5x5xf32>) -> tensor<5x5xf32> {
      %y = tfm.repeat 3 carried(%x : tensor<5x5xf32>) stacked() shared() -> (tensor<5x5xf32>) {
      ^bb0(%i: index, %h: tensor<5x5xf32>):
        %t = tfm.sin %h : tensor<5x5xf32>
        %n = tfm.transpose %t [1, 0] : tensor<5x5xf32>
        tfm.yield %n : tensor<5x5xf32>
      }
      return %y : tensor<5x5xf32>
    })";
  expectCompiled(text);
  expectDerivativeCompiled(text);
  expectCompiled(R"(
    func.func @f(%x: tensor<5x5xf32>) -> tensor<5x5xf32> {
      %y = tfm.repeat 3 carried(%x : tensor<5x5xf32>) stacked() shared() -> (tensor<5x5xf32>) {
      ^bb0(%i: index, %h: tensor<5x5xf32>):
        %n = tfm.transpose %h [1, 0] : tensor<5x5xf32>
        tfm.yield %n : tensor<5x5xf32>
      }
      return %y : tensor<5x5xf32>
    })");
}

TEST(Views, CarriedValuesThatTradePlaces) {
  const char *text = R"(
    func.func @f(%x: tensor<2x5xf32>, %y: tensor<2x5xf32>, %z: tensor<2x5xf32>)
        -> (tensor<2x5xf32>, tensor<2x5xf32>, tensor<2x5xf32>) {
      %r:3 = tfm.repeat 4 carried(%x, %y, %z : tensor<2x5xf32>, tensor<2x5xf32>, tensor<2x5xf32>) stacked() shared()
          -> (tensor<2x5xf32>, tensor<2x5xf32>, tensor<2x5xf32>) {
      ^bb0(%i: index, %a: tensor<2x5xf32>, %b: tensor<2x5xf32>, %c: tensor<2x5xf32>):
        %s = tfm.sin %a : tensor<2x5xf32>
        tfm.yield %b, %s, %s : tensor<2x5xf32>, tensor<2x5xf32>, tensor<2x5xf32>
      }
      return %r#0, %r#1, %r#2 : tensor<2x5xf32>, tensor<2x5xf32>, tensor<2x5xf32>
    })";
  expectCompiled(text);
  expectDerivativeCompiled(text);
}

// Numbers that differ in the last bits are different kernels' constants.
TEST(Views, ConstantsThatAreAlmostEqual) {
  oracle::TestModule module(R"(
    func.func @train() -> tensor<2x3xf32> {
      %a = tfm.constant dense<1.0000001> : tensor<1x3xf32>
      %b = tfm.constant dense<1.0000002> : tensor<1x3xf32>
      %y = tfm.concat %a, %b axis 0 : tensor<1x3xf32>, tensor<1x3xf32>
      return %y : tensor<2x3xf32>
    })");
  ASSERT_TRUE(module.function("train"));
  std::vector<double> found = runCompiled(module, {})[0].data;
  EXPECT_EQ(found[0], 1.0000001f);
  EXPECT_EQ(found[5], 1.0000002f);
}

// A division by 0 gives 0, and lanes past the end of a row end no program.
TEST(Views, DivisionsOfIntegers) {
  expectCompiled(R"(
    func.func @f(%a: tensor<3x5xi32> {test.limit = 100 : i64},
                 %b: tensor<3x5xi32> {test.limit = 9 : i64}) -> tensor<3x5xf32> {
      %d = tfm.div %a, %b : tensor<3x5xi32>
      %y = tfm.cast %d : tensor<3x5xi32> to tensor<3x5xf32>
      return %y : tensor<3x5xf32>
    })");
}

// Angles of rotary positions grow with the context.
TEST(Views, AnglesOfLongContexts) {
  expectCompiled(R"(
    func.func @f(%a: tensor<64xi32> {test.limit = 131072 : i64}) -> (tensor<64xf32>, tensor<64xf32>) {
      %x = tfm.cast %a : tensor<64xi32> to tensor<64xf32>
      %s = tfm.sin %x : tensor<64xf32>
      %c = tfm.cos %x : tensor<64xf32>
      return %s, %c : tensor<64xf32>, tensor<64xf32>
    })");
}

} // namespace
