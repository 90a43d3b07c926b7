//===- characters.cpp - the characters of a data source -----------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/data/characters.h"

#include "runtime/data/texts.h"
#include "runtime/support/error.h"
#include "runtime/support/utf8.h"

#include <set>

namespace tfm {

namespace {

class Characters {
public:
  /// `place` names the place of a byte that is not UTF-8.
  template <typename Place> void add(std::string_view text, Place place) {
    for (size_t at = 0; at < text.size();) {
      // Most characters of most texts: a table is quicker than a set.
      auto byte = static_cast<unsigned char>(text[at]);
      if (byte < 128) {
        ascii[byte] = true;
        ++at;
        continue;
      }
      CodePoint character = decodeUtf8(text, at);
      if (character.value < 0)
        throw InputError(
            "{}: not UTF-8 text: only a tokenizer of bytes takes it",
            place(at));
      others.insert(character.value);
      at += character.bytes;
    }
  }

  std::vector<std::string> sorted() const {
    std::vector<std::string> all;
    for (int byte = 0; byte < 128; ++byte)
      if (ascii[byte])
        all.emplace_back(1, static_cast<char>(byte));
    for (int32_t character : others)
      appendUtf8(character, all.emplace_back());
    return all;
  }

private:
  bool ascii[128] = {};
  std::set<int32_t> others;
};

} // namespace

std::vector<std::string> dataCharacters(const DataSpec &spec) {
  DataSpec data = withMatches(withDefaults(spec));
  Characters characters;
  if (isStream(data)) {
    Text whole = readText(data);
    characters.add(whole.text, [&](size_t at) {
      return "the data file " + whole.placeOf(at);
    });
  } else {
    for (const Example &example : readExamples(data))
      characters.add(example.text, [&](size_t) { return example.place(data); });
  }
  for (const std::string &text : {data.begin, data.end, data.pad})
    characters.add(text, [&](size_t) { return "data " + data.kind; });
  return characters.sorted();
}

} // namespace tfm
