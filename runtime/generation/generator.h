//===- generator.h - text, token by token -------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_RUNTIME_GENERATION_GENERATOR_H
#define TFM_RUNTIME_GENERATION_GENERATOR_H

#include "runtime/generation/sampler.h"
#include "runtime/model.h"
#include "runtime/recipe.h"
#include "runtime/tokenizer/tokenizer.h"

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace tfm {

/// Gives the logits that follow a growing sequence. The one place that knows
/// whether a model is evaluated whole or with a cache.
class LogitsSource {
public:
  virtual ~LogitsSource() = default;
  /// Tokens that can be looked back on.
  virtual int64_t context() const = 0;
  virtual int64_t vocabulary() const = 0;
  /// Begins a sequence; logits [vocabulary] after its last token. A prompt
  /// longer than the context counts with its newest tokens only.
  virtual std::span<const float> start(std::span<const int32_t> prompt) = 0;
  /// The logits after one more token. A full context slides.
  virtual std::span<const float> next(int32_t token) = 0;
};

/// Evaluates `forward` on the newest `context` tokens, for every token anew.
/// `context` 0 is all that `forward` takes. A text that is shorter than that
/// must have logits of its own (`requireOwnLogits`).
std::unique_ptr<LogitsSource> wholeSequence(Model &model, int64_t context);

/// Throws InputError where the logits after `text` depend on what stands right
/// of it in `forward`, as in a model that is not causal: only a text that fills
/// its positions has logits there.
void requireOwnLogits(Model &model, std::span<const int32_t> text);

/// Throws InputError where the logits of `forward` tell more tokens apart than
/// the model takes: one of them could follow, and would have no row in a table.
void requireRows(const Model &model);

/// Runs `prefill` over a prompt chunk by chunk and `decode` for each token
/// more; what they have seen stays in their cache, which holds `context`
/// tokens. Once it is full, every token means to prefill the newest `context`
/// tokens anew: exactly what `forward` on that window gives.
std::unique_ptr<LogitsSource> cachedSequence(Model &model, int64_t context);

/// The best source that a build offers: cached where it has `prefill` and
/// `decode`.
std::unique_ptr<LogitsSource> openLogits(Model &model, int64_t context);

struct GenerateOptions {
  SamplerOptions sampler;
  int64_t tokens = 200;
  bool stopWhenFull = false; ///< instead of sliding on
  uint64_t seed = 0;
  /// Number of the sequence: each has its own random numbers.
  uint32_t sequence = 0;
  /// Texts at which generation ends; they are not part of the result.
  std::vector<std::string> stop;
  /// Tokens that end it; not part of the result either.
  std::vector<int32_t> endTokens;
  /// Ends it after the token in work, where given.
  const std::atomic<bool> *interrupt = nullptr;
};

struct Generated {
  std::string text;
  /// The tokens of the text, without end tokens; the last may reach into the
  /// stop text that followed.
  std::vector<int32_t> ids;
  /// How many were drawn: these and those of a stop text.
  size_t drawn = 0;
  double seconds = 0;
};

/// Continues a prompt, which must not be empty. `print` gets the text as it
/// comes, always in whole characters.
Generated generate(LogitsSource &logits, const Tokenizer &tokenizer,
                   std::span<const int32_t> prompt,
                   const GenerateOptions &options,
                   const std::function<void(std::string_view)> &print);

/// The tokens of a prompt, behind those that the tokenizer begins every text
/// with (unless the model was trained without them); an empty one begins with
/// these, or a new line, or whatever the vocabulary has. Errors begin with
/// `origin`.
std::vector<int32_t> promptTokens(const Tokenizer &tokenizer,
                                  std::string_view prompt,
                                  bool withBegin = true,
                                  const std::string &origin = "the prompt");

/// The recipe's generation defaults, and the tokens that end a text.
GenerateOptions defaultOptions(const Recipe &recipe,
                               const Tokenizer &tokenizer);

} // namespace tfm

#endif // TFM_RUNTIME_GENERATION_GENERATOR_H
