//===- TokenizerMutator.h - tokenizers that are nearly right ------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_TESTS_FUZZ_RUNTIME_TOKENIZERMUTATOR_H
#define TFM_TESTS_FUZZ_RUNTIME_TOKENIZERMUTATOR_H

#include "tests/fuzz/support/Dice.h"

namespace tfm::fuzz {

/// A tokenizer.json with other tokens, merges or ways to cut text, then with
/// any other changes to its tree.
std::string mutateTokenizerJson(std::string_view text, Dice &dice);

/// A vocab.json with other tokens.
std::string mutateVocabulary(std::string_view text, Dice &dice);

/// A merges.txt whose lines come twice, in another order, not at all, or name
/// other tokens.
std::string mutateMerges(std::string_view text, Dice &dice);

/// A message in the form of protobuf with other fields: numbers, lengths,
/// texts, messages in messages.
std::string mutateProtobuf(std::string_view bytes, Dice &dice);

/// A text with some more of a tokenizer's tokens in it.
std::string mutateText(std::string_view text, std::string_view tokenizer,
                       Dice &dice);

} // namespace tfm::fuzz

#endif // TFM_TESTS_FUZZ_RUNTIME_TOKENIZERMUTATOR_H
