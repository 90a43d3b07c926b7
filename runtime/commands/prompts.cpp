//===- prompts.cpp - what is to be continued ------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/commands/prompts.h"

#include "runtime/chat/chat_template.h"
#include "runtime/support/read_json.h"

#include <algorithm>
#include <nlohmann/json.hpp>

using nlohmann::ordered_json;

namespace tfm {

std::string startOfErrors(const std::string &origin) {
  return origin.empty() ? "" : origin + ": ";
}

std::string unescape(std::string_view line) {
  std::string text;
  for (size_t i = 0; i < line.size(); ++i) {
    char next = line[i] == '\\' && i + 1 < line.size() ? line[i + 1] : '\0';
    if (next == 'n' || next == 't' || next == '\\') {
      text += next == 'n' ? '\n' : next == 't' ? '\t' : '\\';
      ++i;
    } else {
      text += line[i];
    }
  }
  return text;
}

static void readObject(std::string_view line, Prompt &prompt, bool areMessages,
                       std::set<std::string> &unread) {
  ordered_json object = orderedJsonOf(line);
  auto member = object.is_object() ? object.find("prompt") : object.end();
  // As requests to servers, and many data sets, have them.
  if (areMessages && object.is_object() && member == object.end())
    member = object.find("messages");
  const std::string read = member != object.end() ? member.key() : "prompt";
  const std::string asTheFirst =
      ", as all lines are where the first one begins with {";
  if (object.is_discarded())
    prompt.problem =
        "this line is no JSON" + asTheFirst + ": " + faultOfJson(line);
  else if (!object.is_object())
    prompt.problem = "this line is no JSON object" + asTheFirst;
  else if (member == object.end())
    prompt.problem = areMessages
                         ? "this object has neither \"prompt\" nor \"messages\""
                     : object.contains("messages")
                         ? "this object has \"messages\", which are read with "
                           "--chat, and no \"prompt\""
                         : "this object has no \"prompt\"";
  else if (areMessages && member->is_array() && isMessageList(member->dump()))
    prompt.text =
        ordered_json({{"messages", *member},
                      {"tools", object.value("tools", ordered_json())}})
            .dump();
  else if (read == "messages")
    prompt.problem = "the \"messages\" of this object are no list of messages";
  else if (!member->is_string())
    prompt.problem = "the \"prompt\" of this object is no text";
  else
    prompt.text = member->get<std::string>();
  if (object.is_object())
    for (const auto &[name, value] : object.items())
      if (name != read && (name != "tools" || !areMessages))
        unread.insert(name);
}

std::vector<Prompt> promptsOf(std::string_view text, const std::string &name,
                              bool areMessages, std::set<std::string> &unread) {
  std::vector<Prompt> prompts;
  text = withoutByteOrderMark(text);
  size_t first = text.find_first_not_of(" \t\r\n");
  bool isJson = first != std::string_view::npos && text[first] == '{';
  while (!text.empty()) {
    size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.ends_with('\r')) // of a file from Windows
      line.remove_suffix(1);
    Prompt &prompt = prompts.emplace_back();
    prompt.origin = name + ":" + std::to_string(prompts.size());
    if (line.empty())
      prompt.problem = "this line is empty, and so no prompt";
    else if (isJson)
      readObject(line, prompt, areMessages, unread);
    else if (areMessages && isMessageList(line))
      prompt.text = line;
    else
      prompt.text = unescape(line);
  }
  return prompts;
}

} // namespace tfm
