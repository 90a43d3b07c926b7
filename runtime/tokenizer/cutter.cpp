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
#include "runtime/tokenizer/pretokenizer.h"
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

} // namespace

Cutter Cutter::read(const json &value, const std::string &origin) {
  Cutter result;
  result.add(value, origin);
  if (result.steps.size() > 64)
    throw InputError(origin + ": its pre-tokenizer has more than 64 steps");
  return result;
}

void Cutter::add(const json &value, const std::string &origin) {
  if (value.is_null())
    return;
  std::string type = value.is_object() ? value.value("type", "") : "";
  auto refuse = [&] { refuseStep("pre-tokenizer", value, origin); };
  auto behavior = [&]() -> Behavior {
    std::string name = value.value("behavior", "Isolated");
    std::pair<const char *, Behavior> all[] = {
        {"Removed", Behavior::Removed},
        {"Isolated", Behavior::Isolated},
        {"MergedWithPrevious", Behavior::MergedWithPrevious},
        {"MergedWithNext", Behavior::MergedWithNext},
        {"Contiguous", Behavior::Contiguous}};
    for (const auto &[known, result] : all)
      if (name == known)
        return result;
    refuse();
    return {};
  };
  auto byCharacters = [&](bool (*isMatch)(int32_t), Behavior what) {
    steps.emplace_back([=](const Piece &piece, std::vector<Piece> &pieces) {
      split(piece, partsOf(piece.text, isMatch), what, pieces);
    });
  };
  if (type == "Sequence") {
    for (const json &step : value.at("pretokenizers"))
      add(step, origin);
  } else if (type == "WhitespaceSplit") {
    byCharacters(isWhiteSpace, Behavior::Removed);
  } else if (type == "BertPreTokenizer") {
    byCharacters(isWhiteSpace, Behavior::Removed);
    byCharacters(isPunctuation, Behavior::Isolated);
  } else if (type == "Punctuation") {
    byCharacters(isPunctuation, behavior());
  } else if (type == "Digits") {
    byCharacters(isNumeric, value.value("individual_digits", false)
                                ? Behavior::Isolated
                                : Behavior::Contiguous);
  } else if (type == "Split" && member(value, "pattern").is_object()) {
    const json &pattern = value["pattern"];
    bool isRegex = member(pattern, "Regex").is_string();
    const json &from = member(pattern, isRegex ? "Regex" : "String");
    if (!from.is_string() || (from == "" && !isRegex))
      refuse();
    const auto &text = from.get_ref<const std::string &>();
    auto regex = std::make_shared<Pretokenizer>(
        isRegex ? text : escapePattern(text), origin);
    bool inverts = value.value("invert", false);
    Behavior what = behavior();
    steps.emplace_back([=](const Piece &piece, std::vector<Piece> &pieces) {
      std::vector<Part> parts = partsOf(piece.text, *regex);
      for (Part &part : parts)
        part.isMatch ^= inverts;
      split(piece, std::move(parts), what, pieces);
    });
  } else if (type == "Metaspace") {
    std::string space = value.value("replacement", "\xE2\x96\x81");
    if (space.empty() || space.size() > 4)
      refuse();
    std::string scheme =
        value.value("prepend_scheme",
                    value.value("add_prefix_space", true) ? "always" : "never");
    if (scheme != "always" && scheme != "first" && scheme != "never")
      refuse();
    bool cuts = value.value("split", true);
    auto mark = std::make_shared<Pretokenizer>(escapePattern(space), origin);
    steps.emplace_back([=](Piece piece, std::vector<Piece> &pieces) {
      std::string text;
      for (char c : piece.text)
        c == ' ' ? text += space : text += c;
      if (scheme != "never" && (scheme != "first" || piece.isFirst) &&
          !text.starts_with(space))
        text.insert(0, space);
      piece.text = std::move(text);
      if (cuts)
        split(piece, partsOf(piece.text, *mark), Behavior::MergedWithNext,
              pieces);
      else
        pieces.push_back(std::move(piece));
    });
  } else if (type == "ByteLevel") {
    bytes = true;
    bool prepends = value.value("add_prefix_space", true);
    std::shared_ptr<Pretokenizer> words;
    if (value.value("use_regex", true))
      words = std::make_shared<Pretokenizer>(gpt2Pattern, origin);
    steps.emplace_back([=](Piece piece, std::vector<Piece> &pieces) {
      if (prepends && !piece.text.starts_with(' '))
        piece.text.insert(0, " ");
      size_t first = pieces.size();
      if (words)
        split(piece, partsOf(piece.text, *words), Behavior::Isolated, pieces);
      else
        pieces.push_back(std::move(piece));
      for (size_t i = first; i < pieces.size(); ++i)
        pieces[i].text = ByteCharacters::get().of(pieces[i].text);
    });
  } else {
    refuse();
  }
}

std::vector<Piece> Cutter::cut(Piece text) const {
  std::vector<Piece> pieces;
  if (!text.text.empty())
    pieces.push_back(std::move(text));
  for (const Step &step : steps) {
    std::vector<Piece> cut;
    for (Piece &piece : pieces)
      step(std::move(piece), cut);
    pieces = std::move(cut);
  }
  return pieces;
}

} // namespace tfm
