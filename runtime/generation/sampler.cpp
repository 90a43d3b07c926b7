//===- sampler.cpp - from logits to the next token ----------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/generation/sampler.h"

#include "runtime/error.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <string>

namespace tfm {

namespace {

/// The largest of some values, in lanes of which compilers make vectors; minus
/// infinity of none.
template <typename T> T largestOf(std::span<const T> values) {
  std::array<T, 16> lanes;
  lanes.fill(-std::numeric_limits<T>::infinity());
  size_t whole = values.size() / lanes.size() * lanes.size();
  for (size_t i = 0; i < whole; i += lanes.size())
    for (size_t lane = 0; lane < lanes.size(); ++lane)
      lanes[lane] = std::max(lanes[lane], values[i + lane]);
  for (size_t i = whole; i < values.size(); ++i)
    lanes[0] = std::max(lanes[0], values[i]);
  return *std::ranges::max_element(lanes);
}

/// Where the largest is first; one pass finds the block that it is in.
template <typename T> int32_t firstLargest(std::span<const T> values) {
  constexpr size_t block = 512;
  T largest = -std::numeric_limits<T>::infinity();
  size_t first = 0;
  for (size_t i = 0; i < values.size(); i += block)
    if (T of = largestOf(values.subspan(i, std::min(block, values.size() - i)));
        of > largest) {
      largest = of;
      first = i;
    }
  auto found = std::find(values.begin() + static_cast<ptrdiff_t>(first),
                         values.end(), largest);
  return found == values.end() ? 0
                               : static_cast<int32_t>(found - values.begin());
}

void requireNumbers(std::span<const float> logits) {
  bool areNumbers = true;
  for (float value : logits)
    areNumbers &= value <= std::numeric_limits<float>::max();
  if (!areNumbers)
    throw InputError("the model gives logits that are not numbers: the "
                     "weights are damaged, or training has diverged");
}

} // namespace

int32_t greedyToken(std::span<const float> logits) {
  return firstLargest(logits);
}

Chances::Chances(int64_t vocabulary) : order(static_cast<size_t>(vocabulary)) {}

void Chances::append(std::span<const float> logits, int32_t token,
                     int64_t count, std::vector<TokenChance> &to) {
  auto logit = [&](int32_t id) {
    return static_cast<double>(logits[static_cast<size_t>(id)]);
  };
  auto highest = static_cast<double>(largestOf(logits));
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

int32_t Sampler::sample(const Logits &logits, std::span<const int32_t> history,
                        double uniform) {
  constexpr float lowest = -std::numeric_limits<float>::infinity();
  if (isGreedy()) {
    if (takesLogitsAsTheyAre()) {
      Candidates best = logits.candidates();
      requireNumbers(best.logits);
      if (!best.ids.empty() && best.logits[0] > lowest)
        return best.ids[0];
    }
    std::span<const float> all = logits.all();
    if (takesLogitsAsTheyAre()) {
      requireNumbers(all);
      int32_t best = greedyToken(all);
      if (all[best] > lowest)
        return best;
    }
    adjust(all, history);
    return firstLargest(std::span<const double>(logit));
  }
  filter(logits, history);
  double sum = 0;
  for (size_t i = 0; i < tokens.size(); ++i) {
    sum += shares[i];
    if (uniform < sum)
      return tokens[i];
  }
  return tokens.back(); // the shares add up to a little less than 1
}

/// Fills `logit`, and returns the highest.
double Sampler::adjust(std::span<const float> logits,
                       std::span<const int32_t> history) {
  requireNumbers(logits);
  std::ranges::copy(logits, logit.begin());
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
  double highest = largestOf(std::span<const double>(logit));
  if (highest == -std::numeric_limits<double>::infinity())
    throw InputError(
        "no token is left to choose: --logit-bias forbids all that "
        "the model could say");
  return highest;
}

/// Fills `tokens` and their `logit` as `adjust` and `keepTopK` do with all
/// logits; whether candidates tell which these are: where there is one behind
/// all that equal the k-th.
bool Sampler::keepCandidates(const Candidates &best) {
  auto count = static_cast<size_t>(options.topK);
  if (!takesLogitsAsTheyAre() || options.topK <= 0 ||
      count >= best.logits.size())
    return false;
  // What is no number comes first.
  requireNumbers(best.logits);
  auto end = std::find_if(
      best.logits.begin() + static_cast<ptrdiff_t>(count), best.logits.end(),
      [&](float value) { return value < best.logits[count - 1]; });
  if (end == best.logits.end())
    return false;
  auto kept = static_cast<size_t>(end - best.logits.begin());
  for (size_t i = 0; i < kept; ++i)
    logit[best.ids[i]] = best.logits[i];
  tokens.assign(best.ids.begin(),
                best.ids.begin() + static_cast<ptrdiff_t>(kept));
  // Sums go by ids.
  std::ranges::sort(tokens);
  return true;
}

void Sampler::filter(const Logits &logits, std::span<const int32_t> history) {
  double highest;
  Candidates best = logits.candidates();
  if (keepCandidates(best)) {
    highest = best.logits[0];
  } else {
    highest = adjust(logits.all(), history);
    keepTopK();
  }
  // From the highest down: no temperature, however low, makes it infinite.
  for (int32_t token : tokens)
    logit[token] = (logit[token] - highest) / options.temperature;
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

/// Fills `tokens`, of all that there are.
void Sampler::keepTopK() {
  auto count = static_cast<size_t>(options.topK);
  bool keepsAll = options.topK <= 0 || count >= logit.size();
  double least = -std::numeric_limits<double>::infinity();
  // So many blocks have a value that is at least the smallest of the largest
  // ones' largest: few tokens reach that, and only they have to be compared.
  constexpr size_t block = 64;
  scratch.clear();
  for (size_t i = 0; i < logit.size(); i += block)
    scratch.push_back(largestOf(std::span<const double>(logit).subspan(
        i, std::min(block, logit.size() - i))));
  auto atLeast = [&] {
    auto last = scratch.begin() + static_cast<ptrdiff_t>(count) - 1;
    std::nth_element(scratch.begin(), last, scratch.end(), std::greater<>());
    return *last;
  };
  if (!keepsAll && count <= scratch.size())
    least = atLeast();
  tokens.clear();
  for (size_t i = 0; i < logit.size(); ++i)
    if (logit[i] >= least)
      tokens.push_back(static_cast<int32_t>(i));
  if (keepsAll)
    return;
  scratch.clear();
  for (int32_t token : tokens)
    scratch.push_back(logit[token]);
  least = atLeast();
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
