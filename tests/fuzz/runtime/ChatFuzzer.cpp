//===- ChatFuzzer.cpp - any bytes as a chat template --------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

// A template is parsed and rendered, or refused with a place inside of it.
// Parts of other templates are put together by libFuzzer, and words by a
// dictionary of what templates are made of.
//
//===----------------------------------------------------------------------===//

#include "runtime/chat/chat_template.h"
#include "runtime/support/error.h"
#include "tests/fuzz/support/Dice.h"
#include "tests/fuzz/support/TimeLimit.h"

#include <cstring>
#include <nlohmann/json.hpp>

/// Puts a word of templates somewhere, every other time.
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size,
                                          size_t most, unsigned seed) {
  static const char *const words[] = {
      "{% for m in messages %}",
      "{% endfor %}",
      "{% if loop.last %}",
      "{% else %}",
      "{% endif %}",
      "{% set a = ",
      " %}",
      "{{ ",
      " }}",
      "{%- macro f(a, b=1) -%}",
      "{%- endmacro %}",
      "namespace(",
      "loop.index0",
      "messages[::-1]",
      "m.content",
      "m['role']",
      " | trim",
      " | tojson(indent=2)",
      " | selectattr('role', 'equalto', 'user')",
      " | map(attribute='content')",
      " is defined",
      " is not none",
      ".split('a')[-1]",
      ".items()",
      " in ",
      " not ",
      " if a else b",
      " ~ ",
      " // ",
      " ** ",
      "range(9)",
      "(1, 2)",
      "{'a': [1]}",
      "{% raw %}",
      "{% endraw %}",
      "{#",
      "#}",
      "{% generation %}",
      "{% break %}"};
  tfm::fuzz::Dice dice(seed);
  if (dice.below(2) == 0)
    return LLVMFuzzerMutate(data, size, most);
  const char *word = words[dice.below(std::size(words))];
  size_t length = std::strlen(word);
  if (size + length > most)
    return LLVMFuzzerMutate(data, size, most);
  size_t at = dice.below(size + 1);
  std::memmove(data + at + length, data + at, size - at);
  std::memcpy(data + at, word, length);
  return size + length;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  tfm::fuzz::TimeLimit limit(2);
  try {
    tfm::ChatTemplate chat(
        std::string(reinterpret_cast<const char *>(data), size), "x.jinja");
    tfm::Conversation conversation = {
        nlohmann::ordered_json::parse(
            R"([{"role": "user", "content": "a\n é "},
                {"role": "assistant", "content": "", "n": [1, 2.5, null]}])"),
        nlohmann::ordered_json::parse(R"([{"name": "f"}])")};
    chat.render(conversation, 0);
  } catch (const tfm::InputError &) {
  }
  return 0;
}
