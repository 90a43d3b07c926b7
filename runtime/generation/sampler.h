//===- sampler.h - from logits to the next token ------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_RUNTIME_GENERATION_SAMPLER_H
#define TFM_RUNTIME_GENERATION_SAMPLER_H

#include "runtime/generation/logits.h"
#include "runtime/support/error.h"

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace tfm {

/// Filters in the order in which they are applied, each to the result of the
/// one before, as `generate` of Hugging Face transformers does.
struct SamplerOptions {
  /// Added to the logits of single tokens; minus infinity forbids one.
  std::vector<std::pair<int32_t, double>> bias = {};
  /// Tokens of the history, each once: a logit below 0 is multiplied by it,
  /// another divided (Keskar et al. 2019).
  double repeatPenalty = 1.0;
  double temperature = 1.0;
  int64_t topK = 0;      ///< 0: off; ties with the k-th are kept
  double topP = 1.0;     ///< 1: off (Holtzman et al. 2020)
  double minP = 0.0;     ///< 0: off (Nguyen et al. 2024)
  double typicalP = 1.0; ///< 1: off (Meister et al. 2022)
  bool greedy = false;   ///< also when temperature is 0

  /// Whether tokens are drawn at random.
  bool draws() const { return !greedy && temperature > 0; }
};

/// The most probable token; of equals the first.
int32_t greedyToken(std::span<const float> logits);

/// A token and the natural logarithm of its probability.
struct TokenChance {
  int32_t token = 0;
  double logprob = 0;
  bool operator==(const TokenChance &) const = default;
};

/// The distribution that a model gives, the softmax of its logits, before any
/// filter. Keeps its buffer, so that asking allocates nothing.
class Chances {
public:
  explicit Chances(int64_t vocabulary);

  /// Appends to `to` the chance of `token`, and behind it those of the `count`
  /// most probable tokens (of all, where there are fewer), the best first; of
  /// equals the one of the smaller id.
  void append(std::span<const float> logits, int32_t token, int64_t count,
              std::vector<TokenChance> &to);

private:
  std::vector<int32_t> order;
};

/// The options leave no token of those that the model could say, or its logits
/// are not numbers.
class NothingToChoose : public InputError {
public:
  using InputError::InputError;
};

/// Draws tokens. Keeps its buffers, so that drawing allocates nothing.
class Sampler {
public:
  Sampler(const SamplerOptions &options, int64_t vocabulary);

  /// The next token; `uniform` in [0, 1) decides. `history` are the tokens so
  /// far. Throws NothingToChoose.
  /// Where candidates decide, with the bits that all logits would give, it asks
  /// for no others.
  int32_t sample(const Logits &logits, std::span<const int32_t> history,
                 double uniform);

  /// Fills `kept()` and their `probabilities()` for these logits.
  void filter(const Logits &logits, std::span<const int32_t> history);
  /// Tokens that survive the filters, in no particular order.
  std::span<const int32_t> kept() const { return tokens; }
  /// Probability of each kept token.
  std::span<const double> probabilities() const { return shares; }

private:
  bool isGreedy() const { return !options.draws(); }
  bool takesLogitsAsTheyAre() const {
    return options.bias.empty() && options.repeatPenalty == 1.0;
  }
  bool keepCandidates(const Candidates &best);
  double adjust(std::span<const float> logits,
                std::span<const int32_t> history);
  bool keepsTopK() const {
    return options.topK > 0 && static_cast<size_t>(options.topK) < logit.size();
  }
  template <typename T> void keepTopK(std::span<const T> logits);
  void keepTopP();
  void keepMinP();
  void keepTypical();
  template <typename Predicate> void keepWhere(Predicate predicate);
  /// The key of the last that is kept, and how many with this key are.
  struct Boundary {
    double key;
    ptrdiff_t equals;
  };
  Boundary boundaryAt(double wanted);

  SamplerOptions options;
  std::vector<int32_t> tokens; ///< still in the race
  std::vector<double> logit;   ///< by token
  std::vector<double> scores;  ///< by position in `tokens`, the highest is 0
  std::vector<double> shares; ///< by position, of what is left; at the end of 1
  std::vector<double> scratch;
  struct Ranked {
    double key, share;
  };
  std::vector<Ranked> ranked; ///< those among which a filter finds a boundary
  std::vector<char> marked;   ///< by token
};

} // namespace tfm

#endif // TFM_RUNTIME_GENERATION_SAMPLER_H
