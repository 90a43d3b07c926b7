//===- pipeline.cpp - a tokenizer.json, step by step --------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

// A text is normalised, cut into pieces, and each piece becomes tokens by
// WordPiece (Wu et al. 2016), by the unigram model of Kudo 2018, or by BPE of
// characters that stand for bytes where it is cut in a way of its own. Each
// step does what Hugging Face's tokenizers does.
//
//===----------------------------------------------------------------------===//

#include "runtime/support/error.h"
#include "runtime/support/utf8.h"
#include "runtime/tokenizer/bpe_merges.h"
#include "runtime/tokenizer/cutter.h"
#include "runtime/tokenizer/normalizer.h"
#include "runtime/tokenizer/steps.h"
#include "runtime/tokenizer/token_decoder.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <numeric>
#include <tuple>
#include <unordered_set>

using nlohmann::json;

namespace tfm {

namespace {

/// What turns a piece into tokens.
class PieceModel {
public:
  virtual ~PieceModel() = default;
  virtual void encode(std::string_view piece,
                      std::vector<int32_t> &ids) const = 0;
};

[[noreturn]] void failCharacter(std::string_view text) {
  int32_t value = decodeUtf8(text, 0).value;
  throw NoToken("the tokenizer has no token for {}", characterName(value));
}

/// Finds all tokens that a text begins with, letter by letter: a look at each
/// byte, however many tokens there are and however long the longest is.
class TokenTree {
public:
  explicit TokenTree(const Vocabulary &vocabulary) : vocabulary(vocabulary) {}

  void add(int32_t id) { order.push_back(id); }
  /// Behind the last one.
  void finish() {
    std::ranges::sort(order, {},
                      [&](int32_t id) { return vocabulary.token(id); });
    for (int32_t id : order)
      ++firsts[static_cast<unsigned char>(vocabulary.token(id)[0]) + 1];
    std::partial_sum(firsts.begin(), firsts.end(), firsts.begin());
  }

  /// Calls `found(length, id)` for each, the shortest first.
  template <typename Found>
  void forEach(std::string_view text, Found found) const {
    if (text.empty())
      return;
    const auto first = static_cast<unsigned char>(text[0]);
    auto begin = order.begin() + firsts[first],
         end = order.begin() + firsts[first + 1];
    for (size_t length = 1; length <= text.size() && begin != end; ++length) {
      auto byteOf = [&](int32_t id) {
        std::string_view token = vocabulary.token(id);
        return token.size() < length
                   ? -1
                   : static_cast<int>(
                         static_cast<unsigned char>(token[length - 1]));
      };
      auto byte =
          static_cast<int>(static_cast<unsigned char>(text[length - 1]));
      if (length > 1)
        std::tie(begin, end) =
            std::pair(std::ranges::lower_bound(begin, end, byte, {}, byteOf),
                      std::ranges::upper_bound(begin, end, byte, {}, byteOf));
      if (begin != end && vocabulary.token(*begin).size() == length) {
        found(length, *begin);
      } else if (end - begin == 1) {
        // What is left of one is compared at once.
        std::string_view token = vocabulary.token(*begin);
        if (text.starts_with(token))
          found(token.size(), *begin);
        return;
      }
    }
  }

private:
  const Vocabulary &vocabulary;
  std::vector<int32_t> order; ///< by their texts
  /// Where those begin whose first byte this is.
  std::array<int32_t, 257> firsts = {};
};

/// The longest token that a word begins with, then the longest that it goes on
/// with; a word with a part that there is no token for is unknown.
class WordPiece : public PieceModel {
public:
  WordPiece(const json &model, const Vocabulary &vocabulary)
      : unknown(unknownOf(model, vocabulary)),
        prefix(model.value("continuing_subword_prefix", "##")),
        longest(model.value("max_input_chars_per_word", size_t{100})),
        tree(vocabulary) {
    for (int32_t id = 0; id < vocabulary.size(); ++id)
      if (!vocabulary.token(id).empty())
        tree.add(id);
    tree.finish();
  }

  void encode(std::string_view piece,
              std::vector<int32_t> &ids) const override {
    size_t before = ids.size();
    bool isKnown = countCodePoints(piece) <= longest;
    // What is left of it, behind the first token with the prefix before it.
    std::string rest(piece);
    size_t least = 0;
    for (size_t at = 0; isKnown && at < piece.size();) {
      int32_t best = -1;
      size_t end = 0;
      tree.forEach(rest, [&](size_t length, int32_t id) {
        bool isWhole = at + length - least == piece.size() ||
                       (rest[length] & 0xC0) != 0x80;
        if (length > least && isWhole) {
          best = id;
          end = length;
        }
      });
      isKnown = best >= 0;
      ids.push_back(best);
      at += end - least;
      least = prefix.size();
      rest = prefix;
      rest += piece.substr(std::min(at, piece.size()));
    }
    if (isKnown)
      return;
    ids.resize(before);
    if (unknown < 0)
      failCharacter(piece);
    ids.push_back(unknown);
  }

private:
  int32_t unknown;
  std::string prefix;
  size_t longest;
  TokenTree tree;
};

/// The cut of a piece whose tokens' scores add up to the most (Viterbi).
class Unigram : public PieceModel {
public:
  /// `scores` has one of every token.
  Unigram(const json &model, const Vocabulary &vocabulary,
          std::vector<double> scoresOfFile)
      : vocabulary(vocabulary), scores(std::move(scoresOfFile)),
        tree(vocabulary) {
    if (member(model, "unk_id").is_number_unsigned())
      unknown = model["unk_id"].get<int32_t>();
    if (member(model, "byte_fallback") == true)
      bytes = byteTokens(vocabulary);
    double least = 0;
    for (size_t id = 0; id < scores.size(); ++id) {
      least = std::min(least, scores[id]);
      if (!vocabulary.token(static_cast<int32_t>(id)).empty())
        tree.add(static_cast<int32_t>(id));
    }
    tree.finish();
    unknownScore = least - 10;
  }

  void encode(std::string_view piece,
              std::vector<int32_t> &ids) const override {
    struct Best {
      double score = 0;
      int32_t id = -1;
      size_t from = std::string_view::npos;
    };
    std::vector<Best> best(piece.size() + 1);
    auto offer = [&](size_t from, size_t to, int32_t id, double score) {
      double sum = score + best[from].score;
      if (best[to].from == std::string_view::npos || sum > best[to].score)
        best[to] = {sum, id, from};
    };
    for (size_t at = 0; at < piece.size();) {
      size_t character = decodeUtf8(piece, at).bytes;
      bool isKnown = false;
      tree.forEach(piece.substr(at), [&](size_t length, int32_t id) {
        offer(at, at + length, id, scores[static_cast<size_t>(id)]);
        isKnown |= length == character;
      });
      if (!isKnown) {
        if (unknown < 0)
          failCharacter(piece.substr(at));
        offer(at, at + character, unknown, unknownScore);
      }
      at += character;
    }
    // From the end on; neighbours that are unknown are one.
    std::vector<Best> path;
    size_t to = piece.size();
    std::vector<std::pair<size_t, size_t>> places;
    while (to > 0) {
      Best step = best[to];
      bool joins =
          step.id == unknown && !path.empty() && path.back().id == unknown;
      if (joins) {
        places.back().first = step.from;
      } else {
        path.push_back(step);
        places.emplace_back(step.from, to);
      }
      to = step.from;
    }
    for (size_t i = path.size(); i-- > 0;) {
      std::string_view text =
          piece.substr(places[i].first, places[i].second - places[i].first);
      int32_t id = path[i].id;
      // What was unknown character by character may be a token together.
      if (id == unknown)
        if (int32_t whole = vocabulary.find(text);
            whole >= 0 && static_cast<size_t>(whole) < scores.size())
          id = whole;
      if (id == unknown && !bytes.empty())
        for (char byte : text)
          ids.push_back(bytes[static_cast<unsigned char>(byte)]);
      else
        ids.push_back(id);
    }
  }

private:
  const Vocabulary &vocabulary;
  std::vector<double> scores;
  std::vector<int32_t> bytes;
  int32_t unknown = -1;
  double unknownScore = 0;
  TokenTree tree;
};

/// BPE whose first tokens are the characters of a piece.
class Merged : public PieceModel {
public:
  Merged(const json &model, const Vocabulary &vocabulary,
         const std::string &origin)
      : vocabulary(vocabulary),
        merges(readMerges(model, origin), vocabulary, origin),
        wholePieces(member(model, "ignore_merges") == true) {}

  void encode(std::string_view piece,
              std::vector<int32_t> &ids) const override {
    if (int32_t id = wholePieces ? vocabulary.find(piece) : -1; id >= 0) {
      ids.push_back(id);
      return;
    }
    std::vector<int32_t> first;
    for (size_t at = 0; at < piece.size();) {
      size_t bytes = decodeUtf8(piece, at).bytes;
      int32_t id = vocabulary.find(piece.substr(at, bytes));
      if (id < 0)
        failCharacter(piece.substr(at));
      first.push_back(id);
      at += bytes;
    }
    merges.apply(first, ids);
  }

  const BpeMerges &all() const { return merges; }

private:
  const Vocabulary &vocabulary;
  BpeMerges merges;
  bool wholePieces;
};

class PipelineTokenizer : public VocabularyTokenizer {
public:
  void encode(std::string_view text, std::vector<int32_t> &ids) const override {
    std::string valid = replaceInvalidUtf8(text);
    cutAtTokens(valid, added, ids, [&](std::string_view plain, size_t offset) {
      std::string normal = normalizer.apply(plain);
      cutAtTokens(
          normal, normalized, ids, [&](std::string_view part, size_t begin) {
            for (const Piece &piece :
                 cutter.cut({std::string(part), offset == 0 && begin == 0}))
              model->encode(piece.text, ids);
          });
    });
  }

  void decode(int32_t id, int32_t previous, std::string &bytes) const override {
    if (!vocabulary.contains(id))
      return;
    if (asSpelt.contains(id))
      bytes += vocabulary.token(id);
    else
      decoder.append(vocabulary.token(id), previous < 0, bytes);
  }

  std::vector<int32_t> begin() const override { return beginIds; }
  std::string json() const override { return source; }

  // Set by the reader.
  using VocabularyTokenizer::vocabulary;
  /// Those that are looked for in the text as it is, and in what its normalizer
  /// makes of it.
  std::vector<AddedToken> added, normalized;
  /// Tokens that no decoder changes.
  std::unordered_set<int32_t> asSpelt;
  Normalizer normalizer;
  Cutter cutter;
  std::unique_ptr<PieceModel> model;
  TokenDecoder decoder;
  std::vector<int32_t> beginIds;
  std::string source;
};

/// The tokens of a unigram model, `[["a", -1.5], ...]`, and their scores.
std::vector<double> readScores(const json &list, Vocabulary &vocabulary,
                               const std::string &origin) {
  if (!list.is_array() || list.empty())
    throw InputError("{}: the vocabulary is not a list of tokens and scores",
                     origin);
  std::vector<double> scores;
  for (const json &entry : list) {
    if (!entry.is_array() || entry.size() != 2 || !entry[0].is_string() ||
        !entry[1].is_number())
      throw InputError(
          "{}: entry {} of the vocabulary is not a token and its score", origin,
          scores.size());
    vocabulary.set(entry[0].get_ref<const std::string &>(), scores.size(),
                   origin);
    scores.push_back(entry[1].get<double>());
  }
  return scores;
}

} // namespace

TokenizerPtr pipelineFromJson(const json &root, std::string_view text,
                              const std::string &origin) {
  const json &model = root.at("model");
  std::string type = model.value("type", "BPE");
  auto result = std::make_unique<PipelineTokenizer>();
  Vocabulary &vocabulary = result->vocabulary;
  std::vector<double> scores;
  if (type == "Unigram")
    scores = readScores(member(model, "vocab"), vocabulary, origin);
  else
    vocabulary = Vocabulary::fromJson(member(model, "vocab"), origin);
  const json &unknown = member(model, "unk_id");
  if (type == "Unigram" && !unknown.is_null() &&
      (!unknown.is_number_unsigned() ||
       unknown.get<uint64_t>() >= scores.size()))
    throw InputError("{}: `unk_id` of its model is no token", origin);
  result->normalizer = Normalizer::read(member(root, "normalizer"), origin);
  result->cutter = Cutter::read(member(root, "pre_tokenizer"), origin);
  result->added = readAddedTokens(root, vocabulary, origin);
  if (result->cutter.hasBytes())
    for (const AddedToken &token : result->added)
      result->asSpelt.insert(token.id);
  if (!result->normalizer.isNothing())
    result->normalized =
        takeNormalized(result->added, [&](const std::string &text) {
          return result->normalizer.apply(text);
        });
  result->decoder =
      TokenDecoder::read(member(root, "decoder"), [&](const json &value) {
        refuseStep("decoder", value, origin);
      });
  requireBounded("decoder", growthOf(result->decoder.replacements()), origin);
  result->beginIds = readBegin(root, vocabulary, origin);
  result->source = text;
  if (type == "WordPiece") {
    result->model = std::make_unique<WordPiece>(model, vocabulary);
  } else if (type == "Unigram") {
    result->model =
        std::make_unique<Unigram>(model, vocabulary, std::move(scores));
  } else {
    auto merged = std::make_unique<Merged>(model, vocabulary, origin);
    merged->all().expectComplete(vocabulary, result->added, origin);
    result->model = std::move(merged);
  }
  return result;
}

} // namespace tfm
