//===- sampler.cpp - from logits to the next token ----------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/generation/sampler.h"

#include "runtime/support/error.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <numbers>
#include <numeric>
#include <string>

namespace tfm {

namespace {

/// The largest of some values, in lanes of which compilers make vectors; minus
/// infinity of none.
template <typename T, typename Number = std::remove_const_t<T>>
Number largestOf(std::span<T> values) {
  std::array<Number, 16> lanes;
  lanes.fill(-std::numeric_limits<Number>::infinity());
  size_t whole = values.size() / lanes.size() * lanes.size();
  for (size_t i = 0; i < whole; i += lanes.size())
    for (size_t lane = 0; lane < lanes.size(); ++lane)
      lanes[lane] = std::max(lanes[lane], values[i + lane]);
  for (size_t i = whole; i < values.size(); ++i)
    lanes[0] = std::max(lanes[0], values[i]);
  return *std::ranges::max_element(lanes);
}

/// Their sum, in lanes as well.
double sumOf(std::span<const double> values) {
  std::array<double, 8> lanes{};
  size_t whole = values.size() / lanes.size() * lanes.size();
  for (size_t i = 0; i < whole; i += lanes.size())
    for (size_t lane = 0; lane < lanes.size(); ++lane)
      lanes[lane] += values[i + lane];
  for (size_t i = whole; i < values.size(); ++i)
    lanes[0] += values[i];
  return std::accumulate(lanes.begin(), lanes.end(), 0.0);
}

/// Replaces values of at most 0 by their exponentials, to 2 units in the last
/// place; of what is below -708, to where numbers are normal, by 0. Without
/// branches or calls, so that compilers make vectors of it: exp(x) is 2^k
/// exp(r), r at most half of log(2), of which Taylor's series to the 13th power
/// leaves less than 2^-57.
[[gnu::always_inline]] inline void exponentialsOf(std::span<double> values) {
  constexpr double lowest = -708;
  // Added to a number below 2^51 it leaves the nearest integer in the last
  // bits.
  constexpr double rounding = 0x1.8p52;
  // The first has so few bits that multiples are exact.
  constexpr double log2High = 0x1.62e42fee00000p-1,
                   log2Low = 0x1.a39ef35793c76p-33;
  constexpr std::array<double, 14> factors = [] {
    std::array<double, 14> reciprocals{};
    double factorial = 1;
    for (size_t n = 0; n < reciprocals.size(); ++n) {
      factorial *= n == 0 ? 1.0 : static_cast<double>(n);
      reciprocals[n] = 1 / factorial;
    }
    return reciprocals;
  }();
  for (double &value : values) {
    double x = std::max(value, lowest);
    double rounded = x * std::numbers::log2e + rounding;
    double k = rounded - rounding;
    double r = x - k * log2High - k * log2Low;
    double series = factors.back();
    for (size_t n = factors.size() - 1; n-- > 0;)
      series = series * r + factors[n];
    auto power =
        std::bit_cast<double>((std::bit_cast<uint64_t>(rounded) << 52) +
                              std::bit_cast<uint64_t>(1.0));
    value = value < lowest ? 0 : series * power;
  }
}

#if defined(__x86_64__)
__attribute__((target("avx2,fma"))) void
exponentials256(std::span<double> values) {
  exponentialsOf(values);
}
#endif

void exponentials(std::span<double> values) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    return exponentials256(values);
#endif
  exponentialsOf(values);
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

/// Throws NothingToChoose where there is none.
template <typename Values> double highestOf(const Values &values) {
  double highest = largestOf(std::span(values));
  if (highest == -std::numeric_limits<double>::infinity())
    throw NothingToChoose(
        "no token is left to choose: --logit-bias or --repeat-penalty forbids "
        "all that the model could say");
  return highest;
}

/// Throws NothingToChoose where some are none.
void requireNumbers(std::span<const float> logits) {
  bool areNumbers = true;
  for (float value : logits)
    areNumbers &= value <= std::numeric_limits<float>::max();
  if (!areNumbers)
    throw NothingToChoose("the model gives logits that are not numbers: the "
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
  std::array<double, 256> some;
  for (size_t i = 0; i < logits.size(); i += some.size()) {
    auto from = logits.subspan(i, std::min(some.size(), logits.size() - i));
    std::ranges::transform(from, some.begin(), [&](float value) {
      return static_cast<double>(value) - highest;
    });
    exponentials(std::span(some).first(from.size()));
    sum += sumOf(std::span(some).first(from.size()));
  }
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
  scores.reserve(size);
  shares.reserve(size);
  scratch.reserve(size);
  ranked.reserve(size);
  marked.resize(size);
  for (const auto &[token, bias] : options.bias)
    if (token >= vocabulary)
      throw InputError("--logit-bias: the model gives no logit for the token "
                       "{}, only for {}",
                       token, vocabulary);
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
  // First past tokens that are too few together.
  constexpr size_t block = 256;
  double sum = 0;
  size_t i = 0;
  for (; i + block <= shares.size(); i += block) {
    double next = sum + sumOf(std::span(shares).subspan(i, block));
    if (uniform < next)
      break;
    sum = next;
  }
  for (; i < shares.size(); ++i) {
    sum += shares[i];
    if (uniform < sum)
      return tokens[i];
  }
  // The shares add up to a little less than 1.
  auto last = std::ranges::find_if(shares.rbegin(), shares.rend(),
                                   [](double share) { return share > 0; });
  return tokens[static_cast<size_t>(shares.rend() - last) - 1];
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
  return highestOf(logit);
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
  } else if (keepsTopK() && takesLogitsAsTheyAre()) {
    std::span<const float> all = logits.all();
    requireNumbers(all);
    highest = highestOf(all);
    keepTopK(all);
    for (int32_t token : tokens)
      logit[token] = all[token];
  } else {
    highest = adjust(logits.all(), history);
    if (keepsTopK()) {
      keepTopK(std::span<const double>(logit));
    } else {
      tokens.resize(logit.size());
      std::iota(tokens.begin(), tokens.end(), 0);
    }
  }
  // From the highest down: no temperature, however low, makes it infinite.
  scores.resize(tokens.size());
  for (size_t i = 0; i < tokens.size(); ++i)
    scores[i] = logit[tokens[i]];
  for (double &score : scores)
    score = (score - highest) / options.temperature;
  shares = scores;
  exponentials(shares);
  if (options.topP < 1)
    keepTopP();
  if (options.minP > 0)
    keepMinP();
  if (options.typicalP < 1)
    keepTypical();
  double scale = 1 / sumOf(shares);
  for (double &share : shares)
    share *= scale;
}

/// Keeps the tokens at positions where `predicate(position)`.
template <typename Predicate> void Sampler::keepWhere(Predicate predicate) {
  size_t count = 0;
  for (size_t i = 0; i < tokens.size(); ++i)
    if (predicate(i)) {
      tokens[count] = tokens[i];
      scores[count] = scores[i];
      shares[count++] = shares[i];
    }
  tokens.resize(count);
  scores.resize(count);
  shares.resize(count);
}

/// Of `ranked` as many as it takes for their shares to add up to `wanted`,
/// those of the least keys: the last of these; of all where they do not.
Sampler::Boundary Sampler::boundaryAt(double wanted) {
  auto first = ranked.begin(), last = ranked.end();
  // Those before `first` are too few, those before `last` are enough.
  for (double sum = 0; last - first > 1;) {
    auto middle = first + (last - first) / 2;
    std::nth_element(first, middle, last, [](const Ranked &a, const Ranked &b) {
      return a.key < b.key;
    });
    double more = 0;
    for (auto each = first; each != middle; ++each)
      more += each->share;
    if (sum + more >= wanted) {
      last = middle;
    } else {
      sum += more;
      first = middle;
    }
  }
  double key = (last - 1)->key;
  return {key, std::count_if(ranked.begin(), last, [&](const Ranked &each) {
            return each.key == key;
          })};
}

/// Fills `tokens`, of all that there are.
template <typename T> void Sampler::keepTopK(std::span<const T> logits) {
  auto count = static_cast<size_t>(options.topK);
  auto least = -std::numeric_limits<T>::infinity();
  auto atLeast = [&] {
    auto last = scratch.begin() + static_cast<ptrdiff_t>(count) - 1;
    std::nth_element(scratch.begin(), last, scratch.end(), std::greater<>());
    return static_cast<T>(*last);
  };
  // So many blocks have a value that is at least the smallest of the largest
  // ones' largest: few tokens reach that, and only they have to be compared.
  constexpr size_t block = 64;
  auto blockAt = [&](size_t first) {
    return logits.subspan(first, std::min(block, logits.size() - first));
  };
  scratch.clear();
  for (size_t first = 0; first < logits.size(); first += block)
    scratch.push_back(largestOf(blockAt(first)));
  if (count <= scratch.size())
    least = atLeast();
  tokens.clear();
  for (size_t first = 0; first < logits.size(); first += block) {
    std::span<const T> some = blockAt(first);
    if (largestOf(some) < least)
      continue;
    for (size_t i = 0; i < some.size(); ++i)
      if (some[i] >= least)
        tokens.push_back(static_cast<int32_t>(first + i));
  }
  scratch.clear();
  for (int32_t token : tokens)
    scratch.push_back(logits[token]);
  least = atLeast();
  std::erase_if(tokens, [&](int32_t token) { return logits[token] < least; });
}

void Sampler::keepTopP() {
  double all = sumOf(shares);
  // All that have less together have no more than what is not wanted.
  double least = (1 - options.topP) * all / static_cast<double>(shares.size());
  ranked.clear();
  for (double share : shares)
    if (share >= least)
      ranked.push_back({-share, share});
  auto [key, equals] = boundaryAt(options.topP * all);
  keepWhere([this, last = -key, left = equals](size_t i) mutable {
    return shares[i] > last || (shares[i] == last && left-- > 0);
  });
}

void Sampler::keepMinP() {
  double least = options.minP * largestOf(std::span(shares));
  keepWhere([&](size_t i) { return shares[i] >= least; });
}

void Sampler::keepTypical() {
  double all = sumOf(shares), logOfAll = std::log(all);
  double entropy = 0;
  for (size_t i = 0; i < shares.size(); ++i)
    entropy += shares[i] > 0 ? shares[i] / all * (logOfAll - scores[i]) : 0;
  auto distance = [&](size_t i) {
    return std::abs(logOfAll - scores[i] - entropy);
  };
  ranked.clear();
  for (size_t i = 0; i < shares.size(); ++i)
    ranked.push_back({distance(i), shares[i]});
  double farthest = boundaryAt(options.typicalP * all).key;
  keepWhere([&](size_t i) { return distance(i) <= farthest; });
}

} // namespace tfm
