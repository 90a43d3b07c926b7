//===- FixturesTest.cpp - models in .tfm against published numbers --------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

// Models written from their descriptions compute what PyTorch, Keras and
// TensorFlow computed: logits, loss and every gradient, evaluated by the oracle
// in f64. This checks what the frontend emits, op by op and name by name.

#include "compiler/dialect/TfmDialect.h"
#include "compiler/frontend/Frontend.h"
#include "compiler/oracle/Interpreter.h"
#include "compiler/transforms/Passes.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/Pass/PassManager.h"
#include "tests/unit/oracle/Safetensors.h"
#include "gtest/gtest.h"

#include <cmath>

using namespace tfm;
using oracle::Tensor;

namespace {

struct Fixture {
  std::string model;
  std::vector<std::pair<std::string, std::string>> defines;
  std::map<std::string, Tensor> weights;
  std::string weightPrefix;
  std::map<std::string, Tensor> expected;
  std::string tokens = "input_ids", targets = "targets", logits = "logits_f64",
              gradients = "grad.";
  double loss = NAN;
  int64_t ignore = -100;
  /// Gradients that are zero in exact arithmetic.
  std::string zeroGradient = "no such name";
  double logitTolerance = 1e-6, gradientTolerance = 1e-6;
};

double distance(const Tensor &found, const Tensor &wanted) {
  EXPECT_EQ(found.data.size(), wanted.data.size());
  double most = 0, scale = 0;
  for (size_t i = 0; i < std::min(found.data.size(), wanted.data.size()); ++i) {
    double difference = std::fabs(found.data[i] - wanted.data[i]);
    most = std::isnan(difference) ? INFINITY : std::max(most, difference);
    scale = std::max(scale, std::fabs(wanted.data[i]));
  }
  return scale == 0 ? most : most / scale;
}

void check(const Fixture &fixture) {
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  SourceManager sources;
  Diagnostics diags(sources);
  FrontendOptions options;
  options.defines = fixture.defines;
  const Tensor &tokens = fixture.expected.at(fixture.tokens);
  int64_t batch = tokens.shape[0], length = tokens.shape[1];
  options.functions = {{FunctionRequest::Forward, batch, length, ""}};
  bool hasLoss = fixture.expected.count(fixture.targets);
  if (hasLoss)
    options.functions.push_back({FunctionRequest::Loss, batch, length, ""});
  auto module = compileToTfm(context, sources, fixture.model, options, diags);
  ASSERT_TRUE(module) << diags.str();

  // Every tensor of the checkpoint is there, under its name.
  oracle::Environment environment;
  size_t used = 0;
  for (ParamOp param : module->getOps<ParamOp>()) {
    Tensor all(param.getTensorType().getShape());
    size_t at = 0;
    for (const std::string &name : param.getLayerNames()) {
      auto weight = fixture.weights.find(fixture.weightPrefix + name);
      ASSERT_NE(weight, fixture.weights.end()) << name;
      ASSERT_EQ(llvm::ArrayRef(weight->second.shape),
                param.getTensorType().getShape().drop_front(
                    param.getNumStackedDims()))
          << name;
      llvm::copy(weight->second.data, all.data.begin() + at);
      at += weight->second.data.size();
      ++used;
    }
    ASSERT_EQ(at, all.data.size());
    environment.parameters[param.getSymName()] = std::move(all);
  }
  size_t available = llvm::count_if(fixture.weights, [&](const auto &weight) {
    return llvm::StringRef(weight.first).starts_with(fixture.weightPrefix);
  });
  EXPECT_EQ(used, available);

  auto forward = module->lookupSymbol<mlir::func::FuncOp>("forward");
  auto logits = oracle::evaluate(forward, {tokens}, environment);
  ASSERT_TRUE(bool(logits)) << llvm::toString(logits.takeError());
  EXPECT_LT(distance((*logits)[0], fixture.expected.at(fixture.logits)),
            fixture.logitTolerance);
  if (!hasLoss)
    return;

  mlir::PassManager passes(&context);
  passes.addPass(createDifferentiatePass());
  ASSERT_TRUE(mlir::succeeded(passes.run(*module)));
  auto train = module->lookupSymbol<mlir::func::FuncOp>("train");
  ASSERT_TRUE(train);
  const Tensor &targets = fixture.expected.at(fixture.targets);
  double count = llvm::count_if(targets.data, [&](double target) {
    return target != static_cast<double>(fixture.ignore);
  });
  auto results = oracle::evaluate(
      train, {tokens, targets, Tensor(llvm::ArrayRef<int64_t>(), count)},
      environment);
  ASSERT_TRUE(bool(results)) << llvm::toString(results.takeError());
  EXPECT_NEAR((*results)[0].data[0], fixture.loss, 1e-6);
  // Results: the loss, then the gradients in the order of the parameters.
  size_t result = results->size() -
                  llvm::count_if(module->getOps<ParamOp>(), [](ParamOp param) {
                    return param.getTrainable();
                  });
  for (ParamOp param : module->getOps<ParamOp>()) {
    const Tensor &gradient = (*results)[result++];
    size_t at = 0;
    for (const std::string &name : param.getLayerNames()) {
      SCOPED_TRACE(name);
      const Tensor &wanted = fixture.expected.at(fixture.gradients + name);
      Tensor own(wanted.shape);
      std::copy_n(gradient.data.begin() + at, own.data.size(),
                  own.data.begin());
      at += own.data.size();
      // Softmax ignores what is the same for every key.
      if (name.find(fixture.zeroGradient) != std::string::npos &&
          llvm::StringRef(name).ends_with("bias")) {
        for (double value : own.data)
          EXPECT_NEAR(value, 0, 1e-12);
        continue;
      }
      EXPECT_LT(distance(own, wanted), fixture.gradientTolerance);
    }
  }
}

const std::string fixtures = TFM_FIXTURES;

TEST(Fixtures, Gpt2Tiny) {
  Fixture fixture;
  fixture.model = fixtures + "/models/gpt2_hf.tfm";
  fixture.weights = oracle::readFixture("gpt2_tiny/model.safetensors");
  fixture.expected = oracle::readFixture("gpt2_tiny/expected.safetensors");
  auto json = oracle::readFixtureJson("gpt2_tiny/expected.json");
  fixture.loss = *json.getAsObject()->getNumber("loss");
  check(fixture);
}

TEST(Fixtures, LlamaTiny) {
  Fixture fixture;
  fixture.model = fixtures + "/models/llama_hf.tfm";
  fixture.weights = oracle::readFixture("llama_tiny/model.safetensors");
  fixture.expected = oracle::readFixture("llama_tiny/expected.safetensors");
  auto json = oracle::readFixtureJson("llama_tiny/expected.json");
  fixture.loss = *json.getAsObject()->getNumber("loss");
  check(fixture);
}

TEST(Fixtures, LabTiny) {
  Fixture fixture;
  fixture.model = fixtures + "/models/lab.tfm";
  fixture.weights = oracle::readFixture("lab_tiny/model.safetensors");
  fixture.expected = oracle::readFixture("lab_tiny/expected.safetensors");
  auto json = oracle::readFixtureJson("lab_tiny/expected.json");
  fixture.loss = *json.getAsObject()->getNumber("loss");
  fixture.ignore = 0;
  fixture.zeroGradient = "attention.k.";
  check(fixture);
}

} // namespace
