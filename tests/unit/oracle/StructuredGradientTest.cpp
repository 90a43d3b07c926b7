//===- StructuredGradientTest.cpp - derivatives of all other ops --------- ===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tests/unit/oracle/Gradients.h"

#include "llvm/Support/FormatVariadic.h"
#include "gtest/gtest.h"

using namespace tfm::oracle;

namespace {

std::string tensor(llvm::ArrayRef<int64_t> shape,
                   llvm::StringRef element = "f32") {
  return "tensor<" + spell(shape, element) + ">";
}

/// `@f` of `arguments` that returns `%y`, of `type`.
std::string program(const std::string &arguments, const std::string &body,
                    const std::string &type) {
  return "func.func @f(" + arguments + ") -> " + type + " {\n  " + body +
         "\n  return %y : " + type + "\n}\n";
}

template <typename... Args>
std::string format(const char *text, const Args &...args) {
  return llvm::formatv(text, args...).str();
}

//===----------------------------------------------------------------------===//
// Shapes
//===----------------------------------------------------------------------===//

TEST(ShapeGradient, Broadcast) {
  using Shape = std::vector<int64_t>;
  const std::pair<Shape, Shape> cases[] = {
      {{}, {3, 5}},
      {{}, {1}},
      {{5}, {3, 5}},
      {{5}, {2, 3, 5}},
      {{1}, {7}},
      {{3, 1}, {2, 3, 7}},
      {{1, 5}, {3, 5}},
      {{2, 1, 3, 1}, {2, 5, 3, 7}},
      {{1, 1, 3}, {2, 1, 3}},
      {{3, 5}, {3, 5}},
  };
  for (const auto &[from, to] : cases)
    expectGradients(program("%x: " + tensor(from),
                            format("%z = tfm.broadcast %x : {0} to {1}\n"
                                   "%y = tfm.mul %z, %z : {1}",
                                   tensor(from), tensor(to)),
                            tensor(to)));
}

TEST(ShapeGradient, Reshape) {
  expectGradients(program("%x: tensor<3x1x7xf32>",
                          "%z = tfm.reshape %x : tensor<3x1x7xf32> to "
                          "tensor<7x3xf32>\n%y = tfm.exp %z : tensor<7x3xf32>",
                          "tensor<7x3xf32>"));
}

TEST(ShapeGradient, Transpose) {
  expectGradients(program("%x: tensor<2x3x5xf32>",
                          "%z = tfm.transpose %x [2, 0, 1] : "
                          "tensor<2x3x5xf32>\n%y = tfm.exp %z : "
                          "tensor<5x2x3xf32>",
                          "tensor<5x2x3xf32>"));
}

TEST(ShapeGradient, SliceAndPad) {
  for (int64_t start : {0, 2, 4})
    expectGradients(program(
        "%x: tensor<3x7xf32>",
        format("%z = tfm.slice %x axis 1 start {0} size 3 : tensor<3x7xf32>\n"
               "%y = tfm.exp %z : tensor<3x3xf32>",
               start),
        "tensor<3x3xf32>"));
  expectGradients(program("%x: tensor<3x2xf32>",
                          "%z = tfm.pad %x axis 0 low 1 high 2 : "
                          "tensor<3x2xf32>\n%y = tfm.exp %z : tensor<6x2xf32>",
                          "tensor<6x2xf32>"));
}

TEST(ShapeGradient, Concat) {
  expectGradients(program("%a: tensor<2x1xf32>, %b: tensor<2x3xf32>",
                          "%z = tfm.concat %a, %b, %a axis 1 : "
                          "tensor<2x1xf32>, tensor<2x3xf32>, tensor<2x1xf32>\n"
                          "%y = tfm.exp %z : tensor<2x5xf32>",
                          "tensor<2x5xf32>"));
}

//===----------------------------------------------------------------------===//
// Reductions, normalisations, cross entropy
//===----------------------------------------------------------------------===//

class ReduceGradient : public testing::TestWithParam<const char *> {};
TEST_P(ReduceGradient, EveryAxis) {
  std::mt19937 random(3);
  for (int64_t axis = 0; axis < 3; ++axis) {
    std::vector<int64_t> shape = randomShape(random, 3), reduced = shape;
    reduced[axis] = 1;
    expectGradients(
        program("%x: " + tensor(shape),
                format("%z = tfm.{0} %x axis {1} : {2}\n"
                       "%y = tfm.mul %z, %z : {3}",
                       GetParam(), axis, tensor(shape), tensor(reduced)),
                tensor(reduced)));
  }
}
INSTANTIATE_TEST_SUITE_P(All, ReduceGradient,
                         testing::Values("reduce_sum", "reduce_max"));

TEST(ReduceMaxGradient, EqualMaximaShare) {
  TestModule test(program("%x: tensor<2x3xf32>",
                          "%y = tfm.reduce_max %x axis 1 : tensor<2x3xf32>",
                          "tensor<2x1xf32>"));
  auto gradients = evaluateOrFail(
      addVJP(test.function("f"), "g"),
      {Tensor({2, 3}, {1, 4, 4, 7, 5, 6}), Tensor({2, 1}, {6.0, 10.0})});
  ASSERT_EQ(gradients.size(), 1u);
  EXPECT_EQ(gradients[0].data, (std::vector<double>{0, 3, 3, 10, 0, 0}));
}

class RowGradient : public testing::TestWithParam<const char *> {};
TEST_P(RowGradient, RandomShapes) {
  std::mt19937 random(5);
  for (int64_t rank = 1; rank <= 3; ++rank) {
    std::string type = tensor(randomShape(random, rank));
    expectGradients(program(
        "%x: " + type, format("%y = tfm.{0} : {1}", GetParam(), type), type));
  }
}
INSTANTIATE_TEST_SUITE_P(All, RowGradient,
                         testing::Values("softmax %x", "log_softmax %x",
                                         "normalize %x eps 1.0e-2",
                                         "rms_normalize %x eps 1.0e-2"));

TEST(CrossEntropyGradient, IgnoredTargetsAndSmoothing) {
  for (const char *attributes :
       {"", "{ignore = 2 : i64}", "{label_smoothing = 0.1 : f64}",
        "{ignore = 0 : i64, label_smoothing = 0.3 : f64}"})
    expectGradients(
        program("%logits: tensor<2x3x5xf32>, %targets: tensor<2x3xi32> "
                "{test.limit = 5}",
                format("%y, %lse = tfm.cross_entropy %logits, %targets {0} : "
                       "tensor<2x3x5xf32>, tensor<2x3xi32>",
                       attributes),
                "tensor<2x3xf32>"));
}

TEST(CrossEntropyGradient, OfItsLogSumExp) {
  expectGradients(program(
      "%logits: tensor<3x7xf32>, %targets: tensor<3xi32> {test.limit = 7}",
      "%l, %lse = tfm.cross_entropy %logits, %targets : tensor<3x7xf32>, "
      "tensor<3xi32>\n%y = tfm.mul %l, %lse : tensor<3xf32>",
      "tensor<3xf32>"));
}

//===----------------------------------------------------------------------===//
// Matrix product, embedding
//===----------------------------------------------------------------------===//

TEST(MatmulGradient, EveryTransposition) {
  for (bool ta : {false, true})
    for (bool tb : {false, true})
      for (int64_t rank : {2, 3, 4}) {
        std::mt19937 random(rank);
        std::vector<int64_t> batch = randomShape(random, rank - 2);
        auto matrix = [&](int64_t rows, int64_t columns, bool transposed) {
          std::vector<int64_t> shape = batch;
          shape.push_back(transposed ? columns : rows);
          shape.push_back(transposed ? rows : columns);
          return tensor(shape);
        };
        std::string a = matrix(3, 5, ta), b = matrix(5, 2, tb);
        expectGradients(program(
            format("%a: {0}, %b: {1}", a, b),
            format("%y = tfm.matmul %a, %b {0} {1} : {2}, {3}",
                   ta ? "transpose_a" : "", tb ? "transpose_b" : "", a, b),
            matrix(3, 2, false)));
      }
}

TEST(MatmulGradient, SizesOfOne) {
  expectGradients(program("%a: tensor<1x1xf32>, %b: tensor<1x7xf32>",
                          "%y = tfm.matmul %a, %b : tensor<1x1xf32>, "
                          "tensor<1x7xf32>",
                          "tensor<1x7xf32>"));
}

// Ids repeat: 6 of 5 rows.
TEST(GatherGradient, RepeatedIds) {
  expectGradients(program(
      "%table: tensor<5x3xf32>, %ids: tensor<2x3xi32> {test.limit = 5}",
      "%z = tfm.gather %table, %ids : tensor<5x3xf32>, tensor<2x3xi32>\n"
      "%y = tfm.exp %z : tensor<2x3x3xf32>",
      "tensor<2x3x3xf32>"));
}

TEST(ScatterAddGradient, RepeatedIds) {
  expectGradients(program(
      "%base: tensor<5x2xf32>, %ids: tensor<7xi32> {test.limit = 5}, "
      "%updates: tensor<7x2xf32>",
      "%z = tfm.scatter_add %base, %ids, %updates : tensor<5x2xf32>, "
      "tensor<7xi32>, tensor<7x2xf32>\n%y = tfm.exp %z : tensor<5x2xf32>",
      "tensor<5x2xf32>"));
}

//===----------------------------------------------------------------------===//
// Attention, rotary embedding, dropout
//===----------------------------------------------------------------------===//

struct AttentionCase {
  const char *name;
  const char *attributes;
  int64_t heads = 2, kvHeads = 2, queries = 5, keys = 5, width = 3, value = 3;
  /// The mask's type, or nothing.
  const char *mask = "";
};

class AttentionGradient : public testing::TestWithParam<AttentionCase> {};
TEST_P(AttentionGradient, AgreesWithDifferences) {
  const AttentionCase &c = GetParam();
  std::string q = tensor({2, c.heads, c.queries, c.width}),
              k = tensor({2, c.kvHeads, c.keys, c.width}),
              v = tensor({2, c.kvHeads, c.keys, c.value});
  std::string mask = c.mask, arguments, types = q + ", " + k + ", " + v;
  arguments = format("%q: {0}, %k: {1}, %v: {2}", q, k, v);
  if (!mask.empty()) {
    arguments += ", %m: " + mask;
    types += ", " + mask;
  }
  Environment environment;
  environment.seedLow = 3;
  expectGradients(
      program(arguments,
              format("%y, %lse = tfm.attention %q, %k, %v {0} {1} : {2}",
                     mask.empty() ? "" : "mask %m", c.attributes, types),
              tensor({2, c.heads, c.queries, c.value})),
      1, environment);
}
INSTANTIATE_TEST_SUITE_P(
    All, AttentionGradient,
    testing::Values(
        AttentionCase{"plain", "{scale = 0.7 : f64}"},
        AttentionCase{"causal", "{causal, scale = 0.7 : f64}"},
        AttentionCase{"window",
                      "{causal, scale = 0.7 : f64, window = 2 : i64}"},
        AttentionCase{"softcap",
                      "{causal, scale = 0.7 : f64, softcap = 0.5 : f64}"},
        AttentionCase{"grouped", "{causal, scale = 0.7 : f64}", 6, 2, 3, 3},
        AttentionCase{"cross", "{scale = 0.7 : f64}", 2, 1, 3, 7, 3, 5},
        AttentionCase{"one", "{scale = 1.0 : f64}", 1, 1, 1, 1, 1, 1},
        AttentionCase{
            "dropout",
            "{causal, scale = 0.7 : f64, dropout = 0.3 : f64, site = 2 : i64}"},
        AttentionCase{"bool_mask", "{scale = 0.7 : f64}", 2, 2, 5, 5, 3, 3,
                      "tensor<2x1x5x5xi1>"},
        AttentionCase{"float_mask", "{scale = 0.7 : f64, softcap = 2.0 : f64}",
                      2, 2, 5, 5, 3, 3, "tensor<2x2x5x5xf32>"},
        AttentionCase{"shared_float_mask", "{causal, scale = 0.7 : f64}", 2, 2,
                      5, 5, 3, 3, "tensor<1x2x5x5xf32>"},
        AttentionCase{"everything",
                      "{causal, scale = 0.7 : f64, window = 3 : i64, softcap = "
                      "1.5 : f64, dropout = 0.2 : f64, site = 1 : i64}",
                      4, 2, 5, 5, 2, 3, "tensor<1x1x5x5xf32>"}),
    [](const auto &info) { return std::string(info.param.name); });

TEST(RopeGradient, EveryLayout) {
  for (const char *attributes :
       {"{base = 100.0 : f64, dims = 6 : i64}",
        "{base = 100.0 : f64, dims = 4 : i64}",
        "{base = 100.0 : f64, dims = 6 : i64, interleaved}",
        "{base = 100.0 : f64, dims = 2 : i64, interleaved, inverse}"})
    expectGradients(program(
        "%x: tensor<2x3x5x6xf32>, %p: tensor<2x5xi32> {test.limit = 50}",
        format(
            "%y = tfm.rope %x, %p {0} : tensor<2x3x5x6xf32>, tensor<2x5xi32>",
            attributes),
        "tensor<2x3x5x6xf32>"));
}

TEST(DropoutGradient, DropsTheSameElements) {
  Environment environment;
  environment.seedLow = 5;
  environment.counter = 9;
  expectGradients(program("%x: tensor<3x70xf32>",
                          "%z = tfm.dropout %x {rate = 0.4 : f64, site = 3 : "
                          "i64} : tensor<3x70xf32>\n%y = tfm.exp %z : "
                          "tensor<3x70xf32>",
                          "tensor<3x70xf32>"),
                  0, environment);
}

} // namespace
