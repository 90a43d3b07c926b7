//===- TrainerTest.cpp - training, resuming, failing --------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/trainer.h"
#include "runtime/atomic_file.h"
#include "runtime/error.h"
#include "tests/unit/runtime/TemporaryFolder.h"
#include "tests/unit/runtime/ToyModel.h"

#include <cmath>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <gtest/gtest.h>
#include <malloc.h>
#include <sys/resource.h>

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
      : toy(shape, sumsRecipe(shape, train)), pool(threads),
        model(toy.descriptor(), pool),
        recipe(parseRecipe(toy.descriptor().recipe)),
        tokenizer(makeCharsTokenizer("0123456789+=.#")),
        data(openDataset({recipe.data, *tokenizer, recipe.train.sequence,
                          ignoredTarget(recipe.train, *tokenizer)})) {}

  Trainer trainer(TrainOptions options = {}) {
    options.quiet = true;
    return Trainer(model, recipe, *data, *tokenizer, std::move(options));
  }
  std::vector<float> parameters() const {
    std::vector<float> all;
    for (const tfm_parameter &parameter : model.parameters()) {
      std::span<float> values = model.value(parameter);
      all.insert(all.end(), values.begin(), values.end());
    }
    return all;
  }

  ToyModel toy;
  ThreadPool pool;
  Model model;
  Recipe recipe;
  TokenizerPtr tokenizer;
  std::unique_ptr<Dataset> data;
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

TEST(Trainer, InterruptSavesAndResumeContinuesTheLog) {
  TemporaryFolder folder;
  TrainOptions options;
  options.out = folder / "run";
  Bench bench(ToyShape(), longRun);
  std::atomic<bool> interrupt{true};
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
  Bench again(shape, longRun);
  EXPECT_EQ(loadCheckpoint(options.out, again.model).step, 20);
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

TEST(Trainer, StopsEarly) {
  ToyShape shape;
  shape.ignore = 13;
  Bench bench(shape, R"("steps": 100000,
      "validate": {"every": 50, "unit": "steps", "batches": 0},
      "stop": {"patience": 3, "min_delta": 0.01})");
  TrainResult result = bench.trainer().run(noInterrupt);
  EXPECT_TRUE(result.stoppedEarly);
  EXPECT_LT(result.steps, 5000);
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
    settle(folder / "run", 1);
    EXPECT_FALSE(fileExists(folder / "run/model.safetensors"));
  }
  settle(folder / "run", 1);
  EXPECT_TRUE(fileExists(folder / "run/model.safetensors"));
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
  ThreadPool pool(1);
  Model model(other.descriptor(), pool);
  std::string message =
      messageOf<InputError>([&] { loadWeights(folder.path, model); });
  EXPECT_NE(message.find("table is [14, 14], the model's is [20, 20]"),
            std::string::npos)
      << message;
}

} // namespace
} // namespace tfm::test
