//===- SharePlan.cpp - what processes share of an update ------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Times are those of a clock that goes through an update as `SharedUpdate` of
// the runtime does; docs/cluster.md lists what it takes for granted.
//
//===----------------------------------------------------------------------===//

#include "compiler/driver/SharePlan.h"
#include "compiler/dialect/Programs.h"
#include "compiler/schedule/Launches.h"
#include "compiler/schedule/SchedDialect.h"
#include "compiler/schedule/Sharing.h"
#include "compiler/transforms/ParameterRegions.h"
#include "compiler/transforms/ReadRecipe.h"

#include "runtime/comm/micro_batches.h"
#include "runtime/training/sum_turns.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MathExtras.h"

#include <charconv>

using namespace tfm;

namespace {

constexpr int64_t rowBytes = regionRow * sizeof(float);
/// What is read and written once comes from memory.
constexpr double memoryBytesPerSecond = 10e9;
/// What the processor has to do with a message that is sent or received.
constexpr double messageSeconds = 1e-6;

/// What one process computes.
struct Work {
  int64_t microBatches; ///< of an update
  /// Seconds from the beginning of a micro-batch to the end of each of its
  /// runs; with 0 before the first.
  std::vector<double> ends = {0};
  double update = 0; ///< seconds of the update of all rows

  double microBatch() const { return ends.back(); }
  double all() const {
    return static_cast<double>(microBatches) * microBatch() + update;
  }
};

Work workOf(mlir::ModuleOp schedule, const KernelTarget &target,
            int64_t microBatches, std::optional<double> measured) {
  Work work{microBatches};
  auto train =
      schedule.lookupSymbol<sched::ProgramOp>(nameOf(ProgramKind::Train));
  auto update =
      schedule.lookupSymbol<sched::ProgramOp>(nameOf(ProgramKind::Update));
  forEachRun(train, [&](mlir::Operation *step, const LayersNow &) {
    work.ends.push_back(work.ends.back() +
                        target.stepSeconds(stepFlops(step), stepBytes(step)));
  });
  if (update)
    forEachStep(update, [&](mlir::Operation *step, int64_t runs) {
      work.update +=
          static_cast<double>(runs * stepBytes(step)) / memoryBytesPerSecond;
    });
  if (measured) {
    double factor = *measured / work.all();
    for (double &end : work.ends)
      end *= factor;
    work.update *= factor;
  }
  return work;
}

/// What its owner sends each other process of an updated block: values, or
/// where nothing reads these the copies in bf16.
int64_t updatedBytes(const SharedBlock &block, bool hasCopies) {
  if (!hasCopies)
    return block.rows * rowBytes;
  return block.rows * ((block.use.readsValue ? rowBytes : 0) +
                       (block.use.readsCopy ? rowBytes / 2 : 0));
}

/// Blocks that all processes send rows of at the same time.
struct Round {
  int64_t rows = 0;        ///< of all its blocks
  int64_t most = 0;        ///< of one of them
  int64_t updated = 0;     ///< bytes, of all its blocks
  int64_t mostUpdated = 0; ///< of one of them
  int64_t blocks = 0;
  int64_t done = 0; ///< runs behind which their gradients are done
  /// Runs before which nothing reads their values.
  int64_t used = INT64_MAX;
};

/// The clock of the process that has the most to do.
class Clock {
public:
  Clock(const Work &work, const NetworkSpec &network,
        llvm::ArrayRef<SharedBlock> blocks, bool hasCopies, int64_t processes)
      : work(work), network(network), processes(processes) {
    for (size_t first = 0; first < blocks.size(); first += processes) {
      Round &round = rounds.emplace_back();
      for (const SharedBlock &block : blocks.slice(
               first, std::min<size_t>(processes, blocks.size() - first))) {
        round.rows += block.rows;
        round.most = std::max(round.most, block.rows);
        round.updated += updatedBytes(block, hasCopies);
        round.mostUpdated =
            std::max(round.mostUpdated, updatedBytes(block, hasCopies));
        round.done = std::max(round.done, block.use.gradientDone);
        round.used = std::min(round.used, block.use.valueUsed);
        ++round.blocks;
      }
    }
  }

  StepSeconds run() {
    StepSeconds seconds;
    double before = static_cast<double>(work.microBatches / processes - 1) *
                    work.microBatch();
    double computed = before + work.microBatch();
    seconds.compute = computed;
    // Sums begin as gradients are done. Adding up is the same processor's.
    double link = 0, adding = 0, hidden = 0;
    for (const Round &round : rounds) {
      double time = onLink(rowBytes * std::max(round.rows - round.most,
                                               (processes - 1) * round.most),
                           round.blocks - 1 + processes - 1);
      double begin = std::max(link, before + work.ends[round.done]);
      link = begin + time;
      hidden += std::clamp(computed - begin, 0.0, time);
      adding += static_cast<double>((processes + 1) * round.most * rowBytes) /
                memoryBytesPerSecond;
    }
    seconds.hidden = hidden;
    double now = std::max(computed + adding, link + network.latency) +
                 talk(sizeof(double) * static_cast<int64_t>(rounds.size()));
    seconds.sums = now - computed;
    // Each block goes to all when it is updated, the last round first; the next
    // micro-batch waits for it where it is read. (Frozen parameters and the
    // ends of regions are no part of a micro-batch.)
    int64_t rows = 0;
    for (const Round &round : rounds)
      rows += round.rows;
    double updated = now + work.update * static_cast<double>(ownRows()) /
                               static_cast<double>(rows);
    double computing = now;
    link = now;
    double late = 0;
    for (const Round &round : llvm::reverse(rounds)) {
      computing += work.update * static_cast<double>(round.most) /
                   static_cast<double>(rows);
      link = std::max(link, computing) +
             onLink(std::max((processes - 1) * round.mostUpdated,
                             round.updated - round.mostUpdated),
                    round.blocks - 1 + processes - 1);
      size_t used = std::min<size_t>(round.used, work.ends.size() - 1);
      late = std::max(late, link + network.latency - updated - work.ends[used]);
    }
    seconds.update = updated - now;
    seconds.hidden += std::max(0.0, link - updated - late);
    // Losses, and whether anybody is to stop.
    seconds.parameters =
        late + talk(sizeof(float) * (work.microBatches / processes + 1));
    double end = updated + seconds.parameters;
    seconds.step = end;
    return seconds;
  }

private:
  /// Those of the process that has the most.
  int64_t ownRows() const {
    int64_t rows = 0;
    for (const Round &round : rounds)
      rows += round.most;
    return rows;
  }
  /// So many bytes through a process's link, one way, in messages.
  double onLink(int64_t bytes, int64_t messages) const {
    return static_cast<double>(bytes) / network.bytesPerSecond +
           static_cast<double>(messages) * messageSeconds;
  }
  /// All tell the first process some bytes, which then tells all of them to
  /// all.
  double talk(int64_t bytes) const {
    auto others = static_cast<double>(processes - 1);
    auto all = static_cast<double>(processes * bytes);
    return 2 * network.latency + 2 * others * messageSeconds +
           (all + others * all) / network.bytesPerSecond;
  }

  const Work &work;
  const NetworkSpec &network;
  int64_t processes;
  std::vector<Round> rounds;
};

/// What an option of a number and one of some units takes.
struct Quantity {
  llvm::ArrayRef<std::pair<llvm::StringRef, double>> units;
  llvm::StringRef example;
  /// The smallest and the largest that is one of a computer, in words, too.
  double least, most;
  llvm::StringRef range;
};

llvm::Expected<double> parseQuantity(llvm::StringRef text,
                                     const Quantity &quantity) {
  llvm::StringRef trimmed = text.trim();
  double number = 0;
  auto [end, problem] = std::from_chars(trimmed.begin(), trimmed.end(), number);
  llvm::StringRef unit(end, trimmed.end() - end);
  const auto *known = llvm::find_if(quantity.units, [&](const auto &each) {
    return each.first == unit.trim();
  });
  if (problem == std::errc::invalid_argument || known == quantity.units.end())
    return llvm::createStringError(
        "must be such as " + quantity.example + ", in " +
        llvm::join(llvm::make_first_range(quantity.units), ", ") + ", not '" +
        text + "'");
  double value = number * known->second;
  // Not so of what is no number, either.
  bool isWithin = problem == std::errc() && value >= quantity.least &&
                  value <= quantity.most;
  if (!isWithin)
    return llvm::createStringError("must be " + quantity.range + ", not '" +
                                   text + "'");
  return value;
}

} // namespace

llvm::Expected<double> tfm::parseSpeed(llvm::StringRef text) {
  return parseQuantity(text, {.units = {{"Mbit/s", 1e6 / 8},
                                        {"Gbit/s", 1e9 / 8},
                                        {"MB/s", 1e6},
                                        {"GB/s", 1e9}},
                              .example = "100Gbit/s or 12.5GB/s",
                              .least = 1e3,
                              .most = 1e15,
                              .range = "from 0.001MB/s to 1000000GB/s"});
}

llvm::Expected<double> tfm::parseDuration(llvm::StringRef text) {
  return parseQuantity(text, {.units = {{"us", 1e-6}, {"ms", 1e-3}, {"s", 1}},
                              .example = "5us, 20ms or 0.65s",
                              .least = 1e-9,
                              .most = 1e6,
                              .range = "from 0.001us to 1000000s"});
}

/// Why so many processes cannot share an update of micro-batches of `batch`
/// sequences, and what to build instead; empty where they can.
static std::string obstacle(mlir::ModuleOp schedule, int64_t batch,
                            int64_t count) {
  mlir::FailureOr<int64_t> steps = microSteps(schedule);
  if (failed(steps) ||
      !schedule.lookupSymbol<sched::ProgramOp>(nameOf(ProgramKind::Train)))
    return "cannot train: that takes a `train` block, and "
           "generate.weights = f32";
  bool divides = *steps % count == 0;
  std::string other = MicroBatches{batch, *steps}.adviceFor(count);
  if (sumsAsTree(schedule) && !llvm::isPowerOf2_64(count))
    return "is no power of two, as train.sum = tree needs: build with -D "
           "train.sum=sequential" +
           (divides ? "" : " " + other);
  if (!divides)
    return llvm::formatv(
        "does not divide train.accumulate = {0}: build with {1}", *steps,
        other);
  return "";
}

std::vector<SharedReport> tfm::planShares(mlir::ModuleOp schedule,
                                          const KernelTarget &target,
                                          const MemoryReport &memory,
                                          const ShareRequest &request) {
  std::vector<SharedBlock> blocks = sharedBlocks(schedule);
  bool hasCopies = schedule.lookupSymbol<sched::ProgramOp>(
                       nameOf(ProgramKind::Refresh)) != nullptr;
  std::optional<Work> work;
  std::vector<SharedReport> reports;
  for (int64_t count : request.processes) {
    SharedReport &shared = reports.emplace_back();
    shared.processes = count;
    shared.problem = obstacle(schedule, memory.batch, count);
    if (!shared.problem.empty())
      continue;
    int64_t steps = *microSteps(schedule);
    shared.microBatches = steps / count;
    shared.optimizer = memory.optimizer;
    shared.memory = memory.arena;
    if (request.network && !work)
      work = workOf(schedule, target, steps, request.network->step);
    if (count == 1 || blocks.empty()) {
      if (work)
        shared.seconds = {.compute = work->all() - work->update,
                          .update = work->update,
                          .step = work->all()};
      continue;
    }
    int64_t all = 0;
    size_t mostRows = 1;
    std::vector<int64_t> own(count), masters(count), updated(count);
    for (auto [number, block] : llvm::enumerate(blocks)) {
      mostRows = std::max(mostRows, static_cast<size_t>(block.rows));
      own[number % count] += block.rows;
      all += block.rows;
      updated[number % count] += updatedBytes(block, hasCopies);
      // Values that nothing but their update reads are their owner's alone.
      if (hasCopies && !block.use.readsValue)
        for (int64_t process = 0; process != count; ++process)
          if (process != static_cast<int64_t>(number) % count)
            masters[process] += block.rows * rowBytes;
    }
    // Of the process that has the most rows.
    auto most = llvm::max_element(own);
    auto process = most - own.begin();
    shared.optimizer = memory.optimizer / all * *most;
    shared.memory -= memory.optimizer - shared.optimizer + masters[process];
    // With a part of the micro-batches fewer sums wait for others.
    if (sumsAsTree(schedule))
      shared.memory -=
          llvm::Log2_64(static_cast<uint64_t>(count)) * all * rowBytes;
    // Others' sums come to where they are added up.
    shared.incoming = static_cast<int64_t>(
        SumTurns::of(mostRows, static_cast<size_t>(count)).roomBytes());
    shared.memory += shared.incoming;
    // All gradients but those of its own rows, and these rows to all others.
    for (int64_t each = 0; each != count; ++each) {
      int64_t bytes =
          (all - own[each]) * rowBytes + (count - 1) * updated[each];
      if (shared.sentBy.empty() || shared.sentBy.back().bytes != bytes)
        shared.sentBy.push_back({each, each, bytes});
      shared.sentBy.back().last = each;
      shared.sent = std::max(shared.sent, bytes);
    }
    if (work)
      shared.seconds =
          Clock(*work, *request.network, blocks, hasCopies, count).run();
  }
  for (SharedReport &shared : reports)
    if (shared.seconds)
      shared.efficiency = work->all() / (static_cast<double>(shared.processes) *
                                         shared.seconds->step);
  return reports;
}
