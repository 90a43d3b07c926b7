//===- stream.cpp - one long text ---------------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/data/dataset.h"
#include "runtime/data/texts.h"
#include "runtime/error.h"
#include "runtime/files/atomic_file.h"
#include "runtime/files/checksum.h"
#include "runtime/tokenizer/utf8.h"

#include <algorithm>
#include <cmath>
#include <fmt/ranges.h>
#include <new>

namespace tfm {

namespace {

class TokenStream : public Dataset {
public:
  TokenStream(std::vector<int32_t> train, std::vector<int32_t> validation,
              int64_t sequence, int32_t filler)
      : train(std::move(train)), validation(std::move(validation)),
        sequence(sequence), filler(filler) {}

  int64_t starts(Part part) const override {
    return std::max<int64_t>(0, count(part) - sequence);
  }

  /// The last window may be shorter than the others.
  int64_t windows(Part part) const override {
    if (part == Part::Train)
      return (count(part) - 1) / sequence;
    return (std::max<int64_t>(0, count(part) - 1) + sequence - 1) / sequence;
  }

  int64_t windowStart(Part, int64_t window) const override {
    return window * sequence;
  }

  int64_t read(Part part, int64_t start, std::span<int32_t> tokens,
               std::span<int32_t> targets) const override {
    const std::vector<int32_t> &all = part == Part::Train ? train : validation;
    int64_t valid = std::clamp<int64_t>(count(part) - 1 - start, 0, sequence);
    const int32_t *from = all.data() + start;
    std::copy_n(from, valid, tokens.begin());
    std::copy_n(from + 1, valid, targets.begin());
    std::fill(tokens.begin() + valid, tokens.end(), 0);
    std::fill(targets.begin() + valid, targets.end(), filler);
    return valid;
  }

  bool isStream() const override { return true; }

private:
  int64_t count(Part part) const {
    return static_cast<int64_t>(part == Part::Train ? train.size()
                                                    : validation.size());
  }

  std::vector<int32_t> train;
  std::vector<int32_t> validation;
  int64_t sequence;
  int32_t filler;
};

/// Byte position of the code point with this index.
size_t positionOf(std::string_view text, int64_t index) {
  size_t at = 0;
  for (; index > 0; --index)
    at += decodeUtf8(text, at).bytes;
  return at;
}

/// Token ids in a file: 16 bits each, 32 for a vocabulary above 65,536,
/// little-endian (as nanoGPT writes them).
std::vector<int32_t> readIds(const DataRequest &request) {
  std::vector<int32_t> ids;
  int64_t vocabulary = request.tokenizer.size();
  size_t width = vocabulary > 65536 ? 4 : 2;
  for (const std::string &name : request.spec.files) {
    std::string path =
        locateFile(name, request.spec.directory, "the data file", "--data");
    std::string bytes = readFile(path, "the data file");
    if (bytes.empty())
      throw InputError("the data file " + path + " is empty");
    if (bytes.size() % width != 0)
      throw InputError("the data file " + path + " is not made of " +
                       std::to_string(8 * width) + "-bit token ids");
    for (size_t at = 0; at < bytes.size(); at += width) {
      uint32_t id = 0;
      for (size_t i = 0; i < width; ++i)
        id |= uint32_t{static_cast<unsigned char>(bytes[at + i])} << (8 * i);
      if (id >= static_cast<uint64_t>(vocabulary))
        throw InputError("the data file " + path + " has the token id " +
                         std::to_string(id) + " at place " +
                         std::to_string(at / width) + " (byte " +
                         std::to_string(at) + "), but the vocabulary has " +
                         std::to_string(vocabulary) +
                         " tokens: write it with this model's tokenizer");
      ids.push_back(static_cast<int32_t>(id));
    }
  }
  return ids;
}

/// Throws what the tokenizer cannot encode, with its file and line.
void findProblem(const Text &whole, const Tokenizer &tokenizer) {
  std::vector<int32_t> ids;
  for (size_t i = 0; i < whole.files.size(); ++i) {
    size_t last = i + 1 < whole.files.size() ? whole.files[i + 1].begin
                                             : whole.text.size();
    for (size_t at = whole.files[i].begin; at < last;) {
      size_t end = std::min(whole.text.find('\n', at), last - 1) + 1;
      ids.clear();
      encodeData(tokenizer, std::string_view(whole.text).substr(at, end - at),
                 ids, [&] { return "the data file " + whole.placeOf(at); });
      at = end;
    }
  }
}

} // namespace

int64_t trainingShare(int64_t count, double validation) {
  // The small term keeps 25000 * (1 - 0.1) from becoming 22499.
  double share = static_cast<double>(count) * (1 - validation);
  return std::clamp(static_cast<int64_t>(std::floor(share + 1e-6)), int64_t{0},
                    count);
}

std::unique_ptr<Dataset> openStream(const DataRequest &request) {
  const DataSpec &spec = request.spec;
  std::string name = spec.files.empty() ? "" : spec.files.front();
  std::vector<int32_t> train, validation;
  if (spec.kind == "tokens") {
    train = readIds(request);
    int64_t cut =
        trainingShare(static_cast<int64_t>(train.size()), spec.validation);
    validation.assign(train.begin() + cut, train.end());
    train.resize(static_cast<size_t>(cut));
  } else {
    // As nanoGPT: cut by characters, then each part becomes tokens on its own.
    Text whole = readText(spec);
    std::string_view text = whole.text;
    if (isBlank(text))
      throw InputError("the data file " + name + " has no text: it is blank");
    auto characters = static_cast<int64_t>(countCodePoints(text));
    size_t cut = positionOf(text, trainingShare(characters, spec.validation));
    try {
      request.tokenizer.encode(text.substr(0, cut), train);
      request.tokenizer.encode(text.substr(cut), validation);
    } catch (const InputError &error) {
      findProblem(whole, request.tokenizer);
      throw InputError("the data file " + name + ": " + error.what());
    }
  }
  // Where all of it is for validation, as in `eval`, nothing trains on it.
  bool trains = spec.validation < 1;
  size_t tokens = trains ? train.size() : validation.size();
  if (static_cast<int64_t>(tokens) <= request.sequence)
    throw InputError(
        "the data file " + name +
        " is too short: " + (trains ? "its training part" : "it") + " has " +
        std::to_string(tokens) + (tokens == 1 ? " token" : " tokens") +
        ", one window needs " + std::to_string(request.sequence + 1) +
        "; use more text or build with a smaller -D train.sequence");
  return std::make_unique<TokenStream>(std::move(train), std::move(validation),
                                       request.sequence,
                                       request.ignore.value_or(0));
}

std::vector<Question> Dataset::questions(Part part) const {
  std::vector<Question> result;
  if (isStream())
    return result;
  for (int64_t i = 0; i < windows(part); ++i)
    if (std::optional<Question> one = question(part, i))
      result.push_back(std::move(*one));
  return result;
}

std::string Dataset::checksum(int64_t sequence) const {
  Checksum checksum;
  std::vector<int32_t> row(2 * static_cast<size_t>(sequence));
  std::span<int32_t> tokens = std::span(row).first(row.size() / 2);
  std::span<int32_t> targets = std::span(row).last(row.size() / 2);
  for (Part part : {Part::Train, Part::Validation}) {
    int64_t all = starts(part);
    checksum.add(&all, sizeof all);
    auto add = [&](int64_t start) {
      read(part, start, tokens, targets);
      checksum.add(row.data(), row.size() * sizeof(int32_t));
    };
    for (int64_t window = 0; window < windows(part); ++window)
      add(windowStart(part, window));
    // Windows that begin anywhere reach what is less than one of those.
    if (isStream() && all > 0)
      add(all - 1);
  }
  return checksum.text();
}

std::unique_ptr<Dataset> openDataset(const DataRequest &request) {
  const DataSpec &spec = request.spec;
  try {
    return tfm::isStream(spec) ? openStream(request) : openExamples(request);
  } catch (const std::bad_alloc &) {
    throw InputError("out of memory: " +
                     (spec.files.empty()
                          ? fmt::format("data {} with count = {} takes more "
                                        "than there is; build it with a "
                                        "smaller -D data.count",
                                        spec.kind, spec.count)
                          : fmt::format("the tokens of {} take more than "
                                        "there is; use less of it",
                                        fmt::join(spec.files, ", "))));
  }
}

} // namespace tfm
