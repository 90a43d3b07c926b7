//===- ModelTest.cpp - whole models against PyTorch and Keras -------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// From the language through the dialect and its derivative to numbers: logits,
// loss and every gradient of the fixtures' models, which other frameworks
// computed in f64.
//
//===----------------------------------------------------------------------===//

#include "compiler/dialect/TfmDialect.h"
#include "compiler/transforms/Passes.h"
#include "compiler/transforms/ReadRecipe.h"
#include "tests/unit/oracle/FixtureModel.h"
#include "tests/unit/oracle/Gradients.h"

#include "mlir/Pass/PassManager.h"
#include "gtest/gtest.h"

#include <cmath>

using namespace tfm;
using namespace tfm::oracle;

namespace {

/// Gradients were rounded to f32, and the derivative's constants are f32.
constexpr double gradientTolerance = 3e-7;

class ModelFixture : public FixtureModel {
protected:
  void SetUp() override {
    open(GetParam().batch, GetParam().batch);
    if (module)
      for (auto &[symbol, value] : weights())
        environment.parameters[symbol] = value;
  }

  void run(llvm::StringRef pipeline) {
    registerTfmTransformsPasses();
    mlir::PassManager passes(context.get());
    ASSERT_TRUE(mlir::succeeded(mlir::parsePassPipeline(pipeline, passes)));
    ASSERT_TRUE(mlir::succeeded(passes.run(*module)));
  }

  mlir::func::FuncOp function(llvm::StringRef name) {
    return module->lookupSymbol<mlir::func::FuncOp>(name);
  }

  /// Compares loss and gradients of `results`, what @train gives for a batch.
  void compareTraining(const std::vector<Tensor> &results,
                       const std::string &prefix, double loss) {
    mlir::func::FuncOp train = function("train");
    ASSERT_EQ(results.size(), train.getNumResults());
    EXPECT_NEAR(results[0].data[0], loss, 1e-7);
    double norm = 0.0;
    for (size_t i = 2; i < results.size(); ++i)
      for (double x : results[i].data)
        norm += x * x;
    norm = std::sqrt(norm);
    for (unsigned i = 2; i < results.size(); ++i) {
      auto symbol =
          train.getResultAttrOfType<mlir::FlatSymbolRefAttr>(i, "tfm.gradient");
      ASSERT_TRUE(symbol);
      auto param = module->lookupSymbol<ParamOp>(symbol.getValue());
      Tensor gradient =
          stack(param, expected, prefix + "grad." + GetParam().prefix);
      if (symbol.getValue().ends_with("attention.k.bias")) {
        // Zero in exact arithmetic: a shift of all scores changes nothing.
        for (double x : results[i].data)
          EXPECT_LE(std::abs(x), 1e-9 * norm);
        continue;
      }
      EXPECT_LE(relativeError(results[i], gradient), gradientTolerance)
          << symbol.getValue().str();
    }
  }

  Environment environment;
};

TEST_P(ModelFixture, Logits) {
  auto results = evaluateOrFail(function("forward"), {expected.at("input_ids")},
                                environment);
  ASSERT_EQ(results.size(), 1u);
  EXPECT_LE(relativeError(results[0], expected.at("logits_f64")),
            GetParam().logits);
}

TEST_P(ModelFixture, LossAndGradients) {
  double loss = number("loss");
  run("tfm-strip-dropout,tfm-differentiate");
  compareTraining(evaluateOrFail(function("train"), batch(""), environment), "",
                  loss);
  auto evaluated = evaluateOrFail(function("evaluate"), batch(""), environment);
  EXPECT_NEAR(evaluated[0].data[0], loss, 1e-7);
}

// What the compiler goes on with is simplified and decomposed.
TEST_P(ModelFixture, GradientsAfterSimplification) {
  run("tfm-differentiate,tfm-simplify,tfm-decompose,tfm-simplify");
  compareTraining(evaluateOrFail(function("train"), batch(""), environment), "",
                  number("loss"));
}

// A batch with padding inside of its inputs: the targets alone decide what
// counts.
class GapsFixture : public ModelFixture {};
TEST_P(GapsFixture, LossAndGradients) {
  run("tfm-differentiate");
  compareTraining(
      evaluateOrFail(function("train"), batch("gaps."), environment), "gaps.",
      number("gaps_loss"));
}

/// Parameters or gradients that @update_decayed or @update_plain covers, one
/// after another.
struct Range {
  mlir::func::FuncOp update;
  std::vector<ParamOp> params;
  Tensor m, v;

  Tensor flat(const llvm::StringMap<Tensor> &tensors) {
    std::vector<double> data;
    for (ParamOp param : params)
      llvm::append_range(data, tensors.lookup(param.getSymName()).data);
    return Tensor({static_cast<int64_t>(data.size())}, data);
  }
};

// Losses, gradient norms and final parameters of a training run: @train,
// clipping and the optimizer together.
class TrainingRun : public ModelFixture {};
TEST_P(TrainingRun, LossesAndParameters) {
  std::string kind = scalars.getAsObject()->get("adamw") ? "adamw" : "adam";
  const llvm::json::Object *options = scalars.getAsObject()->getObject(kind);
  ASSERT_TRUE(options);
  run("tfm-differentiate,tfm-simplify,tfm-add-update");
  auto optimizer = Optimizer::read(*module);
  ASSERT_TRUE(mlir::succeeded(optimizer) && *optimizer);
  Range ranges[] = {{function("update_decayed"), {}, {}, {}},
                    {function("update_plain"), {}, {}, {}}};
  for (auto param : module->getOps<ParamOp>())
    ranges[(*optimizer)->decays(param) ? 0 : 1].params.push_back(param);
  for (Range &range : ranges)
    range.m = range.v = Tensor(range.flat(environment.parameters).shape);

  const Tensor &losses = expected.at(kind + ".losses");
  for (int64_t step = 0; step < losses.size(); ++step) {
    auto results = evaluateOrFail(function("train"), batch(""), environment);
    ASSERT_EQ(results.size(), function("train").getNumResults());
    EXPECT_NEAR(results[0].data[0], losses.data[step], 1e-6) << step;
    llvm::StringMap<Tensor> gradients;
    double norm = 0.0;
    for (unsigned i = 2; i < results.size(); ++i) {
      auto symbol =
          function("train").getResultAttrOfType<mlir::FlatSymbolRefAttr>(
              i, "tfm.gradient");
      for (double x : results[i].data)
        norm += x * x;
      gradients[symbol.getValue()] = results[i];
    }
    norm = std::sqrt(norm);
    Tensor scale({}, 1.0);
    if (auto norms = expected.find(kind + ".grad_norms");
        norms != expected.end()) {
      EXPECT_NEAR(norm, norms->second.data[step], 1e-5);
      scale.data[0] = std::min(1.0, 1.0 / (norm + 1e-6));
    }
    auto t = static_cast<double>(step + 1);
    Tensor hyper({4}, {*options->getNumber("lr"),
                       1 - std::pow((*optimizer)->beta1, t),
                       1 - std::pow((*optimizer)->beta2, t), 1.0});
    for (Range &range : ranges) {
      if (range.params.empty())
        continue;
      auto next =
          evaluateOrFail(range.update, {range.flat(environment.parameters),
                                        range.flat(gradients), range.m, range.v,
                                        hyper, scale});
      ASSERT_EQ(next.size(), 3u);
      range.m = next[1], range.v = next[2];
      auto from = next[0].data.begin();
      for (ParamOp param : range.params) {
        Tensor &value = environment.parameters[param.getSymName()];
        std::copy_n(from, value.size(), value.data.begin());
        from += value.size();
      }
    }
  }
  for (auto param : module->getOps<ParamOp>()) {
    const Tensor &value = environment.parameters[param.getSymName()];
    Tensor last = stack(param, expected, kind + ".param." + GetParam().prefix);
    bool isKeyBias = param.getSymName().ends_with("c_attn.bias") ||
                     param.getSymName().ends_with("k.bias");
    for (auto [a, b] : llvm::zip_equal(value.data, last.data))
      EXPECT_NEAR(a, b, isKeyBias ? 1e-5 : 1e-6) << param.getSymName().str();
  }
}

INSTANTIATE_TEST_SUITE_P(All, ModelFixture,
                         testing::Values(gpt2Fixture, llamaFixture, labFixture),
                         fixtureName);
INSTANTIATE_TEST_SUITE_P(All, GapsFixture, testing::Values(gapsFixture),
                         fixtureName);
INSTANTIATE_TEST_SUITE_P(All, TrainingRun,
                         testing::Values(gpt2Fixture, labFixture), fixtureName);

} // namespace
