//===- SweepTest.cpp - what the reverse sweep builds ----------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Numbers are checked in tests/unit/oracle; here it is what is saved, and that
// nothing is computed for what nobody asked for.
//
//===----------------------------------------------------------------------===//

#include "compiler/dialect/ReverseSweep.h"
#include "tests/unit/oracle/Gradients.h"

#include "mlir/IR/Builders.h"
#include "gtest/gtest.h"

using namespace mlir;
using namespace tfm;
using namespace tfm::oracle;

namespace {

template <typename Op> size_t countOf(func::FuncOp function) {
  size_t count = 0;
  function.walk([&](Op) { ++count; });
  return count;
}

/// The names of the ops whose results the forward repeat of `function` saves,
/// in order; `argument` for an argument of the body. Where nothing is saved the
/// forward layers need not run at all.
std::vector<std::string> savedBy(func::FuncOp function) {
  std::vector<std::string> result;
  for (auto repeat : function.getOps<RepeatOp>()) {
    if (repeat.getReverse())
      continue;
    for (Value value : repeat.getYield().getOperands().drop_front(
             repeat.getCarried().size())) {
      Operation *op = value.getDefiningOp();
      result.push_back(op ? op->getName().stripDialect().str() : "argument");
    }
  }
  return result;
}

using Saved = std::vector<std::string>;

// A fused projection is saved once, not as the three slices that attention
// reads through reshapes and transposes.
TEST(Saved, ASplitIsSavedWhole) {
  TestModule test(R"(
    func.func @f(%x: tensor<3x4xf32>, %w: tensor<2x4x12xf32>) -> tensor<3x4xf32> {
      %y = tfm.repeat 2 carried(%x : tensor<3x4xf32>) stacked(%w : tensor<2x4x12xf32>)
          shared() -> (tensor<3x4xf32>) {
      ^bb0(%l: index, %h: tensor<3x4xf32>, %wl: tensor<4x12xf32>):
        %m = tfm.matmul %h, %wl : tensor<3x4xf32>, tensor<4x12xf32>
        %a = tfm.slice %m axis 1 start 0 size 4 : tensor<3x12xf32>
        %b = tfm.slice %m axis 1 start 4 size 4 : tensor<3x12xf32>
        %c = tfm.slice %m axis 1 start 8 size 4 : tensor<3x12xf32>
        %ct = tfm.transpose %c [1, 0] : tensor<3x4xf32>
        %d = tfm.matmul %b, %ct : tensor<3x4xf32>, tensor<4x3xf32>
        %e = tfm.matmul %d, %a : tensor<3x3xf32>, tensor<3x4xf32>
        tfm.yield %e : tensor<3x4xf32>
      }
      return %y : tensor<3x4xf32>
    })");
  EXPECT_EQ(savedBy(addVJP(test.function("f"), "g")),
            (Saved{"argument", "matmul", "matmul"}));
}

// Of a slice alone only the slice is saved.
TEST(Saved, ASliceAlone) {
  TestModule test(R"(
    func.func @f(%x: tensor<3x4xf32>) -> tensor<3x4xf32> {
      %y = tfm.repeat 2 carried(%x : tensor<3x4xf32>) stacked() shared()
          -> (tensor<3x4xf32>) {
      ^bb0(%l: index, %h: tensor<3x4xf32>):
        %e = tfm.exp %h : tensor<3x4xf32>
        %s = tfm.slice %e axis 1 start 0 size 2 : tensor<3x4xf32>
        %q = tfm.mul %s, %s : tensor<3x2xf32>
        %c = tfm.concat %q, %q axis 1 : tensor<3x2xf32>, tensor<3x2xf32>
        %z = tfm.add %h, %c : tensor<3x4xf32>
        tfm.yield %z : tensor<3x4xf32>
      }
      return %y : tensor<3x4xf32>
    })");
  EXPECT_EQ(savedBy(addVJP(test.function("f"), "g")), (Saved{"exp"}));
}

// A mask made of the layer's index and shared values is made again.
TEST(Saved, NothingThatCanBeMadeAgain) {
  TestModule test(R"(
    func.func @f(%x: tensor<3x4xf32>, %m: tensor<4xi1>, %g: tensor<2x4xf32>)
        -> tensor<3x4xf32> {
      %y = tfm.repeat 2 carried(%x : tensor<3x4xf32>) stacked(%g : tensor<2x4xf32>)
          shared(%m : tensor<4xi1>) -> (tensor<3x4xf32>) {
      ^bb0(%l: index, %h: tensor<3x4xf32>, %gl: tensor<4xf32>, %ml: tensor<4xi1>):
        %b = tfm.broadcast %ml : tensor<4xi1> to tensor<3x4xi1>
        %gb = tfm.broadcast %gl : tensor<4xf32> to tensor<3x4xf32>
        %n = tfm.neg %h : tensor<3x4xf32>
        %s = tfm.select %b, %h, %n : tensor<3x4xi1>, tensor<3x4xf32>
        %z = tfm.add %s, %gb : tensor<3x4xf32>
        tfm.yield %z : tensor<3x4xf32>
      }
      return %y : tensor<3x4xf32>
    })");
  EXPECT_EQ(savedBy(addVJP(test.function("f"), "g")), Saved{});
}

// A norm's output is made again from its input, which the derivative needs
// anyway.
TEST(Saved, ANormIsMadeAgain) {
  TestModule test(R"(
    func.func @f(%x: tensor<3x4xf32>, %w: tensor<2x4x4xf32>) -> tensor<3x4xf32> {
      %y = tfm.repeat 2 carried(%x : tensor<3x4xf32>) stacked(%w : tensor<2x4x4xf32>)
          shared() -> (tensor<3x4xf32>) {
      ^bb0(%l: index, %h: tensor<3x4xf32>, %wl: tensor<4x4xf32>):
        %n = tfm.normalize %h eps 1.0e-5 : tensor<3x4xf32>
        %m = tfm.matmul %n, %wl : tensor<3x4xf32>, tensor<4x4xf32>
        tfm.yield %m : tensor<3x4xf32>
      }
      return %y : tensor<3x4xf32>
    })");
  EXPECT_EQ(savedBy(addVJP(test.function("f"), "g")), (Saved{"argument"}));
}

/// Sweeps a copy of `@f` with respect to the arguments in `wanted` alone.
func::FuncOp sweepFor(const TestModule &test, ArrayRef<unsigned> wanted) {
  auto copy = cast<func::FuncOp>(test.function("f")->clone());
  copy.setSymName("g");
  test.module.get().push_back(copy);
  Block &block = copy.getBody().front();
  Operation *end = block.getTerminator();
  OpBuilder builder(end);
  ReverseSweep sweep(builder);
  for (unsigned number : wanted)
    sweep.activate(block.getArgument(number));
  sweep.propagateActivity(block);
  Value result = end->getOperand(0);
  sweep.accumulate(result, block.addArgument(result.getType(), copy.getLoc()));
  EXPECT_TRUE(succeeded(sweep.run(block)));
  SmallVector<Value> results;
  for (unsigned number : wanted)
    results.push_back(sweep.cotangent(block.getArgument(number)));
  end->setOperands(results);
  copy.setType(builder.getFunctionType(block.getArgumentTypes(),
                                       ValueRange(results).getTypes()));
  eraseDeadOps(block);
  return copy;
}

// The first layer's input has no cotangent: that product is never built.
TEST(Sweep, ComputesOnlyWhatIsWanted) {
  TestModule test(R"(
    func.func @f(%x: tensor<3x4xf32>, %w: tensor<4x5xf32>) -> tensor<3x5xf32> {
      %y = tfm.matmul %x, %w : tensor<3x4xf32>, tensor<4x5xf32>
      return %y : tensor<3x5xf32>
    })");
  EXPECT_EQ(countOf<MatmulOp>(sweepFor(test, {1})), 1u);
  EXPECT_EQ(countOf<MatmulOp>(sweepFor(test, {0, 1})), 2u);
}

// A frozen shared operand costs a repeat no sum, a frozen stacked one no
// stack.
TEST(Sweep, FrozenOperandsOfARepeat) {
  TestModule test(R"(
    func.func @f(%x: tensor<4xf32>, %w: tensor<3x4xf32>, %s: tensor<4xf32>)
        -> tensor<4xf32> {
      %y = tfm.repeat 3 carried(%x : tensor<4xf32>) stacked(%w : tensor<3x4xf32>)
          shared(%s : tensor<4xf32>) -> (tensor<4xf32>) {
      ^bb0(%l: index, %h: tensor<4xf32>, %wl: tensor<4xf32>, %sl: tensor<4xf32>):
        %a = tfm.mul %h, %wl : tensor<4xf32>
        %b = tfm.mul %a, %sl : tensor<4xf32>
        tfm.yield %b : tensor<4xf32>
      }
      return %y : tensor<4xf32>
    })");
  auto resultsOf = [&](ArrayRef<unsigned> wanted) {
    RepeatOp reversed;
    for (auto repeat : sweepFor(test, wanted).getOps<RepeatOp>())
      reversed = repeat;
    EXPECT_TRUE(reversed.getReverse());
    return std::pair(reversed.getCarried().size(),
                     reversed.getStackedResults().size());
  };
  EXPECT_EQ(resultsOf({0}), std::pair(size_t{1}, size_t{0}));
  EXPECT_EQ(resultsOf({0, 1}), std::pair(size_t{1}, size_t{1}));
  EXPECT_EQ(resultsOf({0, 1, 2}), std::pair(size_t{2}, size_t{1}));
}

} // namespace
