//===- OptimizerTest.cpp - what passes read of a recipe -------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/transforms/ReadRecipe.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"
#include "gtest/gtest.h"

using namespace tfm;

namespace {

/// The type that `trainingPrecision` answers for a recipe, as text, or what it
/// reports.
std::string precisionOf(const char *recipe) {
  mlir::MLIRContext context;
  std::string problem;
  mlir::ScopedDiagnosticHandler handler(
      &context,
      [&](mlir::Diagnostic &diagnostic) { problem = diagnostic.str(); });
  mlir::OwningOpRef<mlir::ModuleOp> module =
      mlir::ModuleOp::create(mlir::UnknownLoc::get(&context));
  if (recipe)
    (*module)->setAttr("tfm.recipe", mlir::StringAttr::get(&context, recipe));
  mlir::FailureOr<mlir::FloatType> type = trainingPrecision(*module);
  if (mlir::failed(type))
    return problem;
  return type->isBF16() ? "bf16" : type->isF32() ? "f32" : "another";
}

TEST(TrainingPrecision, IsThatOfTheTrainBlock) {
  EXPECT_EQ(precisionOf(R"({"train": {"precision": "bf16"}})"), "bf16");
  EXPECT_EQ(precisionOf(R"({"train": {"precision": "f32"}})"), "f32");
}

TEST(TrainingPrecision, IsSingleWhereNothingTrains) {
  EXPECT_EQ(precisionOf(nullptr), "f32");
  EXPECT_EQ(precisionOf(R"({"train": null})"), "f32");
}

// As every key: nothing is made up for one that is not there or not known.
TEST(TrainingPrecision, IsNotGuessed) {
  EXPECT_EQ(precisionOf(R"({"train": {}})"),
            "the recipe's train.precision is missing");
  EXPECT_EQ(precisionOf(R"({"train": {"precision": "f16"}})"),
            "the recipe's train.precision takes `f32` or `bf16`");
}

} // namespace
