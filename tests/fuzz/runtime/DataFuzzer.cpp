//===- DataFuzzer.cpp - any bytes as a file of examples -----------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

// The input is read as lines, JSON documents and tables. Nothing but InputError
// may come out, an example is of a line that the file has, and pairs that are
// written as a table are read as what they were.
//
//===----------------------------------------------------------------------===//

#include "runtime/data/texts.h"
#include "runtime/support/error.h"
#include "tests/fuzz/support/Folder.h"
#include "tests/fuzz/support/TimeLimit.h"

#include <algorithm>
#include <cstdlib>
#include <optional>

namespace {

const tfm::fuzz::Folder &folder() {
  static const tfm::fuzz::Folder made;
  return made;
}

/// The examples of a file with this content; nothing where it is refused.
std::optional<std::vector<tfm::Example>>
examplesOf(const char *kind, const std::string &name, std::string_view text) {
  folder().write(name, text);
  tfm::DataSpec data;
  data.kind = kind;
  data.field = "text";
  data.files = {folder().path + "/" + name};
  try {
    return tfm::readExamples(data);
  } catch (const tfm::InputError &) {
    return std::nullopt;
  }
}

/// A cell of a table in quotes.
std::string quoted(std::string_view text) {
  std::string cell = "\"";
  for (char c : text)
    cell += c == '"' ? std::string("\"\"") : std::string(1, c);
  return cell + '"';
}

void requireSameAsTable(const std::vector<tfm::Example> &pairs) {
  std::string table = "answer,prompt\n";
  for (const tfm::Example &pair : pairs) {
    std::string_view text = pair.text;
    table += quoted(text.substr(pair.prompt)) + "," +
             quoted(text.substr(0, pair.prompt)) + "\r\n";
  }
  if (table.find('\0') != std::string::npos)
    return; // which is no text
  auto again = examplesOf("pairs", "again.csv", table);
  if (!again ||
      !std::ranges::equal(*again, pairs, [](const auto &a, const auto &b) {
        return a.text == b.text && a.prompt == b.prompt;
      }))
    std::abort();
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  tfm::fuzz::TimeLimit limit(2);
  std::string_view text(reinterpret_cast<const char *>(data), size);
  auto lines = static_cast<size_t>(std::ranges::count(text, '\n')) + 1;
  for (const auto &[kind, name] : {std::pair("lines", "a.txt"),
                                   {"json", "a.jsonl"},
                                   {"json", "a.csv"},
                                   {"pairs", "a.txt"},
                                   {"pairs", "a.csv"},
                                   {"pairs", "a.tsv"}}) {
    auto examples = examplesOf(kind, name, text);
    if (!examples)
      continue;
    for (const tfm::Example &example : *examples)
      if (example.isLine && (example.number < 1 || example.number > lines))
        std::abort();
    if (std::string_view(kind) == "pairs")
      requireSameAsTable(*examples);
  }
  return 0;
}
