//===- JsonMutator.h - JSON that is nearly right ------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

// Mutated bytes are seldom JSON, and then no reader sees more of them than
// that. What is changed here is the tree: values, types, keys, members,
// elements.
//
//===----------------------------------------------------------------------===//

#ifndef TFM_TESTS_FUZZ_RUNTIME_JSONMUTATOR_H
#define TFM_TESTS_FUZZ_RUNTIME_JSONMUTATOR_H

#include "tests/fuzz/support/Dice.h"

#include <nlohmann/json.hpp>
#include <span>

namespace tfm::fuzz {

using Json = nlohmann::ordered_json;
using Keys = std::span<const char *const>;

/// All values in a tree, the root first.
std::vector<Json *> nodesOf(Json &root);

/// Changes one thing in a tree; `keys` are names that its reader knows.
void mutateTree(Json &root, Dice &dice, Keys keys);

/// A tree as text; a string that is not UTF-8 gets U+FFFD.
std::string textOf(const Json &root);

/// A text of JSON with one to three changes to its tree; now and then to its
/// bytes, always where it is no JSON.
std::string mutateJson(std::string_view text, Dice &dice, Keys keys);

/// A text with a value out of another one at some place.
std::string crossJson(std::string_view text, std::string_view other,
                      Dice &dice);

} // namespace tfm::fuzz

#endif // TFM_TESTS_FUZZ_RUNTIME_JSONMUTATOR_H
