//===- texts.cpp - the texts of a data source ---------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/data/texts.h"

#include "runtime/atomic_file.h"
#include "runtime/data/numpy_random.h"
#include "runtime/error.h"
#include "runtime/tokenizer/tokenizer.h"

#include <algorithm>
#include <nlohmann/json.hpp>

using nlohmann::json;

namespace tfm {

namespace {

bool isGenerated(const DataSpec &data) {
  return data.kind == "sums" || data.kind == "products";
}

std::vector<std::string> makeExpressions(const DataSpec &data) {
  bool isSum = data.kind == "sums";
  if (data.count < 1 || data.max < 1 || data.max >= 1'000'000'000)
    throw InputError("data " + data.kind +
                     " needs count >= 1 and 1 <= max < 10^9");
  NumpyRandom random(data.seed);
  auto bound = static_cast<uint32_t>(data.max + 1);
  std::vector<std::string> examples;
  examples.reserve(static_cast<size_t>(data.count));
  for (int64_t i = 0; i < data.count; ++i) {
    uint64_t a = random.below(bound);
    uint64_t b = random.below(bound);
    examples.push_back(std::to_string(a) + (isSum ? '+' : '*') +
                       std::to_string(b) + '=' +
                       std::to_string(isSum ? a + b : a * b) + data.end);
  }
  return examples;
}

/// Calls `use` with every line, without its end.
template <typename Use> void eachLine(std::string_view text, Use use) {
  while (!text.empty()) {
    size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (!line.empty() && line.back() == '\r')
      line.remove_suffix(1);
    use(line);
  }
}

/// The text of one JSON document; `where` is for messages.
std::string fieldOf(const json &document, const DataSpec &data,
                    const std::string &where) {
  if (!document.is_object() || !document.contains(data.field) ||
      !document[data.field].is_string())
    throw InputError(where + ": there is no text in the field \"" + data.field +
                     "\"");
  return document[data.field].get<std::string>() + data.end;
}

/// One JSON document per line, or an array of them.
void readJson(const std::string &path, const DataSpec &data,
              std::vector<std::string> &examples) {
  std::string text = readFile(path, "the data file");
  size_t begin = text.find_first_not_of(" \t\r\n");
  if (begin != std::string::npos && text[begin] == '[') {
    json all = json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (all.is_discarded())
      throw InputError(path + " is not valid JSON");
    for (size_t i = 0; i < all.size(); ++i)
      examples.push_back(
          fieldOf(all[i], data, path + ", document " + std::to_string(i + 1)));
    return;
  }
  size_t number = 0;
  eachLine(text, [&](std::string_view line) {
    ++number;
    if (line.find_first_not_of(" \t") == std::string_view::npos)
      return;
    std::string where = path + ":" + std::to_string(number);
    json document = json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (document.is_discarded())
      throw InputError(where + ": not valid JSON");
    examples.push_back(fieldOf(document, data, where));
  });
}

} // namespace

std::string locateFile(const std::string &name, const std::string &source,
                       const char *purpose) {
  if (fileExists(name))
    return name;
  size_t slash = source.rfind('/');
  std::string beside = name.starts_with('/') || slash == std::string::npos
                           ? name
                           : source.substr(0, slash + 1) + name;
  if (fileExists(beside))
    return beside;
  throw InputError(
      std::string("cannot find ") + purpose + " " + name +
      (beside == name ? "" : " (nor " + beside + ")") +
      ": run from the folder that has it, or name it with --" +
      (std::string(purpose) == "the tokenizer" ? "tokenizer" : "data"));
}

bool isStream(const DataSpec &data) {
  return data.kind == "text" || data.kind == "tokens";
}

DataSpec withDefaults(DataSpec data) {
  if (isGenerated(data)) {
    if (data.end.empty())
      data.end = ".";
    if (data.pad.empty())
      data.pad = "#";
    if (data.answerAfter.empty())
      data.answerAfter = "=";
  }
  return data;
}

std::string readText(const DataSpec &data, const std::string &source) {
  if (data.files.empty())
    throw InputError("the model names no data file: use --data FILE");
  std::string text;
  for (const std::string &name : data.files) {
    std::string path = locateFile(name, source, "the data file");
    std::string part = readFile(path, "the data file");
    if (part.empty())
      throw InputError("the data file " + path + " is empty");
    text = text.empty() ? std::move(part) : text + part;
  }
  return text;
}

std::vector<std::string> readExamples(const DataSpec &spec,
                                      const std::string &source) {
  DataSpec data = withDefaults(spec);
  if (isGenerated(data))
    return makeExpressions(data);
  if (data.kind != "lines" && data.kind != "json")
    throw InputError("data " + data.kind + " is not supported");
  if (data.files.empty())
    throw InputError("the model names no data file: use --data FILE");
  std::vector<std::string> examples;
  for (const std::string &name : data.files) {
    std::string path = locateFile(name, source, "the data file");
    size_t before = examples.size();
    if (data.kind == "json")
      readJson(path, data, examples);
    else
      eachLine(readFile(path, "the data file"), [&](std::string_view line) {
        if (!line.empty())
          examples.push_back(std::string(line) + data.end);
      });
    if (examples.size() == before)
      throw InputError("the data file " + path + " is empty");
  }
  return examples;
}

std::string dataCharacters(const DataSpec &spec, const std::string &source) {
  DataSpec data = withDefaults(spec);
  if (isGenerated(data))
    return "0123456789" + std::string(data.kind == "sums" ? "+" : "*") + "=" +
           data.end + data.pad;
  if (data.kind == "text")
    return distinctCharacters(readText(data, source));
  std::string all = data.pad;
  for (const std::string &example : readExamples(data, source))
    all += example;
  return distinctCharacters(all);
}

} // namespace tfm
