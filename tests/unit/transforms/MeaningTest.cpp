//===- MeaningTest.cpp - passes keep what a program computes --------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/dialect/TfmDialect.h"
#include "compiler/transforms/Passes.h"
#include "tests/unit/oracle/Gradients.h"

#include "mlir/Pass/PassManager.h"
#include "gtest/gtest.h"

#include <cmath>
#include <limits>

using namespace tfm;
using namespace tfm::oracle;

namespace {

void run(TestModule &test, llvm::StringRef pipeline) {
  registerTfmTransformsPasses();
  mlir::PassManager passes(test.context.get());
  ASSERT_TRUE(mlir::succeeded(mlir::parsePassPipeline(pipeline, passes)));
  ASSERT_TRUE(mlir::succeeded(passes.run(*test.module)));
}

/// Expects that `@f` gives the same results after `pipeline`, to the rounding
/// of its f32 constants.
void expectSameMeaning(llvm::StringRef text, llvm::StringRef pipeline) {
  SCOPED_TRACE(text.str());
  TestModule before(text), after(text);
  ASSERT_TRUE(before.function("f"));
  run(after, pipeline);
  std::mt19937 random(1);
  auto inputs = randomInputs(before.function("f"), random);
  auto expected = evaluateOrFail(before.function("f"), inputs);
  auto found = evaluateOrFail(after.function("f"), inputs);
  ASSERT_EQ(expected.size(), found.size());
  for (auto [a, b] : llvm::zip_equal(found, expected))
    EXPECT_LE(relativeError(a, b), 2e-7);
}

/// A language model of two layers with a tied table, dropout and masks: every
/// pass has something to do in it.
const char *const languageModel = R"(
  tfm.param @wte : tensor<11x8xf32> {init = {kind = "zeros"}}
  tfm.param @"h.*.w" : tensor<2x8x24xf32> {init = {kind = "zeros"}}
  tfm.param @"h.*.g" : tensor<2x8xf32> {init = {kind = "zeros"}}
  tfm.param @frozen : tensor<8xf32> {init = {kind = "zeros"}, trainable = false}
  tfm.param @unused : tensor<3xf32> {init = {kind = "zeros"}}
  func.func @loss(%tokens: tensor<2x4xi32> {test.limit = 11},
                  %targets: tensor<2x4xi32> {test.limit = 11},
                  %count: tensor<f32> {test.positive})
      -> (tensor<f32>, tensor<2x4xf32>) {
    %wte = tfm.get_param @wte : tensor<11x8xf32>
    %w = tfm.get_param @"h.*.w" : tensor<2x8x24xf32>
    %g = tfm.get_param @"h.*.g" : tensor<2x8xf32>
    %frozen = tfm.get_param @frozen : tensor<8xf32>
    %e = tfm.gather %wte, %tokens : tensor<11x8xf32>, tensor<2x4xi32>
    %y = tfm.repeat 2 carried(%e : tensor<2x4x8xf32>)
        stacked(%w, %g : tensor<2x8x24xf32>, tensor<2x8xf32>)
        shared(%frozen, %wte : tensor<8xf32>, tensor<11x8xf32>) -> (tensor<2x4x8xf32>) {
    ^bb0(%layer: index, %x: tensor<2x4x8xf32>, %wl: tensor<8x24xf32>, %gl: tensor<8xf32>,
         %fl: tensor<8xf32>, %table: tensor<11x8xf32>):
      %n = tfm.normalize %x eps 1.0e-5 : tensor<2x4x8xf32>
      %gb = tfm.broadcast %gl : tensor<8xf32> to tensor<2x4x8xf32>
      %m0 = tfm.mul %n, %gb : tensor<2x4x8xf32>
      %fb = tfm.broadcast %fl : tensor<8xf32> to tensor<2x4x8xf32>
      %m = tfm.add %m0, %fb : tensor<2x4x8xf32>
      %mr = tfm.reshape %m : tensor<2x4x8xf32> to tensor<8x8xf32>
      %qkv = tfm.matmul %mr, %wl : tensor<8x8xf32>, tensor<8x24xf32>
      %q0 = tfm.slice %qkv axis 1 start 0 size 8 : tensor<8x24xf32>
      %k0 = tfm.slice %qkv axis 1 start 8 size 8 : tensor<8x24xf32>
      %v0 = tfm.slice %qkv axis 1 start 16 size 8 : tensor<8x24xf32>
      %q1 = tfm.reshape %q0 : tensor<8x8xf32> to tensor<2x4x2x4xf32>
      %k1 = tfm.reshape %k0 : tensor<8x8xf32> to tensor<2x4x2x4xf32>
      %v1 = tfm.reshape %v0 : tensor<8x8xf32> to tensor<2x4x2x4xf32>
      %q = tfm.transpose %q1 [0, 2, 1, 3] : tensor<2x4x2x4xf32>
      %k = tfm.transpose %k1 [0, 2, 1, 3] : tensor<2x4x2x4xf32>
      %v = tfm.transpose %v1 [0, 2, 1, 3] : tensor<2x4x2x4xf32>
      %o, %lse = tfm.attention %q, %k, %v layer %layer
          {causal, scale = 0.5 : f64, dropout = 0.1 : f64, site = 0 : i64}
          : tensor<2x2x4x4xf32>, tensor<2x2x4x4xf32>, tensor<2x2x4x4xf32>
      %o1 = tfm.transpose %o [0, 2, 1, 3] : tensor<2x2x4x4xf32>
      %o2 = tfm.reshape %o1 : tensor<2x4x2x4xf32> to tensor<2x4x8xf32>
      %ge = tfm.gelu_tanh %o2 : tensor<2x4x8xf32>
      %d = tfm.dropout %ge layer %layer {rate = 0.1 : f64, site = 3 : i64} : tensor<2x4x8xf32>
      %z = tfm.add %x, %d : tensor<2x4x8xf32>
      tfm.yield %z : tensor<2x4x8xf32>
    }
    %n = tfm.rms_normalize %y eps 1.0e-5 : tensor<2x4x8xf32>
    %yr = tfm.reshape %n : tensor<2x4x8xf32> to tensor<8x8xf32>
    %l = tfm.matmul %yr, %wte transpose_b : tensor<8x8xf32>, tensor<11x8xf32>
    %lr = tfm.reshape %l : tensor<8x11xf32> to tensor<2x4x11xf32>
    %losses, %lse = tfm.cross_entropy %lr, %targets {ignore = 3 : i64}
        : tensor<2x4x11xf32>, tensor<2x4xi32>
    %f = tfm.reshape %losses : tensor<2x4xf32> to tensor<8xf32>
    %s = tfm.reduce_sum %f axis 0 : tensor<8xf32>
    %s0 = tfm.reshape %s : tensor<1xf32> to tensor<f32>
    %loss = tfm.div %s0, %count : tensor<f32>
    return %loss, %losses : tensor<f32>, tensor<2x4xf32>
  })";

Environment randomEnvironment(const TestModule &test) {
  Environment environment;
  environment.seedLow = 42;
  std::mt19937 random(9);
  std::normal_distribution<double> normal(0.0, 0.5);
  for (auto param : test.module.get().getOps<ParamOp>()) {
    Tensor value(param.getTensorType().getShape());
    for (double &x : value.data)
      x = normal(random);
    environment.parameters[param.getSymName()] = value;
  }
  return environment;
}

// The gradients of @train are those of @loss by central differences, and
// simplifying and decomposing change nothing.
TEST(Train, GradientsOfALanguageModel) {
  TestModule loss(languageModel), plain(languageModel), short_(languageModel);
  run(plain, "tfm-differentiate");
  run(short_, "tfm-differentiate,tfm-simplify,tfm-decompose,tfm-simplify");
  Environment environment = randomEnvironment(loss);
  std::mt19937 random(2);
  auto inputs = randomInputs(loss.function("loss"), random);
  auto exact = evaluateOrFail(plain.function("train"), inputs, environment);
  auto simplified =
      evaluateOrFail(short_.function("train"), inputs, environment);
  ASSERT_EQ(exact.size(), 6u);
  ASSERT_EQ(simplified.size(), 6u);
  for (int i = 0; i < 5; ++i)
    EXPECT_LE(relativeError(simplified[i], exact[i]), 1e-6) << "result " << i;
  EXPECT_EQ(simplified[5].data, (std::vector<double>{0, 0, 0}));

  mlir::func::FuncOp train = plain.function("train");
  for (unsigned i = 2; i < train.getNumResults(); ++i) {
    auto param =
        train.getResultAttrOfType<mlir::FlatSymbolRefAttr>(i, "tfm.gradient");
    ASSERT_TRUE(param);
    Tensor &value = environment.parameters[param.getValue()];
    ASSERT_EQ(exact[i].shape, value.shape);
    for (int64_t j = 0; j < value.size(); j += 5) {
      const double h = 1e-3, centre = value.data[j];
      auto at = [&](double shift) {
        value.data[j] = centre + shift;
        double result =
            evaluateOrFail(loss.function("loss"), inputs, environment)[0]
                .data[0];
        value.data[j] = centre;
        return result;
      };
      double expected =
          (8 * (at(h) - at(-h)) - (at(2 * h) - at(-2 * h))) / (12 * h);
      // The derivative's constants (1/8, eps) are rounded to f32.
      EXPECT_NEAR(exact[i].data[j], expected, 1e-6 * std::abs(expected) + 1e-7)
          << param.getValue().str() << " element " << j;
    }
  }
}

// Eight rows in four chunks, and in eight.
TEST(ChunkLoss, GivesTheSameLossAndGradients) {
  for (const char *chunks : {"2", "1"}) {
    TestModule whole(languageModel), chunked(languageModel);
    run(whole, "tfm-differentiate");
    run(chunked, std::string("tfm-differentiate,tfm-simplify,"
                             "tfm-chunk-loss{trained=") +
                     chunks + "}");
    ASSERT_EQ(
        llvm::range_size(
            chunked.function("train").getBody().front().getOps<RepeatOp>()),
        3);
    Environment environment = randomEnvironment(whole);
    std::mt19937 random(2);
    auto inputs = randomInputs(whole.function("train"), random);
    auto expected =
        evaluateOrFail(whole.function("train"), inputs, environment);
    auto found = evaluateOrFail(chunked.function("train"), inputs, environment);
    ASSERT_EQ(found.size(), expected.size());
    for (size_t i = 0; i < 5; ++i)
      EXPECT_LE(relativeError(found[i], expected[i]), 1e-6) << "result " << i;
  }
}

TEST(StripDropout, EvaluateIsLossWithoutIt) {
  TestModule test(languageModel);
  run(test, "tfm-strip-dropout");
  Environment environment = randomEnvironment(test);
  std::mt19937 random(2);
  auto inputs = randomInputs(test.function("loss"), random);
  auto stripped =
      evaluateOrFail(test.function("evaluate"), inputs, environment);
  auto dropped = evaluateOrFail(test.function("loss"), inputs, environment);
  EXPECT_NE(stripped[0].data, dropped[0].data);
  // Masks that keep everything leave the scale 1 / (1 - rate): undo it.
  TestModule noRate([] {
    std::string text = languageModel;
    for (size_t at; (at = text.find("= 0.1 : f64")) != std::string::npos;)
      text.replace(at, 11, "= 0.0 : f64");
    return text;
  }());
  auto expected = evaluateOrFail(noRate.function("loss"), inputs, environment);
  EXPECT_EQ(stripped[0].data, expected[0].data);
  EXPECT_EQ(stripped[1].data, expected[1].data);
}

TEST(Decompose, RowOps) {
  for (const char *op :
       {"softmax %x", "log_softmax %x", "normalize %x eps 1.0e-3",
        "rms_normalize %x eps 1.0e-3"})
    for (const char *shape : {"1", "7", "3x5", "2x1x3"}) {
      std::string type = std::string("tensor<") + shape + "xf32>";
      expectSameMeaning("func.func @f(%x: " + type + ") -> " + type +
                            " {\n%y = tfm." + op + " : " + type +
                            "\nreturn %y : " + type + "\n}",
                        "tfm-decompose,tfm-simplify");
    }
}

TEST(Decompose, CrossEntropyAndItsDerivative) {
  for (const char *attributes :
       {"", "{ignore = 2 : i64}", "{label_smoothing = 0.2 : f64}",
        "{ignore = 1 : i64, label_smoothing = 0.2 : f64}"})
    expectSameMeaning(
        std::string(R"(
      func.func @f(%x: tensor<2x3x5xf32>, %t: tensor<2x3xi32> {test.limit = 5},
                   %d: tensor<2x3xf32>)
          -> (tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3x5xf32>) {
        %l, %lse = tfm.cross_entropy %x, %t )") +
            attributes + R"( : tensor<2x3x5xf32>, tensor<2x3xi32>
        %g = tfm.cross_entropy_backward %x, %t, %lse, %d )" +
            attributes +
            R"( : tensor<2x3x5xf32>, tensor<2x3xi32>, tensor<2x3xf32>
        return %l, %lse, %g : tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3x5xf32>
      })",
        "tfm-decompose,tfm-simplify");
}

TEST(Decompose, Rotations) {
  for (const char *attributes :
       {"dims = 8 : i64", "dims = 4 : i64", "dims = 8 : i64, interleaved",
        "dims = 6 : i64, interleaved, inverse", "dims = 8 : i64, inverse",
        "dims = 8 : i64, amplitude = 1.25 : f64",
        "dims = 4 : i64, frequencies = array<f64: 0.75, 0.125>"})
    for (const char *element : {"f32", "f64"}) {
      std::string type = std::string("tensor<2x3x5x8x") + element + ">";
      expectSameMeaning(
          "func.func @f(%x: " + type +
              ", %p: tensor<2x5xi32> {test.limit = 9}) -> " + type +
              " {\n%y = tfm.rope %x, %p {base = 10.0 : f64, " + attributes +
              "} : " + type + ", tensor<2x5xi32>\nreturn %y : " + type + "\n}",
          "tfm-decompose,tfm-simplify");
    }
}

// Minus infinity throughout a row gives zeros, and in part of it the rest.
TEST(Decompose, SoftmaxOfMinusInfinity) {
  TestModule test(R"(
    func.func @f(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
      %y = tfm.softmax %x : tensor<2x3xf32>
      return %y : tensor<2x3xf32>
    })");
  run(test, "tfm-decompose");
  const double none = -std::numeric_limits<double>::infinity();
  auto results = evaluateOrFail(
      test.function("f"), {Tensor({2, 3}, {none, none, none, 1, none, 1})});
  EXPECT_EQ(results[0].data, (std::vector<double>{0, 0, 0, 0.5, 0, 0.5}));
}

TEST(Simplify, KeepsTheMeaningOfEveryRewrite) {
  // Sums of pads: tiling in any order, with a further term, and not tiling.
  const char *const bodies[] = {
      R"(%p = tfm.pad %a axis 1 low 3 high 2 : tensor<2x2xf32>
         %q = tfm.pad %b axis 1 low 0 high 4 : tensor<2x3xf32>
         %r = tfm.pad %a axis 1 low 5 high 0 : tensor<2x2xf32>
         %s = tfm.add %p, %q : tensor<2x7xf32>
         %t = tfm.add %s, %c : tensor<2x7xf32>
         %y = tfm.add %t, %r : tensor<2x7xf32>)",
      R"(%p = tfm.pad %a axis 1 low 4 high 1 : tensor<2x2xf32>
         %q = tfm.pad %b axis 1 low 0 high 4 : tensor<2x3xf32>
         %s = tfm.add %p, %q : tensor<2x7xf32>
         %y = tfm.add %s, %c : tensor<2x7xf32>)",
      R"(%n = tfm.neg %c : tensor<2x7xf32>
         %e = tfm.exp %c : tensor<2x7xf32>
         %s = tfm.add %n, %e : tensor<2x7xf32>
         %m = tfm.neg %s : tensor<2x7xf32>
         %y = tfm.sub %e, %m : tensor<2x7xf32>)",
      R"(%k = tfm.constant dense<3.0> : tensor<2x7xf32>
         %l = tfm.constant dense<0.5> : tensor<2x7xf32>
         %kl = tfm.mul %k, %l : tensor<2x7xf32>
         %s = tfm.mul %k, %c : tensor<2x7xf32>
         %t = tfm.mul %s, %l : tensor<2x7xf32>
         %y = tfm.add %t, %kl : tensor<2x7xf32>)",
      R"(%r = tfm.reduce_sum %c axis 1 : tensor<2x7xf32>
         %b0 = tfm.broadcast %r : tensor<2x1xf32> to tensor<2x7xf32>
         %s = tfm.reduce_sum %b0 axis 1 : tensor<2x7xf32>
         %m = tfm.reduce_max %b0 axis 1 : tensor<2x7xf32>
         %o = tfm.reduce_sum %m axis 1 : tensor<2x1xf32>
         %so = tfm.add %s, %o : tensor<2x1xf32>
         %y = tfm.broadcast %so : tensor<2x1xf32> to tensor<2x7xf32>)",
      R"(%r = tfm.reduce_sum %c axis 0 : tensor<2x7xf32>
         %f = tfm.reshape %r : tensor<1x7xf32> to tensor<7xf32>
         %g = tfm.broadcast %f : tensor<7xf32> to tensor<2x7xf32>
         %s = tfm.reduce_sum %g axis 0 : tensor<2x7xf32>
         %y = tfm.broadcast %s : tensor<1x7xf32> to tensor<2x7xf32>)",
      R"(%k = tfm.concat %a, %b, %a axis 1 : tensor<2x2xf32>, tensor<2x3xf32>, tensor<2x2xf32>
         %u = tfm.slice %k axis 1 start 2 size 3 : tensor<2x7xf32>
         %w = tfm.slice %k axis 1 start 1 size 3 : tensor<2x7xf32>
         %x = tfm.slice %w axis 1 start 1 size 2 : tensor<2x3xf32>
         %p = tfm.pad %x axis 1 low 2 high 3 : tensor<2x2xf32>
         %i = tfm.slice %p axis 1 start 3 size 1 : tensor<2x7xf32>
         %o = tfm.slice %p axis 1 start 1 size 3 : tensor<2x7xf32>
         %y = tfm.concat %u, %i, %o axis 1 : tensor<2x3xf32>, tensor<2x1xf32>, tensor<2x3xf32>)",
  };
  for (const char *body : bodies)
    expectSameMeaning(
        std::string("func.func @f(%a: tensor<2x2xf32>, %b: tensor<2x3xf32>, "
                    "%c: tensor<2x7xf32>) -> tensor<2x7xf32> {\n") +
            body + "\nreturn %y : tensor<2x7xf32>\n}",
        "tfm-simplify");
}

TEST(Simplify, TransposeOfAProduct) {
  for (const char *flags : {"", "transpose_a", "transpose_b"}) {
    bool ta = flags[0] && flags[10] == 'a', tb = flags[0] && flags[10] == 'b';
    std::string a = ta ? "tensor<2x5x3xf32>" : "tensor<2x3x5xf32>";
    std::string b = tb ? "tensor<2x7x5xf32>" : "tensor<2x5x7xf32>";
    expectSameMeaning("func.func @f(%a: " + a + ", %b: " + b +
                          ") -> tensor<2x7x3xf32> {\n%m = tfm.matmul %a, %b " +
                          flags + " : " + a + ", " + b +
                          "\n%y = tfm.transpose %m [0, 2, 1] : "
                          "tensor<2x3x7xf32>\nreturn %y : tensor<2x7x3xf32>\n}",
                      "tfm-simplify");
  }
}

TEST(Simplify, ScatterOntoAnotherTerm) {
  expectSameMeaning(R"(
    func.func @f(%ids: tensor<4xi32> {test.limit = 3}, %u: tensor<4x2xf32>,
                 %v: tensor<4x2xf32>, %m: tensor<3x2xf32>) -> tensor<3x2xf32> {
      %z = tfm.constant dense<0.0> : tensor<3x2xf32>
      %a = tfm.scatter_add %z, %ids, %u : tensor<3x2xf32>, tensor<4xi32>, tensor<4x2xf32>
      %b = tfm.scatter_add %z, %ids, %v : tensor<3x2xf32>, tensor<4xi32>, tensor<4x2xf32>
      %s = tfm.add %a, %m : tensor<3x2xf32>
      %y = tfm.add %b, %s : tensor<3x2xf32>
      return %y : tensor<3x2xf32>
    })",
                    "tfm-simplify");
}

// Dead, doubled and constant values of a repeat, forwards and in reverse.
TEST(Simplify, Repeats) {
  for (const char *direction : {"", "reverse"})
    expectSameMeaning(
        std::string("func.func @f(%x: tensor<3xf32>, %w: tensor<4x3xf32>) -> "
                    "(tensor<3xf32>, tensor<4x3xf32>, tensor<3xf32>) {\n"
                    "%one = tfm.constant dense<1.5> : tensor<3xf32>\n"
                    "%r:6 = tfm.repeat 4 ") +
            direction + R"(
        carried(%x, %x, %one : tensor<3xf32>, tensor<3xf32>, tensor<3xf32>)
        stacked(%w, %w : tensor<4x3xf32>, tensor<4x3xf32>)
        shared(%one, %x, %one : tensor<3xf32>, tensor<3xf32>, tensor<3xf32>)
        -> (tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<4x3xf32>,
            tensor<4x3xf32>, tensor<4x3xf32>) {
      ^bb0(%l: index, %a: tensor<3xf32>, %dead: tensor<3xf32>, %kept: tensor<3xf32>,
           %u: tensor<3xf32>, %v: tensor<3xf32>, %c: tensor<3xf32>, %s: tensor<3xf32>,
           %d: tensor<3xf32>):
        %p = tfm.mul %a, %u : tensor<3xf32>
        %q = tfm.add %p, %v : tensor<3xf32>
        %t = tfm.mul %q, %c : tensor<3xf32>
        %e = tfm.add %t, %d : tensor<3xf32>
        %f = tfm.exp %dead : tensor<3xf32>
        tfm.yield %e, %f, %kept, %q, %q, %f : tensor<3xf32>, tensor<3xf32>,
            tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>
      }
      %sum = tfm.add %r#3, %r#4 : tensor<4x3xf32>
      return %r#0, %sum, %r#2 : tensor<3xf32>, tensor<4x3xf32>, tensor<3xf32>
    })",
        "tfm-simplify");
}

} // namespace
