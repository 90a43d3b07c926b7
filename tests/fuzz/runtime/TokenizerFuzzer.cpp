//===- TokenizerFuzzer.cpp - a tokenizer that is nearly right -----------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

// The input is, with zero bytes between them, a tokenizer.json and a text; or a
// vocab.json, a merges.txt and a text; or it is a SentencePiece model, and a
// text too. Nothing but InputError may come out, and what was encoded can be
// decoded.
//
//===----------------------------------------------------------------------===//

#include "runtime/support/error.h"
#include "runtime/support/utf8.h"
#include "runtime/tokenizer/vocabulary.h"
#include "tests/fuzz/runtime/TokenizerMutator.h"
#include "tests/fuzz/support/TimeLimit.h"

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>

using namespace tfm::fuzz;

namespace {

/// An input in its parts.
struct Input {
  std::string_view tokenizer, merges, text;
  /// Whether it is a vocab.json and a merges.txt.
  bool isPair = false;
  bool isJson = false;

  explicit Input(std::string_view bytes) {
    isJson = bytes.starts_with('{');
    if (!isJson) {
      tokenizer = text = bytes;
      return;
    }
    tokenizer = cut(bytes);
    isPair = bytes.find('\0') != std::string_view::npos;
    if (isPair)
      merges = cut(bytes);
    text = bytes;
  }

private:
  /// What stands before the first zero byte; it and the byte are taken away.
  static std::string_view cut(std::string_view &bytes) {
    size_t end = std::min(bytes.find('\0'), bytes.size());
    std::string_view first = bytes.substr(0, end);
    bytes.remove_prefix(std::min(end + 1, bytes.size()));
    return first;
  }
};

void use(const tfm::Tokenizer &tokenizer, std::string_view text) {
  std::vector<int32_t> ids = tokenizer.ids(text);
  for (int32_t id : ids)
    if (id < 0 || id >= tokenizer.size())
      std::abort();
  std::string back = tokenizer.text(ids);
  if (back != tfm::replaceInvalidUtf8(back))
    std::abort();
  for (int32_t id : tokenizer.begin())
    if (id < 0 || id >= tokenizer.size())
      std::abort();
  // What a tokenizer writes can be read, and means the same.
  if (tfm::parseTokenizerJson(tokenizer.json(), "again")->ids(text) != ids)
    std::abort();
}

/// Runs a call whose errors are messages to the user.
template <typename Call> void attempt(Call call) {
  try {
    call();
  } catch (const tfm::InputError &) {
    // What a user sees.
  }
}

/// The compiler may read no fewer ids than the tokenizer has; it takes the
/// largest id where a token is listed twice, the tokenizer the last.
void requireSize(std::string_view text, bool isTable,
                 const tfm::Tokenizer &opened) {
  if (tfm::vocabularySize(text, isTable, "fuzz") < opened.size())
    std::abort();
}

/// Bytes become the same bytes.
void requireSame(std::string_view text, const tfm::Tokenizer &tokenizer) {
  std::string back;
  for (int32_t id : tokenizer.ids(text))
    tokenizer.decode(id, -1, back);
  if (back != text)
    std::abort();
}

/// Whether a tokenizer.json is byte-level, changes nothing before it cuts, and
/// has no tokens that take spaces with them.
bool keepsBytes(std::string_view text) {
  auto root = nlohmann::json::parse(text);
  auto typeOf = [&](const char *part) {
    return root.contains(part) && root[part].is_object()
               ? root[part].value("type", nlohmann::json())
               : nlohmann::json();
  };
  auto cut = typeOf("pre_tokenizer");
  return root.value("added_tokens", nlohmann::json::array()).empty() &&
         root.value("normalizer", nlohmann::json()).is_null() &&
         typeOf("model") == "BPE" &&
         (cut == "ByteLevel" || cut == "Sequence") &&
         root["model"].value("byte_fallback", nlohmann::json()) != true &&
         root["model"].value("end_of_word_suffix", nlohmann::json()) != "</w>";
}

void useTables(const Input &input) {
  tfm::NamedText vocabulary{std::string(input.tokenizer), "vocab.json"};
  tfm::NamedText merges{std::string(input.merges), "merges.txt"};
  attempt([&] {
    auto words = tfm::makeWordsTokenizer(vocabulary);
    requireSize(input.tokenizer, /*isTable=*/true, *words);
    use(*words, input.text);
  });
  attempt([&] {
    auto bytes = tfm::makeByteBpeTokenizer(vocabulary, merges);
    use(*bytes, input.text);
    requireSame(input.text, *bytes);
  });
  attempt(
      [&] { use(*tfm::makeWordBpeTokenizer(vocabulary, merges), input.text); });
}

} // namespace

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size,
                                          size_t limit, unsigned seed) {
  Dice dice(seed);
  std::string_view bytes(reinterpret_cast<const char *>(data), size);
  Input input(bytes);
  if (!input.isJson)
    return handOver(mutateProtobuf(bytes, dice), data, size, limit);
  std::string tokenizer(input.tokenizer), merges(input.merges),
      text(input.text);
  if (dice.oneIn(4))
    text = mutateText(text, tokenizer, dice);
  else if (!input.isPair)
    tokenizer = mutateTokenizerJson(tokenizer, dice);
  else if (dice.oneIn(2))
    tokenizer = mutateVocabulary(tokenizer, dice);
  else
    merges = mutateMerges(merges, dice);
  std::string all = tokenizer + '\0';
  if (input.isPair)
    all += merges + '\0';
  return handOver(all + text, data, size, limit);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  TimeLimit limit(2);
  Input input({reinterpret_cast<const char *>(data), size});
  if (!input.isJson) {
    attempt([&] {
      use(*tfm::parseSentencePiece(input.tokenizer, "fuzz"), input.text);
    });
  } else if (input.isPair) {
    useTables(input);
  } else {
    attempt([&] {
      auto opened = tfm::parseTokenizerJson(input.tokenizer, "fuzz");
      requireSize(input.tokenizer, /*isTable=*/false, *opened);
      use(*opened, input.text);
      if (keepsBytes(input.tokenizer))
        requireSame(input.text, *opened);
    });
  }
  return 0;
}
