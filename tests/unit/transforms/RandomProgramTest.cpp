//===- RandomProgramTest.cpp - random programs with nested repeats --------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Random dataflow, with repeats in repeats, over values [2, 3]: its derivative
// is that of central differences, and simplifying and decomposing change
// neither the program nor its derivative.
//
//===----------------------------------------------------------------------===//

#include "tests/unit/transforms/RandomProgram.h"
#include "compiler/transforms/Passes.h"
#include "tests/unit/oracle/Gradients.h"

#include "mlir/Pass/PassManager.h"
#include "gtest/gtest.h"

using namespace tfm::oracle;

namespace {

class RandomProgram : public testing::TestWithParam<unsigned> {};

TEST_P(RandomProgram, GradientsAgreeWithDifferences) {
  Environment environment;
  environment.seedLow = GetParam();
  for (unsigned i = 0; i < 10; ++i)
    expectGradients(randomProgram(GetParam() * 10 + i), i, environment);
}

TEST_P(RandomProgram, SimplifyingKeepsProgramAndDerivative) {
  tfm::registerTfmTransformsPasses();
  Environment environment;
  environment.seedLow = GetParam();
  for (unsigned i = 0; i < 10; ++i) {
    std::string text = randomProgram(GetParam() * 10 + i);
    SCOPED_TRACE(text);
    TestModule before(text), after(text);
    ASSERT_TRUE(before.function("f"));
    auto derivative = addVJP(before.function("f"), "g");
    addVJP(after.function("f"), "g");
    mlir::PassManager passes(after.context.get());
    ASSERT_TRUE(mlir::succeeded(mlir::parsePassPipeline(
        "tfm-simplify,tfm-decompose,tfm-simplify", passes)));
    ASSERT_TRUE(mlir::succeeded(passes.run(*after.module)));
    std::mt19937 random(i);
    auto inputs = randomInputs(derivative, random);
    auto expected = evaluateOrFail(derivative, inputs, environment);
    auto found = evaluateOrFail(after.function("g"), inputs, environment);
    ASSERT_EQ(found.size(), expected.size());
    for (auto [a, b] : llvm::zip_equal(found, expected))
      EXPECT_LE(relativeError(a, b), 1e-6);
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomProgram, testing::Range(0u, 12u));

} // namespace
