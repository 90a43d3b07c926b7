//===- Gradients.cpp - derivatives against finite differences -------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tests/unit/oracle/Gradients.h"

#include "compiler/dialect/ReverseSweep.h"
#include "compiler/dialect/TfmBuilder.h"

#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "gtest/gtest.h"

#include <cmath>

using namespace mlir;
using namespace tfm;
using namespace tfm::oracle;

TestModule::TestModule(StringRef text)
    : context(std::make_unique<MLIRContext>(MLIRContext::Threading::DISABLED)) {
  context->loadDialect<TfmDialect, func::FuncDialect>();
  context->allowUnregisteredDialects();
  module = parseSourceString<ModuleOp>(text, context.get());
}

func::FuncOp TestModule::function(StringRef name) const {
  return module ? module.get().lookupSymbol<func::FuncOp>(name) : nullptr;
}

func::FuncOp tfm::oracle::addVJP(func::FuncOp function, StringRef name) {
  auto copy = cast<func::FuncOp>(function->clone());
  copy.setSymName(name);
  function->getParentOfType<ModuleOp>().push_back(copy);
  Block &block = copy.getBody().front();
  Operation *end = block.getTerminator();
  OpBuilder builder(end);
  ReverseSweep sweep(builder);
  SmallVector<BlockArgument> arguments(block.getArguments());
  for (BlockArgument argument : arguments)
    sweep.activate(argument);
  sweep.propagateActivity(block);
  for (Value result : end->getOperands())
    if (isFloat(result))
      sweep.accumulate(result,
                       block.addArgument(result.getType(), function.getLoc()));
  EXPECT_TRUE(succeeded(sweep.run(block)));
  SmallVector<Value> results;
  for (BlockArgument argument : arguments) {
    if (!isFloat(argument))
      continue;
    Value value = sweep.cotangent(argument);
    results.push_back(
        value ? value
              : splat(builder, function.getLoc(), tensorType(argument), 0.0));
  }
  end->setOperands(results);
  copy.setArgAttrsAttr(nullptr);
  copy.setType(builder.getFunctionType(block.getArgumentTypes(),
                                       ValueRange(results).getTypes()));
  eraseDeadOps(block);
  EXPECT_TRUE(succeeded(verify(copy)));
  return copy;
}

std::vector<Tensor> tfm::oracle::randomInputs(func::FuncOp function,
                                              std::mt19937 &random) {
  std::vector<Tensor> inputs;
  for (BlockArgument argument : function.getArguments()) {
    unsigned number = argument.getArgNumber();
    RankedTensorType type = tensorType(argument);
    Tensor input(type.getShape());
    auto size = static_cast<double>(input.size());
    if (isFloat(argument)) {
      for (auto [i, value] : llvm::enumerate(input.data))
        value = (i + 0.5) / size * 2.0 - 1.0 + 0.0041 * (number + 1);
      std::shuffle(input.data.begin(), input.data.end(), random);
      if (function.getArgAttr(number, "test.positive"))
        for (double &value : input.data)
          value = std::exp(value);
    } else {
      int64_t limit = 2;
      if (auto attr =
              function.getArgAttrOfType<IntegerAttr>(number, "test.limit"))
        limit = attr.getInt();
      for (double &value : input.data)
        value = static_cast<double>(random() % limit);
    }
    inputs.push_back(std::move(input));
  }
  return inputs;
}

std::vector<Tensor>
tfm::oracle::evaluateOrFail(func::FuncOp function, ArrayRef<Tensor> inputs,
                            const Environment &environment) {
  auto results = evaluate(function, inputs, environment);
  if (results)
    return *results;
  ADD_FAILURE() << llvm::toString(results.takeError());
  return {};
}

/// Turns every f32 into f64, so that the constants of a derivative (1/3, an
/// epsilon) are not rounded to f32. A program that has both is left alone.
static std::string inDoublePrecision(StringRef text) {
  std::string result = text.str();
  if (text.contains("xf64>"))
    return result;
  for (size_t at; (at = result.find("f32")) != std::string::npos;)
    result.replace(at, 3, "f64");
  return result;
}

void tfm::oracle::expectGradients(StringRef text, unsigned seed,
                                  const Environment &environment) {
  SCOPED_TRACE(text.str());
  TestModule test(inDoublePrecision(text));
  func::FuncOp f = test.function("f");
  ASSERT_TRUE(f) << "the test's text does not parse";
  func::FuncOp g = addVJP(f, "g");
  std::mt19937 random(seed);
  std::vector<Tensor> inputs = randomInputs(f, random);

  // A random weighting of all results makes one number of them.
  std::uniform_real_distribution<double> uniform(0.5, 1.5);
  std::vector<Tensor> weights;
  for (Type result : f.getResultTypes()) {
    Tensor weight(cast<RankedTensorType>(result).getShape());
    for (double &value : weight.data)
      value = random() % 2 ? uniform(random) : -uniform(random);
    weights.push_back(std::move(weight));
  }
  auto objective = [&](ArrayRef<Tensor> at) {
    std::vector<Tensor> results = evaluateOrFail(f, at, environment);
    double sum = 0.0;
    for (auto [weight, result] : llvm::zip(weights, results))
      for (auto [a, b] : llvm::zip_equal(weight.data, result.data))
        sum += a * b;
    return sum;
  };

  std::vector<Tensor> all = inputs;
  all.insert(all.end(), weights.begin(), weights.end());
  std::vector<Tensor> gradients = evaluateOrFail(g, all, environment);
  size_t next = 0;
  for (BlockArgument argument : f.getArguments()) {
    if (!isFloat(argument))
      continue;
    ASSERT_LT(next, gradients.size());
    const Tensor &gradient = gradients[next++];
    Tensor &input = inputs[argument.getArgNumber()];
    ASSERT_EQ(gradient.shape, input.shape);
    double scale = 0.01;
    for (double value : gradient.data)
      scale = std::max(scale, std::abs(value));
    for (int64_t i = 0; i < input.size(); ++i) {
      // The fourth-order central difference: its error is O(h^4).
      const double h = 5e-4, centre = input.data[i];
      auto shifted = [&](double step) {
        input.data[i] = centre + step;
        double value = objective(inputs);
        input.data[i] = centre;
        return value;
      };
      double near = shifted(h) - shifted(-h);
      double far = shifted(2 * h) - shifted(-2 * h);
      double expected = (8.0 * near - far) / (12.0 * h);
      EXPECT_NEAR(gradient.data[i], expected,
                  1e-6 * std::abs(expected) + 1e-9 * scale)
          << "argument " << argument.getArgNumber() << ", element " << i;
    }
  }
}

std::vector<int64_t> tfm::oracle::randomShape(std::mt19937 &random,
                                              int64_t rank) {
  const int64_t sizes[] = {1, 2, 3, 5, 7};
  std::vector<int64_t> shape;
  for (int64_t axis = 0; axis < rank; ++axis)
    shape.push_back(sizes[random() % 5]);
  return shape;
}

std::string tfm::oracle::spell(ArrayRef<int64_t> shape, StringRef element) {
  std::string result;
  for (int64_t size : shape)
    result += std::to_string(size) + "x";
  return result + element.str();
}

double tfm::oracle::relativeError(const Tensor &a, const Tensor &b) {
  double difference = 0.0, scale = 0.0;
  for (auto [x, y] : llvm::zip_equal(a.data, b.data)) {
    // A NaN must not pass as a small difference, whatever comes behind it.
    difference =
        std::isnan(x - y) ? INFINITY : std::max(difference, std::abs(x - y));
    scale = std::max(scale, std::abs(y));
  }
  return scale == 0.0 ? difference : difference / scale;
}
