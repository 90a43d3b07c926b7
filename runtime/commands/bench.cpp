//===- bench.cpp - how fast the model's functions are -------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/commands/commands.h"
#include "runtime/commands/sample_inputs.h"
#include "runtime/device/cpu_device.h"
#include "runtime/device/peak.h"
#include "runtime/progress.h"
#include "runtime/tokenizer/find_tokenizer.h"
#include "runtime/training/initialise.h"

#include <algorithm>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

using nlohmann::ordered_json;

namespace tfm {

namespace {

/// Seconds of each run: at least three, for a second at most.
std::vector<double> timeRuns(Model &model, const tfm_function &function,
                             int64_t vocabulary) {
  std::vector<double> times;
  double began = now();
  while (times.size() < 3 || (now() - began < 1.0 && times.size() < 10000)) {
    setSampleInputs(model, function, vocabulary);
    double start = now();
    model.run(function);
    times.push_back(now() - start);
  }
  std::sort(times.begin(), times.end());
  return times;
}

/// Each launch's share of a function's time.
struct LaunchTime {
  const tfm_launch *launch;
  double seconds; ///< in a call
};

/// Runs `function` with its launches timed, a few times.
std::vector<LaunchTime> timeLaunches(Model &model, const tfm_function &function,
                                     int64_t vocabulary, double median) {
  int repeats = std::clamp(static_cast<int>(0.5 / median), 3, 1000);
  std::vector<tfm_event> events(eventsOf(function));
  std::vector<uint64_t> total(static_cast<size_t>(function.launch_count));
  for (int i = 0; i < repeats; ++i) {
    setSampleInputs(model, function, vocabulary);
    model.device().recordInto(events.data());
    model.run(function);
    for (size_t j = 1; j < events.size(); ++j)
      total[events[j].launch] += events[j].clock - events[j - 1].clock;
  }
  model.device().recordInto(nullptr);
  // The clock's rate does not matter: shares of the time measured above.
  double all = 0;
  for (uint64_t count : total)
    all += static_cast<double>(count);
  std::vector<LaunchTime> times;
  times.reserve(function.launch_count);
  for (int32_t i = 0; i < function.launch_count; ++i)
    times.push_back(
        {&function.launches[i],
         median * static_cast<double>(total[i]) / std::max(all, 1.0)});
  std::sort(times.begin(), times.end(),
            [](const LaunchTime &a, const LaunchTime &b) {
              return a.seconds > b.seconds;
            });
  return times;
}

/// Kernels below this share of a function's time are not listed.
constexpr double smallestShare = 0.01;

/// "78% of peak", "91% of memory"; what memory alone could not do comes out of
/// the caches.
std::string shareText(const PeakMeter::Share &share) {
  if (!share.ofPeak && share.value > 1)
    return "in cache";
  return fmt::format("{:.0f}% of {}", 100 * share.value,
                     share.ofPeak ? "peak" : "memory");
}

ordered_json shareAsJson(const PeakMeter::Share &share) {
  return {{"of", share.ofPeak ? "peak" : "memory"}, {"share", share.value}};
}

/// Operations, bytes and what they come to for all runs of a launch in a call.
struct Work {
  double flops, bytes;
  PeakMeter::Share share;
};

Work workOf(const LaunchTime &time, const PeakMeter &peak) {
  auto runs = static_cast<double>(time.launch->runs);
  double flops = static_cast<double>(time.launch->flops) * runs;
  double bytes = static_cast<double>(time.launch->bytes) * runs;
  return {flops, bytes, peak.share(flops, bytes, time.seconds)};
}

void printLaunches(const std::vector<LaunchTime> &times, double median,
                   const PeakMeter &peak) {
  for (const LaunchTime &time : times) {
    if (time.seconds < smallestShare * median)
      break;
    Work work = workOf(time, peak);
    printText(fmt::format(
        "  {:>5.1f}% {:>10.3f} ms  {:>13} {:>8.1f} GFLOP/s {:>7.1f} "
        "GB/s  {:>3} x {:<20} {:.90}\n",
        100 * time.seconds / median, time.seconds * 1e3, shareText(work.share),
        work.flops / time.seconds / 1e9, work.bytes / time.seconds / 1e9,
        time.launch->runs, time.launch->path, time.launch->name));
  }
}

ordered_json launchesAsJson(const std::vector<LaunchTime> &times,
                            const PeakMeter &peak) {
  ordered_json list = ordered_json::array();
  for (const LaunchTime &time : times) {
    list.push_back({{"name", time.launch->name},
                    {"path", time.launch->path},
                    {"runs", time.launch->runs},
                    {"flops", time.launch->flops},
                    {"bytes", time.launch->bytes},
                    {"milliseconds", time.seconds * 1e3}});
    list.back().update(shareAsJson(workOf(time, peak).share));
  }
  return list;
}

} // namespace

void bench(const tfm_model &descriptor, const CommonOptions &command) {
  Recipe recipe = parseRecipe(descriptor.recipe ? descriptor.recipe : "");
  if (recipe.hasTrain)
    requireMemory(descriptor, recipe.train);
  CpuDevice device(threadCount(command));
  ThreadPool &pool = device.threads();
  Model model(descriptor, device);
  initialise(model, 1);
  int64_t vocabulary = std::max<int64_t>(1, vocabularyOf(descriptor));

  PeakMeter peak(pool);
  ordered_json functions = ordered_json::object();
  for (const char *name : {TFM_TRAIN, TFM_UPDATE, TFM_EVALUATE, TFM_FORWARD,
                           TFM_PREFILL, TFM_DECODE}) {
    const tfm_function *function = model.find(name);
    if (!function)
      continue;
    peak.measure();
    std::vector<double> times = timeRuns(model, *function, vocabulary);
    double median = times[times.size() / 2];
    double speed = static_cast<double>(function->flops) / median / 1e9;
    const tfm_buffer *tokens = Model::findInput(*function, "tokens");
    ordered_json perSecond = nullptr;
    std::string perSecondText;
    if (tokens) {
      auto count =
          static_cast<double>(Model::elements(tokens->rank, tokens->shape));
      perSecond = count / median;
      perSecondText = fmt::format(" {:>12.0f} tokens/s", count / median);
    }
    std::vector<LaunchTime> launches =
        timeLaunches(model, *function, vocabulary, median);
    // Again: threads that have just been made may have shared a processor.
    peak.measure();
    double bytes = 0;
    for (const LaunchTime &launch : launches)
      bytes += workOf(launch, peak).bytes;
    PeakMeter::Share share =
        peak.share(static_cast<double>(function->flops), bytes, median);
    functions[name] = {{"milliseconds", median * 1e3},
                       {"fastest_milliseconds", times.front() * 1e3},
                       {"runs", times.size()},
                       {"gflops", speed},
                       {"tokens_per_second", perSecond}};
    functions[name].update(shareAsJson(share));
    functions[name]["kernels"] = launchesAsJson(launches, peak);
    if (command.json)
      continue;
    printText(fmt::format("{:<10}{:>9.3f} ms  {:>13} {:>8.1f} GFLOP/s{}\n",
                          name, median * 1e3, shareText(share), speed,
                          perSecondText));
    printLaunches(launches, median, peak);
  }
  if (command.json)
    printText(ordered_json{{"threads", pool.count()},
                           {"peak_gflops", peak.flops() / 1e9},
                           {"memory_gbs", peak.bandwidth() / 1e9},
                           {"functions", functions}}
                  .dump() +
              "\n");
  else
    printText(
        fmt::format("machine: {:.0f} GFLOP/s of multiply-adds (peak), {:.1f} "
                    "GB/s of memory, {} thread(s)\n",
                    peak.flops() / 1e9, peak.bandwidth() / 1e9, pool.count()));
}

} // namespace tfm
