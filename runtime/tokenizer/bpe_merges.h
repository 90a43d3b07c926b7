//===- bpe_merges.h - the merges of a byte-pair encoding ----------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_RUNTIME_TOKENIZER_BPE_MERGES_H
#define TFM_RUNTIME_TOKENIZER_BPE_MERGES_H

#include "runtime/tokenizer/vocabulary.h"

#include <span>
#include <string>
#include <utility>
#include <vector>

namespace tfm {

/// A token that is found in a text as it is spelt.
struct AddedToken {
  std::string text;
  int32_t id = 0;
  /// White space on these sides of it is part of it, and lost.
  bool stripsLeft = false, stripsRight = false;
  /// Whether it is looked for in the text as its normalizer leaves it.
  bool normalized = false;
};

/// Which two adjacent tokens become which, and what goes first.
class BpeMerges {
public:
  /// In the order learned. Throws InputError naming `origin` for a merge of or
  /// to a token that the vocabulary lacks.
  BpeMerges(const MergeList &list, const Vocabulary &vocabulary,
            const std::string &origin);

  /// Merges the first tokens of a piece, always the pair that was learned
  /// earliest, leftmost first, and appends what is left to `ids`. Takes
  /// n log n also for a piece as long as the text.
  void apply(std::span<const int32_t> first, std::vector<int32_t> &ids) const;

  /// Throws InputError where more than a tenth of the vocabulary comes from no
  /// merge and is neither a character, nor one of `added`, nor of the form of
  /// `<s>`: a list that was cut short, with which texts would fall into
  /// characters.
  void expectComplete(const Vocabulary &vocabulary,
                      const std::vector<AddedToken> &added,
                      const std::string &origin) const;

  struct Merge {
    int32_t left, right, result;
  };
  /// Every merge of the list, in its order.
  const std::vector<Merge> &all() const { return learned; }

private:
  /// Of the table: which merge, and some bits of its pair's hash. -1: nothing.
  struct Slot {
    uint32_t hash = 0;
    int32_t rank = -1;
  };

  void index();
  const Merge *find(int32_t left, int32_t right) const;
  void applyShort(std::span<const int32_t> first,
                  std::vector<int32_t> &ids) const;

  std::vector<Merge> learned; ///< the earlier, the lower its address
  /// Open addressing, at most half full: encoding is mostly looking up here.
  std::vector<Slot> slots; ///< as many as a power of two
};

/// The `merges` of a tokenizer.json: pairs, or texts with a space between the
/// two. They are views of `model`. Throws InputError.
MergeList readMerges(const nlohmann::json &model, const std::string &origin);

/// The added tokens of a tokenizer.json, put into the vocabulary; longest
/// first. Throws InputError.
std::vector<AddedToken> readAddedTokens(const nlohmann::json &root,
                                        Vocabulary &vocabulary,
                                        const std::string &origin);

/// Takes from added tokens those that are looked for in what a normalizer makes
/// of a text, and gives them as it makes them. One of which it leaves nothing
/// is in no text.
template <typename Normalize>
std::vector<AddedToken> takeNormalized(std::vector<AddedToken> &added,
                                       Normalize normalize) {
  std::vector<AddedToken> others, normalized;
  for (AddedToken &token : added) {
    if (token.normalized)
      token.text = normalize(token.text);
    if (!token.text.empty())
      (token.normalized ? normalized : others).push_back(std::move(token));
  }
  added = std::move(others);
  return normalized;
}

/// The tokens that a tokenizer.json puts before a text (`post_processor`), such
/// as `<s>`. Throws InputError naming `origin` for ids that no token has.
std::vector<int32_t> readBegin(const nlohmann::json &root,
                               const Vocabulary &vocabulary,
                               const std::string &origin);

/// The id that a `model` gives to its unknown token; -1 without one.
int32_t unknownOf(const nlohmann::json &model, const Vocabulary &vocabulary);

/// The tokens of `<0x00>`, ..., or nothing unless there are all of them.
std::vector<int32_t> byteTokens(const Vocabulary &vocabulary);

/// Where the white space that begins at `at` ends, and where that begins that
/// ends at `end`, not before `at`.
size_t skipSpace(std::string_view text, size_t at);
size_t skipSpaceBack(std::string_view text, size_t at, size_t end);

/// Cuts a text at added tokens: appends the id of each to `ids`, and calls
/// `plain(text, offset)` for what lies between.
template <typename Plain>
void cutAtTokens(std::string_view text, const std::vector<AddedToken> &tokens,
                 std::vector<int32_t> &ids, Plain plain) {
  // Where each token comes next; looked for again only behind it, so that many
  // of them take no longer than one.
  std::vector<size_t> next(tokens.size(), 0);
  bool isFirst = true;
  for (size_t at = 0; at < text.size();) {
    size_t found = text.size(), which = 0;
    for (size_t i = 0; i < tokens.size(); ++i) {
      if (isFirst || next[i] < at)
        next[i] = std::min(text.find(tokens[i].text, at), text.size());
      if (next[i] < found) {
        found = next[i];
        which = i;
      }
    }
    isFirst = false;
    bool isToken = found < text.size();
    size_t end = isToken && tokens[which].stripsLeft
                     ? skipSpaceBack(text, at, found)
                     : found;
    if (end > at)
      plain(text.substr(at, end - at), at);
    if (!isToken)
      return;
    ids.push_back(tokens[which].id);
    at = found + tokens[which].text.size();
    if (tokens[which].stripsRight)
      at = skipSpace(text, at);
  }
}

} // namespace tfm

#endif // TFM_RUNTIME_TOKENIZER_BPE_MERGES_H
