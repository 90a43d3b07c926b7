//===- learning_rate.cpp - the learning rate over time ------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/training/learning_rate.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <stdexcept>

namespace tfm {

namespace {

/// From 1 at x = 0 to 0 at x = 1.
double descend(const std::string &shape, double x) {
  if (shape == "cosine")
    return 0.5 * (1 + std::cos(std::numbers::pi * x));
  if (shape == "1-sqrt")
    return 1 - std::sqrt(x);
  if (shape == "linear")
    return 1 - x;
  throw std::logic_error("unknown shape of a schedule: " + shape);
}

} // namespace

double learningRate(const ScheduleSpec &schedule, double peak, int64_t step,
                    int64_t steps) {
  const std::string &kind = schedule.kind;
  bool isCosine = kind == "cosine";
  bool isWsd = kind == "wsd";
  bool isRoot = kind == "inverse_sqrt";
  if (!isCosine && !isWsd && !isRoot && kind != "linear" && kind != "constant")
    throw std::logic_error("unknown schedule " + kind);
  double low = schedule.final;
  if (step < schedule.warmup) {
    auto done = static_cast<double>(step);
    auto all = static_cast<double>(schedule.warmup);
    double share = schedule.warmupFromZero.value_or(!isCosine)
                       ? done / all
                       : (done + 1) / (all + 1);
    return isWsd ? low + (peak - low) * share : peak * share;
  }
  if (kind == "constant")
    return peak;
  if (isRoot) {
    // Without a warmup the first update is that of the peak.
    auto length = static_cast<double>(std::max<int64_t>(1, schedule.warmup));
    return peak *
           std::sqrt(length / std::max(length, static_cast<double>(step)));
  }
  int64_t from = schedule.warmup;
  int64_t to = steps;
  if (isCosine && schedule.decay > 0)
    to = schedule.decay;
  if (isWsd)
    from = std::max(from, steps - schedule.decay);
  if (step < from)
    return peak;
  // At `to` itself the curve has arrived; the guard is for to == from.
  if (step >= to)
    return low;
  double x = static_cast<double>(step - from) / static_cast<double>(to - from);
  return low + (peak - low) * descend(isCosine ? "cosine"
                                      : isWsd  ? schedule.shape
                                               : "linear",
                                      x);
}

} // namespace tfm
