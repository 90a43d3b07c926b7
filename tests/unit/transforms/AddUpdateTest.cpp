//===- AddUpdateTest.cpp - optimizers against published trajectories ------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// tests/fixtures/optimizers holds 20 steps of every optimizer of PyTorch and
// Keras over three tensors.
//
//===----------------------------------------------------------------------===//

#include "compiler/transforms/Passes.h"
#include "compiler/transforms/ReadRecipe.h"
#include "tests/unit/CompleteRecipe.h"
#include "tests/unit/oracle/Gradients.h"
#include "tests/unit/oracle/Safetensors.h"

#include "mlir/Pass/PassManager.h"
#include "llvm/Support/FormatVariadic.h"
#include "gtest/gtest.h"

#include <cmath>

using namespace tfm;
using namespace tfm::oracle;

namespace {

const char *const parameters[] = {"a", "b", "c"};

/// A module with the fixture's parameters and a recipe, after tfm-add-update.
TestModule moduleWith(const std::string &optimizer) {
  std::string recipe = test::completeRecipe(
                  "{\"train\": {\"optimizer\": " + optimizer + "}}"),
              quoted;
  for (char c : recipe)
    quoted += c == '"' ? std::string("\\\"") : std::string(1, c);
  TestModule test(R"(
    module attributes {tfm.recipe = ")" +
                  quoted + R"("} {
      tfm.param @a : tensor<4x3xf32> {init = {kind = "zeros"}}
      tfm.param @b : tensor<5xf32> {init = {kind = "zeros"}}
      tfm.param @c : tensor<2x2x3xf32> {init = {kind = "zeros"}}
    })");
  EXPECT_TRUE(test.module);
  mlir::PassManager passes(test.context.get());
  passes.addPass(createAddUpdatePass());
  EXPECT_TRUE(mlir::succeeded(passes.run(*test.module)));
  return test;
}

/// All parameters of `tensors` under `prefix` one after another; of a step's
/// slice of each where `step` is given.
Tensor flat(const std::map<std::string, Tensor> &tensors,
            const std::string &prefix, int64_t step = -1) {
  std::vector<double> data;
  for (const char *name : parameters) {
    const Tensor &tensor = tensors.at(prefix + "." + name);
    int64_t size = step < 0 ? tensor.size() : tensor.size() / 20;
    auto first = tensor.data.begin() + std::max<int64_t>(step, 0) * size;
    data.insert(data.end(), first, first + size);
  }
  return Tensor({static_cast<int64_t>(data.size())}, data);
}

struct Trajectory {
  const char *file;
  const char *name;
  const char *optimizer;
  double lr, beta1, beta2;
};

class OptimizerTrajectory : public testing::TestWithParam<Trajectory> {};
TEST_P(OptimizerTrajectory, OfTwentySteps) {
  const Trajectory &run = GetParam();
  TestModule test = moduleWith(run.optimizer);
  mlir::func::FuncOp update = test.function("update_decayed");
  ASSERT_TRUE(update);
  EXPECT_FALSE(test.function("update_plain"));
  auto torch = readFixture("optimizers/torch.safetensors");
  auto expected = readFixture("optimizers/" + std::string(run.file));
  Tensor p = flat(torch, "start"), m(p.shape), v(p.shape);
  for (int64_t step = 0; step < 20; ++step) {
    auto t = static_cast<double>(step + 1);
    Tensor hyper({4}, {run.lr, 1 - std::pow(run.beta1, t),
                       1 - std::pow(run.beta2, t), 0.0});
    auto results = evaluateOrFail(
        update, {p, flat(torch, "grads", step), m, v, hyper, Tensor({}, 1.0)});
    ASSERT_EQ(results.size(), 3u);
    p = results[0], m = results[1], v = results[2];
    Tensor after = flat(expected, run.name, step);
    ASSERT_EQ(p.shape, after.shape);
    for (auto [a, b] : llvm::zip_equal(p.data, after.data))
      EXPECT_NEAR(a, b, 1e-6 + 1e-6 * std::abs(b)) << "step " << t;
  }
}
INSTANTIATE_TEST_SUITE_P(
    All, OptimizerTrajectory,
    testing::Values(
        Trajectory{"torch.safetensors", "sgd", R"({"kind": "sgd"})", 0.05, 0,
                   0},
        Trajectory{"torch.safetensors", "sgd_momentum",
                   R"({"kind": "sgd", "momentum": 0.9})", 0.05, 0, 0},
        Trajectory{"torch.safetensors", "sgd_nesterov",
                   R"({"kind": "sgd", "momentum": 0.9, "nesterov": true})",
                   0.05, 0, 0},
        Trajectory{"torch.safetensors", "sgd_momentum_decay",
                   R"({"kind": "sgd", "momentum": 0.9, "weight_decay": 0.1})",
                   0.05, 0, 0},
        Trajectory{"torch.safetensors", "adam",
                   R"({"kind": "adam", "betas": [0.9, 0.999], "eps": 1e-8})",
                   0.01, 0.9, 0.999},
        Trajectory{
            "torch.safetensors", "adam_decay",
            R"({"kind": "adam", "betas": [0.9, 0.99], "eps": 1e-8, "weight_decay": 0.1})",
            0.01, 0.9, 0.99},
        Trajectory{
            "torch.safetensors", "adamw",
            R"({"kind": "adamw", "betas": [0.9, 0.95], "eps": 1e-8, "weight_decay": 0.1})",
            0.01, 0.9, 0.95},
        Trajectory{
            "keras.safetensors", "keras_adam",
            R"({"kind": "adam", "betas": [0.9, 0.999], "eps": 1e-7, "eps_placement": "keras"})",
            0.01, 0.9, 0.999},
        Trajectory{
            "keras.safetensors", "keras_adam_lab",
            R"({"kind": "adam", "betas": [0.9, 0.999], "eps": 1e-7, "eps_placement": "keras"})",
            0.0025, 0.9, 0.999}),
    [](const auto &info) { return std::string(info.param.name); });

// Ranks are those of one layer's tensor; @b alone is below 2.
TEST(AddUpdate, DecaysByRank) {
  TestModule test = moduleWith(
      R"({"kind": "adamw", "weight_decay": 0.5, "decay_min_rank": 2})");
  mlir::func::FuncOp decayed = test.function("update_decayed");
  mlir::func::FuncOp plain = test.function("update_plain");
  ASSERT_TRUE(decayed && plain);
  auto size = [](mlir::func::FuncOp f) {
    return tensorType(f.getArgument(0)).getDimSize(0);
  };
  EXPECT_EQ(size(decayed), 24);
  EXPECT_EQ(size(plain), 5);
  // Without a gradient, decay is all that moves a parameter.
  Tensor hyper({4}, {0.1, 0.1, 0.001, 0.0}), scale({}, 1.0);
  auto moved =
      evaluateOrFail(decayed, {Tensor({24}, 2.0), Tensor({24}), Tensor({24}),
                               Tensor({24}), hyper, scale});
  EXPECT_NEAR(moved[0].data[7], 2.0 * (1 - 0.1 * 0.5), 1e-7);
  auto still = evaluateOrFail(plain, {Tensor({5}, 2.0), Tensor({5}),
                                      Tensor({5}), Tensor({5}), hyper, scale});
  EXPECT_EQ(still[0].data[3], 2.0);
}

// Clipping multiplies the gradient before anything else sees it.
TEST(AddUpdate, ScalesTheGradient) {
  TestModule test = moduleWith(R"({"kind": "adam", "eps": 1e-3})");
  mlir::func::FuncOp update = test.function("update_decayed");
  Tensor zero({29}), p({29}, 1.0), hyper({4}, {0.1, 0.1, 0.001, 0.0});
  auto clipped = evaluateOrFail(
      update, {p, Tensor({29}, 8.0), zero, zero, hyper, Tensor({}, 0.25)});
  auto small = evaluateOrFail(
      update, {p, Tensor({29}, 2.0), zero, zero, hyper, Tensor({}, 1.0)});
  for (int i = 0; i < 3; ++i)
    EXPECT_EQ(clipped[i].data, small[i].data);
}

// The state that an optimizer does not keep goes through untouched, so that
// no memory is spent on it.
TEST(AddUpdate, ReturnsUnusedStateAsItCame) {
  TestModule test = moduleWith(R"({"kind": "sgd", "momentum": 0.9})");
  mlir::func::FuncOp update = test.function("update_decayed");
  auto *end = update.getBody().front().getTerminator();
  EXPECT_NE(end->getOperand(1), update.getArgument(2));
  EXPECT_EQ(end->getOperand(2), update.getArgument(3));
  auto optimizer = Optimizer::read(*test.module);
  ASSERT_TRUE(mlir::succeeded(optimizer) && *optimizer);
  EXPECT_EQ((*optimizer)->numStates(), 1);
}

} // namespace
