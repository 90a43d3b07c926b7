//===- PlannerTest.cpp - the arena, checked by simulation -----------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Runs schedules without computing anything: every launch, layer by layer,
// marks the bytes that it writes with their buffer, and may read only bytes
// that the buffer itself wrote last. What is live at once follows from the same
// writes and reads. It uses the views of the launches and the offsets of the
// buffers, not the lifetimes that the planner went by.
//
//===----------------------------------------------------------------------===//

#include "tests/unit/codegen/ShippedModel.h"
#include "tests/unit/oracle/Gradients.h"
#include "tests/unit/transforms/RandomProgram.h"

#include "gtest/gtest.h"

#include <map>
#include <set>

using namespace tfm;

namespace {

constexpr int64_t kLine = 64;

class Simulator {
public:
  explicit Simulator(const Schedule &schedule)
      : schedule(schedule),
        activations(schedule.arenaBytes - schedule.activationBytes),
        lines(llvm::divideCeil(schedule.activationBytes, kLine)) {}

  void run(const Program &program) {
    std::fill(lines.begin(), lines.end(), Line());
    liveLines.clear();
    // Inputs are there at least until the first launch is over.
    ++launches;
    for (const Port &port : program.inputs)
      write(port.view);
    --launches;
    runSteps(program.steps);
    ++launches;
    for (const Port &port : program.outputs)
      expectOwned(port.view);
    // Any kernel may read the counter of dropout.
    for (const Port &port : program.inputs)
      if (port.name == "rng")
        expectOwned(port.view);
    for (Line &line : lines)
      endLife(line, launches + 1);
    addEnded();
  }

  /// The most bytes, in whole lines, of the activations that held at one time
  /// something that was read afterwards.
  int64_t maxLive() const {
    std::map<int64_t, int64_t> total;
    for (auto &[buffer, changes] : liveLines) {
      int64_t size = llvm::alignTo(schedule.buffers[buffer].bytes, kLine),
              lines = 0;
      for (auto [time, change] : changes) {
        bool before = lines > 0;
        lines += change;
        total[time] += size * ((lines > 0) - before);
      }
    }
    int64_t live = 0, most = 0;
    for (auto [time, change] : total)
      most = std::max(most, live += change);
    return most;
  }

  int64_t launches = 0;
  int64_t problems = 0;

private:
  /// A line of the activations: the buffer that wrote it last, the launch that
  /// did, and the last one that read it since.
  struct Line {
    int buffer = -1;
    int64_t written = -1, read = -1;
  };

  /// A loop that runs: its first launch, that of the present turn, and the
  /// buffers that brought something into a turn. Those are live all through it.
  struct Loop {
    int64_t begin, turn = 0;
    std::set<int> kept = {};
  };

  /// What `line` held is of no use any more, at the latest from launch `end`.
  void endLife(const Line &line, int64_t end) {
    if (line.buffer < 0)
      return;
    end = std::min(std::max(line.read, line.written) + 1, end);
    // The lines of a view mostly have the same life.
    if (line.buffer != ended.buffer || line.written != ended.written ||
        end != ended.end) {
      addEnded();
      ended = {line.buffer, line.written, end, 0};
    }
    ++ended.count;
  }

  void addEnded() {
    liveLines[ended.buffer][ended.written] += ended.count;
    liveLines[ended.buffer][ended.end] -= ended.count;
    ended.count = 0;
  }

  void write(const View &view) {
    forEachLine(view, [&](Line &line) {
      // A line may be written in several parts before it is read.
      if (line.buffer == view.buffer && line.read < 0)
        return;
      endLife(line, launches);
      line = {view.buffer, launches};
    });
  }

  void runSteps(const std::vector<tfm::Step> &steps) {
    for (const tfm::Step &step : steps) {
      if (!step.isLoop()) {
        runLaunch(*step.launch);
        continue;
      }
      loops.push_back({launches + 1});
      for (int64_t i = 0; i < step.count; ++i) {
        loops.back().turn = launches + 1;
        indices.push_back(step.reverse ? step.count - 1 - i : i);
        runSteps(step.body);
        indices.pop_back();
      }
      for (int buffer : loops.back().kept) {
        ++liveLines[buffer][loops.back().begin];
        --liveLines[buffer][launches + 1];
      }
      loops.pop_back();
    }
  }

  void runLaunch(const Launch &launch) {
    ++launches;
    for (auto &[value, view] : launch.reads)
      expectOwned(view);
    // Threads read and write at the same time.
    for (auto &[value, written] : launch.writes) {
      for (auto &[other, read] : launch.reads)
        expectApart(written.buffer, read.buffer);
      for (auto &[other, also] : launch.writes)
        expectApart(written.buffer, also.buffer);
      write(written);
    }
  }

  void expectApart(int a, int b) {
    const Buffer &x = schedule.buffers[a], &y = schedule.buffers[b];
    if (a != b && x.offset < y.offset + y.bytes &&
        y.offset < x.offset + x.bytes)
      report(x.name + " is written while " + y.name +
             " in the same bytes is used");
  }

  void expectOwned(const View &view) {
    int64_t oldest = INT64_MAX;
    forEachLine(view, [&](Line &line) {
      line.read = launches;
      oldest = std::min(oldest, line.written);
      if (line.buffer != view.buffer)
        report(
            schedule.buffers[view.buffer].name + " is read where " +
            (line.buffer < 0 ? "nothing" : schedule.buffers[line.buffer].name) +
            " was written last");
    });
    for (Loop &loop : loops)
      if (oldest < loop.turn)
        loop.kept.insert(view.buffer);
  }

  void report(const std::string &message) {
    if (++problems <= 5)
      ADD_FAILURE() << message;
  }

  /// Visits the lines of an activation that the view touches at the loops'
  /// present indices. What is no activation shares its bytes with nothing, so
  /// that views of it need only stay within it.
  template <typename Visit> void forEachLine(const View &view, Visit visit) {
    const Buffer &buffer = schedule.buffers[view.buffer];
    int64_t size = elementBytes(view.element), offset = view.offset;
    for (auto [depth, stride] : llvm::enumerate(view.loopStrides)) {
      if (stride == 0)
        continue;
      ASSERT_LT(depth, indices.size());
      offset += stride * indices[depth];
    }
    int64_t farthest = offset;
    for (auto [count, stride] : llvm::zip_equal(view.shape, view.strides))
      farthest += (count - 1) * stride;
    if (offset < 0 || (farthest + 1) * size > buffer.bytes)
      return report("a view goes beyond " + buffer.name);
    if (buffer.kind != BufferKind::Activation)
      return;
    int64_t last = -1, begin = buffer.offset - activations;
    auto row = [&](int64_t from, int64_t count, int64_t stride) {
      for (int64_t i = 0; i < (stride == 1 ? 1 : count); ++i) {
        int64_t first = begin + (from + i * stride) * size;
        int64_t end = first + size * (stride == 1 ? count : 1);
        for (int64_t line = first / kLine; line <= (end - 1) / kLine; ++line)
          if (line != last)
            visit(lines[last = line]);
      }
    };
    walk(view, 0, offset, row);
  }

  template <typename Row>
  void walk(const View &view, size_t axis, int64_t offset, Row &row) {
    if (view.isContiguous())
      return row(offset, view.numElements(), 1);
    if (axis == view.shape.size())
      return row(offset, 1, 1);
    if (axis + 1 == view.shape.size())
      return row(offset, view.strides[axis] == 0 ? 1 : view.shape[axis],
                 view.strides[axis] == 0 ? 1 : view.strides[axis]);
    // Repeated elements are the same bytes.
    int64_t count = view.strides[axis] == 0 ? 1 : view.shape[axis];
    for (int64_t i = 0; i < count; ++i)
      walk(view, axis + 1, offset + i * view.strides[axis], row);
  }

  const Schedule &schedule;
  /// Where the activations begin.
  int64_t activations;
  std::vector<Line> lines;
  std::vector<int64_t> indices;
  std::vector<Loop> loops;
  /// So many lines of `buffer` that lived in the same launches.
  struct {
    int buffer = 0;
    int64_t written = 0, end = 0, count = 0;
  } ended;
  /// By buffer and launch: how many more of its lines hold from there on what
  /// is going to be read.
  std::map<int, std::map<int64_t, int64_t>> liveLines;
};

/// Buffers that outlive a program overlap nothing at all.
void expectPermanentBuffersApart(const Schedule &schedule) {
  std::vector<std::pair<int64_t, int64_t>> taken;
  int64_t activations = schedule.arenaBytes - schedule.activationBytes;
  for (const Buffer &buffer : schedule.buffers) {
    if (buffer.kind == BufferKind::Activation) {
      if (buffer.end >= 0) {
        EXPECT_GE(buffer.offset, activations) << buffer.name;
        EXPECT_LE(buffer.offset + buffer.bytes, schedule.arenaBytes)
            << buffer.name;
      }
      continue;
    }
    EXPECT_EQ(buffer.offset % kLine, 0) << buffer.name;
    taken.push_back({buffer.offset, buffer.offset + buffer.bytes});
  }
  llvm::sort(taken);
  for (size_t i = 1; i < taken.size(); ++i)
    EXPECT_LE(taken[i - 1].second, taken[i].first);
  if (!taken.empty()) {
    EXPECT_LE(taken.back().second, activations);
  }
}

/// Expects that nothing is overwritten which is still to be read. Returns the
/// most bytes of activations that are live at once.
int64_t simulate(const Schedule &schedule) {
  expectPermanentBuffersApart(schedule);
  Simulator simulator(schedule);
  int64_t maxLive = 0;
  for (const Program &program : schedule.programs) {
    SCOPED_TRACE(program.name);
    simulator.run(program);
    maxLive = std::max(maxLive, simulator.maxLive());
  }
  EXPECT_GT(simulator.launches, 0);
  EXPECT_EQ(simulator.problems, 0);
  EXPECT_GE(schedule.lowerBound, maxLive);
  return maxLive;
}

/// The lower bound is what is live, and the plan meets it within a hundredth.
void expectSound(const Schedule &schedule) {
  int64_t maxLive = simulate(schedule);
  EXPECT_EQ(schedule.lowerBound, maxLive);
  EXPECT_GE(schedule.activationBytes, maxLive);
  EXPECT_LE(static_cast<double>(schedule.activationBytes),
            1.01 * static_cast<double>(maxLive));
}

void expectSound(const std::string &name,
                 const ShippedModel::Defines &defines = {}) {
  ShippedModel model(name, defines);
  ASSERT_TRUE(model.module);
  expectSound(scheduleModel(*model.module));
}

class ShippedPlan : public testing::TestWithParam<std::string> {};
TEST_P(ShippedPlan, IsSound) { expectSound(GetParam()); }
INSTANTIATE_TEST_SUITE_P(Models, ShippedPlan,
                         testing::ValuesIn(shippedModels()),
                         [](const auto &info) { return testName(info.param); });

TEST(Planner, ShakespeareAccumulated) {
  expectSound("shakespeare.tfm", {{"train.accumulate", "2"}, {"drop", "0.1"}});
}
TEST(Planner, ShakespeareLarge) {
  expectSound("shakespeare.tfm", {{"layers", "6"},
                                  {"heads", "6"},
                                  {"width", "384"},
                                  {"context", "256"},
                                  {"drop", "0.2"},
                                  {"train.sequence", "256"},
                                  {"train.batch", "64"}});
}
// GPT-2 small as it is trained in the benchmarks, four sequences of 64 at a
// time.
TEST(Planner, Gpt2) {
  expectSound("shakespeare.tfm", {{"layers", "12"},
                                  {"heads", "12"},
                                  {"width", "768"},
                                  {"context", "1024"},
                                  {"vocab", "50257"},
                                  {"drop", "0.1"},
                                  {"train.batch", "4"}});
}
/// Expects of every launch of a loop that it says for which module it is.
void expectModules(const std::vector<tfm::Step> &steps, bool inLoop,
                   std::set<std::string> &modules) {
  for (const tfm::Step &step : steps) {
    if (step.isLoop()) {
      expectModules(step.body, true, modules);
    } else if (inLoop) {
      EXPECT_NE(pathOf(*step.launch), "") << describe(*step.launch);
      modules.insert(pathOf(*step.launch));
    }
  }
}

// Forward and backward: a derivative is for the module that it is of.
TEST(Launches, NameTheirModules) {
  ShippedModel model("shakespeare.tfm");
  ASSERT_TRUE(model.module);
  Schedule schedule = scheduleModel(*model.module);
  for (const Program &program : schedule.programs) {
    if (program.name != "train")
      continue;
    ASSERT_FALSE(program.steps.empty());
    for (int part = 0; part < 2; ++part) {
      // The first loop goes forward, the last one back.
      auto isLoop = [](const tfm::Step &step) { return step.isLoop(); };
      auto found = part ? std::find_if(program.steps.rbegin(),
                                       program.steps.rend(), isLoop)
                                  .base() -
                              1
                        : std::find_if(program.steps.begin(),
                                       program.steps.end(), isLoop);
      std::set<std::string> modules;
      expectModules(found->body, true, modules);
      for (const char *module : {"h.*.attn", "h.*.attn.c_attn", "h.*.mlp.c_fc",
                                 "h.*.mlp.c_proj", "h.*.ln_1"})
        EXPECT_EQ(modules.count(module), 1u) << module << " in loop " << part;
    }
  }
}

TEST(Planner, RandomPrograms) {
  for (unsigned seed = 0; seed < 60; ++seed) {
    std::string text =
        randomProgram(3000 + seed, 3 + static_cast<int>(seed) % 5, 33);
    SCOPED_TRACE(text);
    oracle::TestModule module(text);
    ASSERT_TRUE(module.function("f"));
    oracle::addVJP(module.function("f"), "g");
    ASSERT_TRUE(mlir::succeeded(prepare(*module.module)));
    Schedule schedule = scheduleModel(*module.module);
    EXPECT_GT(simulate(schedule), 0);
  }
}

} // namespace
