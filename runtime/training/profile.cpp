//===- profile.cpp - what training steps spend their time on ------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/training/profile.h"

#include "runtime/support/atomic_file.h"
#include "runtime/support/error.h"
#include "runtime/support/progress.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <span>

namespace tfm {

/// Notes of a step, at most: what `Trainer::updateShared` has to tell.
static constexpr size_t notesOfStep = 2;

Profile::Profile(std::string path, Model &model, const tfm_function &train,
                 const tfm_function &update, int64_t micro, int64_t steps,
                 int64_t most)
    : file(std::move(path)), model(model), skip(steps > 1 ? 1 : 0),
      left(std::min(most, steps - skip)),
      others(static_cast<size_t>(left) * notesOfStep) {
  auto count = static_cast<size_t>(left), calls = static_cast<size_t>(micro);
  events.resize(count * (calls * eventsOf(train) + eventsOf(update)));
  this->calls.reserve(count * (calls + 1));
  this->steps.reserve(count);
}

void Profile::beginStep(int64_t number) {
  if (skip == 0 && left > 0)
    steps.push_back({number, calls.size(), now(), 0});
}

void Profile::run(const tfm_function &function) {
  if (skip > 0 || left == 0)
    return model.run(function);
  model.refreshCopies(); // no part of the function
  model.device().recordInto(&events[usedEvents]);
  double begin = now();
  model.run(function);
  calls.push_back({&function, usedEvents, begin, now()});
  model.device().recordInto(nullptr);
  usedEvents += eventsOf(function);
}

void Profile::note(const char *name, double begin, double end,
                   std::optional<HiddenExchange> hidden) {
  if (skip == 0 && left > 0)
    others[noted++] = {name, begin, end, hidden};
}

bool Profile::endStep() {
  if (skip > 0) {
    --skip;
    return false;
  }
  if (left == 0)
    return false;
  steps.back().end = now();
  return --left == 0;
}

void requireTrace(const std::string &path, const std::string &out) {
  namespace fs = std::filesystem;
  bool isOfRun = fs::path(folderOf(path)).lexically_normal() / "" ==
                 fs::path(out).lexically_normal() / "";
  bool isFile = isRegularFile(path);
  // What is there and no file, such as a pipe, is opened once.
  bool isOther = !isFile && !isFolder(path) && fileExists(path);
  if (!isOther && (!isOfRun || isFolder(out)))
    AtomicFile writable(path);
  if (!isFile)
    return;
  constexpr std::string_view beginning = R"({"displayTimeUnit")";
  std::string first = readFile(path, "the trace", beginning.size());
  if (!first.empty() && !first.starts_with(beginning))
    throw InputError("{} is no trace, and would be lost: write the trace to "
                     "another file with --profile",
                     path);
}

/// A string of JSON.
static std::string quotedJson(const char *text) {
  return nlohmann::ordered_json(text).dump(
      -1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

std::string Profile::traceText() const {
  std::string name = quotedJson(model.descriptor().name);
  std::string text = fmt::format(
      R"({{"displayTimeUnit":"ms","otherData":{{"model":{0},"source":{1},"cpu":{2}}},"traceEvents":[
{{"name":"process_name","ph":"M","pid":1,"tid":1,"args":{{"name":{0}}}}},
{{"name":"thread_name","ph":"M","pid":1,"tid":1,"args":{{"name":"training"}}}})",
      name, quotedJson(model.descriptor().source),
      quotedJson(model.variant().machine));
  double start = steps.front().begin;
  auto nanoseconds = [&](double time) {
    return std::llround((time - start) * 1e9);
  };
  // A span, in microseconds to the nanosecond, and a little more, as viewers
  // cut off what is behind it; without its closing brace. Its end is rounded as
  // the next one's begin is: of two that overlap one would not be shown.
  auto open = [&](const std::string &quoted, const char *category, double begin,
                  double end) {
    int64_t from = nanoseconds(begin), taken = nanoseconds(end) - from;
    text += fmt::format(
        ",\n{{\"name\":{},\"cat\":\"{}\",\"ph\":\"X\",\"pid\":1,\"tid\":1,"
        "\"ts\":{}.{:03}001,\"dur\":{}.{:03}001",
        quoted, category, from / 1000, from % 1000, taken / 1000, taken % 1000);
  };
  // The clock of events runs at a rate of its own, which the whole recording
  // tells best.
  const Call &first = calls.front(), &last = calls.back();
  auto ticks = static_cast<double>(events[last.firstEvent].clock -
                                   events[first.firstEvent].clock);
  double secondsPerTick = ticks > 0 ? (last.begin - first.begin) / ticks : 0;
  for (size_t i = 0; i != steps.size(); ++i) {
    const Step &step = steps[i];
    open(fmt::format("\"step {}\"", step.number), "step", step.begin, step.end);
    text += "}";
    size_t behind =
        i + 1 < steps.size() ? steps[i + 1].firstCall : calls.size();
    for (size_t j = step.firstCall; j != behind; ++j) {
      const Call &call = calls[j];
      const tfm_function &function = *call.function;
      open(quotedJson(function.name), "function", call.begin, call.end);
      text += "}";
      const tfm_event *event = &events[call.firstEvent];
      auto at = [&](const tfm_event &one) {
        auto since = static_cast<double>(one.clock - event->clock);
        return std::min(call.begin + since * secondsPerTick, call.end);
      };
      for (size_t k = 1; k != eventsOf(function); ++k) {
        const tfm_launch &launch = function.launches[event[k].launch];
        open(quotedJson(launch.name), "kernel", at(event[k - 1]), at(event[k]));
        text += fmt::format(
            ",\"args\":{{\"module\":{},\"flops\":{},\"bytes\":{}}}}}",
            quotedJson(launch.path), launch.flops, launch.bytes);
      }
    }
  }
  for (const Other &other : std::span(others).first(noted)) {
    open(quotedJson(other.name), "processes", other.begin, other.end);
    if (other.hidden)
      text += fmt::format(",\"args\":{{\"hidden_exchange_seconds\":{:.6f},"
                          "\"waited_for_parameters_seconds\":{:.6f}}}",
                          other.hidden->hidden, other.hidden->waited);
    text += "}";
  }
  return text + "\n]}\n";
}

bool Profile::write() {
  if (steps.empty() || calls.empty())
    return false;
  file.write(traceText());
  file.commit();
  return true;
}

} // namespace tfm
