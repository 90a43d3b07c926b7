//===- generator.h - texts, token by token ------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_RUNTIME_GENERATION_GENERATOR_H
#define TFM_RUNTIME_GENERATION_GENERATOR_H

#include "runtime/generation/logits_source.h"
#include "runtime/generation/sampler.h"
#include "runtime/recipe.h"
#include "runtime/support/utf8.h"
#include "runtime/tokenizer/tokenizer.h"

#include <atomic>
#include <functional>
#include <string>
#include <vector>

namespace tfm {

/// What ended a text.
enum class Ending {
  EndToken,    ///< the model drew one of `endTokens`
  Tokens,      ///< there were as many as it may have
  Stop,        ///< one of the stop texts came
  Context,     ///< the context is full, and does not slide
  Interrupted, ///< somebody wanted no more of it
  Failed,      ///< there was no token to choose (`NothingToChoose`)
};

struct GenerateOptions {
  SamplerOptions sampler;
  int64_t tokens = 200;
  bool stopWhenFull = false; ///< instead of sliding on
  uint64_t seed = 0;
  bool isNamedSeed = true; ///< else who wants the text again has to be told
  /// Number of the sequence: each has its own random numbers.
  uint32_t sequence = 0;
  /// Texts at which generation ends; they are not part of the result.
  std::vector<std::string> stop;
  /// Tokens that end it; not part of the result either.
  std::vector<int32_t> endTokens;
  /// Of each token its chance and those of so many of the best, as the model
  /// gives them; -1: none.
  int64_t logprobs = -1;
  /// At most so many tokens are proposed from the text so far (`lookUp`), and
  /// verified together: faster where it repeats itself, and the same tokens.
  int64_t lookahead = 0;
  /// Of each prompt whether nothing of it stands before its text where that is
  /// read: the text is an answer, or the prompt is empty. So nothing parts the
  /// text from it. Those of more prompts do not.
  std::vector<bool> alone;
  /// Ends it after the token in work, where given.
  const std::atomic<bool> *interrupt = nullptr;

  bool standsAlone(size_t prompt) const {
    return prompt < alone.size() && alone[prompt];
  }
  bool isInterrupted() const { return interrupt && interrupt->load(); }
};

struct Generated {
  std::string text;
  /// The tokens of the text, without end tokens; the last may reach into the
  /// stop text that followed.
  std::vector<int32_t> ids;
  /// How many were drawn: these, and those of a stop text or an end token.
  size_t drawn = 0;
  Ending ended = Ending::Tokens;
  /// The stop text that ended it, the end token as it is in the vocabulary, or
  /// why it failed; else empty.
  std::string endedBy;
  /// From the beginning, reading the prompt, to the first draw, and to the end.
  double firstSeconds = 0;
  double seconds = 0;
  /// Of each of `ids`, and then those of the best tokens in its place, as many
  /// for each of `ids`; empty where nobody asked (`GenerateOptions::logprobs`).
  std::vector<TokenChance> chances;
};

/// Where the characters of a text go as they come, always whole ones.
using TextSink = std::function<void(std::string_view)>;

/// A text that grows by a token at a time, whoever computes the logits.
class GrowingText {
public:
  /// `prompt` must not be empty; `sequence` stands for that of the options, as
  /// `standsAlone` does, and `context` is that of the logits. The tokenizer,
  /// the options and `print` must live as long.
  GrowingText(const Tokenizer &tokenizer, std::span<const int32_t> prompt,
              const GenerateOptions &options, uint32_t sequence,
              bool standsAlone, int64_t context, const TextSink &print);

  /// Draws the token that follows, given the logits after the last one. Several
  /// texts may do so at the same time, each with a sampler of its own.
  void draw(Sampler &sampler, Chances &chances, const Logits &logits);
  /// Adds what was drawn; whether the text goes on.
  bool grow();
  /// Ends it; false, as it does not go on.
  bool end(Ending how, std::string what = "");
  /// The newest token.
  int32_t last() const { return history.back(); }
  /// The prompt, and what has come behind it.
  std::span<const int32_t> tokens() const { return history; }
  /// What has come of it, once it does not go on.
  Generated finish();

private:
  bool isEnd(int32_t token) const;

  const Tokenizer &tokenizer;
  const GenerateOptions &options;
  const TextSink &print;
  uint32_t sequence;
  bool standsAlone;
  int64_t context;
  double began;
  Generated result;
  Utf8Stream characters;
  std::vector<int32_t> history;
  /// What was drawn, and is not added yet, or why nothing could be.
  int32_t drawn = 0;
  std::string failure;
  size_t longestStop = 0;
  size_t printed = 0;
  std::string bytes;
  /// Where in the text each token begins.
  std::vector<size_t> begins;
};

/// Continues a prompt, which must not be empty. `print` gets the text as it
/// comes. Throws NothingToChoose.
Generated generate(LogitsSource &logits, const Tokenizer &tokenizer,
                   std::span<const int32_t> prompt,
                   const GenerateOptions &options, const TextSink &print);

/// Who is told of many texts, each by its number.
class TextAudience {
public:
  virtual ~TextAudience() = default;
  /// More of a text.
  virtual void show(size_t text, std::string_view part) = 0;
  virtual void end(size_t text, Generated generated) = 0;
  /// All texts have `tokens` more.
  virtual void drew(size_t tokens) { (void)tokens; }
};

/// Continues each of `prompts` `copies` times, as many texts together as the
/// logits have places. The texts of the first prompt have the numbers 0 to
/// copies - 1, and so on; they begin in this order, and end in any. Text i
/// draws the numbers of the sequence `options.sequence + i`, whichever others
/// there are. An empty prompt has numbers, but no texts. With
/// `options.lookahead` there is one text after the other. Returns the numbers
/// of those that failed.
std::vector<size_t> generateAll(LogitsSource &logits,
                                const Tokenizer &tokenizer,
                                std::span<const std::vector<int32_t>> prompts,
                                int64_t copies, const GenerateOptions &options,
                                TextAudience &audience);

/// What prompts begin with: the data's `begin`, else what the tokenizer puts
/// before texts.
std::vector<int32_t> beginOf(const Recipe &recipe, const Tokenizer &tokenizer);

/// Of a model whose encoder reads the prompts. An answer begins with the data's
/// `begin`, else as the folder of the weights says, else as texts do. Throws
/// InputError where nothing says it.
AnswerMarks answerMarks(const Recipe &recipe, const Tokenizer &tokenizer,
                        const std::string &weights);

/// The tokens of what an encoder reads: a prompt, and behind it the token that
/// ends texts, where there is one. Errors begin with `origin`.
std::vector<int32_t> sourceTokens(const Tokenizer &tokenizer,
                                  std::string_view prompt,
                                  std::span<const int32_t> endTokens,
                                  const std::string &origin = "the prompt");

/// The tokens of a prompt, behind those of `begin`; an empty one begins with
/// these, or a new line, or whatever the vocabulary has. Errors begin with
/// `origin`.
std::vector<int32_t> promptTokens(const Tokenizer &tokenizer,
                                  std::string_view prompt,
                                  std::span<const int32_t> begin,
                                  const std::string &origin = "the prompt");

/// The recipe's generation defaults, and the tokens that end a text.
GenerateOptions defaultOptions(const Recipe &recipe,
                               const Tokenizer &tokenizer);

} // namespace tfm

#endif // TFM_RUNTIME_GENERATION_GENERATOR_H
