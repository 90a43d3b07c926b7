//===- TokenizerFuzzer.cpp - any bytes as a tokenizer -------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

// The input is a tokenizer.json and, after a zero byte, a text for it; or it is
// a SentencePiece model, and a text too. Nothing but InputError may come out,
// and what was encoded can be decoded.
//
//===----------------------------------------------------------------------===//

#include "runtime/error.h"
#include "runtime/tokenizer/vocabulary.h"

#include <cstdlib>
#include <nlohmann/json.hpp>

static void use(const tfm::Tokenizer &tokenizer, std::string_view text) {
  std::vector<int32_t> ids = tokenizer.ids(text);
  for (int32_t id : ids)
    if (id < 0 || id >= tokenizer.size())
      std::abort();
  tokenizer.text(ids);
  for (int32_t id : tokenizer.begin())
    if (id < 0 || id >= tokenizer.size())
      std::abort();
  // What a tokenizer writes can be read, and means the same.
  if (tfm::parseTokenizerJson(tokenizer.json(), "again")->ids(text) != ids)
    std::abort();
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  std::string_view input(reinterpret_cast<const char *>(data), size);
  size_t cut = std::min(input.find('\0'), size);
  std::string_view text = input.substr(std::min(cut + 1, size));
  try {
    tfm::TokenizerPtr opened =
        tfm::parseTokenizerJson(input.substr(0, cut), "fuzz");
    // The compiler may read no more than this; it takes the largest id where a
    // token is listed twice, the tokenizer the last.
    if (tfm::vocabularySize(input.substr(0, cut), /*isTable=*/false, "fuzz") <
        opened->size())
      std::abort();
    use(*opened, text);
  } catch (const tfm::InputError &) {
    // What a user sees as a message.
  }
  try {
    auto table = tfm::vocabularySize(input, /*isTable=*/true, "fuzz");
    auto words = tfm::makeWordsTokenizer({std::string(input), "fuzz"});
    if (table < words->size())
      std::abort();
  } catch (const tfm::InputError &) {
    // The same.
  }
  try {
    use(*tfm::parseSentencePiece(input, "fuzz"), input);
  } catch (const tfm::InputError &) {
    // The same.
  }
  return 0;
}
