//===- EvaluatorTest.cpp - how good a model is --------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/training/evaluator.h"
#include "runtime/device/cpu_device.h"
#include "runtime/support/error.h"
#include "tests/unit/runtime/TemporaryFolder.h"
#include "tests/unit/runtime/ToyModel.h"

#include <cmath>
#include <gtest/gtest.h>
#include <limits>

namespace tfm {
namespace {

struct Bench {
  Bench(const test::ToyShape &shape, DataSpec spec)
      : toy(shape, ""), device(2), model(toy.descriptor(), device),
        tokenizer(makeCharsTokenizer("0123456789+=.#")),
        data(openDataset({spec, *tokenizer, shape.sequence,
                          shape.ignore < 0 ? std::nullopt
                                           : std::optional(static_cast<int32_t>(
                                                 shape.ignore))})) {}

  /// Makes `then` what follows `before`.
  void teach(char before, char then) {
    // The processors' device writes in place, so what was taught stays.
    model.setValue(model.parameters()[0], [&](size_t, std::span<float> table) {
      table[14 * tokenizer->ids({&before, 1})[0] +
            tokenizer->ids({&then, 1})[0]] = 20;
    });
  }

  test::ToyModel toy;
  CpuDevice device;
  Model model;
  TokenizerPtr tokenizer;
  std::unique_ptr<Dataset> data;
};

DataSpec fileOf(const char *kind, const std::string &path, double validation) {
  DataSpec spec;
  spec.kind = kind;
  spec.files = {path};
  spec.validation = validation;
  return spec;
}

TEST(Evaluator, AUniformModelLosesTheLogOfItsVocabulary) {
  test::TemporaryFolder folder;
  std::string text;
  for (int i = 0; i < 250; ++i)
    text += static_cast<char>('0' + i % 10);
  test::ToyShape shape;
  Bench bench(shape, fileOf("text", folder.write("a.txt", text), 0.5));
  Evaluator evaluator(bench.model, *bench.data, std::nullopt);
  Evaluation all =
      evaluator.evaluate(Part::Validation, 0, Measure::PerplexityOfLoss);
  // Every token of the validation part but the first is a target, also those
  // of the last window, which is shorter.
  EXPECT_EQ(all.targets, 124);
  EXPECT_NEAR(all.loss, std::log(14.0), 1e-6);
  EXPECT_NEAR(*all.perplexity, 14.0, 1e-4);
  Evaluation some = evaluator.evaluate(Part::Validation, 2);
  EXPECT_EQ(some.targets, 2 * 4 * 9);
  constexpr int64_t most = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(evaluator.evaluate(Part::Validation, most).targets, all.targets);

  for (char digit = '0'; digit <= '9'; ++digit)
    bench.teach(digit, digit == '9' ? '0' : static_cast<char>(digit + 1));
  Evaluation taught =
      evaluator.evaluate(Part::Validation, 0, Measure::Accuracy);
  EXPECT_NEAR(*taught.accuracy, 1.0, 1e-12);
  EXPECT_FALSE(taught.perplexity);
  EXPECT_LT(taught.loss, 1e-4);
}

// One digit of ten is taught wrongly; the accuracy is the same whether it comes
// from `evaluate` or, for any number of its rows, from `forward`.
TEST(Evaluator, MeasuresTheAccuracyWithWhatThereIs) {
  test::TemporaryFolder folder;
  std::string text;
  for (int i = 0; i < 250; ++i)
    text += static_cast<char>('0' + i % 10);
  DataSpec spec = fileOf("text", folder.write("a.txt", text), 0.5);
  for (bool measures : {true, false})
    for (int64_t rows : {1, 3, 4, 8}) {
      test::ToyShape shape;
      shape.rows = rows;
      shape.context = 11;
      shape.measuresPredictions = measures;
      Bench bench(shape, spec);
      for (char digit = '0'; digit < '9'; ++digit)
        bench.teach(digit, static_cast<char>(digit + 1));
      bench.teach('9', '5');
      Evaluator evaluator(bench.model, *bench.data, std::nullopt);
      // The part begins with a 5: twelve of its 124 targets follow a 9.
      Evaluation result =
          evaluator.evaluate(Part::Validation, 0, Measure::PerplexityOfLogits);
      EXPECT_NEAR(*result.accuracy, 112.0 / 124, 1e-12);
      // The toy's loss is a cross entropy in single precision.
      EXPECT_NEAR(std::log(*result.perplexity), result.loss, 1e-5);
      EXPECT_FALSE(evaluator.evaluate(Part::Validation, 0).accuracy);
    }
}

TEST(Evaluator, OnlyACrossEntropyHasAPerplexity) {
  TrainSpec train;
  EXPECT_EQ(measureOf(train), Measure::PerplexityOfLoss);
  train.labelSmoothing = 0.1;
  EXPECT_EQ(measureOf(train), Measure::PerplexityOfLogits);
  for (const char *other : {"mse", "own"}) {
    train.loss = other;
    EXPECT_EQ(measureOf(train), Measure::Accuracy);
  }
}

TEST(Evaluator, IgnoresWhatTheLossIgnores) {
  test::TemporaryFolder folder;
  DataSpec spec = fileOf("lines", folder.write("a.txt", "12\n1234\n1\n"), 0);
  spec.pad = "#";
  spec.validation = 1.0 - 1.0 / 3;
  test::ToyShape shape;
  shape.ignore = 13;
  Bench bench(shape, spec);
  Evaluation result =
      Evaluator(bench.model, *bench.data, 13).evaluate(Part::Validation, 0);
  EXPECT_EQ(result.targets, 3); // 2, 3 and 4 of the second line
  EXPECT_NEAR(result.loss, std::log(14.0), 1e-6);
}

TEST(Evaluator, NothingToEvaluateIsAnError) {
  test::TemporaryFolder folder;
  test::ToyShape shape;
  Bench bench(shape,
              fileOf("text", folder.write("a.txt", std::string(100, '1')), 0));
  EXPECT_THROW(Evaluator(bench.model, *bench.data, std::nullopt)
                   .evaluate(Part::Validation, 0),
               InputError);
}

// A bigram model answers 2. to everything.
TEST(ExactMatch, TellsPromptsOfTheTrainingPartApart) {
  test::TemporaryFolder folder;
  std::string lines;
  const char *training[] = {"1=2.", "3=4.", "5=2.", "7=8.", "9=2."};
  const char *validation[] = {"1=2.", "3=2.", "6=2.", "8=22.", "4=2"};
  for (const char *line : training)
    lines += std::string(line) + "\n";
  for (const char *line : validation)
    lines += std::string(line) + "\n";
  DataSpec spec = fileOf("lines", folder.write("a.txt", lines), 0.5);
  spec.pad = "#";
  spec.answerAfter = "=";
  for (int64_t rows : {1, 2, 4, 7}) {
    test::ToyShape shape;
    shape.ignore = 13;
    shape.rows = rows;
    Bench bench(shape, spec);
    bench.teach('=', '2');
    bench.teach('2', '.');
    ExactMatch match =
        answerQuestions(bench.model, *bench.data, chooseQuestions(*bench.data));
    EXPECT_EQ(match.seen.asked, 2); // 1= and 3=
    EXPECT_EQ(match.seen.right, 2);
    EXPECT_EQ(match.unseen.asked, 3);
    EXPECT_EQ(match.unseen.right, 2); // not 22.
    // Questions 0, 1 and 3 of 5.
    match = answerQuestions(bench.model, *bench.data,
                            chooseQuestions(*bench.data, 3));
    EXPECT_EQ(match.seen.right, 2);
    EXPECT_EQ(match.unseen.asked, 1);
    EXPECT_EQ(match.unseen.right, 0);
  }
}

} // namespace
} // namespace tfm
