//===- stream.cpp - one long text ---------------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/data/dataset.h"
#include "runtime/data/texts.h"
#include "runtime/data/token_file.h"
#include "runtime/support/atomic_file.h"
#include "runtime/support/checksum.h"
#include "runtime/support/error.h"
#include "runtime/support/utf8.h"

#include <algorithm>
#include <cmath>
#include <fmt/ranges.h>
#include <new>
#include <stdexcept>

namespace tfm {

namespace {

/// The tokens of one part, one after the other.
class Tokens {
public:
  virtual ~Tokens() = default;
  virtual int64_t count() const = 0;
  /// Copies those from `first` on.
  virtual void read(int64_t first, std::span<int32_t> out) const = 0;
};

/// Those of a text.
class TokensInMemory : public Tokens {
public:
  explicit TokensInMemory(std::vector<int32_t> ids) : ids(std::move(ids)) {}

  int64_t count() const override { return std::ssize(ids); }
  void read(int64_t first, std::span<int32_t> out) const override {
    std::copy_n(ids.begin() + first, out.size(), out.begin());
  }

private:
  std::vector<int32_t> ids;
};

/// Files, read one after the other.
class TokenFiles {
public:
  TokenFiles(const DataSpec &spec, int64_t vocabulary) {
    for (const std::string &name : spec.files) {
      files.emplace_back(
          locateFile(name, spec.directory, "the data file", "--data"),
          vocabulary);
      ends.push_back(count() + files.back().count());
    }
  }

  int64_t count() const { return ends.empty() ? 0 : ends.back(); }
  void read(int64_t first, std::span<int32_t> out) const {
    for (auto end = std::ranges::upper_bound(ends, first); !out.empty();
         ++end) {
      const TokenFile &file = files[end - ends.begin()];
      int64_t here = std::min(*end - first, std::ssize(out));
      file.read(first - (*end - file.count()), out.first(here));
      first += here;
      out = out.subspan(here);
    }
  }

private:
  std::vector<TokenFile> files;
  std::vector<int64_t> ends; ///< of each, among the ids of all
};

/// A range of them.
class TokensInFiles : public Tokens {
public:
  TokensInFiles(std::shared_ptr<const TokenFiles> files, int64_t begin,
                int64_t end)
      : files(std::move(files)), begin(begin), end(end) {}

  int64_t count() const override { return end - begin; }
  void read(int64_t first, std::span<int32_t> out) const override {
    files->read(begin + first, out);
  }

private:
  std::shared_ptr<const TokenFiles> files;
  int64_t begin, end;
};

class TokenStream : public TextDataset {
public:
  TokenStream(std::unique_ptr<const Tokens> train,
              std::unique_ptr<const Tokens> validation, int64_t sequence,
              int32_t filler)
      : train(std::move(train)), validation(std::move(validation)),
        sequence(sequence), filler(filler) {}

  int64_t starts(Part part) const override {
    return std::max<int64_t>(0, tokensOf(part).count() - sequence);
  }

  /// The last window may be shorter than the others.
  int64_t windows(Part part) const override {
    int64_t count = tokensOf(part).count();
    if (part == Part::Train)
      return (count - 1) / sequence;
    return (std::max<int64_t>(0, count - 1) + sequence - 1) / sequence;
  }

  int64_t windowStart(Part, int64_t window) const override {
    return window * sequence;
  }

  int64_t read(Part part, int64_t start, std::span<int32_t> tokens,
               std::span<int32_t> targets) const override {
    const Tokens &all = tokensOf(part);
    int64_t valid =
        std::clamp<int64_t>(all.count() - 1 - start, 0, std::ssize(tokens));
    if (valid > 0) {
      all.read(start, tokens.first(valid));
      std::copy(tokens.begin() + 1, tokens.begin() + valid, targets.begin());
      all.read(start + valid, targets.subspan(valid - 1, 1));
    }
    std::fill(tokens.begin() + valid, tokens.end(), 0);
    std::fill(targets.begin() + valid, targets.end(), filler);
    return valid;
  }

  bool isStream() const override { return true; }

private:
  const Tokens &tokensOf(Part part) const {
    return part == Part::Train ? *train : *validation;
  }

  std::unique_ptr<const Tokens> train, validation;
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

/// What is for training, and what for validation.
using Parts =
    std::pair<std::unique_ptr<const Tokens>, std::unique_ptr<const Tokens>>;

Parts partsOfFiles(const DataRequest &request) {
  const DataSpec &spec = request.spec;
  auto filesOf = [&](const DataSpec &source) {
    return std::make_shared<const TokenFiles>(source, request.tokenizer.size());
  };
  auto range = [](std::shared_ptr<const TokenFiles> files, int64_t begin,
                  int64_t end) {
    return std::make_unique<TokensInFiles>(std::move(files), begin, end);
  };
  auto files = filesOf(spec);
  int64_t all = files->count();
  if (!spec.validationFiles.empty()) {
    auto others = filesOf(validationOf(spec));
    return {range(files, 0, all), range(others, 0, others->count())};
  }
  int64_t cut = trainingShare(all, spec.validation);
  return {range(files, 0, cut), range(files, cut, all)};
}

Parts partsOfText(const DataRequest &request) {
  auto read = [](const DataSpec &source) {
    Text whole = readText(source);
    if (isBlank(whole.text))
      throw InputError("the data file {} has no text: it is blank",
                       source.files.front());
    return whole;
  };
  auto encode = [&](const DataSpec &source, const Text &whole,
                    std::string_view part) {
    std::vector<int32_t> ids;
    // More than there are, mostly: a vector that grows has what it holds twice,
    // and of what is not touched the system keeps nothing.
    try {
      ids.reserve(part.size());
    } catch (const std::bad_alloc &) { // perhaps there are few
    }
    try {
      request.tokenizer.encode(part, ids);
    } catch (const InputError &error) {
      findProblem(whole, request.tokenizer);
      throw InputError("the data file {}: {}", source.files.front(),
                       error.what());
    }
    if (ids.size() < ids.capacity() / 2)
      ids.shrink_to_fit();
    return std::make_unique<TokensInMemory>(std::move(ids));
  };
  const DataSpec &spec = request.spec;
  Text whole = read(spec);
  std::string_view text = whole.text;
  if (!spec.validationFiles.empty()) {
    DataSpec others = validationOf(spec);
    Text unseen = read(others);
    return {encode(spec, whole, text), encode(others, unseen, unseen.text)};
  }
  // As nanoGPT: cut by characters, then each part becomes tokens on its own.
  auto characters = static_cast<int64_t>(countCodePoints(text));
  size_t cut = positionOf(text, trainingShare(characters, spec.validation));
  return {encode(spec, whole, text.substr(0, cut)),
          encode(spec, whole, text.substr(cut))};
}

} // namespace

int64_t trainingShare(int64_t count, double validation) {
  // The small term keeps 25000 * (1 - 0.1) from becoming 22499.
  double share = static_cast<double>(count) * (1 - validation);
  return std::clamp(static_cast<int64_t>(std::floor(share + 1e-6)), int64_t{0},
                    count);
}

std::unique_ptr<TextDataset> openStream(const DataRequest &request) {
  const DataSpec &spec = request.spec;
  auto [train, validation] =
      spec.kind == "tokens" ? partsOfFiles(request) : partsOfText(request);
  // Where all of it is for validation, as in `eval`, nothing trains on it.
  bool trains = spec.validation < 1;
  int64_t tokens = (trains ? train : validation)->count();
  if (tokens <= request.sequence)
    throw InputError(
        "the data file {} is too short: {} has {}{}, one window needs {}; use "
        "more text or build with a smaller -D train.sequence",
        spec.files.front(), trains ? "its training part" : "it", tokens,
        tokens == 1 ? " token" : " tokens", request.sequence + 1);
  if (!spec.validationFiles.empty() && validation->count() < 2)
    throw InputError("the data file {} is too short to validate with: it has "
                     "one token, and nothing follows that",
                     spec.validationFiles.front());
  return std::make_unique<TokenStream>(std::move(train), std::move(validation),
                                       request.sequence,
                                       request.ignore.value_or(0));
}

std::span<const int32_t> TextDataset::source(Part, int64_t) const {
  throw std::logic_error("this data has no sources");
}

void TextDataset::requireFills(const tfm_function &function) const {
  Model::requireFilled(
      function, {TFM_IN_TOKENS, TFM_IN_TARGETS, TFM_IN_COUNT, TFM_IN_RNG});
  const tfm_buffer &tokens = Model::input(function, TFM_IN_TOKENS);
  const tfm_buffer *losses = Model::findOutput(function, TFM_OUT_LOSSES);
  if (losses && Model::elements(losses->rank, losses->shape) !=
                    Model::elements(tokens.rank, tokens.shape))
    throw InputError("the model does not give one loss for each target, "
                     "[B, T]: train it with a program of your own (`tfmc build "
                     "--emit obj`)");
}

int64_t TextDataset::fill(Part part, int64_t start, Rows &rows,
                          int64_t row) const {
  int64_t valid = read(part, start, rows.tokens(row), rows.targets(row));
  if (rows.hasSource())
    rows.setSource(row, source(part, start), padding());
  return valid;
}

std::string TextDataset::checksum(std::initializer_list<Part> parts,
                                  int64_t sequence, bool withSources,
                                  int64_t mostPieces) const {
  // A text is read in pieces of many windows.
  constexpr int64_t pieceTokens = int64_t{1} << 16;
  int64_t each = isStream() ? (pieceTokens + sequence - 1) / sequence : 1;
  Checksum checksum;
  std::vector<int32_t> row(2 * static_cast<size_t>(each * sequence));
  std::span<int32_t> tokens = std::span(row).first(row.size() / 2);
  std::span<int32_t> targets = std::span(row).last(row.size() / 2);
  for (Part part : parts) {
    int64_t all = starts(part);
    checksum.add(&all, sizeof all);
    auto add = [&](int64_t start) {
      read(part, start, tokens, targets);
      checksum.add(row.data(), row.size() * sizeof(int32_t));
      if (withSources)
        checksum.add(source(part, start).data(),
                     source(part, start).size_bytes());
    };
    int64_t pieces = (windows(part) + each - 1) / each;
    int64_t most = std::max<int64_t>(
        mostPieces * pieceTokens / static_cast<int64_t>(tokens.size()), 1);
    int64_t wanted = std::min(pieces, most);
    for (int64_t i = 0; i < wanted; ++i)
      add(windowStart(part, i * pieces / wanted * each));
    // Windows that begin anywhere reach what is less than one of those.
    if (isStream() && all > 0)
      add(all - 1);
  }
  return checksum.text();
}

std::unique_ptr<TextDataset> openTexts(const DataRequest &named) {
  DataSpec spec = withFiles(named.spec);
  DataRequest request = {spec,         named.tokenizer, named.sequence,
                         named.ignore, named.chat,      named.source};
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

std::unique_ptr<Dataset> openDataset(const DataRequest &request) {
  return holdsArrays(request.spec) ? openArrays(request.spec, request.arrays)
                                   : openTexts(request);
}

} // namespace tfm
