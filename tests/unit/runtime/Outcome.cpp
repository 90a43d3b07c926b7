//===- Outcome.cpp - what comes of a model on a device --------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tests/unit/runtime/Outcome.h"

#include "runtime/data/dataset.h"
#include "runtime/files/checkpoint.h"
#include "runtime/generation/generator.h"
#include "runtime/model/model.h"
#include "runtime/recipe.h"
#include "runtime/support/atomic_file.h"
#include "runtime/tokenizer/tokenizer.h"
#include "runtime/training/evaluator.h"
#include "runtime/training/trainer.h"

#include <sstream>

namespace tfm::test {

static std::vector<float> parametersOf(const Model &model) {
  std::vector<float> all;
  for (const tfm_parameter &parameter : model.parameters()) {
    PendingRead<float> read = model.readValue(parameter);
    all.insert(all.end(), read.values().begin(), read.values().end());
  }
  return all;
}

/// Of the model of `outcomeOn`.
static ToyShape shapeOfOutcome() {
  ToyShape shape;
  shape.accumulate = 3;
  shape.chunk = 4;
  shape.ignore = 13;
  return shape;
}

ToyModel toyOfOutcome() {
  ToyShape shape = shapeOfOutcome();
  return {shape, sumsRecipe(shape, R"("steps": 12, "clip": 1.0,
    "checkpoint": {"every": 6, "unit": "steps"})")};
}

Outcome outcomeOn(const tfm_model &descriptor, Device &device,
                  const std::string &folder) {
  Outcome outcome;
  Recipe recipe = parseRecipe(descriptor.recipe);
  TokenizerPtr tokenizer = makeCharsTokenizer("0123456789+=.#");
  std::unique_ptr<Dataset> data =
      openDataset({recipe.data, *tokenizer, recipe.train.sequence,
                   ignoredTarget(recipe.train, *tokenizer)});
  const std::atomic<bool> noInterrupt{false};
  {
    Model model(descriptor, device);
    TrainOptions options;
    options.out = folder;
    options.quiet = true;
    Trainer(model, recipe, *data, *tokenizer, options).run(noInterrupt);
    std::istringstream lines(readFile(folder + "/log.jsonl", "the log"));
    for (std::string line; std::getline(lines, line);)
      if (line.find("grad_norm") != std::string::npos)
        outcome.steps += line + "\n";
  }
  Model model(descriptor, device);
  TrainOptions options;
  options.resume = folder;
  options.steps = 24;
  options.quiet = true;
  Trainer trainer(model, recipe, *data, *tokenizer, options);
  trainer.prepare();
  for (int i = 0; i < 6; ++i)
    outcome.losses.push_back(trainer.step());
  outcome.parameters = parametersOf(model);
  outcome.validation =
      Evaluator(model, *data, 13)
          .evaluate(Part::Validation, 0, Measure::PerplexityOfLogits)
          .loss;
  std::vector<int32_t> prompt = {1, 2, 10, 3};
  GenerateOptions generation = defaultOptions(recipe, *tokenizer);
  generation.tokens = 12;
  auto print = [](std::string_view) {};
  outcome.generated =
      generate(*wholeSequence(model, 0), *tokenizer, prompt, generation, print)
          .ids;
  outcome.cached = generate(*cachedSequence(model, shapeOfOutcome().context),
                            *tokenizer, prompt, generation, print)
                       .ids;
  return outcome;
}

} // namespace tfm::test
