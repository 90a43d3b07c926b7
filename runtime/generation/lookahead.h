//===- lookahead.h - tokens that may come next ----------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_RUNTIME_GENERATION_LOOKAHEAD_H
#define TFM_RUNTIME_GENERATION_LOOKAHEAD_H

#include <cstdint>
#include <span>
#include <vector>

namespace tfm {

/// Appends to `to` what followed the last time that a text went on as it does
/// now: `most` tokens behind the longest part of `text` that equals its end, of
/// those parts the last one, as if the text went on like that beyond its end.
/// Nothing where fewer than three tokens are equal. (Prompt lookup decoding,
/// Saxena 2023.)
void lookUp(std::span<const int32_t> text, size_t most,
            std::vector<int32_t> &to);

/// Keeps account of what looking ahead costs and brings, so that a text that
/// does not repeat itself does not wait for it: where it has cost more than it
/// saved, nothing is proposed for a while, each time a longer one.
class LookaheadAccount {
public:
  /// Whether to propose something for the next token.
  bool wants();
  /// A token took so long by itself, with its draw.
  void plain(double seconds);
  /// `tokens` tokens took so long together, with proposals that were right and
  /// wrong.
  void ahead(double seconds, size_t tokens);

private:
  /// Of a token by itself, on average; 0: unknown.
  double usual = 0;
  /// Saved so far, in tokens by themselves. There is something to begin with,
  /// and never so much that a text pays for long with what it once saved.
  double saved = 1;
  /// For how many tokens nothing is proposed, and how many it is next time.
  int64_t pause = 0, nextPause = 32;
};

} // namespace tfm

#endif // TFM_RUNTIME_GENERATION_LOOKAHEAD_H
