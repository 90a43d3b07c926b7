//===- sampler.cpp - from logits to the next token ----------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/generation/sampler.h"

#include "runtime/error.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <string>

namespace tfm {

int32_t greedyToken(std::span<const float> logits) {
  return static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) -
                              logits.begin());
}

Chances::Chances(int64_t vocabulary) : order(static_cast<size_t>(vocabulary)) {}

void Chances::append(std::span<const float> logits, int32_t token,
                     int64_t count, std::vector<TokenChance> &to) {
  auto logit = [&](int32_t id) {
    return static_cast<double>(logits[static_cast<size_t>(id)]);
  };
  double highest =
      static_cast<double>(*std::max_element(logits.begin(), logits.end()));
  double sum = 0;
  for (float value : logits)
    sum += std::exp(static_cast<double>(value) - highest);
  double all = highest + std::log(sum);
  to.push_back({token, logit(token) - all});
  order.resize(logits.size());
  std::iota(order.begin(), order.end(), 0);
  auto best = std::min(static_cast<size_t>(count), order.size());
  auto end = order.begin() + static_cast<ptrdiff_t>(best);
  std::partial_sort(order.begin(), end, order.end(), [&](int32_t a, int32_t b) {
    return logit(a) != logit(b) ? logit(a) > logit(b) : a < b;
  });
  for (auto id = order.begin(); id != end; ++id)
    to.push_back({*id, logit(*id) - all});
}

Sampler::Sampler(const SamplerOptions &options, int64_t vocabulary)
    : options(options) {
  auto size = static_cast<size_t>(vocabulary);
  tokens.reserve(size);
  logit.resize(size);
  shares.reserve(size);
  scratch.reserve(size);
  order.reserve(size);
  marked.resize(size);
  for (const auto &[token, bias] : options.bias)
    if (token >= vocabulary)
      throw InputError("--logit-bias: the model gives no logit for the token " +
                       std::to_string(token) + ", only for " +
                       std::to_string(vocabulary));
}

int32_t Sampler::sample(std::span<const float> logits,
                        std::span<const int32_t> history, double uniform) {
  filter(logits, history);
  if (isGreedy())
    return *std::max_element(
        tokens.begin(), tokens.end(), [&](int32_t a, int32_t b) {
          return logit[a] != logit[b] ? logit[a] < logit[b] : a > b;
        });
  double sum = 0;
  for (size_t i = 0; i < tokens.size(); ++i) {
    sum += shares[i];
    if (uniform < sum)
      return tokens[i];
  }
  return tokens.back(); // the shares add up to a little less than 1
}

void Sampler::filter(std::span<const float> logits,
                     std::span<const int32_t> history) {
  tokens.resize(logits.size());
  std::iota(tokens.begin(), tokens.end(), 0);
  for (size_t i = 0; i < logits.size(); ++i) {
    if (std::isnan(logits[i]) || logits[i] > std::numeric_limits<float>::max())
      throw InputError("the model gives logits that are not numbers: the "
                       "weights are damaged, or training has diverged");
    logit[i] = static_cast<double>(logits[i]);
  }
  for (const auto &[token, bias] : options.bias)
    logit[token] += bias;
  if (options.repeatPenalty != 1.0) {
    std::fill(marked.begin(), marked.end(), 0);
    for (int32_t token : history) {
      // A text may hold tokens that the model never says.
      if (static_cast<size_t>(token) >= logit.size() || marked[token])
        continue;
      marked[token] = 1;
      logit[token] = logit[token] < 0 ? logit[token] * options.repeatPenalty
                                      : logit[token] / options.repeatPenalty;
    }
  }
  if (std::ranges::all_of(logit, [](double value) {
        return value == -std::numeric_limits<double>::infinity();
      }))
    throw InputError(
        "no token is left to choose: --logit-bias forbids all that "
        "the model could say");
  if (isGreedy())
    return;
  // From the highest down: no temperature, however low, makes it infinite.
  double highest = *std::max_element(logit.begin(), logit.end());
  for (double &value : logit)
    value = (value - highest) / options.temperature;
  if (options.topK > 0)
    keepTopK();
  if (options.topP < 1)
    keepTopP();
  if (options.minP > 0)
    keepMinP();
  if (options.typicalP < 1)
    keepTypical();
  normalise();
}

/// Softmax over what is left.
void Sampler::normalise() {
  double highest = -std::numeric_limits<double>::infinity();
  for (int32_t token : tokens)
    highest = std::max(highest, logit[token]);
  shares.resize(tokens.size());
  double sum = 0;
  for (size_t i = 0; i < tokens.size(); ++i)
    sum += shares[i] = std::exp(logit[tokens[i]] - highest);
  for (double &share : shares)
    share /= sum;
}

/// Keeps the tokens at positions where `predicate(position)`.
template <typename Predicate> void Sampler::keepWhere(Predicate predicate) {
  size_t count = 0;
  for (size_t i = 0; i < tokens.size(); ++i)
    if (predicate(i))
      tokens[count++] = tokens[i];
  tokens.resize(count);
}

void Sampler::keepTopK() {
  int64_t k = options.topK;
  if (k >= static_cast<int64_t>(tokens.size()))
    return;
  scratch.assign(logit.begin(), logit.end());
  std::nth_element(scratch.begin(), scratch.begin() + (k - 1), scratch.end(),
                   std::greater<>());
  double least = scratch[static_cast<size_t>(k - 1)];
  keepWhere([&](size_t i) { return logit[tokens[i]] >= least; });
}

void Sampler::keepTopP() {
  normalise();
  // A heap gives the most probable first; usually few are needed.
  order.resize(tokens.size());
  std::iota(order.begin(), order.end(), 0);
  auto less = [&](int32_t a, int32_t b) { return shares[a] < shares[b]; };
  std::make_heap(order.begin(), order.end(), less);
  std::fill(marked.begin(), marked.end(), 0);
  double sum = 0;
  for (auto end = order.end(); end != order.begin(); --end) {
    std::pop_heap(order.begin(), end, less);
    int32_t position = *(end - 1);
    marked[tokens[position]] = 1;
    sum += shares[position];
    if (sum >= options.topP)
      break;
  }
  keepWhere([&](size_t i) { return marked[tokens[i]] != 0; });
}

void Sampler::keepMinP() {
  normalise();
  double least = options.minP * *std::max_element(shares.begin(), shares.end());
  keepWhere([&](size_t i) { return shares[i] >= least; });
}

void Sampler::keepTypical() {
  normalise();
  double entropy = 0;
  for (double share : shares)
    entropy -= share > 0 ? share * std::log(share) : 0;
  scratch.resize(tokens.size());
  for (size_t i = 0; i < tokens.size(); ++i)
    scratch[i] = std::abs(-std::log(shares[i]) - entropy);
  order.resize(tokens.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    return scratch[a] != scratch[b] ? scratch[a] < scratch[b] : a < b;
  });
  double sum = 0;
  double farthest = scratch[order.back()];
  for (int32_t position : order) {
    sum += shares[position];
    if (sum >= options.typicalP) {
      farthest = scratch[position];
      break;
    }
  }
  keepWhere([&](size_t i) { return scratch[i] <= farthest; });
}

} // namespace tfm
