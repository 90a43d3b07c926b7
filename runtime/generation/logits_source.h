//===- logits_source.h - what may follow a growing text -----------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_RUNTIME_GENERATION_LOGITS_SOURCE_H
#define TFM_RUNTIME_GENERATION_LOGITS_SOURCE_H

#include "runtime/generation/logits.h"
#include "runtime/model/model.h"

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

namespace tfm {

/// Where an encoder reads prompts: how a text begins, and what fills a prompt
/// up.
struct AnswerMarks {
  int32_t begin;
  int32_t padding = 0;
};

/// Reading prompts was interrupted: what had not been told by then is not read,
/// and every place has to be started anew.
struct ReadingEnded {};

/// Gives the logits that follow growing texts. The one place that knows whether
/// a model is evaluated whole or with a cache. What it gives stays as it is
/// until it is asked again.
class LogitsSource {
public:
  /// One more token of the text at a place.
  struct Step {
    int64_t place;
    int32_t token;
  };
  /// A text that begins at a place.
  struct Start {
    int64_t place;
    std::span<const int32_t> prompt;
  };
  /// The logits after a step of a text, or after its prompt.
  struct Given {
    int64_t place;
    Logits logits;
  };
  /// Is told some of these; they are gone when it returns.
  using Take = std::function<void(std::span<const Given>)>;

  virtual ~LogitsSource() = default;
  /// Once it is set no further part of a prompt is read, and ReadingEnded is
  /// thrown. Null: nobody interrupts.
  const std::atomic<bool> *interrupt = nullptr;
  /// Tokens that can be looked back on.
  virtual int64_t context() const = 0;
  virtual int64_t vocabulary() const = 0;
  /// How many texts can grow at the same time; each has a place of its own,
  /// 0 <= place < places().
  virtual int64_t places() const { return 1; }

  /// How many threads may look at given logits at the same time.
  virtual int64_t readers() const { return 1; }
  /// Calls `look(i, reader)` for 0 <= i < count, 0 <= reader < readers(): those
  /// of different readers at the same time.
  virtual void lookAt(size_t count,
                      const std::function<void(size_t i, size_t reader)> &look);

  /// How a text begins that follows a prompt: with it, or where an encoder
  /// reads the prompt with the token that begins answers.
  virtual std::span<const int32_t>
  beginning(std::span<const int32_t> prompt) const {
    return prompt;
  }
  /// Tokens of a prompt that an encoder reads; 0 without one.
  virtual int64_t sourceLength() const { return 0; }

  /// Begins a text at a place, instead of the one that was there; the logits
  /// after its last token. A prompt longer than the context counts with its
  /// newest tokens only.
  virtual Logits start(int64_t place, std::span<const int32_t> prompt) = 0;
  /// Begins several texts as `start` does; `take` gets the logits of each, in
  /// any order, of some texts at a time. No text's logits depend on which
  /// others there are.
  virtual void startAll(std::span<const Start> starts, const Take &take);
  /// One more token of each of some texts, all at once; `take` gets the logits
  /// of each, in any order, of some texts at a time. A full context slides. No
  /// text's logits depend on which others there are.
  virtual void next(std::span<const Step> steps, const Take &take) = 0;

  /// The text at a place has ended: a place without one costs the least.
  virtual void leave(int64_t place) { (void)place; }

  /// How many tokens `extend` takes now at once of the text at a place; 0 where
  /// it has to grow by one at a time.
  virtual int64_t extent(int64_t place) const {
    (void)place;
    return 0;
  }
  /// Some more tokens of one text; the logits after each, a row for one.
  virtual LogitRows &extend(int64_t place, std::span<const int32_t> tokens);
  /// Takes back the newest tokens of a text that `extend` was given.
  virtual void takeBack(int64_t place, int64_t tokens);

  /// The same for who has one text alone, at place 0.
  Logits start(std::span<const int32_t> prompt) { return start(0, prompt); }
  Logits next(int32_t token);
};

/// Evaluates `forward` on the newest `context` tokens, for every token anew.
/// `context` 0 is all that `forward` takes. A text that is shorter than that
/// must have logits of its own (`requireOwnLogits`). Where an encoder reads the
/// prompts, texts are `answers`.
std::unique_ptr<LogitsSource>
wholeSequence(Model &model, int64_t context,
              std::optional<AnswerMarks> answers = std::nullopt);

/// Throws InputError where texts do not fill `forward` of a model, the tokens
/// and what an encoder reads.
void requireTakesTexts(const tfm_model &model, const tfm_function &forward);

/// Whether `results`, given what stands right of a text in so many positions,
/// are the same for whatever of `vocabulary` tokens that is.
bool staysTheSame(
    size_t length, int64_t vocabulary,
    const std::function<std::span<const float>(std::span<const int32_t> right)>
        &results);

/// Throws InputError where the logits after `text` depend on what stands right
/// of it in `forward`, as in a model that is not causal: only a text that fills
/// its positions has logits there. Errors begin with `where`.
void requireOwnLogits(Model &model, std::span<const int32_t> text,
                      const std::string &where = "");

/// Throws InputError where the logits of `forward` tell more tokens apart than
/// the model takes: one of them could follow, and would have no row in a table.
void requireRows(const Model &model);

/// Runs `prefill` over a prompt chunk by chunk and `decode` for each token
/// more of all texts; what they have seen stays in their cache, which holds
/// `context` tokens of each. Once it is full, every token means to prefill the
/// newest `context` tokens anew: exactly what `forward` on that window gives.
/// Where an encoder reads the prompts, `encode` does, and texts are `answers`.
std::unique_ptr<LogitsSource>
cachedSequence(Model &model, int64_t context,
               std::optional<AnswerMarks> answers = std::nullopt);

/// The best source that a build offers: cached where it has `prefill` and
/// `decode`.
std::unique_ptr<LogitsSource>
openLogits(Model &model, int64_t context,
           std::optional<AnswerMarks> answers = std::nullopt);

} // namespace tfm

#endif // TFM_RUNTIME_GENERATION_LOGITS_SOURCE_H
