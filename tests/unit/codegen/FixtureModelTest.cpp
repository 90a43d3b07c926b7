//===- FixtureModelTest.cpp - compiled models against other frameworks ----===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Whole models as machine code: logits, loss, every gradient and training runs
// of the fixtures, which PyTorch and Keras computed in f64. The tolerances are
// a few times what rounding to f32 costs, well within those of each fixture's
// README.
//
//===----------------------------------------------------------------------===//

#include "tests/unit/oracle/FixtureModel.h"
#include "compiler/dialect/TfmDialect.h"
#include "compiler/driver/Compile.h"
#include "compiler/transforms/ReadRecipe.h"
#include "tests/unit/codegen/CompiledModel.h"
#include "tests/unit/oracle/Gradients.h"

#include "gtest/gtest.h"

#include <cmath>

using namespace tfm;
using oracle::Tensor;

namespace {

class CompiledFixture : public FixtureModel {
protected:
  void SetUp() override { load({}, GetParam().batch, GetParam().batch); }

  /// Compiles the fixture's model, `forward` for `rows` sequences and `train`
  /// for `trainRows`, with its weights.
  void load(std::vector<std::pair<std::string, std::string>> defines,
            int64_t rows, int64_t trainRows) {
    model.reset();
    open(rows, trainRows, std::move(defines));
    ASSERT_TRUE(module && mlir::succeeded(prepare(*module, testedTarget())));
    model = std::make_unique<CompiledModel>(*module);
    for (auto &[symbol, value] : weights())
      model->setParameter(symbol, value);
  }

  /// What `train` reads: a batch, and dropout's counter.
  std::vector<Tensor> trainBatch(const std::string &prefix) {
    std::vector<Tensor> inputs = batch(prefix);
    inputs.push_back(Tensor({4}, {0, 0, 0, 0}));
    return inputs;
  }

  /// The 2-norm of all gradients of the fixture.
  double gradientNorm(const std::string &prefix) {
    double sum = 0;
    for (auto &[name, tensor] : expected)
      if (llvm::StringRef(name).starts_with(prefix + "grad."))
        for (double x : tensor.data)
          sum += x * x;
    return std::sqrt(sum);
  }

  void compareGradients(const std::string &prefix) {
    double norm = gradientNorm(prefix);
    int compared = 0;
    for (auto param : module->getOps<ParamOp>()) {
      if (!param.getTrainable())
        continue;
      std::string symbol = param.getSymName().str();
      Tensor found = model->gradient(symbol);
      ++compared;
      if (param.getSymName().ends_with("attention.k.bias")) {
        // Zero in exact arithmetic: a shift of all scores changes nothing.
        for (double x : found.data)
          EXPECT_LE(std::abs(x), 5e-8 * norm) << symbol;
        continue;
      }
      Tensor gradient =
          stack(param, expected, prefix + "grad." + GetParam().prefix);
      EXPECT_LE(oracle::relativeError(found, gradient), 2e-5) << symbol;
    }
    EXPECT_GT(compared, 0);
  }

  std::unique_ptr<CompiledModel> model;
};

TEST_P(CompiledFixture, Logits) {
  Tensor tokens = expected.at("input_ids");
  Tensor logits = model->run("forward", {tokens})[0];
  EXPECT_LE(oracle::relativeError(logits, expected.at("logits_f64")), 5e-6);
  for (int threads : {2, 3})
    EXPECT_EQ(model->run("forward", {tokens}, threads)[0].data, logits.data)
        << threads;
}

TEST_P(CompiledFixture, LossAndGradients) {
  Tensor loss = model->run("train", trainBatch(""))[0];
  EXPECT_NEAR(loss.data[0], number("loss"), 2e-6);
  compareGradients("");
  std::vector<float> gradients = model->gradients();
  for (int threads : {2, 3}) {
    model->clearGradients();
    EXPECT_EQ(model->run("train", trainBatch(""), threads)[0].data, loss.data)
        << threads;
    EXPECT_TRUE(model->gradients() == llvm::ArrayRef(gradients))
        << threads << " threads";
  }
}

TEST_P(CompiledFixture, Evaluate) {
  std::vector<Tensor> inputs = batch("");
  auto results = model->run("evaluate", inputs);
  EXPECT_NEAR(results[0].data[0], number("loss"), 2e-6);
  ASSERT_GE(results.size(), 2u);
  double sum = 0;
  for (auto [loss, target] : llvm::zip_equal(results[1].data, inputs[1].data)) {
    if (target == static_cast<double>(GetParam().ignore)) {
      EXPECT_EQ(loss, 0.0);
    }
    sum += loss;
  }
  EXPECT_NEAR(sum / inputs[2].data[0], number("loss"), 2e-6);
}

// A batch with padding inside of its inputs: the targets alone decide what
// counts.
class CompiledGaps : public CompiledFixture {};
TEST_P(CompiledGaps, LossAndGradients) {
  Tensor loss = model->run("train", trainBatch("gaps."))[0];
  EXPECT_NEAR(loss.data[0], number("gaps_loss"), 2e-6);
  compareGradients("gaps.");
}
// Nothing but padding: no loss, no gradients, and nothing that is not a number.
TEST_P(CompiledGaps, NoTargets) {
  std::vector<Tensor> inputs = trainBatch("gaps.");
  llvm::fill(inputs[1].data, 0.0);
  inputs[2].data[0] = 1;
  EXPECT_EQ(model->run("train", inputs)[0].data[0], 0.0);
  for (float x : model->gradients())
    ASSERT_EQ(x, 0.0f);
}

// The most probable token after the newest, again and again; the rest of the
// window is padding, which causal attention does not see.
class CompiledGreedy : public CompiledFixture {};
TEST_P(CompiledGreedy, Tokens) {
  const Tensor &prompt = expected.at("greedy_prompt");
  Tensor tokens(expected.at("input_ids").shape);
  llvm::copy(prompt.data, tokens.data.begin());
  std::vector<double> found;
  size_t length = prompt.data.size();
  size_t wanted = expected.at("greedy_tokens").data.size();
  for (; found.size() < wanted; ++length) {
    Tensor logits = model->run("forward", {tokens})[0];
    auto row = logits.row(static_cast<int64_t>(length) - 1);
    found.push_back(static_cast<double>(llvm::max_element(row) - row.begin()));
    ASSERT_LT(length, static_cast<size_t>(tokens.shape[1]));
    tokens.data[length] = found.back();
  }
  EXPECT_EQ(found, expected.at("greedy_tokens").data);
}

// `train` and `update` as the runtime calls them.
class CompiledTraining : public CompiledFixture {
protected:
  bool isGpt2() const {
    return llvm::StringRef(GetParam().name) == "gpt2_tiny";
  }

  /// Trains as the fixture did; the losses and gradient norms.
  std::pair<std::vector<double>, std::vector<double>> train(int threads) {
    const llvm::json::Object &options =
        *scalars.getAsObject()->getObject(isGpt2() ? "adamw" : "adam");
    auto optimizer = Optimizer::read(*module);
    EXPECT_TRUE(mlir::succeeded(optimizer) && *optimizer);
    std::pair<std::vector<double>, std::vector<double>> run;
    for (int step = 1; step <= static_cast<int>(*options.getNumber("steps"));
         ++step) {
      run.first.push_back(
          model->run("train", trainBatch(""), threads)[0].data[0]);
      Tensor hyper({4}, {*options.getNumber("lr"),
                         1 - std::pow((*optimizer)->beta1, step),
                         1 - std::pow((*optimizer)->beta2, step),
                         isGpt2() ? 1.0 : 0.0});
      run.second.push_back(model->run("update", {hyper}, threads)[0].data[0]);
    }
    return run;
  }
};

TEST_P(CompiledTraining, LossesAndParameters) {
  std::string kind = isGpt2() ? "adamw" : "adam";
  auto [losses, norms] = train(1);
  const Tensor &expectedLosses = expected.at(kind + ".losses");
  ASSERT_EQ(losses.size(), expectedLosses.data.size());
  for (size_t step = 0; step < losses.size(); ++step) {
    EXPECT_NEAR(losses[step], expectedLosses.data[step], isGpt2() ? 2e-6 : 2e-5)
        << step;
    if (isGpt2()) {
      double norm = expected.at("adamw.grad_norms").data[step];
      EXPECT_NEAR(norms[step], norm, 2e-6 * norm) << step;
    }
  }
  for (auto param : module->getOps<ParamOp>()) {
    std::string symbol = param.getSymName().str();
    Tensor value = model->parameter(symbol);
    Tensor last = stack(param, expected, kind + ".param." + GetParam().prefix);
    bool isKeyBias = param.getSymName().ends_with("k.bias");
    bool isFusedBias = param.getSymName().ends_with("c_attn.bias");
    int64_t columns = value.shape.back();
    double mean = 0;
    int64_t counted = 0;
    for (auto [i, pair] :
         llvm::enumerate(llvm::zip_equal(value.data, last.data))) {
      auto [a, b] = pair;
      // The key's bias has no gradient but rounding, which Adam amplifies.
      int64_t column = static_cast<int64_t>(i) % columns;
      bool isNoise = isKeyBias || (isFusedBias && column >= columns / 3 &&
                                   column < 2 * columns / 3);
      double tolerance =
          isGpt2() ? (isNoise ? 0.01 : 1e-4) : (isNoise ? 1e-3 : 5e-5);
      EXPECT_NEAR(a, b, tolerance) << symbol;
      if (isNoise)
        continue;
      mean += std::abs(a - b);
      ++counted;
    }
    if (isGpt2()) {
      EXPECT_LE(mean, 3e-7 * static_cast<double>(counted)) << symbol;
    }
  }
}

TEST_P(CompiledTraining, SameBitsForEveryNumberOfThreads) {
  auto expectedRun = train(1);
  std::vector<float> parameters = model->parameters();
  for (int threads : {2, 3}) {
    load({}, GetParam().batch, GetParam().batch);
    EXPECT_EQ(train(threads), expectedRun);
    EXPECT_TRUE(model->parameters() == llvm::ArrayRef(parameters))
        << threads << " threads";
  }
}

// The gradients of micro-batches of one row add up to those of the batch.
class CompiledAccumulation : public CompiledFixture {
protected:
  void SetUp() override {
    int64_t rows = GetParam().batch;
    load({{"train.accumulate", std::to_string(rows)}, {"train.batch", "1"}}, 1,
         1);
  }
};
TEST_P(CompiledAccumulation, GradientsAddUp) {
  std::vector<Tensor> whole = trainBatch("");
  int64_t rows = GetParam().batch, columns = whole[0].shape[1];
  auto accumulate = [&](int threads) {
    model->clearGradients();
    double loss = 0;
    for (int64_t row = 0; row < rows; ++row) {
      std::vector<Tensor> inputs = whole;
      for (int i : {0, 1}) {
        auto from = whole[i].data.begin() + row * columns;
        inputs[i] =
            Tensor({1, columns}, std::vector<double>(from, from + columns));
      }
      inputs[3] = Tensor({4}, {0, 0, 0, static_cast<double>(row)});
      loss += model->run("train", inputs, threads)[0].data[0];
    }
    return loss;
  };
  double loss = accumulate(1);
  EXPECT_NEAR(loss, number("loss"), 2e-6);
  compareGradients("");
  std::vector<float> gradients = model->gradients();
  EXPECT_EQ(accumulate(3), loss);
  EXPECT_TRUE(model->gradients() == llvm::ArrayRef(gradients));
}

INSTANTIATE_TEST_SUITE_P(All, CompiledFixture,
                         testing::Values(gpt2Fixture, llamaFixture, labFixture),
                         fixtureName);
INSTANTIATE_TEST_SUITE_P(All, CompiledGaps, testing::Values(gapsFixture),
                         fixtureName);
INSTANTIATE_TEST_SUITE_P(All, CompiledGreedy, testing::Values(labFixture),
                         fixtureName);
INSTANTIATE_TEST_SUITE_P(All, CompiledTraining,
                         testing::Values(gpt2Fixture, labFixture), fixtureName);
INSTANTIATE_TEST_SUITE_P(All, CompiledAccumulation,
                         testing::Values(gpt2Fixture, llamaFixture, labFixture),
                         fixtureName);

} // namespace
