//===- FlopsTest.cpp - floating-point operations of ops -------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/report/Flops.h"

#include "compiler/dialect/TfmDialect.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"

#include <gtest/gtest.h>
#include <map>

using namespace mlir;

namespace {

/// What `count` says of a function with the given arguments and body, in one
/// sum for each key; empty where that is no function.
std::map<std::string, int64_t>
counted(const std::string &arguments, const std::string &body,
        void (*count)(Region &, int64_t, llvm::StringMap<tfm::FlopCount> &)) {
  MLIRContext context(MLIRContext::Threading::DISABLED);
  context.loadDialect<tfm::TfmDialect, func::FuncDialect>();
  std::string text =
      "func.func @f(" + arguments + ") {\n" + body + "\nreturn\n}";
  auto module = parseSourceString<ModuleOp>(text, &context);
  if (!module)
    return {};
  auto function = *module->getOps<func::FuncOp>().begin();
  llvm::StringMap<tfm::FlopCount> counts;
  count(function.getBody(), 1, counts);
  std::map<std::string, int64_t> result;
  for (const auto &entry : counts)
    result[entry.getKey().str()] = entry.getValue();
  return result;
}

/// All FLOPs of such a function.
int64_t flopsOf(const std::string &arguments, const std::string &body) {
  int64_t sum = 0;
  for (const auto &[kind, flops] : counted(arguments, body, tfm::countFlops))
    sum += flops;
  return sum;
}

const char *const attentionArguments =
    "%q: tensor<2x3x8x16xf32>, %k: tensor<2x3x8x16xf32>, "
    "%v: tensor<2x3x8x4xf32>";
const char *const attentionTypes =
    " : tensor<2x3x8x16xf32>, tensor<2x3x8x16xf32>, tensor<2x3x8x4xf32>";

} // namespace

TEST(Flops, MatmulCountsEveryMultiplicationAndAddition) {
  EXPECT_EQ(flopsOf("%a: tensor<4x8xf32>, %b: tensor<8x16xf32>",
                    "%y = tfm.matmul %a, %b : tensor<4x8xf32>, "
                    "tensor<8x16xf32>"),
            2 * 4 * 8 * 16);
  EXPECT_EQ(flopsOf("%a: tensor<3x8x4xf32>, %b: tensor<3x16x8xf32>",
                    "%y = tfm.matmul %a, %b transpose_a transpose_b : "
                    "tensor<3x8x4xf32>, tensor<3x16x8xf32>"),
            2 * 3 * 4 * 8 * 16);
}

TEST(Flops, AttentionCountsThePairsThatItSees) {
  int64_t each = 2 * 16 + 2 * 4 + 5;
  auto attention = [&](const char *attributes) {
    return flopsOf(attentionArguments,
                   std::string("%o, %l = tfm.attention %q, %k, %v {") +
                       attributes + "scale = 0.25 : f64}" + attentionTypes);
  };
  EXPECT_EQ(attention(""), 6 * 64 * each);
  EXPECT_EQ(attention("causal, "), 6 * 36 * each);
  // Of window 2, the first query sees one key and seven see two.
  EXPECT_EQ(attention("causal, window = 2 : i64, "), 6 * 15 * each);
  EXPECT_EQ(attention("softcap = 50.0 : f64, "), 6 * 64 * (each + 3));
}

// Queries behind the last key see all of them.
TEST(Flops, AttentionOfMoreQueriesThanKeys) {
  EXPECT_EQ(flopsOf("%q: tensor<1x3x8x16xf32>, %k: tensor<1x3x4x16xf32>",
                    "%o, %l = tfm.attention %q, %k, %k {causal, scale = 0.25 : "
                    "f64} : tensor<1x3x8x16xf32>, tensor<1x3x4x16xf32>, "
                    "tensor<1x3x4x16xf32>"),
            3 * (1 + 2 + 3 + 5 * 4) * (4 * 16 + 5));
}

// Of a cache the most that there can be: it is full, and the queries are the
// last of it.
TEST(Flops, AttentionToACacheCountsAFullOne) {
  const char *arguments = "%q: tensor<1x3x2x16xf32>, %k: tensor<1x3x8x16xf32>, "
                          "%at: tensor<1xi32>, %b: tensor<3x8xf32>";
  const char *types = " : tensor<1x3x2x16xf32>, tensor<1x3x8x16xf32>, "
                      "tensor<1x3x8x16xf32>";
  auto attention = [&](const std::string &operands) {
    return flopsOf(arguments, "%o, %l = tfm.attention %q, %k, %k " + operands +
                                  " {causal, scale = 0.25 : f64}" + types);
  };
  EXPECT_EQ(attention("start(%at : tensor<1xi32>)"),
            3 * (7 + 8) * (4 * 16 + 5));
  EXPECT_EQ(
      attention("start(%at : tensor<1xi32>) distance(%b : tensor<3x8xf32>)"),
      3 * (7 + 8) * (4 * 16 + 5 + 1));
}

// The scores again, and three products more of each pair and one that is as
// long as values; of each query the product of what comes out with its
// cotangent.
TEST(Flops, AttentionBackwardCountsThePairsThatItSees) {
  auto backward = [](const std::string &operands, const std::string &attributes,
                     const std::string &results) {
    return flopsOf(
        "%q: tensor<2x3x8x16xf32>, %v: tensor<2x3x8x4xf32>, "
        "%l: tensor<2x3x8xf32>, %b: tensor<3x8xf32>",
        (results.empty() ? "%dq, %dk, %dv" : "%dq, %dk, %dv, %db") +
            std::string(" = tfm.attention_backward %q, %q, %v, %v, %l, %v ") +
            operands + " {" + attributes +
            "causal, scale = 0.25 : f64} : (tensor<2x3x8x16xf32>, "
            "tensor<2x3x8x16xf32>, tensor<2x3x8x4xf32>, tensor<2x3x8x4xf32>, "
            "tensor<2x3x8xf32>, tensor<2x3x8x4xf32>) -> "
            "(tensor<2x3x8x16xf32>, tensor<2x3x8x16xf32>, "
            "tensor<2x3x8x4xf32>)" +
            results);
  };
  int64_t pairs = 6 * 36, each = 6 * 16 + 4 * 4 + 6, rows = 6 * 8 * 2 * 4;
  EXPECT_EQ(backward("", "", ""), pairs * each + rows);
  EXPECT_EQ(backward("", "softcap = 50.0 : f64, ", ""),
            pairs * (each + 6) + rows);
  // The biases are added again, and have a derivative.
  EXPECT_EQ(backward("distance(%b : tensor<3x8xf32>)", "",
                     " distance tensor<3x8xf32>"),
            pairs * (each + 2) + rows);
}

TEST(Flops, ElementwiseAndRows) {
  const std::string x = "%x: tensor<4x8xf32>";
  EXPECT_EQ(flopsOf(x, "%y = tfm.add %x, %x : tensor<4x8xf32>"), 32);
  EXPECT_EQ(flopsOf(x, "%y = tfm.gelu_tanh %x : tensor<4x8xf32>"), 9 * 32);
  EXPECT_EQ(flopsOf(x, "%y = tfm.softmax %x : tensor<4x8xf32>"), 5 * 32);
  EXPECT_EQ(flopsOf(x, "%y = tfm.reduce_sum %x axis 1 : tensor<4x8xf32>"), 32);
  EXPECT_EQ(flopsOf(x, "%y = tfm.cumsum %x axis 1 : tensor<4x8xf32>"), 32);
  EXPECT_EQ(flopsOf(x, "%y = tfm.scan %x, %x axis 1 : tensor<4x8xf32>"), 64);
  EXPECT_EQ(flopsOf(x, "%y = tfm.shift %x axis 1 by 1 : tensor<4x8xf32>"), 0);
  EXPECT_EQ(flopsOf(x, "%v, %i = tfm.top_k %x, 3 : tensor<4x8xf32>"), 3 * 32);
  EXPECT_EQ(flopsOf(x, "%y = tfm.reshape %x : tensor<4x8xf32> to "
                       "tensor<32xf32>"),
            0);
  EXPECT_EQ(
      flopsOf("%x: tensor<4x8xi32>", "%y = tfm.add %x, %x : tensor<4x8xi32>"),
      0);
}

TEST(Flops, RepeatMultipliesItsBody) {
  const std::string repeat = R"(
    %y = tfm.repeat 5 carried(%x : tensor<4x8xf32>) stacked() shared()
        -> (tensor<4x8xf32>) {
    ^bb0(%layer: index, %h: tensor<4x8xf32>):
      %z = tfm.repeat 3 carried(%h : tensor<4x8xf32>) stacked() shared()
          -> (tensor<4x8xf32>) {
      ^bb0(%inner: index, %g: tensor<4x8xf32>):
        %s = tfm.add %g, %g : tensor<4x8xf32>
        tfm.yield %s : tensor<4x8xf32>
      }
      tfm.yield %z : tensor<4x8xf32>
    })";
  EXPECT_EQ(flopsOf("%x: tensor<4x8xf32>", repeat), 5 * 3 * 32);
}

// What a product multiplies is its own; other ops are no products, and a layer
// counts as often as it runs.
TEST(Flops, ProductsCountByTheTypeOfTheirOperands) {
  using Counts = std::map<std::string, int64_t>;
  EXPECT_EQ(
      counted("%a: tensor<4x8xf32>, %b: tensor<8x8xf32>, "
              "%c: tensor<4x8xbf16>, %d: tensor<8x16xbf16>",
              "%x = tfm.matmul %a, %b : tensor<4x8xf32>, tensor<8x8xf32>\n"
              "%y = tfm.add %x, %x : tensor<4x8xf32>\n"
              "%z = tfm.matmul %c, %d : tensor<4x8xbf16>, tensor<8x16xbf16>",
              tfm::countProducts),
      (Counts{{"f32", 2 * 4 * 8 * 8}, {"bf16", 2 * 4 * 8 * 16}}));
  EXPECT_EQ(counted(attentionArguments,
                    std::string("%o, %l = tfm.attention %q, %k, %v "
                                "{causal, scale = 0.25}") +
                        attentionTypes,
                    tfm::countProducts),
            (Counts{{"f32", 2 * 3 * 36 * (2 * 16 + 2 * 4 + 5)}}));
  EXPECT_EQ(counted("%a: tensor<8x8xf32>",
                    "%r = tfm.repeat 3 carried(%a : tensor<8x8xf32>) stacked() "
                    "shared() -> (tensor<8x8xf32>) {\n"
                    "^bb0(%i: index, %x: tensor<8x8xf32>):\n"
                    "%y = tfm.matmul %x, %x : tensor<8x8xf32>, "
                    "tensor<8x8xf32>\n tfm.yield %y : tensor<8x8xf32>\n}",
                    tfm::countProducts),
            (Counts{{"f32", 3 * 2 * 8 * 8 * 8}}));
}
