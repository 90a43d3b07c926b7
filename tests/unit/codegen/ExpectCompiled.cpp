//===- ExpectCompiled.cpp - machine code against the oracle ---------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tests/unit/codegen/ExpectCompiled.h"

#include "compiler/driver/Compile.h"
#include "tests/unit/codegen/CompiledModel.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/TypeUtilities.h"
#include "gtest/gtest.h"

#include <cmath>

using namespace tfm;
using oracle::Environment;
using oracle::Tensor;
using oracle::TestModule;

const Environment tfm::dropoutEnvironment = [] {
  Environment environment;
  environment.seedLow = 77;
  environment.seedHigh = 5;
  environment.counter = 9;
  return environment;
}();
const Tensor tfm::dropoutCounter({4}, {77, 5, 9, 0});

namespace {

double largest(const Tensor &tensor) {
  double result = 0;
  for (double x : tensor.data)
    result = std::max(result, std::abs(x));
  return result;
}

double distance(const Tensor &a, const Tensor &b) {
  double result = 0;
  for (auto [x, y] : llvm::zip_equal(a.data, b.data))
    result = std::isnan(x - y) ? INFINITY : std::max(result, std::abs(x - y));
  return result;
}

} // namespace

std::vector<Tensor> tfm::roundedInputs(mlir::func::FuncOp function,
                                       unsigned seed) {
  std::mt19937 random(seed);
  std::vector<Tensor> inputs = oracle::randomInputs(function, random);
  for (Tensor &input : inputs)
    for (double &value : input.data)
      value = static_cast<float>(value);
  return inputs;
}

std::vector<Tensor> tfm::runCompiled(TestModule &module,
                                     std::vector<Tensor> inputs) {
  EXPECT_TRUE(mlir::succeeded(prepare(*module.module, testedTarget())));
  CompiledModel compiled(*module.module);
  inputs.push_back(dropoutCounter);
  std::vector<Tensor> results = compiled.run("train", inputs);
  std::vector<Tensor> again = compiled.run("train", inputs, 3);
  for (size_t i = 0; i < results.size(); ++i)
    EXPECT_EQ(results[i].data, again[i].data)
        << "result " << i << " with three threads";
  return results;
}

void tfm::expectCompiled(TestModule &module, mlir::func::FuncOp function,
                         unsigned seed) {
  std::vector<Tensor> inputs = roundedInputs(function, seed);
  std::vector<Tensor> expected =
      oracle::evaluateOrFail(function, inputs, dropoutEnvironment);
  std::vector<double> condition(expected.size(), 0.0);
  std::mt19937 random(seed);
  for (int sample = 0; sample < 4; ++sample) {
    std::vector<Tensor> moved = inputs;
    for (auto [input, type] :
         llvm::zip_equal(moved, function.getArgumentTypes()))
      for (double &x : input.data)
        x *= !mlir::isa<mlir::FloatType>(mlir::getElementTypeOrSelf(type))
                 ? 1
                 : 1 + std::ldexp(random() % 2 ? 1.0 : -1.0, -24);
    std::vector<Tensor> results =
        oracle::evaluateOrFail(function, moved, dropoutEnvironment);
    for (size_t i = 0; i < results.size(); ++i)
      condition[i] = std::max(condition[i], distance(results[i], expected[i]));
  }
  std::vector<Tensor> results = runCompiled(module, inputs);
  ASSERT_EQ(results.size(), expected.size());
  for (size_t i = 0; i < results.size(); ++i) {
    ASSERT_EQ(results[i].shape, expected[i].shape);
    // An absolute part: where terms cancel to zero their rounding remains.
    double tolerance =
        64 * condition[i] + 4e-6 * std::max(largest(expected[i]), 0.1);
    EXPECT_LE(distance(results[i], expected[i]), tolerance) << "result " << i;
  }
}

void tfm::expectCompiled(llvm::StringRef text, unsigned seed) {
  SCOPED_TRACE(text.str());
  TestModule module(text), original(text);
  ASSERT_TRUE(module.function("f")) << "the test's text does not parse";
  module.function("f").setSymName("train");
  expectCompiled(module, original.function("f"), seed);
}

void tfm::expectDerivativeCompiled(llvm::StringRef text, unsigned seed) {
  SCOPED_TRACE(text.str());
  TestModule module(text), original(text);
  ASSERT_TRUE(module.function("f")) << "the test's text does not parse";
  oracle::addVJP(module.function("f"), "train");
  module.function("f").erase();
  expectCompiled(module, oracle::addVJP(original.function("f"), "g"), seed);
}
