//===- OptimizerTest.cpp - optimizers as machine code ---------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The trajectories of fixture `optimizers`, from the words of the language to
// `train` and `update` as the runtime calls them. The model's loss is linear in
// its parameters, so that its gradient at token t is the fixture's of step t.
//
//===----------------------------------------------------------------------===//

#include "compiler/dialect/TfmDialect.h"
#include "compiler/driver/Compile.h"
#include "compiler/frontend/Diagnostics.h"
#include "compiler/frontend/Frontend.h"
#include "compiler/frontend/Source.h"
#include "compiler/transforms/ReadRecipe.h"
#include "tests/unit/codegen/CompiledModel.h"
#include "tests/unit/oracle/Gradients.h"
#include "tests/unit/oracle/Safetensors.h"
#include "tests/unit/runtime/TemporaryFolder.h"

#include "gtest/gtest.h"

#include <cmath>

using namespace tfm;
using oracle::Tensor;

namespace {

const char model[] = R"tfm(
model Linear(context = 1) {
  param a: [4, 3]
  param b: [5]
  param c: [2, 2, 3]
  param ga: [20, 12] = zeros, trainable = false
  param gb: [20, 5] = zeros, trainable = false
  param gc: [20, 12] = zeros, trainable = false

  forward(tokens: int[B, T]) -> [B, T, 1] {
    x = sum(gather(ga, tokens) * rearrange(a, "i j -> (i j)"))
    x = x + sum(gather(gb, tokens) * b)
    return x + sum(gather(gc, tokens) * rearrange(c, "i j k -> (i j k)"))
  }
  loss(tokens: int[B, T], targets: int[B, T]) -> [B, T] {
    return rearrange(forward(tokens), "B T one -> B (T one)")
  }
}
train { batch = 1, sequence = 1, steps = 20, optimizer = )tfm";

struct Trajectory {
  const char *file;
  const char *name;
  const char *optimizer;
};

class CompiledOptimizer : public testing::TestWithParam<Trajectory> {};

TEST_P(CompiledOptimizer, OfTwentySteps) {
  test::TemporaryFolder folder;
  std::string path = folder.write(
      "model.tfm", model + std::string(GetParam().optimizer) + " }\n");
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  SourceManager sources;
  Diagnostics diags(sources);
  auto module = compileToTfm(context, sources, path, {}, diags);
  std::string errors;
  llvm::raw_string_ostream stream(errors);
  diags.print(stream);
  ASSERT_TRUE(module) << errors;
  auto optimizer = Optimizer::read(*module);
  ASSERT_TRUE(mlir::succeeded(optimizer) && *optimizer);
  auto recipe = llvm::json::parse(
      (*module)->getAttrOfType<mlir::StringAttr>("tfm.recipe").getValue());
  ASSERT_TRUE(static_cast<bool>(recipe));
  double lr = *recipe->getAsObject()
                   ->getObject("train")
                   ->getObject("optimizer")
                   ->getNumber("lr");
  ASSERT_TRUE(mlir::succeeded(prepare(*module, testedTarget())));
  CompiledModel compiled(*module);

  auto torch = oracle::readFixture("optimizers/torch.safetensors");
  auto expected =
      oracle::readFixture("optimizers/" + std::string(GetParam().file));
  for (std::string name : {"a", "b", "c"}) {
    compiled.setParameter(name, torch.at("start." + name));
    const Tensor &gradients = torch.at("grads." + name);
    compiled.setParameter("g" + name,
                          Tensor({20, gradients.size() / 20}, gradients.data));
  }
  for (int64_t step = 0; step < 20; ++step) {
    auto t = static_cast<double>(step + 1);
    compiled.run("train", {Tensor({1, 1}, static_cast<double>(step)),
                           Tensor({1, 1}), Tensor({}, 1.0), Tensor({4})});
    compiled.run("update",
                 {Tensor({4}, {lr, 1 - std::pow((*optimizer)->beta1, t),
                               1 - std::pow((*optimizer)->beta2, t), 0.0})});
    for (std::string name : {"a", "b", "c"}) {
      const Tensor &all =
          expected.at(std::string(GetParam().name) + "." + name);
      Tensor found = compiled.parameter(name);
      for (int64_t i = 0; i < found.size(); ++i) {
        double value = all.data[step * found.size() + i];
        EXPECT_NEAR(found.data[i], value, 2e-6 + 2e-6 * std::abs(value))
            << name << " " << i << " at step " << t;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, CompiledOptimizer,
    testing::Values(
        Trajectory{"torch.safetensors", "sgd", "sgd(lr = 0.05)"},
        Trajectory{"torch.safetensors", "sgd_momentum",
                   "sgd(lr = 0.05, momentum = 0.9)"},
        Trajectory{"torch.safetensors", "sgd_nesterov",
                   "sgd(lr = 0.05, momentum = 0.9, nesterov = true)"},
        Trajectory{"torch.safetensors", "sgd_momentum_decay",
                   "sgd(lr = 0.05, momentum = 0.9, weight_decay = 0.1)"},
        Trajectory{"torch.safetensors", "adam",
                   "adam(lr = 0.01, betas = (0.9, 0.999), eps = 1e-8)"},
        Trajectory{"torch.safetensors", "adam_decay",
                   "adam(lr = 0.01, betas = (0.9, 0.99), eps = 1e-8, "
                   "weight_decay = 0.1, decay = all)"},
        Trajectory{"torch.safetensors", "adamw",
                   "adamw(lr = 0.01, betas = (0.9, 0.95), eps = 1e-8, "
                   "weight_decay = 0.1, decay = all)"},
        Trajectory{"keras.safetensors", "keras_adam",
                   "adam(lr = 0.01, betas = (0.9, 0.999), eps = 1e-7, "
                   "eps_placement = keras)"},
        Trajectory{"keras.safetensors", "keras_adam_lab",
                   "adam(lr = 0.0025, betas = (0.9, 0.999), eps = 1e-7, "
                   "eps_placement = keras)"}),
    [](const auto &info) { return std::string(info.param.name); });

} // namespace
