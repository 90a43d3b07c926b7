//===- chat_template.h - messages as the text of a prompt ---------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_RUNTIME_CHAT_CHAT_TEMPLATE_H
#define TFM_RUNTIME_CHAT_CHAT_TEMPLATE_H

#include "runtime/chat/jinja_syntax.h"

#include <ctime>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace tfm {

/// What a template makes a prompt of.
struct Conversation {
  nlohmann::ordered_json messages; ///< `[{"role": ..., "content": ...}]`
  nlohmann::ordered_json tools;    ///< functions to call, or null
  std::string origin; ///< begins errors of the template; may be empty
};

/// How a model was taught to see a conversation: a template in the subset of
/// Jinja that docs/cli.md lists, as in Hugging Face's folders.
class ChatTemplate {
public:
  /// `origin` is named in errors. Throws InputError with the place of what is
  /// no template, or not supported.
  ChatTemplate(std::string source, std::string origin);

  /// That of a folder: chat_template.jinja, or `chat_template` in
  /// tokenizer_config.json, where conversations with tools may have one of
  /// their own, with the special tokens of the latter. Nothing where it has
  /// none.
  static std::optional<ChatTemplate> ofFolder(const std::string &folder);

  /// That within a gguf file, likewise.
  static std::optional<ChatTemplate> ofGguf(const std::string &path);

  /// The prompt for the answer to the messages, or, not `forAnswer`, these
  /// alone; `now` is what the template takes for the time. Throws InputError
  /// with the place of what goes wrong.
  std::string render(const Conversation &conversation, std::time_t now,
                     bool forAnswer = true) const;

  /// A variable of the template.
  void set(const std::string &name, jinja::Value value);
  /// Those of an object, as `faultOfVariables` allows them.
  void setVariables(const nlohmann::ordered_json &object);
  /// The token that ends an answer; empty where the folder names none.
  const std::string &endToken() const { return end; }

private:
  struct Program {
    Program(std::string text, std::string origin);
    [[noreturn]] void fail(const jinja::PlacedProblem &problem,
                           const std::string &begin = "") const;

    std::string source, origin;
    jinja::Statements statements;
  };

  /// The special tokens of a tokenizer_config.json.
  void setTokens(const nlohmann::ordered_json &config);

  Program program;
  std::optional<Program> withTools; ///< instead, where there are tools
  std::string end;
  jinja::Members variables;
};

/// Throws InputError naming `origin` for what is no list of messages.
void requireMessages(const nlohmann::ordered_json &list,
                     const std::string &origin);

/// The tools of a document, which may also be written as a text; null where it
/// has none. Throws InputError naming `origin` for what is no list of them.
nlohmann::ordered_json toolsOf(const nlohmann::ordered_json &document,
                               const std::string &origin);

/// What is wrong with a text of variables for a template, which is to be a JSON
/// object; empty: nothing.
std::string faultOfVariables(std::string_view text);

/// Whether a prompt's text is a JSON list of messages, or an object with
/// `messages`: it begins as one.
bool isMessageList(std::string_view text);

/// The conversation of a prompt's text: such a list or object, or the text as
/// one message of the user. Throws InputError naming `origin` for a list that
/// is none of messages.
Conversation conversationOf(const std::string &text, const std::string &origin);

} // namespace tfm

#endif // TFM_RUNTIME_CHAT_CHAT_TEMPLATE_H
