//===- profile.cpp - what training steps spend their time on ------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/training/profile.h"

#include "runtime/progress.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

using nlohmann::ordered_json;

namespace tfm {

Profile::Profile(std::string path, Model &model, const tfm_function &train,
                 const tfm_function &update, int64_t micro, int64_t steps,
                 int64_t most)
    : file(std::move(path)), model(model), skip(steps > 1 ? 1 : 0),
      left(std::min(most, steps - skip)) {
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
  model.device().recordInto(&events[usedEvents]);
  double begin = now();
  model.run(function);
  calls.push_back({&function, usedEvents, begin, now()});
  model.device().recordInto(nullptr);
  usedEvents += eventsOf(function);
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

std::string Profile::traceText() const {
  ordered_json list = ordered_json::array();
  double start = steps.front().begin;
  // To the nanosecond.
  auto microseconds = [](double seconds) {
    return std::round(seconds * 1e9) / 1e3;
  };
  auto add = [&](const std::string &name, const char *category, double begin,
                 double end) -> ordered_json & {
    list.push_back({{"name", name},
                    {"cat", category},
                    {"ph", "X"},
                    {"pid", 1},
                    {"tid", 1},
                    {"ts", microseconds(begin - start)},
                    {"dur", microseconds(end - begin)}});
    return list.back();
  };
  auto nameTrack = [&](const char *what, const std::string &name) {
    list.push_back({{"name", what},
                    {"ph", "M"},
                    {"pid", 1},
                    {"tid", 1},
                    {"args", {{"name", name}}}});
  };
  nameTrack("process_name", model.descriptor().name);
  nameTrack("thread_name", "training");
  // The clock of events runs at a rate of its own, which the whole recording
  // tells best.
  const Call &first = calls.front(), &last = calls.back();
  auto ticks = static_cast<double>(events[last.firstEvent].clock -
                                   events[first.firstEvent].clock);
  double secondsPerTick = ticks > 0 ? (last.begin - first.begin) / ticks : 0;
  for (size_t i = 0; i != steps.size(); ++i) {
    const Step &step = steps[i];
    add("step " + std::to_string(step.number), "step", step.begin, step.end);
    size_t behind =
        i + 1 < steps.size() ? steps[i + 1].firstCall : calls.size();
    for (size_t j = step.firstCall; j != behind; ++j) {
      const Call &call = calls[j];
      const tfm_function &function = *call.function;
      add(function.name, "function", call.begin, call.end);
      const tfm_event *event = &events[call.firstEvent];
      auto at = [&](const tfm_event &one) {
        auto since = static_cast<double>(one.clock - event->clock);
        return std::min(call.begin + since * secondsPerTick, call.end);
      };
      for (size_t k = 1; k != eventsOf(function); ++k) {
        const tfm_launch &launch = function.launches[event[k].launch];
        add(launch.name, "kernel", at(event[k - 1]),
            at(event[k]))["args"] = {{"module", launch.path},
                                     {"flops", launch.flops},
                                     {"bytes", launch.bytes}};
      }
    }
  }
  const tfm_variant &variant = model.variant();
  return ordered_json{{"displayTimeUnit", "ms"},
                      {"otherData",
                       {{"model", model.descriptor().name},
                        {"source", model.descriptor().source},
                        {"cpu", variant.machine}}},
                      {"traceEvents", list}}
      .dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

void Profile::write() {
  if (steps.empty() || calls.empty())
    return;
  file.write(traceText());
  file.commit();
}

} // namespace tfm
