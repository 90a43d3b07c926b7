//===- DeviceTest.cpp - a device with memory of its own -----------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/device/cpu_device.h"
#include "runtime/device/in_pieces.h"
#include "runtime/device/peak.h"
#include "runtime/model/memory_needed.h"
#include "runtime/model/model.h"
#include "runtime/support/error.h"
#include "runtime/support/memory.h"
#include "tests/unit/runtime/Outcome.h"
#include "tests/unit/runtime/TemporaryFolder.h"
#include "tests/unit/runtime/ToyModel.h"

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <gtest/gtest.h>

namespace tfm::test {
namespace {

/// What a device beside the host's memory may do at most: nothing that is asked
/// of it happens before somebody looks at values that were read. Memory for
/// values to be written begins as garbage, and values that were read become
/// garbage when who asked for them lets go.
class LateDevice final : public Device {
public:
  ~LateDevice() override { release(); }

  void allocate(size_t bytes, size_t alignment, size_t scratch) override {
    ASSERT_EQ(arena, nullptr);
    alignment = std::max<size_t>(alignment, 64);
    arena = static_cast<char *>(
        std::aligned_alloc(alignment, (bytes / alignment + 1) * alignment));
    std::memset(arena, 0, bytes);
    pool.reserveScratch(scratch);
  }
  void release() override {
    catchUp();
    reads.clear();
    writes.clear();
    pool.drain();
    std::free(arena);
    arena = nullptr;
  }
  using Device::run;
  void run(std::span<const tfm_function *const> functions) override {
    for (const tfm_function *function : functions)
      ask([this, function] { pool.run(function->run, arena); });
  }
  void zero(uint64_t offset, size_t bytes) override {
    ask([=, this] { std::memset(arena + offset, 0, bytes); });
  }
  void recordInto(tfm_event *events) override {
    ask([this, events] { pool.recordInto(events); });
  }
  void runOnHost(void (*work)(void *, tfm_thread *), void *context) override {
    pool.run(work, context);
  }
  int hostThreads() const override { return 1; }

  void wait() const override { catchUp(); }
  std::unique_ptr<Peaks> peaks(const std::vector<std::string_view> &,
                               size_t) override {
    return nullptr;
  }

  /// How often somebody waited for the device.
  mutable int waits = 0;

private:
  struct Read {
    std::vector<char> bytes;
    bool isOver = false;
  };

  void *beginWrite(uint64_t, size_t bytes) override {
    return writes.emplace_back(bytes, garbage).data();
  }
  void endWrite(void *from, uint64_t offset, size_t bytes) noexcept override {
    ask([=, this] { std::memcpy(arena + offset, from, bytes); });
  }
  HostBytes beginRead(uint64_t offset, size_t bytes) const override {
    Read &read = reads.emplace_back(Read{std::vector<char>(bytes, garbage)});
    steps.emplace_back([this, offset, &read] {
      if (!read.isOver)
        std::memcpy(read.bytes.data(), arena + offset, read.bytes.size());
    });
    return {read.bytes.data(), /*isPending=*/true};
  }
  void finishRead(const void *) const override {
    ++waits;
    catchUp();
  }
  void endRead(const void *bytes) const noexcept override {
    for (Read &read : reads)
      if (read.bytes.data() == bytes) {
        std::ranges::fill(read.bytes, garbage);
        read.isOver = true;
      }
  }

  void ask(std::function<void()> step) { steps.push_back(std::move(step)); }
  void catchUp() const {
    for (const std::function<void()> &step : steps)
      step();
    steps.clear();
  }

  static constexpr char garbage = -1; // NaN, and no token
  ThreadPool pool{2};
  char *arena = nullptr;
  mutable std::vector<std::function<void()>> steps;
  mutable std::deque<Read> reads;
  std::deque<std::vector<char>> writes;
};

// Whoever keeps to the contract computes the same bits, however late a device
// is: all of what is written is filled, what is read is looked at before the
// next write, and nothing reaches the arena beside the device.
TEST(Device, MayDoEverythingAsLateAsItIsLookedAt) {
  TemporaryFolder folder;
  ToyModel toy = toyOfOutcome();
  CpuDevice cpu(2);
  LateDevice late;
  Outcome expected = outcomeOn(toy.descriptor(), cpu, folder / "cpu");
  Outcome found = outcomeOn(toy.descriptor(), late, folder / "late");
  EXPECT_EQ(found.steps, expected.steps);
  EXPECT_EQ(found, expected);
  EXPECT_GT(late.waits, 0);
}

// What to build with less depends on what most of the memory is for.
TEST(Device, WithoutMemorySaysWhatForItIs) {
  ToyModel toy({}, sumsRecipe({}, "", 50));
  tfm_model model = toy.descriptor();
  tfm_variant variant = model.variants[0];
  model.variants = &variant;
  variant.copies = variant.sums = {};
  variant.arena_bytes = uint64_t{1} << 60; // no system maps so much
  auto said = [&](uint64_t parameters, uint64_t gradients, uint64_t activations,
                  uint64_t cache, bool trains = false) {
    variant.parameters.bytes = parameters;
    variant.gradients.bytes = gradients;
    variant.optimizer.bytes = 2 * gradients;
    variant.activations.bytes = activations;
    variant.cache_bytes = cache;
    CpuDevice device(1);
    std::string message =
        messageOf<InputError>([&] { Model(model, device, trains); });
    std::string begin =
        "Toy needs 1048576.0 TiB of memory, more than there is: ";
    EXPECT_TRUE(message.starts_with(begin)) << message;
    return message.substr(std::min(message.size(), begin.size()));
  };
  constexpr uint64_t much = uint64_t{1} << 58;
  EXPECT_EQ(said(much, much, 1, 1, /*trains=*/true),
            "parameters, gradients and the optimizer's state alone take "
            "1048576.0 TiB: build a smaller model");
  EXPECT_EQ(said(100, 100, 401, 10, /*trains=*/true),
            "most of what may be less is activations: build it with a smaller "
            "train.batch (now 4; a larger train.accumulate, now 1, makes up "
            "for it) or train.sequence (now 9), or with train.precision = "
            "bf16");
  EXPECT_EQ(said(100, 100, 10, 401, /*trains=*/true),
            "most of what may be less is caches of the samples that it "
            "generates: build it with a shorter context (now 0), or with "
            "generate.cache = int8");
  // Without its training it has the same arena, of which a build may have less.
  EXPECT_EQ(said(100, 100, 401, 10),
            "some of it is for training alone: a build without the `train` "
            "block takes less");
  for (uint64_t gradients : {uint64_t{0}, uint64_t{100}})
    EXPECT_EQ(said(much, gradients, 99, 10),
              "its weights alone take 262144.0 TiB: build a smaller model, or "
              "with fewer bits (generate.weights, now f32)");
  EXPECT_EQ(said(100, 0, 10, 101),
            "most of what may be less is what generation keeps of its texts: "
            "build it with a shorter context (now 0), or with generate.cache "
            "= int8");
  EXPECT_EQ(said(102, 0, 10, 101),
            "most of what may be less is what generation keeps of its texts: "
            "build it with a shorter context (now 0), or with generate.cache "
            "= int8, or with fewer bits (generate.weights, now f32)");
  EXPECT_EQ(said(100, 0, 101, 10),
            "most of what may be less is what generation computes of a whole "
            "context: build it with a shorter context");
}

// Of the tokens of a step more than of its activations, and the other way
// round.
TEST(Device, WhatAStepTakesIsAskedForFirst) {
  ToyModel toy({}, sumsRecipe({}, "", 50));
  tfm_model model = toy.descriptor();
  tfm_variant variant = model.variants[0];
  model.variants = &variant;
  Recipe recipe;
  recipe.train.batch = 4;
  recipe.train.sequence = 8;
  recipe.train.precision = "bf16";
  auto said = [&] {
    return messageOf<InputError>([&] { requireTrainingMemory(model, recipe); });
  };
  variant.activations.bytes = variant.arena_bytes = uint64_t{1} << 60;
  EXPECT_TRUE(said().ends_with(
      ": build it with a smaller train.batch (now 4; a larger "
      "train.accumulate, now 1, makes up for it) or train.sequence (now 8)"))
      << said();
  variant.activations.bytes = variant.arena_bytes = 1 << 20;
  recipe.train.accumulate = int64_t{1} << 50;
  EXPECT_TRUE(said().ends_with(": build it with a smaller train.accumulate "
                               "(now 1125899906842624)"))
      << said();
}

// Of processes each has room for all of it, but for the sums that never wait.
TEST(Device, WhatTrainingTakesIsAskedForFirst) {
  ToyModel toy({}, sumsRecipe({}, "", 50));
  tfm_model model = toy.descriptor();
  tfm_variant variant = model.variants[0];
  model.variants = &variant;
  Recipe recipe;
  recipe.train.accumulate = 4;
  variant.arena_bytes = uint64_t{1} << 60;
  auto said = [&](int64_t processes) {
    return messageOf<InputError>(
        [&] { requireTrainingMemory(model, recipe, processes); });
  };
  EXPECT_NE(
      said(1).find("training Toy takes 1048576.0 TiB of memory, 1048576.0 "
                   "TiB of them for parameters, gradients and the "
                   "optimizer's state alone, but there is"),
      std::string::npos)
      << said(1);
  EXPECT_NE(said(2).find("alone (each process has all of them while it reads a "
                         "checkpoint, and the first while it writes one), but"),
            std::string::npos)
      << said(2);
  // Two sums that wait for others; of two processes each has one of them.
  variant.sums.bytes = uint64_t{1} << 60;
  EXPECT_NE(said(2).find("takes 524288.0 TiB of memory"), std::string::npos)
      << said(2);
  variant.arena_bytes = variant.sums.bytes + (1 << 20);
  EXPECT_NE(said(2), "");
  requireTrainingMemory(model, recipe, 4);
}

// Processes of one machine have its memory together: each holds a share of what
// updates need, and the first alone the caches of samples.
TEST(Device, WhatProcessesOfAMachineTakeTogether) {
  ToyModel toy({}, sumsRecipe({}, "", 50));
  tfm_model model = toy.descriptor();
  tfm_variant variant = model.variants[0];
  model.variants = &variant;
  Recipe recipe;
  recipe.train.accumulate = 4;
  const uint64_t limit = memoryLimit(), part = limit / 8;
  variant.parameters.bytes = part;
  variant.optimizer.bytes = 2 * part;
  variant.cache_bytes = part;
  variant.arena_bytes = 5 * part;
  auto said = [&](bool trains, int64_t processes, int64_t together) {
    return messageOf<InputError>([&] {
      requireMemoryTogether(model, recipe, trains, processes, together);
    });
  };
  // 3 parts each and the caches; of four processes 2.5, of which two are here.
  EXPECT_EQ(said(true, 2, 2), "");
  EXPECT_EQ(said(true, 4, 2), "");
  std::string three = said(true, 4, 3);
  EXPECT_TRUE(three.starts_with(
      "the 3 processes on this machine take " + byteText(part * 17 / 2) +
      " of memory together, " + byteText(part * 5 / 2) +
      " each, but there is " + byteText(limit) +
      ": start fewer of them on it, or build Toy with a smaller train.batch"))
      << three;
  // A build of bf16 has shares of masters, too.
  variant.copies.bytes = part / 2;
  EXPECT_EQ(said(true, 4, 3), "");
  variant.copies.bytes = 0;
  EXPECT_EQ(said(false, 4, 4), "");
  std::string five = said(false, 5, 5);
  EXPECT_NE(five.find("build Toy with a shorter context"), std::string::npos)
      << five;
}

// What a command is going to touch is held against the memory that there is, as
// an arena costs nothing before; the advice names what a build could have less
// of.
TEST(Device, WhatGenerationTakesIsAskedForFirst) {
  ToyModel toy({}, sumsRecipe({}, "", 50));
  tfm_model model = toy.descriptor();
  tfm_variant variant = model.variants[0];
  model.variants = &variant;
  variant.parameters.bytes = 1 << 20;
  variant.copies.bytes = 1 << 20;
  variant.cache_bytes = uint64_t{1} << 60;
  Recipe recipe;
  recipe.generate.context = 1024;
  auto said = [&] {
    return messageOf<InputError>(
        [&] { requireGenerationMemory(model, recipe); });
  };
  std::string there = byteText(memoryLimit());
  EXPECT_EQ(said(),
            "generating with Toy takes 1048576.0 TiB of memory (weights 2.0 "
            "MiB, caches 1048576.0 TiB), but there is " +
                there +
                ": build it with a shorter context (now 1024), or "
                "with generate.cache = int8");
  recipe.generate.batch = 4000;
  recipe.generate.cache = "int8";
  std::string ending = ": build it with a smaller generate.batch (now 4000) or "
                       "a shorter context (now 1024)";
  EXPECT_TRUE(said().ends_with(there + ending)) << said();
  // Fewer texts do not help where the weights alone are too much.
  variant.parameters.bytes = uint64_t{1} << 60;
  EXPECT_TRUE(said().ends_with("build a smaller model, or with fewer bits "
                               "(generate.weights, now f32)"))
      << said();
  variant.parameters.bytes = 1 << 20;
  variant.cache_bytes = 1 << 20;
  variant.arena_bytes = uint64_t{1} << 60;
  EXPECT_EQ(said(), "");
  EXPECT_NE(messageOf<InputError>([&] { requireArena(model); }), "");
}

// The form of the processors copies nothing: what is read, and what is to be
// written, is the arena itself.
TEST(Device, OfTheProcessorsIsAView) {
  CpuDevice device(1);
  device.allocate(4096, 256, 0);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(device.arenaBytes()) % 256, 0u);
  {
    PendingWrite<float> write = device.write<float>(64, 8);
    EXPECT_EQ(reinterpret_cast<char *>(write.values().data()),
              device.arenaBytes() + 64);
    std::ranges::fill(write.values(), 2.0f);
  }
  std::span<const float> read = device.read<float>(64, 8).values();
  EXPECT_EQ(reinterpret_cast<const char *>(read.data()),
            device.arenaBytes() + 64);
  EXPECT_EQ(read[7], 2.0f);
  device.zero(64, 4);
  EXPECT_EQ(read[0], 0.0f);
  EXPECT_EQ(read[1], 2.0f);
  // Two models would write over each other.
  EXPECT_THROW(device.allocate(64, 64, 0), std::logic_error);
  device.release();
  device.allocate(64, 64, 0);
  EXPECT_EQ(device.read<float>(0, 1).values()[0], 0.0f);
}

// Every piece once, and of several errors that of the first.
TEST(InPieces, AreSharedByAllThreads) {
  for (int threads : {1, 2, 5}) {
    CpuDevice device(threads);
    for (int round = 0; round < 20; ++round) {
      std::vector<std::atomic<int>> done(static_cast<size_t>(threads));
      inPieces(device, [&](size_t piece, size_t pieces) {
        EXPECT_EQ(pieces, done.size());
        ++done[piece];
      });
      for (const std::atomic<int> &times : done)
        EXPECT_EQ(times, 1);
    }
    EXPECT_EQ(messageOf<InputError>([&] {
                inPieces(device, [](size_t piece, size_t pieces) {
                  if (pieces < 3 || piece > 1)
                    throw InputError(std::to_string(piece));
                });
              }),
              threads < 3 ? "0" : "2");
  }
}

} // namespace
} // namespace tfm::test
