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
#include "compiler/frontend/Frontend.h"
#include "compiler/frontend/Source.h"
#include "compiler/transforms/Passes.h"
#include "tests/unit/oracle/Gradients.h"
#include "tests/unit/oracle/Safetensors.h"

#include "mlir/Pass/PassManager.h"
#include "gtest/gtest.h"

#include <cmath>

using namespace tfm;
using namespace tfm::oracle;

namespace {

struct Fixture {
  const char *name;
  /// What the checkpoint writes before our names.
  const char *prefix;
  int64_t batch, sequence, ignore;
  /// How far logits may be off, relative to the largest: 1e-12 is rounding in
  /// f64, 2e-7 that of a constant table to f32.
  double logits;
};

/// Gradients were rounded to f32, and the derivative's constants are f32.
constexpr double gradientTolerance = 3e-7;

class ModelFixture : public testing::TestWithParam<Fixture> {
protected:
  void SetUp() override {
    context = std::make_unique<mlir::MLIRContext>(
        mlir::MLIRContext::Threading::DISABLED);
    std::string folder = GetParam().name;
    FrontendOptions options;
    FunctionRequest forward;
    forward.batch = GetParam().batch;
    forward.sequence = GetParam().sequence;
    FunctionRequest loss;
    loss.kind = FunctionRequest::Loss;
    options.functions = {forward, loss};
    SourceManager sources;
    Diagnostics diags(sources);
    module =
        compileToTfm(*context, sources,
                     std::string(TFM_FIXTURES) + "/" + folder + "/model.tfm",
                     options, diags);
    std::string errors;
    llvm::raw_string_ostream stream(errors);
    diags.print(stream);
    ASSERT_TRUE(module) << errors;
    expected = readFixture(folder + "/expected.safetensors");
    scalars = readFixtureJson(folder + "/expected.json");
    auto weights = readFixture(folder + "/model.safetensors");
    for (auto param : module->getOps<ParamOp>())
      environment.parameters[param.getSymName()] =
          stack(param, weights, GetParam().prefix);
  }

  /// The tensors of all layers of `param` as one.
  static Tensor stack(ParamOp param,
                      const std::map<std::string, Tensor> &tensors,
                      const std::string &prefix) {
    Tensor result(param.getTensorType().getShape());
    int64_t at = 0;
    for (const std::string &name : param.getLayerNames()) {
      auto found = tensors.find(prefix + name);
      if (found == tensors.end()) {
        ADD_FAILURE() << "the checkpoint has no " << prefix + name;
        continue;
      }
      llvm::copy(found->second.data, result.data.begin() + at);
      at += found->second.size();
    }
    EXPECT_EQ(at, result.size()) << param.getSymName().str();
    return result;
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

  /// The tokens, targets and count of the batch whose names start so.
  std::vector<Tensor> batch(const std::string &prefix) {
    const Tensor &targets = expected.at(prefix + "targets");
    auto count = llvm::count_if(targets.data, [](double target) {
      return target != static_cast<double>(GetParam().ignore);
    });
    return {expected.at(prefix + "input_ids"), targets,
            Tensor({}, static_cast<double>(count))};
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

  std::unique_ptr<mlir::MLIRContext> context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  std::map<std::string, Tensor> expected;
  llvm::json::Value scalars = nullptr;
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
  double loss = *scalars.getAsObject()->getNumber("loss");
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
                  *scalars.getAsObject()->getNumber("loss"));
}

INSTANTIATE_TEST_SUITE_P(
    All, ModelFixture,
    testing::Values(Fixture{"gpt2_tiny", "transformer.", 2, 16, -100, 1e-12},
                    Fixture{"llama_tiny", "", 2, 16, -100, 1e-12},
                    Fixture{"lab_tiny", "", 3, 24, 0, 2e-7}),
    [](const auto &info) { return std::string(info.param.name); });

} // namespace
