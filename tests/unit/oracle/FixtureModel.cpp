//===- FixtureModel.cpp - models that other frameworks computed -----------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tests/unit/oracle/FixtureModel.h"

#include "compiler/frontend/Frontend.h"
#include "compiler/frontend/Source.h"
#include "tests/unit/oracle/Safetensors.h"

using namespace tfm;
using oracle::Tensor;

void FixtureModel::open(
    int64_t rows, int64_t trainRows,
    std::vector<std::pair<std::string, std::string>> defines) {
  module = nullptr;
  context = std::make_unique<mlir::MLIRContext>(
      mlir::MLIRContext::Threading::DISABLED);
  std::string folder = GetParam().name;
  FrontendOptions options;
  options.defines = std::move(defines);
  FunctionRequest forward, loss;
  forward.batch = rows;
  forward.sequence = GetParam().sequence;
  loss.kind = FunctionRequest::Loss;
  loss.batch = trainRows;
  options.functions = {forward, loss};
  SourceManager sources;
  Diagnostics diags(sources);
  module =
      compileToTfm(*context, sources, TFM_FIXTURES "/" + folder + "/model.tfm",
                   options, diags);
  ASSERT_TRUE(module) << diags.str();
  expected = oracle::readFixture(folder + "/expected.safetensors");
  scalars = oracle::readFixtureJson(folder + "/expected.json");
}

std::map<std::string, Tensor> FixtureModel::weights() {
  auto tensors =
      oracle::readFixture(std::string(GetParam().name) + "/model.safetensors");
  std::map<std::string, Tensor> result;
  for (auto param : module->getOps<ParamOp>())
    result[param.getSymName().str()] = stack(param, tensors, GetParam().prefix);
  return result;
}

Tensor FixtureModel::stack(ParamOp param,
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

std::vector<Tensor> FixtureModel::batch(const std::string &prefix) {
  const Tensor &targets = expected.at(prefix + "targets");
  auto count = llvm::count_if(targets.data, [](double target) {
    return target != static_cast<double>(GetParam().ignore);
  });
  return {expected.at(prefix + "input_ids"), targets,
          Tensor({}, static_cast<double>(count))};
}
