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

#include "compiler/schedule/Launches.h"
#include "compiler/schedule/View.h"
#include "tests/unit/codegen/ShippedModel.h"
#include "tests/unit/oracle/Gradients.h"
#include "tests/unit/transforms/RandomProgram.h"

#include "gtest/gtest.h"

#include <map>
#include <set>

using namespace tfm;
using mlir::succeeded;

namespace {

constexpr int64_t kLine = 64;

int64_t total(mlir::ModuleOp schedule, llvm::StringRef name) {
  return schedule->getAttrOfType<mlir::IntegerAttr>(name).getInt();
}

class Simulator {
public:
  explicit Simulator(mlir::ModuleOp schedule)
      : activations(total(schedule, "sched.arena") -
                    total(schedule, "sched.activations")),
        lines(llvm::divideCeil(total(schedule, "sched.activations"), kLine)) {}

  void run(sched::ProgramOp program) {
    std::fill(lines.begin(), lines.end(), Line());
    liveLines.clear();
    // Inputs are there at least until the first launch is over.
    ++launches;
    for (auto port : program.getBlock()->getOps<sched::InputOp>())
      write(port.getView());
    --launches;
    runSteps(*program.getBlock());
    ++launches;
    for (auto port : program.getBlock()->getOps<sched::OutputOp>())
      expectOwned(port.getView());
    for (Line &line : lines)
      endLife(line, launches + 1);
    addEnded();
  }

  /// The most bytes, in whole lines, of the activations that held at one time
  /// something that was read afterwards.
  int64_t maxLive() const {
    std::map<int64_t, int64_t> total;
    for (auto &[key, changes] : liveLines) {
      sched::BufferOp buffer = key;
      int64_t size = llvm::alignTo(buffer.getBytes(), kLine), lines = 0;
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
    sched::BufferOp buffer;
    int64_t written = -1, read = -1;
  };

  /// A loop that runs: its first launch, that of the present turn, and the
  /// buffers that brought something into a turn. Those are live all through it.
  struct Loop {
    int64_t begin, turn = 0;
    std::vector<sched::BufferOp> kept = {};
  };

  /// What `line` held is of no use any more, at the latest from launch `end`.
  void endLife(const Line &line, int64_t end) {
    if (!line.buffer)
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
    if (!ended.buffer)
      return;
    liveLines[ended.buffer][ended.written] += ended.count;
    liveLines[ended.buffer][ended.end] -= ended.count;
    ended.count = 0;
  }

  static sched::BufferOp bufferOf(mlir::Value view) {
    return view.getDefiningOp<sched::ViewOp>()
        .getBuffer()
        .getDefiningOp<sched::BufferOp>();
  }

  void write(mlir::Value view) {
    forEachLine(view, [&](Line &line) {
      // A line may be written in several parts before it is read.
      if (line.buffer == bufferOf(view) && line.read < 0)
        return;
      endLife(line, launches);
      line = {bufferOf(view), launches};
    });
  }

  void runSteps(mlir::Block &block) {
    for (mlir::Operation &op : block) {
      auto loop = llvm::dyn_cast<sched::LoopOp>(op);
      if (!loop) {
        if (sched::isKernelStep(op))
          runStep(&op);
        continue;
      }
      loops.push_back({launches + 1});
      auto count = static_cast<int64_t>(loop.getCount());
      for (int64_t i = 0; i < count; ++i) {
        loops.back().turn = launches + 1;
        layers[loop.getLayer()] = loop.getReverse() ? count - 1 - i : i;
        runSteps(*loop.getBlock());
      }
      layers.erase(loop.getLayer());
      for (sched::BufferOp buffer : loops.back().kept) {
        ++liveLines[buffer][loops.back().begin];
        --liveLines[buffer][launches + 1];
      }
      loops.pop_back();
    }
  }

  void runStep(mlir::Operation *step) {
    ++launches;
    mlir::ValueRange reads, writes;
    mlir::Value counter;
    if (auto launch = llvm::dyn_cast<sched::LaunchOp>(step)) {
      reads = launch.getReads();
      writes = launch.getWrites();
      counter = launch.getRng();
    } else {
      writes = step->getOperands().take_back(1);
      reads = step->getOperands().drop_back(1);
    }
    for (mlir::Value view : reads)
      expectOwned(view);
    if (counter)
      expectOwned(counter);
    // Threads read and write at the same time.
    for (mlir::Value written : writes) {
      for (mlir::Value read : reads)
        expectApart(bufferOf(written), bufferOf(read));
      for (mlir::Value also : writes)
        expectApart(bufferOf(written), bufferOf(also));
      write(written);
    }
  }

  void expectApart(sched::BufferOp a, sched::BufferOp b) {
    auto begin = [](sched::BufferOp buffer) {
      return static_cast<int64_t>(*buffer.getOffset());
    };
    if (a != b && begin(a) < begin(b) + b.getBytes() &&
        begin(b) < begin(a) + a.getBytes())
      report((a.getName() + " is written while " + b.getName() +
              " in the same bytes is used")
                 .str());
  }

  void expectOwned(mlir::Value view) {
    int64_t oldest = INT64_MAX;
    sched::BufferOp buffer = bufferOf(view);
    forEachLine(view, [&](Line &line) {
      line.read = launches;
      oldest = std::min(oldest, line.written);
      if (line.buffer != buffer)
        report((buffer.getName() + " is read where " +
                (line.buffer ? line.buffer.getName() : "nothing") +
                " was written last")
                   .str());
    });
    for (Loop &loop : loops)
      if (oldest < loop.turn && !llvm::is_contained(loop.kept, buffer))
        loop.kept.push_back(buffer);
  }

  void report(const std::string &message) {
    if (++problems <= 5)
      ADD_FAILURE() << message;
  }

  /// Visits the lines of an activation that the view touches at the loops'
  /// present indices. What is no activation shares its bytes with nothing, so
  /// that views of it need only stay within it.
  template <typename Visit> void forEachLine(mlir::Value value, Visit visit) {
    auto op = value.getDefiningOp<sched::ViewOp>();
    sched::BufferOp buffer = bufferOf(value);
    View view = viewOf(op.getView().getType());
    int64_t size = elementBytes(view.element);
    auto first = static_cast<int64_t>(op.getOffset());
    for (auto [layer, step] : llvm::zip_equal(op.getLayers(), op.getSteps())) {
      ASSERT_TRUE(layers.contains(layer));
      first += step * layers[layer];
    }
    ASSERT_EQ(first % size, 0);
    int64_t offset = first / size, farthest = offset;
    for (auto [count, stride] : llvm::zip_equal(view.shape, view.strides))
      farthest += (count - 1) * stride;
    if (offset < 0 || (farthest + 1) * size > buffer.getBytes())
      return report(("a view goes beyond " + buffer.getName()).str());
    if (buffer.getKind() != sched::BufferKind::Activation)
      return;
    int64_t last = -1, begin = *buffer.getOffset() - activations;
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

  /// Where the activations begin.
  int64_t activations;
  std::vector<Line> lines;
  /// The layer that each running loop is at.
  llvm::DenseMap<mlir::Value, int64_t> layers;
  std::vector<Loop> loops;
  /// So many lines of `buffer` that lived in the same launches.
  struct {
    sched::BufferOp buffer;
    int64_t written = 0, end = 0, count = 0;
  } ended;
  /// By buffer and launch: how many more of its lines hold from there on what
  /// is going to be read.
  llvm::MapVector<sched::BufferOp, std::map<int64_t, int64_t>> liveLines;
};

/// Buffers that outlive a program overlap nothing at all.
void expectPermanentBuffersApart(mlir::ModuleOp schedule) {
  std::vector<std::pair<int64_t, int64_t>> taken;
  int64_t arena = total(schedule, "sched.arena");
  int64_t activations = arena - total(schedule, "sched.activations");
  schedule.walk([&](sched::BufferOp buffer) {
    if (!buffer.getOffset()) {
      EXPECT_FALSE(buffer.getLive()) << buffer.getName().str();
      return;
    }
    auto begin = static_cast<int64_t>(*buffer.getOffset());
    EXPECT_EQ(begin % kLine, 0) << buffer.getName().str();
    if (buffer.getKind() == sched::BufferKind::Activation) {
      EXPECT_GE(begin, activations) << buffer.getName().str();
      EXPECT_LE(begin + buffer.getBytes(), arena) << buffer.getName().str();
    } else {
      taken.push_back({begin, begin + buffer.getBytes()});
    }
  });
  llvm::sort(taken);
  for (size_t i = 1; i < taken.size(); ++i)
    EXPECT_LE(taken[i - 1].second, taken[i].first);
  if (!taken.empty()) {
    EXPECT_LE(taken.back().second, activations);
  }
}

/// What goes into the update may be written before `train` runs, and what that
/// gives be read after both: neither overwrites what is the other's. Returns
/// the bytes of these.
int64_t expectStepApart(mlir::ModuleOp schedule) {
  auto train = schedule.lookupSymbol<sched::ProgramOp>("train"),
       update = schedule.lookupSymbol<sched::ProgramOp>("update");
  if (!train || !update)
    return 0;
  auto activationsOf = [](auto ops) {
    llvm::SetVector<sched::BufferOp> found;
    for (auto op : ops) {
      auto view = op.getView().template getDefiningOp<sched::ViewOp>();
      auto buffer = view.getBuffer().template getDefiningOp<sched::BufferOp>();
      if (buffer.getKind() == sched::BufferKind::Activation)
        found.insert(buffer);
    }
    return found;
  };
  int64_t bytes = 0;
  auto expectApart = [&](const llvm::SetVector<sched::BufferOp> &handed,
                         sched::ProgramOp other) {
    for (sched::BufferOp one : handed) {
      bytes += llvm::alignTo(one.getBytes(), kLine);
      auto begin = static_cast<int64_t>(*one.getOffset());
      other.walk([&](sched::BufferOp two) {
        if (!two.getOffset())
          return;
        auto from = static_cast<int64_t>(*two.getOffset());
        EXPECT_TRUE(from + two.getBytes() <= begin ||
                    begin + one.getBytes() <= from)
            << one.getName().str() << " and " << two.getName().str();
      });
    }
  };
  auto given = activationsOf(update.getBlock()->getOps<sched::InputOp>()),
       results = activationsOf(train.getBlock()->getOps<sched::OutputOp>());
  EXPECT_FALSE(given.empty());
  EXPECT_FALSE(results.empty());
  expectApart(given, train);
  expectApart(results, update);
  return bytes;
}

/// Expects that nothing is overwritten which is still to be read. Returns the
/// most bytes of activations that are live at once.
int64_t simulate(mlir::ModuleOp schedule) {
  expectPermanentBuffersApart(schedule);
  Simulator simulator(schedule);
  int64_t maxLive = 0;
  for (auto program : schedule.getOps<sched::ProgramOp>()) {
    SCOPED_TRACE(program.getSymName().str());
    simulator.run(program);
    maxLive = std::max(maxLive, simulator.maxLive());
  }
  EXPECT_GT(simulator.launches, 0);
  EXPECT_EQ(simulator.problems, 0);
  EXPECT_GE(total(schedule, "sched.lower_bound"), maxLive);
  return maxLive;
}

/// The lower bound is what is live, with what a step hands over, and the plan
/// meets it within a hundredth.
void expectSound(mlir::ModuleOp schedule) {
  int64_t maxLive = simulate(schedule), handed = expectStepApart(schedule);
  int64_t activations = total(schedule, "sched.activations");
  EXPECT_GE(total(schedule, "sched.lower_bound"), maxLive);
  EXPECT_LE(total(schedule, "sched.lower_bound"), maxLive + handed);
  EXPECT_GE(activations, maxLive);
  EXPECT_LE(static_cast<double>(activations),
            1.01 * static_cast<double>(maxLive));
}

void expectSound(const std::string &name,
                 const ShippedModel::Defines &defines = {}) {
  ShippedModel model(name, defines);
  ASSERT_TRUE(model.module);
  ASSERT_TRUE(succeeded(scheduleModel(*model.module, nativeTarget())));
  expectSound(*model.module);
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
// Forward and backward: a derivative is for the module that it is of.
TEST(Launches, NameTheirModules) {
  ShippedModel model("shakespeare.tfm");
  ASSERT_TRUE(model.module);
  ASSERT_TRUE(succeeded(scheduleModel(*model.module, nativeTarget())));
  auto program = model.module->lookupSymbol<sched::ProgramOp>("train");
  ASSERT_TRUE(program);
  std::vector<sched::LoopOp> loops;
  for (auto loop : program.getBlock()->getOps<sched::LoopOp>())
    loops.push_back(loop);
  ASSERT_GE(loops.size(), 2u);
  // The first loop goes forward, the last one back.
  for (sched::LoopOp loop : {loops.front(), loops.back()}) {
    std::set<std::string> modules;
    loop->walk([&](mlir::Operation *op) {
      if (!sched::isKernelStep(*op))
        return;
      EXPECT_NE(pathOf(op), "") << describe(op);
      modules.insert(pathOf(op));
    });
    for (const char *module : {"h.*.attn", "h.*.attn.c_attn", "h.*.mlp.c_fc",
                               "h.*.mlp.c_proj", "h.*.ln_1"})
      EXPECT_EQ(modules.count(module), 1u) << module;
  }
}

// Of a cache that gets a token, and of a table of gradients, few rows are
// touched.
TEST(Launches, CountTheRowsThatTheyChange) {
  ShippedModel model("shakespeare.tfm");
  ASSERT_TRUE(model.module);
  ASSERT_TRUE(succeeded(scheduleModel(*model.module, nativeTarget())));
  auto bytes = [](mlir::Value value) {
    mlir::RankedTensorType type = tensorType(value);
    return type.getNumElements() * type.getElementTypeBitWidth() / 8;
  };
  int64_t caches = 0, tables = 0;
  model.module->walk([&](sched::LaunchOp launch) {
    mlir::Operation *first = launch.getFirstOp();
    if (auto update = llvm::dyn_cast_or_null<CacheUpdateOp>(first)) {
      ++caches;
      EXPECT_EQ(stepBytes(launch),
                2 * bytes(update.getUpdates()) + bytes(update.getPositions()));
    } else if (auto add = llvm::dyn_cast_or_null<ScatterAddOp>(first)) {
      ++tables;
      int64_t updates = bytes(add.getUpdates());
      // Those of positions are computed.
      int64_t ids =
          add.getIds().getDefiningOp<sched::ReadOp>() ? bytes(add.getIds()) : 0;
      EXPECT_EQ(stepBytes(launch),
                updates + ids + std::min(2 * updates, bytes(add.getBase())));
    }
  });
  EXPECT_GT(caches, 0);
  EXPECT_GT(tables, 0);
}

// And of a table those that ids choose, also where it lies in panels.
TEST(Launches, CountTheRowsThatIdsChoose) {
  oracle::TestModule module(R"(
    func.func @f(%p: tensor<2x16x32x4xi8>, %ids: tensor<3xi32>) -> tensor<3x64xi8> {
      %table = tfm.unpack %p : tensor<2x16x32x4xi8> to tensor<48x64xi8>
      %rows = tfm.gather %table, %ids : tensor<48x64xi8>, tensor<3xi32>
      return %rows : tensor<3x64xi8>
    })");
  ASSERT_TRUE(mlir::succeeded(prepare(*module.module, nativeTarget())));
  ASSERT_TRUE(succeeded(scheduleModel(*module.module, nativeTarget())));
  int launches = 0;
  module.module->walk([&](sched::LaunchOp launch) {
    ++launches;
    EXPECT_EQ(stepBytes(launch), 3 * 4 + 3 * 64 + 3 * 64);
  });
  EXPECT_EQ(launches, 1);
}

TEST(Planner, RandomPrograms) {
  for (unsigned seed = 0; seed < 60; ++seed) {
    std::string text =
        randomProgram(3000 + seed, 3 + static_cast<int>(seed) % 5, 33);
    SCOPED_TRACE(text);
    oracle::TestModule module(text);
    ASSERT_TRUE(module.function("f"));
    oracle::addVJP(module.function("f"), "g");
    ASSERT_TRUE(mlir::succeeded(prepare(*module.module, nativeTarget())));
    ASSERT_TRUE(succeeded(scheduleModel(*module.module, nativeTarget())));
    EXPECT_GT(simulate(*module.module), 0);
  }
}

} // namespace
