//===- TrainerTest.cpp - training, resuming, failing --------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/training/trainer.h"
#include "runtime/data/order.h"
#include "runtime/device/cpu_device.h"
#include "runtime/files/run_state.h"
#include "runtime/support/atomic_file.h"
#include "runtime/support/error.h"
#include "runtime/support/progress.h"
#include "runtime/training/evaluator.h"
#include "runtime/training/initialise.h"
#include "tests/unit/runtime/TemporaryFolder.h"
#include "tests/unit/runtime/TokenRows.h"
#include "tests/unit/runtime/ToyModel.h"

#include <chrono>
#include <cmath>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <gtest/gtest.h>
#include <limits>
#include <malloc.h>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <sys/resource.h>
#include <thread>
#include <unistd.h>

// Counts every allocation of this program, also those of libraries; under the
// address sanitizer memory is its own.
#ifndef TFM_SANITIZED
extern "C" void *__libc_malloc(size_t size);
extern "C" void *__libc_calloc(size_t count, size_t size);
extern "C" void *__libc_realloc(void *memory, size_t size);

static std::atomic<int64_t> allocations{0};

extern "C" void *malloc(size_t size) {
  ++allocations;
  return __libc_malloc(size);
}
extern "C" void *calloc(size_t count, size_t size) {
  ++allocations;
  return __libc_calloc(count, size);
}
extern "C" void *realloc(void *memory, size_t size) {
  ++allocations;
  return __libc_realloc(memory, size);
}
#endif

namespace tfm::test {
namespace {

const std::atomic<bool> noInterrupt{false};

/// A model in memory with everything that a Trainer needs.
struct Bench {
  explicit Bench(const ToyShape &shape, const std::string &train,
                 int threads = 1)
      : toy(shape, sumsRecipe(shape, train)), device(threads),
        model(toy.descriptor(), device),
        recipe(parseRecipe(toy.descriptor().recipe)),
        tokenizer(makeCharsTokenizer("0123456789+=.#")),
        data(openTexts({recipe.data, *tokenizer, recipe.train.sequence,
                        ignoredTarget(recipe.train, *tokenizer)})) {}

  Trainer trainer(TrainOptions options = {}) {
    options.quiet = true;
    return Trainer(model, recipe, *data, *tokenizer, std::move(options));
  }
  std::vector<float> parameters() const {
    std::vector<float> all;
    for (const tfm_parameter &parameter : model.parameters()) {
      std::span<const float> values = model.readValue(parameter).values();
      all.insert(all.end(), values.begin(), values.end());
    }
    return all;
  }

  ToyModel toy;
  CpuDevice device;
  Model model;
  Recipe recipe;
  TokenizerPtr tokenizer;
  std::unique_ptr<TextDataset> data;
};

/// A checkpoint without a log.
void save(const std::string &folder, const Model &model, RunState state) {
  RunFolder run(folder);
  state.logBytes = 0;
  state.logChecksum = Checksum().text();
  saveCheckpoint(run, model, state, [](RunState &) {});
}

const char *const longRun =
    R"("steps": 60, "schedule": {"kind": "cosine", "warmup": 5, "final": 0.001},
       "clip": 1.0)";

bool sameBits(const std::vector<float> &a, const std::vector<float> &b) {
  return a.size() == b.size() &&
         std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

TEST(Trainer, LossFalls) {
  ToyShape shape;
  shape.ignore = 13;
  shape.batch = 64;
  Bench bench(shape, R"("steps": 300)");
  Trainer trainer = bench.trainer();
  trainer.prepare();
  double first = trainer.step();
  double last = 0;
  for (int i = 1; i < 300; ++i)
    last = trainer.step();
  // The table begins near zero: log(14) = 2.64.
  EXPECT_NEAR(first, std::log(14.0), 0.05);
  // What pairs of characters can tell of sums leaves 2.28.
  EXPECT_LT(last, 2.4);
}

TEST(Trainer, SameBitsWithOneAndTwoThreads) {
  std::vector<float> result[2];
  for (int threads : {1, 2}) {
    Bench bench(ToyShape(), longRun, threads);
    Trainer trainer = bench.trainer();
    trainer.prepare();
    for (int i = 0; i < 60; ++i)
      trainer.step();
    result[threads - 1] = bench.parameters();
  }
  EXPECT_TRUE(sameBits(result[0], result[1]));
}

TEST(Trainer, ResumesBitExactly) {
  TemporaryFolder folder;
  TrainOptions options;
  Bench whole(ToyShape(), longRun);
  options.out = folder / "whole";
  whole.trainer(options).run(noInterrupt);

  // A run that is stopped after 25 steps, as by Ctrl-C...
  Bench first(ToyShape(), longRun);
  {
    options.out = folder / "parts";
    Trainer trainer = first.trainer(options);
    trainer.prepare();
    for (int i = 0; i < 25; ++i)
      trainer.step();
    save(options.out, first.model, trainer.state());
  }
  // ... and goes on in another process.
  Bench second(ToyShape(), longRun);
  options.resume = options.out;
  TrainResult result = second.trainer(options).run(noInterrupt);
  EXPECT_EQ(result.steps, 60);
  EXPECT_TRUE(sameBits(whole.parameters(), second.parameters()));
  EXPECT_EQ(contentOf(folder / "whole/model.safetensors"),
            contentOf(folder / "parts/model.safetensors"));
  EXPECT_EQ(contentOf(folder / "whole/optimizer.safetensors"),
            contentOf(folder / "parts/optimizer.safetensors"));
}

const std::string savedEachStep = std::string(longRun) + R"(,
    "checkpoint": {"every": 1, "unit": "steps", "keep": 1})";

/// Interrupts once there is a checkpoint in the folder.
std::jthread interruptBehindCheckpoint(const std::string &folder,
                                       std::atomic<bool> &interrupt) {
  return std::jthread([folder, &interrupt] {
    while (!holdsCheckpoint(folder))
      std::this_thread::yield();
    interrupt = true;
  });
}

TEST(Trainer, InterruptSavesAndResumeContinuesTheLog) {
  TemporaryFolder folder;
  TrainOptions options;
  options.out = folder / "run";
  Bench bench(ToyShape(), savedEachStep);
  std::atomic<bool> interrupt{false};
  std::jthread ctrlC = interruptBehindCheckpoint(options.out, interrupt);
  EXPECT_THROW(bench.trainer(options).run(interrupt), Interrupted);
  EXPECT_TRUE(holdsCheckpoint(options.out));
  Bench again(ToyShape(), longRun);
  options.resume = options.out;
  again.trainer(options).run(noInterrupt);

  Bench whole(ToyShape(), longRun);
  TrainOptions wholeOptions;
  wholeOptions.out = folder / "whole";
  whole.trainer(wholeOptions).run(noInterrupt);
  auto stepLines = [](const std::string &log) {
    std::string steps, line;
    std::istringstream stream(log);
    while (std::getline(stream, line))
      if (line.find("\"loss\"") != std::string::npos)
        steps += line + "\n";
    return steps;
  };
  EXPECT_EQ(stepLines(contentOf(folder / "run/log.jsonl")),
            stepLines(contentOf(folder / "whole/log.jsonl")));
}

TEST(Trainer, InterruptedSaysWhatToNameAgain) {
  TemporaryFolder folder;
  TrainOptions options;
  options.out = folder / "run";
  options.data = "a b.txt";
  options.log = folder / "log.jsonl";
  options.chatVariables = "{}";
  Bench bench(ToyShape(), savedEachStep);
  std::atomic<bool> interrupt{false};
  std::jthread ctrlC = interruptBehindCheckpoint(options.out, interrupt);
  std::string message =
      messageOf<Interrupted>([&] { bench.trainer(options).run(interrupt); });
  std::string hint = "continue with --resume " + options.out +
                     " --data 'a b.txt' --log " + options.log +
                     " --chat-template-kwargs '{}'";
  EXPECT_TRUE(message.ends_with(hint)) << message;
}

// Until something was computed a run that would be replaced stays.
TEST(Trainer, InterruptedBeforeTheFirstStepChangesNothing) {
  TemporaryFolder folder;
  TrainOptions options;
  options.out = folder / "run";
  Bench bench(ToyShape(), longRun);
  std::atomic<bool> interrupt{true};
  EXPECT_THROW(bench.trainer(options).run(interrupt), Interrupted);
  EXPECT_FALSE(fileExists(options.out));
  bench.trainer(options).run(noInterrupt);
  std::string state = contentOf(folder / "run/state.json");
  options.overwrite = true;
  EXPECT_THROW(bench.trainer(options).run(interrupt), Interrupted);
  EXPECT_EQ(contentOf(folder / "run/state.json"), state);
}

// A run of another batch goes on behind the last example that was shown.
TEST(Trainer, ResumedWithAnotherBatchGoesOnInTheData) {
  TemporaryFolder folder;
  const char *const inOrder = R"("steps": 12, "shuffle": false)";
  TrainOptions options;
  options.out = folder / "run";
  options.steps = 4;
  ToyShape two;
  two.batch = 2;
  Bench(two, inOrder).trainer(options).run(noInterrupt);

  ToyShape one;
  one.batch = 1;
  Bench bench(one, inOrder);
  options.resume = options.out;
  Trainer trainer = bench.trainer(options);
  trainer.prepare();
  DataOrder order(*bench.data, bench.recipe.train, /*seed=*/0);
  TokenRows shown(1, bench.recipe.train.sequence),
      next(1, bench.recipe.train.sequence);
  order.fill(/*step=*/8, 0, next); // of eight rows before
  order.goOn(trainer.state().step,
             trainer.state().tokens / bench.recipe.train.sequence);
  order.fill(/*step=*/4, 0, shown);
  EXPECT_EQ(shown.tokens(), next.tokens());
}

TEST(Trainer, AccumulationIsOneLargeBatch) {
  ToyShape small;
  small.batch = 2;
  small.accumulate = 4;
  small.ignore = 13;
  ToyShape large = small;
  large.batch = 8;
  large.accumulate = 1;
  Bench a(small, R"("steps": 20)");
  Bench b(large, R"("steps": 20)");
  Trainer first = a.trainer(), second = b.trainer();
  first.prepare();
  second.prepare();
  for (int i = 0; i < 20; ++i)
    EXPECT_NEAR(first.step(), second.step(), 1e-5);
}

TEST(Trainer, RandomNumbersAreOfTheSeedTheStepAndTheMicroBatch) {
  ToyShape shape;
  shape.accumulate = 3;
  Bench bench(shape, R"("steps": 20, "seed": 30064771077)");
  Trainer trainer = bench.trainer();
  trainer.prepare();
  trainer.step();
  trainer.step();
  PendingRead<int32_t> random = bench.model.read<int32_t>(
      Model::input(bench.model.function(TFM_TRAIN), TFM_IN_RNG));
  // The seed is 7 * 2^32 + 5; steps and micro-batches count from 0.
  EXPECT_TRUE(
      std::ranges::equal(random.values(), std::vector<int32_t>{5, 7, 1, 2}));
}

#ifndef TFM_SANITIZED
TEST(Trainer, StepsAllocateNothing) {
  ToyShape shape;
  shape.ignore = 13;
  shape.accumulate = 2;
  // Several epochs, so that new orders are drawn too.
  Bench bench(shape, R"("steps": 2000, "clip": 1.0)", 2);
  TemporaryFolder folder;
  TrainOptions options;
  options.log = folder / "log.jsonl";
  Trainer trainer = bench.trainer(options);
  trainer.prepare();
  trainer.step();
  ASSERT_GT(allocations, 0) << "the counter does not count";
  int64_t before = allocations;
  for (int i = 0; i < 1000; ++i)
    trainer.step();
  EXPECT_EQ(allocations - before, 0);
}
#endif

TEST(Trainer, StopsWhenTheLossIsNotANumberAndKeepsTheCheckpoint) {
  TemporaryFolder folder;
  ToyShape shape;
  shape.poisonedStep = 30;
  Bench bench(shape, std::string(longRun) +
                         R"(, "checkpoint": {"every": 20, "unit": "steps"})");
  TrainOptions options;
  options.out = folder / "run";
  std::string message =
      messageOf<InputError>([&] { bench.trainer(options).run(noInterrupt); });
  EXPECT_NE(message.find("nan at step 31"), std::string::npos) << message;
  EXPECT_NE(message.find("--lr"), std::string::npos) << message;
  // Less than the recipe's.
  EXPECT_NE(message.find("clip = 0.333;"), std::string::npos) << message;
  Bench again(shape, longRun);
  EXPECT_EQ(loadCheckpoint(options.out, again.model).step, 20);
}

// What was on its way down has not diverged: a division by zero, perhaps.
TEST(Trainer, SaysWhatTheLossWasBeforeItIsNotANumber) {
  ToyShape shape;
  shape.poisonedStep = 30;
  Bench bench(shape, longRun);
  Trainer trainer = bench.trainer();
  trainer.prepare();
  std::vector<double> losses;
  std::string message = messageOf<InputError>([&] {
    while (true)
      losses.push_back(trainer.step());
  });
  ASSERT_EQ(losses.size(), 30u);
  ASSERT_LT(losses.back(), losses.front());
  std::string expected = "the loss is nan at step 31, which was " +
                         lossText(losses.back()) +
                         " before, and all weights are finite: look at what "
                         "the model divides by";
  EXPECT_EQ(message.find(expected), 0u) << message;
}

TEST(Progress, SaysSmallLossesInAsManyDigits) {
  EXPECT_EQ(lossText(2.30258), "2.3026");
  EXPECT_EQ(lossText(0.0123456), "0.0123");
  EXPECT_EQ(lossText(0.000123456), "0.0001235");
  EXPECT_EQ(lossText(-0.0000123456), "-1.235e-05");
  EXPECT_EQ(lossText(0), "0.0000");
}

// Where nothing was updated yet no learning rate is to blame.
TEST(Trainer, SaysWhereTheFirstLossIsNotANumber) {
  ToyShape shape;
  shape.poisonedStep = 0;
  Bench bench(shape, longRun);
  std::string message =
      messageOf<InputError>([&] { bench.trainer().run(noInterrupt); });
  EXPECT_NE(message.find("nan at step 1 before any update: look at what the "
                         "model divides by"),
            std::string::npos)
      << message;
}

TEST(Trainer, DoesNotSaveWhatNobodyCouldGoOnFrom) {
  TemporaryFolder folder;
  Bench bench(ToyShape(), std::string(longRun) +
                              R"(, "checkpoint": {"every": 1,
                                                  "unit": "steps"})");
  TrainOptions options;
  options.out = folder / "run";
  options.lr = 1e300;
  std::string message =
      messageOf<InputError>([&] { bench.trainer(options).run(noInterrupt); });
  EXPECT_EQ(message.find("table has values that are not finite after step 1: "
                         "training has diverged"),
            0u)
      << message;
  EXPECT_FALSE(holdsCheckpoint(options.out));
}

TEST(Trainer, SaysBeforeTheFirstStepThatNothingCouldBeSaved) {
  TemporaryFolder folder;
  Bench bench(ToyShape(), longRun);
  TrainOptions options;
  options.out = folder / "run";
  options.steps = 5;
  bench.trainer(options).run(noInterrupt);
  const std::string log = contentOf(folder / "run/log.jsonl");
  namespace fs = std::filesystem;
  const auto toRead = static_cast<fs::perms>(0555);
  fs::permissions(folder.path, toRead | fs::perms::owner_write);
  fs::permissions(folder / "run", toRead);
  // Its log could be written, as where the folder alone is protected.
  fs::permissions(folder / "run/log.jsonl", fs::perms::all);
  // Root may write anywhere.
  const uid_t user = geteuid();
  if (user == 0 && seteuid(65534) != 0)
    GTEST_SKIP() << "root cannot be another user";
  options.resume = options.out;
  options.steps = 10;
  std::string message =
      messageOf<InputError>([&] { bench.trainer(options).run(noInterrupt); });
  ASSERT_EQ(seteuid(user), 0);
  fs::permissions(folder / "run", fs::perms::owner_all);
  EXPECT_EQ(message, "cannot write into the folder " + options.out +
                         ": Permission denied");
  EXPECT_EQ(contentOf(folder / "run/log.jsonl"), log);
}

TEST(Trainer, EpochsMakeSteps) {
  // 1,800 examples in batches of 4 * 2.
  ToyShape shape;
  shape.ignore = 13;
  shape.accumulate = 2;
  Bench bench(shape, R"("epochs": 2)");
  EXPECT_EQ(bench.trainer().run(noInterrupt).steps, 450);
  Bench endless(shape, "\"seed\": 3");
  EXPECT_THROW(endless.trainer().run(noInterrupt), InputError);
}

// What is due every two epochs is so after the updates with which the second,
// the fourth and the sixth end, also where none ends with the update itself.
TEST(Trainer, EpochsMayEndWithinUpdates) {
  TemporaryFolder folder;
  ToyShape shape;
  shape.ignore = 13;
  shape.accumulate = 675; // of 4: an epoch and a half of 1,800 examples
  Bench bench(shape, R"("steps": 4,
      "validate": {"every": 2, "unit": "epochs", "batches": 1})");
  TrainOptions options;
  options.log = folder / "log.jsonl";
  bench.trainer(options).run(noInterrupt);
  std::istringstream log(contentOf(options.log));
  std::vector<int64_t> validated;
  for (std::string line; std::getline(log, line);)
    if (auto entry = nlohmann::json::parse(line);
        entry.contains("validation_loss"))
      validated.push_back(entry["step"]);
  EXPECT_EQ(validated, (std::vector<int64_t>{2, 3, 4})); // 3, 4.5 and 6 epochs
}

TEST(Trainer, StopsEarly) {
  ToyShape shape;
  shape.ignore = 13;
  Bench bench(shape, R"("steps": 100000,
      "validate": {"every": 50, "unit": "steps", "batches": 1000},
      "stop": {"patience": 3, "min_delta": 0.01})");
  TrainResult result = bench.trainer().run(noInterrupt);
  EXPECT_TRUE(result.stoppedEarly);
  EXPECT_LT(result.steps, 5000);
}

TEST(Trainer, StopsEarlyByLossesOnTheSameDataAlone) {
  TemporaryFolder folder;
  ToyShape shape;
  shape.ignore = 13;
  Bench bench(shape, R"("steps": 4,
      "validate": {"every": 1, "unit": "steps", "batches": 1},
      "stop": {"patience": 3, "min_delta": 0})");
  bench.trainer().prepare();
  auto goOnWith = [&](const std::string &name) {
    RunState state;
    state.steps = 4;
    state.lr = 0.01;
    state.bestValidation = 0.001;
    state.worseValidations = 2;
    TrainOptions options;
    options.resume = options.out = folder / ("run" + name);
    options.data = name;
    save(options.out, bench.model, state);
    testing::internal::CaptureStderr();
    TrainResult result = bench.trainer(options).run(noInterrupt);
    testing::internal::GetCapturedStderr();
    EXPECT_EQ(result.stoppedEarly, result.steps < 4);
    return result.steps;
  };
  EXPECT_EQ(goOnWith(""), 1);
  EXPECT_EQ(goOnWith("other.txt"), 4);
}

// Losses fall, but by less than counts: the first is the best of four.
TEST(Trainer, StopsEarlyWhereLossesFallByTooLittle) {
  ToyShape shape;
  shape.ignore = 13;
  Bench bench(shape, R"("steps": 50,
      "validate": {"every": 1, "unit": "steps", "batches": 1},
      "stop": {"patience": 3, "min_delta": 1000})");
  TrainResult result = bench.trainer().run(noInterrupt);
  EXPECT_TRUE(result.stoppedEarly);
  EXPECT_EQ(result.steps, 4);
}

// A run that has stopped is complete; --steps goes on with it, until as many
// losses as before are no better.
TEST(Trainer, WhatHasStoppedGoesOnWithAllOfItsPatience) {
  TemporaryFolder folder;
  ToyShape shape;
  shape.ignore = 13;
  Bench bench(shape, R"("steps": 50,
      "validate": {"every": 1, "unit": "steps", "batches": 1},
      "stop": {"patience": 3, "min_delta": 0})");
  bench.trainer().prepare();
  TrainOptions options;
  options.resume = options.out = folder / "run";
  options.quiet = true;
  RunState state;
  state.steps = 50;
  state.lr = 0.01;
  state.bestValidation = 0.001;
  state.worseValidations = 3;
  save(options.out, bench.model, state);
  TrainResult result = bench.trainer(options).run(noInterrupt);
  EXPECT_TRUE(result.stoppedEarly && result.wasComplete);
  EXPECT_EQ(result.steps, 0);
  options.steps = 50;
  testing::internal::CaptureStderr();
  result = bench.trainer(options).run(noInterrupt);
  testing::internal::GetCapturedStderr();
  EXPECT_TRUE(result.stoppedEarly && !result.wasComplete);
  EXPECT_EQ(result.steps, 3);
}

/// Counts how often the training part is asked for a prompt, and interrupts who
/// reads it.
class WatchedData : public TextDataset {
public:
  explicit WatchedData(std::unique_ptr<TextDataset> data)
      : data(std::move(data)) {}

  int64_t starts(Part part) const override { return data->starts(part); }
  int64_t windows(Part part) const override { return data->windows(part); }
  int64_t windowStart(Part part, int64_t window) const override {
    return data->windowStart(part, window);
  }
  int64_t read(Part part, int64_t start, std::span<int32_t> tokens,
               std::span<int32_t> targets) const override {
    if (interrupt && fileExists(log))
      *interrupt = true;
    if (part == Part::Train && fileExists(log) && ++reads > mostReads)
      throw InputError("ids.bin became shorter while it was read");
    return data->read(part, start, tokens, targets);
  }
  bool isStream() const override { return data->isStream(); }
  std::optional<Question> question(Part part, int64_t window) const override {
    count += part == Part::Train;
    return data->question(part, window);
  }

  mutable int64_t count = 0, reads = 0;
  /// Of the training part, once the run has its log.
  int64_t mostReads = std::numeric_limits<int64_t>::max();
  /// Set by who reads once the run has this log.
  std::atomic<bool> *interrupt = nullptr;
  std::string log;

private:
  std::unique_ptr<TextDataset> data;
};

// Each tokenises the prompt again: which were seen is found out once.
TEST(Trainer, LooksThroughTheTrainingPartOnceForAllValidations) {
  TemporaryFolder folder;
  ToyShape shape;
  shape.ignore = 13;
  Bench bench(shape, R"("steps": 4,
      "validate": {"every": 1, "unit": "steps", "batches": 1})");
  auto watched = std::make_unique<WatchedData>(std::move(bench.data));
  const WatchedData &data = *watched;
  bench.data = std::move(watched);
  TrainOptions options;
  options.log = folder / "log.jsonl";
  bench.trainer(options).run(noInterrupt);
  const std::string log = contentOf(options.log);
  size_t compared = 0;
  for (size_t at = 0;
       (at = log.find("exact_match_unseen", at)) != std::string::npos; ++at)
    ++compared;
  EXPECT_EQ(compared, 4u);
  EXPECT_EQ(data.count, data.windows(Part::Train));
}

// Validations and checkpoints are no training, but who waits waits for them.
TEST(Progress, ExpectsAllOfTheTimeThatStepsTakeAgain) {
  testing::internal::CaptureStderr();
  Progress progress(0, 1000, /*perStep=*/8, /*quiet=*/false);
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  // Whatever the machine does meanwhile.
  progress.exclude(1000);
  progress.step(1, 0.5);
  progress.finish();
  EXPECT_LE(progress.seconds(), 1e-9);
  std::string line = testing::internal::GetCapturedStderr();
  EXPECT_NE(line.find("step 1/1000  loss 0.5000"), std::string::npos) << line;
  EXPECT_EQ(line.find(" 0:00:"), std::string::npos) << line; // 99.9 s and more
}

TEST(Trainer, TellsOfNoTraceThatIsNotThere) {
  TemporaryFolder folder;
  TrainOptions options;
  options.out = folder / "run";
  options.profile = folder / "trace.json";
  Bench bench(ToyShape(), longRun);
  // In the first step, which is not recorded.
  std::atomic<bool> interrupt{false};
  auto watched = std::make_unique<WatchedData>(std::move(bench.data));
  watched->interrupt = &interrupt;
  watched->log = options.out + "/log.jsonl";
  bench.data = std::move(watched);
  testing::internal::CaptureStderr();
  EXPECT_THROW(
      Trainer(bench.model, bench.recipe, *bench.data, *bench.tokenizer, options)
          .run(interrupt),
      Interrupted);
  EXPECT_NE(testing::internal::GetCapturedStderr().find(
                "note: training ended before a step that is recorded, and "
                "nothing is written to " +
                options.profile + "\n"),
            std::string::npos);
  EXPECT_FALSE(fileExists(options.profile));
}

// What was learnt until then is worth as much as with Ctrl-C.
TEST(Trainer, SavesWhereTheDataCanNoLongerBeRead) {
  TemporaryFolder folder;
  TrainOptions options;
  options.out = folder / "run";
  Bench bench(ToyShape(), longRun);
  auto watched = std::make_unique<WatchedData>(std::move(bench.data));
  watched->log = options.out + "/log.jsonl";
  watched->mostReads = 7 * bench.recipe.train.batch;
  bench.data = std::move(watched);
  EXPECT_EQ(
      messageOf<InputError>([&] { bench.trainer(options).run(noInterrupt); }),
      "ids.bin became shorter while it was read; training stopped: step 7 "
      "is saved, continue with --resume " +
          options.out);
  options.resume = options.out;
  options.steps = 8;
  EXPECT_EQ(Bench(ToyShape(), longRun).trainer(options).run(noInterrupt).steps,
            8);
}

/// Lets no file grow beyond `bytes`, which is what a full disk looks like to a
/// program that writes.
class FileSizeLimit {
public:
  explicit FileSizeLimit(rlim_t bytes) {
    std::signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &old);
    rlimit limit = {bytes, old.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() { setrlimit(RLIMIT_FSIZE, &old); }

private:
  rlimit old;
};

TEST(Checkpoint, SurvivesADiskThatFillsUp) {
  TemporaryFolder folder;
  Bench bench(ToyShape(), longRun);
  Trainer trainer = bench.trainer();
  trainer.prepare();
  trainer.step();
  std::string run = folder / "run";
  save(run, bench.model, trainer.state());
  std::string before = contentOf(run + "/model.safetensors");
  trainer.step();
  // Room for the weights but not for the optimizer, and for not even those.
  for (rlim_t limit : {rlim_t{1500}, rlim_t{500}, rlim_t{0}}) {
    FileSizeLimit full(limit);
    std::string message =
        messageOf<InputError>([&] { save(run, bench.model, trainer.state()); });
    EXPECT_NE(message.find(run), std::string::npos) << message;
  }
  EXPECT_EQ(contentOf(run + "/model.safetensors"), before);
  EXPECT_FALSE(fileExists(run + "/model.safetensors.next"));
  Bench again(ToyShape(), longRun);
  EXPECT_EQ(loadCheckpoint(run, again.model).step, 1);
}

TEST(Checkpoint, IsWholeAfterAKillBetweenAnyTwoRenames) {
  TemporaryFolder folder;
  Bench bench(ToyShape(), longRun);
  Trainer trainer = bench.trainer();
  trainer.prepare();
  trainer.step();
  save(folder / "old", bench.model, trainer.state());
  trainer.step();
  save(folder / "new", bench.model, trainer.state());
  // Before the first of them state.json.next is not there yet.
  for (int renamed = -1; renamed <= 3; ++renamed) {
    TemporaryFolder run;
    for (int i = 0; i < 3; ++i) {
      std::string name = checkpointFiles[i];
      std::string old = contentOf(folder / ("old/" + name));
      std::string next = contentOf(folder / ("new/" + name));
      run.write(name, i < renamed ? next : old);
      if (i >= renamed && (renamed >= 0 || i < 2))
        run.write(name + nextSuffix, next);
    }
    // As a training takes it that goes on there: under its own lock.
    Bench again(ToyShape(), longRun);
    TrainOptions options;
    options.out = options.resume = run.path;
    std::atomic<bool> atOnce{true};
    EXPECT_THROW(again.trainer(options).run(atOnce), Interrupted);
    EXPECT_EQ(loadCheckpoint(run.path, again.model).step, renamed < 0 ? 1 : 2);
    if (renamed >= 0)
      EXPECT_TRUE(sameBits(again.parameters(), bench.parameters()));
    for (const auto &entry : std::filesystem::directory_iterator(run.path))
      EXPECT_NE(entry.path().extension(), ".next") << entry.path();
  }
}

// Of characters earlier versions wrote a pattern that not all programs know.
TEST(Checkpoint, GoesOnWithTheTokenizerOfAnEarlierVersion) {
  TemporaryFolder folder;
  std::string json = makeCharsTokenizer("0123456789+=.#")->json();
  std::string earlier = json;
  size_t place = earlier.find("(?m).");
  ASSERT_NE(place, std::string::npos);
  earlier.replace(place, 5, "(?s).");
  folder.write("tokenizer.json", earlier);
  EXPECT_EQ(tokenizerOfResumed(folder.path, json), earlier);
}

// Another run may begin with one that goes on.
TEST(Checkpoint, IsReadWholeWhileTheNextOneTakesItsPlace) {
  TemporaryFolder folder;
  Bench bench(ToyShape(), longRun);
  Trainer trainer = bench.trainer();
  trainer.prepare();
  for (const char *name : {"run", "next"}) {
    trainer.step();
    save(folder / name, bench.model, trainer.state());
  }
  auto replace = [&](const char *name, const char *suffix) {
    std::filesystem::rename(folder / (std::string("next/") + name),
                            folder / (std::string("run/") + name + suffix));
  };
  RunFolder run(folder / "run");
  replace("model.safetensors", "");
  replace("optimizer.safetensors", nextSuffix);
  replace("state.json", nextSuffix);
  std::jthread disk([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(150));
    for (std::string name : {"optimizer.safetensors", "state.json"})
      std::filesystem::rename(run.file(name + nextSuffix), run.file(name));
  });
  Bench again(ToyShape(), longRun);
  EXPECT_EQ(loadCheckpoint(run.path(), again.model).step, 2);
}

// Who reads a run has no say in how many of its checkpoints are kept.
TEST(Checkpoint, IsFinishedWithoutRemovingOthers) {
  TemporaryFolder folder;
  Bench bench(ToyShape(), longRun);
  Trainer trainer = bench.trainer();
  trainer.prepare();
  auto saveNext = [&] {
    trainer.step();
    RunState state = trainer.state();
    state.logBytes = 0;
    RunFolder run(folder / "run", /*keep=*/3);
    saveCheckpoint(run, bench.model, state, [](RunState &) {});
  };
  saveNext();
  saveNext();
  saveNext();
  ASSERT_EQ(olderSteps(folder / "run"), (std::vector<int64_t>{1, 2}));
  // As a kill leaves it that comes when the next one is whole.
  TemporaryFolder other;
  trainer.step();
  save(other / "run", bench.model, trainer.state());
  for (const char *name : checkpointFiles)
    std::filesystem::rename(other / (std::string("run/") + name),
                            folder / (std::string("run/") + name + ".next"));
  // Where there is no room for it, what is there is read.
  folder.write("run/step-3.next", "");
  settle(folder / "run");
  EXPECT_EQ(olderSteps(folder / "run"), (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(loadCheckpoint(folder / "run", bench.model).step, 3);
  std::filesystem::remove(folder / "run/step-3.next");
  settle(folder / "run");
  EXPECT_EQ(olderSteps(folder / "run"), (std::vector<int64_t>{1, 2, 3}));
  EXPECT_EQ(loadCheckpoint(folder / "run", bench.model).step, 4);
}

// They may be in the hands of who trains there.
TEST(Checkpoint, IsNotFinishedUnderTheLockOfAnother) {
  TemporaryFolder folder;
  Bench bench(ToyShape(), longRun);
  Trainer trainer = bench.trainer();
  trainer.prepare();
  trainer.step();
  save(folder / "run", bench.model, trainer.state());
  for (const char *name : checkpointFiles)
    std::filesystem::rename(folder / (std::string("run/") + name),
                            folder / (std::string("run/") + name + ".next"));
  {
    FolderLock other(folder / "run");
    settle(folder / "run");
    EXPECT_FALSE(fileExists(folder / "run/model.safetensors"));
  }
  settle(folder / "run");
  EXPECT_TRUE(fileExists(folder / "run/model.safetensors"));
}

// As several programs do that begin to read it at once.
TEST(Checkpoint, IsFinishedByOneOfMany) {
  Bench bench(ToyShape(), longRun);
  Trainer trainer = bench.trainer();
  trainer.prepare();
  trainer.step();
  for (int round = 0; round < 20; ++round) {
    TemporaryFolder folder;
    save(folder / "run", bench.model, trainer.state());
    for (const char *name : checkpointFiles)
      std::filesystem::rename(folder / (std::string("run/") + name),
                              folder / (std::string("run/") + name + ".next"));
    std::atomic<int> failed{0};
    std::vector<std::thread> readers;
    for (int i = 0; i < 8; ++i)
      readers.emplace_back([&] {
        try {
          settle(folder / "run");
        } catch (const InputError &) {
          ++failed;
        }
      });
    for (std::thread &reader : readers)
      reader.join();
    EXPECT_EQ(failed, 0);
    EXPECT_TRUE(fileExists(folder / "run/model.safetensors"));
    EXPECT_FALSE(fileExists(folder / "run/state.json.next"));
  }
}

const char *const keptRun =
    R"("steps": 60, "checkpoint": {"every": 20, "unit": "steps", "keep": 2},
       "validate": {"every": 10, "unit": "steps", "batches": 2})";

/// A finished run in `folder`/run.
void trainIn(const TemporaryFolder &folder) {
  Bench bench(ToyShape(), keptRun);
  TrainOptions options;
  options.out = folder / "run";
  bench.trainer(options).run(noInterrupt);
}

// What was written there is told from what is there now, before anything is
// computed with it.
TEST(Checkpoint, OneFlippedBitIsFound) {
  TemporaryFolder folder;
  trainIn(folder);
  Bench bench(ToyShape(), keptRun);
  for (const char *name : {"model.safetensors", "optimizer.safetensors",
                           "state.json", "tokenizer.json", "log.jsonl"}) {
    std::string path = folder / (std::string("run/") + name);
    std::string whole = contentOf(path);
    ASSERT_FALSE(whole.empty()) << path;
    // Seven bits on: each bit of a byte has its turn.
    for (size_t bit = 0; bit < 8 * whole.size(); bit += 7) {
      std::string damaged = whole;
      damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ 1 << bit % 8);
      folder.write(std::string("run/") + name, damaged);
      std::string message = messageOf<InputError>([&] {
        requireTokenizerOfRun(folder / "run/tokenizer.json",
                              contentOf(folder / "run/tokenizer.json"));
        loadCheckpoint(folder / "run", bench.model);
      });
      ASSERT_EQ(message.find(path), message.find(folder / "run/"))
          << name << ", bit " << bit << ": " << message;
      ASSERT_NE(message, "") << name << ", bit " << bit;
    }
    folder.write(std::string("run/") + name, whole);
  }
  EXPECT_EQ(loadCheckpoint(folder / "run", bench.model).step, 60);
  // The message says what else there is.
  folder.write("run/state.json", "{");
  std::string message = messageOf<InputError>(
      [&] { loadCheckpoint(folder / "run", bench.model); });
  EXPECT_NE(message.find("--resume " + (folder / "run/step-40") + " --out NEW"),
            std::string::npos)
      << message;
}

// A file that the run did not write, though it is whole.
TEST(Checkpoint, FilesOfDifferentRunsAreToldApart) {
  TemporaryFolder folder;
  trainIn(folder);
  Bench bench(ToyShape(), std::string(keptRun) + R"(, "seed": 5)");
  TrainOptions options;
  options.out = folder / "other";
  bench.trainer(options).run(noInterrupt);
  for (const char *name : {"model.safetensors", "optimizer.safetensors"}) {
    std::string path = folder / (std::string("run/") + name);
    std::string own = contentOf(path);
    folder.write(std::string("run/") + name,
                 contentOf(folder / (std::string("other/") + name)));
    EXPECT_NE(messageOf<InputError>([&] {
                loadCheckpoint(folder / "run", bench.model);
              }).find(path + " is not the file that state.json was written"),
              std::string::npos);
    folder.write(std::string("run/") + name, own);
  }
}

// The state of a checkpoint that is to be finished is of the files beside it,
// not of those that another run had at its step.
TEST(Checkpoint, IsNotFinishedWithFilesOfAnotherRun) {
  TemporaryFolder folder;
  ToyShape shape;
  RunState state;
  state.step = 5;
  state.steps = 10;
  for (const char *name : {"one", "other"}) {
    Bench bench(shape, "\"steps\": 10");
    state.seed = name == std::string("one") ? 1 : 2;
    initialise(bench.model, state.seed);
    save(folder / name, bench.model, state);
  }
  std::filesystem::copy_file(folder / "other/state.json",
                             folder / "one/state.json.next");
  std::string message = messageOf<InputError>(
      [&] { RunFolder(folder / "one", /*keep=*/1).recover(); });
  EXPECT_NE(message.find("does not belong to the checkpoint of step 5"),
            std::string::npos)
      << message;
  std::filesystem::remove(folder / "one/state.json.next");
  RunFolder(folder / "one", /*keep=*/1).recover();
}

TEST(Checkpoint, OlderOnesAreKept) {
  TemporaryFolder folder;
  trainIn(folder);
  EXPECT_EQ(olderSteps(folder / "run"), std::vector<int64_t>{40});
  EXPECT_EQ(runOfOlder(folder / "run/step-40/"), folder / "run");
  EXPECT_EQ(runOfOlder(folder / "run"), "");
  EXPECT_EQ(runAround(folder / "run/step-7"), folder / "run");
  EXPECT_EQ(runAround(folder / "run/best"), folder / "run");
  // From there a new run comes to the same bits, and its log begins as that
  // step's.
  Bench bench(ToyShape(), keptRun);
  TrainOptions options;
  options.resume = folder / "run/step-40";
  options.out = folder / "new";
  EXPECT_EQ(bench.trainer(options).run(noInterrupt).firstStep, 40);
  for (const char *name : {"model.safetensors", "optimizer.safetensors"})
    EXPECT_EQ(contentOf(folder / (std::string("run/") + name)),
              contentOf(folder / (std::string("new/") + name)));
  std::string log = contentOf(folder / "run/log.jsonl");
  uint64_t begin =
      parseState(contentOf(folder / "run/step-40/state.json"), "").logBytes;
  ASSERT_GT(begin, 0u);
  EXPECT_EQ(contentOf(folder / "new/log.jsonl").substr(0, begin),
            log.substr(0, begin));
}

TEST(Checkpoint, BestHasTheWeightsOfTheLowestLoss) {
  TemporaryFolder folder;
  trainIn(folder);
  Bench bench(ToyShape(), keptRun);
  loadWeights(folder / "run/best", bench.model);
  double loss = Evaluator(bench.model, *bench.data, std::nullopt)
                    .evaluate(Part::Validation, 2)
                    .loss;
  EXPECT_EQ(bestLoss(folder / "run"), loss);
  std::istringstream log(contentOf(folder / "run/log.jsonl"));
  std::string line;
  int validations = 0;
  while (std::getline(log, line)) {
    nlohmann::json entry = nlohmann::json::parse(line);
    if (!entry.contains("validation_loss"))
      continue;
    ++validations;
    EXPECT_LE(loss, entry["validation_loss"].get<double>());
  }
  EXPECT_EQ(validations, 6);
}

// All of it is of the run that makes way.
TEST(Checkpoint, AnotherRunInItsPlaceLeavesNothingOfIt) {
  TemporaryFolder folder;
  trainIn(folder);
  Bench bench(ToyShape(), R"("steps": 3)");
  TrainOptions options;
  options.out = folder / "run";
  options.overwrite = true;
  bench.trainer(options).run(noInterrupt);
  std::set<std::string> names;
  for (const auto &entry : std::filesystem::directory_iterator(options.out))
    names.insert(entry.path().filename());
  EXPECT_EQ(names,
            (std::set<std::string>{"model.safetensors", "optimizer.safetensors",
                                   "state.json", "tokenizer.json",
                                   "generation_config.json", "log.jsonl"}));
}

// Later ones than the newest are of a run that was set back by hand: they stay.
TEST(Checkpoint, LaterOnesThanTheNewestStay) {
  TemporaryFolder folder;
  Bench bench(ToyShape(), "\"steps\": 10");
  initialise(bench.model, 1);
  RunState state;
  state.step = 5;
  state.steps = 10;
  for (const char *name : {"run", "run/step-3", "run/step-9"})
    save(folder / name, bench.model, state);
  RunFolder(folder / "run", /*keep=*/1).recover();
  EXPECT_EQ(olderSteps(folder / "run"), std::vector<int64_t>{9});
}

// Links within a run lead to what is somebody else's.
TEST(Checkpoint, RemovesThroughNoLinks) {
  TemporaryFolder folder;
  trainIn(folder);
  namespace fs = std::filesystem;
  fs::rename(folder / "run/step-40", folder / "archive");
  fs::rename(folder / "run/best", folder / "mine");
  fs::create_directory_symlink("../archive", folder / "run/step-40");
  fs::create_directory_symlink("../archive", folder / "run/step-70.next");
  fs::create_directory_symlink("../mine", folder / "run/best");
  std::string best = contentOf(folder / "mine/model.safetensors");
  Bench bench(ToyShape(), keptRun);
  TrainOptions options;
  options.out = options.resume = folder / "run";
  options.steps = 100;
  bench.trainer(options).run(noInterrupt);
  // It counts as none of those that are kept, and goes with none.
  EXPECT_TRUE(fs::is_symlink(folder / "run/step-40"));
  options.resume.clear();
  options.overwrite = true;
  bench.trainer(options).run(noInterrupt);
  for (const char *name : checkpointFiles)
    EXPECT_TRUE(fileExists(folder / (std::string("archive/") + name))) << name;
  EXPECT_EQ(contentOf(folder / "mine/model.safetensors"), best);
}

// Somebody's own file costs the run that is in its way nothing.
TEST(Checkpoint, AFileOfTheNameOfBestStays) {
  TemporaryFolder folder;
  Bench bench(ToyShape(), R"("steps": 3)");
  std::filesystem::create_directory(folder / "run");
  folder.write("run/best", "mine");
  TrainOptions options;
  options.out = folder / "run";
  bench.trainer(options).run(noInterrupt);
  EXPECT_EQ(contentOf(folder / "run/best"), "mine");
}

// A backup of links (`cp -al`) stays what it was.
TEST(Checkpoint, ALogThatIsSharedIsNotCut) {
  TemporaryFolder folder;
  trainIn(folder);
  std::string log = contentOf(folder / "run/log.jsonl");
  std::filesystem::create_hard_link(folder / "run/log.jsonl",
                                    folder / "backup.jsonl");
  Bench bench(ToyShape(), keptRun);
  TrainOptions options;
  options.out = options.resume = folder / "run";
  options.steps = 80;
  bench.trainer(options).run(noInterrupt);
  EXPECT_EQ(contentOf(folder / "backup.jsonl"), log);
  EXPECT_EQ(contentOf(folder / "run/log.jsonl").find(log), 0u);
  // An older checkpoint has its part of it alone.
  EXPECT_EQ(contentOf(folder / "run/step-60/log.jsonl"), log);
}

// The last line of a log is counted by the last checkpoint, and what a kill
// leaves behind that is no part of it.
TEST(Checkpoint, TheLastOneCountsAllOfTheLog) {
  TemporaryFolder folder;
  trainIn(folder);
  std::string log = contentOf(folder / "run/log.jsonl");
  RunState state = parseState(contentOf(folder / "run/state.json"), "");
  EXPECT_EQ(state.logBytes, log.size());
  EXPECT_NE(log.find(R"({"step":60,"validation_loss":)"), std::string::npos);
  folder.write("run/log.jsonl", log + R"({"step":60,"valid)");
  Bench bench(ToyShape(), keptRun);
  TrainOptions options;
  options.out = options.resume = folder / "run";
  EXPECT_TRUE(bench.trainer(options).run(noInterrupt).wasComplete);
  EXPECT_EQ(contentOf(folder / "run/log.jsonl"), log);
}

// Somebody may have put a link where a file is going to be written.
TEST(Checkpoint, WritesThroughNoLinks) {
  TemporaryFolder folder;
  folder.write("victim", "mine");
  std::filesystem::create_directories(folder / "run/best");
  for (const char *name :
       {"model.safetensors.next", "optimizer.safetensors.next",
        "state.json.next.next", "tokenizer.json.next",
        "best/model.safetensors.next"})
    std::filesystem::create_symlink("../victim",
                                    folder / (std::string("run/") + name));
  trainIn(folder);
  EXPECT_EQ(contentOf(folder / "victim"), "mine");
  EXPECT_FALSE(std::filesystem::is_symlink(folder / "run/model.safetensors"));
}

// It is better said before training than after that the disk is too small.
TEST(Checkpoint, TheSpaceForAllOfThemIsKnownBefore) {
  TemporaryFolder folder;
  trainIn(folder);
  Bench bench(ToyShape(), keptRun);
  uint64_t taken = 0;
  for (const auto &entry :
       std::filesystem::recursive_directory_iterator(folder / "run"))
    if (entry.is_regular_file() && entry.path().filename() != "log.jsonl" &&
        entry.path().filename() != "tokenizer.json")
      taken += entry.file_size();
  // Two stay; a third, and other best weights, are there while they are
  // written.
  uint64_t known = bytesToCome(
      bench.model, {.checkpoints = 3, .present = 0, .savesBest = true}, 1);
  EXPECT_GT(known, taken * 4 / 3);
  EXPECT_LT(known, taken * 4);
  EXPECT_LT(bytesToCome(bench.model,
                        {.checkpoints = 3, .present = 2, .savesBest = true}, 1),
            known / 2);
  uint64_t weights =
      std::filesystem::file_size(folder / "run/best/model.safetensors");
  EXPECT_LE(bytesToCome(bench.model,
                        {.checkpoints = 3, .savesBest = true, .hasBest = true},
                        1),
            known - weights);
}

// Two processes may write one file: the last one's is there in the end.
TEST(AtomicFile, HasATemporaryNameOfItsOwn) {
  TemporaryFolder folder;
  folder.write("victim", "mine");
  std::filesystem::create_symlink("victim", folder / "file.tmp");
  {
    AtomicFile first(folder / "file"), second(folder / "file");
    first.write("first");
    second.write("second");
    second.commit();
    first.commit();
    AtomicFile never(folder / "file");
    never.write("never");
  }
  EXPECT_EQ(contentOf(folder / "file"), "first");
  EXPECT_EQ(contentOf(folder / "victim"), "mine");
  auto entries = std::filesystem::directory_iterator(folder.path);
  EXPECT_EQ(std::distance(begin(entries), end(entries)), 3);
}

TEST(RunState, EveryMemberIsChecked) {
  const std::string good = R"({"format": 1, "model": "Toy", "step": 5,
      "steps": 10, "seed": 1, "data_position": 5, "lr": 0.001, "tokens": 9,
      "log_bytes": 0, "best_validation": null, "worse_validations": 0})";
  EXPECT_EQ(parseState(good, "s").step, 5);
  auto fails = [&](const char *name, const nlohmann::json &value) {
    nlohmann::json object = nlohmann::json::parse(good);
    if (value.is_discarded())
      object.erase(name);
    else
      object[name] = value;
    std::string message =
        messageOf<InputError>([&] { parseState(object.dump(), "s"); });
    EXPECT_EQ(message.find("s is"), 0u) << name << ": " << message;
    EXPECT_NE(message.find(name), std::string::npos) << message;
  };
  nlohmann::json whole = nlohmann::json::parse(good);
  for (const auto &[name, value] : whole.items()) {
    fails(name.c_str(), nlohmann::json::value_t::discarded);
    fails(name.c_str(), nlohmann::json::object());
    if (!value.is_string())
      fails(name.c_str(), "text");
    if (value.is_number_integer()) {
      fails(name.c_str(), 1.5);
      fails(name.c_str(), 1e308);
      fails(name.c_str(), -1);
    }
  }
  fails("lr", -1.0);
  fails("steps", 4); // fewer than were done
  fails("format", 0);
  fails("data_position", 4);
  fails("precision", "f64");
  fails("precision", 32);
  fails("precision", nullptr);
  fails("optimizer", "lion");
  fails("optimizer", "");
  fails("optimizer", nullptr);
  // Newer ones say so.
  RunState state = parseState(good, "s");
  std::string text = stateText(state);
  EXPECT_EQ(parseState(text, "s").steps, 10);
  text.replace(text.find("\"format\": 2"), 11, "\"format\": 3");
  EXPECT_NE(messageOf<InputError>([&] {
              parseState(text, "s");
            }).find("s is damaged"),
            std::string::npos);
  text.resize(text.find(",\n  \"checksum\": \""));
  text += ",\n  \"checksum\": \"" + checksumOf(text) + "\"\n}\n";
  EXPECT_NE(messageOf<InputError>([&] {
              parseState(text, "s");
            }).find("its format is 3, and this binary knows those up to 2"),
            std::string::npos);
}

// Weights and state are f32 whatever a build computes with, so that a run may
// change it; whoever does not mean that reads it.
TEST(Checkpoint, GoesOnInAnotherPrecision) {
  // However long, with the same learning rate.
  const std::string inFloat32 =
      std::string(longRun) + R"(, "schedule": {"kind": "constant"})";
  const std::string inBFloat16 = inFloat32 + R"(, "precision": "bf16")";
  TemporaryFolder folder;
  std::atomic<bool> never{false};
  auto trainTo = [&](const std::string &recipe, int64_t steps, bool resumes) {
    Bench bench(ToyShape(), recipe);
    TrainOptions options;
    options.out = folder / "run";
    options.steps = steps;
    if (resumes)
      options.resume = options.out;
    testing::internal::CaptureStderr();
    bench.trainer(std::move(options)).run(never);
    return testing::internal::GetCapturedStderr();
  };
  auto precision = [&] {
    return parseState(contentOf(folder / "run/state.json"), "s").precision;
  };
  EXPECT_EQ(trainTo(inFloat32, 5, false), "");
  EXPECT_EQ(precision(), "f32");
  EXPECT_EQ(trainTo(inFloat32, 10, true), "");
  EXPECT_EQ(trainTo(inBFloat16, 15, true),
            "note: the run in " + folder / "run" +
                " was trained in f32 until now, and goes on in bf16: its "
                "weights and the optimizer's state are f32 in both\n");
  EXPECT_EQ(precision(), "bf16");
  EXPECT_EQ(trainTo(inBFloat16, 20, true), "");
  EXPECT_NE(trainTo(inFloat32, 25, true)
                .find("was trained in bf16 until now, and goes on in f32"),
            std::string::npos);
  EXPECT_EQ(precision(), "f32");
  // Complete: nothing goes on in any.
  EXPECT_EQ(trainTo(inBFloat16, 25, true), "");
  EXPECT_EQ(precision(), "f32");
}

// Means of gradients are no momentum, though they have its shape.
TEST(Checkpoint, GoesOnWithItsOwnOptimizerAlone) {
  const std::string bySgd =
      std::string(longRun) + R"(, "optimizer": {"kind": "sgd", "lr": 0.05})";
  TemporaryFolder folder;
  TrainOptions options;
  options.out = folder / "run";
  options.steps = 5;
  Bench(ToyShape(), longRun).trainer(options).run(noInterrupt);
  std::string state = contentOf(folder / "run/state.json");
  EXPECT_EQ(parseState(state, "s").optimizer, "adamw");
  options.resume = options.out;
  options.steps = 10;
  EXPECT_EQ(messageOf<InputError>([&] {
              Bench(ToyShape(), bySgd).trainer(options).run(noInterrupt);
            }),
            "the run in " + options.out +
                " was trained by adamw, and this build trains by sgd "
                "(train.optimizer), which cannot go on from the state of "
                "another: begin anew from its weights with --init " +
                options.out + " --out NEW, or build with adamw");
  EXPECT_EQ(contentOf(folder / "run/state.json"), state);
  // An earlier version did not say by which; from here on it is known.
  std::string member = "  \"optimizer\": \"adamw\",\n";
  state.erase(state.find(member), member.size());
  state.resize(state.find(",\n  \"checksum\": \""));
  folder.write("run/state.json",
               state + ",\n  \"checksum\": \"" + checksumOf(state) + "\"\n}\n");
  EXPECT_EQ(parseState(contentOf(folder / "run/state.json"), "s").optimizer,
            "");
  Bench(ToyShape(), bySgd).trainer(options).run(noInterrupt);
  EXPECT_EQ(parseState(contentOf(folder / "run/state.json"), "s").optimizer,
            "sgd");
}

// Their states are the same.
TEST(Checkpoint, AdamGoesOnWithWhatAdamwLeft) {
  TemporaryFolder folder;
  TrainOptions options;
  options.out = folder / "run";
  options.steps = 5;
  Bench(ToyShape(), longRun).trainer(options).run(noInterrupt);
  options.resume = options.out;
  options.steps = 10;
  Bench(ToyShape(),
        std::string(longRun) + R"(, "optimizer": {"kind": "adam", "lr": 0.05})")
      .trainer(options)
      .run(noInterrupt);
  EXPECT_EQ(parseState(contentOf(folder / "run/state.json"), "s").optimizer,
            "adam");
}

// What was written before there was a choice.
TEST(RunState, IsSingleWhereItDoesNotSay) {
  RunState state;
  state.steps = 1;
  state.precision = "bf16";
  std::string text = stateText(state);
  EXPECT_EQ(parseState(text, "s").precision, "bf16");
  std::string member = "  \"precision\": \"bf16\",\n";
  text.erase(text.find(member), member.size());
  text.resize(text.find(",\n  \"checksum\": \""));
  text += ",\n  \"checksum\": \"" + checksumOf(text) + "\"\n}\n";
  EXPECT_EQ(parseState(text, "s").precision, "f32");
}

TEST(Checkpoint, RefusesAnotherModel) {
  TemporaryFolder folder;
  Bench bench(ToyShape(), longRun);
  bench.trainer().prepare();
  RunState state;
  state.steps = 1;
  save(folder.path, bench.model, state);
  ToyShape wide;
  wide.vocabulary = 20;
  ToyModel other(wide, "");
  CpuDevice device(1);
  Model model(other.descriptor(), device);
  std::string message =
      messageOf<InputError>([&] { loadWeights(folder.path, model); });
  EXPECT_NE(message.find("table is [14, 14], the model's is [20, 20]"),
            std::string::npos)
      << message;
}

} // namespace
} // namespace tfm::test
