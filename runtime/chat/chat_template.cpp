//===- chat_template.cpp - messages as the text of a prompt -------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/chat/chat_template.h"

#include "runtime/chat/jinja_render.h"
#include "runtime/support/atomic_file.h"
#include "runtime/support/error.h"
#include "runtime/support/read_json.h"
#include "runtime/support/utf8.h"
#include "runtime/tokenizer/gguf_tokenizer.h"

#include <algorithm>
#include <nlohmann/json.hpp>

using nlohmann::ordered_json;

namespace tfm {

ChatTemplate::Program::Program(std::string text, std::string name)
    : source(replaceInvalidUtf8(text)), origin(std::move(name)) {
  try {
    statements = jinja::parse(source);
  } catch (const jinja::PlacedProblem &problem) {
    fail(problem);
  }
}

ChatTemplate::ChatTemplate(std::string text, std::string origin)
    : program(std::move(text), std::move(origin)) {}

void ChatTemplate::Program::fail(const jinja::PlacedProblem &problem,
                                 const std::string &begin) const {
  std::string_view before = std::string_view(source).substr(0, problem.at);
  auto line = 1 + std::ranges::count(before, '\n');
  size_t column = 1 + countCodePoints(before.substr(before.rfind('\n') + 1));
  throw InputError("{}{}:{}:{}: {}", begin, origin, line, column,
                   problem.message);
}

void ChatTemplate::set(const std::string &name, jinja::Value value) {
  variables.emplace(variables.begin(), name, std::move(value));
}

/// The text of a special token, which may be an object with a `content`.
static std::optional<std::string> tokenText(const ordered_json &token) {
  if (token.is_string())
    return token.get<std::string>();
  if (token.is_object() && token.contains("content") &&
      token["content"].is_string())
    return token["content"].get<std::string>();
  return std::nullopt;
}

void ChatTemplate::setTokens(const ordered_json &config) {
  for (const auto &[key, value] : config.items())
    if (key.ends_with("_token"))
      if (std::optional<std::string> token = tokenText(value)) {
        if (key == "eos_token")
          end = *token;
        set(key, jinja::Value::string(*token));
      }
}

/// That called `name` of several templates.
static std::optional<std::string> templateCalled(const char *name,
                                                 const ordered_json &several) {
  if (several.is_array())
    for (const ordered_json &entry : several)
      if (entry.is_object() && entry.value("name", ordered_json()) == name &&
          entry.contains("template") && entry["template"].is_string())
        return entry["template"].get<std::string>();
  return std::nullopt;
}

/// The template of a tokenizer_config.json: a text, or that called `default`
/// of several.
static std::optional<std::string> templateOf(const ordered_json &config,
                                             const std::string &path) {
  auto found = config.find("chat_template");
  if (found == config.end() || found->is_null())
    return std::nullopt;
  if (found->is_string())
    return found->get<std::string>();
  if (std::optional<std::string> text = templateCalled("default", *found))
    return text;
  throw InputError(
      "{}: chat_template is neither a text nor a list with one called default",
      path);
}

std::optional<ChatTemplate> ChatTemplate::ofGguf(const std::string &path) {
  ordered_json config = ggufTokenizerConfig(GgufReader(path));
  std::optional<std::string> text = templateOf(config, path);
  if (!text)
    return std::nullopt;
  ChatTemplate result(*text, path + ": tokenizer.chat_template");
  result.setTokens(config);
  return result;
}

std::optional<ChatTemplate> ChatTemplate::ofFolder(const std::string &folder) {
  std::string path = folder + "/tokenizer_config.json";
  std::string own = folder + "/chat_template.jinja";
  ordered_json config = objectIn(path, "the tokenizer's settings");
  std::optional<std::string> text;
  std::string origin = own;
  if (folderHas(own)) {
    text = readRegularFile(own, "the chat template");
  } else {
    text = templateOf(config, path);
    origin = path + ": chat_template";
  }
  if (!text)
    return std::nullopt;
  ChatTemplate result(*text, origin);
  if (origin != own)
    if (auto other = templateCalled("tool_use", config["chat_template"]))
      result.withTools.emplace(*other, origin + " called tool_use");
  // Older folders name some of these tokens in a file of their own.
  ordered_json tokens =
      objectIn(folder + "/special_tokens_map.json", "the tokenizer's settings");
  tokens.update(config);
  result.setTokens(tokens);
  return result;
}

void ChatTemplate::setVariables(const ordered_json &object) {
  for (const auto &[name, value] : object.items())
    set(name, jinja::Value::fromJson(value));
}

std::string ChatTemplate::render(const Conversation &conversation,
                                 std::time_t now, bool forAnswer) const {
  using jinja::Value;
  // To a template what is null is not there, but for a `content`, which is null
  // beside `tool_calls`. What was thought before an answer has the names that
  // templates know, whichever it was given.
  ordered_json told = conversation.messages;
  for (ordered_json &message : told) {
    for (auto entry = message.begin(); entry != message.end();)
      entry = entry->is_null() && entry.key() != "content"
                  ? message.erase(entry)
                  : std::next(entry);
    for (const char *name : {"reasoning_content", "thinking", "reasoning"})
      if (auto thought = message.find(name); thought != message.end()) {
        ordered_json value = *thought;
        if (!message.contains("thinking"))
          message["thinking"] = value;
        message["reasoning_content"] = std::move(value);
        break;
      }
  }
  // Of several of one name the first one counts.
  jinja::Members all = {{"messages", Value::fromJson(told)},
                        {"add_generation_prompt", Value::boolean(forAnswer)}};
  if (!conversation.tools.is_null())
    all.emplace_back("tools", Value::fromJson(conversation.tools));
  all.insert(all.end(), variables.begin(), variables.end());
  all.emplace_back("tools", Value::none());
  all.emplace_back("documents", Value::none());
  auto tools =
      std::ranges::find(all, "tools", &jinja::Members::value_type::first);
  const Program &used =
      withTools && !tools->second.is(Value::None) ? *withTools : program;
  try {
    return jinja::render(used.statements, std::move(all), now);
  } catch (const jinja::PlacedProblem &problem) {
    const std::string &origin = conversation.origin;
    used.fail(problem, origin.empty() ? "" : origin + ": ");
  }
}

bool isMessageList(std::string_view text) {
  const char *blanks = " \t\r\n";
  size_t first = text.find_first_not_of(blanks);
  if (first == text.npos || (text[first] != '[' && text[first] != '{'))
    return false;
  // A text may begin with a bracket, too.
  size_t second =
      std::min(text.find_first_not_of(blanks, first + 1), text.size());
  if (text[first] == '[')
    return text.substr(second).starts_with('{');
  return text.substr(second).starts_with("\"messages\"") ||
         jsonOf(text).contains("messages");
}

void requireMessages(const ordered_json &messages, const std::string &origin) {
  if (!messages.is_array() || messages.empty())
    throw InputError("the \"messages\" of {} are no list of messages", origin);
  for (size_t i = 0; i < messages.size(); ++i) {
    const std::string entry =
        origin + ": entry " + std::to_string(i) + " of this list ";
    if (!messages[i].is_object() || !messages[i].contains("role") ||
        !messages[i]["role"].is_string())
      throw InputError("{}is no message: it needs a \"role\" and a \"content\"",
                       entry);
    if (!messages[i].contains("content") && !messages[i].contains("tool_calls"))
      throw InputError("{}has no \"content\"", entry);
  }
}

static bool isListOfObjects(const ordered_json &list) {
  return list.is_array() && std::ranges::all_of(list, [](const auto &entry) {
           return entry.is_object();
         });
}

ordered_json toolsOf(const ordered_json &document, const std::string &origin) {
  auto found = document.find("tools");
  if (found == document.end() || found->is_null())
    return nullptr;
  // Tables, whose rows have one type, hold them as a text.
  ordered_json tools =
      found->is_string() ? orderedJsonOf(found->get_ref<const std::string &>())
                         : *found;
  if (!isListOfObjects(tools))
    throw InputError("the \"tools\" of {} are no list of JSON objects", origin);
  return tools;
}

std::string faultOfVariables(std::string_view text) {
  const ordered_json object = orderedJsonOf(text);
  if (object.is_discarded())
    return "this is no JSON: " + faultOfJson(text);
  if (!object.is_object())
    return "this is no JSON object, such as {\"enable_thinking\": false}";
  for (const char *own : {"messages", "add_generation_prompt"})
    if (object.contains(own))
      return std::string(own) + " is what --chat makes of the prompt";
  if (auto tools = object.find("tools");
      tools != object.end() && !isListOfObjects(*tools))
    return "tools is no list of JSON objects";
  return "";
}

Conversation conversationOf(const std::string &text,
                            const std::string &origin) {
  if (!isMessageList(text)) {
    ordered_json message = {{"role", "user"},
                            {"content", replaceInvalidUtf8(text)}};
    return {ordered_json::array({message}), nullptr, ""};
  }
  ordered_json document = orderedJsonOf(text);
  if (document.is_discarded())
    throw InputError(
        "{} begins as a list of messages, but is not valid JSON: {}", origin,
        faultOfJson(text));
  if (document.is_array())
    document = {{"messages", std::move(document)}};
  requireMessages(document["messages"], origin);
  return {document["messages"], toolsOf(document, origin), ""};
}

} // namespace tfm
