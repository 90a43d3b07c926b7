//===- train_word_bpe.cpp - learns a word-level BPE ---------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/tokenizer/train_word_bpe.h"

#include "runtime/support/error.h"
#include "runtime/support/utf8.h"
#include "runtime/tokenizer/vocabulary.h"

#include <nlohmann/json.hpp>
#include <set>

namespace tfm {

namespace {

struct Word {
  std::vector<int32_t> tokens;
  int64_t count = 0;
};

/// Two adjacent tokens.
using Pair = std::pair<int32_t, int32_t>;

struct PairHash {
  size_t operator()(const Pair &pair) const {
    uint64_t key = uint64_t{static_cast<uint32_t>(pair.first)} << 32 |
                   static_cast<uint32_t>(pair.second);
    return static_cast<size_t>((key * 0x9E3779B97F4A7C15u) >> 16);
  }
};

/// A pair's place in the ranking: the most frequent first, of equals the one
/// whose first word comes first in the text.
struct Rank {
  int64_t count = 0;
  int32_t firstWord = 0;
  Pair pair;

  bool operator<(const Rank &other) const {
    if (count != other.count)
      return count > other.count;
    if (firstWord != other.firstWord)
      return firstWord < other.firstWord;
    return pair < other.pair;
  }
};

class Learner {
public:
  explicit Learner(std::string_view text) {
    readWords(text);
    for (size_t i = 0; i < words.size(); ++i)
      count(static_cast<int32_t>(i), +1);
    for (const auto &[pair, info] : pairs)
      ranking.insert(rankOf(pair, info));
  }

  TrainedWordBpe learn(int64_t merges) {
    TrainedWordBpe result;
    std::set<std::string> sorted(symbols.begin(), symbols.end());
    while (static_cast<int64_t>(result.merges.size()) < merges &&
           !ranking.empty()) {
      Pair best = choose();
      std::string merged = symbols[best.first] + symbols[best.second];
      result.merges.emplace_back(symbols[best.first], symbols[best.second]);
      sorted.insert(merged);
      merge(best, symbolId(merged));
    }
    for (std::string_view range : {"az", "AZ", "09"})
      for (char c = range[0]; c <= range[1]; ++c)
        sorted.insert(std::string(1, c));
    // UTF-8 sorts as its code points do.
    result.tokens.emplace_back("<PAD>");
    result.tokens.insert(result.tokens.end(), sorted.begin(), sorted.end());
    for (const char *special :
         {"<UNK>", "<CLS>", "<SEP>", "<start_of_turn>", "<end_of_turn>", "\n"})
      result.tokens.emplace_back(special);
    return result;
  }

private:
  struct PairInfo {
    int64_t count = 0;
    std::set<int32_t> words; ///< that have it
  };

  static Rank rankOf(const Pair &pair, const PairInfo &info) {
    return {info.count, *info.words.begin(), pair};
  }

  /// The different words in the order in which they first occur.
  void readWords(std::string_view text) {
    std::unordered_map<std::string_view, size_t> known;
    int32_t end = symbolId(std::string(wordEnd));
    for (size_t at = 0; at < text.size();) {
      size_t begin = at;
      std::vector<int32_t> characters;
      CodePoint c = decodeUtf8(text, at);
      while (at < text.size() && !isSpace(c.value)) {
        if (c.value < 0)
          throw InputError("not UTF-8 text");
        characters.push_back(symbolId(std::string(text.substr(at, c.bytes))));
        at += c.bytes;
        if (at < text.size())
          c = decodeUtf8(text, at);
      }
      if (at > begin) {
        auto [place, isNew] =
            known.try_emplace(text.substr(begin, at - begin), words.size());
        if (isNew) {
          characters.push_back(end);
          words.push_back({std::move(characters)});
        }
        ++words[place->second].count;
      }
      if (at < text.size()) // the white space behind the word
        at += c.bytes;
    }
    if (words.empty())
      throw InputError("there are no words to learn from");
  }

  int32_t symbolId(const std::string &symbol) {
    auto [place, isNew] =
        ids.try_emplace(symbol, static_cast<int32_t>(symbols.size()));
    if (isNew)
      symbols.push_back(symbol);
    return place->second;
  }

  /// Adds a word's pairs to the counts, or takes them away.
  void count(int32_t index, int sign) {
    const Word &word = words[static_cast<size_t>(index)];
    for (size_t i = 0; i + 1 < word.tokens.size(); ++i) {
      PairInfo &info = pairs[{word.tokens[i], word.tokens[i + 1]}];
      info.count += sign * word.count;
      if (sign > 0)
        info.words.insert(index);
      else
        info.words.erase(index);
    }
  }

  Pair choose() const {
    Rank top = *ranking.begin();
    // Others of the same frequency may first occur in the same word: the one
    // that stands first in it wins.
    const Word &word = words[static_cast<size_t>(top.firstWord)];
    for (size_t i = 0; i + 1 < word.tokens.size(); ++i) {
      Pair pair = {word.tokens[i], word.tokens[i + 1]};
      if (pairs.at(pair).count == top.count)
        return pair;
    }
    return top.pair;
  }

  void merge(const Pair &pair, int32_t merged) {
    std::set<int32_t> changed = pairs.at(pair).words;
    std::set<Pair> touched;
    auto touch = [&](int32_t index) {
      const std::vector<int32_t> &tokens =
          words[static_cast<size_t>(index)].tokens;
      for (size_t i = 0; i + 1 < tokens.size(); ++i)
        touched.insert({tokens[i], tokens[i + 1]});
    };
    for (int32_t index : changed)
      touch(index);
    for (const Pair &old : touched)
      ranking.erase(rankOf(old, pairs.at(old)));
    std::set<Pair> before = std::move(touched);
    touched.clear();
    for (int32_t index : changed) {
      count(index, -1);
      replace(words[static_cast<size_t>(index)].tokens, pair, merged);
      touch(index);
    }
    // Pairs that are new to these words may be old ones of others.
    for (const Pair &next : touched)
      if (auto found = pairs.find(next); found != pairs.end() &&
                                         found->second.count > 0 &&
                                         before.count(next) == 0)
        ranking.erase(rankOf(next, found->second));
    for (int32_t index : changed)
      count(index, +1);
    touched.merge(before);
    for (const Pair &next : touched) {
      auto found = pairs.find(next);
      if (found->second.count > 0)
        ranking.insert(rankOf(next, found->second));
      else
        pairs.erase(found);
    }
  }

  /// From left to right: of `a a a` the first two become one.
  static void replace(std::vector<int32_t> &tokens, const Pair &pair,
                      int32_t merged) {
    size_t kept = 0;
    for (size_t i = 0; i < tokens.size(); ++i) {
      bool here = i + 1 < tokens.size() && tokens[i] == pair.first &&
                  tokens[i + 1] == pair.second;
      tokens[kept++] = here ? merged : tokens[i];
      i += here;
    }
    tokens.resize(kept);
  }

  std::vector<std::string> symbols;
  std::unordered_map<std::string, int32_t> ids;
  std::vector<Word> words;
  std::unordered_map<Pair, PairInfo, PairHash> pairs;
  std::set<Rank> ranking;
};

} // namespace

std::string TrainedWordBpe::vocabJson() const {
  nlohmann::ordered_json object = nlohmann::ordered_json::object();
  auto &members = object.get_ref<nlohmann::ordered_json::object_t &>();
  for (size_t id = 0; id < tokens.size(); ++id)
    members.emplace_back(tokens[id], id);
  return object.dump() + "\n";
}

std::string TrainedWordBpe::mergesText() const {
  std::string text;
  for (const auto &[left, right] : merges)
    text += left + " " + right + "\n";
  return text;
}

TrainedWordBpe trainWordBpe(std::string_view text, int64_t merges) {
  return Learner(text).learn(merges);
}

} // namespace tfm
