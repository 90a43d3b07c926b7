//===- shell_word.h - what a message tells to type ----------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_RUNTIME_SUPPORT_SHELL_WORD_H
#define TFM_RUNTIME_SUPPORT_SHELL_WORD_H

#include <string>
#include <string_view>

namespace tfm {

/// A path as one word of a command line: in quotes where a shell would read
/// something else.
inline std::string shellWord(std::string_view path) {
  constexpr std::string_view special = " \t\n!\"#$&'()*;<>?[\\]^`{|}~";
  if (!path.empty() && path.find_first_of(special) == path.npos)
    return std::string(path);
  std::string word = "'";
  for (char c : path)
    word += c == '\'' ? "'\\''" : std::string(1, c);
  return word + "'";
}

} // namespace tfm

#endif // TFM_RUNTIME_SUPPORT_SHELL_WORD_H
