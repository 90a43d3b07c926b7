//===- LearningRateTest.cpp - the learning rate over time -----------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/training/learning_rate.h"
#include "tests/unit/runtime/TemporaryFolder.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace tfm {
namespace {

using nlohmann::json;

const json &fixture() {
  static const json schedules =
      json::parse(test::contentOf(TFM_FIXTURES "/optimizers/schedules.json"));
  return schedules;
}

void compare(const std::string &name, const ScheduleSpec &schedule,
             int64_t steps) {
  const json &entry = fixture().at(name);
  double peak = entry.at("options").at("lr").get<double>();
  const json &values = entry.at("values");
  ASSERT_EQ(values.size(), 100u);
  for (int64_t step = 0; step < 100; ++step)
    EXPECT_NEAR(learningRate(schedule, peak, step, steps),
                values[static_cast<size_t>(step)].get<double>(), 1e-12)
        << name << " at " << step;
}

TEST(LearningRate, MeetsTheFixture) {
  ScheduleSpec cosine{"cosine", 10, 6e-5, 80};
  compare("cosine", cosine, 100);
  cosine.warmupFromZero = true;
  compare("cosine_warmup_from_zero", cosine, 100);
  compare("cosine_no_warmup", {"cosine", 0, 0.0, 99}, 100);
  compare("linear", {"linear", 10, 0.0, 0}, 100);
  compare("constant", {"constant", 0, 0.0, 0}, 100);
  compare("constant_with_warmup", {"constant", 10, 0.0, 0}, 100);
  compare("wsd", {"wsd", 10, 6e-5, 30, "linear"}, 100);
  compare("wsd_cosine", {"wsd", 10, 0.0, 20, "cosine"}, 90);
  compare("wsd_1_sqrt", {"wsd", 10, 0.0, 30, "1-sqrt"}, 100);
  compare("inverse_sqrt", {"inverse_sqrt", 10, 0.0, 0}, 100);
  EXPECT_EQ(fixture().size(), 10u) << "a schedule of the fixture is not tested";
}

TEST(LearningRate, CosineEndsWithTheRunUnlessToldOtherwise) {
  ScheduleSpec cosine{"cosine", 0, 0.1, 0};
  EXPECT_NEAR(learningRate(cosine, 1.0, 50, 100), 0.55, 1e-12);
  EXPECT_NEAR(learningRate(cosine, 1.0, 100, 100), 0.1, 1e-12);
}

TEST(LearningRate, AWarmupLongerThanTheRunIsHarmless) {
  for (const char *kind :
       {"constant", "linear", "cosine", "wsd", "inverse_sqrt"})
    for (int64_t step = 0; step < 10; ++step) {
      double rate = learningRate({kind, 50, 0.0, 3}, 1.0, step, 10);
      EXPECT_GE(rate, 0.0);
      EXPECT_LT(rate, 0.25);
    }
}

// As with --steps, which makes a run shorter than its recipe: the descent
// begins behind the warmup, at the peak.
TEST(LearningRate, WsdDescendsFromTheEndOfTheWarmupAtTheSoonest) {
  ScheduleSpec wsd{"wsd", 10, 0.0, 30, "linear"};
  EXPECT_DOUBLE_EQ(learningRate(wsd, 1.0, 10, 20), 1.0);
  EXPECT_DOUBLE_EQ(learningRate(wsd, 1.0, 15, 20), 0.5);
}

// A curve of no steps has arrived where it begins.
TEST(LearningRate, CosineThatEndsWithItsWarmupIsFinal) {
  ScheduleSpec cosine{"cosine", 10, 0.1, 10};
  for (int64_t step : {10, 11, 99})
    EXPECT_DOUBLE_EQ(learningRate(cosine, 1.0, step, 100), 0.1);
}

// Words that a newer compiler may write are no other schedule's, not even while
// the rate warms up.
TEST(LearningRate, WhatIsUnknownIsAnError) {
  for (int64_t step : {0, 50, 99}) {
    EXPECT_THROW(learningRate({"step", 10, 0.0, 0}, 1.0, step, 100),
                 std::logic_error);
    EXPECT_THROW(learningRate({"", 10, 0.0, 0}, 1.0, step, 100),
                 std::logic_error);
  }
  EXPECT_THROW(learningRate({"wsd", 10, 0.0, 30, "exponential"}, 1.0, 99, 100),
               std::logic_error);
}

} // namespace
} // namespace tfm
