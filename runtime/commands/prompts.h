//===- prompts.h - what is to be continued --------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_RUNTIME_COMMANDS_PROMPTS_H
#define TFM_RUNTIME_COMMANDS_PROMPTS_H

#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace tfm {

/// A text to be continued.
struct Prompt {
  std::string text;
  /// Where it stands, for messages: `prompts.txt:3`; empty of the only one.
  std::string origin;
  /// Why it cannot be continued; empty where it can.
  std::string problem;
};

/// What errors about a prompt begin with, which stands at `origin`, if
/// anywhere.
std::string startOfErrors(const std::string &origin);

/// `\n`, `\t` and `\\` as in most languages: an input line cannot hold the
/// characters themselves.
std::string unescape(std::string_view line);

/// The prompts of a text, one a line. Where the first line that is not
/// empty begins with `{`, lines are JSON objects with `prompt`, else the
/// prompts themselves, with escapes; where `areMessages`, a line that is
/// a list of them stands as it is, and objects may have one as `prompt` or
/// `messages`, and beside it `tools`. An empty line is a problem. `name` is
/// the text's in messages. `unread` gets the names of what else such objects
/// have.
std::vector<Prompt> promptsOf(std::string_view text, const std::string &name,
                              bool areMessages, std::set<std::string> &unread);

} // namespace tfm

#endif // TFM_RUNTIME_COMMANDS_PROMPTS_H
