//===- SamplerTest.cpp - from logits to the next token ------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/generation/sampler.h"
#include "runtime/philox.h"
#include "runtime/support/error.h"
#include "tests/unit/runtime/TemporaryFolder.h"

#include <cmath>
#include <gtest/gtest.h>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>

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

/// Logits of which some are equal.
std::vector<float> logitsWithEquals(size_t vocabulary, int values, float step) {
  std::vector<float> logits(vocabulary);
  for (size_t i = 0; i < vocabulary; ++i)
    logits[i] =
        step *
        static_cast<float>(
            low64(philox(9, Stream::Sample, static_cast<uint32_t>(i), 0, 0)) %
            static_cast<uint64_t>(values));
  return logits;
}

// The softmax in f64, to a few units in the last place, also of what is next to
// nothing or nothing.
TEST(Sampler, ProbabilitiesAreThoseOfTheSoftmax) {
  for (auto [values, step] : {std::pair(50, 0.1f), {500, 0.2f}, {900, 1.0f}})
    for (double temperature : {0.7, 1.0, 3.0}) {
      std::vector<float> logits = logitsWithEquals(1003, values, step);
      SamplerOptions options;
      options.temperature = temperature;
      Sampler sampler(options, 1003);
      sampler.filter(logits, {});
      ASSERT_EQ(sampler.kept().size(), logits.size());
      auto best = std::ranges::max_element(logits);
      std::span<const double> found = sampler.probabilities();
      double largest = found[static_cast<size_t>(best - logits.begin())];
      double sum = 0;
      for (size_t i = 0; i < logits.size(); ++i) {
        double score = (static_cast<double>(logits[i]) - *best) / temperature;
        double expected = score < -708 ? 0 : std::exp(score);
        EXPECT_NEAR(found[i] / largest, expected, 1e-15 * expected + 1e-300);
        sum += found[i];
      }
      EXPECT_NEAR(sum, 1, 1e-12);
    }
}

// Those that sorting all would keep; of equals the first.
TEST(Sampler, TopPAndTypicalPOfManyTokens) {
  for (size_t vocabulary : {1, 2, 3, 63, 1000, 4097})
    for (int values : {1, 7, 300, 100000})
      for (double share : {0.01, 0.5, 0.9, 0.999}) {
        std::vector<float> logits =
            logitsWithEquals(vocabulary, values, 10.0f / values);
        double sum = 0, entropy = 0;
        for (float logit : logits)
          sum += std::exp(logit);
        auto chance = [&](int32_t id) { return std::exp(logits[id]) / sum; };
        for (size_t i = 0; i < vocabulary; ++i)
          entropy -= chance(i) * std::log(chance(i));
        auto keptBy = [&](auto key, bool withEquals) {
          std::vector<int32_t> order(vocabulary);
          std::iota(order.begin(), order.end(), 0);
          std::ranges::sort(order, {},
                            [&](int32_t id) { return std::pair(key(id), id); });
          double reached = 0;
          size_t count = 0;
          while (count < vocabulary && reached < share)
            reached += chance(order[count++]);
          while (withEquals && count < vocabulary &&
                 key(order[count]) == key(order[count - 1]))
            ++count;
          order.resize(count);
          std::ranges::sort(order);
          return order;
        };
        auto expect = [&](const SamplerOptions &options,
                          const std::vector<int32_t> &expected) {
          Sampler sampler(options, static_cast<int64_t>(vocabulary));
          sampler.filter(logits, {});
          EXPECT_TRUE(std::ranges::equal(sampler.kept(), expected))
              << sampler.kept().size() << " instead of " << expected.size()
              << " of " << vocabulary << " with " << values << " values, "
              << share;
          double all = 0;
          for (double each : sampler.probabilities())
            all += each;
          EXPECT_NEAR(all, 1, 1e-12);
        };
        expect({.topP = share},
               keptBy([&](int32_t id) { return -logits[id]; }, false));
        expect({.typicalP = share},
               keptBy(
                   [&](int32_t id) {
                     return std::abs(-std::log(chance(id)) - entropy);
                   },
                   true));
      }
}

// Also past whole blocks of tokens, and never one that has no probability.
TEST(Sampler, DrawsFromManyTokens) {
  std::vector<float> logits = logitsWithEquals(3000, 20, 0.3f);
  SamplerOptions options;
  for (int32_t id = 2900; id < 3000; ++id)
    options.bias.emplace_back(id, -std::numeric_limits<double>::infinity());
  Sampler sampler(options, 3000);
  sampler.filter(logits, {});
  std::vector<double> chances(sampler.probabilities().begin(),
                              sampler.probabilities().end());
  double below = 0;
  for (int32_t id = 0; id < 2900; ++id) {
    EXPECT_EQ(sampler.sample(logits, {}, below + chances[id] / 2), id);
    below += chances[id];
  }
  EXPECT_EQ(sampler.sample(logits, {}, 1), 2899);
}

/// A row of logits on a device that has chosen candidates.
class Chosen : public LogitRows {
public:
  Chosen(std::span<const float> logits, size_t count) : logits(logits) {
    for (size_t i = 0; i < logits.size(); ++i)
      ids.push_back(static_cast<int32_t>(i));
    std::ranges::sort(ids, [&](int32_t a, int32_t b) {
      bool aIsNone = std::isnan(logits[a]), bIsNone = std::isnan(logits[b]);
      return aIsNone != bIsNone       ? aIsNone
             : logits[a] == logits[b] ? a < b
                                      : logits[a] > logits[b];
    });
    ids.resize(count);
    for (int32_t id : ids)
      best.push_back(logits[id]);
  }
  std::span<const float> all(int64_t) override {
    ++askedForAll;
    return logits;
  }
  Candidates candidates(int64_t) override { return {best, ids}; }

  int askedForAll = 0;

private:
  std::span<const float> logits;
  std::vector<float> best;
  std::vector<int32_t> ids;
};

// With few values many are equal: at the k-th, and at the last candidate.
TEST(Sampler, CandidatesGiveTheSameTokens) {
  const float infinity = std::numeric_limits<float>::infinity();
  int alone = 0, fellBack = 0;
  for (uint32_t seed = 0; seed < 200; ++seed) {
    auto draw = [&](uint32_t i) {
      return low64(philox(9, Stream::Sample, seed, i, 0));
    };
    uint64_t values = draw(0) % 2 ? 10 : 100000;
    std::vector<float> logits(300);
    for (uint32_t i = 0; i < 300; ++i) {
      logits[i] = static_cast<float>(draw(i + 1) % values) * 1e-4f - 3;
      if (seed % 8 == 7 && draw(i + 1) % 5)
        logits[i] = -infinity;
      if (logits[i] == -3)
        logits[i] = draw(i) % 2 ? 0.0f : -0.0f;
    }
    SamplerOptions options;
    options.greedy = seed % 5 == 0;
    options.temperature = 0.1 + static_cast<double>(draw(400) % 10) / 10;
    options.topK = static_cast<int64_t>(draw(401) % 40);
    options.topP = seed % 3 == 1 ? 0.8 : 1.0;
    options.minP = seed % 4 == 1 ? 0.01 : 0.0;
    options.typicalP = seed % 7 == 1 ? 0.9 : 1.0;
    Chosen rows(logits, 32);
    Sampler one(options, 300), other(options, 300);
    for (uint32_t i = 0; i < 20; ++i) {
      double uniform = unit(draw(500 + i));
      EXPECT_EQ(one.sample(Logits(rows, 0), {}, uniform),
                other.sample(logits, {}, uniform));
    }
    EXPECT_TRUE(std::ranges::equal(one.kept(), other.kept()));
    EXPECT_TRUE(std::ranges::equal(one.probabilities(), other.probabilities()));
    ++(rows.askedForAll ? fellBack : alone);
    // Nothing but a reason makes it ask for all.
    std::vector<float> sorted = logits;
    std::ranges::sort(sorted, std::greater<>());
    auto k = static_cast<size_t>(options.topK);
    bool settled =
        options.greedy || (k > 0 && k < 32 && sorted[31] < sorted[k - 1]);
    EXPECT_EQ(rows.askedForAll, settled ? 0 : 20) << seed;
  }
  EXPECT_GT(alone, 50);
  EXPECT_GT(fellBack, 50);
}

TEST(Sampler, AsksForAllWhereCandidatesAreNotEnough) {
  std::vector<float> logits(100);
  for (size_t i = 0; i < 100; ++i)
    logits[i] = static_cast<float>(i * 37 % 100);
  std::vector<int32_t> history = {1, 2};
  auto asked = [&](const SamplerOptions &options) {
    Chosen rows(logits, 10);
    int32_t token = Sampler(options, 100).sample(Logits(rows, 0), history, 0.3);
    EXPECT_EQ(token, Sampler(options, 100).sample(logits, history, 0.3));
    return rows.askedForAll;
  };
  EXPECT_EQ(asked({.topK = 9}), 0);
  EXPECT_EQ(asked({.topK = 10}), 1); // whether the 11th is equal, who knows
  EXPECT_EQ(asked({.topK = 0}), 1);
  EXPECT_EQ(asked({.topK = 1000}), 1);
  EXPECT_EQ(asked({.bias = {{5, 1.0}}, .topK = 3}), 1);
  EXPECT_EQ(asked({.repeatPenalty = 1.1, .topK = 3}), 1);
  EXPECT_EQ(asked({.greedy = true}), 0);
  EXPECT_EQ(asked({.bias = {{5, 1.0}}, .greedy = true}), 1);
}

TEST(Sampler, SeesAmongCandidatesThatLogitsAreNoNumbers) {
  const float infinity = std::numeric_limits<float>::infinity();
  for (float bad : {std::nanf(""), infinity, -infinity}) {
    std::vector<float> logits(20, bad == -infinity ? bad : 1.0f);
    logits[13] = bad;
    for (const SamplerOptions &options :
         {SamplerOptions{.topK = 2}, SamplerOptions{.greedy = true}}) {
      Chosen rows(logits, 4);
      std::string said = test::messageOf<InputError>(
          [&] { Sampler(options, 20).sample(Logits(rows, 0), {}, 0.5); });
      EXPECT_EQ(said, test::messageOf<InputError>([&] {
                  Sampler(options, 20).sample(logits, {}, 0.5);
                }));
      EXPECT_NE(said, "");
      EXPECT_EQ(rows.askedForAll, bad == -infinity ? 1 : 0);
    }
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

// The ends of the ranges of options: with min_p = 1 those that are as probable
// as the best, with a top_p next to nothing the first of these.
TEST(Sampler, KeepsTheBestAtTheEndsOfRanges) {
  std::vector<float> logits = {1, 3, 3, 2};
  auto kept = [&](const SamplerOptions &options) {
    Sampler sampler(options, 4);
    sampler.filter(logits, {});
    return std::vector<int32_t>(sampler.kept().begin(), sampler.kept().end());
  };
  EXPECT_EQ(kept({.minP = 1}), (std::vector<int32_t>{1, 2}));
  EXPECT_EQ(kept({.topP = 1e-20}), (std::vector<int32_t>{1}));
  logits.assign(4, 3.0f);
  EXPECT_EQ(kept({.minP = 1}).size(), 4u);
  EXPECT_EQ(kept({.topP = 1e-20}), (std::vector<int32_t>{0}));
}

// What cannot be drawn has no part in the entropy: the others are kept as if it
// were not there.
TEST(Sampler, TypicalPLeavesOutWhatIsForbidden) {
  const float infinity = std::numeric_limits<float>::infinity();
  auto kept = [](std::span<const float> logits) {
    Sampler sampler({.typicalP = 0.5}, static_cast<int64_t>(logits.size()));
    sampler.filter(logits, {});
    return std::vector<int32_t>(sampler.kept().begin(), sampler.kept().end());
  };
  std::vector<float> logits = {0, 1, 2, 3, 0.5f};
  std::vector<int32_t> expected = kept(logits);
  EXPECT_FALSE(expected.empty());
  logits.push_back(-infinity);
  EXPECT_EQ(kept(logits), expected);
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
