//===- bpe_merges.cpp - the merges of a byte-pair encoding --------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/tokenizer/bpe_merges.h"

#include "runtime/support/error.h"
#include "runtime/support/read_json.h"
#include "runtime/support/utf8.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <queue>

using nlohmann::json;

namespace tfm {

namespace {

/// Spread over all bits: the low ones say where to begin to look.
uint64_t hashOf(int32_t left, int32_t right) {
  uint64_t pair = uint64_t{static_cast<uint32_t>(left)} << 32 |
                  static_cast<uint32_t>(right);
  uint64_t product = pair * 0x9E3779B97F4A7C15u;
  return product ^ product >> 32;
}

uint32_t halfOf(uint64_t hash) { return static_cast<uint32_t>(hash >> 32); }

bool isJoined(std::string_view token, std::string_view left,
              std::string_view right) {
  return !token.empty() && token.size() == left.size() + right.size() &&
         token.starts_with(left) && token.ends_with(right);
}

/// Tokens of a piece that goes without a queue.
constexpr size_t shortPiece = 48;

} // namespace

BpeMerges::BpeMerges(const MergeList &list, const Vocabulary &vocabulary,
                     const std::string &origin) {
  constexpr size_t batch = Vocabulary::batch / 2;
  std::array<std::string_view, 2 * batch> parts;
  std::array<int32_t, 2 * batch> ids;
  int32_t result = -1;
  learned.reserve(list.size());
  for (size_t begin = 0; begin < list.size(); begin += batch) {
    size_t count = std::min(batch, list.size() - begin);
    for (size_t i = 0; i < count; ++i) {
      parts[2 * i] = list[begin + i].first;
      parts[2 * i + 1] = list[begin + i].second;
    }
    vocabulary.find(std::span(parts).first(2 * count), ids.data());
    for (size_t i = 0; i < count; ++i) {
      auto [left, right] = list[begin + i];
      // Most tokens have their ids in the order in which they were learned.
      ++result;
      if (!vocabulary.contains(result) ||
          !isJoined(vocabulary.token(result), left, right))
        result = vocabulary.find(std::string(left).append(right));
      if (ids[2 * i] < 0 || ids[2 * i + 1] < 0 || result < 0)
        throw InputError(
            "{}: the merge \"{} {}\" uses a token that the vocabulary lacks: "
            "vocabulary and merges must be of the same tokenizer",
            origin, left, right);
      learned.push_back({ids[2 * i], ids[2 * i + 1], result});
    }
  }
  index();
}

void BpeMerges::index() {
  slots.resize(std::bit_ceil(2 * learned.size() + 1));
  // Of a pair that is there twice, the earlier one counts.
  constexpr size_t ahead = 16;
  auto begin = [&](const Merge &merge) {
    return hashOf(merge.left, merge.right) & (slots.size() - 1);
  };
  for (size_t rank = 0; rank < learned.size(); ++rank) {
    if (rank + ahead < learned.size())
      __builtin_prefetch(&slots[begin(learned[rank + ahead])], 1);
    const Merge &merge = learned[rank];
    if (find(merge.left, merge.right))
      continue;
    size_t at = begin(merge);
    while (slots[at].rank >= 0)
      at = (at + 1) & (slots.size() - 1);
    slots[at] = {halfOf(hashOf(merge.left, merge.right)),
                 static_cast<int32_t>(rank)};
  }
}

const BpeMerges::Merge *BpeMerges::find(int32_t left, int32_t right) const {
  uint64_t hash = hashOf(left, right);
  for (size_t at = hash & (slots.size() - 1); slots[at].rank >= 0;
       at = (at + 1) & (slots.size() - 1)) {
    const Merge &merge = learned[static_cast<size_t>(slots[at].rank)];
    if (slots[at].hash == halfOf(hash) && merge.left == left &&
        merge.right == right)
      return &merge;
  }
  return nullptr;
}

void BpeMerges::expectComplete(const Vocabulary &vocabulary,
                               const std::vector<AddedToken> &added,
                               const std::string &origin) const {
  std::vector<bool> isMade(static_cast<size_t>(vocabulary.size()));
  for (const Merge &merge : learned)
    isMade[merge.result] = true;
  for (const AddedToken &token : added)
    isMade[token.id] = true;
  int64_t lost = 0;
  std::string example;
  for (int32_t id = 0; id < vocabulary.size(); ++id) {
    std::string_view token = vocabulary.token(id);
    if (isMade[id] || token.empty() ||
        decodeUtf8(token, 0).bytes == token.size() ||
        (token.front() == '<' && token.back() == '>'))
      continue;
    if (lost++ == 0)
      example = token;
  }
  if (lost > vocabulary.size() / 10)
    throw InputError("{}: {} of the {} tokens, such as \"{}\", come from no "
                     "merge: merges are missing. Copy or download it again",
                     origin, lost, vocabulary.size(), example);
}

/// As `apply`; for a word, going over all pairs is the fastest.
void BpeMerges::applyShort(std::span<const int32_t> first,
                           std::vector<int32_t> &ids) const {
  std::array<int32_t, shortPiece> id;
  std::array<const Merge *, shortPiece> next; // of a token and the one behind
  size_t size = first.size();
  std::ranges::copy(first, id.begin());
  for (size_t i = 0; i + 1 < size; ++i)
    next[i] = find(id[i], id[i + 1]);
  if (size > 0) // moved to the left with the others
    next[size - 1] = nullptr;
  while (size > 1) {
    const Merge *best = nullptr;
    size_t at = 0;
    for (size_t i = 0; i + 1 < size; ++i)
      if (next[i] && (!best || next[i] < best)) {
        best = next[i];
        at = i;
      }
    if (!best)
      break;
    id[at] = best->result;
    --size;
    for (size_t i = at + 1; i < size; ++i) {
      id[i] = id[i + 1];
      next[i] = next[i + 1];
    }
    if (at > 0)
      next[at - 1] = find(id[at - 1], id[at]);
    if (at + 1 < size)
      next[at] = find(id[at], id[at + 1]);
  }
  ids.insert(ids.end(), id.begin(), id.begin() + static_cast<ptrdiff_t>(size));
}

void BpeMerges::apply(std::span<const int32_t> first,
                      std::vector<int32_t> &ids) const {
  if (learned.empty()) {
    ids.insert(ids.end(), first.begin(), first.end());
    return;
  }
  if (first.size() <= shortPiece)
    return applyShort(first, ids);
  // A queue of candidate pairs over a doubly linked list.
  struct Node {
    int32_t id, previous, next;
  };
  std::vector<Node> nodes;
  nodes.reserve(first.size());
  for (int32_t id : first) {
    auto here = static_cast<int32_t>(nodes.size());
    nodes.push_back({id, here - 1, here + 1});
  }
  nodes.back().next = -1;

  struct Candidate {
    int32_t rank, at, left, right, result;
    bool operator>(const Candidate &other) const {
      return rank != other.rank ? rank > other.rank : at > other.at;
    }
  };
  std::vector<Candidate> storage;
  storage.reserve(nodes.size());
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> queue(
      std::greater<>(), std::move(storage));
  auto offer = [&](int32_t at) {
    if (at < 0 || nodes[at].next < 0)
      return;
    int32_t right = nodes[nodes[at].next].id;
    if (const Merge *merge = find(nodes[at].id, right))
      queue.push({static_cast<int32_t>(merge - learned.data()), at,
                  nodes[at].id, right, merge->result});
  };
  for (size_t i = 0; i + 1 < nodes.size(); ++i)
    offer(static_cast<int32_t>(i));
  while (!queue.empty()) {
    Candidate best = queue.top();
    queue.pop();
    Node &node = nodes[best.at];
    // Stale: one of the two has been merged with another meanwhile.
    if (node.id != best.left || node.next < 0 ||
        nodes[node.next].id != best.right)
      continue;
    int32_t gone = node.next;
    node.id = best.result;
    node.next = nodes[gone].next;
    nodes[gone].id = -1;
    if (node.next >= 0)
      nodes[node.next].previous = best.at;
    offer(node.previous);
    offer(best.at);
  }
  for (int32_t at = 0; at >= 0; at = nodes[at].next)
    ids.push_back(nodes[at].id);
}

static std::string_view textOf(const json &string) {
  return string.get_ref<const json::string_t &>();
}

MergeList readMerges(const json &model, const std::string &origin) {
  auto list = model.find("merges");
  if (list == model.end() || !list->is_array())
    throw InputError(
        "{}: its model has no list of `merges`. Copy or download it again",
        origin);
  MergeList merges;
  for (const json &entry : *list) {
    if (entry.is_array() && entry.size() == 2 && entry[0].is_string() &&
        entry[1].is_string()) {
      merges.emplace_back(textOf(entry[0]), textOf(entry[1]));
      continue;
    }
    std::string_view text = entry.is_string() ? textOf(entry) : "";
    size_t space = text.find(' ');
    if (space == std::string::npos)
      throw InputError("{}: a merge is two tokens, not {}", origin,
                       entry.dump());
    merges.emplace_back(text.substr(0, space), text.substr(space + 1));
  }
  return merges;
}

std::vector<AddedToken> readAddedTokens(const json &root,
                                        Vocabulary &vocabulary,
                                        const std::string &origin) {
  std::vector<AddedToken> tokens;
  auto list = root.find("added_tokens");
  if (list == root.end() || !list->is_array())
    return tokens;
  for (const json &added : *list) {
    if (!added.is_object() || !added.contains("content") ||
        !added["content"].is_string() || !added.contains("id") ||
        !added["id"].is_number_unsigned())
      throw InputError("{}: an added token needs an id and a content", origin);
    AddedToken token{added["content"].get<std::string>(), /*id=*/0,
                     added.value("lstrip", false), added.value("rstrip", false),
                     added.value("normalized", false)};
    if (token.text.empty())
      throw InputError("{}: an added token is empty", origin);
    if (added.value("single_word", false))
      throw NotSupported(
          "{}: the added token \"{}\" has single_word, which is not supported",
          origin, token.text);
    auto id = added["id"].get<uint64_t>();
    vocabulary.set(token.text, id, origin);
    token.id = static_cast<int32_t>(id);
    tokens.push_back(std::move(token));
  }
  // Longest first, so that of two that begin alike the longer is found.
  std::ranges::sort(tokens, [](const AddedToken &a, const AddedToken &b) {
    return a.text.size() != b.text.size() ? a.text.size() > b.text.size()
                                          : a.text < b.text;
  });
  return tokens;
}

int32_t unknownOf(const json &model, const Vocabulary &vocabulary) {
  const json &token = member(model, "unk_token");
  return token.is_string() ? vocabulary.find(token.get<std::string>()) : -1;
}

std::vector<int32_t> byteTokens(const Vocabulary &vocabulary) {
  std::vector<int32_t> ids;
  for (int byte = 0; byte < 256; ++byte) {
    char name[8];
    std::snprintf(name, sizeof name, "<0x%02X>", byte);
    ids.push_back(vocabulary.find(name));
    if (ids.back() < 0)
      return {};
  }
  return ids;
}

size_t skipSpace(std::string_view text, size_t at) {
  while (at < text.size()) {
    CodePoint c = decodeUtf8(text, at);
    if (!isWhiteSpace(c.value))
      break;
    at += c.bytes;
  }
  return at;
}

size_t skipSpaceBack(std::string_view text, size_t at, size_t end) {
  while (end > at) {
    size_t begin = end - 1;
    while (begin > at && (text[begin] & 0xC0) == 0x80)
      --begin;
    CodePoint c = decodeUtf8(text, begin);
    if (!isWhiteSpace(c.value) || begin + c.bytes != end)
      break;
    end = begin;
  }
  return end;
}

std::vector<int32_t> readBegin(const json &root, const Vocabulary &vocabulary,
                               const std::string &origin) {
  auto post = root.find("post_processor");
  if (post == root.end() || !post->is_object())
    return {};
  json steps = json::array({*post});
  if (post->value("type", "") == "Sequence" && post->contains("processors"))
    steps = (*post)["processors"];
  std::vector<int32_t> ids;
  for (const json &step : steps) {
    if (!step.is_object())
      continue;
    std::string type = step.value("type", "");
    const json &first = member(step, "cls"); // ["[CLS]", 101]
    if ((type == "BertProcessing" || type == "RobertaProcessing") &&
        first.is_array() && !first.empty() && first[0].is_string()) {
      int32_t id = vocabulary.find(first[0].get<std::string>());
      if (id >= 0)
        ids.push_back(id);
    }
    if (type != "TemplateProcessing" || !step.contains("single") ||
        !step["single"].is_array())
      continue;
    for (const json &part : step["single"]) {
      if (!part.is_object() || !part.contains("SpecialToken") ||
          !part["SpecialToken"].is_object())
        break; // the text itself
      // By its name in the template, which tells its ids.
      std::string name = part["SpecialToken"].value("id", "");
      const json &own = member(member(step, "special_tokens"), name.c_str());
      if (const json &told = member(own, "ids"); told.is_array()) {
        for (const json &id : told) {
          if (!id.is_number_unsigned() ||
              id.get<uint64_t>() >= static_cast<uint64_t>(vocabulary.size()))
            throw InputError(
                "{}: its post-processor puts the token {} before a text, and "
                "there are {} tokens",
                origin, jsonText(id), vocabulary.size());
          ids.push_back(id.get<int32_t>());
        }
      } else if (int32_t id = vocabulary.find(name); id >= 0) {
        ids.push_back(id);
      }
    }
    // Of several the first one acts.
    return ids;
  }
  return ids;
}

} // namespace tfm
