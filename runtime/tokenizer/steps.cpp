//===- steps.cpp - the steps of a tokenizer.json ------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/tokenizer/steps.h"

#include "runtime/support/error.h"
#include "runtime/tokenizer/vocabulary.h"

#include <nlohmann/json.hpp>

using nlohmann::json;

namespace tfm {

std::string stepType(const json &step) {
  return step.is_object() ? step.value("type", "") : "";
}

void refuseStep(const char *what, const json &step, const std::string &origin,
                const char *advice) {
  // Some hold a table of half a megabyte.
  std::string text = step.dump(-1, ' ', /*ensure_ascii=*/true);
  if (text.size() > 200)
    text = text.substr(0, 200) + "...";
  throw NotSupported("{}: the {} {} is not supported{}", origin, what, text,
                     advice);
}

void requireBounded(const char *what, double growth,
                    const std::string &origin) {
  if (growth > 1000)
    throw InputError("{}: the replacements of the {} can make a text more than "
                     "1000 times as long. Copy or download the file again",
                     origin, what);
}

StepPattern StepPattern::read(const char *what, const json &step,
                              const std::string &origin) {
  const json &pattern = member(step, "pattern");
  bool isRegex = member(pattern, "Regex").is_string();
  const json &from = member(pattern, isRegex ? "Regex" : "String");
  if (!from.is_string() || (from == "" && !isRegex))
    refuseStep(what, step, origin);
  const auto &text = from.get_ref<const std::string &>();
  return {std::make_shared<Pretokenizer>(isRegex ? text : escapePattern(text),
                                         origin),
          isRegex ? 1 : text.size()};
}

std::optional<Metaspace> Metaspace::read(const json &step) {
  std::string space = step.value("replacement", "\xE2\x96\x81");
  std::string scheme =
      step.value("prepend_scheme",
                 step.value("add_prefix_space", true) ? "always" : "never");
  if (scheme != "always" && scheme != "first" && scheme != "never")
    return std::nullopt;
  return Metaspace{std::move(space), scheme != "never", scheme == "first",
                   step.value("split", true)};
}

} // namespace tfm
