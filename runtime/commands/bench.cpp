//===- bench.cpp - how fast the model's functions are -------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/comm/processes.h"
#include "runtime/commands/commands.h"
#include "runtime/commands/sample_inputs.h"
#include "runtime/device/choose_device.h"
#include "runtime/device/peak.h"
#include "runtime/device/variant.h"
#include "runtime/files/find_tokenizer.h"
#include "runtime/model/memory_needed.h"
#include "runtime/support/error.h"
#include "runtime/support/progress.h"
#include "runtime/training/initialise.h"
#include "runtime/training/shared_update.h"

#include <algorithm>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>

using nlohmann::ordered_json;

namespace tfm {

namespace {

/// A model whose functions run on sample data.
struct SampleModel {
  Model &model;
  int64_t vocabulary, context;

  SampleModel(Model &model, const Recipe &recipe)
      : model(model),
        vocabulary(std::max<int64_t>(1, vocabularyOf(model.descriptor()))),
        context(recipe.generate.context) {}

  Device &device() const { return model.device(); }
  void setInputs(const tfm_function &function) const {
    setSampleInputs(model, function, vocabulary, context);
  }
  void run(const tfm_function &function) const { model.run(function); }
};

/// Seconds of each run: at least three, for a second at most.
std::vector<double> timeRuns(const SampleModel &sample,
                             const tfm_function &function) {
  std::vector<double> times;
  double began = now();
  while (times.size() < 3 || (now() - began < 1.0 && times.size() < 10000)) {
    sample.setInputs(function);
    sample.device().wait();
    double start = now();
    sample.run(function);
    sample.device().wait();
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
std::vector<LaunchTime> timeLaunches(const SampleModel &sample,
                                     const tfm_function &function,
                                     double median) {
  int repeats = std::clamp(static_cast<int>(0.5 / median), 3, 1000);
  std::vector<tfm_event> events(eventsOf(function));
  std::vector<uint64_t> total(static_cast<size_t>(function.launch_count));
  for (int i = 0; i < repeats; ++i) {
    sample.setInputs(function);
    sample.device().recordInto(events.data());
    sample.run(function);
    for (size_t j = 1; j < events.size(); ++j)
      total[events[j].launch] += events[j].clock - events[j - 1].clock;
  }
  sample.device().recordInto(nullptr);
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
std::string shareText(const Peaks::Share &share) {
  if (!share.ofPeak && share.value > 1)
    return "in cache";
  return fmt::format("{:.0f}% of {}", 100 * share.value,
                     share.ofPeak ? "peak" : "memory");
}

ordered_json shareAsJson(const Peaks::Share &share) {
  return {{"of", share.ofPeak ? "peak" : "memory"}, {"share", share.value}};
}

/// Operations, bytes and what they come to for all runs of a launch in a call.
struct Work {
  double flops, bytes;
  double secondsAtPeak; ///< of its operations
  Peaks::Share share;
};

Work workOf(const LaunchTime &time, const Peaks &peak) {
  auto runs = static_cast<double>(time.launch->runs);
  double flops = static_cast<double>(time.launch->flops) * runs;
  double bytes = static_cast<double>(time.launch->bytes) * runs;
  double atPeak = flops / peak.flops(time.launch->products);
  return {flops, bytes, atPeak, peak.share(atPeak, bytes, time.seconds)};
}

/// Operations a second; what has none to count has no speed either.
std::string speedText(double flops, double seconds) {
  return flops > 0 ? fmt::format("{:.1f}", flops / seconds / 1e9) : "-";
}

void printLaunches(const std::vector<LaunchTime> &times, double median,
                   const Peaks &peak) {
  for (const LaunchTime &time : times) {
    if (time.seconds < smallestShare * median)
      break;
    Work work = workOf(time, peak);
    printText(fmt::format(
        "  {:>5.1f}% {:>10.3f} ms  {:>13} {:>8} GFLOP/s {:>7.1f} "
        "GB/s  {:>3} x {:<20} {:.90}\n",
        100 * time.seconds / median, time.seconds * 1e3, shareText(work.share),
        speedText(work.flops, time.seconds), work.bytes / time.seconds / 1e9,
        time.launch->runs, time.launch->path, time.launch->name));
  }
}

ordered_json launchesAsJson(const std::vector<LaunchTime> &times,
                            const Peaks &peak) {
  ordered_json list = ordered_json::array();
  for (const LaunchTime &time : times) {
    list.push_back({{"name", time.launch->name},
                    {"path", time.launch->path},
                    {"products", time.launch->products},
                    {"runs", time.launch->runs},
                    {"flops", time.launch->flops},
                    {"bytes", time.launch->bytes},
                    {"milliseconds", time.seconds * 1e3}});
    list.back().update(shareAsJson(workOf(time, peak).share));
  }
  return list;
}

/// What was measured of a function.
struct Timing {
  const tfm_function *function;
  std::vector<double> runs; ///< seconds, the fastest first
  std::vector<LaunchTime> launches;

  double median() const { return runs[runs.size() / 2]; }
  double flopsPerSecond() const {
    return static_cast<double>(function->flops) / median();
  }
  /// None where nothing goes in that is counted in tokens.
  std::optional<double> tokensPerSecond() const {
    const tfm_buffer *tokens = Model::findInput(*function, TFM_IN_TOKENS);
    if (!tokens)
      return std::nullopt;
    return static_cast<double>(Model::elements(tokens->rank, tokens->shape)) /
           median();
  }
  Peaks::Share share(const Peaks &peak) const {
    double flops = 0, atPeak = 0, bytes = 0;
    for (const LaunchTime &launch : launches) {
      Work work = workOf(launch, peak);
      flops += work.flops;
      atPeak += work.secondsAtPeak;
      bytes += work.bytes;
    }
    // Of products and attention alone, as the function counts them.
    if (flops > 0)
      atPeak *= static_cast<double>(function->flops) / flops;
    return peak.share(atPeak, bytes, median());
  }
};

Timing timeFunction(const SampleModel &sample, const tfm_function &function,
                    Peaks &peak) {
  peak.measure();
  Timing timing = {&function, timeRuns(sample, function), {}};
  timing.launches = timeLaunches(sample, function, timing.median());
  // Again: threads that have just been made may have shared a processor.
  peak.measure();
  return timing;
}

void print(const Timing &timing, const Peaks &peak) {
  std::string perSecond;
  if (std::optional<double> tokens = timing.tokensPerSecond())
    perSecond = fmt::format(" {:>12.0f} tokens/s", *tokens);
  printText(fmt::format(
      "{:<10}{:>9.3f} ms  {:>13} {:>8} GFLOP/s{}\n", timing.function->name,
      timing.median() * 1e3, shareText(timing.share(peak)),
      speedText(static_cast<double>(timing.function->flops), timing.median()),
      perSecond));
  printLaunches(timing.launches, timing.median(), peak);
}

ordered_json asJson(const Timing &timing, const Peaks &peak) {
  ordered_json object = {{"milliseconds", timing.median() * 1e3},
                         {"fastest_milliseconds", timing.runs.front() * 1e3},
                         {"runs", timing.runs.size()},
                         {"gflops", timing.flopsPerSecond() / 1e9},
                         {"tokens_per_second", nullptr}};
  if (std::optional<double> tokens = timing.tokensPerSecond())
    object["tokens_per_second"] = *tokens;
  object.update(shareAsJson(timing.share(peak)));
  object["kernels"] = launchesAsJson(timing.launches, peak);
  return object;
}

/// An update that processes share, in seconds, with what goes into exchanging
/// gradients and parameters: while nothing is computed, and while something is.
struct SharedTiming {
  int processes = 0;
  double update = 0, waited = 0, hidden = 0;
};

/// The mean of some updates of sample data; `micro` is what a micro-batch takes
/// here.
SharedTiming timeUpdates(const SampleModel &sample, Processes &processes,
                         const Recipe &recipe, double micro) {
  std::unique_ptr<SharedUpdate> shared =
      tfm_share_update(sample.model, &processes);
  const tfm_function &train = sample.model.function(TFM_TRAIN);
  int64_t micros =
      std::max<int64_t>(1, recipe.train.accumulate / processes.count());
  auto update = [&] {
    for (int64_t i = 0; i < micros; ++i) {
      sample.setInputs(train);
      shared->begin(i + 1 < micros ? std::nullopt : std::optional<int64_t>(0));
      sample.run(train);
      shared->end();
    }
    // No step: the weights stay what they are.
    shared->run({0.0f, 1.0f, 1.0f, 0.0f});
  };
  // Once for memory that is touched for the first time.
  update();
  (void)shared->takeTimes();
  int repeats = std::clamp(
      static_cast<int>(1.0 / (static_cast<double>(micros) * micro)), 3, 1000);
  // As many for all.
  repeats = processes.ofFirst(repeats);
  SharedTiming timing = {.processes = processes.count()};
  double began = now();
  for (int i = 0; i < repeats; ++i) {
    update();
    SharedUpdate::Times times = shared->takeTimes();
    timing.waited += times.summed - times.began + times.waited;
    timing.hidden += times.hidden;
  }
  shared->awaitParameters();
  timing.update = now() - began;
  for (double *seconds : {&timing.update, &timing.waited, &timing.hidden})
    *seconds /= repeats;
  return timing;
}

/// What the products of all functions are made of.
std::vector<std::string_view> productsOf(const tfm_variant &variant) {
  std::vector<std::string_view> products;
  for (int32_t i = 0; i < variant.function_count; ++i)
    for (int64_t j = 0; j < variant.functions[i].launch_count; ++j)
      products.emplace_back(variant.functions[i].launches[j].products);
  return products;
}

void requireFunction(const Model &model, const std::string &name,
                     bool sharesTraining) {
  if (sharesTraining && name != TFM_TRAIN)
    throw InputError("several processes time train together, and "
                     "not {}: add --processes none",
                     name);
  if (model.find(name))
    return;
  std::string known;
  for (const char *other : timedFunctions)
    if (model.find(other))
      known += (known.empty() ? "" : ", ") + std::string(other);
  throw InputError("this build of {} has no function {}: it has {}",
                   model.descriptor().name, name, known);
}

/// The peaks of a machine, for a line of text.
std::string peaksText(const Peaks &peak) {
  std::string text =
      fmt::format("{:.0f} GFLOP/s of multiply-adds", peak.flops() / 1e9);
  if (peak.peaks().size() == 1)
    return text + " (peak)";
  text += " of f32";
  for (const Peaks::Peak &other : std::span(peak.peaks()).subspan(1))
    text += fmt::format(", {:.0f} of {}", other.flops / 1e9, other.products);
  return text + " (peaks)";
}

/// All that was measured, and on what.
struct BenchResult {
  const tfm_model &model;
  const Recipe &recipe;
  const Peaks &peaks;
  int threads;
  std::optional<CudaProperties> gpu;
  std::vector<Timing> timings;
  std::optional<SharedTiming> shared;
};

void print(const SharedTiming &shared) {
  printText(fmt::format(
      "update of {} processes: {:.3f} ms, {:.3f} ms of it for exchanging "
      "gradients and parameters; {:.3f} ms more hidden behind computing\n",
      shared.processes, shared.update * 1e3, shared.waited * 1e3,
      shared.hidden * 1e3));
}

void printMachine(const BenchResult &result) {
  const Peaks &peaks = result.peaks;
  printText(fmt::format(
      "machine: {}, {:.1f} GB/s of memory ({:.1f} reading as "
      "many bytes as the parameters take), {}\n",
      peaksText(peaks), peaks.bandwidth() / 1e9, peaks.reading() / 1e9,
      result.gpu ? result.gpu->name
                 : std::to_string(result.threads) + " thread(s)"));
}

/// All shares are those of the peaks which stand beside them.
ordered_json asJson(const BenchResult &result) {
  const Peaks &peaks = result.peaks;
  const Recipe &recipe = result.recipe;
  ordered_json functions = ordered_json::object();
  for (const Timing &timing : result.timings)
    functions[timing.function->name] = asJson(timing, peaks);
  ordered_json ofKinds = ordered_json::object();
  for (const Peaks::Peak &one : peaks.peaks())
    ofKinds[std::string(one.products)] = one.flops / 1e9;
  ordered_json answer = {
      {"model", result.model.name},
      {"source", result.model.source},
      {"target", chooseVariant(result.model).machine},
      {"precision", recipe.precision()},
      {"weights", recipe.generate.weights},
      {"accumulate", recipe.train.accumulate},
      {"threads", result.threads},
      {"device", result.gpu ? ordered_json(result.gpu->name) : nullptr},
      {"peak_gflops", peaks.flops() / 1e9},
      {"peaks_gflops", ofKinds},
      {"memory_gbs", peaks.bandwidth() / 1e9},
      {"reading_gbs", peaks.reading() / 1e9},
      {"functions", functions}};
  if (result.shared) {
    ordered_json &update = answer["update_of_processes"];
    update["processes"] = result.shared->processes;
    for (auto [name, seconds] :
         {std::pair("milliseconds", result.shared->update),
          std::pair("exchange_milliseconds", result.shared->waited),
          std::pair("hidden_exchange_milliseconds", result.shared->hidden)})
      update[name] = seconds * 1e3;
  }
  return answer;
}

/// The functions of this build that are asked for. Of what processes do
/// together that is training alone.
std::vector<const tfm_function *> wantedFunctions(const Model &model,
                                                  const BenchCommand &command,
                                                  bool sharesTraining) {
  std::vector<const tfm_function *> wanted;
  for (std::string_view name : timedFunctions) {
    bool isWanted = sharesTraining
                        ? name == TFM_TRAIN
                        : command.functions.empty() ||
                              std::ranges::count(command.functions, name) > 0;
    const tfm_function *function = model.find(name);
    if (function && isWanted)
      wanted.push_back(function);
  }
  return wanted;
}

void requireMemory(const tfm_model &descriptor, const Recipe &recipe,
                   const Processes *processes) {
  requireGenerationMemory(descriptor, recipe);
  if (chooseVariant(descriptor).gradients.bytes > 0)
    requireTrainingMemory(descriptor, recipe,
                          processes ? processes->count() : 1);
  else
    requireArena(descriptor);
}

} // namespace

void bench(const tfm_model &descriptor, const BenchCommand &command) {
  Recipe recipe = recipeOf(descriptor);
  requireMemory(descriptor, recipe, command.processes);
  int threads = threadCount(command, descriptor);
  std::unique_ptr<Device> device =
      makeDevice(descriptor, command.device, threads, command.processes);
  std::optional<CudaProperties> gpu = gpuOf(descriptor, command.device);
  Model model(descriptor, *device, /*trains=*/true);
  bool sharesTraining = command.processes && model.find(TFM_TRAIN);
  if (sharesTraining)
    requireShares(recipe.train, *command.processes);
  for (const std::string &name : command.functions)
    requireFunction(model, name, sharesTraining);
  initialise(model, 1);
  // Where nobody has written anything all pages are one of zeros: an update
  // alone would read that from a cache.
  model.zeroGradients();

  const tfm_variant &variant = chooseVariant(descriptor);
  std::unique_ptr<Peaks> peaks =
      device->peaks(productsOf(variant), variant.parameters.bytes);
  BenchResult result = {descriptor, recipe, *peaks, threads, gpu, {}, {}};
  const SampleModel sample(model, recipe);
  for (const tfm_function *function :
       wantedFunctions(model, command, sharesTraining)) {
    result.timings.push_back(timeFunction(sample, *function, *peaks));
    if (!command.json && command.speaks())
      print(result.timings.back(), *peaks);
  }
  if (sharesTraining)
    result.shared = timeUpdates(sample, *command.processes, recipe,
                                result.timings.front().median());
  if (!command.speaks())
    return;
  if (command.json) {
    printText(jsonText(asJson(result)) + "\n");
    return;
  }
  if (result.shared)
    print(*result.shared);
  printMachine(result);
}

} // namespace tfm
