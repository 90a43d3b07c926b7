//===- TrajectoryTest.cpp - training beside the oracle's ------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Twenty updates of a small transformer, some of whose parameters have learning
// rates of their own, on a CPU and on the emulated GPU,
// against the same in f64: gradients by the oracle, and the formulas of Adam
// with decoupled weight decay (Loshchilov and Hutter 2019, algorithm 2). How
// far rounding carries the losses is measured by trainings in f64 whose
// gradients and parameters are off by as much as an f32 rounds.
//
//===----------------------------------------------------------------------===//

#include "compiler/dialect/TfmDialect.h"
#include "compiler/driver/Compile.h"
#include "compiler/frontend/Diagnostics.h"
#include "compiler/frontend/Frontend.h"
#include "compiler/frontend/Source.h"
#include "compiler/transforms/Passes.h"
#include "compiler/transforms/ReadRecipe.h"
#include "tests/unit/codegen/CompiledModel.h"
#include "tests/unit/oracle/Gradients.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/PassManager.h"
#include "gtest/gtest.h"

#include <cmath>

using namespace tfm;
using oracle::Tensor;

namespace {

constexpr int64_t steps = 20, batch = 2, length = 8, vocab = 11;
constexpr double rate = 0.01;

const char model[] = R"tfm(
module Block(width, heads, drop) {
  attn = Linear(width, 3 * width)
  proj = Linear(width, width)
  up = Linear(width, 4 * width)
  down = Linear(4 * width, width)
  norm = LayerNorm(width)

  forward(x: [B, T, width]) -> [B, T, width] {
    q, k, v = split(rearrange(attn(norm(x)), "B T (n d) -> B n T d", n = 3 * heads), 3, axis = 1)
    y = attention(q, k, v, causal = true, dropout = drop)
    x = x + dropout(proj(rearrange(y, "B n T d -> B T (n d)")), drop)
    return x + down(gelu_tanh(up(x)))
  }
}
model Small(context = 8, width = 16) {
  wte = Embedding(11, width)
  wpe = Embedding(context, width)
  h = repeat(2) Block(width, 2, 0.1)

  forward(tokens: int[B, T]) -> [B, T, 11] {
    x = h(wte(tokens) + wpe(positions(tokens)))
    return x @ wte.weight.T
  }
}
train {
  batch = 2, sequence = 8, steps = 20,
  optimizer = adamw(lr = 0.01, betas = (0.9, 0.99), weight_decay = 0.1, decay = rank >= 2)
  rates = [("wte.*", 0.5), ("h.*.up.*", 2), ("h.*.up.weight", 3)]
  no_decay = ["wpe.*", "h.*.down.weight"]
}
)tfm";

/// A training in f64.
class Trajectory {
public:
  /// Numbers are off by as much as an f32 rounds where there is `noise`.
  Trajectory(mlir::ModuleOp module, const Optimizer &optimizer,
             std::mt19937 *noise = nullptr)
      : module(module), optimizer(optimizer), noise(noise) {}

  oracle::Environment environment;

  /// Makes an update, and returns the loss before it.
  double step(llvm::ArrayRef<Tensor> inputs) {
    auto train = module.lookupSymbol<mlir::func::FuncOp>("train");
    std::vector<Tensor> results =
        oracle::evaluateOrFail(train, inputs, environment);
    ++environment.counter;
    for (unsigned i = 0; i < train.getNumResults(); ++i)
      if (auto name = train.getResultAttrOfType<mlir::FlatSymbolRefAttr>(
              i, "tfm.gradient"))
        update(name.getValue(), results[i]);
    return results[0].data[0];
  }

private:
  double rounded(double x) const {
    return noise ? x * (1 + std::ldexp((*noise)() % 2 ? 1.0 : -1.0, -24)) : x;
  }

  void update(llvm::StringRef name, const Tensor &gradient) {
    auto param = module.lookupSymbol<ParamOp>(name);
    Tensor &value = environment.parameters[name];
    auto [state, isNew] = moments.try_emplace(name);
    if (isNew)
      state->second = {Tensor(value.shape), Tensor(value.shape)};
    auto &[m, v] = state->second;
    double count = environment.counter, own = rate * param.getRateOrOne();
    bool decays = optimizer.decays(param);
    EXPECT_EQ(decays,
              name == "wte.weight" ||
                  (name.starts_with("h.") && name.ends_with(".weight") &&
                   name != "h.*.norm.weight" && name != "h.*.down.weight"));
    double decay = decays ? optimizer.weightDecay : 0;
    for (int64_t i = 0; i < value.size(); ++i) {
      double g = rounded(gradient.data[i]);
      m.data[i] = optimizer.beta1 * m.data[i] + (1 - optimizer.beta1) * g;
      v.data[i] = optimizer.beta2 * v.data[i] + (1 - optimizer.beta2) * g * g;
      double mean = m.data[i] / (1 - std::pow(optimizer.beta1, count));
      double square = v.data[i] / (1 - std::pow(optimizer.beta2, count));
      value.data[i] = rounded(value.data[i] - own * decay * value.data[i] -
                              own * mean / (std::sqrt(square) + optimizer.eps));
    }
  }

  mlir::ModuleOp module;
  const Optimizer &optimizer;
  std::mt19937 *noise;
  llvm::StringMap<std::pair<Tensor, Tensor>> moments;
};

TEST(Training, StaysForTwentyStepsAsNearToTheOracleAsRoundingExplains) {
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  SourceManager sources;
  Diagnostics diags(sources);
  FrontendOptions options;
  FunctionRequest loss;
  loss.kind = FunctionRequest::Loss;
  options.functions = {loss};
  auto parse = [&] {
    return compileTextToTfm(context, sources, "small.tfm", model, options,
                            diags);
  };
  mlir::OwningOpRef<mlir::ModuleOp> reference = parse(), subject = parse();
  ASSERT_TRUE(reference && subject) << diags.str();
  mlir::PassManager passes(&context);
  passes.addPass(createDifferentiatePass());
  ASSERT_TRUE(mlir::succeeded(passes.run(*reference)));
  ASSERT_TRUE(mlir::succeeded(prepare(*subject, testedTarget())));
  auto optimizer = Optimizer::read(*reference);
  ASSERT_TRUE(mlir::succeeded(optimizer) && *optimizer);

  std::mt19937 random(3);
  std::vector<Trajectory> trainings;
  trainings.emplace_back(*reference, **optimizer);
  for (int sample = 0; sample < 3; ++sample)
    trainings.emplace_back(*reference, **optimizer, &random);
  CompiledModel compiled(*subject);
  std::uniform_real_distribution<double> uniform(-0.3, 0.3);
  for (auto param : reference->getOps<ParamOp>()) {
    Tensor value(param.getTensorType().getShape());
    for (double &x : value.data)
      x = static_cast<float>(uniform(random));
    compiled.setParameter(param.getSymName(), value);
    for (Trajectory &training : trainings)
      training.environment.parameters[param.getSymName()] = value;
  }

  double first = 0, last = 0;
  for (int64_t step = 0; step < steps; ++step) {
    // The next token follows from the one before it.
    Tensor tokens({batch, length}), targets({batch, length});
    for (int64_t row = 0; row < batch; ++row)
      for (int64_t i = 0, id = random() % vocab; i < length; ++i) {
        tokens.at({row, i}) = static_cast<double>(id);
        id = (3 * id + 1) % vocab;
        targets.at({row, i}) = static_cast<double>(id);
      }
    std::vector<Tensor> inputs = {tokens, targets,
                                  Tensor({}, double(batch * length))};
    std::vector<double> losses;
    for (Trajectory &training : trainings)
      losses.push_back(training.step(inputs));
    double carried = 0;
    for (double of : llvm::drop_begin(losses))
      carried = std::max(carried, std::abs(of - losses[0]));
    inputs.push_back(Tensor({4}, {0, 0, double(step), 0}));
    compiled.clearGradients();
    double found = compiled.run("train", inputs, 2)[0].data[0];
    double t = static_cast<double>(step + 1);
    compiled.run("update",
                 {Tensor({4}, {rate, 1 - std::pow((*optimizer)->beta1, t),
                               1 - std::pow((*optimizer)->beta2, t), 0.0})});
    // A loss is rounded itself, twice here: a mean of sums.
    EXPECT_NEAR(found, losses[0], 8 * carried + 5e-7 * losses[0])
        << "at step " << t;
    (step == 0 ? first : last) = losses[0];
  }
  EXPECT_LT(last, 0.8 * first);
}

} // namespace
