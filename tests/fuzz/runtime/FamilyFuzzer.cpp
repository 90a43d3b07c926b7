//===- FamilyFuzzer.cpp - a table of a family that is nearly right ------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

// The input is the table of a family: an InputError, or one by which every
// configuration can be read.
//
//===----------------------------------------------------------------------===//

#include "runtime/files/family.h"
#include "runtime/support/error.h"
#include "tests/fuzz/runtime/JsonInput.h"
#include "tests/fuzz/support/TimeLimit.h"

#include <cstdlib>
#include <nlohmann/json.hpp>

using namespace tfm::fuzz;
using nlohmann::json;

namespace {

constexpr const char *keys[] = {
    "sets",       "must",        "harmless",    "default",  "type",
    "least",      "words",       "null",        "pattern",  "every",
    "others",     "each",        "optional",    "aliases",  "only_if",
    "else",       "may_be_less", "reason",      "keys",     "generation",
    "model_type", "model",       "include",     "about",    "integer",
    "number",     "flag",        "text",        "width",    "vocab_size",
    "n_embd",     "hidden_act",  "rope.theta",  "layers",   "common",
    "own",        "hidden_size", "rope_theta",  "activate", "silu",
    "most",       "length",      "architecture"};

const char *const configs[] = {
    "{}", R"({"vocab_size": 40, "hidden_size": 32, "rope": {"theta": 500.0},
              "hidden_act": "silu", "layers": ["a", "b", "a", "b"]})",
    R"({"vocab_size": null, "hidden_size": "x", "rope": 3, "n_embd": [1, {}],
        "rope.theta": 1e300, "layers": [], "width": {"width": {"width": 1}}})"};

} // namespace

Keys tfm::fuzz::inputKeys() { return keys; }

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const std::string table(reinterpret_cast<const char *>(data), size);
  TimeLimit limit(2);
  auto load = [&](const std::string &name) {
    if (name != "own" && name != "common" && name != "rope")
      throw tfm::InputError("there is no family `" + name + "`");
    return name == "own" ? table : std::string(R"({"words": {"activations":
                               {"silu": "silu"}}, "keys": {
                               "vocab_size": {"sets": "vocab", "default": 1}}})");
  };
  try {
    json family = tfm::readFamily(
        "own", load, [](const std::string &name) { return name + ".json"; });
    tfm::expressionsOf(family);
    for (const char *config : configs)
      for (const char *part : {"keys", "generation"})
        for (const tfm::FamilyKey &key :
             tfm::readByFamily(family, json::parse(config), {"n_embd"}, part)) {
          using Kind = tfm::FamilyKey::Kind;
          // What is refused says why, and what sets something to what.
          if (key.kind == Kind::Refused && key.reason.empty())
            std::abort();
          if (key.kind == Kind::Sets && key.text.empty())
            std::abort();
        }
    // Backwards: a configuration that can be read, or a message.
    json written = tfm::writeByFamily(
        family, {{"vocab", 40}, {"width", 2.5}, {"act", "silu"}, {"own", 3}},
        [](const std::string &text) -> std::optional<json> {
          json value = json::parse(text, nullptr, false);
          return value.is_discarded() ? std::nullopt : std::optional(value);
        });
    tfm::readByFamily(family, written, {});
  } catch (const tfm::InputError &) {
    // What a user sees as a message.
  }
  return 0;
}
