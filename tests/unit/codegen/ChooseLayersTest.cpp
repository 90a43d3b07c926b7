//===- ChooseLayersTest.cpp - rows that go through some layers ------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tests/unit/codegen/CompiledModel.h"
#include "tests/unit/codegen/ExpectCompiled.h"
#include "tests/unit/oracle/Draw.h"

#include "compiler/dialect/TfmDialect.h"
#include "compiler/transforms/Passes.h"

#include "mlir/Pass/PassManager.h"
#include "gtest/gtest.h"

using namespace tfm;
using oracle::Draw;
using oracle::format;
using oracle::tensor;
using oracle::TestModule;

namespace {

struct Mixture {
  int64_t batch, length, perRow, layers;
  /// What `row` chooses.
  std::function<int64_t(int64_t row, int64_t i)> choice;

  int64_t rows() const { return batch * length; }
  /// Adds to each row what the layers that it chose make of another one.
  std::string text() const;
};

std::string Mixture::text() const {
  constexpr int64_t width = 5, hidden = 7;
  std::string ids;
  for (int64_t row = 0; row < rows(); ++row)
    for (int64_t i = 0; i < perRow; ++i)
      ids += (ids.empty() ? "" : ", ") + std::to_string(choice(row, i));
  std::string numbers;
  for (int64_t i = 0; i < layers; ++i)
    numbers += (i ? ", " : "") + std::to_string(i);
  auto t = [&](int64_t last, const char *element = "f32") {
    return tensor({batch, length, last}, element);
  };
  std::string x = t(width), chosen = t(perRow, "i32"), gates = t(perRow),
              up = tensor({layers, width, hidden}),
              down = tensor({layers, hidden, width});
  std::string flatIds = tensor({rows() * perRow}, "i32"),
              layerNumbers = tensor({layers}, "i32");
  std::string text =
      "func.func @f(%x: " + x + ", %y: " + x + ", %gates: " + gates +
      ", %up: " + up + ", %down: " + down + ") -> " + x + " {\n" +
      "%flat = tfm.constant dense<[" + ids + "]> : " + flatIds + "\n" +
      "%ids = tfm.reshape %flat : " + flatIds + " to " + chosen + "\n" +
      "%numbers = tfm.constant dense<[" + numbers + "]> : " + layerNumbers +
      "\n" + "%r = tfm.repeat " + std::to_string(layers) +
      " carried(%x : " + x + ") stacked(%up, %down, %numbers : " + up + ", " +
      down + ", " + layerNumbers + ") shared(%y, %gates, %ids : " + x + ", " +
      gates + ", " + chosen + ") -> (" + x + ") {\n" +
      "^bb0(%layer: index, %h: " + x + ", %u: " + tensor({width, hidden}) +
      ", %d: " + tensor({hidden, width}) + ", %number: tensor<i32>, %o: " + x +
      ", %g: " + gates + ", %i: " + chosen + "):\n";
  text += format(
      R"(
    %flat_o = tfm.reshape %o : {0} to {1}
    %m = tfm.matmul %flat_o, %u : {1}, {2}
    %a = tfm.silu %m : {3}
    %p = tfm.matmul %a, %d : {3}, {4}
    %e = tfm.reshape %p : {1} to {0}
)",
      x, tensor({rows(), width}), tensor({width, hidden}),
      tensor({rows(), hidden}), tensor({hidden, width}));
  text += format(
      R"(
    %n = tfm.broadcast %number : tensor<i32> to {1}
    %is_it = tfm.compare eq %i, %n : {1}
    %zeros = tfm.constant dense<0.0> : {2}
    %own = tfm.select %is_it, %g, %zeros : {3}, {2}
    %weight = tfm.reduce_sum %own axis 2 : {2}
    %w = tfm.broadcast %weight : {4} to {0}
    %we = tfm.mul %w, %e : {0}
    %z = tfm.add %h, %we : {0}
    %f = tfm.cast %is_it : {3} to {2}
    %most = tfm.reduce_max %f axis 2 : {2}
    %zero = tfm.constant dense<0.0> : {4}
    %any = tfm.compare gt %most, %zero : {4}
    %c = tfm.broadcast %any : {5} to {6}
    %s = tfm.select %c, %z, %h : {6}, {0}
    tfm.yield %s : {0}
  }
  return %r : {0}
}
)",
      x, chosen, gates, t(perRow, "i1"), t(1), t(1, "i1"), t(width, "i1"));
  return text;
}

void chooseLayers(TestModule &module) {
  mlir::PassManager passes(module.context.get());
  passes.addPass(createChooseLayersPass());
  EXPECT_TRUE(mlir::succeeded(passes.run(*module.module)));
}

/// The rows that a turn computes; 0 where each layer runs, and computes all.
int64_t rowsTogether(const std::string &text) {
  TestModule module(text);
  chooseLayers(module);
  int64_t result = 0;
  module.module->walk([&](CacheUpdateOp op) {
    result = op.getUpdates().getType().getDimSize(0);
  });
  return result;
}

/// Also of the derivative of what is grouped, which is that of all rows.
void expectGrouped(const Mixture &mixture, int64_t together) {
  std::string text = mixture.text();
  EXPECT_EQ(rowsTogether(text), together);
  expectCompiled(text);
  TestModule grouped(text), original(text);
  chooseLayers(grouped);
  oracle::addVJP(grouped.function("f"), "train");
  grouped.function("f").erase();
  expectCompiled(grouped, oracle::addVJP(original.function("f"), "g"), 1);
}

} // namespace

TEST(ChooseLayers, ComputesTheRowsThatChooseEach) {
  Draw draw(3);
  auto any = [&](int64_t limit) {
    return [&draw, limit](int64_t, int64_t) { return draw.below(limit); };
  };
  // Also the same layer twice.
  expectGrouped({1, 37, 2, 11, any(11)}, 8);
  expectGrouped({3, 41, 3, 13, any(13)}, 16);
  expectGrouped({5, 64, 1, 7, any(7)}, 16);
  expectGrouped({1, 128, 1, 20, any(20)}, 8);
  // Half of the layers, where groups are of many rows.
  expectGrouped({4, 64, 2, 4, any(4)}, 32);
  // Numbers that no layer has.
  expectGrouped({1, 53, 2, 11, any(15)}, 8);
}

TEST(ChooseLayers, OfWhichSomeAreChosenByNone) {
  auto one = [](int64_t layer) {
    return [=](int64_t, int64_t) { return layer; };
  };
  for (int64_t layer : {0, 5, 10})
    expectGrouped({1, 37, 2, 11, one(layer)}, 8);
  expectGrouped({1, 37, 2, 11, [](int64_t, int64_t) { return int64_t{12}; }},
                8);
  // A row a layer, and two that share one.
  expectGrouped(
      {1, 37, 2, 40, [](int64_t row, int64_t i) { return row + 2 * i; }}, 8);
}

// Not nearly: no term is added to what belongs to a layer that none chooses.
TEST(ChooseLayers, GivesNoGradientToLayersThatAreNotChosen) {
  Mixture mixture{1, 37, 2, 11, [](int64_t row, int64_t i) {
                    return row % 3 == 0 ? 2 : 3 + 4 * i;
                  }};
  TestModule module(mixture.text());
  chooseLayers(module);
  oracle::addVJP(module.function("f"), "train");
  module.function("f").erase();
  std::vector<oracle::Tensor> results =
      runCompiled(module, roundedInputs(module.function("train"), 1));
  ASSERT_EQ(results.size(), 5u); // of x, y, gates, up and down
  for (const oracle::Tensor &gradient : {results[3], results[4]}) {
    int64_t size = gradient.size() / mixture.layers;
    for (int64_t layer = 0; layer < mixture.layers; ++layer) {
      auto slice = llvm::ArrayRef(gradient.data).slice(layer * size, size);
      EXPECT_EQ(llvm::all_of(slice, [](double x) { return x == 0; }),
                layer != 2 && layer != 3 && layer != 7)
          << "layer " << layer;
    }
  }
}

// All rows of all layers would be hardly more.
TEST(ChooseLayers, LeavesFewLayersAsTheyAre) {
  auto first = [](int64_t, int64_t i) { return i; };
  EXPECT_EQ(rowsTogether(Mixture{1, 64, 4, 8, first}.text()), 0);
  EXPECT_EQ(rowsTogether(Mixture{4, 64, 6, 8, first}.text()), 0);
  EXPECT_EQ(rowsTogether(Mixture{1, 9, 2, 20, first}.text()), 0);
}
