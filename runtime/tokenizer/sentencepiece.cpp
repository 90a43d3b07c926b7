//===- sentencepiece.cpp - SentencePiece models -------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

// A `.model` file (Kudo and Richardson 2018) is a protobuf message; see
// sentencepiece_model.proto of https://github.com/google/sentencepiece. Models
// of type BPE become what Hugging Face makes of them, a tokenizer.json: a pair
// may be merged when its two tokens together are one, and the best score goes
// first. So do unigram models, whose scores are in the file.
//
//===----------------------------------------------------------------------===//

#include "runtime/tokenizer/sentencepiece.h"

#include "runtime/support/error.h"
#include "runtime/support/utf8.h"
#include "runtime/tokenizer/normalizer.h"
#include "runtime/tokenizer/vocabulary.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

using nlohmann::json;
using nlohmann::ordered_json;

namespace tfm {

namespace {

/// The fields of one message, in order.
class Message {
public:
  Message(std::string_view bytes, const std::string &origin)
      : bytes(bytes), origin(origin) {}

  /// False at the end. `number` for varints, `text` for the rest.
  bool next() {
    if (bytes.empty())
      return false;
    uint64_t tag = varint();
    field = tag >> 3;
    number = 0;
    text = {};
    switch (tag & 7) {
    case 0:
      number = varint();
      return true;
    case 1:
      text = take(8);
      return true;
    case 2:
      text = take(varint());
      return true;
    case 5:
      text = take(4);
      return true;
    default:
      damaged();
    }
  }

  float asFloat() const {
    uint32_t bits = 0;
    if (text.size() == sizeof bits)
      std::memcpy(&bits, text.data(), sizeof bits);
    auto value = std::bit_cast<float>(bits);
    if (std::isnan(value)) // could not be sorted by
      damaged();
    return value;
  }

  uint64_t field = 0;
  uint64_t number = 0;
  std::string_view text;

private:
  [[noreturn]] void damaged() const {
    throw InputError("{} is not a SentencePiece model, or it is damaged. Copy "
                     "or download it again",
                     origin);
  }

  std::string_view take(uint64_t size) {
    if (size > bytes.size())
      damaged();
    std::string_view part = bytes.substr(0, size);
    bytes.remove_prefix(size);
    return part;
  }

  uint64_t varint() {
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      auto byte = static_cast<unsigned char>(take(1)[0]);
      value |= uint64_t{byte & 0x7Fu} << shift;
      if (!(byte & 0x80))
        return value;
    }
    damaged();
  }

  std::string_view bytes;
  const std::string &origin;
};

using Piece = SentencePieceModel::Piece;

/// What a space becomes.
constexpr const char *space = "\xE2\x96\x81";

SentencePieceModel readModel(std::string_view bytes,
                             const std::string &origin) {
  SentencePieceModel model;
  bool isDescribed = false; // whether it says how it was trained
  for (Message all(bytes, origin); all.next();) {
    Message part(all.text, origin);
    if (all.field == 1) {
      Piece &piece = model.pieces.emplace_back();
      while (part.next()) {
        if (part.field == 1)
          piece.text = part.text;
        else if (part.field == 2)
          piece.score = part.asFloat();
        else if (part.field == 3)
          piece.type = part.number;
      }
      model.hasBytes |= piece.type == Piece::Byte;
    } else if (all.field == 2) { // how it was trained
      isDescribed = true;
      while (part.next()) {
        if (part.field == 3)
          model.type = static_cast<SentencePieceModel::Type>(
              std::min<uint64_t>(part.number, SentencePieceModel::Characters));
        else if (part.field == 24)
          model.endsInSpaces = part.number != 0;
        else if (part.field == 41)
          model.beginId = part.number;
      }
    } else if (all.field == 3) { // how text is normalised
      while (part.next()) {
        if (part.field == 2)
          model.characterMap = part.text;
        else if (part.field == 3)
          model.addsPrefix = part.number != 0;
        else if (part.field == 4)
          model.removesSpaces = part.number != 0;
      }
    }
  }
  if (model.pieces.empty() || !isDescribed)
    throw InputError("{} is not a SentencePiece model: it has no {}", origin,
                     model.pieces.empty() ? "pieces" : "type");
  return model;
}

/// All pairs of tokens that together are one, the best score first.
json mergesOf(const SentencePieceModel &model) {
  std::unordered_map<std::string_view, size_t> ids;
  std::vector<size_t> order;
  for (size_t id = 0; id < model.pieces.size(); ++id)
    if (model.pieces[id].type == Piece::Normal) {
      ids.emplace(model.pieces[id].text, id);
      order.push_back(id);
    }
  std::ranges::sort(order, [&](size_t a, size_t b) {
    float left = model.pieces[a].score, right = model.pieces[b].score;
    return left != right ? left > right : a < b;
  });
  json merges = json::array();
  for (size_t id : order) {
    std::string_view text = model.pieces[id].text;
    for (size_t at = 0; at < text.size();) {
      at += decodeUtf8(text, at).bytes;
      if (at < text.size() && ids.count(text.substr(0, at)) &&
          ids.count(text.substr(at)))
        merges.push_back({text.substr(0, at), text.substr(at)});
    }
  }
  return merges;
}

/// The tokens that are found in a text as they are spelt; those that a user has
/// defined, which may be several spaces, in what it is normalised to. A prefix
/// would be put before these, too: with one they are looked for as others are.
/// A unigram model that cuts whole texts finds them itself, by their scores.
void addTokens(const SentencePieceModel &model, ordered_json &root) {
  bool isUnigram = model.type == SentencePieceModel::Unigram;
  bool isNormalized = !model.addsPrefix && !isUnigram;
  bool findsThem = isUnigram && !model.removesSpaces;
  for (size_t id = 0; id < model.pieces.size(); ++id) {
    const auto &[text, score, type] = model.pieces[id];
    bool isOfUser = type == Piece::UserDefined;
    if (type != Piece::Unknown && type != Piece::Control &&
        (!isOfUser || findsThem))
      continue;
    ordered_json &token = root["added_tokens"].emplace_back(
        addedToken(id, text, /*isSpecial=*/!isOfUser));
    token["normalized"] = isOfUser && isNormalized;
  }
}

/// Adds the steps of a normalizer that make all spaces visible, and the one
/// before the text.
void makeSpacesVisible(const SentencePieceModel &model, json &steps) {
  if (model.addsPrefix)
    steps.push_back({{"type", "Prepend"}, {"prepend", space}});
  steps.push_back({{"type", "Replace"},
                   {"pattern", {{"String", " "}}},
                   {"content", space}});
}

/// A unigram model as Hugging Face has it: the table of characters, then no
/// space at the end and none twice. One that keeps all spaces is not cut at
/// them, either: a piece may be several.
void describeUnigram(const SentencePieceModel &model, ordered_json &root) {
  ordered_json entries = json::array();
  ordered_json unknown = nullptr;
  for (size_t id = 0; id < model.pieces.size(); ++id) {
    entries.push_back({model.pieces[id].text, model.pieces[id].score});
    if (model.pieces[id].type == Piece::Unknown)
      unknown = id;
  }
  root["model"] = {{"type", "Unigram"},
                   {"unk_id", unknown},
                   {"vocab", entries},
                   {"byte_fallback", model.hasBytes}};
  json steps = json::array();
  if (!model.characterMap.empty())
    steps.push_back(
        {{"type", "Precompiled"},
         {"precompiled_charsmap", encodeBase64(model.characterMap)}});
  json metaspace = {{"type", "Metaspace"},
                    {"replacement", space},
                    {"prepend_scheme", model.addsPrefix ? "always" : "never"},
                    {"split", true}};
  if (model.removesSpaces) {
    steps.push_back(
        {{"type", "Strip"}, {"strip_left", false}, {"strip_right", true}});
    steps.push_back({{"type", "Replace"},
                     {"pattern", {{"Regex", " {2,}"}}},
                     {"content", space}});
    root["pre_tokenizer"] = metaspace;
  } else {
    makeSpacesVisible(model, steps);
  }
  root["normalizer"] = {{"type", "Sequence"}, {"normalizers", steps}};
  root["decoder"] = metaspace;
  if (model.hasBytes)
    root["decoder"] = {{"type", "Sequence"},
                       {"decoders", {{{"type", "ByteFallback"}}, metaspace}}};
}

} // namespace

std::string sentencePieceJson(std::string_view bytes,
                              const std::string &origin) {
  return sentencePieceJson(readModel(bytes, origin), origin);
}

std::string sentencePieceJson(const SentencePieceModel &model,
                              const std::string &origin) {
  auto unsupported = [&](const char *what) {
    throw InputError(
        "{}: SentencePiece models {} are not supported; unigram models, and "
        "BPE with the text as it stands, are (T5, Llama, Mistral, Gemma)",
        origin, what);
  };
  if (model.endsInSpaces)
    unsupported("whose words end in their spaces");
  ordered_json root = emptyTokenizerJson();
  if (model.type == SentencePieceModel::Unigram) {
    describeUnigram(model, root);
    addTokens(model, root);
    return root.dump(-1, ' ', false, json::error_handler_t::replace);
  }
  if (model.type != SentencePieceModel::Bpe)
    unsupported("of words or characters");
  if (!model.characterMap.empty() || model.removesSpaces)
    unsupported("of type BPE that normalise text");

  Vocabulary vocabulary;
  ordered_json &bpe = root["model"];
  for (size_t id = 0; id < model.pieces.size(); ++id) {
    const auto &[text, score, type] = model.pieces[id];
    vocabulary.set(text, id, origin);
    if (type == Piece::Unknown)
      bpe["unk_token"] = text;
  }
  if (model.hasBytes)
    bpe["byte_fallback"] = true;
  addTokens(model, root);
  bpe["fuse_unk"] = true;
  bpe["vocab"] = vocabulary.toJson();
  bpe["merges"] = mergesOf(model);
  json restore = {
      {"type", "Replace"}, {"pattern", {{"String", space}}}, {"content", " "}};
  json normalizers = json::array(), decoders = json::array();
  makeSpacesVisible(model, normalizers);
  decoders = {restore, {{"type", "ByteFallback"}}, {{"type", "Fuse"}}};
  if (model.addsPrefix)
    decoders.push_back(
        {{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
  root["normalizer"] = {{"type", "Sequence"}, {"normalizers", normalizers}};
  root["decoder"] = {{"type", "Sequence"}, {"decoders", decoders}};
  if (model.beginId < model.pieces.size() &&
      model.pieces[model.beginId].type == Piece::Control)
    root["post_processor"] =
        beginWith(model.beginId, model.pieces[model.beginId].text);
  // A token that is no UTF-8 cannot stand in JSON.
  return root.dump(-1, ' ', false, json::error_handler_t::replace);
}

} // namespace tfm
