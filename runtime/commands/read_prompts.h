//===- read_prompts.h - the prompts of a command, as tokens ---------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_RUNTIME_COMMANDS_READ_PROMPTS_H
#define TFM_RUNTIME_COMMANDS_READ_PROMPTS_H

#include "runtime/chat/chat_template.h"
#include "runtime/commands/commands.h"
#include "runtime/commands/prompts.h"

#include <ctime>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tfm {

/// The tokenizer of the command's prompts and texts.
TokenizerPtr tokenizerFor(const tfm_model &descriptor,
                          const GenerateCommand &command, const Recipe &recipe);
/// The tokens that end texts, those of the recipe first.
std::vector<int32_t> endTokensFor(const GenerateCommand &command,
                                  const Recipe &recipe,
                                  const Tokenizer &tokenizer);
/// Of a model whose encoder reads the prompts.
AnswerMarks answerMarksFor(const GenerateCommand &command, const Recipe &recipe,
                           const Tokenizer &tokenizer);

/// The one prompt, and what messages call it.
std::string promptOf(const GenerateCommand &command);
std::string nameOfPrompt(const GenerateCommand &command);

/// Throws InputError where an encoder reads `length` tokens, and a prompt has
/// more. Errors begin with `where`.
void requireWithinSource(size_t tokens, int64_t length,
                         const std::string &where = "");

/// A prompt need not fit into the context; who writes it should know, and is
/// told if this process `speaks`. Throws InputError where texts stop at the
/// context and the prompt fills it, or an encoder reads fewer tokens.
void checkLength(std::span<const int32_t> prompt, const std::string &origin,
                 const LogitsSource &logits, const GenerateOptions &options,
                 bool speaks = true);

/// Makes tokens of prompts: of messages as the chat template writes them, of
/// what an encoder reads, or of the beginnings of texts.
class PromptReader {
public:
  PromptReader(const tfm_model &descriptor, const GenerateCommand &command,
               const Recipe &recipe, const Tokenizer &tokenizer);

  /// Null where prompts are no messages.
  const ChatTemplate *chatTemplate() const { return chat ? &*chat : nullptr; }
  /// Whether texts are answers, which do not begin with their prompts.
  bool areAnswers() const { return chat || hasEncoder; }

  /// Errors begin with `origin`.
  std::vector<int32_t> tokens(std::string_view text,
                              const std::string &origin) const;

private:
  const Tokenizer &tokenizer;
  bool hasEncoder;
  std::optional<ChatTemplate> chat;
  std::vector<int32_t> sourceEnds, begin;
};

/// The prompts of a command, and the tokens that are made of them. One of a
/// file that cannot be continued is told of, and the others stay.
class PromptList {
public:
  /// The one prompt, or those of a file; none of a session, in which they are
  /// typed. The first process reads them, who may be the only one with a
  /// standard input.
  explicit PromptList(const GenerateCommand &command);

  /// Makes tokens of all. Texts of which the answer alone is shown are emptied.
  void read(const PromptReader &reader, std::time_t now);
  /// Finds those that this model cannot continue.
  void check(Model &model, const LogitsSource &logits,
             const GenerateOptions &options);

  const std::vector<Prompt> &prompts() const { return list; }
  /// Of each; none of those that cannot be continued.
  const std::vector<std::vector<int32_t>> &tokens() const { return made; }
  /// How many cannot be continued.
  int64_t numBad() const;

private:
  template <typename Work> void forEach(Work work);

  const GenerateCommand &command;
  std::vector<Prompt> list;
  std::vector<std::vector<int32_t>> made;
  std::vector<bool> bad;
};

} // namespace tfm

#endif // TFM_RUNTIME_COMMANDS_READ_PROMPTS_H
