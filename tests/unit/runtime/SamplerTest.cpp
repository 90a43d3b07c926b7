//===- SamplerTest.cpp - from logits to the next token ------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/generation/sampler.h"
#include "runtime/error.h"
#include "runtime/philox.h"
#include "tests/unit/runtime/TemporaryFolder.h"

#include <cmath>
#include <gtest/gtest.h>
#include <limits>
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

// Of the model's own distribution: -log 10 for a tenth, whatever a sampler
// would do with it.
TEST(Chances, AreThoseOfTheModel) {
  std::vector<float> logits = {std::log(0.1f), std::log(0.6f), std::log(0.1f),
                               std::log(0.2f), -INFINITY};
  for (float &logit : logits)
    logit += 100;
  Chances chances(5);
  std::vector<TokenChance> found;
  chances.append(logits, 2, 3, found);
  ASSERT_EQ(found.size(), 4u);
  // The token itself, then the best, of equals the first.
  int32_t tokens[] = {2, 1, 3, 0};
  double expected[] = {0.1, 0.6, 0.2, 0.1};
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(found[i].token, tokens[i]);
    EXPECT_NEAR(found[i].logprob, std::log(expected[i]), 1e-5);
  }
  // No more than there are; those of the next token follow.
  chances.append(logits, 4, 9, found);
  ASSERT_EQ(found.size(), 10u);
  EXPECT_EQ(found[4], (TokenChance{4, -INFINITY}));
  EXPECT_EQ(found[9], found[4]);
  chances.append(logits, 1, 0, found);
  EXPECT_EQ(found.size(), 11u);
}

// Of a vocabulary of many blocks, with more equals of the k-th than one.
TEST(Sampler, TopKOfManyTokens) {
  for (size_t vocabulary : {1, 63, 64, 65, 1000, 4097}) {
    std::vector<float> logits(vocabulary);
    for (size_t i = 0; i < vocabulary; ++i)
      logits[i] =
          static_cast<float>(
              low64(philox(7, Stream::Sample, static_cast<uint32_t>(i), 0, 0)) %
              300) /
          10;
    for (size_t k : {1, 2, 40, 64, 900}) {
      if (k >= vocabulary)
        continue;
      std::vector<float> sorted = logits;
      std::ranges::sort(sorted, std::greater<>());
      std::vector<int32_t> expected;
      for (size_t i = 0; i < vocabulary; ++i)
        if (logits[i] >= sorted[k - 1])
          expected.push_back(static_cast<int32_t>(i));
      SamplerOptions options;
      options.topK = static_cast<int64_t>(k);
      Sampler sampler(options, static_cast<int64_t>(vocabulary));
      sampler.filter(logits, {});
      EXPECT_TRUE(std::ranges::equal(sampler.kept(), expected))
          << k << " of " << vocabulary;
    }
    SamplerOptions greedy;
    greedy.greedy = true;
    EXPECT_EQ(Sampler(greedy, static_cast<int64_t>(vocabulary))
                  .sample(logits, {}, 0.5),
              std::ranges::max_element(logits) - logits.begin());
  }
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

TEST(Sampler, BiasComesFirst) {
  std::vector<float> logits = {1, 3, -1, 2};
  const double infinity = std::numeric_limits<double>::infinity();
  SamplerOptions options;
  options.bias = {{1, -infinity}, {2, 1.5}, {2, 0.5}};
  Sampler sampler(options, 4);
  sampler.filter(logits, {});
  // exp of 1, nothing, 1, 2 over their sum.
  double sum = 2 * std::exp(1) + std::exp(2);
  double expected[] = {std::exp(1) / sum, 0, std::exp(1) / sum,
                       std::exp(2) / sum};
  for (size_t i = 0; i < sampler.kept().size(); ++i)
    EXPECT_NEAR(sampler.probabilities()[i], expected[sampler.kept()[i]], 1e-12);
  options.greedy = true;
  EXPECT_EQ(Sampler(options, 4).sample(logits, {}, 0.9), 3);
  // Before the penalty: token 2 is above 0 when it is halved.
  options.repeatPenalty = 2;
  std::vector<int32_t> history = {3, 0, 2};
  EXPECT_EQ(Sampler(options, 4).sample(logits, history, 0.9), 3);
  options.bias = {{3, -3.0}};
  EXPECT_EQ(Sampler(options, 4).sample(logits, history, 0.9), 1);
  options.bias = {
      {0, -infinity}, {1, -infinity}, {2, -infinity}, {3, -infinity}};
  EXPECT_NE(test::messageOf<InputError>([&] {
              Sampler(options, 4).sample(logits, history, 0.9);
            }).find("--logit-bias"),
            std::string::npos);
}

// Every filter together with forbidden tokens still gives probabilities.
TEST(Sampler, ForbiddenTokensHarmNoFilter) {
  std::vector<float> logits = {1, 3, -1, 2};
  SamplerOptions options;
  options.bias = {{1, -std::numeric_limits<double>::infinity()}};
  options.temperature = 1e-200;
  options.topK = 3;
  options.topP = 0.99;
  options.minP = 0.01;
  options.typicalP = 0.99;
  Sampler sampler(options, 4);
  sampler.filter(logits, {});
  EXPECT_EQ(std::vector<int32_t>(sampler.kept().begin(), sampler.kept().end()),
            (std::vector<int32_t>{3}));
  EXPECT_EQ(sampler.probabilities()[0], 1.0);
}

// A tokenizer may have tokens that the model never says.
TEST(Sampler, TokensWithoutALogit) {
  SamplerOptions options;
  options.temperature = 0;
  options.repeatPenalty = 4;
  Sampler sampler(options, 3);
  std::vector<float> logits = {1, 2, 3};
  std::vector<int32_t> history = {2, 3, 1000000};
  EXPECT_EQ(sampler.sample(logits, history, 0.5), 1);
  options.bias = {{3, 1.0}};
  EXPECT_THROW(Sampler(options, 3), InputError);
}

TEST(Sampler, RefusesLogitsThatAreNotNumbers) {
  SamplerOptions greedy;
  greedy.greedy = true;
  for (float bad : {std::nanf(""), std::numeric_limits<float>::infinity()}) {
    std::vector<float> logits = {1, bad, 3};
    for (const SamplerOptions &options : {SamplerOptions(), greedy})
      EXPECT_THROW(Sampler(options, 3).sample(logits, {}, 0.5), InputError);
  }
}

} // namespace
} // namespace tfm
