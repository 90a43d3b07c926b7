//===- read_prompts.cpp - the prompts of a command, as tokens -------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/commands/read_prompts.h"

#include "runtime/files/find_chat.h"
#include "runtime/files/find_tokenizer.h"
#include "runtime/files/text_settings.h"
#include "runtime/generation/logits_source.h"
#include "runtime/support/atomic_file.h"
#include "runtime/support/error.h"
#include "runtime/support/progress.h"
#include "runtime/support/read_json.h"
#include "runtime/support/utf8.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <set>

namespace tfm {

TokenizerPtr tokenizerFor(const tfm_model &descriptor,
                          const GenerateCommand &command,
                          const Recipe &recipe) {
  // Where no text fills the model, none is missing.
  if (const tfm_function *forward = findFunction(descriptor, TFM_FORWARD))
    requireTakesTexts(descriptor, *forward);
  return findTokenizer(descriptor, recipe,
                       {command.tokenizer, command.weights, command.ids,
                        /*idsWithout=*/true});
}

std::vector<int32_t> endTokensFor(const GenerateCommand &command,
                                  const Recipe &recipe,
                                  const Tokenizer &tokenizer) {
  std::vector<int32_t> ids = defaultOptions(recipe, tokenizer).endTokens;
  for (int32_t id : endTokensOf(command.weights, tokenizer.size()))
    ids.push_back(id);
  return ids;
}

AnswerMarks answerMarksFor(const GenerateCommand &command, const Recipe &recipe,
                           const Tokenizer &tokenizer) {
  // Texts that are ids have the marks of the recipe's tokenizer.
  TokenizerPtr own;
  if (command.ids && !recipe.tokenizer.json.empty())
    own = parseTokenizerJson(recipe.tokenizer.json, "the tokenizer");
  return answerMarks(recipe, own ? *own : tokenizer, command.weights);
}

std::string promptOf(const GenerateCommand &command) {
  if (command.promptFile.empty())
    return command.prompt;
  std::string text =
      readFile(command.promptFile == "-" ? std::string(standardInput)
                                         : command.promptFile,
               "the prompt");
  return std::string(withoutByteOrderMark(text));
}

std::string nameOfPrompt(const GenerateCommand &command) {
  return command.promptFile.empty()  ? "the prompt"
         : command.promptFile == "-" ? "standard input"
                                     : command.promptFile;
}

void requireWithinSource(size_t tokens, int64_t length,
                         const std::string &where) {
  if (static_cast<int64_t>(tokens) > length)
    throw InputError("{}the prompt has {} tokens, and the encoder reads {} at "
                     "most: shorten it, or build the model for longer ones",
                     where, tokens, length);
}

void checkLength(std::span<const int32_t> prompt, const std::string &origin,
                 const LogitsSource &logits, const GenerateOptions &options,
                 bool speaks) {
  auto count = static_cast<int64_t>(prompt.size());
  std::string where = startOfErrors(origin);
  if (int64_t length = logits.sourceLength(); length > 0) {
    requireWithinSource(prompt.size(), length, where);
    return;
  }
  if (options.stopWhenFull && count >= logits.context())
    throw InputError(
        "{}the prompt has {} tokens and fills the context of {}: shorten it, "
        "or let the context slide with --overflow slide",
        where, count, logits.context());
  if (count > logits.context() && speaks)
    say(printable(fmt::format(
        "note: {}the prompt has {} tokens; the model sees the newest {}\n",
        where, count, logits.context())));
}

PromptReader::PromptReader(const tfm_model &descriptor,
                           const GenerateCommand &command, const Recipe &recipe,
                           const Tokenizer &tokenizer)
    : tokenizer(tokenizer),
      hasEncoder(sourceLength(descriptor, TFM_FORWARD) > 0) {
  if (command.chat)
    chat = findChat(command.tokenizer, command.weights, recipe,
                    command.chatVariables, command.speaks());
  if (hasEncoder)
    sourceEnds = endTokensFor(command, recipe, tokenizer);
  if (!chat) // whose template writes what begins a text
    begin = beginOf(recipe, tokenizer);
}

std::vector<int32_t> PromptReader::tokens(std::string_view text,
                                          const std::string &origin) const {
  return hasEncoder ? sourceTokens(tokenizer, text, sourceEnds, origin)
                    : promptTokens(tokenizer, text, begin, origin);
}

/// Those of a file, or the one.
static std::vector<Prompt> promptsFor(const GenerateCommand &command) {
  const std::string &file = command.prompts;
  std::string text;
  if (command.speaks())
    text = file.empty()
               ? promptOf(command)
               : readFile(file == "-" ? std::string(standardInput) : file,
                          "the prompts");
  if (command.processes)
    text = command.processes->fromFirst(std::move(text));
  if (file.empty())
    return {{std::move(text), "", ""}};
  std::string name = file == "-" ? "standard input" : file;
  std::set<std::string> unread;
  std::vector<Prompt> prompts = promptsOf(text, name, command.chat, unread);
  if (!unread.empty() && command.speaks())
    say(printable(fmt::format(
        "note: of an object in {} {}, and not {} beside it\n", name,
        command.chat
            ? "`prompt` (or `messages`, without one) and `tools` are read"
            : "`prompt` is read",
        fmt::join(unread, ", "))));
  if (prompts.empty())
    throw InputError("{} has no prompts: write one a line", name);
  return prompts;
}

PromptList::PromptList(const GenerateCommand &command) : command(command) {
  if (!command.interactive)
    list = promptsFor(command);
  made.resize(list.size());
  bad.resize(list.size());
}

/// Does something with each prompt that can be continued so far; one with which
/// it throws cannot.
template <typename Work> void PromptList::forEach(Work work) {
  for (size_t i = 0; i < list.size(); ++i) {
    if (bad[i])
      continue;
    try {
      work(i);
    } catch (const InputError &error) {
      if (command.prompts.empty())
        throw;
      bad[i] = true;
      made[i].clear();
      list[i].problem = error.what();
      if (command.speaks())
        say("error: " + printable(error.what()) + "\n");
    }
  }
}

void PromptList::read(const PromptReader &reader, std::time_t now) {
  forEach([&](size_t i) {
    Prompt &prompt = list[i];
    if (!prompt.problem.empty())
      throw InputError("{}: {}", prompt.origin, prompt.problem);
    std::string origin =
        prompt.origin.empty() ? nameOfPrompt(command) : prompt.origin;
    if (const ChatTemplate *chat = reader.chatTemplate()) {
      Conversation conversation = conversationOf(prompt.text, origin);
      conversation.origin = prompt.origin;
      prompt.text = chat->render(conversation, now);
    }
    made[i] = reader.tokens(prompt.text, origin);
    if (reader.areAnswers() && !command.json) // the answer alone is shown
      prompt.text.clear();
  });
}

void PromptList::check(Model &model, const LogitsSource &logits,
                       const GenerateOptions &options) {
  forEach([&](size_t i) {
    checkLength(made[i], list[i].origin, logits, options, command.speaks());
    requireOwnLogits(model, logits.beginning(made[i]),
                     startOfErrors(list[i].origin));
  });
}

int64_t PromptList::numBad() const { return std::ranges::count(bad, true); }

} // namespace tfm
