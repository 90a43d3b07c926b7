//===- ProcessesTest.cpp - processes that share work ----------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/comm/launcher.h"
#include "runtime/comm/separate_work.h"
#include "runtime/device/cpu_device.h"
#include "runtime/support/atomic_file.h"
#include "runtime/support/error.h"
#include "runtime/training/evaluator.h"
#include "runtime/training/row_arithmetic.h"
#include "runtime/training/row_exchange.h"
#include "runtime/training/trainer.h"
#include "tests/unit/runtime/TemporaryFolder.h"
#include "tests/unit/runtime/ThreadTransport.h"
#include "tests/unit/runtime/ToyModel.h"

#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>
#include <map>
#include <random>

namespace tfm::test {
namespace {

std::vector<float> randomFloats(size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  std::ranges::generate(values, [&] { return normal(random); });
  return values;
}

// As MPICH over TCP, where UCX waits for what does not come any more.
TEST(Leaving, EndsWhereTheLibraryDoesNot) {
  runProcesses(1, [](Processes &processes) { processes.leave(); });
  EXPECT_EXIT(runProcesses(
                  1, [](Processes &processes) { processes.leave(); },
                  /*timeout=*/0.1, /*delay=*/60),
              testing::ExitedWithCode(1),
              "process 0 .*: all work is done, but threads has not ended for "
              "0.1 s .MPI_Finalize.: what was written is whole");
}

// Neighbours first, then their sums: whoever has added up an aligned part of
// the terms already has the same bits.
TEST(AddAsTree, AddsAlignedPartsFirst) {
  for (size_t length : {1, 1024, 3000}) {
    std::vector<std::vector<float>> terms;
    std::vector<const float *> pointers;
    for (uint32_t i = 0; i < 8; ++i)
      terms.push_back(randomFloats(length, i));
    for (const std::vector<float> &term : terms)
      pointers.push_back(term.data());
    std::vector<float> whole(length), spare;
    addAsTree(pointers, whole, spare);
    for (size_t i = 0; i < length; ++i)
      ASSERT_EQ(
          whole[i],
          ((terms[0][i] + terms[1][i]) + (terms[2][i] + terms[3][i])) +
              ((terms[4][i] + terms[5][i]) + (terms[6][i] + terms[7][i])));
    for (size_t parts : {2, 4}) {
      std::vector<std::vector<float>> sums(parts, std::vector<float>(length));
      std::vector<const float *> of;
      for (size_t i = 0; i < parts; ++i) {
        size_t each = 8 / parts;
        addAsTree(std::span(pointers).subspan(i * each, each), sums[i], spare);
        of.push_back(sums[i].data());
      }
      std::vector<float> again(length);
      addAsTree(of, again, spare);
      EXPECT_EQ(again, whole);
    }
  }
}

// The sum may take the place of a term, as it does in the arena.
TEST(AddAsTree, AddsInPlace) {
  for (size_t count : {1, 2, 3, 5}) {
    std::vector<std::vector<float>> terms;
    std::vector<const float *> pointers;
    for (uint32_t i = 0; i < count; ++i)
      terms.push_back(randomFloats(2500, i));
    for (const std::vector<float> &term : terms)
      pointers.push_back(term.data());
    std::vector<float> sum(2500), spare;
    addAsTree(pointers, sum, spare);
    addAsTree(pointers, terms[count / 2], spare);
    EXPECT_EQ(terms[count / 2], sum);
  }
}

TEST(Processes, GatherWhatEachGives) {
  runProcesses(3, [](Processes &processes) {
    EXPECT_TRUE(std::ranges::equal(processes.gather(10 + processes.rank()),
                                   std::array{10, 11, 12}));
    EXPECT_EQ(processes.sum(1 << processes.rank()), 7);
    std::vector<float> own(2, static_cast<float>(processes.rank())), all(6);
    processes.gather<float>(own, all);
    EXPECT_EQ(all, (std::vector<float>{0, 0, 1, 1, 2, 2}));
    // Threads of one process may use the same processors.
    EXPECT_EQ(processes.neighbours(), 3);
  });
}

// Every row is summed once, whatever blocks there are, whenever they are ready,
// and all processes end with the same.
TEST(RowExchange, AddsUpAndSpreads) {
  struct Case {
    int count;
    size_t rows, block;
    bool isHostMemory;
  };
  for (auto [count, rows, block, isHostMemory] : {Case{1, 3, 1, true},
                                                  {2, 1, 1, true},
                                                  {3, 5, 2, true},
                                                  {5, 2050, 64, true},
                                                  {5, 300, 64, false},
                                                  {3, 900, 512, true}}) {
    size_t length = rows * TFM_ROW;
    std::vector<float> expected(length), spare;
    std::vector<std::vector<float>> terms;
    std::vector<const float *> pointers;
    for (int rank = 0; rank < count; ++rank)
      terms.push_back(randomFloats(length, static_cast<uint32_t>(rank)));
    for (const std::vector<float> &term : terms)
      pointers.push_back(term.data());
    addAsTree(pointers, expected, spare);
    runProcesses(count, [&](Processes &processes) {
      CpuDevice device(1);
      device.allocate(length * sizeof(float) + 4, 64, 0);
      auto rank = static_cast<size_t>(processes.rank());
      auto all = [&] { return device.read<float>(4, length).values(); };
      std::ranges::copy(terms[rank],
                        device.write<float>(4, length).values().begin());
      SharedRows shared = {blocksOf(0, rows, block),
                           DeviceRows(device, /*offset=*/4, TFM_ROW),
                           isHostMemory};
      // What is next to each other lies in the same order, so that the first
      // blocks may lie anywhere.
      std::ranges::reverse(shared.blocks);
      auto ownerOf = [&](size_t i) {
        size_t number = shared.blocks.size() - 1 - i / TFM_ROW / block;
        return number % static_cast<size_t>(count);
      };
      struct : RowSum::Steps {
        void prepare(const RowBlock &) override {}
        void done(size_t number, std::span<const float> values) override {
          floats[number] += values.size();
        }
        std::vector<size_t> floats;
      } steps;
      std::vector<size_t> &done = steps.floats;
      done.resize(shared.blocks.size());
      RowSum sum(processes, SharedRows(shared), steps);
      for (int time = 0; time < 2; ++time) {
        sum.begin();
        for (size_t ready = 0; ready < sum.rounds(); ready += rank + 1)
          sum.advance(ready);
        sum.finish();
        EXPECT_TRUE(sum.isOver());
        for (size_t i = 0; i < length; ++i)
          ASSERT_EQ(all()[i],
                    ownerOf(i) == rank ? expected[i] : terms[rank][i]);
        for (size_t i = 0; i < done.size(); ++i)
          EXPECT_EQ(done[i], i % static_cast<size_t>(count) == rank
                                 ? shared.blocks[i].count * TFM_ROW
                                 : 0);
        std::ranges::fill(done, size_t{0});
        std::ranges::copy(terms[rank],
                          device.write<float>(4, length).values().begin());
      }
      sum.begin();
      sum.finish();
      RowCopy toFirst(processes, SharedRows(shared), RowCopy::To::First);
      toFirst.begin();
      toFirst.finish();
      for (size_t i = 0; i < length; ++i)
        ASSERT_EQ(all()[i], rank == 0 || ownerOf(i) == rank ? expected[i]
                                                            : terms[rank][i]);
      RowCopy toAll(processes, SharedRows(shared), RowCopy::To::All);
      toAll.begin();
      toAll.finish();
      EXPECT_TRUE(std::ranges::equal(all(), expected));
    });
  }
}

TEST(Processes, NameWhoDoesNotAnswer) {
  std::string message = messageOf<LostProcess>([] {
    runProcesses(
        3,
        [](Processes &processes) {
          if (processes.rank() != 1)
            processes.meet();
        },
        /*timeout=*/0.2);
  });
  EXPECT_TRUE(message.starts_with("nothing has come from process 1 ("))
      << message;
  EXPECT_EQ(message.find("process 2"), std::string::npos) << message;
}

// Whoever is done waits for the others, however long these take.
TEST(SeparateWork, TakesAsLongAsItDoes) {
  for (int longest : {0, 1, 2})
    for (int stopping : {-1, 0, 1, 2}) {
      std::atomic<int> stopped{0};
      runProcesses(
          3,
          [&](Processes &processes) {
            SeparateWork work(processes);
            int pieces = processes.rank() == longest ? 130 : 3;
            bool isToStop = processes.rank() == stopping;
            int done = 0;
            while (done < pieces && !work.goOn(isToStop)) {
              usleep(10'000);
              ++done;
            }
            stopped += work.end(isToStop);
            if (processes.rank() == longest)
              EXPECT_EQ(done == pieces, stopping < 0);
            // Nothing of it is left among their messages.
            EXPECT_EQ(processes.sum(1 << processes.rank()), 7);
          },
          /*timeout=*/1.0);
      EXPECT_EQ(stopped, stopping < 0 ? 0 : 3);
    }
}

// Those that wait for it at their end, and those that still work.
TEST(SeparateWork, NamesWhoDoesNotGoOn) {
  for (int hanging : {0, 2})
    for (bool works : {false, true}) {
      std::atomic<bool> cameToTheEnd{false};
      std::string message = messageOf<LostProcess>([&] {
        runProcesses(
            3,
            [&](Processes &processes) {
              SeparateWork work(processes);
              if (processes.rank() == hanging)
                return (void)usleep(1'000'000);
              if (works) {
                for (int piece = 0; piece < 1000; ++piece) {
                  work.goOn(false);
                  usleep(10'000);
                }
                cameToTheEnd = true;
              }
              work.end(false);
            },
            /*timeout=*/0.2);
      });
      EXPECT_TRUE(message.starts_with("nothing has come from process " +
                                      std::to_string(hanging) + " ("))
          << message;
      EXPECT_FALSE(cameToTheEnd);
    }
}

// Those whose messages have come are not named with the one that hangs.
TEST(RowExchange, NamesWhoDoesNotAnswer) {
  std::string message = messageOf<LostProcess>([] {
    runProcesses(
        4,
        [](Processes &processes) {
          CpuDevice device(1);
          device.allocate(4 * TFM_ROW * sizeof(float), 64, 0);
          SharedRows shared = {blocksOf(0, 4, 1),
                               DeviceRows(device, /*offset=*/0, TFM_ROW),
                               /*isHostMemory=*/true};
          RowCopy copy(processes, SharedRows(shared), RowCopy::To::All);
          if (processes.rank() == 3)
            return;
          copy.begin();
          copy.finish();
        },
        /*timeout=*/0.2);
  });
  EXPECT_TRUE(message.starts_with("nothing has come from process 3 ("))
      << message;
}

TEST(Processes, NameWhoHasOtherFiles) {
  std::atomic<int> agreed{0};
  std::string message = messageOf<AgreedError>([&] {
    runProcesses(3, [&](Processes &processes) {
      processes.requireSame("other data", "0123456789abcdef", "copy it");
      try {
        processes.requireSame("other data", processes.rank() == 2 ? "b" : "a",
                              "copy it");
      } catch (const AgreedError &) {
        ++agreed;
        throw;
      }
    });
  });
  EXPECT_EQ(agreed, 3);
  EXPECT_TRUE(message.starts_with("process 2 (")) << message;
  EXPECT_NE(message.find(") has other data than process 0 ("),
            std::string::npos);
}

TEST(Launch, IsFoundByVariables) {
  static std::map<std::string, const char *> variables;
  auto variable = [](const char *name) {
    auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second;
  };
  auto find = [&](std::map<std::string, const char *> known) {
    variables = std::move(known);
    return findLaunch(variable);
  };
  EXPECT_FALSE(find({}));
  EXPECT_EQ(tasksOfScript(variable), 1);
  // Of a job of Slurm, whose script runs alone.
  EXPECT_FALSE(find({{"SLURM_NTASKS", "4"}, {"SLURM_PROCID", "0"}}));
  EXPECT_EQ(tasksOfScript(variable), 4);
  EXPECT_FALSE(find({{"SLURM_NTASKS", "some"}}));
  EXPECT_EQ(tasksOfScript(variable), 1);
  EXPECT_TRUE(find({{"SLURM_NTASKS", "4"}, {"SLURM_STEP_NUM_TASKS", "1"}}));
  EXPECT_EQ(tasksOfScript(variable), 1);
  EXPECT_EQ(find({{"SLURM_STEP_NUM_TASKS", "4"}})->size, 4);
  EXPECT_EQ(find({{"OMPI_COMM_WORLD_SIZE", "2"}})->launcher,
            "mpirun of Open MPI");
  EXPECT_EQ(find({{"PMI_SIZE", "16"}})->size, 16);
  EXPECT_EQ(find({{"PMI_SIZE", "16"}})->launcher, "mpirun of MPICH");
  EXPECT_FALSE(find({{"PMI_SIZE", "many"}}));
  // `srun --mpi=pmi2`, and launchers that have started a process of their own
  // on each of two machines by srun.
  EXPECT_EQ(find({{"SLURM_STEP_NUM_TASKS", "4"}, {"PMI_SIZE", "4"}})->launcher,
            "srun");
  auto hydra = find({{"SLURM_STEP_NUM_TASKS", "2"},
                     {"PMI_SIZE", "4"},
                     {"MPI_LOCALNRANKS", "2"}});
  EXPECT_EQ(hydra->launcher, "mpirun of MPICH");
  EXPECT_EQ(hydra->size, 4);
  auto open =
      find({{"SLURM_STEP_NUM_TASKS", "2"}, {"OMPI_COMM_WORLD_SIZE", "4"}});
  EXPECT_EQ(open->launcher, "mpirun of Open MPI");
  EXPECT_EQ(open->size, 4);
}

/// What comes of some steps of training.
struct Trained {
  std::vector<double> losses;
  std::vector<float> parameters;
  double validation = 0;
};

/// By `count` processes, or by one that knows of none where it is 0; each has
/// what they all have.
Trained train(int count, const ToyShape &shape, const std::string &recipeText) {
  std::vector<Trained> all(static_cast<size_t>(std::max(1, count)));
  auto work = [&](Processes *processes) {
    ToyModel toy(shape, sumsRecipe(shape, recipeText));
    CpuDevice device(1);
    Model model(toy.descriptor(), device);
    Recipe recipe = parseRecipe(toy.descriptor().recipe);
    TokenizerPtr tokenizer = makeCharsTokenizer("0123456789+=.#");
    std::optional<int32_t> ignored = ignoredTarget(recipe.train, *tokenizer);
    std::unique_ptr<Dataset> data =
        openDataset({recipe.data, *tokenizer, recipe.train.sequence, ignored});
    TrainOptions options;
    options.quiet = true;
    options.processes = processes;
    Trainer trainer(model, recipe, *data, *tokenizer, options);
    trainer.prepare();
    Trained &own = all[processes ? static_cast<size_t>(processes->rank()) : 0];
    for (int i = 0; i < 10; ++i)
      own.losses.push_back(trainer.step());
    // Random numbers are those of the micro-batch, whoever computes it.
    int64_t micros = shape.accumulate / std::max(1, count);
    PendingRead<int32_t> random = model.read<int32_t>(
        Model::input(model.function(TFM_TRAIN), TFM_IN_RNG));
    EXPECT_EQ(random.values()[3],
              micros * ((processes ? processes->rank() : 0) + 1) - 1);
    for (const tfm_parameter &parameter : model.parameters()) {
      std::span<const float> values = model.readValue(parameter).values();
      own.parameters.insert(own.parameters.end(), values.begin(), values.end());
    }
    own.validation = Evaluator(model, *data, ignored, processes)
                         .evaluate(Part::Validation, 7)
                         .loss;
  };
  if (count == 0)
    work(nullptr);
  else
    runProcesses(count, [&](Processes &processes) { work(&processes); });
  for (const Trained &each : all) {
    EXPECT_EQ(each.losses, all.front().losses);
    EXPECT_EQ(each.parameters, all.front().parameters);
    EXPECT_EQ(each.validation, all.front().validation);
  }
  return all.front();
}

// Whoever computes a micro-batch, it is the same one: only the order in which
// gradients are added up differs.
TEST(Trainer, ProcessesShareMicroBatches) {
  ToyShape shape;
  shape.accumulate = 6;
  shape.ignore = 13;
  const char *recipe = R"("steps": 60, "clip": 1.0)";
  Trained alone = train(0, shape, recipe);
  for (int count : {1, 2, 3, 6}) {
    Trained shared = train(count, shape, recipe);
    for (size_t i = 0; i < alone.losses.size(); ++i)
      EXPECT_NEAR(shared.losses[i], alone.losses[i], 1e-6);
    for (size_t i = 0; i < alone.parameters.size(); ++i)
      EXPECT_NEAR(shared.parameters[i], alone.parameters[i], 1e-5);
    EXPECT_EQ(shared.losses.front(), alone.losses.front());
    EXPECT_NEAR(shared.validation, alone.validation, 1e-6);
  }
}

// A tree over micro-batches is one over processes, too: its bits are the same
// for any number of them, also where pairs are of several micro-batches.
TEST(Trainer, TreesGiveTheSameBits) {
  for (int64_t accumulate : {8, 12}) {
    ToyShape shape;
    shape.accumulate = accumulate;
    shape.ignore = 13;
    std::string recipe = R"("steps": 60, "clip": 0.1, "sum": )";
    Trained tree = train(0, shape, recipe + "\"tree\"");
    for (int count : {1, 2, 4, 8}) {
      if (accumulate % count != 0)
        continue;
      Trained shared = train(count, shape, recipe + "\"tree\"");
      EXPECT_EQ(shared.losses, tree.losses);
      EXPECT_EQ(shared.parameters, tree.parameters);
      EXPECT_EQ(shared.validation, tree.validation);
    }
    // It is another order than that of one micro-batch after the other.
    Trained sequential = train(0, shape, recipe + "\"sequential\"");
    EXPECT_NE(sequential.parameters, tree.parameters);
    for (size_t i = 0; i < tree.parameters.size(); ++i)
      EXPECT_NEAR(sequential.parameters[i], tree.parameters[i], 1e-5);
  }
}

// Each process has the state of its own rows alone; a checkpoint has all of it,
// so that any number of processes goes on with the same bits.
TEST(Trainer, CheckpointsHaveAllState) {
  TemporaryFolder folder;
  ToyShape shape;
  shape.vocabulary = 40; // two rows, of which tokens reach the first alone
  shape.accumulate = 4;
  std::string recipe = R"("steps": 9, "clip": 0.1, "sum": "tree")";
  const std::atomic<bool> noInterrupt{false};
  auto go = [&](int count, int64_t steps, const std::string &out,
                const std::string &resume, double delay = 0) {
    std::vector<size_t> stateLeft(static_cast<size_t>(count));
    runProcesses(
        count,
        [&](Processes &processes) {
          ToyModel toy(shape, sumsRecipe(shape, recipe));
          CpuDevice device(1);
          Model model(toy.descriptor(), device);
          Recipe parsed = parseRecipe(toy.descriptor().recipe);
          TokenizerPtr tokenizer = makeCharsTokenizer("0123456789+=.#");
          std::unique_ptr<Dataset> data = openDataset(
              {parsed.data, *tokenizer, parsed.train.sequence, std::nullopt});
          TrainOptions options;
          options.quiet = true;
          options.processes = &processes;
          options.steps = steps;
          options.resume = resume;
          if (processes.isFirst())
            options.out = out;
          Trainer(model, parsed, *data, *tokenizer, options).run(noInterrupt);
          for (size_t row = 0; row < model.rowCount(); ++row)
            stateLeft[static_cast<size_t>(processes.rank())] +=
                std::ranges::any_of(
                    model.readRows(Model::Rows::SecondState, row, 1).values(),
                    [](float value) { return value != 0; });
        },
        /*timeout=*/60, delay);
    return stateLeft;
  };
  std::string whole = folder / "whole", parts = folder / "parts";
  EXPECT_EQ(go(1, 9, whole, ""), (std::vector<size_t>{2}));
  EXPECT_EQ(go(4, 3, parts, ""), (std::vector<size_t>{1, 0, 1, 0}));
  EXPECT_EQ(go(2, 6, parts, parts), (std::vector<size_t>{2, 0}));
  EXPECT_EQ(go(1, 9, parts, parts), (std::vector<size_t>{2}));
  // A step waits for the parameters of others, however late they are.
  std::string late = folder / "late";
  go(2, 9, late, "", /*delay=*/0.005);
  for (const char *name : {"/model.safetensors", "/optimizer.safetensors"})
    for (const std::string &run : {parts, late})
      EXPECT_EQ(readFile(run + name, "a checkpoint"),
                readFile(whole + name, "a checkpoint"));
}

} // namespace
} // namespace tfm::test
