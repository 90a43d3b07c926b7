//===- RepeatGradientTest.cpp - derivatives of repeated layers ----------- ===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tests/unit/oracle/Gradients.h"

#include "compiler/dialect/TfmDialect.h"

#include "gtest/gtest.h"

using namespace tfm;
using namespace tfm::oracle;

namespace {

TEST(RepeatGradient, StackedWeights) {
  expectGradients(R"(
    func.func @f(%x: tensor<3x5xf32>, %w: tensor<4x5x5xf32>) -> tensor<3x5xf32> {
      %y = tfm.repeat 4 carried(%x : tensor<3x5xf32>)
          stacked(%w : tensor<4x5x5xf32>) shared() -> (tensor<3x5xf32>) {
      ^bb0(%layer: index, %h: tensor<3x5xf32>, %wl: tensor<5x5xf32>):
        %z = tfm.matmul %h, %wl : tensor<3x5xf32>, tensor<5x5xf32>
        %t = tfm.tanh %z : tensor<3x5xf32>
        tfm.yield %t : tensor<3x5xf32>
      }
      return %y : tensor<3x5xf32>
    })");
}

TEST(RepeatGradient, OneLayerInReverse) {
  expectGradients(R"(
    func.func @f(%x: tensor<3xf32>, %w: tensor<1x3xf32>) -> tensor<3xf32> {
      %y = tfm.repeat 1 reverse carried(%x : tensor<3xf32>)
          stacked(%w : tensor<1x3xf32>) shared() -> (tensor<3xf32>) {
      ^bb0(%layer: index, %h: tensor<3xf32>, %wl: tensor<3xf32>):
        %z = tfm.mul %h, %wl : tensor<3xf32>
        tfm.yield %z : tensor<3xf32>
      }
      return %y : tensor<3xf32>
    })");
}

// A weight shared by all layers gets the sum of their cotangents; one that is
// also used outside gets both.
TEST(RepeatGradient, SharedOperands) {
  expectGradients(R"(
    func.func @f(%x: tensor<2x3xf32>, %w: tensor<3x3xf32>) -> tensor<2x3xf32> {
      %a = tfm.matmul %x, %w transpose_b : tensor<2x3xf32>, tensor<3x3xf32>
      %r = tfm.repeat 3 reverse carried(%a : tensor<2x3xf32>) stacked()
          shared(%w : tensor<3x3xf32>) -> (tensor<2x3xf32>) {
      ^bb0(%layer: index, %h: tensor<2x3xf32>, %wl: tensor<3x3xf32>):
        %z = tfm.matmul %h, %wl : tensor<2x3xf32>, tensor<3x3xf32>
        %t = tfm.sin %z : tensor<2x3xf32>
        tfm.yield %t : tensor<2x3xf32>
      }
      %y = tfm.mul %r, %r : tensor<2x3xf32>
      return %y : tensor<2x3xf32>
    })");
}

// Results stacked by the user carry cotangents into their layer; a carried
// value may be swapped, dropped, or become active only inside.
TEST(RepeatGradient, StackedResultsAndSeveralCarriedValues) {
  expectGradients(R"(
    func.func @f(%x: tensor<3xf32>, %w: tensor<4x3xf32>)
        -> (tensor<3xf32>, tensor<4x3xf32>) {
      %c = tfm.constant dense<[0.5, 1.5, -0.5]> : tensor<3xf32>
      %y:3 = tfm.repeat 4 carried(%x, %c : tensor<3xf32>, tensor<3xf32>)
          stacked(%w : tensor<4x3xf32>) shared(%x : tensor<3xf32>)
          -> (tensor<3xf32>, tensor<3xf32>, tensor<4x3xf32>) {
      ^bb0(%layer: index, %a: tensor<3xf32>, %b: tensor<3xf32>,
           %wl: tensor<3xf32>, %s: tensor<3xf32>):
        %p = tfm.mul %a, %wl : tensor<3xf32>
        %q = tfm.add %p, %b : tensor<3xf32>
        %e = tfm.tanh %q : tensor<3xf32>
        %u = tfm.mul %e, %s : tensor<3xf32>
        tfm.yield %u, %a, %e : tensor<3xf32>, tensor<3xf32>, tensor<3xf32>
      }
      return %y#0, %y#2 : tensor<3xf32>, tensor<4x3xf32>
    })");
}

// Turns that choose the same slice add up their cotangents of it; slices that
// none chooses have none. What turns save is their own.
TEST(RepeatGradient, ChosenSlices) {
  for (const char *reverse : {"", "reverse"})
    expectGradients(R"(
    func.func @f(%x: tensor<2x3xf32>, %own: tensor<4x3xf32>, %w: tensor<5x3x3xf32>, %b: tensor<2x3xf32>)
        -> (tensor<2x3xf32>, tensor<4x2x3xf32>) {
      %order = tfm.constant dense<[1, 4, 1, 2]> : tensor<4xi32>
      %y:2 = tfm.repeat 4 )" +
                    std::string(reverse) +
                    R"( carried(%x : tensor<2x3xf32>)
          stacked(%own, %w : tensor<4x3xf32>, tensor<5x3x3xf32>) shared(%b : tensor<2x3xf32>)
          order(%order : tensor<4xi32>) chosen 1 -> (tensor<2x3xf32>, tensor<4x2x3xf32>) {
      ^bb0(%turn: index, %h: tensor<2x3xf32>, %o: tensor<3xf32>, %wl: tensor<3x3xf32>, %s: tensor<2x3xf32>):
        %p = tfm.matmul %h, %wl : tensor<2x3xf32>, tensor<3x3xf32>
        %t = tfm.tanh %p : tensor<2x3xf32>
        %ob = tfm.broadcast %o : tensor<3xf32> to tensor<2x3xf32>
        %m = tfm.mul %t, %ob : tensor<2x3xf32>
        %n = tfm.mul %m, %s : tensor<2x3xf32>
        tfm.yield %n, %t : tensor<2x3xf32>, tensor<2x3xf32>
      }
      return %y#0, %y#1 : tensor<2x3xf32>, tensor<4x2x3xf32>
    })");
}

TEST(RepeatGradient, OnlyAStackedResultIsUsed) {
  expectGradients(R"(
    func.func @f(%x: tensor<3xf32>, %w: tensor<4x3xf32>) -> tensor<4x3xf32> {
      %y:2 = tfm.repeat 4 carried(%x : tensor<3xf32>)
          stacked(%w : tensor<4x3xf32>) shared() -> (tensor<3xf32>, tensor<4x3xf32>) {
      ^bb0(%layer: index, %a: tensor<3xf32>, %wl: tensor<3xf32>):
        %p = tfm.mul %a, %wl : tensor<3xf32>
        tfm.yield %p, %a : tensor<3xf32>, tensor<3xf32>
      }
      return %y#1 : tensor<4x3xf32>
    })");
}

TEST(RepeatGradient, NoCarriedValue) {
  expectGradients(R"(
    func.func @f(%w: tensor<4x3xf32>, %s: tensor<3xf32>) -> tensor<4x3xf32> {
      %y = tfm.repeat 4 carried() stacked(%w : tensor<4x3xf32>)
          shared(%s : tensor<3xf32>) -> (tensor<4x3xf32>) {
      ^bb0(%layer: index, %wl: tensor<3xf32>, %sl: tensor<3xf32>):
        %e = tfm.exp %wl : tensor<3xf32>
        %p = tfm.mul %e, %sl : tensor<3xf32>
        tfm.yield %p : tensor<3xf32>
      }
      return %y : tensor<4x3xf32>
    })");
}

TEST(RepeatGradient, Nested) {
  expectGradients(R"(
    func.func @f(%x: tensor<3xf32>, %w: tensor<2x3x3xf32>, %s: tensor<3xf32>)
        -> tensor<3xf32> {
      %y = tfm.repeat 2 carried(%x : tensor<3xf32>)
          stacked(%w : tensor<2x3x3xf32>) shared(%s : tensor<3xf32>)
          -> (tensor<3xf32>) {
      ^bb0(%l: index, %a: tensor<3xf32>, %wl: tensor<3x3xf32>, %sl: tensor<3xf32>):
        %g = tfm.sigmoid %a : tensor<3xf32>
        %i = tfm.repeat 3 carried(%g : tensor<3xf32>)
            stacked(%wl : tensor<3x3xf32>) shared(%sl, %a : tensor<3xf32>, tensor<3xf32>)
            -> (tensor<3xf32>) {
        ^bb0(%m: index, %b: tensor<3xf32>, %v: tensor<3xf32>, %t: tensor<3xf32>,
             %outer: tensor<3xf32>):
          %p = tfm.mul %b, %v : tensor<3xf32>
          %q = tfm.mul %p, %t : tensor<3xf32>
          %c = tfm.cos %q : tensor<3xf32>
          %d = tfm.mul %c, %outer : tensor<3xf32>
          tfm.yield %d : tensor<3xf32>
        }
        %r = tfm.add %i, %a : tensor<3xf32>
        tfm.yield %r : tensor<3xf32>
      }
      return %y : tensor<3xf32>
    })");
}

TEST(RepeatGradient, NestedThrice) {
  expectGradients(R"(
    func.func @f(%x: tensor<2xf32>, %w: tensor<2x3x2x2xf32>) -> tensor<2xf32> {
      %y = tfm.repeat 2 carried(%x : tensor<2xf32>)
          stacked(%w : tensor<2x3x2x2xf32>) shared() -> (tensor<2xf32>) {
      ^bb0(%l: index, %a: tensor<2xf32>, %wa: tensor<3x2x2xf32>):
        %i = tfm.repeat 3 carried(%a : tensor<2xf32>)
            stacked(%wa : tensor<3x2x2xf32>) shared() -> (tensor<2xf32>) {
        ^bb0(%m: index, %b: tensor<2xf32>, %wb: tensor<2x2xf32>):
          %j = tfm.repeat 2 reverse carried(%b : tensor<2xf32>)
              stacked(%wb : tensor<2x2xf32>) shared() -> (tensor<2xf32>) {
          ^bb0(%n: index, %c: tensor<2xf32>, %wc: tensor<2xf32>):
            %p = tfm.mul %c, %wc : tensor<2xf32>
            %e = tfm.sin %p : tensor<2xf32>
            tfm.yield %e : tensor<2xf32>
          }
          tfm.yield %j : tensor<2xf32>
        }
        tfm.yield %i : tensor<2xf32>
      }
      return %y : tensor<2xf32>
    })");
}

// Every layer drops its own elements, forwards and backwards.
TEST(RepeatGradient, DropoutKnowsItsLayer) {
  Environment environment;
  environment.seedLow = 1;
  environment.seedHigh = 2;
  expectGradients(R"(
    func.func @f(%x: tensor<2x7xf32>) -> tensor<2x7xf32> {
      %y = tfm.repeat 3 carried(%x : tensor<2x7xf32>) stacked() shared()
          -> (tensor<2x7xf32>) {
      ^bb0(%layer: index, %h: tensor<2x7xf32>):
        %d = tfm.dropout %h layer %layer {rate = 0.3 : f64, site = 1 : i64} : tensor<2x7xf32>
        %e = tfm.sin %d : tensor<2x7xf32>
        tfm.yield %e : tensor<2x7xf32>
      }
      return %y : tensor<2x7xf32>
    })",
                  0, environment);
}

// A pre-norm block: what a transformer's layer looks like to the sweep.
TEST(RepeatGradient, TransformerBlock) {
  expectGradients(R"(
    func.func @f(%x: tensor<1x3x4xf32>, %w: tensor<2x4x12xf32>, %g: tensor<2x4xf32>)
        -> tensor<1x3x4xf32> {
      %y = tfm.repeat 2 carried(%x : tensor<1x3x4xf32>)
          stacked(%w, %g : tensor<2x4x12xf32>, tensor<2x4xf32>) shared()
          -> (tensor<1x3x4xf32>) {
      ^bb0(%layer: index, %h: tensor<1x3x4xf32>, %wl: tensor<4x12xf32>, %gl: tensor<4xf32>):
        %n = tfm.normalize %h eps 1.0e-2 : tensor<1x3x4xf32>
        %gb = tfm.broadcast %gl : tensor<4xf32> to tensor<1x3x4xf32>
        %m = tfm.mul %n, %gb : tensor<1x3x4xf32>
        %r = tfm.reshape %m : tensor<1x3x4xf32> to tensor<3x4xf32>
        %qkv = tfm.matmul %r, %wl : tensor<3x4xf32>, tensor<4x12xf32>
        %q0 = tfm.slice %qkv axis 1 start 0 size 4 : tensor<3x12xf32>
        %k0 = tfm.slice %qkv axis 1 start 4 size 4 : tensor<3x12xf32>
        %v0 = tfm.slice %qkv axis 1 start 8 size 4 : tensor<3x12xf32>
        %q1 = tfm.reshape %q0 : tensor<3x4xf32> to tensor<1x3x2x2xf32>
        %k1 = tfm.reshape %k0 : tensor<3x4xf32> to tensor<1x3x2x2xf32>
        %v1 = tfm.reshape %v0 : tensor<3x4xf32> to tensor<1x3x2x2xf32>
        %q = tfm.transpose %q1 [0, 2, 1, 3] : tensor<1x3x2x2xf32>
        %k = tfm.transpose %k1 [0, 2, 1, 3] : tensor<1x3x2x2xf32>
        %v = tfm.transpose %v1 [0, 2, 1, 3] : tensor<1x3x2x2xf32>
        %o, %lse = tfm.attention %q, %k, %v {causal, scale = 0.7 : f64}
            : tensor<1x2x3x2xf32>, tensor<1x2x3x2xf32>, tensor<1x2x3x2xf32>
        %o1 = tfm.transpose %o [0, 2, 1, 3] : tensor<1x2x3x2xf32>
        %o2 = tfm.reshape %o1 : tensor<1x3x2x2xf32> to tensor<1x3x4xf32>
        %ge = tfm.gelu_tanh %o2 : tensor<1x3x4xf32>
        %z = tfm.add %h, %ge : tensor<1x3x4xf32>
        tfm.yield %z : tensor<1x3x4xf32>
      }
      return %y : tensor<1x3x4xf32>
    })");
}

// What is saved is what the derivative reads, and no more: the tanh's result,
// not the broadcast, the product or the sum that it was made of.
TEST(RepeatGradient, SavesOnlyWhatItReads) {
  TestModule test(R"(
    func.func @f(%x: tensor<3x5xf32>, %w: tensor<4x5xf32>) -> tensor<3x5xf32> {
      %y = tfm.repeat 4 carried(%x : tensor<3x5xf32>)
          stacked(%w : tensor<4x5xf32>) shared() -> (tensor<3x5xf32>) {
      ^bb0(%layer: index, %h: tensor<3x5xf32>, %wl: tensor<5xf32>):
        %b = tfm.broadcast %wl : tensor<5xf32> to tensor<3x5xf32>
        %z = tfm.add %h, %b : tensor<3x5xf32>
        %t = tfm.tanh %z : tensor<3x5xf32>
        tfm.yield %t : tensor<3x5xf32>
      }
      return %y : tensor<3x5xf32>
    })");
  auto g = addVJP(test.function("f"), "g");
  auto repeats = llvm::to_vector(g.getOps<RepeatOp>());
  ASSERT_EQ(repeats.size(), 2u);
  ASSERT_EQ(repeats[0].getStackedResults().size(), 1u);
  auto *saved = repeats[0].getYield().getOperand(1).getDefiningOp();
  EXPECT_TRUE(llvm::isa<TanhOp>(saved));
  EXPECT_TRUE(repeats[1].getReverse());
  EXPECT_EQ(repeats[1].getStacked().size(), 1u);
}

} // namespace
