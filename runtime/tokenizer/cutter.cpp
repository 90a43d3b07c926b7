//===- cutter.cpp - cuts a text as a tokenizer.json says ----------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/tokenizer/cutter.h"

#include "runtime/support/error.h"
#include "runtime/support/utf8.h"
#include "runtime/tokenizer/byte_characters.h"
#include "runtime/tokenizer/normalizer.h"
#include "runtime/tokenizer/steps.h"
#include "runtime/tokenizer/vocabulary.h"

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

using nlohmann::json;

namespace tfm {

namespace {

/// What becomes of the places that a pattern finds.
enum class Behavior {
  Removed,
  Isolated,
  MergedWithPrevious,
  MergedWithNext,
  Contiguous
};

/// A part of a text, a match or what lies between two.
struct Part {
  size_t begin, end;
  bool isMatch;
};

/// Puts a text's parts, which follow each other, together.
void split(const Piece &piece, std::vector<Part> parts, Behavior behavior,
           std::vector<Piece> &pieces) {
  std::vector<Part> kept;
  bool wasMatch = false;
  auto extend = [&](const Part &part, bool joins) {
    if (joins && !kept.empty()) {
      kept.back().begin = std::min(kept.back().begin, part.begin);
      kept.back().end = std::max(kept.back().end, part.end);
    } else {
      kept.push_back(part);
    }
    wasMatch = part.isMatch;
  };
  if (behavior == Behavior::MergedWithNext)
    std::ranges::reverse(parts);
  for (const Part &part : parts) {
    switch (behavior) {
    case Behavior::Removed:
      if (!part.isMatch)
        kept.push_back(part);
      break;
    case Behavior::Isolated:
      kept.push_back(part);
      break;
    case Behavior::MergedWithPrevious:
    case Behavior::MergedWithNext:
      extend(part, part.isMatch && !wasMatch);
      break;
    case Behavior::Contiguous:
      extend(part, part.isMatch == wasMatch);
      break;
    }
  }
  if (behavior == Behavior::MergedWithNext)
    std::ranges::reverse(kept);
  for (const Part &part : kept)
    if (part.end > part.begin)
      pieces.push_back({piece.text.substr(part.begin, part.end - part.begin),
                        piece.isFirst && part.begin == 0});
}

/// The parts of a text by its characters: each that `isMatch` is one.
std::vector<Part> partsOf(std::string_view text, bool (*isMatch)(int32_t)) {
  std::vector<Part> parts;
  size_t last = 0;
  for (size_t at = 0; at < text.size();) {
    CodePoint c = decodeUtf8(text, at);
    if (isMatch(c.value)) {
      if (last < at)
        parts.push_back({last, at, false});
      last = at + c.bytes;
      parts.push_back({at, last, true});
    }
    at += c.bytes;
  }
  if (last < text.size())
    parts.push_back({last, text.size(), false});
  return parts;
}

std::vector<Part> partsOf(std::string_view text, const Pretokenizer &pattern) {
  std::vector<Part> parts;
  Pretokenizer::Cursor cursor(pattern, text);
  size_t at = 0;
  for (std::string_view piece; cursor.next(piece); at += piece.size())
    parts.push_back({at, at + piece.size(), cursor.isMatch()});
  return parts;
}

/// What is done to each piece: it gives those that come of it.
using Step = std::function<void(Piece, std::vector<Piece> &)>;

Behavior behaviorOf(const json &step, const std::string &origin) {
  std::string name = step.value("behavior", "Isolated");
  std::pair<const char *, Behavior> all[] = {
      {"Removed", Behavior::Removed},
      {"Isolated", Behavior::Isolated},
      {"MergedWithPrevious", Behavior::MergedWithPrevious},
      {"MergedWithNext", Behavior::MergedWithNext},
      {"Contiguous", Behavior::Contiguous}};
  for (const auto &[known, result] : all)
    if (name == known)
      return result;
  refuseStep("pre-tokenizer", step, origin);
}

Step byCharacters(bool (*isMatch)(int32_t), Behavior behavior) {
  return [=](const Piece &piece, std::vector<Piece> &pieces) {
    split(piece, partsOf(piece.text, isMatch), behavior, pieces);
  };
}

Step byPattern(const json &step, const std::string &origin) {
  auto regex = StepPattern::read("pre-tokenizer", step, origin).regex;
  bool inverts = step.value("invert", false);
  Behavior behavior = behaviorOf(step, origin);
  return [=](const Piece &piece, std::vector<Piece> &pieces) {
    std::vector<Part> parts = partsOf(piece.text, *regex);
    for (Part &part : parts)
      part.isMatch ^= inverts;
    split(piece, std::move(parts), behavior, pieces);
  };
}

Step withMetaspace(const json &step, const std::string &origin) {
  std::optional<Metaspace> read = Metaspace::read(step);
  if (!read || read->space.empty() || read->space.size() > 4)
    refuseStep("pre-tokenizer", step, origin);
  auto mark =
      std::make_shared<Pretokenizer>(escapePattern(read->space), origin);
  return [=, meta = *read](Piece piece, std::vector<Piece> &pieces) {
    std::string text;
    for (char c : piece.text)
      c == ' ' ? text += meta.space : text += c;
    if (meta.prepends && (!meta.onlyFirst || piece.isFirst) &&
        !text.starts_with(meta.space))
      text.insert(0, meta.space);
    piece.text = std::move(text);
    if (meta.splits)
      split(piece, partsOf(piece.text, *mark), Behavior::MergedWithNext,
            pieces);
    else
      pieces.push_back(std::move(piece));
  };
}

/// Words as GPT-2 cuts them, with characters in place of their bytes.
Step byBytes(const json &step, const std::string &origin) {
  bool prepends = step.value("add_prefix_space", true);
  std::shared_ptr<Pretokenizer> words;
  if (step.value("use_regex", true))
    words = std::make_shared<Pretokenizer>(gpt2Pattern, origin);
  return [=](Piece piece, std::vector<Piece> &pieces) {
    if (prepends && !piece.text.starts_with(' '))
      piece.text.insert(0, " ");
    size_t first = pieces.size();
    if (words)
      split(piece, partsOf(piece.text, *words), Behavior::Isolated, pieces);
    else
      pieces.push_back(std::move(piece));
    for (size_t i = first; i < pieces.size(); ++i)
      pieces[i].text = ByteCharacters::get().of(pieces[i].text);
  };
}

} // namespace

Cutter Cutter::read(const json &value, const std::string &origin) {
  Cutter result;
  result.add(value, origin);
  if (result.steps.size() > 64)
    throw InputError("{}: its pre-tokenizer has more than 64 steps", origin);
  return result;
}

void Cutter::add(const json &value, const std::string &origin) {
  if (value.is_null())
    return;
  std::string type = stepType(value);
  if (type == "Sequence") {
    for (const json &step : value.at("pretokenizers"))
      add(step, origin);
  } else if (type == "WhitespaceSplit") {
    steps.push_back(byCharacters(isWhiteSpace, Behavior::Removed));
  } else if (type == "BertPreTokenizer") {
    steps.push_back(byCharacters(isWhiteSpace, Behavior::Removed));
    steps.push_back(byCharacters(isPunctuation, Behavior::Isolated));
  } else if (type == "Punctuation") {
    steps.push_back(byCharacters(isPunctuation, behaviorOf(value, origin)));
  } else if (type == "Digits") {
    bool isEach = value.value("individual_digits", false);
    steps.push_back(byCharacters(isNumeric, isEach ? Behavior::Isolated
                                                   : Behavior::Contiguous));
  } else if (type == "Split" && member(value, "pattern").is_object()) {
    steps.push_back(byPattern(value, origin));
  } else if (type == "Metaspace") {
    steps.push_back(withMetaspace(value, origin));
  } else if (type == "ByteLevel") {
    bytes = true;
    steps.push_back(byBytes(value, origin));
  } else {
    refuseStep("pre-tokenizer", value, origin);
  }
}

std::vector<Piece> Cutter::cut(Piece text) const {
  std::vector<Piece> pieces;
  if (!text.text.empty())
    pieces.push_back(std::move(text));
  for (const auto &step : steps) {
    std::vector<Piece> cut;
    for (Piece &piece : pieces)
      step(std::move(piece), cut);
    pieces = std::move(cut);
  }
  return pieces;
}

} // namespace tfm
