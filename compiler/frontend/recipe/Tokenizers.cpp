//===- Tokenizers.cpp - the vocabulary while compiling --------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/frontend/recipe/Tokenizers.h"

#include "compiler/frontend/recipe/Reading.h"
#include "runtime/data/characters.h"
#include "runtime/recipe.h"
#include "runtime/support/utf8.h"
#include "runtime/tokenizer/tokenizer.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"

using namespace tfm;
using llvm::Expected;
using llvm::StringRef;

Expected<std::vector<std::string>> tfm::learnAlphabet(const DataSpec &data) {
  return reading([&] { return dataCharacters(data); });
}

Expected<std::vector<std::string>> tfm::orderedAlphabet(StringRef text) {
  std::vector<std::string> alphabet;
  llvm::StringSet<> seen;
  for (size_t at = 0; at < text.size();) {
    CodePoint next = decodeUtf8(text, at);
    if (next.value < 0)
      return llvm::createStringError("it is not UTF-8 text");
    std::string character = text.substr(at, next.bytes).str();
    if (!seen.insert(character).second)
      return llvm::createStringError("`" + character + "` occurs twice");
    alphabet.push_back(character);
    at += next.bytes;
  }
  if (alphabet.empty())
    return llvm::createStringError("the alphabet is empty");
  return alphabet;
}

/// Throws InputError.
static const Tokenizer &opened(const TokenizerInfo &tokenizer) {
  TokenizerSpec spec;
  spec.kind = tokenizer.kind;
  if (!tokenizer.alphabet.empty())
    spec.json = charsTokenizerJson(tokenizer.alphabet);
  if (!tokenizer.opened)
    tokenizer.opened = openTokenizer(spec, tokenizer.paths);
  return *tokenizer.opened;
}

Expected<int64_t> tfm::tokenizerSize(const TokenizerInfo &tokenizer,
                                     bool open) {
  TokenizerSpec spec;
  spec.kind = tokenizer.kind;
  return reading([&] {
    return open ? opened(tokenizer).size()
                : tokenizerSize(spec, tokenizer.paths);
  });
}

Expected<std::optional<int64_t>> tfm::findToken(const TokenizerInfo &tokenizer,
                                                StringRef text) {
  return reading([&]() -> std::optional<int64_t> {
    return opened(tokenizer).findText(text.str());
  });
}

std::string tfm::charsTokenizerJson(llvm::ArrayRef<std::string> alphabet) {
  return makeCharsTokenizer(llvm::join(alphabet, ""))->json();
}
