//===- SamplerTest.cpp - from logits to the next token ------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/sampler.h"
#include "runtime/error.h"
#include "runtime/philox.h"
#include "tests/unit/runtime/TemporaryFolder.h"

#include <cmath>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace tfm {
namespace {

using nlohmann::json;

TEST(Sampler, MeetsTheFixture) {
  json root =
      json::parse(test::contentOf(TFM_FIXTURES "/sampling/sampling.json"));
  auto logits = root.at("logits").get<std::vector<float>>();
  auto history = root.at("history").get<std::vector<int32_t>>();
  int compared = 0;
  for (const auto &[name, entry] : root.at("cases").items()) {
    const json &given = entry.at("options");
    SamplerOptions options;
    options.repeatPenalty = given.value("repetition_penalty", 1.0);
    options.temperature = given.value("temperature", 1.0);
    options.topK = given.value("top_k", 0);
    options.topP = given.value("top_p", 1.0);
    options.minP = given.value("min_p", 0.0);
    options.typicalP = given.value("typical_p", 1.0);
    Sampler sampler(options, 50);
    sampler.filter(logits, history);

    std::vector<int32_t> kept(sampler.kept().begin(), sampler.kept().end());
    std::vector<double> probabilities(50, 0.0);
    for (size_t i = 0; i < kept.size(); ++i)
      probabilities[kept[i]] = sampler.probabilities()[i];
    std::sort(kept.begin(), kept.end());
    auto expectedKept = entry.at("kept").get<std::vector<int32_t>>();
    std::sort(expectedKept.begin(), expectedKept.end());
    EXPECT_EQ(kept, expectedKept) << name;
    auto expected = entry.at("probabilities").get<std::vector<double>>();
    for (int i = 0; i < 50; ++i)
      EXPECT_NEAR(probabilities[i], expected[i], 1e-6) << name << " " << i;
    ++compared;
  }
  EXPECT_EQ(compared, 16);
}

TEST(Sampler, DrawsByTheProbabilities) {
  std::vector<float> logits = {std::log(0.1f), std::log(0.6f), std::log(0.3f)};
  Sampler sampler({}, 3);
  int counts[3] = {};
  const int draws = 20000;
  for (int i = 0; i < draws; ++i)
    ++counts[sampler.sample(
        logits, {},
        unit(
            low64(philox(5, Stream::Sample, static_cast<uint32_t>(i), 0, 0))))];
  double expected[3] = {0.1, 0.6, 0.3};
  for (int i = 0; i < 3; ++i) // five standard errors
    EXPECT_NEAR(counts[i] / static_cast<double>(draws), expected[i],
                5 * std::sqrt(expected[i] * (1 - expected[i]) / draws));
}

TEST(Sampler, GreedyTakesTheFirstOfEquals) {
  std::vector<float> logits = {1, 3, 3, 2};
  SamplerOptions greedy;
  greedy.greedy = true;
  EXPECT_EQ(Sampler(greedy, 4).sample(logits, {}, 0.9), 1);
  SamplerOptions cold;
  cold.temperature = 0;
  EXPECT_EQ(Sampler(cold, 4).sample(logits, {}, 0.9), 1);
  cold.repeatPenalty = 2;
  std::vector<int32_t> history = {1};
  EXPECT_EQ(Sampler(cold, 4).sample(logits, history, 0.9), 2);
}

TEST(Sampler, RefusesLogitsThatAreNotNumbers) {
  std::vector<float> logits = {1, std::nanf(""), 3};
  Sampler sampler({}, 3);
  EXPECT_THROW(sampler.sample(logits, {}, 0.5), InputError);
}

} // namespace
} // namespace tfm
